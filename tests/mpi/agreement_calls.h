/* agreement_calls: each collective call of the library, right, or with one argument that is wrong. */
#ifndef TG_TESTS_MPI_AGREEMENT_CALLS_H
#define TG_TESTS_MPI_AGREEMENT_CALLS_H

#include "world.h"

#include <math.h>

/* What is wrong with an argument. The last ones change something on this rank, such as a size. */
typedef enum wrong {
    RIGHT,
    ANOTHER_CALL,
    NULLED,
    UNMARKED,
    NOT_A_NUMBER,
    NEGATIVE,
    ZERO,
    TOO_LARGE,
    DIFFERENT,
    STRANGER,
    HAS_ERROR,
    WRONG_DTYPE,
    IN_USE,
    OUTSIDE,
    MAX_NORM,
    WEIGHTS,
    MODE,
    NO_RECORDING,
    FROZEN,
    RESIZED
} wrong;

typedef struct mistake {
    const char *argument;
    wrong what; /* RIGHT for a right call */
} mistake;

/* Returns what is wrong with an argument. */
static inline wrong of(const mistake *m, const char *argument)
{
    return strcmp(m->argument, argument) == 0 ? m->what : RIGHT;
}

/* Calls with or without a mistake; without one it asserts the result. Returns whether the call has succeeded. */
typedef bool function(world *w, const mistake *m, tg_error *error);

/* ---- sums ---- */

static inline bool call_new(world *w, const mistake *m, tg_error *error)
{
    (void)w;
    tg_mpi_config config = tg_mpi_config_default();
    wrong what = of(m, "config");
    config.mark = what == UNMARKED ? NULL : config.mark;
    config.bucket_bytes = what == ZERO ? 0 : what == DIFFERENT ? 128 : 64;
    tg_mpi *mpi = tg_mpi_new(MPI_COMM_WORLD, &config, error);
    bool made = mpi;
    assert_true(!made || tg_mpi_sum(mpi, 1, error) == ranks);
    tg_mpi_free(mpi);
    return made;
}

static inline bool call_agree(world *w, const mistake *m, tg_error *error)
{
    tg_error local = {TG_ERROR_FILE, "no such file", -1, -1};
    return tg_mpi_agree(w->mpi, of(m, "local") == HAS_ERROR ? &local : NULL, error);
}

static inline bool call_sum(world *w, const mistake *m, tg_error *error)
{
    (void)m;
    double sum = tg_mpi_sum(w->mpi, rank + 1, error);
    assert_true(isnan(sum) || sum == ranks * (ranks + 1) / 2.0);
    return !isnan(sum);
}

static inline bool call_mean(world *w, const mistake *m, tg_error *error)
{
    wrong what = of(m, "weight");
    double mean = tg_mpi_mean(w->mpi, 3, what == NOT_A_NUMBER ? NAN : what == NEGATIVE ? -1 : 1, error);
    assert_true(isnan(mean) || mean == 3);
    return !isnan(mean);
}

/* A call that no other rank is in. */
static inline bool make_another_call(world *w, function *call, tg_error *error)
{
    static const mistake none = {"", RIGHT};
    return call == call_mean ? call_sum(w, &none, error) : call_mean(w, &none, error);
}

/* ---- parameters and their gradients ---- */

static inline tg_params *params_of(world *w, const mistake *m)
{
    wrong what = of(m, "params");
    return what == NULLED ? NULL : what == STRANGER ? w->stranger : what == HAS_ERROR ? w->failed : w->params;
}

/* Changes a parameter before a call, and back after it. */
static inline void change(world *w, const mistake *m, bool back)
{
    if (m->what == FROZEN) {
        clear_params_error(w->params); /* of the call, which was refused */
        assert_true(tg_params_set_frozen(w->params, "dense", !back));
    } else if (m->what == RESIZED) {
        tg_tensor_zero_grad(w->dense);
        assert_true(tg_tensor_resize_rows(w->dense, back ? COUNT : COUNT + 7, NULL));
    }
}

/* Returns the config of a reduction. */
static inline tg_mpi_reduce_config config_of(const mistake *m)
{
    static const tg_error cause = {TG_ERROR_RANGE, "embedding: id 9", -1, -1};
    wrong what = of(m, "config");
    tg_mpi_reduce_config config = sum_config();
    config.share = what == NOT_A_NUMBER ? NAN : what == NEGATIVE ? -2 : config.share;
    config.cause = what == HAS_ERROR ? &cause : NULL;
    config.mark = what == UNMARKED ? NULL : config.mark;
    return config;
}

