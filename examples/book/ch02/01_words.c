/* 01: a text as words, and words as ids: the chapter's first tokenizer, whose tokens are whole words.
 *
 * The text is split at white space and at punctuation. Words and punctuation marks are tokens. The vocabulary is the
 * sorted set of tokens, and the id of a token is its index. A token that is not in the vocabulary becomes <|unk|>.
 */
#include <stdlib.h>
#include <string.h>

#include "../book.h"

#define MAX_WORDS 20000

/* A word or a punctuation mark: a part of the text, which is not copied. */
typedef struct word {
    const char *text;
    int length;
} word;

typedef struct words {
    word word[MAX_WORDS];
    int count;
} words;

static void add(words *w, const char *text, size_t length)
{
    if (w->count < MAX_WORDS) {
        w->word[w->count++] = (word){text, (int)length};
    }
}

/* Splits a text as Python's re.split does with a group: the separators are pieces, too. Separators are white space, the
 * characters of `marks`, and "--" if `dashes` is set. Between two adjacent separators there is an empty piece. `tidy`
 * removes empty pieces and white space. */
static void split(const char *text, const char *marks, bool dashes, bool tidy, words *w)
{
    const char *begin = text;
    w->count = 0;
    for (const char *at = text;; at++) {
        bool space = *at && strchr(" \t\n\r\f\v", *at);
        size_t separator = dashes && at[0] == '-' && at[1] == '-' ? 2 : *at && (space || strchr(marks, *at)) ? 1 : 0;
        if (*at && !separator) {
            continue;
        }
        if (at > begin || !tidy) {
            add(w, begin, (size_t)(at - begin));
        }
        if (!*at) {
            return;
        }
        if (!(tidy && space)) {
            add(w, at, separator);
        }
        begin = at + separator;
        at = begin - 1;
    }
}

/* Prints a word in quotes, as Python prints a string in a list. */
static void print_word(word w)
{
    char quote = memchr(w.text, '\'', (size_t)w.length) ? '"' : '\'';
    printf("%c%.*s%c", quote, w.length, w.text, quote);
}

static void print_words(const words *w, int count)
{
    for (int i = 0; i < count; i++) {
        printf(i ? ", " : "[");
        print_word(w->word[i]);
    }
    printf("]\n");
}

static void print_entries(const words *vocabulary, int begin, int end)
{
    for (int i = begin; i < end; i++) {
        printf("(");
        print_word(vocabulary->word[i]);
        printf(", %d)\n", i);
    }
}

/* Compares bytes, as Python's sort does: a prefix of a word comes before the word. */
static int compare(const void *a, const void *b)
{
    const word *x = a, *y = b;
    int order = memcmp(x->text, y->text, (size_t)(x->length < y->length ? x->length : y->length));
    return order ? order : x->length - y->length;
}

static void make_vocabulary(words *text, words *vocabulary)
{
    *vocabulary = *text;
    qsort(vocabulary->word, (size_t)vocabulary->count, sizeof(word), compare);
    int distinct = 0;
    for (int i = 0; i < vocabulary->count; i++) {
        if (i == 0 || compare(&vocabulary->word[i], &vocabulary->word[distinct - 1])) {
            vocabulary->word[distinct++] = vocabulary->word[i];
        }
    }
    vocabulary->count = distinct;
}

static const char marks[] = ",.:;?_!\"()'";

/* Returns the id of a word. A word that is not in the vocabulary gets the last id, which must be that of <|unk|>. */
static int32_t id_of(const words *vocabulary, word w)
{
    for (int32_t id = 0; id < vocabulary->count; id++) {
        if (compare(&vocabulary->word[id], &w) == 0) {
            return id;
        }
    }
    return vocabulary->count - 1;
}

static int encode(const words *vocabulary, const char *text, int32_t *ids)
{
    static words w;
    split(text, marks, true, true, &w);
    for (int i = 0; i < w.count; i++) {
        ids[i] = id_of(vocabulary, w.word[i]);
    }
    return w.count;
}

/* Prints the words with a space before each, except before punctuation. */
static void print_decoded(const words *vocabulary, const int32_t *ids, int count)
{
    for (int i = 0; i < count; i++) {
        word w = vocabulary->word[ids[i]];
        bool punctuation = w.length == 1 && strchr(",.?!\"()'", w.text[0]);
        printf("%s%.*s", i && !punctuation ? " " : "", w.length, w.text);
    }
    printf("\n");
}

int main(int argc, char **argv)
{
    static words w, text, vocabulary;
    size_t length;
    char *raw = book_text(book_folder(argc, argv, NULL), &length);

    cell(18);
    printf("Total number of character: %zu\n%.99s\n", length, raw);

    cell(20);
    split("Hello, world. This, is a test.", "", false, false, &w);
    print_words(&w, w.count);
    cell(22);
    split("Hello, world. This, is a test.", ",.", false, false, &w);
    print_words(&w, w.count);
    cell(24);
    split("Hello, world. This, is a test.", ",.", false, true, &w);
    print_words(&w, w.count);
    cell(26);
    split("Hello, world. Is this-- a test?", marks, true, true, &w);
    print_words(&w, w.count);

    split(raw, marks, true, true, &text);
    cell(29);
    print_words(&text, 30);
    cell(31);
    printf("%d\n", text.count);

    make_vocabulary(&text, &vocabulary);
    cell(36);
    printf("%d\n", vocabulary.count);
    cell(39);
    print_entries(&vocabulary, 0, 51);

    int32_t ids[100];
    int count =
        encode(&vocabulary,
               "\"It's the last he painted, you know,\"\n           Mrs. Gisburn said with pardonable pride.", ids);
    cell(47);
    print_ids(ids, count);
    cell(49);
    print_decoded(&vocabulary, ids, count);
    cell(50);
    print_decoded(&vocabulary, ids, count);

    add(&vocabulary, "<|endoftext|>", 13);
    add(&vocabulary, "<|unk|>", 7);
    cell(61);
    printf("%d\n", vocabulary.count);
    cell(62);
    print_entries(&vocabulary, vocabulary.count - 5, vocabulary.count);

    const char two[] = "Hello, do you like tea? <|endoftext|> In the sunlit terraces of the palace.";
    cell(66);
    printf("%s\n", two);
    cell(67);
    count = encode(&vocabulary, two, ids);
    print_ids(ids, count);
    cell(68);
    print_decoded(&vocabulary, ids, count);
    tg_text_free(raw);
    return book_end();
}
