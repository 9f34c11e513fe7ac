/* Runs random programs, and prints those whose variants differ.
 *
 *   programs [--seed N] [--programs N] [--seconds S] [--one SEED] [--shrink] [--print] [--reproducible]
 *            [--without NAME]...
 *
 * With --reproducible the tapes' products are, and more variants have the same bits.
 *
 * Program i has the seed N + i, so a number that is printed runs again with --one. A child process runs the programs:
 * if it crashes, or takes longer than a minute, its parent knows the program from memory that both share. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "programs.h"

enum { SECONDS_PER_PROGRAM = 120 };

typedef struct shared {
    program program;
    finding finding;
    char now[80]; /* what runs */
    long done;
    bool is_drawn;
} shared;

typedef struct options {
    uint64_t seed;
    long programs;
    double seconds;
    bool shrinks, prints;
} options;

static shared *both;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void print_program(const program *p)
{
    static char text[MOST_INSTRUCTIONS * (DETAIL + 40) + 1000];
    program_print(p, text, sizeof text);
    fputs(text, stdout);
    fflush(stdout);
}

/* ---- the child --------------------------------------------------------------------------------------------------- */

static void check_one(const program *p)
{
    alarm(SECONDS_PER_PROGRAM);
    check_program(p, &both->finding, both->now, sizeof both->now);
}

/* Runs programs until one fails, or until the time is over. */
static void run_programs(const options *o, long from, double end)
{
    for (long i = from; i < o->programs && now() < end && !both->finding.is_found; i++) {
        both->done = i;
        both->is_drawn = false;
        snprintf(both->now, sizeof both->now, "the draft");
        alarm(SECONDS_PER_PROGRAM);
        draw_program(&both->program, o->seed + (uint64_t)i);
        both->is_drawn = true;
        if (o->prints) {
            print_program(&both->program);
        }
        check_one(&both->program);
        both->done = i + 1;
    }
}

/* ---- the parent -------------------------------------------------------------------------------------------------- */

/* Waits for the child, and writes to the finding how it ended. */
static void wait_for(pid_t child)
{
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    bool is_crash = !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    if (is_crash && !both->finding.is_found) {
        both->finding.is_found = true;
        snprintf(both->finding.variants, sizeof both->finding.variants, "%s", both->now);
        if (WIFSIGNALED(status)) {
            snprintf(both->finding.text, sizeof both->finding.text, "%s", strsignal(WTERMSIG(status)));
        } else {
            snprintf(both->finding.text, sizeof both->finding.text, "exit status %d", WEXITSTATUS(status));
        }
    }
}

static pid_t begin_child(void)
{
    fflush(NULL);
    pid_t child = fork();
    if (child < 0) {
        perror("fork");
        exit(2);
    }
    return child;
}

static bool is_silent;

static void silence(void)
{
    if (is_silent && (!freopen("/dev/null", "w", stderr) || !freopen("/dev/null", "w", stdout))) {
        _exit(2);
    }
}

/* Whether a program fails, for the shrinking: in a child, and in the same variants. */
static char wanted[80];

static bool fails(const program *p)
{
    both->finding.is_found = false;
    both->program = *p;
    pid_t child = begin_child();
    if (child == 0) {
        silence();
        check_one(p);
        _exit(0);
    }
    wait_for(child);
    return both->finding.is_found && strcmp(both->finding.variants, wanted) == 0;
}

static void print_finding(const finding *f)
{
    printf("  %s: %s\n", f->variants, f->text);
    fflush(stdout);
}

static void shrink(void)
{
    static program p;
    finding found = both->finding;
    p = both->program;
    snprintf(wanted, sizeof wanted, "%s", found.variants);
    is_silent = true;
    /* the drafts of the smaller programs are made in this process; a crash of a draft ends it */
    shrink_program(&p, fails);
    bool still_fails = fails(&p);
    is_silent = false;
    printf("shrunk:\n");
    print_program(&p);
    print_finding(still_fails ? &both->finding : &found);
}

static int search(const options *o)
{
    double end = now() + o->seconds;
    long from = 0;
    int findings = 0;
    while (from < o->programs && now() < end) {
        memset(both, 0, sizeof *both);
        pid_t child = begin_child();
        if (child == 0) {
            run_programs(o, from, end);
            _exit(0);
        }
        wait_for(child);
        from = both->done;
        if (both->finding.is_found) {
            findings++;
            from += both->done == (long)(both->program.seed - o->seed); /* crashed in this program */
            print_program(&both->program);
            print_finding(&both->finding);
            if (o->shrinks && both->is_drawn) {
                shrink();
            }
        }
    }
    printf("%ld programs, %d findings\n", from, findings);
    return findings > 0;
}

static int usage(void)
{
    fprintf(stderr, "programs [--seed N] [--programs N] [--seconds S] [--one SEED] [--shrink] [--print] "
                    "[--reproducible] [--without NAME]...\n");
    return 2;
}

int main(int count, char **arguments)
{
    options o = {.seed = 1, .programs = 1000000000, .seconds = 1e9};
    for (int i = 1; i < count; i++) {
        const char *name = arguments[i];
        if (strcmp(name, "--shrink") == 0) {
            o.shrinks = true;
            continue;
        }
        if (strcmp(name, "--reproducible") == 0) {
            is_reproducible = true;
            continue;
        }
        if (strcmp(name, "--print") == 0) {
            o.prints = true;
            continue;
        }
        const char *value = i + 1 < count ? arguments[++i] : NULL;
        if (!value) {
            return usage();
        }
        if (strcmp(name, "--seed") == 0) {
            o.seed = strtoull(value, NULL, 10);
        } else if (strcmp(name, "--programs") == 0) {
            o.programs = strtol(value, NULL, 10);
        } else if (strcmp(name, "--seconds") == 0) {
            o.seconds = strtod(value, NULL);
        } else if (strcmp(name, "--one") == 0) {
            o.seed = strtoull(value, NULL, 10);
            o.programs = 1;
        } else if (strcmp(name, "--without") != 0 || !leave_out(value)) {
            return usage();
        }
    }
    both = mmap(NULL, sizeof *both, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (both == MAP_FAILED) {
        perror("mmap");
        return 2;
    }
    return search(&o);
}
