/* Collective calls that are wrong on one rank: all ranks have the same error and none waits, nothing has changed, and
 * the right call gives the right result afterwards. The table has a row for each wrong argument, and `agreement_rows`
 * checks that no argument of the header is left out. To run one row: TG_AGREEMENT_ROW=NUMBER. */
#include "ranks.h"

#include <math.h>
#include <signal.h>
#include <unistd.h>

#define COUNT 100 /* values of the dense parameter: several buckets */
#define ROWS 20   /* of the sharded table */
#define WIDTH 2

/* ---- a world of one rank ---- */

typedef struct world {
    tg_mpi *mpi;
    tg_params *params, *shards, *stranger, *failed;
    tg_tensor *dense, *rows; /* the parameters: (COUNT,) and (8,2) */
    tg_mpi_table *table, *other;
    tg_tape *tape;
    tg_tensor *ids, *whole; /* the ids of a lookup, and the values of `table` on all ranks */
} world;

static world world_make(void)
{
    tg_error error = TG_NO_ERROR;
    world w = {.mpi = mpi_make(64), .params = tg_params_new(TG_F32, NULL), .shards = tg_params_new(TG_F32, NULL)};
    w.stranger = tg_params_new(TG_F64, NULL);
    tg_params_add(w.stranger, "dense", TG_SHAPE(3));
    w.failed = tg_params_new(TG_F32, NULL);
    tg_params_add(w.failed, "", TG_SHAPE(1));
    w.dense = tg_params_add(w.params, "dense", TG_SHAPE(COUNT));
    w.rows = tg_params_add(w.params, "rows", TG_SHAPE(8, WIDTH));
    tg_rng *rng = tg_rng_new(3), *again = tg_rng_new(3);
    w.table = tg_mpi_table_new(w.mpi, w.shards, rng, "table", ROWS, WIDTH, &error);
    w.other = tg_mpi_table_new(w.mpi, w.shards, rng, "other", ROWS, WIDTH, &error);
    w.whole = tg_tensor_new(TG_F32, TG_SHAPE(ROWS, WIDTH), NULL);
    tg_tensor_fill_normal(w.whole, again, 0, 1, NULL);
    w.tape = tg_tape_new(NULL, NULL);
    w.ids = tensor_i32(TG_SHAPE(2), (int32_t[]){1, 18});
    assert_true(tg_mpi_broadcast(w.mpi, w.params, &error));
    assert_string_equal(error.text, "");
    tg_rng_free(rng), tg_rng_free(again);
    return w;
}

static void world_free(world *w)
{
    tg_tape_free(w->tape);
    tg_mpi_table_free(w->table), tg_mpi_table_free(w->other);
    tg_mpi_free(w->mpi);
    tg_params_free(w->params), tg_params_free(w->shards), tg_params_free(w->stranger), tg_params_free(w->failed);
    tg_release(w->ids), tg_release(w->whole);
}

/* ---- gradients ---- */

static void zero_gradients(world *w)
{
    tg_tensor_zero_grad(w->dense), tg_tensor_zero_grad(w->rows);
    tg_tensor_zero_grad(tg_mpi_table_shard(w->table)), tg_tensor_zero_grad(tg_mpi_table_shard(w->other));
}

static void give_gradients(world *w)
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
static void assert_sums(const world *w)
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

/* ---- the calls ---- */

/* What is wrong. From CHANGED on the test itself changes something on the rank, such as the sizes. */
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
    CAUSE,
    WRONG_DTYPE,
    IN_USE,
    OUTSIDE,
    MAX_NORM,
    WEIGHTS,
    MODE,
    CHANGED,
    NO_RECORDING = CHANGED,
    FROZEN,
    RESIZED
} wrong;

/* Makes a call, wrong or right; after a right one it asserts the result. */
typedef bool function(world *w, wrong what, tg_error *error);

/* Makes a call that no other rank makes. */
static bool make_another_call(world *w, function *call, tg_error *error);

/* A config of a reduction, with its mark first. */
static tg_mpi_reduce_config reduce_config(wrong what)
{
    static const tg_error cause = {TG_ERROR_RANGE, "embedding: id 9"};
    tg_mpi_reduce_config config = tg_mpi_reduce_config_default();
    config.share = what == NOT_A_NUMBER ? NAN : what == NEGATIVE ? -2 : 1;
    config.cause = what == CAUSE ? &cause : NULL;
    config.mark = what == UNMARKED ? NULL : config.mark;
    return config;
}

/* Returns the params, or wrong ones. */
static tg_params *params_of(world *w, wrong what)
{
    return what == NULLED ? NULL : what == STRANGER ? w->stranger : what == HAS_ERROR ? w->failed : w->params;
}

/* Changes a parameter before a call, and back after it. */
static void change(world *w, wrong what, bool back)
{
    if (what == FROZEN) {
        assert_true(tg_params_set_frozen(w->params, "dense", !back));
    } else if (what == RESIZED) {
        tg_tensor_zero_grad(w->dense);
        assert_true(tg_tensor_resize_rows(w->dense, back ? COUNT : COUNT + 7, NULL));
    }
}

static bool call_new(world *w, wrong what, tg_error *error)
{
    (void)w;
    tg_mpi_config config = tg_mpi_config_default();
    config.mark = what == UNMARKED ? NULL : config.mark;
    config.bucket_bytes = what == ZERO ? 0 : what == DIFFERENT ? 128 : 64;
    tg_mpi *mpi = tg_mpi_new(MPI_COMM_WORLD, &config, error);
    assert_true(!mpi || tg_mpi_sum(mpi, 1, error) == ranks);
    bool made = mpi;
    tg_mpi_free(mpi);
    return made;
}

static bool call_agree(world *w, wrong what, tg_error *error)
{
    tg_error local = {TG_ERROR_FILE, "no such file"};
    return tg_mpi_agree(w->mpi, what == HAS_ERROR ? &local : NULL, error);
}

