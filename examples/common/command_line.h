/* command_line: parses command lines. A table describes the options; --help prints it. For an argument that is no
 * option, the error names the nearest one.
 *
 * A program keeps the values of its options in its own struct and sets the defaults there. The table has the offset of
 * each value in that struct.
 */
#ifndef COMMAND_LINE_H
#define COMMAND_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum value_kind {
    /* const char * */
    VALUE_TEXT,
    /* int64_t */
    VALUE_INTEGER,
    /* double */
    VALUE_NUMBER,
    /* bool; takes no value */
    VALUE_FLAG,
    /* text_list; takes all arguments up to the next option */
    VALUE_LIST
} value_kind;

/* The values of an option, which are neighbors in argv. */
typedef struct text_list {
    char **values;
    int count;
} text_list;

typedef struct command_line_option {
    /* printed by --help as "--name ARGUMENT"; argument NULL for a flag */
    const char *name, *argument;
    value_kind kind;
    /* offsetof the value in the program's struct */
    size_t offset;
    /* the allowed values of an integer or a number: "[1,100]", "(0,1]", "[0,inf)"; behind those of a number may be
     * advice, which the error for another value prints */
    const char *range;
    /* the text of --help; the default value is appended, unless it is NULL or out of range: then `help` describes it */
    const char *help;
    /* the commands that accept the option, as bits */
    unsigned commands;
} command_line_option;

/* Parses argv[1] to argv[argc - 1] into `values`. Accepts the options whose `commands` have a bit of `command`. Returns
 * -1 if the program continues, or else its exit status: 0 after --version, and after --help, which prints
 * `introduction` and the options; 2 after printing an error. */
int command_line_read(const command_line_option *table, size_t count, unsigned command, const char *introduction,
                      void *values, int argc, char **argv);

/* The same for a program without options of its own. */
int command_line_refuse_options(const char *introduction, int argc, char **argv);

#endif
