/* system: what the programs ask of the operating system beside the library. system_posix.c and system_windows.c are one
 * each; the build takes that of its system. */
#ifndef EXAMPLES_SYSTEM_H
#define EXAMPLES_SYSTEM_H

#include <stdbool.h>

/* Opens /dev/null for each of stdin, stdout and stderr that is closed. In Windows it also lets files and the console
 * have the bytes that are written: UTF-8, and newlines as they are. */
void system_begin(void);

/* Calls `handler` at the next Ctrl-C; a second one ends the program. */
void system_catch_interrupt(void (*handler)(int signal_number));

/* Returns whether a folder was made; otherwise errno has the reason. */
bool system_make_folder(const char *path);

#endif
