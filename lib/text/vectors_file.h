/* vectors_file (private): what the files of vectors share, those of word2vec and of fastText. It is defined in
 * words_vectors.c. */
#ifndef TG_TEXT_VECTORS_FILE_H
#define TG_TEXT_VECTORS_FILE_H

#include <tapegrad/extend.h>

#include "text/words.h"

#define VECTORS_PIECE ((size_t)1 << 18)
#define VECTORS_LONGEST_WORD ((size_t)65535)

/* A file that is read in pieces: bytes[begin .. end) are next. */
typedef struct tg_vectors_reader {
    tg_file file;
    uint64_t offset; /* of `end` in the file */
    size_t begin, end;
    char *bytes; /* VECTORS_PIECE */
    int64_t rows, width, row;
    bool failed; /* fastText: a call has failed, and set the error */
    tg_error *error;
} tg_vectors_reader;

/* Sets a FORMAT error that names the word of the row. Returns false. */
bool tg_vectors_fail(const tg_vectors_reader *r, const char *problem);

/* Reads on until `needed` <= VECTORS_PIECE bytes are next, or all that the file has. */
bool tg_vectors_reserve(tg_vectors_reader *r, size_t needed);

/* Adds the word of the row, which must be a new one. */
bool tg_vectors_add_word(tg_vectors_reader *r, tg_words *words, const char *text, size_t length);

/* Takes the values of a row: floats in little-endian order. */
bool tg_vectors_take_floats(tg_vectors_reader *r, float *values);

/* Adds the bytes of a float in little-endian order. */
void tg_vectors_add_float(tg_text_buffer *text, float value);

/* Writes the buffer to the file, and empties it. */
bool tg_vectors_write(tg_file_writer *file, tg_text_buffer *text, tg_error *error);

#endif
