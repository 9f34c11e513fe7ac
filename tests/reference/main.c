/* reference: compares the library with the formulas of a family, or of all families, in random calls.
 *
 *   reference FAMILY|all [--op OP] [--calls N] [--seconds S] [--seed S] [--call N] [--shapes FILE]
 *
 * Without options a family runs the number of calls that it states, which takes some seconds. Call N of seed S is
 * always the same; --call N repeats only this one. --shapes writes the shapes of all inputs. Prints the calls of each
 * op, and calls per minute; fails after a difference.
 */
#include "trial.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FAMILY(name) extern reference_family name;
#include "families.inc"
#undef FAMILY

static reference_family *const families[] = {
#define FAMILY(name) &name,
#include "families.inc"
#undef FAMILY
};
enum { FAMILY_COUNT = sizeof families / sizeof *families, MAX_REPORTS = 3, MAX_REFERENCES = 100 };

static struct {
    const reference_family *family;
    const char *op;
    uint64_t seed;
    long long call;
} running;

static void describe(const trial *t)
{
    (void)t;
    printf("\nDIFFERENCE: %s, reference %s --seed %llu --call %lld\n", running.op, running.family->name,
           (unsigned long long)running.seed, running.call);
}

/* A sanitizer, or a signal, ends the program: which call was it? */
static void describe_death(void)
{
    fprintf(stderr, "DIFFERENCE: %s ended the program, reference %s --seed %llu --call %lld\n",
            running.op ? running.op : "", running.family ? running.family->name : "", (unsigned long long)running.seed,
            running.call);
}

static void on_signal(int number)
{
    describe_death();
    signal(number, SIG_DFL);
    raise(number);
}

void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

typedef struct run {
    const char *op; /* NULL: all */
    uint64_t seed;
    long long calls; /* 0: as the family states */
    double seconds;  /* 0: no limit */
    long long only;  /* -1: all calls */
} run;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Runs the calls of a family; returns the number of calls that differ, and adds to the number of calls. */
static long long run_family(const reference_family *family, const run *options, long long *calls)
{
    long long count[MAX_REFERENCES] = {0}, wrong[MAX_REFERENCES] = {0}, differences = 0, done = 0;
    long long limit = options->calls > 0 ? options->calls : options->seconds > 0 ? INT64_MAX : family->calls;
    double begin = now();
    running.family = family;
    running.seed = options->seed;
    for (long long call = options->only >= 0 ? options->only : 0; done < limit; call++) {
        int k = (int)(call % family->count);
        const reference *r = &family->references[k];
        bool is_skipped = options->op && strcmp(options->op, r->op) != 0;
        if (wrong[k] >= MAX_REPORTS) {
            done++;
        } else if (!is_skipped) {
            running.op = r->op;
            running.call = call;
            uint64_t random = (options->seed << 40) ^ (uint64_t)call * UINT64_C(0x2545f4914f6cdd1d);
            wrong[k] += !trial_run(r, random, call / family->count, describe);
            count[k]++;
            done++;
        }
        if (options->only >= 0 || (options->seconds > 0 && now() - begin > options->seconds)) {
            break;
        }
    }
    long long sum = 0;
    for (int k = 0; k < family->count; k++) {
        if (count[k] > 0) {
            printf("%-36s %8lld calls, %lld differences%s\n", family->references[k].op, count[k], wrong[k],
                   wrong[k] >= MAX_REPORTS ? ", stopped" : "");
        }
        sum += count[k];
        differences += wrong[k];
    }
    double seconds = now() - begin;
    printf("%s: %lld calls in %.1f s, %.0f calls per minute, %lld differences\n\n", family->name, sum, seconds,
           60 * (double)sum / (seconds > 0 ? seconds : 1), differences);
    *calls += sum;
    return differences;
}

static int usage(void)
{
    fprintf(stderr, "usage: reference FAMILY|all|--list [--op OP] [--calls N] [--seconds S] [--seed S] [--call N]"
                    " [--shapes FILE]\nfamilies:");
    for (int k = 0; k < FAMILY_COUNT; k++) {
        fprintf(stderr, " %s", families[k]->name);
    }
    fprintf(stderr, "\n");
    return 2;
}

/* Reads a number from `low` on; the whole text must be one. */
static bool read_number(const char *name, const char *text, double low, double *value)
{
    char *end;
    *value = strtod(text, &end);
    if (end == text || *end || !(*value >= low) || *value > 9007199254740992.0) {
        fprintf(stderr, "reference: %s %s; it must be a number from %g to 2^53\n", name, text, low);
        return false;
    }
    return true;
}

/* Reads an option and its value. */
static bool read_option(run *options, const char *name, const char *value)
{
    double number;
    if (strcmp(name, "--op") == 0) {
        options->op = value;
        return true;
    }
    if (strcmp(name, "--shapes") == 0) {
        shapes_file = fopen(value, "w");
        return shapes_file != NULL;
    }
    if (strcmp(name, "--seconds") == 0) {
        return read_number(name, value, 1e-3, &options->seconds);
    }
    bool is_count = strcmp(name, "--calls") == 0, is_seed = strcmp(name, "--seed") == 0;
    if (!is_count && !is_seed && strcmp(name, "--call") != 0) {
        fprintf(stderr, "reference: unknown option %s\n", name);
        return false;
    }
    if (!read_number(name, value, is_count ? 1 : 0, &number)) {
        return false;
    }
    if (number != floor(number)) {
        fprintf(stderr, "reference: %s %s; it must be a whole number\n", name, value);
        return false;
    }
    if (is_count) {
        options->calls = (long long)number;
    } else if (is_seed) {
        options->seed = (uint64_t)number;
    } else {
        options->only = (long long)number;
    }
    return true;
}

int main(int argc, char **argv)
{
    run options = {NULL, 1, 0, 0, -1};
    for (int k = 0; k < FAMILY_COUNT; k++) {
        if (families[k]->begin) {
            families[k]->begin(families[k]);
        }
    }
    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
        for (int k = 0; k < FAMILY_COUNT; k++) {
            for (int i = 0; i < families[k]->count; i++) {
                printf("%s %s\n", families[k]->references[i].op, families[k]->name);
            }
        }
        return 0;
    }
    if (argc < 2 || argc % 2 != 0) {
        return usage();
    }
    for (int k = 2; k + 1 < argc; k += 2) {
        if (!read_option(&options, argv[k], argv[k + 1])) {
            return usage();
        }
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (__sanitizer_set_death_callback) {
        __sanitizer_set_death_callback(describe_death);
    } else {
        signal(SIGSEGV, on_signal);
        signal(SIGBUS, on_signal);
        signal(SIGFPE, on_signal);
        signal(SIGABRT, on_signal);
    }
    double begin = now();
    long long calls = 0, differences = 0;
    int ran = 0, ops = 0;
    for (int k = 0; k < FAMILY_COUNT; k++) {
        bool has_op = !options.op;
        for (int i = 0; i < families[k]->count; i++) {
            has_op = has_op || strcmp(options.op, families[k]->references[i].op) == 0;
        }
        if (has_op && (strcmp(argv[1], "all") == 0 || strcmp(argv[1], families[k]->name) == 0)) {
            differences += run_family(families[k], &options, &calls);
            ops += families[k]->count;
            ran++;
        }
    }
    if (ran == 0) {
        return usage();
    }
    double seconds = now() - begin;
    printf("reference: %lld calls of %d ops in %.1f s, %.0f calls per minute, %lld differences\n", calls, ops, seconds,
           60 * (double)calls / (seconds > 0 ? seconds : 1), differences);
    return differences > 0;
}
