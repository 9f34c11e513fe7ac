/* A run: what its objects share. Each step below moves a table by SGD, so a weight that must not move has the bits that
 * it had. */
#include <pthread.h>
#include <string.h>

#include "base/run.h"
#include "support.h"

#define ROWS 4
#define WIDTH 3

/* A table and a head with their optimizer, and two tapes: one of a stream. */
typedef struct program {
    tg_run *run, *stream;
    tg_params *params;
    tg_nn_embedding table;
    tg_optim *optim;
    tg_tape *tape, *other;
    tg_tensor *good, *bad; /* ids; 9 is no row */
    float before[ROWS * WIDTH];
} program;

static tg_optim *sgd_new(tg_params *params, bool deferred)
{
    tg_sgd_config config = tg_sgd_config_default();
    config.lr = 0.5;
    config.momentum = deferred ? 0.5 : 0;
    config.deferred = deferred;
    return tg_sgd_new(params, &config);
}

static void remember(program *p)
{
    memcpy(p->before, tg_tensor_data(p->table.weight), sizeof p->before);
}

static bool has_moved(const program *p)
{
    return memcmp(p->before, tg_tensor_data(p->table.weight), sizeof p->before) != 0;
}

static program begin_with(bool deferred)
{
    program p = {.run = tg_run_new(5)};
    p.stream = tg_run_new_stream(p.run, 7);
    p.params = tg_params_new(p.run, TG_F32);
    p.table = tg_nn_embedding_make(p.params, "table", ROWS, WIDTH, NULL);
    p.optim = sgd_new(p.params, deferred);
    p.tape = tg_tape_new(p.run, NULL);
    p.other = tg_tape_new(p.stream, NULL);
    p.good = tensor_i32(TG_SHAPE(2), (int32_t[]){1, 2});
    p.bad = tensor_i32(TG_SHAPE(2), (int32_t[]){1, 9});
    assert_int_equal(tg_run_error(p.run)->code, TG_OK);
    remember(&p);
    return p;
}

static program begin(void)
{
    return begin_with(false);
}

static void end(program *p)
{
    tg_release(p->good);
    tg_release(p->bad);
    tg_tape_free(p->tape);
    tg_tape_free(p->other);
    tg_optim_free(p->optim);
    tg_params_free(p->params);
    tg_run_free(p->stream);
    tg_run_free(p->run);
}

static bool backward(program *p, tg_tape *t, tg_tensor *ids)
{
    return tg_backward(t, tg_sum_all(t, tg_nn_embedding_forward(t, &p->table, ids)), NULL);
}

static void assert_run_error(tg_run *run, tg_code code, const char *text)
{
    assert_int_equal(tg_run_error(run)->code, code);
    assert_non_null(strstr(tg_run_error(run)->text, text));
    tg_run_clear_error(run);
    assert_int_equal(tg_run_error(run)->code, TG_OK);
    assert_string_equal(tg_run_error(run)->text, "");
}

/* ---- a step is all or nothing ---- */

/* The second of two accumulated backwards fails: the step must not move a weight by the gradient of the first. */
static void test_accumulated_step(void **state)
{
    (void)state;
    for (int of_stream = 0; of_stream < 2; of_stream++) {
        program p = begin();
        tg_tape *t = of_stream ? p.other : p.tape;
        tg_optim_zero_grad(p.optim);
        assert_true(backward(&p, t, p.good));
        assert_false(backward(&p, t, p.bad));
        assert_false(tg_optim_step(p.optim));
        assert_false(has_moved(&p));
        tg_optim_zero_grad(p.optim); /* nothing is changed by it, either */
        assert_int_equal(tg_tensor_grad_kind(p.table.weight), TG_GRAD_ROWS);
        assert_ptr_equal(tg_tape_error(p.tape), tg_run_error(p.run));
        assert_ptr_equal(tg_params_error(p.params), tg_run_error(p.stream));
        assert_run_error(p.run, TG_ERROR_RANGE, "embedding: id 9 at [1] is outside [0,4)");
        tg_optim_zero_grad(p.optim);
        assert_true(backward(&p, t, p.good) && tg_optim_step(p.optim) && has_moved(&p));
        end(&p);
    }
}

