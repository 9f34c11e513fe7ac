/* course: the exercises of tapegrad. Shows the next exercise, waits until its file is saved, compiles and checks it,
 * and prints the first mistake. Commands are typed: hint, next, list, reset, solution, quit. */
#include "course.h"

#include "../common/nearest.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static course_paths paths = {
    .source = COURSE_SOURCE,
    .checkers = COURSE_CHECKERS,
    .include = COURSE_INCLUDE,
    .library = COURSE_LIBRARY,
    .student = COURSE_SOURCE "/mine",
};

/* ---- commands ---------------------------------------------------------------------------------------------------- */

static int number_of(const student *s, const exercise *e)
{
    return (int)(e - s->index->exercises);
}

/* `current` gets a mark. */
static void list(const student *s, const exercise *current, bool is_fast)
{
    int passed = 0, count = 0;
    const char *unit = "";
    for (int i = 0; i < s->index->count; i++) {
        const exercise *e = &s->index->exercises[i];
        if (is_fast && !e->is_fast) {
            continue;
        }
        count++;
        if (strcmp(unit, e->unit) != 0) {
            char key[2 * COURSE_WORD];
            FORMAT(key, "unit.%s", e->unit);
            SAY_PLAIN(0, key);
            unit = e->unit;
        }
        char line[3 * COURSE_WORD];
        FORMAT(line, "%s%c %-22s %s%s", e == current ? "> " : "", s->passed[i] ? 'x' : '.', e->name, e->title,
               e->is_fast && !is_fast ? " *" : "");
        print_wrapped(e == current ? 0 : 2, line);
        passed += s->passed[i];
    }
    char counts[64];
    FORMAT(counts, "%d / %d", passed, count);
    SAY(0, is_fast ? "list_fast" : "list", {"counts", counts});
}

static void hint(student *s, const exercise *e)
{
    int *given = &s->hints[number_of(s, e)];
    bool was_last = *given >= 3;
    *given = was_last ? 3 : *given + 1;
    char key[2 * COURSE_WORD], number[16];
    for (int i = 1; i <= *given; i++) {
        FORMAT(key, "%s.hint%d", e->id, i);
        FORMAT(number, "%d", i);
        SAY(0, "hint", {"number", number}, {"text", message_find(key) ? message_find(key) : ""});
    }
    if (was_last) {
        SAY_PLAIN(0, "last_hint");
    }
    student_save(s);
}

static bool print_file(const char *path)
{
    char *text = file_read(path);
    if (!text) {
        return complain("%s: %s", path, strerror(errno));
    }
    fputs(text, stdout);
    free(text);
    return true;
}

static bool solution(const student *s, const exercise *e)
{
    if (!s->passed[number_of(s, e)]) {
        SAY(0, "solution_later", {"exercise", e->id});
        return false;
    }
    char path[COURSE_PATH];
    FORMAT(path, "%s/solutions/%s.c", paths.source, e->id);
    return print_file(path);
}

static bool reset(const student *s, const exercise *e)
{
    char kept[COURSE_PATH];
    if (!s->is_there) {
        return complain("%s: the folder has no exercises; a start without a command copies them", paths.student);
    }
    if (student_is_unchanged(s, e)) {
        SAY(0, "reset_unchanged", {"exercise", e->id});
        return true;
    }
    if (!student_reset(s, e, kept)) {
        return false;
    }
    SAY(0, kept[0] ? "reset_kept" : "reset", {"exercise", e->id}, {"kept", kept});
    return true;
}

/* Returns 0 if the file passes, 1 if not, 2 if the checks could not run. */
static int check_once(const student *s, const exercise *e, const char *file, uint64_t seed, bool is_terse)
{
    outcome o;
    run_options options = {.seed = seed};
    check_file(&paths, s->index, e, file, &options, &o);
    if (is_terse) {
        const char *why = o.kind == FAILED ? o.check : o.kind == BROKEN && o.value_count > 1 ? o.values[1].value : "";
        printf("%s", o.kind == PASSED ? "pass" : o.kind == FAILED ? "fail " : "broken ");
        print_visible(stdout, why, strlen(why));
        printf("\n");
    } else {
        outcome_print(&paths, e, file, &o);
    }
    int status = o.kind == PASSED ? 0 : o.kind == FAILED ? 1 : 2;
    outcome_free(&o);
    return status;
}

/* ---- the loop ---------------------------------------------------------------------------------------------------- */

