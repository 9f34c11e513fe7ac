/* 01: How does a text become numbers, and what becomes of a word that the vocabulary does not have? A text as words,
 * and words as ids: the chapter's first tokenizer, whose tokens are whole words.
 *
 * The text is split at white space and at punctuation, first step by step and then by tg_words_new. Words and
 * punctuation marks are tokens. The vocabulary is the sorted set of tokens, and the id of a token is its index. A token
 * that is not in the vocabulary becomes <|unk|>.
 */
#include <string.h>

#include "../book.h"

#define MAX_WORDS 20000

static const char all_marks[] = ",.:;?_!\"()'";

static tg_error error = TG_NO_ERROR;

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
    printf("%c", quote);
    print_text(stdout, w.text, (size_t)w.length);
    printf("%c", quote);
}

static void print_words(const words *w, int count)
{
    for (int i = 0; i < count && i < w->count; i++) {
        printf(i ? ", " : "[");
        print_word(w->word[i]);
    }
    printf("]\n");
}

static void print_entries(const tg_words *vocabulary, int32_t begin, int32_t end)
{
    for (int32_t id = begin < 0 ? 0 : begin; id < end && id < tg_words_vocabulary(vocabulary); id++) {
        const char *text = tg_words_at(vocabulary, id);
        printf("(");
        print_word((word){text, (int)strlen(text)});
        printf(", %d)\n", id);
    }
}

/* Prints the ids of a text, and returns them. */
static tg_tokens print_encoded(const tg_words *vocabulary, const char *text)
{
    tg_tokens tokens;
    tg_words_encode(vocabulary, text, strlen(text), &tokens, &error);
    check(&error);
    print_ids(tokens.ids, (int)tokens.count);
    return tokens;
}

/* Prints the words with a space before each, except before punctuation. */
static void print_decoded(const tg_words *vocabulary, const tg_tokens *tokens)
{
    char *text = tg_words_decode(vocabulary, tokens->ids, tokens->count, NULL, &error);
    print_line(stdout, "%s", text ? text : "");
    tg_text_free(text);
}

int main(int argc, char **argv)
{
    static words w, text;
    size_t length;
    const char *folder = book_folder(argc, argv, NULL);
    char *raw = book_text(folder, &length);
    question("How does a text become numbers, and what becomes of a word that the vocabulary does not have?");

    cell(18);
    printf("Total number of character: %zu\n", length);
    print_text(stdout, raw, strnlen(raw, 99));
    printf("\n");

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
    split("Hello, world. Is this-- a test?", all_marks, true, true, &w);
    print_words(&w, w.count);

    split(raw, all_marks, true, true, &text);
    cell(29);
    print_words(&text, 30);
    cell(31);
    printf("%d\n", text.count);

    /* the chapter's first tokenizer has no token for a word that it does not know */
    tg_words_config config = tg_words_config_default();
    config.order = TG_WORD_ORDER_BYTES;
    config.unknown = NULL;
    tg_words *vocabulary = tg_words_new(raw, length, &config, &error);
    cell(36);
    printf("%d\n", tg_words_vocabulary(vocabulary));
    cell(39);
    print_entries(vocabulary, 0, 51);

    cell(47);
    tg_tokens tokens = print_encoded(
        vocabulary, folder
                        ? "\"It's the last he painted, you know,\"\n           Mrs. Gisburn said with pardonable pride."
                        : "\"It's late,\" said the clock that had lost its hands.");
    cell(49);
    print_decoded(vocabulary, &tokens);
    cell(50);
    print_decoded(vocabulary, &tokens);
    tg_tokens_free(&tokens);
    tg_words_free(vocabulary);

    config.special = (const char *const[]){"<|endoftext|>"};
    config.special_count = 1;
    config.special_last = true;
    config.unknown = "<|unk|>";
    vocabulary = tg_words_new(raw, length, &config, &error);
    cell(61);
    printf("%d\n", tg_words_vocabulary(vocabulary));
    cell(62);
    print_entries(vocabulary, tg_words_vocabulary(vocabulary) - 5, tg_words_vocabulary(vocabulary));

    const char two[] = "Hello, do you like tea? <|endoftext|> In the sunlit terraces of the palace.";
    cell(66);
    printf("%s\n", two);
    cell(67);
    tokens = print_encoded(vocabulary, two);
    cell(68);
    print_decoded(vocabulary, &tokens);
    tg_tokens_free(&tokens);
    tg_words_free(vocabulary);
    tg_text_free(raw);
    check(&error);
    return book_end();
}