/* Every call that changes something does nothing while there is an error; what ends, switches and reads goes on. */
static void test_what_an_error_stops(void **state)
{
    (void)state;
    program p = begin();
    tg_loader_config config = tg_loader_config_default();
    config.batch_size = config.context = config.stride = 1;
    tg_loader *loader = tg_loader_new(p.run, (int32_t[]){0, 1, 2}, 3, &config);
    assert_true(backward(&p, p.tape, p.good));
    assert_true(tg_scope_begin(p.other));
    tg_error own = TG_NO_ERROR, program_error = {TG_ERROR_FILE, "open 'a': \x1b no such file", 3, 7};
    assert_false(tg_run_set_error(p.run, &program_error));
    assert_false(tg_run_set_error(p.run, &(tg_error){TG_ERROR_VALUE, "a later one", -1, -1}));
    const char *text = tg_run_error(p.run)->text;
    assert_string_equal(text, "open 'a': \\x1b no such file");
    assert_true(tg_run_error(p.run)->line == 3 && tg_run_error(p.run)->byte == 7);
    tg_batch batch;
    const struct {
        const char *call;
        bool works;
    } refused[] = {
        {"sum_all", tg_sum_all(p.other, p.good)},
        {"scope_begin", tg_scope_begin(p.tape)},
        {"optim_step", tg_optim_step(p.optim)},
        {"optim_set_lr", tg_optim_set_lr(p.optim, NULL, 1)},
        {"optim_add_to_group", tg_optim_add_to_group(p.optim, "a", "*")},
        {"scale_grad", tg_scale_grad(p.params, 2)},
        {"clip_grad_value", tg_clip_grad_value(p.params, 0.1)},
        {"params_add", tg_params_add(p.params, "more", TG_SHAPE(1))},
        {"params_set_frozen", tg_params_set_frozen(p.params, "*", true)},
        {"params_new_part", tg_params_new_part(p.params, "*")},
        {"linear_make", tg_nn_linear_make(p.params, "head", 3, 2, TG_BIAS).module.is_made},
        {"embedding_resize", tg_nn_embedding_resize(&p.table, ROWS + 1)},
        {"adam_new", tg_adam_new(p.params, NULL)},
        {"loader_next", tg_loader_next(loader, &batch)},
        {"params_save", tg_params_save(p.params, "none/none", NULL, &own)},
        {"params_load", tg_params_load(p.params, "none/none", NULL, &own)},
        {"checkpoint_save",
         tg_checkpoint_save("none/none", (tg_checkpoint_part[]){tg_checkpoint_optim("o", p.optim)}, 1, &own)},
        {"checkpoint_load",
         tg_checkpoint_load("none/none", (tg_checkpoint_part[]){tg_checkpoint_loader("l", loader)}, 1, NULL)},
        {"tape_write_dot", tg_tape_write_dot(p.tape, stdout, NULL)},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        if (refused[i].works) {
            fail_msg("%s works while the run has an error", refused[i].call);
        }
    }
    assert_string_equal(own.text, text);
    assert_true(own.line == 3 && own.byte == 7);
    assert_false(has_moved(&p));
    assert_int_equal(tg_params_count(p.params), 1);
    assert_false(tg_scope_end(p.other, NULL));
    tg_loader_reset(loader);
    tg_tape_reset(p.tape);
    tg_tape_set_training(p.tape, false);
    assert_true(tg_tensor_value_at(p.good, 1) == 2 && !tg_tape_is_training(p.tape));
    assert_true(tg_tensor_fill_normal(p.table.weight, tg_run_rng(p.run), 0, 1, NULL));
    assert_string_equal(tg_run_error(p.run)->text, text);
    tg_run_clear_error(p.run);
    assert_true(tg_loader_next(loader, &batch));
    assert_false(tg_scope_end(p.other, NULL)); /* the call above has ended it */
    tg_loader_free(loader);
    end(&p);
}

