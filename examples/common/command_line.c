#include "command_line.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nearest.h"
#include "program.h"

/* Returns whether x is in "[low,high)". A bracket includes its bound, a parenthesis does not. */
static bool inside(const char *range, double x)
{
    char *end;
    double low = strtod(range + 1, &end), high = strtod(end + 1, &end);
    return (*range == '[' ? x >= low : x > low) && (*end == ']' ? x <= high : x < high);
}

/* Parses `text` and stores the option's value. Returns false after printing an error. */
static bool set(const command_line_option *o, const char *text, void *values)
{
    void *at = (char *)values + o->offset;
    char *end = NULL;
    errno = 0;
    if (o->kind == VALUE_TEXT) {
        *(const char **)at = text;
        return true;
    }
    if (o->kind == VALUE_INTEGER) {
        long long value = strtoll(text, &end, 10);
        if (errno || end == text || *end || !inside(o->range, (double)value)) {
            double low = strtod(o->range + 1, &end), high = strtod(end + 1, NULL);
            return complain("--%s %s: must be a whole number from %.0f to %.0f", o->name, text, low, high);
        }
        *(int64_t *)at = value;
        return true;
    }
    double value = strtod(text, &end);
    if (end == text || *end || !inside(o->range, value)) {
        return complain("--%s %s: must be a number in %s", o->name, text, o->range);
    }
    *(double *)at = value;
    return true;
}

static void explain_default(const command_line_option *o, const void *values)
{
    const void *at = (const char *)values + o->offset;
    if (o->kind == VALUE_TEXT && *(const char *const *)at) {
        printf(" (default %s)", *(const char *const *)at);
    } else if (o->kind == VALUE_INTEGER && inside(o->range, (double)*(const int64_t *)at)) {
        printf(" (default %lld)", (long long)*(const int64_t *)at);
    } else if (o->kind == VALUE_NUMBER && inside(o->range, *(const double *)at)) {
        printf(" (default %g)", *(const double *)at);
    }
}

static void explain(const command_line_option *table, size_t count, unsigned command, const char *introduction,
                    const void *values)
{
    printf("%s\n", introduction);
    for (size_t i = 0; i < count; i++) {
        if (table[i].commands & command) {
            const char *argument = table[i].argument ? table[i].argument : "";
            printf("  --%s %-*s %s", table[i].name, (int)(20 - strlen(table[i].name)), argument, table[i].help);
            explain_default(&table[i], values);
            printf("\n");
        }
    }
}

/* Returns the option of an argument, or NULL. `text` is the argument without its dashes: "name" or "name=value". */
static const command_line_option *find(const command_line_option *table, size_t count, unsigned command,
                                       const char *text)
{
    size_t length = strcspn(text, "=");
    for (size_t i = 0; i < count; i++) {
        if ((table[i].commands & command) && strlen(table[i].name) == length &&
            memcmp(table[i].name, text, length) == 0) {
            return &table[i];
        }
    }
    return NULL;
}

/* Prints that an argument is not an option, and the nearest option. */
static void refuse(const command_line_option *table, size_t count, unsigned command, const char *argument)
{
    nearest n = {.word = argument};
    char text[NEAREST_TEXT];
    nearest_try(&n, "help");
    nearest_try(&n, "version");
    for (size_t i = 0; i < count; i++) {
        if (table[i].commands & command) {
            nearest_try(&n, table[i].name);
        }
    }
    complain("'%s' is not an option%s; --help lists the options", argument, nearest_text(&n, "--", text));
}

/* Stores the arguments from argv[i] on, up to the next option. Returns the index after them, or 0 after printing an
 * error. */
static int set_list(const command_line_option *o, int i, int argc, char **argv, void *values)
{
    text_list *list = (text_list *)((char *)values + o->offset);
    if (list->count > 0) {
        complain("--%s: must be given once; its values follow each other", o->name);
        return 0;
    }
    list->values = argv + i;
    while (i < argc && strncmp(argv[i], "--", 2) != 0) {
        i++;
        list->count++;
    }
    return list->count > 0 || complain("--%s: must be followed by a value", o->name) ? i : 0;
}

int command_line_read(const command_line_option *table, size_t count, unsigned command, const char *introduction,
                      void *values, int argc, char **argv)
{
    /* these two come first: --help prints the defaults, which the other options overwrite */
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            explain(table, count, command, introduction, values);
            return 0;
        }
        if (strcmp(argv[i], "--version") == 0) {
            program_version();
            return 0;
        }
    }
    for (int i = 1; i < argc; i++) {
        const command_line_option *o = strncmp(argv[i], "--", 2) == 0 ? find(table, count, command, argv[i] + 2) : NULL;
        if (!o) {
            refuse(table, count, command, argv[i]);
            return 2;
        }
        const char *value = strchr(argv[i], '=');
        if (o->kind == VALUE_FLAG) {
            if (value) {
                complain("--%s: must be used without a value", o->name);
                return 2;
            }
            *(bool *)((char *)values + o->offset) = true;
            continue;
        }
        if (o->kind == VALUE_LIST) {
            if (value) {
                argv[i] += value + 1 - argv[i];
            }
            i = set_list(o, value ? i : i + 1, argc, argv, values) - 1;
            if (i < 0) {
                return 2;
            }
            continue;
        }
        /* argv[argc] is NULL: the value is missing */
        value = value ? value + 1 : argv[++i];
        if (!value) {
            complain("--%s: must be followed by a value", o->name);
            return 2;
        }
        if (!set(o, value, values)) {
            return 2;
        }
    }
    return -1;
}

int command_line_refuse_options(const char *introduction, int argc, char **argv)
{
    return command_line_read(NULL, 0, 0, introduction, NULL, argc, argv);
}