static bool call_sum(world *w, wrong what, tg_error *error)
{
    (void)what;
    double sum = tg_mpi_sum(w->mpi, rank + 1, error);
    assert_true(isnan(sum) || sum == ranks * (ranks + 1) / 2.0);
    return !isnan(sum);
}

static bool call_mean(world *w, wrong what, tg_error *error)
{
    double mean = tg_mpi_mean(w->mpi, 3, what == NOT_A_NUMBER ? NAN : what == NEGATIVE ? -1 : 1, error);
    assert_true(isnan(mean) || mean == 3);
    return !isnan(mean);
}

static bool make_another_call(world *w, function *call, tg_error *error)
{
    return call == call_mean ? call_sum(w, RIGHT, error) : call_mean(w, RIGHT, error);
}

static bool call_broadcast(world *w, wrong what, tg_error *error)
{
    change(w, what, false);
    bool done = tg_mpi_broadcast(w->mpi, params_of(w, what), error);
    change(w, what, true);
    return done;
}

static bool call_check(world *w, wrong what, tg_error *error)
{
    change(w, what, false);
    bool done = tg_mpi_check(w->mpi, params_of(w, what), error);
    change(w, what, true);
    return done;
}

static bool call_reduce(world *w, wrong what, tg_error *error)
{
    tg_mpi_reduce_config config = reduce_config(what);
    give_gradients(w);
    change(w, what, false);
    bool done = tg_mpi_reduce(w->mpi, params_of(w, what), &config, error);
    change(w, what, true);
    if (done) {
        assert_sums(w);
    } else if (what < CHANGED) {
        assert_int_equal(tg_tensor_grad_rows(w->rows).count, 2 - (rank == 5));
        assert_true(tg_tensor_value_at(tg_tensor_grad(w->dense), 3) == 4 * (rank + 1));
    }
    return done;
}

static bool call_begin(world *w, wrong what, tg_error *error)
{
    tg_mpi_reduce_config config = reduce_config(what);
    change(w, what, false);
    bool begun = tg_mpi_begin(w->mpi, params_of(w, what), &config, error);
    change(w, what, true);
    if (begun) {
        give_gradients(w);
        tg_mpi_on_gradient(w->mpi, w->dense);
        assert_true(tg_mpi_reduce(w->mpi, w->params, &config, error));
        assert_sums(w);
    }
    return begun;
}

/* tg_mpi_reduce after tg_mpi_begin, with messages of the first rank under way. */
static bool call_reduce_after_begin(world *w, wrong what, tg_error *error)
{
    tg_mpi_reduce_config config = reduce_config(RIGHT);
    assert_true(tg_mpi_begin(w->mpi, w->params, &config, error));
    give_gradients(w);
    if (rank == 0) {
        tg_mpi_on_gradient(w->mpi, w->dense);
    }
    if (what == ANOTHER_CALL) {
        return make_another_call(w, NULL, error);
    }
    config = reduce_config(what);
    change(w, what, false);
    bool done = tg_mpi_reduce(w->mpi, params_of(w, what), &config, error);
    change(w, what, true);
    if (done) {
        assert_sums(w);
    }
    return done;
}

/* tg_mpi_reduce of samples; DIFFERENT: one rank has another number of them. */
static bool call_reduce_samples(world *w, wrong what, tg_error *error)
{
    if (ranks == 3) {
        return what == RIGHT || tg_mpi_agree(w->mpi, &(tg_error){TG_ERROR_VALUE, "the number of samples"}, error);
    }
    int own = what == DIFFERENT ? 2 : 1;
    for (int i = 0; i < own; i++) {
        give_gradients(w);
        assert_true(tg_mpi_add_sample(w->mpi, w->params, (int64_t)own * ranks, error));
    }
    tg_mpi_reduce_config config = reduce_config(what);
    change(w, what, false);
    bool done = tg_mpi_reduce(w->mpi, params_of(w, what), &config, error);
    change(w, what, true);
    if (done) {
        assert_sums(w);
    }
    return done;
}

/* tg_mpi_table_new with one argument wrong. */
static bool make_table(world *w, wrong of_shards, wrong of_rng, wrong of_name, wrong of_rows, wrong of_width,
                       tg_error *error)
{
    char name[400];
    memset(name, 'x', sizeof name);
    name[sizeof name - 1] = 0;
    if (of_name != TOO_LARGE) {
        snprintf(name, sizeof name, "%s", of_name == IN_USE ? "table" : of_name == DIFFERENT ? "another" : "made");
    }
    tg_rng *rng = tg_rng_new(of_rng == DIFFERENT ? 4 : 3);
    tg_params *own = tg_params_new(of_shards == STRANGER ? TG_F64 : TG_F32, NULL);
    tg_params *shards = of_name == IN_USE ? w->shards : of_shards == HAS_ERROR ? w->failed : own;
    int64_t rows = of_rows == ZERO ? 0 : of_rows == NEGATIVE ? -4 : of_rows == DIFFERENT ? ROWS + 1 : ROWS;
    int64_t width = of_width == ZERO ? 0 : of_width == DIFFERENT ? WIDTH + 1 : WIDTH;
    rows = of_rows == TOO_LARGE ? INT64_MAX : rows;
    tg_mpi_table *table = tg_mpi_table_new(w->mpi, of_shards == NULLED ? NULL : shards, of_rng == NULLED ? NULL : rng,
                                           of_name == NULLED ? NULL : name, rows, width, error);
    if (table) {
        const tg_tensor *shard = tg_mpi_table_shard(table);
        for (int64_t i = 0; i < tg_tensor_count(shard); i++) {
            int64_t at = tg_mpi_table_first_row(table) * WIDTH + i;
            assert_true(tg_tensor_value_at(shard, i) == tg_tensor_value_at(w->whole, at));
        }
    }
    bool made = table;
    tg_mpi_table_free(table);
    tg_params_free(own);
    tg_rng_free(rng);
    return made;
}

static bool table_new_shards(world *w, wrong what, tg_error *error)
{
    return make_table(w, what, RIGHT, RIGHT, RIGHT, RIGHT, error);
}