/* A loader that fails in the middle of a pass stops the tape of its run, and no tape of another run. */
static void test_loader_of_a_run(void **state)
{
    (void)state;
    for (int joined = 0; joined < 2; joined++) {
        program p = begin();
        tg_run *own = joined ? NULL : tg_run_new(1);
        tg_tensor *table = tg_tensor_new(TG_F32, TG_SHAPE(3, 2), NULL);
        tg_loader_config config = tg_loader_config_default();
        config.batch_size = 1;
        tg_loader *loader = tg_loader_new_from_tensors(joined ? p.stream : own, &table, 1, &config);
        tg_batch batch;
        assert_true(tg_loader_next(loader, &batch));
        assert_true(tg_tensor_resize_rows(table, 2, NULL));
        assert_false(tg_loader_next(loader, &batch));
        assert_int_equal(tg_loader_error(loader)->code, TG_ERROR_STATE);
        /* as "while (!tg_loader_next(...))" after an error: each call returns false, so a loop must look at the error
         * */
        assert_false(tg_loader_next(loader, &batch));
        assert_true(backward(&p, p.tape, p.good) == !joined);
        assert_true(tg_optim_step(p.optim) == !joined && has_moved(&p) == !joined);
        assert_true((tg_run_error(p.run)->code == TG_OK) == !joined);
        tg_loader_free(loader);
        tg_release(table);
        tg_run_free(own);
        end(&p);
    }
}

/* Two params of one run, as a generator and a discriminator have: an error of one stops the optimizers of both. Two
 * params of two runs know nothing of each other. */
static void test_two_params(void **state)
{
    (void)state;
    for (int joined = 0; joined < 2; joined++) {
        program p = begin();
        tg_run *own = joined ? NULL : tg_run_new(1);
        tg_params *params = tg_params_new(joined ? p.run : own, TG_F32);
        tg_optim *optim = sgd_new(params, false);
        assert_true(backward(&p, p.tape, p.good));
        assert_null(tg_params_add(params, "", TG_SHAPE(1)));
        assert_true(tg_optim_step(p.optim) == !joined && has_moved(&p) == !joined);
        assert_false(tg_optim_step(optim));
        tg_optim_free(optim);
        tg_params_free(params);
        tg_run_free(own);
        end(&p);
    }
}

/* An evaluation by a second tape, and a draw of a stream, in the middle of a step: they change no number of it; if one
 * fails, the step does. */
static void test_stream_inside_a_step(void **state)
{
    (void)state;
    program p = begin();
    uint64_t position = tg_rng_position(tg_run_rng(p.run));
    assert_true(backward(&p, p.tape, p.good));
    tg_evaluation before = tg_evaluation_begin(p.other);
    assert_non_null(tg_sum_all(p.other, tg_nn_embedding_forward(p.other, &p.table, p.good)));
    tg_tape_set_training(p.other, true);
    assert_non_null(tg_dropout(p.other, p.table.weight, 0.5));
    tg_evaluation_end(p.other, before);
    assert_true(tg_rng_position(tg_run_rng(p.run)) == position);
    assert_true(tg_rng_position(tg_run_rng(p.stream)) > 0);
    assert_true(tg_optim_step(p.optim) && has_moved(&p));
    remember(&p);
    tg_optim_zero_grad(p.optim);
    assert_true(backward(&p, p.tape, p.good));
    assert_null(tg_nn_embedding_forward(p.other, &p.table, p.bad));
    assert_false(tg_optim_step(p.optim) || has_moved(&p));
    end(&p);
}

/* ---- what was refused ---- */

/* The objects of a refused constructor, and those that are made while there is an error, refuse each call after a
 * clear. */
