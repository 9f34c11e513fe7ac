/* grade: checks the submissions of a class. A submission is a folder with UNIT/NAME.c, or NAME.c; only these files
 * are read, and only if they are regular files. Each is compiled and run in isolation (isolation.c), with the checks of
 * this folder: once without sanitizers, and once with, under hard limits. It has to pass both. grading.md says who
 * measures what. */
#include "grade.h"

#include "../common/nearest.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct grader {
    course_paths paths;
    const course_index *index;
    uint64_t seed;
    bool is_isolated;
    /* only these exercises; none: all */
    const char *only[MAX_EXERCISES];
    int only_count;
    char folder[COURSE_PATH];
} grader;

static bool is_chosen(const grader *g, const exercise *e)
{
    for (int i = 0; i < g->only_count; i++) {
        if (strcmp(g->only[i], e->id) == 0 || strcmp(g->only[i], e->name) == 0) {
            return true;
        }
    }
    return g->only_count == 0;
}

/* Opens a file below a folder of a submission without following a link: neither the folder nor the two names may be
 * one. Returns -1. */
static int open_plain(const char *folder, const char *first, const char *second)
{
    char path[COURSE_PATH];
    FORMAT(path, "%s", folder);
    for (size_t end = strlen(path); end > 1 && path[end - 1] == '/'; end--) {
        path[end - 1] = 0; /* behind which a link would be followed */
    }
    int at = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), file = -1;
    if (at >= 0 && second) {
        int inner = openat(at, first, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        file = inner < 0 ? -1 : openat(inner, second, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (inner >= 0) {
            close(inner);
        }
    } else if (at >= 0) {
        file = openat(at, first, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    }
    int cause = errno;
    if (at >= 0) {
        close(at);
    }
    struct stat status;
    if (file >= 0 && (fstat(file, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size > 1 << 20)) {
        close(file);
        file = -1;
        cause = EINVAL;
    }
    errno = cause;
    return file;
}

/* Copies the student's file to `path`. Returns NULL, or why not. */
static const char *copy_submission(const char *folder, const exercise *e, const char *path)
{
    char name[COURSE_WORD + 2];
    FORMAT(name, "%s.c", e->name);
    int from = open_plain(folder, e->unit, name);
    if (from < 0 && errno == ENOENT) {
        from = open_plain(folder, name, NULL);
    }
    if (from < 0) {
        return errno == ENOENT                      ? "the file is missing"
               : errno == ELOOP || errno == ENOTDIR ? "the file or its folder is a link"
               : errno == EINVAL                    ? "not a regular file of at most 1 MB"
                                                    : strerror(errno);
    }
    static char bytes[1 << 20];
    ssize_t count = 0, got;
    while ((got = read(from, bytes + count, sizeof bytes - (size_t)count)) > 0) {
        count += got;
    }
    close(from);
    return got >= 0 && file_replace(path, bytes, (size_t)count) ? NULL : strerror(errno);
}

/* One line about a failure. */
static void explain(const outcome *o, grade_result *r)
{
    r->passed = o->kind == PASSED;
    FORMAT(r->check, "%s", o->kind == BROKEN ? "grader" : o->check);
    FORMAT(r->why, "%s", o->key);
    for (int i = 0; i < o->value_count; i++) {
        if (strcmp(o->values[i].name, "map") == 0) {
            continue;
        }
        size_t used = strlen(r->why);
        snprintf(r->why + used, sizeof r->why - used, "%s%s: %s", i == 0 ? "; " : ", ", o->values[i].name,
                 o->values[i].value);
    }
}

static void check_in(const grader *g, const exercise *e, const char *folder, const char *file, bool has_sanitizers,
                     grade_result *r)
{
    static prefix compile, link, run;
    course_paths paths = g->paths;
    paths.build = folder;
    run_options options = {.seed = g->seed, .without_sanitizers = !has_sanitizers};
    if (g->is_isolated) {
        isolation_compile(&compile, &paths, folder);
        isolation_link(&link, &paths, folder);
        isolation_run(&run, &paths, folder, has_sanitizers);
        options.compile_prefix = compile.words;
        options.link_prefix = link.words;
        options.worker_prefix = run.words;
    }
    outcome o;
    check_file(&paths, g->index, e, file, &options, &o);
    explain(&o, r);
    outcome_free(&o);
}

static void remove_folder(const char *folder)
{
    const char *words[] = {"rm", "-rf", "--", folder, NULL};
    command_run((char *const *)words, "/dev/null");
}

static grade_result grade_exercise(const grader *g, const char *submission, const exercise *e)
{
    grade_result r = {.exercise = e, .check = "compile"};
    char folder[COURSE_PATH + COURSE_WORD], file[COURSE_PATH + 3 * COURSE_WORD];
    FORMAT(folder, "%s/%s", g->folder, e->name);
    FORMAT(file, "%s/%s.c", folder, e->name);
    if (mkdir(folder, 0755) != 0) {
        FORMAT(r.why, "%s", strerror(errno));
        return r;
    }
    const char *refused = copy_submission(submission, e, file);
    if (refused) {
        FORMAT(r.why, "%s", refused);
    } else if (g->is_isolated && getuid() == 0 &&
               (chmod(file, 0644) != 0 || chown(folder, (uid_t)isolation_uid(), (gid_t)isolation_uid()) != 0)) {
        FORMAT(r.why, "%s", strerror(errno));
    } else {
        check_in(g, e, folder, file, false, &r);
        if (r.passed) {
            check_in(g, e, folder, file, true, &r);
        }
    }
    remove_folder(folder);
    return r;
}

static bool grade_submission_of(const grader *g, const char *folder, grade_submission *s)
{
    s->folder = folder;
    s->results = calloc((size_t)g->index->count, sizeof *s->results);
    if (!s->results) {
        return complain("out of memory");
    }
    for (int i = 0; i < g->index->count; i++) {
        const exercise *e = &g->index->exercises[i];
        if (is_chosen(g, e)) {
            s->results[s->count++] = grade_exercise(g, folder, e);
        }
    }
    bool has_mandatory;
    int points = report_points(s, &has_mandatory), passed = 0;
    for (int i = 0; i < s->count; i++) {
        passed += s->results[i].passed;
    }
    print_visible(stdout, folder, strlen(folder));
    printf(": %d of %d exercises, %d points, mandatory exercises %s\n", passed, s->count, points,
           has_mandatory ? "passed" : "not passed");
    fflush(stdout);
    return true;
}

/* Returns the number of folders, or -1 after printing an error. The report's path goes to *report. */
static int read_options(grader *g, int argc, char **argv, const char **folders, const char **report)
{
    int count = 0;
    for (int i = 0; i < argc; i++) {
        bool has_value = i + 1 < argc;
        struct stat status;
        if (strcmp(argv[i], "--report") == 0 && has_value) {
            *report = argv[++i];
        } else if (strcmp(argv[i], "--seed") == 0 && has_value) {
            if (!seed_read(argv[++i], &g->seed)) {
                return -1;
            }
        } else if (strcmp(argv[i], "--only") == 0 && has_value && g->only_count < MAX_EXERCISES) {
            g->only[g->only_count++] = argv[++i];
            if (!index_find(g->index, argv[i])) {
                complain("grade: no exercise is called %s", argv[i]);
                return -1;
            }
        } else if (strcmp(argv[i], "--no-isolation") == 0) {
            g->is_isolated = false;
        } else if (argv[i][0] == '-') {
            static const char *const options[] = {"report", "seed", "only", "no-isolation"};
            nearest n = {.word = argv[i]};
            char text[NEAREST_TEXT];
            nearest_try_all(&n, options, sizeof options / sizeof *options);
            complain("grade: unknown option %s%s; allowed: --report FILE, --seed N, --only NAME, --no-isolation",
                     argv[i], nearest_text(&n, "--", text));
            return -1;
        } else if (stat(argv[i], &status) != 0 || !S_ISDIR(status.st_mode)) {
            complain("grade: %s is not a folder", argv[i]);
            return -1;
        } else {
            folders[count++] = argv[i];
        }
    }
    if (count == 0 || !*report) {
        complain("grade: needs a folder, and --report FILE");
        return -1;
    }
    return report_can_be_written(*report) ? count : -1;
}

int grade(const course_paths *paths, const course_index *index, int argc, char **argv)
{
    grader g = {.paths = *paths, .index = index, .seed = 7, .is_isolated = true};
    const char **folders = calloc((size_t)argc + 1, sizeof *folders), *report_path = NULL;
    grade_report report = {.submissions = calloc((size_t)argc + 1, sizeof *report.submissions)};
    int count = folders && report.submissions ? read_options(&g, argc, argv, folders, &report_path) : -1;
    const char *temporary = getenv("TMPDIR");
    FORMAT(g.folder, "%s/course-grade-XXXXXX", temporary && *temporary == '/' ? temporary : "/tmp");
    int status = 2;
    if (count > 0 && (!mkdtemp(g.folder) || chmod(g.folder, 0711) != 0)) {
        complain("%s: %s", g.folder, strerror(errno));
    } else if (count > 0) {
        if (!g.is_isolated || isolation_works(paths, g.folder)) {
            bool good = true;
            for (int i = 0; good && i < count; i++) {
                good = grade_submission_of(&g, folders[i], &report.submissions[report.count++]);
            }
            report.seed = g.seed;
            report.is_isolated = g.is_isolated;
            status = good && report_write(&report, report_path) ? 0 : 2;
        }
        remove_folder(g.folder);
    }
    for (int i = 0; i < report.count; i++) {
        free(report.submissions[i].results);
    }
    free(report.submissions);
    free(folders);
    return status;
}