static bool table_new_rng(world *w, wrong what, tg_error *error)
{
    return make_table(w, RIGHT, what, RIGHT, RIGHT, RIGHT, error);
}

static bool table_new_name(world *w, wrong what, tg_error *error)
{
    return make_table(w, RIGHT, RIGHT, what, RIGHT, RIGHT, error);
}

static bool table_new_rows(world *w, wrong what, tg_error *error)
{
    return make_table(w, RIGHT, RIGHT, RIGHT, what, RIGHT, error);
}

static bool table_new_width(world *w, wrong what, tg_error *error)
{
    return make_table(w, RIGHT, RIGHT, RIGHT, RIGHT, what, error);
}

/* Takes the error of the tape. Returns whether y exists, whose values are those of `ids` then. */
static bool end_lookup(world *w, const tg_tensor *y, wrong what, tg_error *error)
{
    tg_tape_set_recording(w->tape, true);
    tg_tensor_set_requires_grad(tg_mpi_table_shard(w->table), true, NULL);
    *error = *tg_tape_error(w->tape);
    tg_tape_clear_error(w->tape);
    for (int i = 0; y && what == RIGHT && i < 2 * WIDTH; i++) {
        int64_t id = i < WIDTH ? 1 : 18;
        assert_true(tg_tensor_value_at(y, i) == tg_tensor_value_at(w->whole, id * WIDTH + i % WIDTH));
    }
    return y;
}

/* Makes something wrong that both lookups have in common. Returns the ids, which are yours. */
static tg_tensor *begin_lookup(world *w, wrong what)
{
    tg_tape_reset(w->tape);
    tg_tape_set_recording(w->tape, what != NO_RECORDING);
    tg_tensor_set_requires_grad(tg_mpi_table_shard(w->table), what != FROZEN, NULL);
    if (what == HAS_ERROR) {
        tg_tape_fail(w->tape, TG_ERROR_VALUE, "earlier", "something was wrong");
    }
    return what == WRONG_DTYPE ? tg_retain(w->whole)
                               : tensor_i32(TG_SHAPE(2), (int32_t[]){1, what == OUTSIDE ? ROWS : 18});
}

/* The arguments of a lookup, and their errors. */
typedef enum lookup_argument { TAPE, TABLE, IDS, CONFIG } lookup_argument;

static bool embedding(world *w, lookup_argument argument, wrong what, tg_error *error)
{
    tg_embedding_config config = tg_embedding_config_default();
    if (argument == CONFIG) {
        config.mark = what == UNMARKED ? NULL : config.mark;
        config.max_norm = what == MAX_NORM ? 1 : 0;
        config.scale_by_frequency = what == DIFFERENT;
        config.padding_index = what == OUTSIDE ? ROWS : TG_NO_PADDING;
    }
    tg_tensor *ids = begin_lookup(w, argument == CONFIG ? RIGHT : what);
    tg_tensor *y = tg_mpi_embedding(argument == TAPE && what == NULLED ? NULL : w->tape,
                                    what == DIFFERENT && argument == TABLE ? w->other : w->table,
                                    argument == IDS && what == NULLED ? NULL : ids, &config);
    tg_release(ids);
    return end_lookup(w, y, what, error);
}

static bool embedding_tape(world *w, wrong what, tg_error *error)
{
    return embedding(w, TAPE, what, error);
}

static bool embedding_table(world *w, wrong what, tg_error *error)
{
    return embedding(w, TABLE, what, error);
}

static bool embedding_ids(world *w, wrong what, tg_error *error)
{
    return embedding(w, IDS, what, error);
}

static bool embedding_config(world *w, wrong what, tg_error *error)
{
    return embedding(w, CONFIG, what, error);
}

/* Bags of one id each, so the result is that of tg_mpi_embedding. */
static bool bag(world *w, lookup_argument argument, wrong what, tg_error *error)
{
    tg_tensor *offsets = tensor_i32(TG_SHAPE(2), (int32_t[]){0, 1});
    tg_embedding_bag_config config = tg_embedding_bag_config_default();
    config.offsets = offsets;
    config.mode = TG_BAG_SUM;
    if (argument == CONFIG) {
        config.mark = what == UNMARKED ? NULL : config.mark;
        config.max_norm = what == MAX_NORM ? 1 : 0;
        config.scale_by_frequency = what == DIFFERENT;
        config.padding_index = what == OUTSIDE ? ROWS : TG_NO_PADDING;
        config.weights = what == WEIGHTS ? w->whole : NULL;
        config.mode = what == MODE ? (tg_bag_mode)77 : config.mode;
        config.offsets = what == NULLED ? NULL : offsets;
    }
    tg_tensor *ids = begin_lookup(w, argument == CONFIG ? RIGHT : what);
    tg_tensor *y = tg_mpi_embedding_bag(argument == TAPE && what == NULLED ? NULL : w->tape,
                                        what == DIFFERENT && argument == TABLE ? w->other : w->table,
                                        argument == IDS && what == NULLED ? NULL : ids, &config);
    tg_release(ids);
    bool done = end_lookup(w, y, what, error);
    tg_tape_reset(w->tape);
    tg_release(offsets);
    return done;
}

static bool bag_tape(world *w, wrong what, tg_error *error)
{
    return bag(w, TAPE, what, error);
}

static bool bag_table(world *w, wrong what, tg_error *error)
{
    return bag(w, TABLE, what, error);
}

static bool bag_ids(world *w, wrong what, tg_error *error)
{
    return bag(w, IDS, what, error);
}

static bool bag_config(world *w, wrong what, tg_error *error)
{
    return bag(w, CONFIG, what, error);
}

