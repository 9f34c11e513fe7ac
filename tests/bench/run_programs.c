/* run_programs: a program of tests/bench/program.h, with one thread.
 *
 *     bench_programs                the names
 *     bench_programs NAME [STEPS]   runs two steps, then STEPS more, and prints the seconds of these
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "bench/program.h"

/* Callgrind counts from here ... */
static __attribute__((noinline)) void begin(void)
{
    __asm__ volatile("");
}

/* ... to here. Not the same text, of which the compiler would make one function. */
static __attribute__((noinline)) void end(void)
{
    __asm__ volatile("" ::: "memory");
}

static void run(const program_row *row, int steps)
{
    tg_set_threads(1, NULL);
    program p = program_new(row);
    for (int warm = 0; warm < 2; warm++) {
        row->step(&p);
    }
    clock_t before = clock();
    begin();
    for (int step = 0; step < steps; step++) {
        row->step(&p);
    }
    end();
    printf("%.6f\n", (double)(clock() - before) / CLOCKS_PER_SEC);
    program_free(&p);
}

int main(int argc, char **argv)
{
    const program_row *row;
    if (argc < 2) {
        for (int i = 0; (row = program_at(i)); i++) {
            puts(row->name);
        }
        return 0;
    }
    row = program_named(argv[1]);
    if (!row) {
        fprintf(stderr, "programs: %s is no name; without arguments the names are printed\n", argv[1]);
        return 2;
    }
    run(row, argc > 2 ? atoi(argv[2]) : row->steps);
    return 0;
}
