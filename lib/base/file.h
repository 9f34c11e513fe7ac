/* file (private): what only the core does with the files of extend.h: contents in memory, and one file written by
 * several processes. */
#ifndef TG_BASE_FILE_H
#define TG_BASE_FILE_H

#include <tapegrad/extend.h>

#include "system/system.h"

/* Returns the first `length` bytes of a path followed by a name, for tg_free; NULL when memory is exhausted. */
char *tg_path_join(const char *folder, size_t length, const char *name);

/* tg_file_open for a file whose contents are in memory. Messages have `name` instead of a path. */
void tg_file_open_bytes(tg_file *file, const char *call, const char *name, const char *bytes, uint64_t size);

/* tg_file_open for a file that is opened in this way. */
bool tg_file_open_as(tg_file *file, const char *call, const char *path, tg_open_how how, tg_error *error);

/* Begins to write to `bytes`, which have the capacity of all that will be written. Needs no commit. */
void tg_file_writer_begin_bytes(tg_file_writer *writer, const char *call, char *bytes);

/* Continues to write at another offset. */
bool tg_file_writer_seek(tg_file_writer *writer, uint64_t offset, tg_error *error);

/* Opens the temporary file of another process's writer. After true, call leave, which flushes it to the disk. */
bool tg_file_writer_join(tg_file_writer *writer, const char *call, const char *path, const char *temporary,
                         tg_error *error);
bool tg_file_writer_leave(tg_file_writer *writer, tg_error *error);

#endif
