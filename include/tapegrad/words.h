/* words: a vocabulary whose tokens are whole words, beside the byte pairs of tokenizer.h. It needs no PCRE2.
 * Library: tapegrad_text (pkg-config tapegrad_text).
 *
 * ```c
 * tg_words *words = tg_words_new(text, length, NULL, &error);
 * tg_tokens tokens;
 * tg_words_encode(words, text, length, &tokens, &error);
 * for (int64_t i = 0; i < tokens.count; i++) {
 *     printf("%d %s\n", tokens.ids[i], tg_words_at(words, tokens.ids[i]));
 * }
 * tg_words_save(words, "vocabulary.txt", &error);                     // one word per line
 * ```
 *
 * White space is that of Python's str.isspace. It separates words and belongs to none.
 *
 * Errors. A text must be UTF-8 without a NUL: FORMAT, with the offset of the byte. The comments do not repeat this one,
 * nor three others: MEMORY; FILE, of a call that takes a path; and STATE for a NULL.
 */
#ifndef TAPEGRAD_WORDS_H
#define TAPEGRAD_WORDS_H

#include <tapegrad/tensor.h>
#include <tapegrad/tokenizer.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tg_words tg_words;

/* How a text becomes words. */
typedef enum tg_word_split {
    /* The rule of the book's chapter 2: each of , . : ; ? _ ! " ( ) ' is a word, and so is --. The other words are
     * what these and white space separate. */
    TG_WORD_SPLIT_PUNCTUATION,
    /* what is between white space: Python's str.split() */
    TG_WORD_SPLIT_SPACE
} tg_word_split;

/* The order of the ids. */
typedef enum tg_word_order {
    /* the most frequent word first, and equally frequent words by their bytes: torchtext's build_vocab_from_iterator */
    TG_WORD_ORDER_FREQUENCY,
    /* by the bytes of the words: Python's sorted(), and the order of the book's chapter 2 */
    TG_WORD_ORDER_BYTES
} tg_word_order;

typedef struct tg_words_config {
    /* private: tg_words_config_default() sets it */
    tg_config_mark mark;
    /* default TG_WORD_SPLIT_PUNCTUATION */
    tg_word_split split;
    /* the token that replaces a word outside of the vocabulary. With NULL such a word is an error. Default "<|unk|>" */
    const char *unknown;

    /* The fields below have no effect in tg_words_open. */
    /* default TG_WORD_ORDER_FREQUENCY */
    tg_word_order order;
    /* the smallest frequency of a word, at least 1; rarer words are left out; default 1 */
    int64_t min_count;
    /* the largest number of ids, special tokens included; the most frequent words stay. Default INT32_MAX */
    int32_t vocabulary;
    /* Tokens that are in the vocabulary whatever the text is: "[MASK]", "<|endoftext|>". The first has id 0, and
     * `unknown` the id after the last, unless it is one of them. Each must be a single word of `split`. Default NULL */
    const char *const *special;
    /* the number of these tokens, which must be set with them; default 0 */
    int special_count;
    /* whether the special tokens have the last ids, as in the book, and not the first ones; default false */
    bool special_last;
} tg_words_config;

TG_API tg_words_config tg_words_config_default(void);

/* Returns the vocabulary of a text of `length` bytes. Yours to free. VALUE for an invalid field: `special` without
 * special_count or the reverse, a special token that is not a single word or is given twice, a min_count below 1, and a
 * vocabulary without an id for each special token. */
TG_API tg_words *tg_words_new(const char *text, size_t length, const tg_words_config *config, tg_error *error);

/* Opens a file with one word per line, whose ids are 0, 1, 2, ...: the files of tg_words_save, and those of torchtext
 * and BERT. Yours to free. Lines end with LF, behind white space that does not count, and a byte-order mark and blank
 * lines at the end are skipped. FORMAT, with the line, for another empty line, a word that an earlier line has, white
 * space of ASCII inside a line, a NUL, and bytes that are not UTF-8. FORMAT also for a file without the token
 * `unknown`. */
TG_API tg_words *tg_words_open(const char *path, const tg_words_config *config, tg_error *error);

/* Writes the words to a file, one per line, in the order of their ids. VALUE for a word with white space of ASCII; only
 * files of vectors have such words. */
