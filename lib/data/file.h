/* file (private): reads the texts of files. */
#ifndef TG_DATA_FILE_H
#define TG_DATA_FILE_H

#include <tapegrad/data.h>

#include "base/file.h"

/* tg_text_read for another public function, `call`, with which messages begin. */
char *tg_text_read_for(const char *call, const char *path, size_t *length, tg_error *error);

#endif
