/* companion: counts of the ops that a tape runs. */
#ifndef COMPANION_H
#define COMPANION_H

#include <tapegrad.h>

typedef struct op_counts op_counts;

/* Counts from now on. Yours to free, before the tape. */
op_counts *op_counts_new(tg_tape *tape, tg_error *error);
void op_counts_free(op_counts *counts);

/* Writes the number of forward kernels of each op. */
bool op_counts_save(const op_counts *counts, const char *path, tg_error *error);

/* Reads that of one op; -1 if the file does not have it, or after an error. */
int64_t op_counts_read(const char *path, const char *op, tg_error *error);

/* Writes the records of the tape, a line each. A file that cannot be created is an error of the tape, too. */
bool op_counts_report(const op_counts *counts, const char *path, tg_error *error);

/* Reads at most `most` bytes from the beginning of a file, and no part of a character. Returns their number, or -1. */
int64_t op_counts_first_bytes(const char *path, char *bytes, size_t most, tg_error *error);

#define OP_SETTINGS_MOST 2

typedef struct op_settings {
    char only[OP_SETTINGS_MOST][32];
    int count;
    double share;
} op_settings;

/* Parses {"only":[..],"share":..}, and ignores other members. Changes the text. */
bool op_settings_parse(op_settings *settings, char *text, size_t length, tg_error *error);

#endif
