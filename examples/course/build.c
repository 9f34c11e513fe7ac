/* build: a student's file becomes a worker. It is compiled with warnings and sanitizers, and compared with the rules
 * (rules.c) at each step. */
#include "course.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_COMMAND 300

/* ---- commands ---------------------------------------------------------------------------------------------------- */

typedef struct command {
    char *words[MAX_COMMAND + 1];
    int count;
} command;

static void add(command *c, const char *word)
{
    if (c->count < MAX_COMMAND) {
        c->words[c->count++] = (char *)word;
        c->words[c->count] = NULL;
    }
}

static void add_all(command *c, char *const *words)
{
    for (; words && *words; words++) {
        add(c, *words);
    }
}

static const char *compiler(void)
{
    const char *cc = getenv("CC");
    return cc && *cc && !strchr(cc, ' ') ? cc : "cc";
}

/* ---- outcomes ---------------------------------------------------------------------------------------------------- */

void outcome_value(outcome *o, const char *name, const char *value)
{
    size_t used = 0;
    for (int i = 0; i < o->value_count; i++) {
        used = (size_t)(o->values[i].value - o->text) + strlen(o->values[i].value) + 1;
    }
    if (o->value_count == MAX_VALUES || used + strlen(name) + strlen(value) + 2 > sizeof o->text) {
        return;
    }
    char *copy = strcpy(o->text + used, name);
    o->values[o->value_count].name = copy;
    o->values[o->value_count++].value = strcpy(copy + strlen(name) + 1, value);
}

void outcome_free(outcome *o)
{
    free(o->output);
    memset(o, 0, sizeof *o);
}

bool outcome_fail(outcome *o, const char *check, int number, const char *key)
{
    o->kind = FAILED;
    FORMAT(o->check, "%s", check);
    o->number = number;
    FORMAT(o->key, "%s", key);
    return false;
}

bool outcome_broken(outcome *o, const char *what, const char *why)
{
    o->kind = BROKEN;
    FORMAT(o->key, "broken");
    outcome_value(o, "what", what);
    outcome_value(o, "why", why);
    return false;
}

/* ---- compile and link -------------------------------------------------------------------------------------------- */

/* "scatter_add.c:21:5: error: ..." */
static int first_line_of(const char *output, const char *file)
{
    const char *slash = strrchr(file, '/'), *name = slash ? slash + 1 : file;
    for (const char *at = output; (at = strstr(at, name)); at++) {
        if (at[strlen(name)] == ':' && atoi(at + strlen(name) + 1) > 0) {
            return atoi(at + strlen(name) + 1);
        }
    }
    return 0;
}

static void add_flags(command *c, const run_options *options)
{
    add(c, "-std=c11");
    add(c, "-g");
    add(c, "-O1");
    add(c, "-D_POSIX_C_SOURCE=200809L");
    if (!options->without_sanitizers) {
        add(c, "-fsanitize=address,undefined");
        add(c, "-fno-sanitize-recover=undefined");
        add(c, "-fno-omit-frame-pointer");
    }
}

static bool link_worker(const course_paths *paths, const exercise *e, const char *object, const char *program,
                        const char *output_path, const run_options *options, outcome *o)
{
    char checks[COURSE_PATH], worker[COURSE_PATH], include[COURSE_PATH], library[COURSE_PATH], search[COURSE_PATH];
    FORMAT(checks, "%s/checks/%s.c", paths->source, e->id);
    FORMAT(worker, "%s/libcourse_worker.a", paths->checkers);
    FORMAT(include, "-I%s", paths->include);
    FORMAT(library, "-L%s", paths->library);
    FORMAT(search, "-Wl,-rpath,%s", paths->library);
    char tools[COURSE_PATH], tools_search[COURSE_PATH];
    FORMAT(tools, "-L%s/tools", paths->library);
    FORMAT(tools_search, "-Wl,-rpath,%s/tools", paths->library);
    command c = {0};
    add_all(&c, options->link_prefix);
    add(&c, compiler());
    add_flags(&c, options);
    add(&c, "-DCOURSE_WORKER");
    add(&c, "-Wl,-z,noexecstack");
    add(&c, include);
    add(&c, object);
    add(&c, checks);
    add(&c, worker);
    add(&c, "-o");
    add(&c, program);
    if (e->needs_library) {
        add(&c, library);
        add(&c, search);
        add(&c, tools);
        add(&c, tools_search);
        add(&c, "-ltapegrad_tools");
        add(&c, "-ltapegrad");
    }
    add(&c, "-lm");
    char link_path[COURSE_PATH + 8];
    FORMAT(link_path, "%s.link", output_path);
    int status = command_run(c.words, link_path);
    if (status == 0) {
        return true;
    }
    free(o->output);
    o->output = file_read_beginning(link_path);
    const char *missing = o->output ? strstr(o->output, "undefined reference to `") : NULL;
    if (missing) {
        char name[COURSE_WORD];
        FORMAT(name, "%.*s", (int)strcspn(missing + 24, "'"), missing + 24);
        outcome_value(o, "name", name);
        free(o->output);
        o->output = NULL;
        return outcome_fail(o, "compile", 1, "missing_function");
    }
    return outcome_fail(o, "compile", 1, "link");
}