static void test_refused_objects(void **state)
{
    (void)state;
    for (int how = 0; how < 3; how++) { /* a bad argument, an error of the run, no run */
        tg_run *run = how < 2 ? tg_run_new(1) : NULL;
        tg_tape_config limit = tg_tape_config_default();
        tg_loader_config windows = tg_loader_config_default();
        tg_batch batch;
        limit.max_backwards = how == 1 ? 0 : -1;
        windows.batch_size = how == 1;
        windows.context = windows.stride = 1;
        if (how == 1) {
            tg_run_set_error(run, &(tg_error){TG_ERROR_VALUE, "an error", -1, -1});
        }
        tg_tape *tape = tg_tape_new(run, &limit);
        assert_int_equal(tg_tape_error(tape)->code, TG_ERROR_VALUE);
        clear_tape_error(tape);
        assert_null(tg_full(tape, TG_F32, TG_SHAPE(1), 0));
        assert_tape_error(tape, TG_ERROR_STATE, "the tape was not made");
        if (how == 1) {
            tg_run_set_error(run, &(tg_error){TG_ERROR_DTYPE, "an error", -1, -1});
        }
        tg_params *params = tg_params_new(run, how == 1 ? TG_F32 : TG_I32);
        assert_int_equal(tg_params_error(params)->code, TG_ERROR_DTYPE);
        clear_params_error(params);
        assert_null(tg_params_add(params, "a", TG_SHAPE(1)));
        assert_params_error(params, TG_ERROR_STATE, "the params were not made");
        assert_null(tg_sgd_new(params, NULL));
        assert_params_error(params, TG_ERROR_STATE, "the params were not made");
        tg_error own = TG_NO_ERROR;
        assert_false(tg_params_load(params, "none", NULL, &own));
        assert_error(&own, TG_ERROR_STATE, "the params were not made");
        clear_params_error(params);
        if (how == 1) {
            tg_run_set_error(run, &(tg_error){TG_ERROR_VALUE, "an error", -1, -1});
        }
        tg_loader *loader = tg_loader_new(run, (int32_t[]){1, 2, 3}, 3, &windows);
        assert_int_equal(tg_loader_error(loader)->code, TG_ERROR_VALUE);
        clear_loader_error(loader);
        assert_false(tg_loader_next(loader, &batch));
        assert_int_equal(tg_loader_error(loader)->code, TG_ERROR_STATE);
        assert_non_null(strstr(tg_loader_error(loader)->text, "the loader was not made"));
        tg_loader_free(loader);
        tg_params_free(params);
        tg_tape_free(tape);
        tg_run_free(run);
    }
}

/* Without a run: what draws says so; a loader without shuffle draws nothing, and one with shuffle is refused. */
static void test_without_a_run(void **state)
{
    (void)state;
    tg_loader_config config = tg_loader_config_default();
    config.batch_size = config.context = config.stride = 1;
    tg_loader *loader = tg_loader_new(NULL, (int32_t[]){1, 2, 3}, 3, &config);
    tg_batch batch;
    assert_true(tg_loader_next(loader, &batch) && tg_loader_next(loader, &batch) && !tg_loader_next(loader, &batch));
    assert_true(tg_loader_next(loader, &batch));
    tg_loader_free(loader);
    config.shuffle = true;
    loader = tg_loader_new(NULL, (int32_t[]){1, 2, 3}, 3, &config);
    assert_string_equal(tg_loader_error(loader)->text, "loader_new: shuffle needs a generator; give the loader a run");
    tg_loader_free(loader);
    tg_params *params = tg_params_new(NULL, TG_F32);
    assert_null(tg_params_add_normal(params, "a", TG_SHAPE(1), 0, 1));
    assert_params_error(params, TG_ERROR_STATE, "params: 'a' needs a generator");
    tg_tape *tape = tg_tape_new(NULL, NULL);
    assert_null(tg_dropout(tape, tg_full(tape, TG_F32, TG_SHAPE(2), 1), 0.5));
    assert_tape_error(tape, TG_ERROR_STATE, "dropout: the tape has no generator");
    assert_null(tg_run_rng(tg_tape_run(tape)));
    assert_true(tg_tape_run(tape) != tg_params_run(params));
    tg_tape_free(tape);
    tg_params_free(params);
    assert_null(tg_run_new_stream(NULL, 1));
    assert_null(tg_run_rng(NULL));
    assert_false(tg_run_set_error(NULL, &(tg_error){TG_ERROR_VALUE, "x", -1, -1}));
    tg_run_clear_error(NULL);
    tg_run_free(NULL);
    assert_int_equal(tg_run_error(NULL)->code, TG_ERROR_MEMORY);
}

