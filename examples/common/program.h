/* program: shared by the example programs: error messages, a progress line, Ctrl-C, and files. */
#ifndef PROGRAM_H
#define PROGRAM_H

#include <stdio.h>

#include <tapegrad.h>

/* The program's name, with which its messages begin. Each program defines it. */
extern const char program_name[];

/* Begins a program: opens /dev/null for each of stdin, stdout and stderr that is closed, so that no file that is opened
 * later receives what is printed. Call it first in main. */
void program_begin(void);

/* Ends a program: returns `status`, or 1 instead of 0 if not all that was printed could be written, after printing an
 * error. */
int program_end(int status);

/* Prints the program's name, the library's version, and BLAS's: "gpt (tapegrad) 0.3.0, OpenBLAS 0.3.21 (Cooperlake), 2
 * threads". */
void program_version(void);

/* Writes "program: ..." and a newline to stderr, escaped as by print_line (terminal.h). Returns false, so that a check
 * can end with `return complain(...)`. */
bool complain(const char *format, ...) TG_PRINTF_LIKE(1, 2);

/* Returns the time of a monotonic clock in seconds. */
double seconds(void);

/* Prints a progress line for step `step` of `steps`. On a terminal the line is overwritten, at most ten times per
 * second. In a file, a line is printed for the first step, for every tenth of the steps, and for the last step. */
void progress(int64_t step, int64_t steps, const char *format, ...) TG_PRINTF_LIKE(3, 4);

/* Prints a progress line for work that is done in uneven parts: "noun done/all". In a file, a line is printed after
 * each tenth. */
void progress_of(const char *noun, int64_t done, int64_t all, const char *format, ...) TG_PRINTF_LIKE(4, 5);

/* Ends the progress line. Call it before printing anything else. */
void progress_break(void);

/* Catches Ctrl-C once: the program continues, and interrupted() returns true. A second Ctrl-C ends the program. */
void interrupt_catch(void);
bool interrupted(void);

/* Lets Ctrl-C end the program again, if it has not been caught. */
void interrupt_release(void);

/* Creates the folder and its parents if they do not exist. Returns false after printing an error. */
bool folder_make(const char *path);

/* Returns "folder/name", cut to PATH_BYTES - 1 bytes and valid until the next call. folder_make refuses a folder whose
 * paths would be cut. */
#define PATH_BYTES 4200
const char *folder_file(const char *folder, const char *name);

/* Open a file for writing, and close it. Return NULL or false after printing an error. */
FILE *file_begin(const char *path);
bool file_end(FILE *file, const char *path);

#endif