static inline bool call_broadcast(world *w, const mistake *m, tg_error *error)
{
    change(w, m, false);
    bool done = tg_mpi_broadcast(w->mpi, params_of(w, m), error);
    change(w, m, true);
    return done;
}

static inline bool call_check(world *w, const mistake *m, tg_error *error)
{
    change(w, m, false);
    bool done = tg_mpi_check(w->mpi, params_of(w, m), error);
    change(w, m, true);
    return done;
}

/* tg_mpi_reduce of gradients that exist. */
static inline bool reduce(world *w, const mistake *m, tg_error *error)
{
    if (m->what == ANOTHER_CALL) {
        return make_another_call(w, NULL, error);
    }
    tg_mpi_reduce_config config = config_of(m);
    change(w, m, false);
    bool done = tg_mpi_reduce(w->mpi, params_of(w, m), &config, error);
    change(w, m, true);
    if (done) {
        assert_sums(w);
    }
    return done;
}

static inline bool call_reduce(world *w, const mistake *m, tg_error *error)
{
    give_gradients(w);
    bool done = reduce(w, m, error);
    if (!done && m->what < NO_RECORDING) {
        assert_int_equal(tg_tensor_grad_rows(w->rows).count, 2);
        assert_true(tg_tensor_value_at(tg_tensor_grad(w->dense), 3) == 4 * (rank + 1));
    }
    return done;
}

static inline bool call_begin(world *w, const mistake *m, tg_error *error)
{
    tg_mpi_reduce_config config = config_of(m);
    change(w, m, false);
    bool begun = tg_mpi_begin(w->mpi, params_of(w, m), &config, error);
    change(w, m, true);
    if (begun) {
        give_gradients(w);
        tg_mpi_on_gradient(w->mpi, w->dense);
        assert_true(tg_mpi_reduce(w->mpi, w->params, &config, error));
        assert_sums(w);
    }
    return begun;
}

/* tg_mpi_reduce after tg_mpi_begin, with messages of rank 0 under way. */
static inline bool call_reduce_after_begin(world *w, const mistake *m, tg_error *error)
{
    tg_mpi_reduce_config config = sum_config();
    assert_true(tg_mpi_begin(w->mpi, w->params, &config, error));
    give_gradients(w);
    if (rank == 0) {
        tg_mpi_on_gradient(w->mpi, w->dense);
    }
    return reduce(w, m, error);
}

/* tg_mpi_reduce of samples, of which a rank may have another number. */
static inline bool call_reduce_samples(world *w, const mistake *m, tg_error *error)
{
    int own = of(m, "samples") == DIFFERENT ? 2 : 1;
    for (int i = 0; i < own; i++) {
        give_gradients(w);
        assert_true(tg_mpi_add_sample(w->mpi, w->params, (int64_t)own * ranks, error));
    }
    return reduce(w, m, error);
}

/* ---- tables ---- */

static inline bool call_table_new(world *w, const mistake *m, tg_error *error)
{
    char name[400];
    memset(name, 'x', sizeof name);
    name[sizeof name - 1] = 0;
    wrong of_name = of(m, "name"), of_rows = of(m, "rows"), of_width = of(m, "width"), of_shards = of(m, "shards");
    if (of_name != TOO_LARGE) {
        snprintf(name, sizeof name, "%s", of_name == IN_USE ? "table" : of_name == DIFFERENT ? "another" : "made");
    }
    tg_run *run = of(m, "run") == NULLED ? NULL : tg_run_new(of(m, "run") == DIFFERENT ? 4 : 3);
    tg_params *own = tg_params_new(run, of_shards == STRANGER ? TG_F64 : TG_F32);
    tg_params *shards = of_name == IN_USE ? w->shards : of_shards == HAS_ERROR ? w->failed : own;
    int64_t count = of_rows == ZERO        ? 0
                    : of_rows == NEGATIVE  ? -4
                    : of_rows == DIFFERENT ? ROWS + 1
                    : of_rows == TOO_LARGE ? INT64_MAX
                                           : ROWS;
    int64_t width = of_width == ZERO ? 0 : of_width == DIFFERENT ? WIDTH + 1 : WIDTH;
    tg_mpi_table *table = tg_mpi_table_new(w->mpi, of_shards == NULLED ? NULL : shards, of_name == NULLED ? NULL : name,
                                           count, width, error);
    const tg_tensor *shard = tg_mpi_table_shard(table);
    for (int64_t i = 0; table && i < tg_tensor_count(shard); i++) {
        int64_t at = tg_mpi_table_first_row(table) * WIDTH + i;
        assert_true(tg_tensor_value_at(shard, i) == tg_tensor_value_at(w->whole, at));
    }
    bool made = table;
    tg_mpi_table_free(table);
    tg_params_free(own);
    tg_run_free(run);
    return made;
}

