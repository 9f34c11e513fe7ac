/* 01: from text to words, from words to ids. The chapter's first tokenizer, which knows whole words only.
 *
 * A text is split at white space and at punctuation, and the pieces are kept. The sorted set of pieces is the vocabulary, and
 * a piece's place in it is its id. What is not in the vocabulary has no id: <|unk|> stands for it.
 */
#include <stdlib.h>
#include <string.h>

#include "chapter.h"

#define MAX_WORDS 20000

typedef struct words {
    char *word[MAX_WORDS];
    int count;
} words;

/* Python's re.split with a group: separators are pieces too. `marks` are the single characters that separate, besides white
 * space; with `dashes` so does "--". Empty pieces are kept where two separators meet, unless `tidy`, which also drops white
 * space. */
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
        if ((at > begin || !tidy) && w->count < MAX_WORDS) {
            w->word[w->count++] = strndup(begin, (size_t)(at - begin));
        }
        if (!*at) {
            return;
        }
        if (!(tidy && space) && w->count < MAX_WORDS) {
            w->word[w->count++] = strndup(at, separator);
        }
        begin = at + separator;
        at = begin - 1;
    }
}

static void print_words(const words *w, int count)
{
    printf("[");
    for (int i = 0; i < count; i++) {
        bool quote = strchr(w->word[i], '\'');
        printf("%s%c%s%c", i ? ", " : "", quote ? '"' : '\'', w->word[i], quote ? '"' : '\'');
    }
    printf("]\n");
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static words make_vocabulary(const words *text)
{
    words sorted = *text, vocabulary = {.count = 0};
    qsort(sorted.word, (size_t)sorted.count, sizeof *sorted.word, compare);
    for (int i = 0; i < sorted.count; i++) {
        if (i == 0 || strcmp(sorted.word[i], sorted.word[i - 1])) {
            vocabulary.word[vocabulary.count++] = sorted.word[i];
        }
    }
    return vocabulary;
}

static void print_entries(const words *vocabulary, int begin, int end)
{
    for (int i = begin; i < end; i++) {
        bool quote = strchr(vocabulary->word[i], '\'');
        printf("(%c%s%c, %d)\n", quote ? '"' : '\'', vocabulary->word[i], quote ? '"' : '\'', i);
    }
}

static const char marks[] = ",.:;?_!\"()'";

static int encode(const words *vocabulary, const char *text, int32_t *ids)
{
    static words w;
    split(text, marks, true, true, &w);
    for (int i = 0; i < w.count; i++) {
        ids[i] = -1;
        for (int k = 0; k < vocabulary->count; k++) {
            if (strcmp(vocabulary->word[k], w.word[i]) == 0 ||
                (ids[i] < 0 && strcmp(vocabulary->word[k], "<|unk|>") == 0)) {
                ids[i] = k;
            }
        }
    }
    return w.count;
}

/* Words with spaces between them, but none before punctuation. */
static void print_decoded(const words *vocabulary, const int32_t *ids, int count)
{
    for (int i = 0; i < count; i++) {
        const char *word = vocabulary->word[ids[i]];
        bool punctuation = strlen(word) == 1 && strchr(",.?!\"()'", word[0]);
        printf("%s%s", i && !punctuation ? " " : "", word);
    }
    printf("\n");
}

int main(int argc, char **argv)
{
    static words w, text;
    size_t length;
    char *raw = book_text(book_folder(argc, argv), &length);

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

    words vocabulary = make_vocabulary(&text);
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

    vocabulary.word[vocabulary.count++] = strdup("<|endoftext|>");
    vocabulary.word[vocabulary.count++] = strdup("<|unk|>");
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
    return 0;
}