/* The exercise's number among those of the fast track, or of all. */
static void show(const student *s, const exercise *e, bool is_fast)
{
    char file[COURSE_PATH], number[32];
    int at = 0, count = 0;
    is_fast = is_fast && e->is_fast;
    for (const exercise *other = s->index->exercises; other < s->index->exercises + s->index->count; other++) {
        at += (other->is_fast || !is_fast) && other <= e;
        count += other->is_fast || !is_fast;
    }
    student_file(s, e, file);
    FORMAT(number, "%d / %d", at, count);
    putchar('\n');
    SAY(0, "exercise", {"exercise", e->id}, {"title", e->title}, {"number", number});
    SAY(2, file_exists(file) ? "file" : "file_is_deleted", {"file", file});
    SAY_PLAIN(2, "commands");
}

/* The next exercise that is not passed: of the fast track, and behind its end the first of the others; NULL: all are
 * passed. */
static const exercise *next_of(const student *s, const exercise *after, bool is_fast)
{
    const exercise *next = student_next(s, after, is_fast);
    return next ? next : student_next(s, after && after->is_fast ? NULL : after, false);
}

/* Says that the track is finished. */
static void say_finished(const student *s, bool is_fast)
{
    int passed = 0;
    char counts[2][16];
    for (int i = 0; i < s->index->count; i++) {
        passed += s->passed[i];
    }
    FORMAT(counts[0], "%d", passed);
    FORMAT(counts[1], "%d", s->index->count);
    bool is_all = passed == s->index->count || !is_fast;
    SAY(0, is_all ? "all_passed" : "fast_finished", {"passed", counts[0]}, {"count", counts[1]});
}

/* Checks the file. Returns the exercise to show next: the same, or after a success the next one. At the end of the
 * track it is the same, so that the student can read its solution. */
static const exercise *check_and_move(student *s, const exercise *e, bool is_fast, uint64_t seed)
{
    char file[COURSE_PATH], key[2 * COURSE_WORD];
    student_file(s, e, file);
    build_state build = build_look();
    if (build == BUILD_RUNS) {
        watch_for_build(e);
    }
    if (build != BUILD_DONE) {
        return e;
    }
    putchar('\n');
    SAY_PLAIN(0, "checking");
    fflush(stdout);
    if (check_once(s, e, file, seed, false) != 0) {
        return e;
    }
    s->passed[number_of(s, e)] = true;
    student_save(s);
    FORMAT(key, "%s.answer", e->id);
    if (message_find(key)) {
        SAY(2, "answer", {"text", message_find(key)});
    }
    SAY(2, "solution_now", {"exercise", e->id});
    const exercise *next = student_next(s, e, is_fast);
    if (!next && !e->is_fast) {
        next = student_next(s, e, false); /* beyond the fast track */
    }
    if (!next) {
        say_finished(s, is_fast);
    }
    return next ? next : e;
}

/* The command that a word means: its first letter, or 'R' for reset, or 0. */
static char command_of(const char *word)
{
    static const char *const commands[] = {"quit", "list", "hint", "solution", "next", "run"};
    if (strcmp(word, "reset") == 0) {
        return 'R';
    }
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        if (strcmp(word, commands[i]) == 0 || (word[0] == commands[i][0] && !word[1])) {
            return commands[i][0];
        }
    }
    return 0;
}

/* Returns false at "quit". */
static bool obey(student *s, const exercise **current, const char *line, bool is_fast, uint64_t seed)
{
    const exercise *e = *current;
    char word[32] = "", name[COURSE_WORD] = "";
    sscanf(line, "%31s %63s", word, name);
    char command = command_of(word);
    if (!command) {
        if (word[0] && strcmp(word, "help") != 0) {
            SAY(0, "no_command", {"word", word});
        }
        SAY_PLAIN(0, "help");
        return true;
    }
    const exercise *named = name[0] ? index_find(s->index, name) : e;
    if (!named) {
        SAY(0, "no_exercise", {"name", name});
        return true;
    }
    switch (command) {
    case 'q': return false;
    case 'l': list(s, e, is_fast); break;
    case 'h': hint(s, named); break;
    case 's': solution(s, named); break;
    case 'R': reset(s, named); break;
    case 'n':
        named = name[0] ? named : next_of(s, e, is_fast);
        *current = named ? named : e;
        show(s, *current, is_fast);
        break;
    default:
        *current = check_and_move(s, e, is_fast, seed);
        if (*current != e) {
            show(s, *current, is_fast);
        }
    }
    return true;
}

/* What Ctrl-C prints. */
static char last_words[COURSE_TEXT];

static void interrupted(int signal_number)
{
    (void)signal_number;
    ssize_t written = write(STDOUT_FILENO, last_words, strlen(last_words));
    _exit(written < 0 ? 1 : 130);
}

