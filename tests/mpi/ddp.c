/* ddp STEPS: trains the embedding model on the ranks of mpirun, and prints the loss of every step. compare_ddp.py
 * trains the same model with PyTorch's DistributedDataParallel. */
#include "models.h"

static int train(const char *name, const struct CMUnitTest *unused, size_t steps)
{
    (void)name, (void)unused;
    tg_error error = TG_NO_ERROR;
    tg_mpi *mpi = mpi_make(1024);
    tg_rng *rng = tg_rng_new(123);
    model m = model_make(EMBEDDING, TG_F32, 0, rng);
    tg_rng_seed(rng, 7);
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_loader *loader = loader_make(rng, 12, ranks, rank);
    tg_optim *optim = optim_make(2, m.params);
    bool good = tg_mpi_broadcast(mpi, m.params, &error);
    for (size_t step = 0; good && step < steps; step++) {
        tg_batch batch;
        next_batch(loader, &batch);
        tg_tape_reset(t);
        tg_optim_zero_grad(optim);
        tg_tensor *loss = tg_cross_entropy(t, forward(t, &m, batch.inputs), batch.targets, NULL);
        tg_backward(t, loss, NULL);
        tg_mpi_reduce_config config = tg_mpi_reduce_config_default();
        config.cause = tg_tape_error(t);
        good = tg_mpi_reduce(mpi, m.params, &config, &error) && tg_optim_step(optim);
        printf("%.9g\n", tg_mpi_mean(mpi, good ? tg_tensor_item(loss, NULL) : 0, 1, &error));
    }
    fprintf(stderr, "%s", error.text);
    tg_optim_free(optim);
    tg_loader_free(loader);
    tg_tape_free(t);
    model_free(&m);
    tg_rng_free(rng);
    tg_mpi_free(mpi);
    return good ? 0 : 1;
}

int main(int argc, char **argv)
{
    return run_on_ranks("ddp", NULL, argc > 1 ? (size_t)strtoul(argv[1], NULL, 10) : 50, train);
}
