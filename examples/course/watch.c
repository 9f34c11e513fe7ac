/* watch: waits for a command, for a save, and for the build of the library. */
#include "course.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
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

bool wait_for_build(void)
{
    const char *folder = getenv("COURSE_BUILD");
    char log_path[COURSE_PATH], status_path[COURSE_PATH], shown[32] = "";
    bool has_said = false;
    if (!folder || !*folder) {
        return true;
    }
    FORMAT(log_path, "%s/course.log", folder);
    FORMAT(status_path, "%s/course.status", folder);
    for (;;) {
        char *status = file_read(status_path), *log = file_read_beginning(log_path);
        const char *progress = log ? progress_of(log) : NULL;
        bool is_done = status && *status, is_good = is_done && atoi(status) == 0;
        if (is_done && shown[0]) {
            putchar('\n');
        }
        if (is_done && !is_good) {
            SAY(0, "build_failed", {"file", log_path});
        } else if (!is_done && !has_said) {
            SAY_PLAIN(0, "building");
            has_said = true;
        }
        if (!is_done && progress) {
            char now[32];
            FORMAT(now, "%.*s", (int)(strcspn(progress, "]") + 1), progress);
            if (strcmp(now, shown) != 0) {
                printf(isatty(STDOUT_FILENO) ? "\r%s" : "%s\n", now);
                FORMAT(shown, "%s", now);
            }
        }
        free(status);
        free(log);
        if (is_done) {
            return is_good;
        }
        fflush(stdout);
        poll(NULL, 0, 200);
    }
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

bool watch_wait(const student *s, const exercise *e, char *line, size_t size)
{
    char file[COURSE_PATH];
    student_file(s, e, file);
    stamp *last = &stamps[e - s->index->exercises];
    for (;;) {
        fflush(stdout);
        struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
        if (has_line || poll(&input, 1, 150) > 0) {
            if (!read_line(line, size)) {
                return false;
            }
            if (line[0]) {
                return true;
            }
            continue;
        }
        stamp now = stamp_of(file);
        if (!stamps_agree(now, *last)) {
            /* an editor may write in parts, or rename */
            poll(NULL, 0, 40);
            if (stamps_agree(stamp_of(file), now)) {
                *last = now;
                line[0] = 0;
                return true;
            }
        }
        notice_others(s, e);
    }
}