/* A step with one lookup, whose rows of all ranks add up in the owner. */
static bool call_table_reduce(world *w, wrong what, tg_error *error)
{
    zero_gradients(w);
    tg_tape_reset(w->tape);
    tg_tensor *y = tg_mpi_embedding(w->tape, w->table, w->ids, NULL);
    assert_true(tg_backward(w->tape, tg_sum(w->tape, y, TG_ALL_AXES, TG_DROP_AXES), NULL));
    tg_mpi_reduce_config config = reduce_config(what);
    tg_tensor *shard = tg_mpi_table_shard(w->table);
    tg_tensor_set_requires_grad(shard, what != FROZEN, NULL);
    bool done = what == ANOTHER_CALL ? make_another_call(w, NULL, error)
                                     : tg_mpi_table_reduce(what == DIFFERENT ? w->other : w->table, &config, error);
    tg_tensor_set_requires_grad(shard, true, NULL);
    if (!done) {
        /* the wrong rank has its lookups still, if it was another call or another table */
        tg_mpi_table_reduce(w->table, NULL, NULL);
    } else {
        tg_tensor *gradient = tg_tensor_new_dense_grad(shard, NULL);
        int64_t first = tg_mpi_table_first_row(w->table);
        for (int64_t i = 0; i < tg_tensor_count(shard); i++) {
            int64_t row = first + i / WIDTH;
            assert_true(tg_tensor_value_at(gradient, i) == (row == 1 || row == 18 ? ranks : 0));
        }
        tg_release(gradient);
    }
    zero_gradients(w);
    return done;
}

/* The gradients of `params` have the norm 3, and all shards together 4. */
static bool clip(world *w, tg_params *params, tg_params *shards, double max_norm, tg_error *error)
{
    zero_gradients(w);
    float three[] = {3, 0}, four[] = {4, 0};
    tg_tensor *shard = tg_mpi_table_shard(w->table);
    assert_true(tg_tensor_add_grad_rows(w->rows, (int32_t[]){2}, three, 1, NULL));
    assert_true(rank > 0 || tg_tensor_add_grad_rows(shard, (int32_t[]){1}, four, 1, NULL));
    double norm = tg_mpi_clip_grad_norm(w->mpi, params, shards, max_norm, error);
    double factor = isnan(norm) ? 1 : (float)(2.5 / (5 + 1e-6));
    assert_true(isnan(norm) || norm == 5);
    assert_true(((const float *)tg_tensor_grad_rows(w->rows).values)[0] == (float)(3 * factor));
    assert_true(rank > 0 || ((const float *)tg_tensor_grad_rows(shard).values)[0] == (float)(4 * factor));
    return !isnan(norm);
}

static bool clip_params(world *w, wrong what, tg_error *error)
{
    return clip(w, params_of(w, what), w->shards, 2.5, error);
}

static bool clip_shards(world *w, wrong what, tg_error *error)
{
    return clip(w, w->params, what == NULLED ? NULL : what == HAS_ERROR ? w->failed : w->shards, 2.5, error);
}

static bool clip_max_norm(world *w, wrong what, tg_error *error)
{
    double limit = what == NOT_A_NUMBER ? NAN : what == NEGATIVE ? -1 : what == DIFFERENT ? 1 : 2.5;
    return clip(w, w->params, w->shards, limit, error);
}

#define PATH "mpi_agreement.safetensors"

static bool checkpoint(world *w, bool load, const char *path, wrong of_parts, wrong of_count, tg_error *error)
{
    int64_t steps = 7;
    tg_checkpoint_part parts[] = {{.name = of_parts == DIFFERENT ? "net" : "model", .params = w->params},
                                  {.name = "shards", .params = w->shards},
                                  {.name = "steps", .integer = of_parts == ZERO ? NULL : &steps}};
    int64_t count = of_count == ZERO ? 0 : of_count == NEGATIVE ? -1 : of_count == DIFFERENT ? 2 : 3;
    const tg_checkpoint_part *given = of_parts == NULLED ? NULL : parts;
    bool done = load ? tg_mpi_checkpoint_load(w->mpi, path, given, count, error)
                     : tg_mpi_checkpoint_save(w->mpi, path, given, count, error);
    return done;
}

static const char *path_of(wrong what)
{
    return what == NULLED ? NULL : what == DIFFERENT ? "another.safetensors" : PATH;
}

static bool save_path(world *w, wrong what, tg_error *error)
{
    return checkpoint(w, false, path_of(what), RIGHT, RIGHT, error);
}

static bool save_parts(world *w, wrong what, tg_error *error)
{
    return checkpoint(w, false, PATH, what, RIGHT, error);
}

static bool save_count(world *w, wrong what, tg_error *error)
{
    return checkpoint(w, false, PATH, RIGHT, what, error);
}

static bool load_path(world *w, wrong what, tg_error *error)
{
    return checkpoint(w, true, path_of(what), RIGHT, RIGHT, error);
}

static bool load_parts(world *w, wrong what, tg_error *error)
{
    return checkpoint(w, true, PATH, what, RIGHT, error);
}

static bool load_count(world *w, wrong what, tg_error *error)
{
    return checkpoint(w, true, PATH, RIGHT, what, error);
}

/* ---- the table ---- */

typedef struct row {
    const char *name, *argument;
    function *call;
    wrong what;
    tg_code code;
    const char *part; /* of the message */
} row;

#define ROW(name, argument, ...)      \
    {                                 \
#name, #argument, __VA_ARGS__ \
    }
#define STATE TG_ERROR_STATE
#define VALUE TG_ERROR_VALUE
#define UNMARKED_TEXT "the config does not come from tg_"
#define DIFFERS_TEXT "differs from rank 0's on rank"

