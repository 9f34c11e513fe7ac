/* sharded ROWS STEPS METHOD [FILE EVERY]: trains a table (ROWS,64) that is sharded over the ranks of mpirun, by METHOD,
 * sgd or sparse_adam; with a negative number, an ordinary table of -ROWS rows, on one rank. STEPS is the number of the
 * last step. Prints the loss of every step; and on stderr the time of a step, and each rank's memory beside its share
 * of the table, its moments and the index of its gradient. The memory of MPI, BLAS and the program is measured before,
 * by three steps of a table with one row per rank, and subtracted.
 *
 * With FILE it continues from that checkpoint, if it exists, and writes it after each EVERY steps and at the end. */
#include "ranks.h"

#include <unistd.h>

#define WIDTH 64
#define CLASSES 16
#define BAGS 256 /* in a batch of all ranks */
#define BAG 16

static tg_error error;

static int64_t rows, steps, every, step;
static const char *file;
static bool is_sgd;

typedef struct model {
    tg_mpi *mpi;
    tg_params *params, *shards;
    tg_mpi_table *sharded;
    tg_tensor *table;
    tg_nn_linear head;
    tg_optim *optim, *rows_optim;
} model;

/* Prints an error, which all ranks have, and ends all of them. */
static void check(bool good, const char *text)
{
    if (!good) {
        fprintf(stderr, "sharded: rank %d: %s\n", rank, text);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

/* Returns a number of /proc/self/status in MB, such as that of "VmHWM:", the most memory so far. */
static double memory(const char *name)
{
    char line[200];
    double kb = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status)) {
        if (strncmp(line, name, strlen(name)) == 0) {
            kb = strtod(line + strlen(name), NULL);
        }
    }
    if (status) {
        fclose(status);
    }
    return kb / 1e3;
}

static model make(bool is_ordinary)
{
    model m = {.mpi = mpi_make((int64_t)4 << 20)};
    tg_run *run = tg_run_new(1);
    m.params = tg_params_new(run, TG_F32);
    m.shards = tg_params_new(run, TG_F32);
    m.head = tg_nn_linear_make(m.params, "head", WIDTH, CLASSES, TG_BIAS);
    if (is_ordinary) {
        m.table = tg_params_add_normal(m.shards, "table.weight", TG_SHAPE(rows, WIDTH), 0, 1);
    } else {
        m.sharded = tg_mpi_table_new(m.mpi, m.shards, "table", rows, WIDTH, &error);
        m.table = tg_mpi_table_shard(m.sharded);
    }
    check(m.table, error.text);
    check(tg_mpi_broadcast(m.mpi, m.params, &error), error.text);
    tg_sgd_config sgd = tg_sgd_config_default();
    tg_sparse_adam_config sparse_adam = tg_sparse_adam_config_default();
    sgd.lr = sparse_adam.lr = 1e-2;
    m.optim = tg_adamw_new(m.params, NULL);
    m.rows_optim = is_sgd ? tg_sgd_new(m.shards, &sgd) : tg_sparse_adam_new(m.shards, &sparse_adam);
    /* the system gives memory to a page at its first write, which is not part of a step's time */
    for (int64_t i = 0; tg_optim_state_at(m.rows_optim, i).tensor; i++) {
        tg_tensor_fill(tg_optim_state_at(m.rows_optim, i).tensor, 0, NULL);
    }
    tg_run_free(run);
    return m;
}

static void model_free(model *m)
{
    tg_optim_free(m->optim), tg_optim_free(m->rows_optim);
    tg_mpi_table_free(m->sharded);
    tg_params_free(m->params), tg_params_free(m->shards);
    tg_mpi_free(m->mpi);
}

static void load_or_save(model *m, bool saves)
{
    tg_checkpoint_part parts[] = {tg_checkpoint_params("model", m->params), tg_checkpoint_params("shards", m->shards),
                                  tg_checkpoint_optim("optim", m->optim),
                                  tg_checkpoint_optim("rows_optim", m->rows_optim),
                                  tg_checkpoint_integer("step", &step)};
    const int64_t count = sizeof parts / sizeof *parts;
    double start = MPI_Wtime();
    check(saves ? tg_mpi_checkpoint_save(m->mpi, file, parts, count, &error)
                : tg_mpi_checkpoint_load(m->mpi, file, parts, count, &error),
          error.text);
    if (rank == 0) {
        fprintf(stderr, "step %lld: %s in %.2f s\n", (long long)step, saves ? "saved" : "loaded", MPI_Wtime() - start);
    }
}

