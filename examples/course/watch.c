/* watch: waits for a command, for a save, and for the build of the library. */
#include "course.h"
#include "memory.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- the build --------------------------------------------------------------------------------------------------- */

/* Returns the last "[12/425]" of a log, or NULL. */
static const char *progress_of(const char *log)
{
    const char *found = NULL;
    for (const char *line = log; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        found = *line == '[' && strchr(line, ']') ? line : found;
    }
    return found;
}

static build_state state_of_build(void)
{
    const char *folder = getenv("COURSE_BUILD");
    if (!folder || !*folder) {
        return BUILD_DONE;
    }
    char path[COURSE_PATH];
    FORMAT(path, "%s/course.status", folder);
    char *status = file_read(path);
    build_state state = !status || !*status ? BUILD_RUNS : atoi(status) == 0 ? BUILD_DONE : BUILD_FAILED;
    free(status);
    return state;
}

build_state build_look(void)
{
    build_state state = state_of_build();
    if (state == BUILD_FAILED) {
        char path[COURSE_PATH];
        FORMAT(path, "%s/course.log", getenv("COURSE_BUILD"));
        SAY(0, "build_failed", {"file", path});
    }
    return state;
}

/* Prints the progress of the build at each tenth, on a line of its own: a command may be half typed. */
static void show_progress(void)
{
    static int shown = -1;
    char path[COURSE_PATH];
    int at, count;
    FORMAT(path, "%s/course.log", getenv("COURSE_BUILD"));
    char *log = file_read_beginning(path);
    const char *progress = log ? progress_of(log) : NULL;
    if (progress && sscanf(progress, "[%d/%d]", &at, &count) == 2 && count > 0 && at * 10 / count != shown) {
        shown = at * 10 / count;
        printf("[%d/%d]\n", at, count);
    }
    free(log);
}

/* The exercise whose check waits for the build, or NULL; and since when, in milliseconds. */
static const exercise *awaited;
static int64_t waits_since;
static bool has_said_so;

void watch_for_build(const exercise *e)
{
    if (awaited != e) {
        awaited = e;
        waits_since = milliseconds();
        has_said_so = false;
    }
}

/* Whether the check of the current exercise waits, and the library is ready for it. A build that has nothing to do is
 * not worth a message. */
static bool check_is_due(const exercise *current)
{
    awaited = awaited == current ? awaited : NULL; /* the student has gone on */
    if (!awaited) {
        return false;
    }
    if (state_of_build() != BUILD_RUNS) {
        awaited = NULL;
        return true;
    }
    if (milliseconds() - waits_since > 1000) {
        if (!has_said_so) {
            SAY_PLAIN(0, "building");
        }
        has_said_so = true;
        show_progress();
    }
    return false;
}

/* ---- saves ------------------------------------------------------------------------------------------------------- */

/* What changes when a file is saved. */
typedef struct stamp {
    struct timespec modified;
    off_t size;
    ino_t file;
    bool exists;
} stamp;

static stamp stamp_of(const char *file)
{
    struct stat status;
    stamp found = {0};
    if (stat(file, &status) == 0) {
        found = (stamp){status.st_mtim, status.st_size, status.st_ino, true};
    }
    return found;
}

static bool stamps_agree(stamp a, stamp b)
{
    return a.modified.tv_sec == b.modified.tv_sec && a.modified.tv_nsec == b.modified.tv_nsec && a.size == b.size &&
           a.file == b.file && a.exists == b.exists;
}

/* ---- commands ---------------------------------------------------------------------------------------------------- */

/* Whether a whole line was read together with the one before. */
static bool has_line;

/* Reads a line of the input, without waiting for more than one call of read. Returns false at its end; `line` is empty
 * if no whole line has come yet. */
static bool read_line(char *line, size_t size)
{
    static char waiting[1024];
    static size_t count;
    line[0] = 0;
    if (!memchr(waiting, '\n', count)) {
        ssize_t got = read(STDIN_FILENO, waiting + count, sizeof waiting - count);
        if (got <= 0) {
            return false;
        }
        count += (size_t)got;
    }
    const char *end = memchr(waiting, '\n', count);
    if (!end) {
        count = count < sizeof waiting ? count : 0; /* no command is that long */
        return true;
    }
    size_t length = (size_t)(end - waiting);
    snprintf(line, size, "%.*s", (int)strcspn(waiting, "\r\n"), waiting);
    count -= length + 1;
    memmove(waiting, end + 1, count);
    has_line = memchr(waiting, '\n', count) != NULL;
    return true;
}

/* What the files of all exercises were when they were read last. */
static stamp stamps[MAX_EXERCISES];

void watch_begin(const student *s)
{
    for (int i = 0; i < s->index->count; i++) {
        char file[COURSE_PATH];
        student_file(s, &s->index->exercises[i], file);
        stamps[i] = stamp_of(file);
    }
}

/* Says so if the file of another exercise was saved than the current one. */
static void notice_others(const student *s, const exercise *current)
{
    for (int i = 0; i < s->index->count; i++) {
        const exercise *e = &s->index->exercises[i];
        char file[COURSE_PATH];
        student_file(s, e, file);
        stamp now = stamp_of(file);
        if (e != current && now.exists && !stamps_agree(now, stamps[i])) {
            stamps[i] = now;
            SAY(0, "saved_other", {"saved", e->id}, {"current", current->id}, {"name", e->name});
        }
    }
}

/* An editor may write in parts, rename, or empty the file first: whether the file stays as it is for a moment. */
static bool is_at_rest(const char *file, stamp now)
{
    poll(NULL, 0, now.size > 0 ? 60 : 1000);
    return stamps_agree(stamp_of(file), now);
}

bool watch_wait(const student *s, const exercise *e, char *line, size_t size)
{
    static bool has_ended; /* the input; a check that waits is made nevertheless */
    char file[COURSE_PATH];
    student_file(s, e, file);
    stamp *last = &stamps[e - s->index->exercises];
    for (;;) {
        fflush(stdout);
        struct pollfd input = {.fd = has_ended ? -1 : STDIN_FILENO, .events = POLLIN};
        if (has_line || poll(&input, 1, 150) > 0) {
            has_ended = !read_line(line, size);
            if (line[0]) {
                return true;
            }
            continue;
        }
        line[0] = 0;
        if (check_is_due(e)) {
            return true;
        }
        if (has_ended && !awaited) {
            return false;
        }
        stamp now = stamp_of(file);
        if (!stamps_agree(now, *last) && is_at_rest(file, now)) {
            *last = now;
            return true;
        }
        notice_others(s, e);
    }
}
