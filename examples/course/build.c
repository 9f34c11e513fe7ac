/* build: compiles a student's file with warnings and sanitizers, compares the functions that it calls with those that
 * the exercise allows, and links it with the worker. */
#include "course.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
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

int command_run(char *const *words, const char *output_path)
{
    int output = open(output_path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (output < 0) {
        return -1;
    }
    pid_t child = fork();
    if (child == 0) {
        int null = open("/dev/null", O_RDONLY);
        dup2(null, STDIN_FILENO);
        dup2(output, STDOUT_FILENO);
        dup2(output, STDERR_FILENO);
        /* English messages, which are searched for names */
        setenv("LC_ALL", "C", 1);
        /* a file can have a million warnings */
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){64 << 20, 64 << 20});
        setrlimit(RLIMIT_CPU, &(struct rlimit){60, 61});
        execvp(words[0], words);
        dprintf(STDERR_FILENO, "%s: %s\n", words[0], strerror(errno));
        _exit(127);
    }
    close(output);
    int status = 0;
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return child < 0 ? -1 : WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
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

static bool failed(outcome *o, const char *check, int number, const char *key)
{
    o->kind = FAILED;
    FORMAT(o->check, "%s", check);
    o->number = number;
    FORMAT(o->key, "%s", key);
    return false;
}

static bool broken(outcome *o, const char *what, const char *why)
{
    o->kind = BROKEN;
    FORMAT(o->key, "broken");
    outcome_value(o, "what", what);
    outcome_value(o, "why", why);
    return false;
}

/* ---- symbols ----------------------------------------------------------------------------------------------------- */

/* Whether a list of words has the name: as a word, by PREFIX*, and not as !NAME. */
static bool has_name(const char *list, const char *name)
{
    bool found = false;
    while (*list) {
        list += strspn(list, " ");
        size_t length = strcspn(list, " ");
        if (length > 1 && list[0] == '!' && strlen(name) == length - 1 && strncmp(list + 1, name, length - 1) == 0) {
            return false;
        }
        if (length > 0 && list[length - 1] == '*') {
            found = found || strncmp(list, name, length - 1) == 0;
        } else {
            found = found || (strlen(name) == length && strncmp(list, name, length) == 0);
        }
        list += length;
    }
    return found;
}

/* The first line of the file that has the name before a parenthesis, or 0. */
static int line_of_call(const char *file, const char *name)
{
    char *bytes = file_read(file);
    int line = 1, found = 0;
    for (const char *at = bytes; at && *at && !found; at++) {
        line += *at == '\n';
        bool begins = at == bytes || (!isalnum((unsigned char)at[-1]) && at[-1] != '_');
        if (begins && strncmp(at, name, strlen(name)) == 0) {
            found = at[strlen(name) + strspn(at + strlen(name), " ")] == '(' ? line : 0;
        }
    }
    free(bytes);
    return found;
}

static bool symbols_are_allowed(const course_index *index, const exercise *e, const char *file, const char *object,
                                const char *output_path, const run_options *options, outcome *o)
{
    command nm = {0};
    add_all(&nm, options->compile_prefix);
    add(&nm, "nm");
    add(&nm, object);
    int status = command_run(nm.words, output_path);
    char *names = status == 0 ? file_read_beginning(output_path) : NULL;
    if (!names) {
        return broken(o, "nm", status == 127 ? "not installed" : "cannot read the object");
    }
    char refused[512] = "", first[256] = "";
    bool has_main = false;
    for (char *line = strtok(names, "\n"); line; line = strtok(NULL, "\n")) {
        char kind = 0, name[256];
        /* "                 U exp", "0000000000000000 T softmax" */
        if (sscanf(line, " %c %255s", &kind, name) != 2 || (kind != 'U' && kind != 'w')) {
            has_main = has_main || (strlen(line) > 6 && strcmp(line + strlen(line) - 6, "T main") == 0);
            continue;
        }
        if (strncmp(name, "__asan_", 7) == 0 || strncmp(name, "__ubsan_", 8) == 0 || has_name(index->symbols, name) ||
            has_name(e->symbols, name)) {
            continue;
        }
        if (!refused[0]) {
            FORMAT(first, "%s", name);
        }
        size_t used = strlen(refused);
        snprintf(refused + used, sizeof refused - used, "%s%s", used > 0 ? ", " : "", name);
    }
    free(names);
    if (has_main) {
        return failed(o, "symbols", 2, "has_main");
    }
    if (refused[0]) {
        outcome_value(o, "names", refused);
        o->line = line_of_call(file, first);
        return failed(o, "symbols", 2, has_name("malloc calloc realloc free", first) ? "symbols_of_memory" : "symbols");
    }
    return true;
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
    FORMAT(worker, "%s/checks/worker.c", paths->source);
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
    add(&c, "-Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc");
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
    int status = command_run(c.words, output_path);
    if (status == 0) {
        return true;
    }
    free(o->output);
    o->output = file_read_beginning(output_path);
    const char *missing = o->output ? strstr(o->output, "undefined reference to `") : NULL;
    if (missing) {
        char name[COURSE_WORD];
        FORMAT(name, "%.*s", (int)strcspn(missing + 24, "'"), missing + 24);
        outcome_value(o, "name", name);
        free(o->output);
        o->output = NULL;
        return failed(o, "compile", 1, "missing_function");
    }
    return failed(o, "compile", 1, "link");
}

bool build_worker(const course_paths *paths, const course_index *index, const exercise *e, const char *file,
                  const run_options *options, outcome *o, char worker[COURSE_PATH])
{
    char object[COURSE_PATH], output_path[COURSE_PATH], include[COURSE_PATH];
    FORMAT(object, "%s/%s.o", paths->build, e->name);
    FORMAT(output_path, "%s/%s.txt", paths->build, e->name);
    snprintf(worker, COURSE_PATH, "%s/%s", paths->build, e->name);
    FORMAT(include, "-I%s", paths->include);
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
    }
    add(&c, include);
    add(&c, "-c");
    add(&c, file);
    add(&c, "-o");
    add(&c, object);
    unlink(object);
    int status = command_run(c.words, output_path);
    o->output = file_read_beginning(output_path);
    if (status < 0) {
        return broken(o, output_path, strerror(errno));
    }
    if (status == 127) {
        return broken(o, compiler(), "not found: install gcc, or set CC");
    }
    if (status != 0) {
        o->line = o->output ? first_line_of(o->output, file) : 0;
        return failed(o, "compile", 1, "compile");
    }
    char symbols_path[COURSE_PATH + 8];
    FORMAT(symbols_path, "%s.sym", output_path);
    return symbols_are_allowed(index, e, file, object, symbols_path, options, o) &&
           link_worker(paths, e, object, worker, symbols_path, options, o);
}
