/* A tg_mpi needs MPI with threads, between its initialization and its end. Run on one rank. */
#include "ranks.h"

static tg_error before, single, null, config, after;

static void test_errors(void **state)
{
    (void)state;
    assert_error(&before, TG_ERROR_STATE, "mpi_new: MPI is not initialized; call MPI_Init_thread first");
    assert_error(&single, TG_ERROR_STATE,
                 "mpi_new: rank 0: MPI was initialized with MPI_THREAD_SINGLE; it must be at least");
    assert_error(&null, TG_ERROR_STATE, "mpi_new: the communicator is MPI_COMM_NULL");
    assert_error(&config, TG_ERROR_VALUE, "the config does not come from tg_mpi_config_default()");
    assert_error(&after, TG_ERROR_STATE, "mpi_new: MPI was finalized");
}

int main(void)
{
    tg_mpi_config unmarked = {.bucket_bytes = 64};
    tg_mpi *made = tg_mpi_new(MPI_COMM_WORLD, NULL, &before);
    MPI_Init(NULL, NULL);
    int level;
    MPI_Query_thread(&level);
    made = made ? made : tg_mpi_new(MPI_COMM_WORLD, NULL, &single);
    made = made ? made : tg_mpi_new(MPI_COMM_NULL, NULL, &null);
    made = made ? made : tg_mpi_new(MPI_COMM_WORLD, &unmarked, &config);
    MPI_Finalize();
    made = made ? made : tg_mpi_new(MPI_COMM_WORLD, NULL, &after);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_errors)};
    if (made || level != MPI_THREAD_SINGLE) {
        fprintf(stderr, "a tg_mpi was created, or MPI_Init gives level %d\n", level);
        return 1;
    }
    return cmocka_run_group_tests_name("init", tests, NULL, NULL);
}
