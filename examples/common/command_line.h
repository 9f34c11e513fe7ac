/* command_line: a command line that is described by a table, from which it is read, checked and explained.
 *
 * A program keeps what can be asked for in a struct of its own. It sets the defaults, and the table says for each
 * option where in that struct its value goes.
 */
#ifndef COMMAND_LINE_H
#define COMMAND_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum value_kind {
    VALUE_TEXT,    /* const char * */
    VALUE_INTEGER, /* int64_t */
    VALUE_NUMBER,  /* double */
    VALUE_FLAG     /* bool; takes no value */
} value_kind;

typedef struct command_line_option {
    const char *name, *argument; /* "--name ARGUMENT" */
    value_kind kind;
    size_t place;      /* offsetof in the program's struct */
    const char *range; /* what an integer or a number may be: "[1,100]", "(0,1]", "[0,inf)" */
    const char *help;  /* the default is added, unless it is NULL or outside of the range: then the text tells it */
    unsigned commands; /* bits: whose option it is */
} command_line_option;

/* Reads argv[1] to argv[argc - 1] into `values`: the options that have a bit of `command`. Returns -1 to go on, or the
 * exit status: 0 after --help, which prints `introduction` and the table, 2 after complaining. */
int command_line_read(const command_line_option *table, size_t count, unsigned command, const char *introduction,
                      void *values, int argc, char **argv);

#endif