/* ---- deferred steps ---- */

/* A getter of a table with missed steps sets the error; a flush clears that one, and no other. */
static void test_missed_steps(void **state)
{
    (void)state;
    for (int other = 0; other < 2; other++) {
        program p = begin_with(true);
        assert_true(backward(&p, p.tape, p.good) && tg_optim_step(p.optim));
        if (other) {
            assert_false(backward(&p, p.tape, p.bad));
        }
        assert_null(tg_tensor_data(p.table.weight));
        assert_int_equal(tg_run_error(p.run)->code, other ? TG_ERROR_RANGE : TG_ERROR_STATE);
        assert_true(tg_optim_flush(p.optim) == !other);
        assert_non_null(tg_tensor_data(p.table.weight));
        assert_true(has_moved(&p));
        if (other) {
            assert_run_error(p.run, TG_ERROR_RANGE, "embedding: id 9");
        }
        /* the error of a getter, cleared by the program, and then another one: a flush does not clear that */
        tg_tape_reset(p.tape);
        tg_optim_zero_grad(p.optim);
        assert_true(backward(&p, p.tape, p.good) && tg_optim_step(p.optim));
        assert_null(tg_tensor_data(p.table.weight));
        tg_run_clear_error(p.run);
        assert_false(backward(&p, p.tape, p.bad));
        assert_false(tg_optim_flush(p.optim));
        assert_run_error(p.run, TG_ERROR_RANGE, "embedding: id 9");
        /* nor that of an op, whose loss a step may wait for */
        assert_true(backward(&p, p.tape, p.good) && tg_optim_step(p.optim));
        tg_tape_set_recording(p.other, false);
        assert_null(tg_nn_embedding_forward(p.other, &p.table, p.good));
        assert_false(tg_optim_flush(p.optim));
        assert_run_error(p.run, TG_ERROR_STATE, "call tg_optim_flush first");
        end(&p);
    }
}

/* Another optimizer of the run does not clear the error of a getter. */
static void test_flush_of_another(void **state)
{
    (void)state;
    program p = begin_with(true);
    tg_params *params = tg_params_new(p.run, TG_F32);
    tg_params_add(params, "a", TG_SHAPE(2, 2));
    tg_optim *second = sgd_new(params, true);
    assert_true(backward(&p, p.tape, p.good) && tg_optim_step(p.optim));
    assert_null(tg_tensor_data(p.table.weight));
    assert_false(tg_optim_flush(second));
    assert_int_equal(tg_run_error(p.run)->code, TG_ERROR_STATE);
    assert_true(tg_optim_flush(p.optim));
    assert_true(tg_optim_flush(second));
    tg_optim_free(second);
    tg_params_free(params);
    end(&p);
}

/* ---- restart and rescue ---- */

/* A step with dropout fails, and is repeated: the weights are those of a program in which nothing failed. */
static void test_restart(void **state)
{
    (void)state;
    float moved[2][ROWS * WIDTH];
    for (int fails = 0; fails < 2; fails++) {
        program p = begin();
        tg_rng *saved = tg_rng_new(0);
        tg_loader_config config = tg_loader_config_default();
        config.batch_size = 2;
        config.shuffle = true;
        tg_loader *loader = tg_loader_new_from_tensors(p.run, &p.good, 1, &config);
        tg_batch batch;
        assert_true(tg_loader_next(loader, &batch));
        tg_rng_copy(saved, tg_run_rng(p.run));
        for (int attempt = fails; attempt >= 0; attempt--) {
            tg_tape_reset(p.tape);
            tg_optim_zero_grad(p.optim);
            tg_tensor *x = tg_nn_embedding_forward(p.tape, &p.table, batch.inputs);
            tg_backward(p.tape, tg_sum_all(p.tape, tg_dropout(p.tape, x, 0.5)), NULL);
            if (attempt > 0) {
                backward(&p, p.tape, p.bad);
            }
            assert_true(tg_optim_step(p.optim) == (attempt == 0));
            if (attempt > 0) {
                tg_run_clear_error(p.run);
                tg_rng_copy(tg_run_rng(p.run), saved);
            }
        }
        memcpy(moved[fails], tg_tensor_data(p.table.weight), sizeof moved[fails]);
        tg_rng_free(saved);
        tg_loader_free(loader);
        end(&p);
    }
    assert_memory_equal(moved[0], moved[1], sizeof moved[0]);
}