/* What a command said that could not do its work. */
static bool compiler_failed(outcome *o, int status, const char *output_path, const char *file)
{
    free(o->output);
    o->output = file_read_beginning(output_path);
    if (status < 0) {
        return outcome_broken(o, output_path, strerror(errno));
    }
    if (status == 127) {
        return outcome_broken(o, compiler(), "not found: install gcc, or set CC");
    }
    o->line = o->output ? first_line_of(o->output, file) : 0;
    return outcome_fail(o, "compile", 1,
                        status == COMMAND_LATE    ? "compile_late"
                        : status == COMMAND_LARGE ? "compile_large"
                                                  : "compile");
}

/* Writes what the preprocessor makes of the file to `preprocessed`, if its text has nothing that is refused. */
static bool preprocess(const course_paths *paths, const course_index *index, const exercise *e, const char *file,
                       const char *preprocessed, const char *output_path, const run_options *options, outcome *o)
{
    size_t count;
    char *text = file_read_all(file, FILE_LIMIT, &count), include[COURSE_PATH];
    if (!text) {
        outcome_value(o, "why", errno == EINVAL ? "not a regular file" : strerror(errno));
        return outcome_fail(o, "compile", 1, "file_is_unreadable");
    }
    bool good = rules_of_text(index, e, text, count, o);
    free(text);
    if (!good) {
        return false;
    }
    FORMAT(include, "-I%s", paths->include);
    command c = {0};
    add_all(&c, options->compile_prefix);
    add(&c, compiler());
    add_flags(&c, options);
    add(&c, include);
    add(&c, "-g0"); /* else it names the working folder */
    add(&c, "-E");
    add(&c, file);
    add(&c, "-o");
    add(&c, preprocessed);
    int status = command_run(c.words, output_path);
    if (status != 0) {
        return compiler_failed(o, status, output_path, file);
    }
    text = file_read_all(preprocessed, 4 * FILE_LIMIT, NULL);
    good = text ? rules_of_tokens(text, file, o) : outcome_fail(o, "rules", 1, "rule_length");
    free(text);
    return good;
}

static bool compile(const char *preprocessed, const char *file, const char *object, const char *output_path,
                    const run_options *options, outcome *o)
{
    command c = {0};
    add_all(&c, options->compile_prefix);
    add(&c, compiler());
    add_flags(&c, options);
    static const char *const warnings[] = {
        "-Wall",
        "-Wextra",
        "-Wno-unused-parameter",
        "-Werror=return-type",
        "-Werror=implicit-function-declaration",
        "-Werror=incompatible-pointer-types",
        "-Werror=int-conversion",
        "-Werror=uninitialized",
        "-fno-diagnostics-color",
    };
    for (size_t i = 0; i < sizeof warnings / sizeof *warnings; i++) {
        add(&c, warnings[i]);
    }
    if (!strstr(compiler(), "clang")) { /* clang stops after 20 errors by itself; gcc takes minutes for a million */
        add(&c, "-fmax-errors=20");
        add(&c, "-Werror=maybe-uninitialized");
        add(&c, "-Werror=trampolines"); /* of nested functions, which need an executable stack */
    }
    add(&c, "-c");
    add(&c, preprocessed);
    add(&c, "-o");
    add(&c, object);
    int status = command_run(c.words, output_path);
    if (status != 0) {
        return compiler_failed(o, status, output_path, file);
    }
    free(o->output);
    o->output = file_read_beginning(output_path);
    return true;
}

static bool inspect(const course_index *index, const exercise *e, const char *file, const char *object,
                    const char *output_path, const run_options *options, outcome *o)
{
    command c = {0};
    add_all(&c, options->compile_prefix);
    add(&c, "objdump");
    add(&c, "-h");
    add(&c, "-t");
    add(&c, object);
    int status = command_run(c.words, output_path);
    char *listing = status == 0 ? file_read(output_path) : NULL, *text = file_read(file);
    bool good = false;
    if (status != 0 || !text) {
        outcome_broken(o, "objdump", status == 127 ? "not installed: it is in the package binutils" : "failed");
    } else if (!listing) {
        outcome_fail(o, "rules", 1, "rule_length");
    } else {
        good = rules_of_object(index, e, listing, text, options->without_sanitizers, o);
    }
    free(listing);
    free(text);
    return good;
}

bool build_worker(const course_paths *paths, const course_index *index, const exercise *e, const char *file,
                  const run_options *options, outcome *o, char worker[COURSE_PATH])
{
    char object[COURSE_PATH], preprocessed[COURSE_PATH], output_path[COURSE_PATH];
    FORMAT(object, "%s/%s.o", paths->build, e->name);
    FORMAT(preprocessed, "%s/%s.i", paths->build, e->name);
    FORMAT(output_path, "%s/%s.txt", paths->build, e->name);
    snprintf(worker, COURSE_PATH, "%s/%s", paths->build, e->name);
    unlink(object);
    return preprocess(paths, index, e, file, preprocessed, output_path, options, o) &&
           compile(preprocessed, file, object, output_path, options, o) &&
           inspect(index, e, file, object, output_path, options, o) &&
           link_worker(paths, e, object, worker, output_path, options, o);
}
