/* ranks: shared by the tests over MPI. mpirun starts the same program on every rank. Rank 0 prints; a failed assertion
 * on any rank ends all of them. */
#ifndef TG_TESTS_RANKS_H
#define TG_TESTS_RANKS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tapegrad_mpi.h>

#include "support.h"

static int rank, ranks;

/* Initializes MPI, runs the tests, and finalizes. Returns the exit status. */
static inline int run_on_ranks(const char *name, const struct CMUnitTest *tests, size_t count,
                               int (*run)(const char *, const struct CMUnitTest *, size_t))
{
    int level;
    MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    /* cmocka aborts the process instead of running the next test, for which the other ranks would wait forever */
    setenv("CMOCKA_TEST_ABORT", "1", 1);
    if (rank > 0 && !freopen("/dev/null", "w", stdout)) {
        return 1;
    }
    /* more processes than processors may run */
    tg_set_threads(1, NULL);
    int failed = run(name, tests, count);
    MPI_Finalize();
    return failed;
}

/* cmocka's macro, as a function. */
#define DEFINE_MAIN(name, tests)                                                         \
    static int run_group(const char *title, const struct CMUnitTest *list, size_t count) \
    {                                                                                    \
        return _cmocka_run_group_tests(title, list, count, NULL, NULL);                  \
    }                                                                                    \
    int main(void)                                                                       \
    {                                                                                    \
        return run_on_ranks(name, tests, sizeof tests / sizeof *tests, run_group);       \
    }

/* Returns a tg_mpi over all ranks. */
static inline tg_mpi *mpi_make(int64_t bucket_bytes)
{
    tg_error error = TG_NO_ERROR;
    tg_mpi_config config = tg_mpi_config_default();
    config.bucket_bytes = bucket_bytes;
    tg_mpi *mpi = tg_mpi_new(MPI_COMM_WORLD, &config, &error);
    assert_string_equal(error.text, "");
    assert_int_equal(tg_mpi_rank(mpi), rank);
    assert_int_equal(tg_mpi_size(mpi), ranks);
    return mpi;
}

#endif