/* After an error: copy the text, clear, flush, save. */
static void test_rescue(void **state)
{
    (void)state;
    program p = begin_with(true);
    int64_t size = 0;
    assert_true(backward(&p, p.tape, p.good) && tg_optim_step(p.optim));
    assert_false(backward(&p, p.tape, p.bad));
    assert_null(tg_params_save_bytes(p.params, &size, NULL, NULL));
    tg_error kept = *tg_run_error(p.run);
    tg_run_clear_error(p.run);
    assert_true(tg_optim_flush(p.optim));
    char *bytes = tg_params_save_bytes(p.params, &size, NULL, NULL);
    assert_non_null(bytes);
    assert_int_equal(kept.code, TG_ERROR_RANGE);
    tg_text_free(bytes);
    end(&p);
}

/* ---- lives ---- */

/* A run is freed first or last by the program, or only by its objects; a stream outlives the run that it was made from.
 * */
static void test_lives(void **state)
{
    (void)state;
    counting_allocator counting;
    for (int order = 0; order < 4; order++) {
        allocator_install(&counting);
        tg_run *run = tg_run_new(1), *stream = tg_run_new_stream(run, 2), *second = tg_run_new_stream(stream, 3);
        assert_ptr_equal(tg_run_error(second), tg_run_error(run));
        if (order < 2) {
            tg_run_free(run);
        }
        tg_tape *tape = tg_tape_new(order % 2 ? stream : second, NULL);
        tg_params *params = tg_params_new(stream, TG_F32);
        if (order % 2) {
            tg_run_free(stream);
        }
        assert_null(tg_params_add(params, "", TG_SHAPE(1)));
        assert_null(tg_full(tape, TG_F32, TG_SHAPE(1), 0));
        assert_tape_error(tape, TG_ERROR_VALUE, "params: a name of 0 characters");
        tg_tensor *x = tg_retain(tg_full(tape, TG_F32, TG_SHAPE(1), 4));
        tg_params_free(params);
        tg_tape_free(tape);
        assert_true(tg_tensor_value_at(x, 0) == 4);
        tg_release(x);
        tg_run_free(second);
        if (order % 2 == 0) {
            tg_run_free(stream);
        }
        if (order >= 2) {
            tg_run_free(run);
        }
        assert_int_equal(counting.live, 0);
        allocator_restore();
    }
}

/* Memory is exhausted in each allocation of a constructor: NULL, with MEMORY in the run. */
static void test_without_memory(void **state)
{
    (void)state;
    counting_allocator counting;
    allocator_install(&counting);
    tg_run *run = tg_run_new(1);
    tg_loader_config config = tg_loader_config_default();
    config.batch_size = config.context = config.stride = 1;
    for (int what = 0; what < 4; what++) {
        allocator_arm(&counting, 1, true);
        const void *made = what == 0   ? (const void *)tg_tape_new(run, NULL)
                           : what == 1 ? (const void *)tg_params_new(run, TG_F32)
                           : what == 2 ? (const void *)tg_loader_new(run, (int32_t[]){1, 2}, 2, &config)
                                       : (const void *)tg_run_new_stream(run, 1);
        allocator_arm(&counting, 0, false);
        assert_null(made);
        assert_run_error(run, TG_ERROR_MEMORY, "out of memory");
    }
    allocator_arm(&counting, 1, true);
    assert_true(!tg_run_new(1) && !tg_tape_new(NULL, NULL) && !tg_params_new(NULL, TG_F32));
    allocator_arm(&counting, 0, false);
    tg_run_free(run);
    assert_int_equal(counting.live, 0);
    allocator_restore();
}

