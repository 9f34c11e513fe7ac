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

/* Cuts the first piece off a text in memory: about TG_PIECE_BYTES, more if there is no place for a cut. Begin with the
 * whole text as *rest. */
tg_piece tg_piece_cut(tg_pipeline *walk, tg_piece *rest);

/* Reads files in pieces. */
typedef struct tg_piece_reader {
    const char *call; /* for messages */
    const char *const *paths;
    int64_t count, index;      /* of the files, and of the file that is open */
    const tg_tokenizer *added; /* no cut divides one of its added tokens; NULL: there are none */
    tg_file file;
    uint64_t offset;      /* of the next piece in the file */
    uint64_t done, total; /* bytes of all files */
} tg_piece_reader;

/* Checks that all files can be opened, and adds up their sizes. After true, call tg_piece_reader_end. */
bool tg_piece_reader_begin(tg_piece_reader *reader, const char *call, const char *const *paths, int64_t count,
                           const tg_tokenizer *added, tg_error *error);
void tg_piece_reader_end(tg_piece_reader *reader);

/* Reads the next piece into `bytes`, which has room for TG_PIECE_BYTES. An empty file is one empty piece. Returns 1, 0
 * after the last piece, and -1 after an error. */
int tg_piece_read(tg_piece_reader *reader, tg_pipeline *walk, char *bytes, tg_piece *piece, tg_error *error);

#endif
