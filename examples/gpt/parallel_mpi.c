/* parallel_mpi: the ranks of mpirun. */
#include <stdlib.h>
#include <string.h>

#include <tapegrad/extend.h>
#include <tapegrad_mpi.h>

#include "../common/program.h"
#include "parallel.h"

static tg_mpi *mpi;
/* whether no rank waits for another any more */
static bool all_end;

bool parallel_begin(void)
{
    tg_error error = TG_NO_ERROR;
    int level;
    MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level);
    mpi = tg_mpi_new(MPI_COMM_WORLD, NULL, &error);
    if (!mpi) {
        return complain("%s", error.text);
    }
    return tg_mpi_rank(mpi) == 0 || freopen("/dev/null", "w", stdout) || complain("stdout cannot be closed");
}

int parallel_end(int status)
{
    if (status > 0 && !all_end) {
        /* the other ranks may wait for this one */
        MPI_Abort(MPI_COMM_WORLD, status);
    }
    tg_mpi_free(mpi);
    MPI_Finalize();
    return status;
}

void parallel_wait(void)
{
    /* the launcher may end a rank when another has ended */
    fflush(stdout);
    MPI_Barrier(MPI_COMM_WORLD);
    all_end = true;
}

int parallel_rank(void)
{
    return tg_mpi_rank(mpi);
}

int parallel_ranks(void)
{
    return tg_mpi_size(mpi);
}

uint64_t parallel_seed(uint64_t seed)
{
    return tg_mpi_seed(seed, (uint64_t)tg_mpi_rank(mpi));
}

/* Lets rank 0 print an error that all ranks have, before any of them ends. */
static bool fail(const tg_error *error)
{
    if (tg_mpi_rank(mpi) == 0) {
        complain("%s", error->text);
    }
    parallel_wait();
    return false;
}

bool parallel_share(tg_params *params)
{
    tg_error error = TG_NO_ERROR;
    return tg_mpi_broadcast(mpi, params, &error) || fail(&error);
}

/* A rank that fails before the last backward begins the reduction at once, and the others when they come to theirs: so
 * all are in the same call, and get the error. */
bool parallel_backward(tg_tape *t, tg_tensor *loss, tg_params *params, bool last, const tg_error *cause)
{
    if (!last && cause->code == TG_OK && tg_backward(t, loss, NULL)) {
        return true;
    }
    tg_error error = TG_NO_ERROR;
    tg_mpi_reduce_config reduce = tg_mpi_reduce_config_default();
    reduce.cause = cause;
    if (!tg_mpi_begin(mpi, params, &reduce, &error)) {
        return fail(&error);
    }
    tg_backward_config config = tg_backward_config_default();
    config.on_gradient = tg_mpi_on_gradient;
    config.context = mpi;
    tg_backward(t, loss, &config); /* its error is one of the run, so that of the reduction */
    return true;
}

bool parallel_reduce(tg_params *params)
{
    tg_error error = TG_NO_ERROR;
    return tg_mpi_reduce(mpi, params, NULL, &error) || fail(&error);
}

bool parallel_check(const tg_params *params)
{
    tg_error error = TG_NO_ERROR;
    return tg_mpi_check(mpi, params, &error) || fail(&error);
}

bool parallel_agree(const tg_error *local)
{
    tg_error error = TG_NO_ERROR;
    return tg_mpi_agree(mpi, local, &error) || fail(&error);
}

/* Sets an error unless the text is that of rank 0. */
static void compare(const char *name, const char *text, const char *first, tg_error *error)
{
    bool is_same = text && first ? strcmp(text, first) == 0 : text == first;
    if (!is_same) {
        const char *none = "not given", *here = text ? text : none, *there = first ? first : none;
        tg_error_set(error, TG_ERROR_VALUE, "%s is %.*s, but %.*s on rank 0; must be the same on all ranks", name,
                     TG_CUT(here, 100), TG_CUT(there, 100));
    }
}

bool parallel_same(const char *name, const char *text)
{
    tg_error error = TG_NO_ERROR;
    /* with the NUL; 0: NULL */
    long long bytes = text ? (long long)strlen(text) + 1 : 0;
    MPI_Bcast(&bytes, 1, MPI_LONG_LONG, 0, MPI_COMM_WORLD);
    char *first = malloc((size_t)bytes + 1);
    if (!first) {
        tg_error_set(&error, TG_ERROR_MEMORY, "out of memory");
    }
    if (!parallel_agree(&error)) {
        free(first);
        return false;
    }
    if (tg_mpi_rank(mpi) == 0 && text) {
        memcpy(first, text, (size_t)bytes);
    }
    MPI_Bcast(first, (int)bytes, MPI_CHAR, 0, MPI_COMM_WORLD);
    compare(name, text, bytes > 0 ? first : NULL, &error);
    free(first);
    return parallel_agree(&error);
}

double parallel_sum(double value)
{
    tg_error error = TG_NO_ERROR;
    double sum = tg_mpi_sum(mpi, value, &error);
    if (error.code != TG_OK) {
        complain("%s", error.text);
        parallel_end(1);
    }
    return sum;
}