/* Returns NULL if there is an error exactly if it should fail. */
static void *train_alone(void *failing)
{
    static char wrong;
    program p = begin();
    bool fails = failing != NULL;
    for (int i = 0; i < 50; i++) {
        tg_tape_reset(p.tape);
        tg_optim_zero_grad(p.optim);
        backward(&p, p.tape, fails && i == 25 ? p.bad : p.good);
        tg_optim_step(p.optim);
    }
    bool as_expected = (tg_run_error(p.run)->code != TG_OK) == fails;
    end(&p);
    return as_expected ? NULL : &wrong;
}

/* The generator is that of torch.manual_seed. */
static void test_generator(void **state)
{
    (void)state;
    tg_run *run = tg_run_new(5), *stream = tg_run_new_stream(run, 7);
    tg_rng *five = tg_rng_new(5), *seven = tg_rng_new(7);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(tg_rng_u32(tg_run_rng(run)), tg_rng_u32(five));
        assert_int_equal(tg_rng_u32(tg_run_rng(stream)), tg_rng_u32(seven));
    }
    assert_int_equal(tg_run_rng(run)->profile, TG_RNG_AVX2);
    tg_rng_free(five);
    tg_rng_free(seven);
    tg_run_free(run);
    tg_run_free(stream);
}

/* The first error stays, whoever reports the next one, and who has set it can clear it through any stream. */
static void test_first_error(void **state)
{
    (void)state;
    tg_run *run = tg_run_new(1), *stream = tg_run_new_stream(run, 2), *second = tg_run_new_stream(stream, 3);
    const tg_error none = {TG_OK, "", -1, -1}, a = {TG_ERROR_VALUE, "a", -1, -1}, b = {TG_ERROR_VALUE, "b", -1, -1};
    const int mine = 0, other = 0;
    tg_run_set_error_by(run, &none, &mine);
    assert_null(run->set_by);
    assert_false(tg_run_set_error(run, NULL) || tg_run_set_error(NULL, &a) || tg_run_error(run)->code);
    tg_run_set_error_by(second, &a, &mine);
    tg_run_set_error(run, &b);
    tg_run_forget(stream, &other);
    tg_run_clear_error_by(run, &other);
    assert_string_equal(tg_run_error(run)->text, "a");
    assert_ptr_equal(run->set_by, &mine);
    tg_run_clear_error_by(second, &mine);
    assert_int_equal(tg_run_error(stream)->code, TG_OK);
    tg_run_set_error(stream, &b);
    tg_run_clear_error_by(run, NULL);
    tg_run_clear_error_by(run, stream);
    assert_string_equal(tg_run_error(run)->text, "b");
    assert_null(run->set_by);
    tg_run_clear_error(second);
    tg_run_set_error_by(run, &a, &mine);
    tg_run_forget(second, &mine);
    tg_run_clear_error_by(run, &mine);
    assert_string_equal(tg_run_error(run)->text, "a");
    tg_run_free(run);
    tg_run_free(stream);
    tg_run_free(second);
}

/* Two threads with a run each: an error of one is none of the other. */
static void test_two_threads(void **state)
{
    (void)state;
    pthread_t threads[2];
    int fails = 1;
    void *wrong[2];
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, train_alone, i ? &fails : NULL), 0);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(threads[i], &wrong[i]), 0);
        assert_null(wrong[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accumulated_step),
        cmocka_unit_test(test_what_an_error_stops),
        cmocka_unit_test(test_loader_of_a_run),
        cmocka_unit_test(test_two_params),
        cmocka_unit_test(test_stream_inside_a_step),
        cmocka_unit_test(test_refused_objects),
        cmocka_unit_test(test_without_a_run),
        cmocka_unit_test(test_missed_steps),
        cmocka_unit_test(test_flush_of_another),
        cmocka_unit_test(test_restart),
        cmocka_unit_test(test_rescue),
        cmocka_unit_test(test_lives),
        cmocka_unit_test(test_without_memory),
        cmocka_unit_test(test_generator),
        cmocka_unit_test(test_first_error),
        cmocka_unit_test(test_two_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