static const row rows[] = {
    ROW(tg_mpi_new, config, call_new, UNMARKED, VALUE, UNMARKED_TEXT),
    ROW(tg_mpi_new, config, call_new, ZERO, VALUE, "bucket_bytes 0"),
    ROW(tg_mpi_new, config, call_new, DIFFERENT, VALUE, "bucket_bytes is "),
    ROW(tg_mpi_agree, local, call_agree, HAS_ERROR, TG_ERROR_FILE, "no such file"),
    ROW(tg_mpi_agree, order, call_agree, ANOTHER_CALL, STATE, "all ranks must make the same calls"),
    ROW(tg_mpi_sum, order, call_sum, ANOTHER_CALL, STATE, "all ranks must make the same calls"),
    ROW(tg_mpi_mean, order, call_mean, ANOTHER_CALL, STATE, "all ranks must make the same calls"),
    ROW(tg_mpi_mean, weight, call_mean, NOT_A_NUMBER, VALUE, "the weight is nan"),
    ROW(tg_mpi_mean, weight, call_mean, NEGATIVE, VALUE, "the weight is -1"),
    ROW(tg_mpi_broadcast, order, call_broadcast, ANOTHER_CALL, STATE, "all ranks must make the same calls"),
    ROW(tg_mpi_broadcast, params, call_broadcast, NULLED, STATE, "the params is NULL"),
    ROW(tg_mpi_broadcast, params, call_broadcast, HAS_ERROR, VALUE, "a name of 0 characters"),
    ROW(tg_mpi_broadcast, params, call_broadcast, STRANGER, VALUE, DIFFERS_TEXT),
    ROW(tg_mpi_broadcast, params, call_broadcast, FROZEN, VALUE, DIFFERS_TEXT),
    ROW(tg_mpi_broadcast, params, call_broadcast, RESIZED, VALUE, DIFFERS_TEXT),
    ROW(tg_mpi_check, order, call_check, ANOTHER_CALL, STATE, "all ranks must make the same calls"),
    ROW(tg_mpi_check, params, call_check, NULLED, STATE, "the params is NULL"),
    ROW(tg_mpi_check, params, call_check, STRANGER, STATE, "not those of the last tg_mpi_broadcast"),
    ROW(tg_mpi_check, params, call_check, FROZEN, VALUE, DIFFERS_TEXT),
    ROW(tg_mpi_check, params, call_check, RESIZED, VALUE, DIFFERS_TEXT),
    ROW(tg_mpi_reduce, order, call_reduce, ANOTHER_CALL, STATE, "all ranks must make the same calls"),
    ROW(tg_mpi_reduce, params, call_reduce, NULLED, STATE, "the params is NULL"),
    ROW(tg_mpi_reduce, params, call_reduce, STRANGER, STATE, "not those of the last tg_mpi_broadcast"),
    ROW(tg_mpi_reduce, params, call_reduce, FROZEN, VALUE, DIFFERS_TEXT),
    ROW(tg_mpi_reduce, params, call_reduce, RESIZED, VALUE, DIFFERS_TEXT),
    ROW(tg_mpi_reduce, config, call_reduce, UNMARKED, VALUE, UNMARKED_TEXT),
    ROW(tg_mpi_reduce, config, call_reduce, NOT_A_NUMBER, VALUE, "the share is nan"),
    ROW(tg_mpi_reduce, config, call_reduce, NEGATIVE, VALUE, "the share is -2"),
    ROW(tg_mpi_reduce, config, call_reduce, CAUSE, TG_ERROR_RANGE, "embedding: id 9"),
    ROW(tg_mpi_reduce, order, call_reduce_after_begin, ANOTHER_CALL, STATE, "all ranks must make the same calls"),
    ROW(tg_mpi_reduce, params, call_reduce_after_begin, NULLED, STATE, "the params is NULL"),
    ROW(tg_mpi_reduce, params, call_reduce_after_begin, STRANGER, STATE, "not those of the last tg_mpi_broadcast"),
    ROW(tg_mpi_reduce, params, call_reduce_after_begin, FROZEN, VALUE, DIFFERS_TEXT),
    ROW(tg_mpi_reduce, params, call_reduce_after_begin, RESIZED, STATE, "when this step's reduction began"),
    ROW(tg_mpi_reduce, config, call_reduce_after_begin, UNMARKED, VALUE, UNMARKED_TEXT),
    ROW(tg_mpi_reduce, config, call_reduce_after_begin, NOT_A_NUMBER, VALUE, "the share is nan"),
    ROW(tg_mpi_reduce, config, call_reduce_after_begin, CAUSE, TG_ERROR_RANGE, "embedding: id 9"),
    ROW(tg_mpi_reduce, samples, call_reduce_samples, DIFFERENT, VALUE, "the number of samples"),
    ROW(tg_mpi_begin, order, call_begin, ANOTHER_CALL, STATE, "all ranks must make the same calls"),
    ROW(tg_mpi_begin, params, call_begin, NULLED, STATE, "the params is NULL"),
    ROW(tg_mpi_begin, params, call_begin, STRANGER, STATE, "not those of the last tg_mpi_broadcast"),
    ROW(tg_mpi_begin, params, call_begin, FROZEN, VALUE, DIFFERS_TEXT),
    ROW(tg_mpi_begin, params, call_begin, RESIZED, VALUE, DIFFERS_TEXT),
    ROW(tg_mpi_begin, config, call_begin, UNMARKED, VALUE, UNMARKED_TEXT),
    ROW(tg_mpi_begin, config, call_begin, NOT_A_NUMBER, VALUE, "the share is nan"),
    ROW(tg_mpi_begin, config, call_begin, CAUSE, TG_ERROR_RANGE, "embedding: id 9"),
    ROW(tg_mpi_table_new, order, table_new_rows, ANOTHER_CALL, STATE, "all ranks must make the same calls"),
    ROW(tg_mpi_table_new, shards, table_new_shards, NULLED, STATE, "the params is NULL"),
    ROW(tg_mpi_table_new, shards, table_new_shards, HAS_ERROR, VALUE, "a name of 0 characters"),
    ROW(tg_mpi_table_new, shards, table_new_shards, STRANGER, VALUE, "the dtype is 'f"),
    ROW(tg_mpi_table_new, rng, table_new_rng, NULLED, STATE, "the generator is NULL"),
    ROW(tg_mpi_table_new, rng, table_new_rng, DIFFERENT, VALUE, "the checksum of the generator's state is "),
    ROW(tg_mpi_table_new, name, table_new_name, NULLED, STATE, "the name is NULL"),
    ROW(tg_mpi_table_new, name, table_new_name, DIFFERENT, VALUE, "the name is '"),
    ROW(tg_mpi_table_new, name, table_new_name, IN_USE, VALUE, "the name 'table.weight' is in use"),
    ROW(tg_mpi_table_new, name, table_new_name, TOO_LARGE, VALUE, "the name has more than"),
    ROW(tg_mpi_table_new, rows, table_new_rows, DIFFERENT, VALUE, "the number of rows is 2"),
    ROW(tg_mpi_table_new, rows, table_new_rows, ZERO, TG_ERROR_SHAPE, "0 rows of width 2"),
    ROW(tg_mpi_table_new, rows, table_new_rows, NEGATIVE, TG_ERROR_SHAPE, "-4 rows of width 2"),
    ROW(tg_mpi_table_new, rows, table_new_rows, TOO_LARGE, TG_ERROR_SHAPE, "9223372036854775807 rows of width 2"),
    ROW(tg_mpi_table_new, width, table_new_width, ZERO, TG_ERROR_SHAPE, "20 rows of width 0"),
    ROW(tg_mpi_table_new, width, table_new_width, DIFFERENT, VALUE, "the width is "),
    ROW(tg_mpi_embedding, order, embedding_ids, ANOTHER_CALL, STATE, "all ranks must make the same calls"),
    ROW(tg_mpi_embedding, tape, embedding_tape, NULLED, TG_ERROR_MEMORY, "the tape is NULL"),
    ROW(tg_mpi_embedding, tape, embedding_tape, HAS_ERROR, VALUE, "earlier: something was wrong"),
    ROW(tg_mpi_embedding, tape, embedding_tape, NO_RECORDING, VALUE, "whether the tape records"),
    ROW(tg_mpi_embedding, table, embedding_table, DIFFERENT, VALUE, "the table's number"),
    ROW(tg_mpi_embedding, table, embedding_table, FROZEN, VALUE, "and the shard requires a gradient, is '"),
    ROW(tg_mpi_embedding, ids, embedding_ids, NULLED, STATE, "the ids are NULL"),
    ROW(tg_mpi_embedding, ids, embedding_ids, WRONG_DTYPE, TG_ERROR_DTYPE, "they must be i32"),
    ROW(tg_mpi_embedding, ids, embedding_ids, OUTSIDE, TG_ERROR_RANGE, "id 20 at [1] is outside [0,20)"),
    ROW(tg_mpi_embedding, config, embedding_config, UNMARKED, VALUE, UNMARKED_TEXT),
    ROW(tg_mpi_embedding, config, embedding_config, MAX_NORM, VALUE, "max_norm is not possible"),
    ROW(tg_mpi_embedding, config, embedding_config, DIFFERENT, VALUE, "scale_by_frequency is not possible"),
    ROW(tg_mpi_embedding, config, embedding_config, OUTSIDE, TG_ERROR_RANGE, "padding_index 20 is outside"),
    ROW(tg_mpi_embedding_bag, order, bag_ids, ANOTHER_CALL, STATE, "all ranks must make the same calls"),
    ROW(tg_mpi_embedding_bag, tape, bag_tape, NULLED, TG_ERROR_MEMORY, "the tape is NULL"),
    ROW(tg_mpi_embedding_bag, tape, bag_tape, HAS_ERROR, VALUE, "earlier: something was wrong"),
    ROW(tg_mpi_embedding_bag, tape, bag_tape, NO_RECORDING, VALUE, "whether the tape records"),
    ROW(tg_mpi_embedding_bag, table, bag_table, DIFFERENT, VALUE, "the table's number"),
    ROW(tg_mpi_embedding_bag, table, bag_table, FROZEN, VALUE, "and the shard requires a gradient, is '"),
    ROW(tg_mpi_embedding_bag, ids, bag_ids, NULLED, STATE, "the ids are NULL"),
    ROW(tg_mpi_embedding_bag, ids, bag_ids, WRONG_DTYPE, TG_ERROR_DTYPE, "they must be i32"),
    ROW(tg_mpi_embedding_bag, ids, bag_ids, OUTSIDE, TG_ERROR_RANGE, "id 20 at [1] is outside [0,20)"),
    ROW(tg_mpi_embedding_bag, config, bag_config, UNMARKED, VALUE, UNMARKED_TEXT),
    ROW(tg_mpi_embedding_bag, config, bag_config, MAX_NORM, VALUE, "max_norm is not possible"),
    ROW(tg_mpi_embedding_bag, config, bag_config, DIFFERENT, VALUE, "scale_by_frequency is not possible"),
    ROW(tg_mpi_embedding_bag, config, bag_config, OUTSIDE, TG_ERROR_RANGE, "padding_index 20 is outside"),
    ROW(tg_mpi_embedding_bag, config, bag_config, MODE, VALUE, "embedding_bag: "),
    ROW(tg_mpi_embedding_bag, config, bag_config, WEIGHTS, TG_ERROR_SHAPE, "embedding_bag: "),
    ROW(tg_mpi_embedding_bag, config, bag_config, NULLED, TG_ERROR_SHAPE, "embedding_bag: "),
    ROW(tg_mpi_table_reduce, order, call_table_reduce, ANOTHER_CALL, STATE, "all ranks must make the same calls"),
    ROW(tg_mpi_table_reduce, table, call_table_reduce, DIFFERENT, VALUE, "the table's number"),
    ROW(tg_mpi_table_reduce, table, call_table_reduce, FROZEN, STATE, "does not require a gradient"),
    ROW(tg_mpi_table_reduce, config, call_table_reduce, UNMARKED, VALUE, UNMARKED_TEXT),
    ROW(tg_mpi_table_reduce, config, call_table_reduce, NOT_A_NUMBER, VALUE, "the share is nan"),
    ROW(tg_mpi_table_reduce, config, call_table_reduce, CAUSE, TG_ERROR_RANGE, "embedding: id 9"),
    ROW(tg_mpi_clip_grad_norm, order, clip_params, ANOTHER_CALL, STATE, "all ranks must make the same calls"),
    ROW(tg_mpi_clip_grad_norm, params, clip_params, NULLED, STATE, "the params is NULL"),
    ROW(tg_mpi_clip_grad_norm, params, clip_params, HAS_ERROR, VALUE, "a name of 0 characters"),
    ROW(tg_mpi_clip_grad_norm, shards, clip_shards, NULLED, STATE, "the shards is NULL"),
    ROW(tg_mpi_clip_grad_norm, shards, clip_shards, HAS_ERROR, VALUE, "a name of 0 characters"),
    ROW(tg_mpi_clip_grad_norm, max_norm, clip_max_norm, NOT_A_NUMBER, VALUE, "max_norm nan"),
    ROW(tg_mpi_clip_grad_norm, max_norm, clip_max_norm, NEGATIVE, VALUE, "max_norm -1"),
    ROW(tg_mpi_clip_grad_norm, max_norm, clip_max_norm, DIFFERENT, VALUE, "max_norm is '"),
    ROW(tg_mpi_checkpoint_save, order, save_path, ANOTHER_CALL, STATE, "all ranks must make the same calls"),
    ROW(tg_mpi_checkpoint_save, path, save_path, NULLED, STATE, "the path is NULL"),
    ROW(tg_mpi_checkpoint_save, path, save_path, DIFFERENT, VALUE, "the path is '"),
    ROW(tg_mpi_checkpoint_save, parts, save_parts, NULLED, STATE, "the array of parts is NULL"),
    ROW(tg_mpi_checkpoint_save, parts, save_parts, DIFFERENT, VALUE, "the list of parts is '"),
    ROW(tg_mpi_checkpoint_save, parts, save_parts, ZERO, VALUE, "part 'steps' has 0 objects"),
    ROW(tg_mpi_checkpoint_save, count, save_count, ZERO, VALUE, "the number of parts is "),
    ROW(tg_mpi_checkpoint_save, count, save_count, NEGATIVE, VALUE, "the number of parts is "),
    ROW(tg_mpi_checkpoint_save, count, save_count, DIFFERENT, VALUE, "the number of parts is "),
    ROW(tg_mpi_checkpoint_load, order, load_path, ANOTHER_CALL, STATE, "all ranks must make the same calls"),
    ROW(tg_mpi_checkpoint_load, path, load_path, NULLED, STATE, "the path is NULL"),
    ROW(tg_mpi_checkpoint_load, path, load_path, DIFFERENT, VALUE, "the path is '"),
    ROW(tg_mpi_checkpoint_load, parts, load_parts, NULLED, STATE, "the array of parts is NULL"),
    ROW(tg_mpi_checkpoint_load, parts, load_parts, DIFFERENT, VALUE, "the list of parts is '"),
    ROW(tg_mpi_checkpoint_load, parts, load_parts, ZERO, VALUE, "part 'steps' has 0 objects"),
    ROW(tg_mpi_checkpoint_load, count, load_count, ZERO, VALUE, "the number of parts is "),
    ROW(tg_mpi_checkpoint_load, count, load_count, DIFFERENT, VALUE, "the number of parts is "),
};