static int watch(student *s, bool is_fast, uint64_t seed)
{
    const exercise *e = student_next(s, NULL, is_fast);
    FORMAT(last_words, "\n%s\n", message_find("goodbye") ? message_find("goodbye") : "");
    sigaction(SIGINT, &(struct sigaction){.sa_handler = interrupted}, NULL);
    if (e) {
        SAY_PLAIN(0, "welcome");
        show(s, e, is_fast);
    } else {
        say_finished(s, is_fast);
        e = next_of(s, NULL, false);
        e = e ? e : s->index->exercises;
        show(s, e, is_fast);
    }
    char line[256];
    watch_begin(s);
    while (watch_wait(s, e, line, sizeof line) && obey(s, &e, line[0] ? line : "run", is_fast, seed)) {
    }
    SAY_PLAIN(0, "goodbye");
    return 0;
}

/* ---- the command line -------------------------------------------------------------------------------------------- */

static int run_command(student *s, char **words, int count, bool is_fast, uint64_t seed, bool is_terse)
{
    if (strcmp(words[0], "list") == 0 && count == 1) {
        list(s, student_next(s, NULL, is_fast), is_fast);
        return 0;
    }
    const exercise *e = count > 1 ? index_find(s->index, words[1]) : NULL;
    if (count > 1 && !e) {
        complain("%s: no exercise has this name; the command list shows them", words[1]);
        return 2;
    }
    if (e && strcmp(words[0], "check") == 0 && count <= 3) {
        char file[COURSE_PATH];
        student_file(s, e, file);
        return check_once(s, e, count == 3 ? words[2] : file, seed, is_terse);
    }
    if (e && strcmp(words[0], "hint") == 0 && count == 2) {
        hint(s, e);
        return 0;
    }
    if (e && strcmp(words[0], "reset") == 0 && count == 2) {
        return reset(s, e) ? 0 : 1;
    }
    if (e && strcmp(words[0], "solution") == 0 && count == 2) {
        return solution(s, e) ? 0 : 1;
    }
    static const char *const commands[] = {"check", "hint", "reset", "solution"};
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        if (!e && strcmp(words[0], commands[i]) == 0) {
            complain("%s: the name of an exercise is missing, as in: %s lookup", words[0], words[0]);
            return 2;
        }
    }
    nearest n = {.word = words[0]};
    char text[NEAREST_TEXT];
    nearest_try_all(&n, commands, sizeof commands / sizeof *commands);
    nearest_try(&n, "list");
    nearest_try(&n, "grade");
    complain("unknown command %s%s; --help lists them", words[0], nearest_text(&n, "", text));
    return 2;
}

/* examples/course/run prints the same file, before anything is built. */
static bool usage(void)
{
    char path[COURSE_PATH];
    FORMAT(path, "%s/usage.txt", paths.source);
    return print_file(path);
}

int main(int argc, char **argv)
{
    const char *language = getenv("LANG");
    char two_letters[3] = "", build[COURSE_PATH];
    if (language && strlen(language) >= 2 && strncmp(language, "en", 2) != 0) {
        FORMAT(two_letters, "%.2s", language);
    }
    language = two_letters;
    uint64_t seed = 7;
    bool is_fast = false, is_terse = false, is_chosen = false;
    char *words[4];
    int count = 0;
    course_index index = {0};
    if (argc > 1 && strcmp(argv[1], "grade") == 0) {
        bool is_read = messages_read(paths.source, "", false) && index_read(&index, paths.source);
        int status = is_read ? grade(&paths, &index, argc - 2, argv + 2) : 2;
        free(index.exercises);
        return status;
    }
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            return usage() ? 0 : 2;
        }
        if (strcmp(argv[i], "--fast") == 0) {
            is_fast = true;
        } else if (strcmp(argv[i], "--terse") == 0) {
            is_terse = true;
        } else if (strcmp(argv[i], "--folder") == 0 && i + 1 < argc) {
            paths.student = argv[++i];
        } else if (strcmp(argv[i], "--language") == 0 && i + 1 < argc) {
            language = argv[++i];
            is_chosen = true;
        } else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc) {
            if (!seed_read(argv[++i], &seed)) {
                return 2;
            }
        } else if (argv[i][0] == '-' || count == 4) {
            static const char *const options[] = {"help", "fast", "terse", "folder", "language", "seed"};
            nearest n = {.word = argv[i]};
            char text[NEAREST_TEXT];
            nearest_try_all(&n, options, sizeof options / sizeof *options);
            complain("unknown option %s%s; --help lists them", argv[i], nearest_text(&n, "--", text));
            return 2;
        } else {
            words[count++] = argv[i];
        }
    }
    FORMAT(build, "%s/.build", paths.student);
    paths.build = build;
    student s;
    bool creates = count == 0 || strcmp(words[0], "check") == 0;
    int status = 2;
    if (messages_read(paths.source, language, is_chosen) && index_read(&index, paths.source) &&
        student_open(&s, &paths, &index, creates)) {
        status = count > 0 ? run_command(&s, words, count, is_fast, seed, is_terse) : watch(&s, is_fast, seed);
    }
    free(index.exercises);
    return fflush(stdout) == 0 ? status : 1;
}
