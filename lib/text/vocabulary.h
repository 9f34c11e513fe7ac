/* vocabulary (private): reads and writes the files of vocabularies.
 *
 * Four formats have the same tables in other words:
 *   vocab.bpe       vocabulary_merges.c   merges in the order of their ranks; ids follow from the order
 *   encoder.json    vocabulary_json.c     the ids of the tokens, beside vocab.bpe
 *   tokenizer.json  vocabulary_json.c     ids, merges and added tokens (Hugging Face)
 *   *.tiktoken      vocabulary_ranks.c    tokens in base64 and their ranks, which are their ids (OpenAI)
 *
 * The first two and tokenizer.json write bytes as characters: a printable byte is itself, and the other 68 bytes are
 * U+0100, U+0101, ... in ascending order. So a space is U+0120.
 *
 * Memory. A reader takes at most 24 times the size of the file and 1 MiB.
 */
#ifndef TG_TEXT_VOCABULARY_H
#define TG_TEXT_VOCABULARY_H

#include <tapegrad/extend.h>
#include "text/tokenizer.h"

/* The largest file of a vocabulary, in bytes: positions have 32 bits. */
#define TG_VOCABULARY_BYTES ((size_t)1 << 30)

/* The most bytes of a token in a file of ranks, because the encoder's memory for a token is about 80 times its size. */
#define TG_LONGEST_RANKED 8192

/* A file that is read. The readers decode its text where it stands. */
typedef struct tg_vocabulary {
    const char *call, *path; /* for messages */
    char *text;
    size_t length;
    tg_tokenizer *z;
    char *copy; /* of the text, as it was read; later a buffer for the bytes of a merge */
    tg_error *error;
} tg_vocabulary;

/* Set the error. Return false. */
bool tg_vocabulary_fail(const tg_vocabulary *v, size_t line, const char *format, ...) TG_PRINTF_LIKE(3, 4);
bool tg_vocabulary_out_of_memory(const tg_vocabulary *v);

/* ---- bytes as characters ---- */

/* Returns the byte of a character (tg_character_of_byte), or -1. */
int tg_byte_of_character(unsigned character);

/* Writes the bytes of a token to `out`, which may be `text`. Returns their number, or SIZE_MAX if a character is not
 * that of a byte. */
size_t tg_vocabulary_decode(const char *text, size_t length, char *out);

/* ---- tokens by their bytes ---- */

/* Sets the ids of the 256 bytes. Returns the first byte that is no token, or -1. */
int tg_vocabulary_find_bytes(tg_vocabulary *v);

/* Adds a merge of two tokens that are written in the file. Its result is a new token, or with `has_ids` the token with
 * its bytes. `problem` receives an error without the position: FORMAT or MEMORY. */
bool tg_vocabulary_merge(tg_vocabulary *v, const char *left, size_t left_length, const char *right, size_t right_length,
                         bool has_ids, tg_error *problem);

/* ---- readers: they fill v->z, or set the error and return false ---- */

/* Returns whether a text that is not JSON begins as a file of merges does: with "#version", or with a merge of two
 * bytes. In a file of ranks the first token has at least four characters. */
bool tg_vocabulary_is_merges(const char *text);

/* With `has_ids` the tokens exist already. */
bool tg_vocabulary_read_merges(tg_vocabulary *v, bool has_ids);
bool tg_vocabulary_read_ranks(tg_vocabulary *v, const tg_tokenizer_open_config *config);
bool tg_vocabulary_read_json(tg_vocabulary *v);

/* Reads encoder.json, whose text is in `ids`. */
bool tg_vocabulary_read_ids(tg_vocabulary *v, tg_json *ids);

#endif
