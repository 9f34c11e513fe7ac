/* ddp STEPS [VOCABULARY CONTEXT WIDTH BATCH]: trains an embedding model on the ranks of mpirun, and prints the loss of
 * every step; and on stderr the best times of a step, of its part after backward that reduces the gradients, and of all
 * that this rank does for the reduction, during backward and after it. compare_ddp.py trains the same model with
 * PyTorch's DistributedDataParallel. */
#include "ranks.h"

#include <math.h>

static tg_error error;
static int64_t steps, sizes[4] = {61, 6, 8, 12}; /* V, T, width, windows in a batch of all ranks */

typedef struct model {
    tg_params *params;
    tg_nn_embedding token;
    tg_nn_positional position;
    tg_nn_linear hidden, head;
} model;

static model make(tg_run *run)
{
    model m = {.params = tg_params_new(run, TG_F32)};
    m.token = tg_nn_embedding_make(m.params, "tok_emb", sizes[0], sizes[2], NULL);
    m.position = tg_nn_positional_make(m.params, "pos_emb", TG_POSITION_LEARNED, sizes[1], sizes[2], NULL);
    m.hidden = tg_nn_linear_make(m.params, "hidden", sizes[2], 2 * sizes[2], TG_BIAS);
    m.head = tg_nn_linear_make(m.params, "head", 2 * sizes[2], sizes[0], TG_BIAS);
    return m;
}

static tg_tensor *forward(tg_tape *t, const model *m, tg_tensor *ids)
{
    tg_tensor *x = tg_nn_positional_forward(t, &m->position, tg_nn_embedding_forward(t, &m->token, ids), 0);
    return tg_nn_linear_forward(t, &m->head, tg_gelu_tanh(t, tg_nn_linear_forward(t, &m->hidden, x)));
}

static tg_loader *loader_make(tg_run *run)
{
    int64_t count = 1000 + 20 * sizes[1];
    int32_t *ids = malloc((size_t)count * sizeof *ids);
    for (int64_t i = 0; i < count; i++) {
        ids[i] = (int32_t)((i * i * 7 + i / 3) % sizes[0]);
    }
    tg_loader_config config = tg_loader_config_default();
    config.context = sizes[1];
    config.stride = 3;
    config.batch_size = sizes[3];
    config.shuffle = config.drop_last = true;
    config.parts = ranks;
    config.part = rank;
    tg_loader *loader = tg_loader_new(run, ids, count, &config);
    free(ids);
    return loader;
}

static void check(bool good, const char *text)
{
    if (!good) {
        fprintf(stderr, "ddp: rank %d: %s\n", rank, text);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

/* The time that this step has spent in tg_mpi_on_gradient. */
static double during_backward;

static void on_gradient(void *mpi, tg_tensor *leaf)
{
    double start = MPI_Wtime();
    tg_mpi_on_gradient(mpi, leaf);
    during_backward += MPI_Wtime() - start;
}

static int train(const char *name, const struct CMUnitTest *unused, size_t count)
{
    (void)name, (void)unused, (void)count;
    tg_mpi *mpi = mpi_make((int64_t)4 << 20);
    tg_run *run = tg_run_new(123);
    model m = make(run);
    check(tg_mpi_broadcast(mpi, m.params, &error), error.text);
    tg_rng_seed(tg_run_rng(run), 7);
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_loader *loader = loader_make(run);
    tg_optim *optim = tg_adamw_new(m.params, NULL);
    tg_mpi_reduce_config config = tg_mpi_reduce_config_default();
    tg_backward_config backward = tg_backward_config_default();
    backward.on_gradient = on_gradient;
    backward.context = mpi;
    double best = INFINITY, best_reduce = INFINITY, best_both = INFINITY;
    for (int64_t step = 0; step < steps; step++) {
        tg_batch batch;
        while (!tg_loader_next(loader, &batch)) {
            check(tg_loader_error(loader)->code == TG_OK, tg_loader_error(loader)->text);
        }
        double start = MPI_Wtime();
        during_backward = 0;
        tg_tape_reset(t);
        tg_optim_zero_grad(optim);
        tg_tensor *loss = tg_cross_entropy(t, forward(t, &m, batch.inputs), batch.targets, NULL);
        check(tg_mpi_begin(mpi, m.params, &config, &error), error.text);
        tg_backward(t, loss, &backward);
        double computed = MPI_Wtime();
        config.cause = tg_tape_error(t);
        check(tg_mpi_reduce(mpi, m.params, &config, &error), error.text);
        double reduced = MPI_Wtime();
        check(tg_optim_step(optim), tg_params_error(m.params)->text);
        double end = MPI_Wtime();
        best = end - start < best ? end - start : best;
        best_reduce = reduced - computed < best_reduce ? reduced - computed : best_reduce;
        double both = during_backward + reduced - computed;
        best_both = both < best_both ? both : best_both;
        printf("%.9g\n", tg_mpi_mean(mpi, tg_tensor_item(loss, NULL), 1, &error));
    }
    if (rank == 0) {
        fprintf(stderr, "%d ranks: best step %.3f ms, best reduce after backward %.3f ms, all of it %.3f ms\n", ranks,
                1e3 * best, 1e3 * best_reduce, 1e3 * best_both);
    }
    tg_optim_free(optim);
    tg_loader_free(loader);
    tg_tape_free(t);
    tg_params_free(m.params);
    tg_run_free(run);
    tg_mpi_free(mpi);
    return 0;
}

int main(int argc, char **argv)
{
    steps = argc > 1 ? strtoll(argv[1], NULL, 10) : 50;
    for (int i = 2; i < argc && i < 6; i++) {
        sizes[i - 2] = strtoll(argv[i], NULL, 10);
    }
    return run_on_ranks("ddp", NULL, 0, train);
}
