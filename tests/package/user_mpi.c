/* A user's program over MPI: the installed header and library alone. */
#include <stdio.h>

#include <tapegrad_mpi.h>

int main(void)
{
    int level;
    tg_error error = TG_NO_ERROR;
    MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level);
    tg_mpi *mpi = tg_mpi_new(MPI_COMM_WORLD, NULL, &error);
    int size = tg_mpi_size(mpi);
    double ranks = tg_mpi_sum(mpi, 1, &error);
    if (error.code != TG_OK || ranks != (double)size) {
        fprintf(stderr, "%d ranks, %g counted, %s\n", size, ranks, error.text);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    tg_mpi_free(mpi);
    MPI_Finalize();
    return 0;
}
