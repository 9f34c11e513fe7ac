/* program: what an example program needs around its subject: complaints, a progress line, folders, readable tokens. */
#ifndef PROGRAM_H
#define PROGRAM_H

#include <stdio.h>

#include <tapegrad.h>

/* Each program says who it is; its messages begin with it. */
extern const char program_name[];

/* "program: ..." and a newline to stderr. Returns false, so that a check can end with `return complain(...)`. */
bool complain(const char *format, ...) TG_PRINTF_LIKE(1, 2);

/* Seconds of a clock that only goes forward. */
double seconds(void);

/* One line about step `step` of `steps`. On a terminal it is written over and over, ten times a second; in a file there
 * is one for the first step and one for each tenth. Call progress_break before printing anything else. */
void progress(int64_t step, int64_t steps, const char *format, ...) TG_PRINTF_LIKE(3, 4);
void progress_break(void);

/* From now on Ctrl-C only asks to stop; a second one ends the program at once. */
void interrupt_catch(void);
bool interrupted(void);

/* Makes the folder, and those above it, unless they are there; false after complaining. */
bool folder_make(const char *path);

/* "folder/name", valid until the next call; folder_make has checked its length. */
#define PATH_BYTES 4200
const char *folder_file(const char *folder, const char *name);

/* A file to write, and its end. Both complain: with NULL, or false. */
FILE *file_begin(const char *path);
bool file_end(FILE *file, const char *path);

/* A token as text on one line: spaces and control characters made visible. Returns `text`. */
#define TOKEN_TEXT 80
const char *token_text(const tg_tokenizer *bpe, int32_t id, char text[TOKEN_TEXT]);

#endif
