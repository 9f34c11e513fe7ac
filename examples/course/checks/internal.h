/* internal: what the files of the checks' library share. */
#ifndef COURSE_INTERNAL_H
#define COURSE_INTERNAL_H

#include <sys/types.h>

#include "check.h"

/* The generator of the random inputs. */
extern tg_run *course_run;

/* Ends the check as failed, with a message and its values: "got=%d\texpected=%d". */
void fail_with(const char *key, const char *format, ...) TG_PRINTF_LIKE(2, 3);

/* A map of an array for the student: "." is a value that is right, "#" one that is wrong. Each row is a line, and so
 * is a vector. An array with more than 12 rows or 24 columns has no map. */
typedef struct course_map {
    int columns;
    char lines[12 * (24 + 1) + 1];
} course_map;

/* All is right. `columns` 0: a vector. */
course_map map_begin(int rows, int columns);
void map_wrong(course_map *map, int64_t index);

/* Ends the check because it is wrong itself, or because the system refuses something. */
void broken(const char *what, const char *why);

#endif