TG_API bool tg_words_save(const tg_words *words, const char *path, tg_error *error);
TG_API void tg_words_free(tg_words *words);

/* Returns the number of ids. */
TG_API int32_t tg_words_vocabulary(const tg_words *words);

/* Returns the id of a word, or -1 if it is not in the vocabulary, which then encodes it as `unknown`. */
TG_API int32_t tg_words_find(const tg_words *words, const char *word);

/* Returns the word of an id, borrowed; NULL for an id that does not exist. */
TG_API const char *tg_words_at(const tg_words *words, int32_t id);

/* Encodes a text of `length` bytes into ids, which are yours (tg_tokens_free). The text of a special token is a word
 * like any other. RANGE, with its offset, for a word outside of a vocabulary without an unknown token. After an error
 * *tokens is empty. */
TG_API bool tg_words_encode(const tg_words *words, const char *text, size_t length, tg_tokens *tokens, tg_error *error);

/* Decodes `count` ids into a text that ends with a NUL; yours (tg_text_free). A space stands before each word, except
 * before the first. With TG_WORD_SPLIT_PUNCTUATION no space stands before words that begin with one of , . ? ! " ( ) ',
 * as in the book. Writes the size in bytes to `length`, which is optional. RANGE, with the index, for an id that does
 * not exist. */
TG_API char *tg_words_decode(const tg_words *words, const int32_t *ids, int64_t count, size_t *length, tg_error *error);

/* ---- the vectors of words: the files of word2vec (Mikolov et al. 2013), which gensim opens, and of GloVe --------- */
/* A file begins with a line "V C", the numbers of words and of values. Then each word is followed by its C values.
 * GloVe (Pennington et al. 2014) writes texts without that line. */

typedef enum tg_vectors_format {
    /* one line per word: the word and its values in decimal, with a space before each */
    TG_VECTORS_TEXT,
    /* the word, a space, the values as floats of 4 bytes in little-endian order, and a newline, which a file may leave
     * out */
    TG_VECTORS_BINARY
} tg_vectors_format;

/* Writes the words with the ids 0 to V - 1 and their vectors, the rows of a tensor (V,C) of floats, C >= 1.
 * Further words, such as an unknown token with the last id, are left out. The text has as many digits as a float needs.
 * DTYPE; SHAPE for more rows than words; VALUE for a format that does not exist. */
TG_API bool tg_words_save_vectors(const tg_words *words, const tg_tensor *vectors, const char *path,
                                  tg_vectors_format format, tg_error *error);

/* Opens such a file. Returns its words, and writes their vectors (V,C), f32, to *vectors; both are yours. NULL in both
 * after an error.
 *
 * A text whose first line is not two whole numbers is one of GloVe: each line has a word and its values, at least 2.
 * A space ends a word, and no other white space does: a tab or U+00A0 belongs to the word, as in gensim. Lines end with
 * LF or CR LF. A byte-order mark and blank lines at the end are skipped.
 *
 * FORMAT, with the number of the word, for a file that ends early or has more than V words, for a line with another
 * number of values, for what is no number, for a word that is not UTF-8, empty, above 65535 bytes, with a NUL, or one
 * that an earlier row has; and for numbers V and C that do not fit the size of the file. The memory is at most twice
 * the size of the file. */
TG_API tg_words *tg_words_open_vectors(const char *path, tg_vectors_format format, tg_tensor **vectors,
                                       tg_error *error);

/* ---- words and their n-grams: fastText (Bojanowski et al. 2017) -------------------------------------------------- */
/* The vector of a word is the mean of a row of its own and of the rows of its n-grams: the parts of <word> that have
 * `shortest` to `longest` characters. So a word that no text had has a vector, too. One table has all rows: first those
 * of the V words, and then `buckets` rows, into which the n-grams are hashed.
 *
 * ```c
 * tg_words *words = tg_words_new(text, length, NULL, &error);
 * int64_t counts[100] = {0};                                   // how often the text has each word; for files alone
 * tg_subwords_config config = tg_subwords_config_default();
 * config.buckets = 1000;
 * tg_subwords *subwords = tg_subwords_new(words, counts, tg_words_vocabulary(words), &config, &error);
 * tg_tensor *table = tg_params_add_normal(params, "words", TG_SHAPE(tg_subwords_rows(subwords), 4), 0, 1);
 * float vector[4];
 * tg_subwords_vector(subwords, table, "catlike", vector, &error); // the text does not have this word
 * tg_subwords_free(subwords);
 * tg_words_free(words);
 * ```
 *
 * A model is trained by tg_embedding_bag over the rows of its words (examples/word_vectors). The text of vectors that
 * fastText calls .vec is one of TG_VECTORS_TEXT. */

