/* bench [KIB]: measures the terms of the cost model in lib/mpi/README.md on the ranks of mpirun: the time of a
 * reduction without gradients, with dense gradients, and with gradients by rows; and of a reduction and a step of
 * SparseAdam for tables of 1,000 and 1,000,000 rows that every rank has. KIB is the size of a bucket, by default 4096.
 * A time is that of the slowest rank; the best and the median of several runs are printed. They differ where other
 * processes use the same processors. */
#include "ranks.h"

#define RUNS 41

static int64_t bucket_bytes = (int64_t)4 << 20;

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Measures reductions of the gradients that `give` sets, and steps unless `optim` is NULL, in seconds, and sorts the
 * times. */
static void time_reduce(tg_mpi *mpi, tg_params *params, tg_optim *optim, void (*give)(tg_params *), double times[RUNS])
{
    tg_error error = TG_NO_ERROR;
    for (int i = 0; i < RUNS; i++) {
        give(params);
        MPI_Barrier(MPI_COMM_WORLD);
        double start = MPI_Wtime();
        assert_true(tg_mpi_reduce(mpi, params, NULL, &error) && (!optim || tg_optim_step(optim)));
        double mine = MPI_Wtime() - start;
        MPI_Allreduce(&mine, &times[i], 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        tg_tensor_zero_grad(tg_params_at(params, 0).tensor);
    }
    qsort(times, RUNS, sizeof *times, compare);
}

static void give_dense(tg_params *params)
{
    tg_tensor *x = tg_params_at(params, 0).tensor;
    tg_tensor_make_grad_dense(x, NULL);
    tg_tensor_fill(tg_tensor_grad(x), rank + 1, NULL);
}

/* 1024 rows, half of which other ranks have, too. */
static void give_rows(tg_params *params)
{
    static int32_t ids[1024];
    static float values[1024 * 256];
    tg_tensor *x = tg_params_at(params, 0).tensor;
    for (int32_t i = 0; i < 1024; i++) {
        ids[i] = i * 37 + (i % 2 ? rank * 40000 : 0);
    }
    tg_tensor_add_grad_rows(x, ids, values, 1024, NULL);
}

/* 500 rows, half of which other ranks have, too. */
static void give_few_rows(tg_params *params)
{
    static int32_t ids[500];
    static float values[500 * 64];
    for (int32_t i = 0; i < 500; i++) {
        ids[i] = 2 * i + (i % 2 ? rank % 2 : 0);
    }
    tg_tensor_add_grad_rows(tg_params_at(params, 0).tensor, ids, values, 500, NULL);
}

static void give_none(tg_params *params)
{
    (void)params;
}

static int measure(const char *name, const struct CMUnitTest *unused, size_t count)
{
    (void)name, (void)unused, (void)count;
    tg_error error = TG_NO_ERROR;
    const struct {
        const char *name;
        int64_t rows, width;
        void (*give)(tg_params *);
        double bytes;
        bool steps;
    } cases[] = {
        {"no gradient", 1, 1, give_none, 0, false},
        {"dense, 4 kB", 1, 1000, give_dense, 4e3, false},
        {"dense, 4 MB", 1000, 1000, give_dense, 4e6, false},
        {"dense, 40 MB", 10000, 1000, give_dense, 4e7, false},
        {"1024 rows of 256, 1 MB", 200000, 256, give_rows, 1024 * (256 * 4 + 4), false},
        {"step, 500 of 1,000 rows", 1000, 64, give_few_rows, 500 * (64 * 4 + 4), true},
        {"step, 500 of 1,000,000", 1000000, 64, give_few_rows, 500 * (64 * 4 + 4), true},
    };
    printf("%d ranks\n%-24s %12s %12s %10s %12s\n", ranks, "gradient", "best", "median", "sent", "best");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tg_mpi *mpi = mpi_make(bucket_bytes);
        tg_params *params = tg_params_new(NULL, TG_F32);
        tg_params_add(params, "x", tg_shape_make(2, (int64_t[]){cases[i].rows, cases[i].width}));
        assert_true(tg_mpi_broadcast(mpi, params, &error));
        tg_optim *optim = cases[i].steps ? tg_sparse_adam_new(params, NULL) : NULL;
        double times[RUNS], factor = cases[i].give == give_dense ? 2.0 * (ranks - 1) / ranks : ranks - 1;
        time_reduce(mpi, params, optim, cases[i].give, times);
        printf("%-24s %9.1f us %9.1f us %7.2f MB %7.2f GB/s\n", cases[i].name, 1e6 * times[0], 1e6 * times[RUNS / 2],
               1e-6 * factor * cases[i].bytes, 1e-9 * factor * cases[i].bytes / times[0]);
        tg_optim_free(optim);
        tg_params_free(params);
        tg_mpi_free(mpi);
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        bucket_bytes = (int64_t)strtol(argv[1], NULL, 10) << 10;
    }
    return run_on_ranks("bench", NULL, 0, measure);
}