/* ---- one row ---- */

static const row *current;

/* Ends a rank that waits, and with it all others. */
static void report_hang(int signal_number)
{
    (void)signal_number;
    fprintf(stderr, "rank %d waits in %s, %s (row %d)\n", rank, current->name, current->argument,
            (int)(current - rows));
    _exit(1);
}

/* Returns the sum of all values of the params and shards, each times its index. */
static double values_of(const world *w)
{
    double sum = 0;
    for (int i = 0; i < 2; i++) {
        const tg_params *params = i ? w->shards : w->params;
        for (int64_t k = 0; k < tg_params_count(params); k++) {
            const tg_tensor *x = tg_params_at(params, k).tensor;
            for (int64_t at = 0; at < tg_tensor_count(x); at++) {
                sum += (double)(at + 1) * tg_tensor_value_at(x, at);
            }
        }
    }
    return sum;
}

static void assert_right(world *w, const row *r)
{
    tg_error error = TG_NO_ERROR;
    bool done = r->call(w, RIGHT, &error);
    if (!done) {
        fail_msg("%s, %s: the right call fails: %s", r->name, r->argument, error.text);
    }
}

static void assert_wrong(world *w, const row *r, int wrong_rank)
{
    tg_error error = TG_NO_ERROR;
    bool is_wrong = rank == wrong_rank,
         has_steps_before = r->call == call_reduce_after_begin || r->call == call_table_reduce;
    double before = values_of(w);
    bool done = is_wrong && r->what == ANOTHER_CALL && !has_steps_before
                    ? make_another_call(w, r->call, &error)
                    : r->call(w, is_wrong ? r->what : RIGHT, &error);
    if (done) {
        fail_msg("%s, %s, wrong on rank %d: rank %d reports no error", r->name, r->argument, wrong_rank, rank);
    }
    assert_true(values_of(w) == before);
    /* a tape has its own error still, and no tape has none */
    bool is_own = is_wrong && strcmp(r->argument, "tape") == 0 && (r->what == HAS_ERROR || r->what == NULLED);
    tg_error all[8];
    MPI_Allgather(&error, sizeof error, MPI_BYTE, all, sizeof error, MPI_BYTE, MPI_COMM_WORLD);
    const tg_error *expected = &all[wrong_rank == 0 ? ranks - 1 : 0];
    if (expected->code != r->code || !strstr(expected->text, r->part) ||
        (!is_own && (error.code != expected->code || strcmp(error.text, expected->text) != 0))) {
        fail_msg("%s, %s, wrong on rank %d: rank %d reports '%s', another '%s'; it must have '%s'", r->name,
                 r->argument, wrong_rank, rank, error.text, expected->text, r->part);
    }
}

