/* verdict: runs the checks of an exercise on a file, and prints what they found. */
#include "course.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* At most this many lines of what a compiler or a program printed are shown, and of a line this many bytes. */
#define SHOWN_LINES 12
#define SHOWN_BYTES 199

static const char *value_of(const outcome *o, const char *name)
{
    for (int i = 0; i < o->value_count; i++) {
        if (strcmp(o->values[i].name, name) == 0) {
            return o->values[i].value;
        }
    }
    return "";
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

/* Reads one line of a verdict (checks/check.c), which has no newline. */
static void read_verdict(outcome *o, char *line)
{
    char *field = strtok(line, "\t"), *word = strtok(NULL, "\t");
    if (field && strcmp(field, "check") == 0 && word) {
        FORMAT(o->check, "%s", word);
        o->number++;
        return;
    }
    if (field && strcmp(field, "done") == 0) {
        o->kind = PASSED;
        return;
    }
    bool is_failure = field && strcmp(field, "fail") == 0 && word;
    o->kind = is_failure ? FAILED : BROKEN;
    FORMAT(o->key, "%s", is_failure ? word : "broken");
    for (char *value = is_failure ? strtok(NULL, "\t") : word; value; value = strtok(NULL, "\t")) {
        char *equals = strchr(value, '=');
        for (char *end = value; (end = strchr(end, '\v'));) {
            *end = '\n';
        }
        if (equals) {
            *equals = 0;
            outcome_value(o, value, equals + 1);
        }
    }
}

/* What is read from a pipe: a text of a limited size, of which the rest is dropped. */
typedef struct reader {
    int file;
    char *bytes;
    size_t count, limit;
} reader;

/* Returns false at the end of the pipe. */
static bool read_more(reader *r)
{
    char dropped[4096];
    size_t room = r->limit - r->count;
    ssize_t got = room > 0 ? read(r->file, r->bytes + r->count, room) : read(r->file, dropped, sizeof dropped);
    r->count += got > 0 && room > 0 ? (size_t)got : 0;
    return got > 0 || (got < 0 && (errno == EINTR || errno == EAGAIN));
}

/* Reads verdicts to their end, and what the student's program prints meanwhile. */
static void read_both(reader *verdicts, reader *printed)
{
    struct pollfd files[2] = {{.fd = verdicts->file, .events = POLLIN}, {.fd = printed->file, .events = POLLIN}};
    while (files[0].fd >= 0) {
        if (poll(files, 2, -1) < 0) {
            continue;
        }
        if (files[0].revents && !read_more(verdicts)) {
            files[0].fd = -1;
        }
        if (files[1].revents && !read_more(printed)) {
            files[1].fd = -1;
        }
    }
    fcntl(printed->file, F_SETFL, O_NONBLOCK);
    for (size_t before = 0; printed->count > before && printed->count < printed->limit;) {
        before = printed->count;
        read_more(printed);
    }
    verdicts->bytes[verdicts->count] = printed->bytes[printed->count] = 0;
}

/* Starts the checker, which starts the worker; both write to pipes. Returns -1 with errno set. */
static pid_t start_checker(const char *checker, const char *worker, const run_options *options, int *verdicts,
                           int *printed)
{
    int to_verdicts[2], to_printed[2];
    if (pipe(to_verdicts) != 0) {
        return -1;
    }
    if (pipe(to_printed) != 0) {
        close(to_verdicts[0]);
        close(to_verdicts[1]);
        return -1;
    }
    fcntl(to_verdicts[0], F_SETFD, FD_CLOEXEC);
    fcntl(to_printed[0], F_SETFD, FD_CLOEXEC);
    char seed[32], verdict_file[16], printed_file[16];
    FORMAT(seed, "%llu", (unsigned long long)options->seed);
    FORMAT(verdict_file, "%d", to_verdicts[1]);
    FORMAT(printed_file, "%d", to_printed[1]);
    char *words[256] = {(char *)checker, verdict_file, printed_file, seed};
    int count = 4;
    for (char *const *word = options->worker_prefix; word && *word && count < 253; word++) {
        words[count++] = *word;
    }
    words[count++] = (char *)worker;
    words[count] = options->worker_prefix ? (char *)"sealed" : NULL;
    pid_t child = fork();
    if (child == 0) {
        execv(checker, words);
        _exit(127);
    }
    close(to_verdicts[1]);
    close(to_printed[1]);
    *verdicts = to_verdicts[0];
    *printed = to_printed[0];
    return child;
}

static void run_checker(const course_paths *paths, const exercise *e, const char *worker, const run_options *options,
                        outcome *o)
{
    enum { MOST_VERDICTS = 1 << 16 };
    char checker[COURSE_PATH];
    FORMAT(checker, "%s/course_%s_%s", paths->checkers, e->unit, e->name);
    reader verdicts = {.bytes = malloc(MOST_VERDICTS + 1), .limit = MOST_VERDICTS};
    reader printed = {.bytes = malloc(FILE_LIMIT + 1), .limit = FILE_LIMIT};
    pid_t child = -1;
    errno = ENOMEM;
    if (verdicts.bytes && printed.bytes) {
        child = start_checker(checker, worker, options, &verdicts.file, &printed.file);
    }
    if (child < 0) {
        outcome_broken(o, checker, strerror(errno));
        free(verdicts.bytes);
        free(printed.bytes);
        return;
    }
    read_both(&verdicts, &printed);
    close(verdicts.file);
    close(printed.file);
    o->kind = BROKEN;
    FORMAT(o->key, "broken");
    o->number = 2; /* the checks before: compile, symbols */
    for (char *line = verdicts.bytes, *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = 0;
        read_verdict(o, line);
    }
    free(verdicts.bytes);
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (o->kind == BROKEN && o->value_count == 0) {
        outcome_value(o, "what", checker);
        outcome_value(o, "why",
                      WIFEXITED(status) && WEXITSTATUS(status) == 127 ? "not built" : "ended without a verdict");
    }
    if (o->kind == PASSED && (!WIFEXITED(status) || WEXITSTATUS(status) != 0)) {
        o->kind = BROKEN;
    }
    if (printed.count > 0) {
        free(o->output);
        o->output = printed.bytes;
        o->is_of_program = true;
    } else {
        free(printed.bytes);
    }
}

/* Finds the student's line in a report of a sanitizer: the first "FILE:LINE" of this file behind its first line. */
static int reported_line(const char *output, const char *file)
{
    const char *slash = strrchr(file, '/'), *name = slash ? slash + 1 : file;
    const char *report = strstr(output, "runtime error:");
    if (report) { /* "FILE:21:9: runtime error: ..." */
        while (report > output && report[-1] != '\n') {
            report--;
        }
    } else {
        report = strstr(output, "AddressSanitizer");
    }
    while (report && (report = strstr(report, name))) {
        report += strlen(name);
        if (*report == ':' && atoi(report + 1) > 0) {
            return atoi(report + 1);
        }
    }
    return 0;
}

/* Which part of the file a call of the checks belongs to, from 0. */
static int part_of(const exercise *e, const char *call)
{
    char parts[COURSE_WORD];
    FORMAT(parts, "%s", e->parts);
    int number = 0;
    for (char *word = strtok(parts, " "); word; word = strtok(NULL, " "), number++) {
        if (strcmp(word, call) == 0) {
            return number;
        }
    }
    return 0;
}

/* The line on which a part of the student begins. */
static int marked_line(const char *file, int part)
{
    char *bytes = file_read(file);
    int number = 1, found = 0;
    for (char *at = bytes; at && *at && !found; at = strchr(at, '\n')) {
        at += *at == '\n';
        number += at > bytes;
        size_t length = strcspn(at, "\n");
        char line[160];
        FORMAT(line, "%.*s", (int)length, at);
        found = strstr(line, "/* your part") && part-- == 0 ? number + 1 : 0;
    }
    free(bytes);
    return found;
}

void check_file(const course_paths *paths, const course_index *index, const exercise *e, const char *file,
                const run_options *options, outcome *o)
{
    memset(o, 0, sizeof *o);
    if (access(file, R_OK) != 0) {
        o->kind = FAILED;
        o->number = 1;
        FORMAT(o->check, "compile");
        FORMAT(o->key, errno == ENOENT ? "file_is_missing" : "file_is_unreadable");
        outcome_value(o, "why", strerror(errno));
        return;
    }
    char worker[COURSE_PATH];
    if (!build_worker(paths, index, e, file, options, o, worker)) {
        return;
    }
    run_checker(paths, e, worker, options, o);
    unlink(worker);
    if (o->kind == FAILED) {
        o->line = strcmp(o->key, "ended") == 0 && o->output ? reported_line(o->output, file) : 0;
        o->is_part_line = o->line == 0;
        o->line = o->line > 0 ? o->line : marked_line(file, part_of(e, value_of(o, "call")));
    }
}

/* ---- printing ---------------------------------------------------------------------------------------------------- */

static void print_output(const char *output)
{
    int lines = 0;
    for (const char *at = output; *at && lines < SHOWN_LINES;) {
        size_t length = strcspn(at, "\n");
        printf("    ");
        print_visible(stdout, at, length < SHOWN_BYTES ? length : SHOWN_BYTES);
        printf("\n");
        lines++;
        at += length + (at[length] == '\n');
        if (lines == SHOWN_LINES && *at) {
            SAY_PLAIN(4, "more_output");
        }
    }
}

/* The key of the message about an access outside of an array, and its values, from the lines "WRITE of size 8 at ..."
 * and "... is located 0 bytes after 40-byte region" (older compilers: "to the right of"). False: it has none. */
static bool print_overflow(const outcome *o, const char *report, const char *kind)
{
    const char *access = strstr(report, " of size "), *place = strstr(report, " is located ");
    char distance[16], side[32], bytes[16], size[16], line[16], key[COURSE_WORD];
    if (!access || !place || o->is_part_line || sscanf(access, " of size %15[0-9]", size) != 1 ||
        sscanf(place, " is located %15[0-9] bytes %31[a-z ]%15[0-9]-byte region", distance, side, bytes) != 3) {
        return false;
    }
    bool is_write = access - report > 5 && strncmp(access - 5, "WRITE", 5) == 0;
    bool is_behind = strstr(side, "after") || strstr(side, "right");
    if (!is_behind && !strstr(side, "before") && !strstr(side, "left")) {
        return false;
    }
    FORMAT(key, "report.%s.%s", is_write ? "write" : "read",
           !is_behind                   ? "before"
           : strcmp(distance, "0") == 0 ? "just_behind"
                                        : "behind");
    FORMAT(line, "%d", o->line);
    SAY(2, key, {"kind", kind}, {"line", line}, {"size", size}, {"distance", distance}, {"bytes", bytes});
    return true;
}

/* Of a report of AddressSanitizer a few words say all that a student needs. */
static void print_report(const outcome *o)
{
    const char *report = strstr(o->output, "AddressSanitizer: ");
    const char *end = report ? strstr(report, " on ") : NULL;
    if (!report || !end || end > strchr(report, '\n')) {
        print_output(o->output);
        return;
    }
    char kind[COURSE_WORD];
    FORMAT(kind, "%.*s", (int)(end - report - 18), report + 18);
    if (strcmp(kind, "heap-buffer-overflow") == 0 && print_overflow(o, report, kind)) {
        return;
    }
    char key[2 * COURSE_WORD];
    FORMAT(key, "report.%s", kind);
    if (message_find(key)) {
        SAY_PLAIN(2, key);
    } else {
        SAY(2, "report", {"kind", kind});
    }
}

/* Returns the text that says what the likely mistake is, or NULL: that of the array, then that of the kind of failure,
 * then that of the check; and behind a crash, of which a check knows nothing, only the second, or UNIT/NAME.ended. */
static const char *likely_mistake(const exercise *e, const outcome *o)
{
    char key[5 * COURSE_WORD], what[COURSE_WORD];
    FORMAT(what, "%s", value_of(o, "what"));
    for (char *c = what; *c; c++) {
        *c = *c == ' ' || *c == ':' ? '_' : *c;
    }
    FORMAT(key, "%s.%s.%s", e->id, o->check, *what ? what : "-");
    const char *text = message_find(key);
    FORMAT(key, "%s.%s.%s", e->id, o->check, o->key);
    text = text ? text : message_find(key);
    bool is_crash = strcmp(o->key, "ended") == 0 || strcmp(o->key, "hangs") == 0 || strcmp(o->key, "memory") == 0;
    bool is_build = strcmp(o->check, "compile") == 0 || strcmp(o->check, "symbols") == 0;
    FORMAT(key, "%s.%s", e->id, o->key);
    text = text || !is_crash ? text : message_find(key);
    if (text || is_crash || is_build) {
        return text;
    }
    FORMAT(key, "%s.%s", e->id, o->check);
    text = message_find(key);
    FORMAT(key, "because.%s", o->check);
    return text ? text : message_find(key);
}

void outcome_print(const course_paths *paths, const exercise *e, const char *file, const outcome *o)
{
    (void)paths;
    const char *slash = strrchr(file, '/');
    char key[3 * COURSE_WORD], number[16], place[COURSE_PATH];
    if (o->kind == PASSED) {
        SAY(0, "passed", {"exercise", e->id}, {"title", e->title});
        if (o->output && *o->output) {
            SAY_PLAIN(2, o->is_of_program ? "printed" : "warned");
            print_output(o->output);
        }
        return;
    }
    if (o->kind == BROKEN) {
        message_print(0, o->key, o->values);
        return;
    }
    const char *because = likely_mistake(e, o);
    FORMAT(key, "%s.%s.name", e->id, o->check);
    const char *name = message_find(key);
    FORMAT(key, "check.%s", o->check);
    name = name ? name : message_find(key) ? message_find(key) : o->check;
    FORMAT(number, "%d", o->number);
    SAY(0, "failed", {"exercise", e->id}, {"title", e->title}, {"number", number}, {"check", name});
    if (*value_of(o, "case")) {
        SAY(2, "case", {"case", value_of(o, "case")});
    }
    message_print(2, o->key, o->values);
    if (*value_of(o, "map")) {
        SAY(4, "map", {"map", value_of(o, "map")});
    }
    bool is_build = strcmp(o->check, "compile") == 0 || strcmp(o->check, "symbols") == 0;
    if (o->output && *o->output) {
        if (strcmp(o->key, "ended") == 0) {
            print_report(o);
        } else if (!is_build) {
            SAY_PLAIN(2, o->is_of_program ? "printed" : "warned");
            print_output(o->output);
        } else {
            print_output(o->output);
        }
    }
    if (because) {
        print_wrapped(2, because);
    }
    if (part_of(e, value_of(o, "call")) > 0) {
        SAY_PLAIN(2, "first_part_passed");
    }
    if (o->line > 0) {
        FORMAT(place, "%s:%d", slash ? slash + 1 : file, o->line);
        SAY(2, o->is_part_line ? "part_line" : "line", {"place", place});
    } else {
        SAY_PLAIN(2, "ask_for_hint");
    }
}
