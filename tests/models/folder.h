/* folder: a folder of its own for the files of a model, for the group of a test program. */
#ifndef TESTS_MODELS_FOLDER_H
#define TESTS_MODELS_FOLDER_H

#include <stddef.h>

extern char folder[];

/* Create the folder, and remove it with its files; for cmocka_run_group_tests. Return 0 if that was possible: a test
 * that leaves a file with another name fails. */
int folder_begin(void **state);
int folder_end(void **state);

/* Returns the path of a file, valid until the next call. */
const char *in_folder(const char *name);

/* Replaces a file by these bytes, or by a text. */
void write_bytes(const char *name, const char *bytes, size_t length);
void write_text(const char *name, const char *text);

#endif
