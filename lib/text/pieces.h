/* pieces (private): texts of any size, one piece at a time.
 *
 * A text is cut only where a word surely ends (tg_pipeline_can_cut), so the words of the pieces are those of the
 * text.
 */
#ifndef TG_TEXT_PIECES_H
#define TG_TEXT_PIECES_H

#include <tapegrad/extend.h>
#include "text/tokenizer.h"

/* The most bytes of a piece of a file. */
#define TG_PIECE_BYTES ((size_t)1 << 20)

/* The most pieces that are worked on at a time, which bounds the memory on machines with many processors. */
#define TG_MOST_PIECES 32

/* Returns how many pieces the threads work on at a time. */
int tg_piece_slots(void);

typedef struct tg_piece {
    const char *text;
    size_t length;
    uint64_t offset;  /* of the piece in the whole text or file */
    const char *path; /* NULL: a text in memory */
    bool is_last;     /* the last piece of its text */
} tg_piece;

/* Checks that a piece is UTF-8. */
bool tg_piece_check(const char *call, const tg_piece *piece, tg_error *error);

/* Reads texts in pieces of about TG_PIECE_BYTES: files, or a text in memory, whose pieces are larger where there is no
 * place for a cut. */
typedef struct tg_piece_reader {
    const char *call; /* for messages */
    const char *text; /* in memory; NULL: files */
    const char *const *paths;
    int64_t count, index; /* of the files, and of the file that is open */
    tg_file file;
    uint64_t offset;      /* of the next piece in the text or file */
    uint64_t done, total; /* bytes of all */
    tg_pipeline walk;     /* finds cuts, which divide no word and no added token of a tokenizer */
    char *bytes;          /* of a piece for each thread */
} tg_piece_reader;

/* Checks that all files can be opened, and adds up their sizes. Call tg_piece_reader_end afterwards, in any case. */
bool tg_piece_reader_begin(tg_piece_reader *reader, const char *call, const tg_tokenizer *tokenizer,
                           const char *const *paths, int64_t count, tg_error *error);

/* Begins with a text in memory. */
bool tg_piece_reader_begin_text(tg_piece_reader *reader, const char *call, const tg_tokenizer *tokenizer,
                                const char *text, size_t length, tg_error *error);
void tg_piece_reader_end(tg_piece_reader *reader);

/* Reads a piece for each thread, tg_piece_slots() at most, which are valid until the next call. An empty file is one
 * empty piece. Returns their number, 0 after the last piece, and -1 after an error. */
int tg_pieces_read(tg_piece_reader *reader, tg_piece *pieces, tg_error *error);

#endif
