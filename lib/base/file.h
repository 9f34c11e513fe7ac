/* file (private): reading at an offset, and replacing a file as a whole.
 *
 * Messages begin with the name of the public call and have the path: "params_save: write 'model.safetensors': No space
 * left on device".
 */
#ifndef TG_BASE_FILE_H
#define TG_BASE_FILE_H

#include "base/error.h"

/* ---- reading ---- */

/* An open file. `call` and `path` are borrowed, for messages. */
typedef struct tg_file {
    const char *call, *path;
    int descriptor;
    uint64_t size;     /* in bytes, when the file was opened */
    const char *bytes; /* the contents, borrowed, if they are in memory; else NULL */
} tg_file;

/* Opens a regular file. After true, call tg_file_close. */
bool tg_file_open(tg_file *file, const char *call, const char *path, tg_error *error);
void tg_file_close(tg_file *file);

/* The same for a file whose contents are in memory. Messages have `name` instead of a path. */
void tg_file_open_bytes(tg_file *file, const char *call, const char *name, const char *bytes, uint64_t size);

/* Reads exactly `length` bytes from `offset` on. FORMAT if the file ends before. */
bool tg_file_read(const tg_file *file, uint64_t offset, void *out, size_t length, tg_error *error);

/* Reads a whole file into a text that ends with a NUL, for tg_free, and writes its size, without the NUL, to `length`,
 * which is optional. FILE if it is not a regular file. */
char *tg_file_read_text(const char *call, const char *path, size_t *length, tg_error *error);

/* ---- writing ---- */

/* Writes a new file beside the target and renames it to the target at the end. So readers get either the old file or
 * the new one, also after a failure or a crash. A symbolic link is followed. A target that exists keeps its mode. FILE
 * if the target is not a regular file, and for every error of the system. */
typedef struct tg_file_writer {
    const char *call, *path; /* borrowed, for messages */
    char *target;            /* the path without symbolic links in its last part */
    char *temporary;
    int descriptor;
    char *bytes; /* where the contents go if they stay in memory; else NULL */
} tg_file_writer;

/* After true, call commit or abandon. Both free the writer. If commit fails, the target is unchanged, with one
 * exception: the last step writes the folder to the disk, and its error reports that the new file is in use. */
bool tg_file_writer_begin(tg_file_writer *writer, const char *call, const char *path, tg_error *error);
bool tg_file_writer_write(tg_file_writer *writer, const void *bytes, size_t length, tg_error *error);
bool tg_file_writer_commit(tg_file_writer *writer, tg_error *error);
void tg_file_writer_abandon(tg_file_writer *writer);

/* Begins to write to `bytes`, which have the capacity of all that will be written. Needs no commit. */
void tg_file_writer_begin_bytes(tg_file_writer *writer, const char *call, char *bytes);

/* Continues to write at another offset. */
bool tg_file_writer_seek(tg_file_writer *writer, uint64_t offset, tg_error *error);

/* Opens the temporary file of another process's writer. After true, call leave, which flushes it to the disk. */
bool tg_file_writer_join(tg_file_writer *writer, const char *call, const char *path, const char *temporary,
                         tg_error *error);
bool tg_file_writer_leave(tg_file_writer *writer, tg_error *error);

/* Replaces a file by `length` bytes. */
bool tg_file_replace(const char *call, const char *path, const void *bytes, size_t length, tg_error *error);

#endif