/* Prepares the tape and the shard for a lookup. Returns the ids, which are yours. */
static inline tg_tensor *begin_lookup(world *w, const mistake *m)
{
    tg_tape_reset(w->tape);
    tg_tape_set_recording(w->tape, of(m, "tape") != NO_RECORDING);
    tg_tensor_set_requires_grad(tg_mpi_table_shard(w->table), of(m, "table") != FROZEN, NULL);
    if (of(m, "tape") == HAS_ERROR) {
        tg_tape_fail(w->tape, TG_ERROR_VALUE, "earlier", "something was wrong");
    }
    return of(m, "ids") == WRONG_DTYPE ? tg_retain(w->whole)
                                       : tensor_i32(TG_SHAPE(2), (int32_t[]){1, of(m, "ids") == OUTSIDE ? ROWS : 18});
}

/* Takes the error of the tape. Returns whether y exists, whose values are those of the ids then. */
static inline bool end_lookup(world *w, tg_tensor *ids, const tg_tensor *y, tg_error *error)
{
    for (int i = 0; y && i < 2 * WIDTH; i++) {
        int64_t id = i < WIDTH ? 1 : 18;
        assert_true(tg_tensor_value_at(y, i) == tg_tensor_value_at(w->whole, id * WIDTH + i % WIDTH));
    }
    *error = *tg_tape_error(w->tape);
    clear_tape_error(w->tape);
    tg_tape_reset(w->tape);
    tg_tape_set_recording(w->tape, true);
    tg_tensor_set_requires_grad(tg_mpi_table_shard(w->table), true, NULL);
    tg_release(ids);
    return y;
}

static inline bool call_embedding(world *w, const mistake *m, tg_error *error)
{
    tg_embedding_config config = tg_embedding_config_default();
    wrong what = of(m, "config");
    config.mark = what == UNMARKED ? NULL : config.mark;
    config.max_norm = what == MAX_NORM ? 1 : 0;
    config.scale_by_frequency = what == DIFFERENT;
    config.padding_index = what == OUTSIDE ? ROWS : TG_NO_PADDING;
    tg_tensor *ids = begin_lookup(w, m);
    tg_tensor *y =
        tg_mpi_embedding(of(m, "tape") == NULLED ? NULL : w->tape, of(m, "table") == DIFFERENT ? w->other : w->table,
                         of(m, "ids") == NULLED ? NULL : ids, &config);
    return end_lookup(w, ids, y, error);
}

/* Bags of one id each, so the result is that of tg_mpi_embedding. */
static inline bool call_bag(world *w, const mistake *m, tg_error *error)
{
    tg_tensor *offsets = tensor_i32(TG_SHAPE(2), (int32_t[]){0, 1});
    tg_embedding_bag_config config = tg_embedding_bag_config_default();
    wrong what = of(m, "config");
    config.mark = what == UNMARKED ? NULL : config.mark;
    config.max_norm = what == MAX_NORM ? 1 : 0;
    config.scale_by_frequency = what == DIFFERENT;
    config.padding_index = what == OUTSIDE ? ROWS : TG_NO_PADDING;
    config.weights = what == WEIGHTS ? w->whole : NULL;
    config.mode = what == MODE ? (tg_bag_mode)77 : TG_BAG_SUM;
    config.offsets = what == NULLED ? NULL : offsets;
    tg_tensor *ids = begin_lookup(w, m);
    tg_tensor *y = tg_mpi_embedding_bag(of(m, "tape") == NULLED ? NULL : w->tape,
                                        of(m, "table") == DIFFERENT ? w->other : w->table,
                                        of(m, "ids") == NULLED ? NULL : ids, &config);
    bool done = end_lookup(w, ids, y, error);
    tg_release(offsets);
    return done;
}