/* The ids of this rank's bags (B,BAG) and their classes (B), functions of the step and of the index in the batch. */
static void batch_of(tg_tensor **ids, tg_tensor **targets)
{
    const int64_t own = BAGS / ranks;
    int32_t id[BAGS * BAG], target[BAGS];
    for (int64_t i = 0; i < own * BAG; i++) {
        uint64_t index = (uint64_t)(rank * own * BAG + i);
        id[i] = (int32_t)(tg_mpi_seed((uint64_t)step, index + 1) % (uint64_t)rows);
        target[i / BAG] = id[i / BAG * BAG] % CLASSES;
    }
    *ids = tensor_i32(TG_SHAPE(own, BAG), id);
    *targets = tensor_i32(TG_SHAPE(own), target);
}

static double train_step(model *m, tg_tape *t)
{
    tg_tensor *ids, *targets;
    batch_of(&ids, &targets);
    tg_tape_reset(t);
    tg_optim_zero_grad(m->optim), tg_optim_zero_grad(m->rows_optim);
    tg_tensor *x =
        m->sharded ? tg_mpi_embedding_bag(t, m->sharded, ids, NULL) : tg_embedding_bag(t, ids, m->table, NULL);
    tg_tensor *loss = tg_cross_entropy(t, tg_nn_linear_forward(t, &m->head, x), targets, NULL);
    tg_backward(t, loss, NULL);
    tg_mpi_reduce_config config = tg_mpi_reduce_config_default();
    config.cause = tg_tape_error(t);
    check(tg_mpi_reduce(m->mpi, m->params, &config, &error), error.text);
    check(!m->sharded || tg_mpi_table_reduce(m->sharded, &config, &error), error.text);
    check(tg_optim_step(m->optim) && tg_optim_step(m->rows_optim), tg_params_error(m->shards)->text);
    double mean = tg_mpi_mean(m->mpi, tg_tensor_item(loss, NULL), 1, &error);
    tg_release(ids), tg_release(targets);
    return mean;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Returns the memory that a training takes without a table. */
static double memory_without_table(bool is_ordinary)
{
    int64_t all = rows;
    rows = ranks;
    model m = make(is_ordinary);
    tg_tape *t = tg_tape_new(NULL, NULL);
    for (int i = 0; i < 3; i++) {
        train_step(&m, t);
    }
    double used = memory("VmRSS:");
    tg_tape_free(t);
    model_free(&m);
    rows = all;
    return used;
}

static int train(const char *name, const struct CMUnitTest *unused, size_t count)
{
    (void)name, (void)unused, (void)count;
    bool is_ordinary = rows < 0;
    rows = is_ordinary ? -rows : rows;
    double before = memory_without_table(is_ordinary);
    model m = make(is_ordinary);
    tg_tape *t = tg_tape_new(NULL, NULL);
    if (file && access(file, F_OK) == 0) {
        load_or_save(&m, false);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    double *times = malloc((size_t)(steps + 1) * sizeof *times);
    int64_t timed = 0;
    while (step < steps) {
        double start = MPI_Wtime(), loss = train_step(&m, t);
        times[timed++] = MPI_Wtime() - start;
        step++;
        printf("%.9g\n", loss);
        if (file && (step % every == 0 || step == steps)) {
            load_or_save(&m, true);
        }
    }
    qsort(times, (size_t)timed, sizeof *times, compare);
    double own = (double)tg_tensor_size(m.table, 0), share = own * ((is_sgd ? 1 : 3) * WIDTH * 4 + 4) / 1e6;
    double now = memory("VmRSS:"), most = memory("VmHWM:");
    for (int turn = 0; turn < ranks; turn++) {
        MPI_Barrier(MPI_COMM_WORLD);
        if (turn == rank && timed > 0) {
            fprintf(stderr,
                    "rank %d of %d: %.0f of %lld rows, step %.3f ms (best) %.3f ms (median), memory %.0f MB (at most "
                    "%.0f MB), without the table %.0f MB, difference %.0f MB, share %.0f MB, ratio %.3f\n",
                    rank, ranks, own, (long long)rows, 1e3 * times[0], 1e3 * times[timed / 2], now, most, before,
                    now - before, share, (now - before) / share);
        }
    }
    free(times);
    tg_tape_free(t);
    model_free(&m);
    return 0;
}

int main(int argc, char **argv)
{
    if ((argc != 4 && argc != 6) || (strcmp(argv[3], "sgd") != 0 && strcmp(argv[3], "sparse_adam") != 0)) {
        fprintf(stderr, "usage: sharded ROWS STEPS sgd|sparse_adam [FILE EVERY]\n");
        return 2;
    }
    rows = strtoll(argv[1], NULL, 10);
    steps = strtoll(argv[2], NULL, 10);
    is_sgd = strcmp(argv[3], "sgd") == 0;
    file = argc == 6 ? argv[4] : NULL;
    every = argc == 6 ? strtoll(argv[5], NULL, 10) : 1;
    return run_on_ranks("sharded", NULL, 0, train);
}
