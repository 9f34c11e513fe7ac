/* Trains a small GPT for ten steps in the reproducible mode on the ranks of the run, 8 windows in a step, and prints a
 * checksum of its parameters for tests/bits: the same for 1, 2 and 4 ranks. */
#include <inttypes.h>

#include "models.h"

enum { STEPS = 10, SAMPLES = 8 };

static void train(tg_run *run, const model *m, tg_mpi *mpi)
{
    tg_error error = TG_NO_ERROR;
    tg_run *dropout = tg_run_new(0);
    tg_tape *t = tg_tape_new(dropout, NULL);
    tg_tape_set_reproducible(t, true);
    tg_loader *loader = loader_make(run, SAMPLES, ranks, rank);
    tg_optim *optim = tg_adamw_new(m->params, NULL);
    assert_true(tg_mpi_broadcast(mpi, m->params, &error));
    const int own = SAMPLES / ranks;
    for (int step = 0; step < STEPS; step++) {
        tg_batch batch;
        next_batch(loader, &batch);
        tg_optim_zero_grad(optim);
        for (int i = 0; i < own; i++) {
            const int32_t *ids = tg_tensor_data(batch.inputs), *next = tg_tensor_data(batch.targets);
            tg_tape_reset(t);
            tg_rng_seed(tg_run_rng(dropout), tg_mpi_seed(5, (uint64_t)(step * SAMPLES + rank * own + i + 1)));
            tg_tensor *inputs = tensor_i32(TG_SHAPE(1, T), ids + i * T),
                      *targets = tensor_i32(TG_SHAPE(1, T), next + i * T);
            assert_true(tg_backward(t, tg_cross_entropy(t, forward(t, m, inputs), targets, NULL), NULL));
            tg_release(inputs), tg_release(targets);
            assert_true(tg_mpi_add_sample(mpi, m->params, SAMPLES, &error));
        }
        assert_true(tg_mpi_reduce(mpi, m->params, NULL, &error));
        tg_clip_grad_norm(m->params, 1);
        assert_true(tg_optim_step(optim));
    }
    tg_optim_free(optim);
    tg_loader_free(loader);
    tg_tape_free(t);
    tg_run_free(dropout);
}

static void test_train(void **state)
{
    (void)state;
    tg_error error = TG_NO_ERROR;
    tg_run *run = tg_run_new(123);
    tg_rng_set_profile(tg_run_rng(run), TG_RNG_PORTABLE);
    model m = model_make(GPT, TG_F32, 0.1, run);
    tg_mpi *mpi = tg_mpi_new(MPI_COMM_WORLD, NULL, &error);
    assert_non_null(mpi);
    train(run, &m, mpi);
    tg_mpi_free(mpi);
    uint64_t sum = UINT64_C(0xcbf29ce484222325);
    for (int64_t i = 0; i < tg_params_count(m.params); i++) {
        const tg_tensor *x = tg_params_at(m.params, i).tensor;
        const float *values = tg_tensor_data(x);
        for (int64_t k = 0; k < tg_tensor_count(x); k++) {
            uint32_t bits;
            memcpy(&bits, &values[k], sizeof bits);
            sum = (sum ^ bits) * UINT64_C(0x100000001b3);
        }
    }
    if (rank == 0) {
        printf("mpi gpt %016" PRIx64 "\n", sum);
    }
    model_free(&m);
    tg_run_free(run);
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(test_train)};

DEFINE_MAIN("bits", tests)
