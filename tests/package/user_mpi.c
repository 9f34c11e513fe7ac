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
    /* a table on all ranks, saved and loaded */
    tg_run *run = tg_run_new(1);
    tg_params *shards = tg_params_new(run, TG_F32);
    tg_mpi_table *table = tg_mpi_table_new(mpi, shards, "table", 10, 2, &error);
    tg_checkpoint_part part = tg_checkpoint_params("shards", shards);
    bool is_loaded = tg_mpi_checkpoint_save(mpi, "user_mpi.safetensors", &part, 1, &error) &&
                     tg_mpi_checkpoint_load(mpi, "user_mpi.safetensors", &part, 1, &error);
    /* the same in the folder of a run */
    tg_checkpoint_folder_config config = tg_checkpoint_folder_config_default();
    config.group = tg_mpi_checkpoint_group(mpi);
    tg_checkpoint_folder *folder = tg_checkpoint_folder_open("user_mpi", &config, &error);
    is_loaded = tg_checkpoint_folder_save(folder, 1, true, &part, 1, &error) && is_loaded;
    tg_checkpoint_folder_free(folder);
    tg_mpi_table_free(table);
    tg_params_free(shards);
    tg_run_free(run);
    if (error.code != TG_OK || !is_loaded || ranks != (double)size) {
        fprintf(stderr, "%d ranks, %g counted, %s\n", size, ranks, error.text);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    tg_mpi_free(mpi);
    MPI_Finalize();
    return 0;
}