static void test_rows(void **state)
{
    (void)state;
    const char *only = getenv("TG_AGREEMENT_ROW");
    world w = world_make();
    signal(SIGALRM, report_hang);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        current = &rows[i];
        if (ranks == 1 || (only && (size_t)atoi(only) != i) || (ranks == 3 && current->call == call_reduce_samples)) {
            continue;
        }
        alarm(60);
        assert_right(&w, current);
        assert_wrong(&w, current, 0);
        assert_right(&w, current);
        assert_wrong(&w, current, ranks - 1);
        assert_right(&w, current);
        alarm(0);
    }
    world_free(&w);
    if (rank == 0) {
        remove(PATH);
    }
}

/* ---- what all ranks do alike ---- */

/* All ranks end with messages under way: that of rank 0 alone, of all ranks, or of none; and the params may be gone. */
static void test_free_during_a_reduction(void **state)
{
    (void)state;
    tg_error error = TG_NO_ERROR;
    for (int i = 0; i < 6; i++) {
        world w = world_make();
        give_gradients(&w);
        assert_true(tg_mpi_reduce(w.mpi, w.params, NULL, &error));
        assert_true(tg_mpi_begin(w.mpi, w.params, NULL, &error));
        give_gradients(&w);
        if (i % 3 == 1 || (i % 3 == 0 && rank == 0)) {
            tg_mpi_on_gradient(w.mpi, w.dense);
        }
        if (i >= 3) {
            tg_params_free(w.params);
            w.params = NULL;
        }
        world_free(&w);
    }
}