/* A step with one lookup, whose gradients of all ranks add up in the owner. */
static inline bool call_table_reduce(world *w, const mistake *m, tg_error *error)
{
    zero_gradients(w);
    tg_tape_reset(w->tape);
    tg_tensor *ids = tensor_i32(TG_SHAPE(2), (int32_t[]){1, 18}), *shard = tg_mpi_table_shard(w->table);
    tg_tensor *y = tg_mpi_embedding(w->tape, w->table, ids, NULL);
    assert_true(tg_backward(w->tape, tg_sum(w->tape, y, TG_ALL_AXES, TG_DROP_AXES), NULL));
    tg_release(ids);
    tg_mpi_reduce_config config = config_of(m);
    tg_tensor_set_requires_grad(shard, of(m, "table") != FROZEN, NULL);
    bool done = m->what == ANOTHER_CALL
                    ? make_another_call(w, NULL, error)
                    : tg_mpi_table_reduce(of(m, "table") == DIFFERENT ? w->other : w->table, &config, error);
    tg_tensor_set_requires_grad(shard, true, NULL);
    if (!done) {
        /* a rank that reduced nothing, or another table, has its lookup still */
        tg_mpi_table_reduce(w->table, NULL, NULL);
        return false;
    }
    tg_tensor *gradient = tg_tensor_new_dense_grad(shard, NULL);
    for (int64_t i = 0; i < tg_tensor_count(shard); i++) {
        int64_t row = tg_mpi_table_first_row(w->table) + i / WIDTH;
        assert_true(tg_tensor_value_at(gradient, i) == (row == 1 || row == 18 ? ranks : 0));
    }
    tg_release(gradient);
    return true;
}

/* The gradients of the params have the norm 3, and those of all shards 4. */
static inline bool call_clip(world *w, const mistake *m, tg_error *error)
{
    zero_gradients(w);
    float three[] = {3, 0}, four[] = {4, 0};
    tg_tensor *shard = tg_mpi_table_shard(w->table);
    assert_true(tg_tensor_add_grad_rows(w->rows, (int32_t[]){2}, three, 1, NULL));
    assert_true(rank > 0 || tg_tensor_add_grad_rows(shard, (int32_t[]){1}, four, 1, NULL));
    wrong of_norm = of(m, "max_norm"), of_shards = of(m, "shards");
    tg_params *shards = of_shards == NULLED ? NULL : of_shards == HAS_ERROR ? w->failed : w->shards;
    double limit = of_norm == NOT_A_NUMBER ? NAN : of_norm == NEGATIVE ? -1 : of_norm == DIFFERENT ? 1 : 2.5;
    double norm = tg_mpi_clip_grad_norm(w->mpi, params_of(w, m), shards, limit, error);
    double factor = isnan(norm) ? 1 : (float)(2.5 / (5 + 1e-6));
    assert_true(isnan(norm) || norm == 5);
    assert_true(((const float *)tg_tensor_grad_rows(w->rows).values)[0] == (float)(3 * factor));
    assert_true(rank > 0 || ((const float *)tg_tensor_grad_rows(shard).values)[0] == (float)(4 * factor));
    return !isnan(norm);
}

/* ---- checkpoints ---- */

#define CHECKPOINT "mpi_agreement.safetensors"

typedef bool checkpoint_function(tg_mpi *mpi, const char *path, const tg_checkpoint_part *parts, int64_t count,
                                 tg_error *error);

static inline bool checkpoint(world *w, const mistake *m, checkpoint_function *call, tg_error *error)
{
    wrong of_path = of(m, "path"), of_parts = of(m, "parts"), of_count = of(m, "count");
    int64_t steps = 7;
    tg_checkpoint_part parts[] = {tg_checkpoint_params(of_parts == DIFFERENT ? "net" : "model", w->params),
                                  tg_checkpoint_params("shards", w->shards),
                                  tg_checkpoint_integer("steps", of_parts == ZERO ? NULL : &steps)};
    const char *path = of_path == NULLED ? NULL : of_path == DIFFERENT ? "another.safetensors" : CHECKPOINT;
    int64_t count = of_count == ZERO ? 0 : of_count == NEGATIVE ? -1 : of_count == DIFFERENT ? 2 : 3;
    return call(w->mpi, path, of_parts == NULLED ? NULL : parts, count, error) && steps == 7;
}

static inline bool call_save(world *w, const mistake *m, tg_error *error)
{
    return checkpoint(w, m, tg_mpi_checkpoint_save, error);
}

static inline bool call_load(world *w, const mistake *m, tg_error *error)
{
    return checkpoint(w, m, tg_mpi_checkpoint_load, error);
}

#endif
