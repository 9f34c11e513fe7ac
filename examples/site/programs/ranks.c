/* ranks: the ranks of mpirun train one model, each on its part of the batch. */
#include <stdio.h>

#include <tapegrad.h>
#include <tapegrad_mpi.h>

int main(int argc, char **argv)
{
    int level;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
    tg_error error = TG_NO_ERROR;
    tg_mpi *mpi = tg_mpi_new(MPI_COMM_WORLD, NULL, &error);
    int rank = tg_mpi_rank(mpi), size = tg_mpi_size(mpi);
    /* the same seed on all ranks: the same initial values */
    tg_run *run = tg_run_new(123);
    tg_params *params = tg_params_new(run, TG_F32);
    tg_nn_embedding tokens = tg_nn_embedding_make(params, "tok_emb", 6, 4, NULL);
    tg_sgd_config config = tg_sgd_config_default();
    config.lr = 0.1;
    tg_optim *sgd = tg_sgd_new(params, &config);
    tg_tape *t = tg_tape_new(run, NULL);
    tg_mpi_broadcast(mpi, params, &error);

    static const int32_t batch[] = {2, 3, 5, 2};
    int mine = 4 / size;
    double loss_of_all = 0;
    for (int step = 0; step < 3 && error.code == TG_OK; step++) {
        tg_tape_reset(t);
        tg_tensor *ids = tg_constant_i32(t, TG_SHAPE(mine), batch + rank * mine);
        tg_tensor *x = tg_nn_embedding_forward(t, &tokens, ids);
        tg_tensor *loss = tg_mean_all(t, tg_mul(t, x, x));
        tg_optim_zero_grad(sgd);
        tg_backward(t, loss, NULL);
        loss_of_all = tg_mpi_sum(mpi, tg_tensor_item(loss, NULL) / size, &error);
        /* replaces each gradient by the mean over the ranks; a gradient by rows travels as rows */
        tg_mpi_reduce(mpi, params, NULL, &error);
        /* after an error of any rank no rank takes a step */
        tg_optim_step(sgd);
        if (rank == 0) {
            printf("step %d: mean loss of %d ranks %.4f\n", step + 1, size, loss_of_all);
        }
    }
    if (tg_mpi_check(mpi, params, &error) && rank == 0) {
        printf("all ranks have the same table, bit for bit\n");
    }
    if (error.code != TG_OK && rank == 0) {
        fprintf(stderr, "%s\n", error.text);
    }
    tg_tape_free(t), tg_optim_free(sgd), tg_params_free(params), tg_run_free(run), tg_mpi_free(mpi);
    MPI_Finalize();
    return error.code == TG_OK ? 0 : 1;
}