/* A parameter that all ranks freeze for a step, and train again. */
static void test_frozen_between_steps(void **state)
{
    (void)state;
    tg_error error = TG_NO_ERROR;
    world w = world_make();
    tg_mpi_reduce_config config = reduce_config(RIGHT);
    for (int step = 0; step < 4; step++) {
        bool is_frozen = step == 1 || step == 2;
        assert_true(tg_params_set_frozen(w.params, "dense", is_frozen));
        tg_tensor_zero_grad(w.rows);
        if (!tg_mpi_begin(w.mpi, w.params, &config, &error)) {
            fail_msg("step %d: %s", step, error.text);
        }
        if (is_frozen) {
            float values[] = {1, 2};
            assert_true(tg_tensor_add_grad_rows(w.rows, (int32_t[]){3}, values, 1, &error));
        } else {
            give_gradients(&w);
        }
        assert_true(tg_mpi_reduce(w.mpi, w.params, &config, &error));
        if (is_frozen) {
            assert_int_equal(tg_tensor_grad_kind(w.dense), TG_GRAD_NONE);
            assert_true(((const float *)tg_tensor_grad_rows(w.rows).values)[1] == (float)(2 * ranks));
        } else {
            assert_sums(&w);
        }
    }
    world_free(&w);
}

/* A gradient that was dense stays dense in all later steps in which every rank has it by rows. */
static void test_dense_stays_dense(void **state)
{
    (void)state;
    tg_error error = TG_NO_ERROR;
    world w = world_make();
    tg_mpi_reduce_config config = reduce_config(RIGHT);
    for (int step = 0; step < 4; step++) {
        assert_true(tg_mpi_begin(w.mpi, w.params, &config, &error));
        give_gradients(&w);
        assert_true(step > 0 || tg_tensor_make_grad_dense(w.rows, &error));
        assert_true(tg_mpi_reduce(w.mpi, w.params, &config, &error));
        assert_int_equal(tg_tensor_grad_kind(w.rows), TG_GRAD_DENSE);
        assert_sums(&w);
    }
    world_free(&w);
}

/* A gradient of the last rank's shard is not finite: all gradients of all ranks become what tg_clip_grad_norm makes of
 * them in one process. */
static void test_clip_of_a_norm_that_is_not_finite(void **state)
{
    (void)state;
    const float bad[] = {NAN, INFINITY};
    const double limits[] = {1, INFINITY};
    for (int i = 0; i < 4; i++) {
        tg_error error = TG_NO_ERROR;
        world w = world_make();
        tg_params *alone = tg_params_new(TG_F32, NULL);
        tg_tensor *x = tg_params_add(alone, "x", TG_SHAPE(4, WIDTH));
        tg_tensor *shard = tg_mpi_table_shard(w.table);
        float good[] = {3, -2}, wrong_row[] = {bad[i % 2], 5};
        tg_tensor_make_grad_dense(w.dense, &error);
        ((float *)tg_tensor_data_mut(tg_tensor_grad(w.dense)))[0] = 3;
        tg_tensor_add_grad_rows(w.rows, (int32_t[]){1}, good, 1, &error);
        tg_tensor_add_grad_rows(x, (int32_t[]){1}, good, 1, &error);
        tg_tensor_add_grad_rows(x, (int32_t[]){2}, wrong_row, 1, &error);
        if (rank == ranks - 1) {
            tg_tensor_add_grad_rows(shard, (int32_t[]){1}, wrong_row, 1, &error);
        }
        double expected = tg_clip_grad_norm(alone, limits[i / 2]);
        double norm = tg_mpi_clip_grad_norm(w.mpi, w.params, w.shards, limits[i / 2], &error);
        assert_string_equal(error.text, "");
        assert_true(isnan(expected) ? isnan(norm) : norm == expected);
        const float *all = tg_tensor_grad_rows(x).values, *own = tg_tensor_grad_rows(w.rows).values;
        const float *sharded = tg_tensor_grad_rows(shard).values;
        for (int c = 0; c < WIDTH; c++) {
            assert_true(isnan(all[c]) ? isnan(own[c]) : own[c] == all[c]);
            assert_true(rank < ranks - 1 || (isnan(all[2 + c]) ? isnan(sharded[c]) : sharded[c] == all[2 + c]));
        }
        double first = tg_tensor_value_at(tg_tensor_grad(w.dense), 0);
        assert_true(isnan(all[0]) ? isnan(first) : first == (double)all[0]);
        tg_params_free(alone);
        world_free(&w);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_rows),
    cmocka_unit_test(test_free_during_a_reduction),
    cmocka_unit_test(test_frozen_between_steps),
    cmocka_unit_test(test_dense_stays_dense),
    cmocka_unit_test(test_clip_of_a_norm_that_is_not_finite),
};

DEFINE_MAIN("agreement", tests)