typedef struct tg_subwords tg_subwords;

typedef struct tg_subwords_config {
    /* private: tg_subwords_config_default() sets it */
    tg_config_mark mark;
    /* the smallest number of characters of an n-gram, fastText's minn; 0 is 1; default 3 */
    int32_t shortest;
    /* the largest one, maxn; with 0 words have no n-grams; default 6 */
    int32_t longest;
    /* the number of rows for n-grams, 0 only without n-grams; default 2000000 */
    int32_t buckets;

    /* The fields below only go into files, for programs that continue a training. */
    /* the number of words on each side of a word that are its context; default 5 */
    int32_t window;
    /* default 5 */
    int32_t epochs;
    /* the smallest frequency of a word; default 5 */
    int32_t min_count;
    /* the number of negatives; default 5 */
    int32_t negatives;
    /* the threshold above which frequent words are left out at random, 0 for none; default 0 */
    double sample;
} tg_subwords_config;

TG_API tg_subwords_config tg_subwords_config_default(void);

/* Returns the n-grams of the words with the ids 0 to `vocabulary` - 1, which are copied; yours to free. `counts` has
 * how often the text has each of them. VALUE for a vocabulary of more words than there are, negative numbers, a
 * shortest n-gram that is longer than the longest, n-grams without buckets, and more than INT32_MAX rows. */
TG_API tg_subwords *tg_subwords_new(const tg_words *words, const int64_t *counts, int32_t vocabulary,
                                    const tg_subwords_config *config, tg_error *error);
TG_API void tg_subwords_free(tg_subwords *subwords);

/* Returns the words, borrowed. */
TG_API const tg_words *tg_subwords_words(const tg_subwords *subwords);

/* Returns the number of rows of the table: of words, and of n-grams. */
TG_API int64_t tg_subwords_rows(const tg_subwords *subwords);

/* Writes the rows of a word, which are yours (tg_tokens_free): its own, if it is in the vocabulary, and one for each
 * n-gram, by their first characters and then by their lengths. As in fastText, < and > alone are no n-grams, and the
 * word </s>, the end of a line, has none. RANGE for a word that is not in the vocabulary and has no n-grams. After an
 * error *rows is empty. */
TG_API bool tg_subwords_encode(const tg_subwords *subwords, const char *word, tg_tokens *rows, tg_error *error);

/* Writes the vector of a word, the mean of its rows in the table, to an array of C floats. The table is
 * (tg_subwords_rows,C) f32. DTYPE; SHAPE; RANGE as for tg_subwords_encode. */
TG_API bool tg_subwords_vector(const tg_subwords *subwords, const tg_tensor *table, const char *word, float *vector,
                               tg_error *error);

/* Writes a model as fastText's .bin, which fastText and gensim's load_facebook_model open: the words, the table, and
 * the vectors of the words as contexts, (V,C) f32. DTYPE; SHAPE. */
TG_API bool tg_subwords_save(const tg_subwords *subwords, const tg_tensor *table, const tg_tensor *contexts,
                             const char *path, tg_error *error);

/* Opens such a file, of version 11 or 12. Returns its words, and writes the table and the contexts, all of which are
 * yours. NULL in all of them after an error. A word may have bytes that are not UTF-8, as in some published models.
 *
 * FORMAT for another file, a file that ends early or goes on, one with labels or one that is quantized (.ftz), equal or
 * empty words, and words above 65535 bytes; and for numbers that do not fit together or the size of the file, before
 * memory is taken for them. */
TG_API tg_subwords *tg_subwords_open(const char *path, tg_tensor **table, tg_tensor **contexts, tg_error *error);

#ifdef __cplusplus
}
#endif

#endif
