/* world: shared by the tests over MPI of what ranks do between and in steps: params with a gradient of each kind, two
 * sharded tables, and all that the calls of a step need. */
#ifndef TG_TESTS_MPI_WORLD_H
#define TG_TESTS_MPI_WORLD_H

#include "ranks.h"

#define COUNT 100 /* values of the dense parameter: several buckets */
#define ROWS 20   /* of the sharded table */
#define WIDTH 2

typedef struct world {
    tg_mpi *mpi;
    tg_run *run; /* of the shards */
    tg_params *params, *shards, *stranger, *failed;
    tg_tensor *dense, *rows; /* the parameters: (COUNT,) and (8,2) */
    tg_mpi_table *table, *other;
    tg_tape *tape;
    tg_tensor *whole; /* the values of `table` on all ranks */
} world;

static inline world world_make(void)
{
    tg_error error = TG_NO_ERROR;
    world w = {.mpi = mpi_make(64), .run = tg_run_new(3), .params = tg_params_new(NULL, TG_F32)};
    w.shards = tg_params_new(w.run, TG_F32);
    w.stranger = tg_params_new(NULL, TG_F64);
    tg_params_add(w.stranger, "dense", TG_SHAPE(3));
    w.failed = tg_params_new(NULL, TG_F32);
    tg_params_add(w.failed, "", TG_SHAPE(1));
    w.dense = tg_params_add(w.params, "dense", TG_SHAPE(COUNT));
    w.rows = tg_params_add(w.params, "rows", TG_SHAPE(8, WIDTH));
    tg_rng *again = tg_rng_new(3);
    w.table = tg_mpi_table_new(w.mpi, w.shards, "table", ROWS, WIDTH, &error);
    w.other = tg_mpi_table_new(w.mpi, w.shards, "other", ROWS, WIDTH, &error);
    w.whole = tg_tensor_new(TG_F32, TG_SHAPE(ROWS, WIDTH), NULL);
    tg_tensor_fill_normal(w.whole, again, 0, 1, NULL);
    w.tape = tg_tape_new(NULL, NULL);
    assert_true(tg_mpi_broadcast(w.mpi, w.params, &error));
    assert_string_equal(error.text, "");
    tg_rng_free(again);
    return w;
}

static inline void world_free(world *w)
{
    tg_tape_free(w->tape);
    tg_mpi_table_free(w->table), tg_mpi_table_free(w->other);
    tg_mpi_free(w->mpi);
    tg_params_free(w->params), tg_params_free(w->shards), tg_params_free(w->stranger), tg_params_free(w->failed);
    tg_release(w->whole);
    tg_run_free(w->run);
}

/* Clears the error that a collective call has left in the runs. */
static inline void world_clear(world *w)
{
    clear_params_error(w->params), clear_params_error(w->shards), clear_params_error(w->stranger);
    clear_tape_error(w->tape);
}

/* ---- gradients ---- */

/* The config of a reduction to the sum of the gradients. */
static inline tg_mpi_reduce_config sum_config(void)
{
    tg_mpi_reduce_config config = tg_mpi_reduce_config_default();
    config.share = 1;
    return config;
}

static inline void zero_gradients(world *w)
{
    tg_tensor_zero_grad(w->dense), tg_tensor_zero_grad(w->rows);
    tg_tensor_zero_grad(tg_mpi_table_shard(w->table)), tg_tensor_zero_grad(tg_mpi_table_shard(w->other));
}

static inline void give_gradients(world *w)
{
    tg_error error = TG_NO_ERROR;
    zero_gradients(w);
    assert_true(tg_tensor_make_grad_dense(w->dense, &error));
    for (int i = 0; i < COUNT; i++) {
        ((float *)tg_tensor_data_mut(tg_tensor_grad(w->dense)))[i] = (float)((rank + 1) * (i + 1));
    }
    float values[] = {1, 2, 3, 4};
    assert_true(tg_tensor_add_grad_rows(w->rows, (int32_t[]){5, rank % 4}, values, 2, &error));
}

/* Asserts that the gradients are the sums over all ranks. */
static inline void assert_sums(const world *w)
{
    for (int i = 0; i < COUNT; i++) {
        double expected = ranks * (ranks + 1) / 2.0 * (i + 1);
        assert_true(tg_tensor_value_at(tg_tensor_grad(w->dense), i) == expected);
    }
    tg_tensor *rows = tg_tensor_new_dense_grad(w->rows, NULL);
    for (int row = 0; row < 8; row++) {
        double own = (row < ranks) ? 1 : 0, shared = row == 5 ? ranks : 0;
        assert_true(tg_tensor_value_at(rows, row * WIDTH) == 3 * own + shared);
        assert_true(tg_tensor_value_at(rows, row * WIDTH + 1) == 4 * own + 2 * shared);
    }
    tg_release(rows);
}

#endif
