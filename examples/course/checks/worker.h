/* worker: the side of a check that runs the student's file, in a process of its own.
 *
 * A file of checks is compiled twice. With COURSE_WORKER it has only the calls of the student's functions, and is
 * linked with the student's file; without it, it has the expected values, and the student's file is not there. The two
 * processes talk through pipes (call in check.h). So a student's mistake, or trick, can end its own process and return
 * wrong numbers, and no more.
 */
#ifndef COURSE_WORKER_H
#define COURSE_WORKER_H

#include <stdbool.h>
#include <stddef.h>

/* A function that a check may call by name: it casts the arguments, and passes them to the student's function. Each
 * argument is a block of its own, of exactly the size that the check passed, so that AddressSanitizer finds the first
 * byte outside of it. The values of OUT arguments are NaN. */
typedef struct course_call {
    const char *name;
    void (*run)(void **arguments);
} course_call;

/* The calls of a check, up to one whose name is NULL. */
extern const course_call course_calls[];

/* Lets each read and write of a row of the table (rows,width) that no id names end the process until the call returns:
 * by a report of AddressSanitizer; and in a graded worker by the kernel, for rows of whole pages. The kernel's guard
 * stays, so this is the last call of a check, and the table is an IN argument. Does nothing otherwise. */
void forbid_rows(const double *table, int rows, int width, const int *ids, int count);

/* Copies the rows that the ids name, to return them. */
void copy_rows(const double *table, int width, const int *ids, int count, double *rows);

/* seal.c: leaves the process only the calls of the system that it needs; without `may_map` none that maps memory.
 * Returns false if the kernel has no such filter. */
bool seal(bool may_map);

#endif
