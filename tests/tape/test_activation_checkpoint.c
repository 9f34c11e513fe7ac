/* Spans that backward computes again (tg_activation_checkpoint_begin): each program has the same bits with spans and
 * without. tests/ops/test_gradcheck_ops.c runs each op in a span. */
#include "ops/calls.h"
#include "support.h"
#include "tape/no_values.h"
#include "tensor/tensor.h"

#include <string.h>

#include <tapegrad/extend.h>
#include <tapegrad/op.h>
#include <tapegrad/profile.h>

enum { ROWS = 4, WIDTH = 6, TABLE_ROWS = 7, LEAVES = 3, MOST_KEPT = 8 };

/* A run of a program. */
typedef struct run {
    bool in_spans, drops; /* whether it begins spans, and whether they drop values */
    tg_run *shared_run;
    tg_tape *tape;
    tg_tensor *x, *weight, *table, *ids;
    tg_tensor *kept[MOST_KEPT]; /* results whose gradients are compared, too */
    int kept_count;
    tg_tensor *retained; /* released at the end; or NULL */
} run;

typedef tg_tensor *program(run *r);

static void begin(run *r)
{
    if (r->in_spans) {
        assert_true(tg_activation_checkpoint_begin(r->tape));
    }
}

static tg_tensor *end(run *r, tg_tensor *result)
{
    return r->in_spans ? tg_activation_checkpoint_end(r->tape, result) : result;
}

/* Asserts that a span has dropped the values of x. */
static void assert_dropped(const run *r, const tg_tensor *x, bool is_dropped)
{
    assert_int_equal(tg_is_dropped(x), r->drops && is_dropped);
}

static tg_tensor *keep_gradient(run *r, tg_tensor *x)
{
    assert_true(tg_retain_grad(r->tape, x));
    r->kept[r->kept_count++] = x;
    return x;
}

/* ---- programs: each returns a result with at least one value ---- */

static tg_tensor *hidden_layer(run *r, tg_tensor *x)
{
    tg_tensor *y = tg_gelu(r->tape, tg_linear(r->tape, x, r->weight, NULL));
    return tg_layer_norm(r->tape, tg_dropout(r->tape, y, 0.3), NULL, NULL, 1e-5);
}

static tg_tensor *one_span(run *r)
{
    begin(r);
    tg_tensor *y = hidden_layer(r, r->x);
    return tg_tanh(r->tape, end(r, y));
}

/* The result of the first span is an input of the second, and of a call behind both. */
static tg_tensor *two_spans(run *r)
{
    begin(r);
    tg_tensor *first = end(r, hidden_layer(r, tg_tanh(r->tape, r->x)));
    begin(r);
    tg_tensor *second = end(r, tg_add(r->tape, hidden_layer(r, first), first));
    return tg_mul(r->tape, tg_mul(r->tape, second, second), first);
}

/* What is inside of the outer span has no values after its end, and has them before. */
static tg_tensor *nested_spans(run *r)
{
    begin(r);
    tg_tensor *y = tg_dropout(r->tape, r->x, 0.5);
    begin(r);
    tg_tensor *hidden = tg_exp(r->tape, y);
    tg_tensor *inner = end(r, tg_dropout(r->tape, hidden, 0.5));
    assert_dropped(r, hidden, false);
    y = end(r, tg_mul(r->tape, inner, hidden));
    assert_dropped(r, hidden, true);
    assert_dropped(r, inner, true);
    assert_dropped(r, y, false);
    return y;
}

/* A gradient by rows, and a dense one of the same kind of call. */
static tg_tensor *lookups(run *r)
{
    begin(r);
    tg_tensor *y = tg_embedding(r->tape, r->ids, r->table, NULL);
    y = tg_mul(r->tape, y, tg_tanh(r->tape, tg_add(r->tape, y, r->x)));
    return end(r, tg_add(r->tape, y, tg_embedding(r->tape, r->ids, tg_exp(r->tape, r->table), NULL)));
}

/* Views of a dropped result, of an input, and of the result of the span. */
static tg_tensor *views(run *r)
{
    tg_tape *t = r->tape;
    begin(r);
    tg_tensor *hidden = tg_exp(t, r->x), *turned = tg_transpose(t, hidden, 0, 1);
    tg_tensor *part = tg_slice(t, turned, 0, 1, WIDTH, 2);
    tg_tensor *input = tg_transpose(t, r->x, 0, 1);
    tg_tensor *y = tg_mul(t, tg_contiguous(t, part), tg_slice(t, input, 0, 0, 3, 1));
    tg_tensor *result = tg_sigmoid(t, y), *flat = tg_reshape(t, result, TG_SHAPE(-1));
    tg_tensor *last = end(r, tg_reshape(t, tg_mul_scalar(t, flat, 2), TG_SHAPE(3, ROWS)));
    assert_dropped(r, hidden, true);
    assert_dropped(r, turned, true);
    assert_dropped(r, part, true);
    assert_dropped(r, input, false); /* r->x has the values */
    assert_dropped(r, flat, true);
    assert_dropped(r, last, false);
    return last;
}

/* The values and the indices of topk; the indices are an input of a shape rule in the span and behind it. */
static tg_tensor *several_outputs(run *r)
{
    tg_tape *t = r->tape;
    tg_tensor *indices;
    begin(r);
    tg_tensor *hidden = tg_exp(t, r->x);
    tg_tensor *top = tg_topk(t, hidden, 2, 1, TG_LARGEST_FIRST, &indices);
    tg_tensor *y = end(r, tg_mul(t, top, tg_gather(t, tg_tanh(t, r->x), 1, indices)));
    assert_dropped(r, top, true);
    assert_dropped(r, indices, false);
    return tg_mul(t, y, tg_gather(t, r->x, 1, indices));
}

/* tg_retain_grad in a span, before its end and after it. */
static tg_tensor *gradients_of_results(run *r)
{
    begin(r);
    tg_tensor *hidden = keep_gradient(r, tg_exp(r->tape, r->x));
    tg_tensor *other = tg_tanh(r->tape, hidden);
    tg_tensor *y = end(r, tg_mul(r->tape, other, hidden));
    assert_dropped(r, hidden, true);
    keep_gradient(r, other);
    return keep_gradient(r, y);
}

/* A result of which the caller has a reference, and one that shares the storage of a detached tensor. */
static tg_tensor *kept_results(run *r)
{
    tg_tape *t = r->tape;
    begin(r);
    tg_tensor *hidden = tg_retain(tg_dropout(t, tg_exp(t, r->x), 0.5));
    r->retained = hidden;
    tg_tensor *other = tg_tanh(t, hidden), *detached = tg_detach(t, other);
    tg_tensor *y = end(r, tg_sigmoid(t, tg_dropout(t, tg_mul(t, other, hidden), 0.25)));
    assert_dropped(r, hidden, false);
    assert_dropped(r, other, false);
    return tg_mul(t, tg_mul(t, y, hidden), detached);
}

/* A result that the program changed in the span keeps its values. */
static tg_tensor *changed_result(run *r)
{
    begin(r);
    tg_tensor *sum = tg_add(r->tape, r->x, r->x);
    assert_true(tg_tensor_fill(sum, 0.5, NULL));
    tg_tensor *y = end(r, tg_mul(r->tape, tg_exp(r->tape, r->x), sum));
    assert_dropped(r, sum, false);
    return y;
}

/* Draws that are not repeated: those of calls without a record, and the program's own. */
static tg_tensor *other_draws(run *r)
{
    tg_tape *t = r->tape;
    begin(r);
    tg_tensor *y = tg_dropout(t, r->x, 0.5);
    tg_tensor *mask = tg_bernoulli(t, tg_full(t, TG_F32, TG_SHAPE(ROWS, WIDTH), 0.5));
    mask = tg_add(t, mask, tg_bernoulli(t, tg_bernoulli(t, tg_add_scalar(t, tg_mul_scalar(t, mask, 0.5), 0.25))));
    tg_tensor *noise = tg_full(t, TG_F32, TG_SHAPE(ROWS, WIDTH), 0);
    y = tg_mul(t, tg_dropout(t, y, 0.25), mask);
    assert_true(tg_tensor_fill_normal(noise, tg_run_rng(r->shared_run), 0, 1, NULL));
    y = tg_exp(t, tg_dropout(t, tg_mul(t, y, noise), 0.25));
    tg_dropout(t, y, 0.5); /* the result does not depend on it */
    y = tg_dropout(t, y, 0.125);
    tg_rng_seed(tg_run_rng(r->shared_run), 77);
    return end(r, tg_mul(t, tg_dropout(t, tg_exp(t, y), 0.5), y));
}

/* A seed that is set before anything has drawn leaves the position as it was. */
static tg_tensor *other_seed(run *r)
{
    begin(r);
    tg_tensor *y = tg_exp(r->tape, r->x);
    tg_rng_seed(tg_run_rng(r->shared_run), 9);
    return end(r, tg_exp(r->tape, tg_dropout(r->tape, y, 0.5)));
}

/* max_norm scales the rows of the table only once. */
static tg_tensor *limited_norms(run *r)
{
    tg_embedding_config config = tg_embedding_config_default();
    config.max_norm = 0.3;
    begin(r);
    tg_tensor *y = tg_embedding(r->tape, r->ids, r->table, &config);
    y = end(r, tg_mul(r->tape, tg_tanh(r->tape, y), y));
    tg_embedding_bag_config bags = tg_embedding_bag_config_default();
    bags.max_norm = 0.4;
    begin(r);
    tg_tensor *bag = tg_embedding_bag(r->tape, tg_reshape(r->tape, r->ids, TG_SHAPE(ROWS, 1)), r->weight, &bags);
    return tg_mul(r->tape, y, end(r, tg_exp(r->tape, bag)));
}

static tg_tensor *empty_results(run *r)
{
    begin(r);
    tg_tensor *none = tg_exp(r->tape, tg_slice(r->tape, tg_tanh(r->tape, r->x), 0, 0, 0, 1));
    tg_tensor *sum = tg_sum(r->tape, none, TG_AXES(0), TG_KEEP_AXES);
    return end(r, tg_tanh(r->tape, tg_add(r->tape, tg_exp(r->tape, sum), r->x)));
}

/* Spans that have nothing to compute again, and one whose result is from before it. */
static tg_tensor *small_spans(run *r)
{
    begin(r);
    tg_tensor *y = end(r, r->x);
    begin(r);
    y = end(r, tg_transpose(r->tape, y, 0, 1));
    begin(r);
    y = end(r, tg_exp(r->tape, y));
    begin(r);
    tg_tensor *loss = tg_sum(r->tape, tg_tanh(r->tape, y), TG_ALL_AXES, TG_DROP_AXES);
    assert_ptr_equal(end(r, y), y);
    assert_dropped(r, loss, true);
    return y;
}

/* The switches have other values when backward computes the calls again. */
static tg_tensor *other_switches(run *r)
{
    begin(r);
    tg_tensor *y = tg_dropout(r->tape, tg_exp(r->tape, r->x), 0.5);
    tg_tape_set_recording(r->tape, false);
    tg_tensor *constant = tg_tanh(r->tape, y);
    tg_tape_set_recording(r->tape, true);
    y = tg_mul(r->tape, tg_tanh(r->tape, y), constant);
    tg_tape_set_training(r->tape, false);
    return end(r, tg_exp(r->tape, tg_dropout(r->tape, y, 0.5)));
}

static tg_tensor *scopes(run *r)
{
    assert_true(tg_scope_begin(r->tape));
    begin(r);
    assert_true(tg_scope_begin(r->tape));
    tg_tensor *y = tg_exp(r->tape, r->x);
    tg_tensor *constant = tg_full(r->tape, TG_F32, TG_SHAPE(1), 2);
    tg_full(r->tape, TG_F32, TG_SHAPE(1), 3);
    assert_true(tg_scope_end(r->tape, constant));
    y = end(r, tg_mul(r->tape, tg_tanh(r->tape, y), constant));
    assert_true(tg_scope_end(r->tape, NULL));
    return y;
}

/* A backward inside of a span, which has no values to compute again yet. */
static tg_tensor *backward_inside(run *r)
{
    begin(r);
    tg_tensor *hidden = tg_dropout(r->tape, tg_exp(r->tape, r->x), 0.5);
    tg_tensor *loss = tg_sum(r->tape, tg_mul(r->tape, hidden, hidden), TG_ALL_AXES, TG_DROP_AXES);
    assert_true(tg_backward(r->tape, loss, NULL));
    tg_tensor *y = tg_tanh(r->tape, r->weight);
    tg_tensor *result = end(r, tg_exp(r->tape, y));
    assert_dropped(r, y, false);
    return result;
}

/* An op of the program, with a count of its calls. */
static int calls, repeated_calls;

static bool counted_shape(tg_op_call *call)
{
    tg_tensor *x = call->inputs[0];
    return tg_op_output(call, 0, tg_tensor_dtype(x), tg_tensor_shape(x)) && tg_op_save(call, 1, 4) &&
           tg_op_scratch(call, 1 << 20, 1);
}

static void counted_forward(const tg_op_call *call)
{
    calls += !call->is_repeated;
    repeated_calls += call->is_repeated;
    memset(call->scratch, 1, 1 << 20);
    memcpy(call->saved, tg_tensor_data(call->inputs[0]), 4);
    const float *x = tg_tensor_data(call->inputs[0]);
    float *y = tg_tensor_data_mut(call->outputs[0]);
    for (int64_t i = 0; i < tg_tensor_count(call->inputs[0]); i++) {
        y[i] = 2 * x[i];
    }
}

static void counted_backward(const tg_op_call *call)
{
    const float *dy = call->output_gradients[0], *first = call->saved, *y = tg_tensor_data(call->outputs[0]);
    float *dx = call->input_gradients[0];
    for (int64_t i = 0; i < tg_tensor_count(call->inputs[0]); i++) {
        dx[i] += dy[i] * (*first + y[i]);
    }
}

static tg_tensor *counted(tg_tape *t, tg_tensor *x)
{
    static const tg_op op = {.name = "counted", .shape = counted_shape, .f32 = {counted_forward, counted_backward}};
    return tg_apply(t, &op, &x, 1, NULL, 0, NULL);
}

static tg_tensor *own_op(run *r)
{
    begin(r);
    tg_tensor *hidden = counted(r->tape, tg_tanh(r->tape, r->x));
    tg_tensor *y = end(r, tg_exp(r->tape, counted(r->tape, hidden)));
    assert_dropped(r, hidden, true);
    return y;
}

/* ---- runs ---- */

static const struct {
    const char *name;
    program *call;
} programs[] = {
    {"one span", one_span},
    {"two spans", two_spans},
    {"nested spans", nested_spans},
    {"lookups", lookups},
    {"views", views},
    {"several outputs", several_outputs},
    {"gradients of results", gradients_of_results},
    {"kept results", kept_results},
    {"changed result", changed_result},
    {"other draws", other_draws},
    {"other seed", other_seed},
    {"limited norms", limited_norms},
    {"empty results", empty_results},
    {"small spans", small_spans},
    {"other switches", other_switches},
    {"scopes", scopes},
    {"backward inside", backward_inside},
    {"own op", own_op},
};
enum { PROGRAMS = sizeof programs / sizeof *programs };

static tg_tensor *drawn(tg_rng *rng, tg_shape shape)
{
    tg_tensor *x = tg_tensor_new(TG_F32, shape, NULL);
    assert_true(tg_tensor_fill_normal(x, rng, 0, 1, NULL));
    return leaf(x);
}

static run run_make(bool recycle, bool detect)
{
    tg_tape_config config = tg_tape_config_default();
    config.recycle = recycle;
    config.detect_freed_results = detect;
    run r = {.shared_run = tg_run_new(3)};
    r.tape = tg_tape_new(r.shared_run, &config);
    r.x = drawn(tg_run_rng(r.shared_run), TG_SHAPE(ROWS, WIDTH));
    r.weight = drawn(tg_run_rng(r.shared_run), TG_SHAPE(WIDTH, WIDTH));
    r.table = drawn(tg_run_rng(r.shared_run), TG_SHAPE(TABLE_ROWS, WIDTH));
    r.ids = tensor_i32(TG_SHAPE(ROWS), (int32_t[]){1, 5, 5, 0});
    return r;
}

static void run_free(run *r)
{
    tg_release(r->retained);
    tg_tape_free(r->tape);
    tg_run_free(r->shared_run);
    tg_release(r->x);
    tg_release(r->weight);
    tg_release(r->table);
    tg_release(r->ids);
}

static void compare(const char *name, const char *what, const tg_tensor *a, const tg_tensor *b)
{
    assert_int_equal(a != NULL, b != NULL);
    if (a && tg_tensor_count(a) > 0 &&
        memcmp(tg_tensor_data(a), tg_tensor_data(b), (size_t)tg_tensor_count(a) * 4) != 0) {
        fail_msg("%s: %s differs with spans", name, what);
    }
}

static void compare_leaf(const char *name, const char *what, const tg_tensor *a, const tg_tensor *b)
{
    compare(name, what, a, b);
    assert_int_equal(tg_tensor_grad_kind(a), tg_tensor_grad_kind(b));
    tg_tensor *dense_a = tg_tensor_new_dense_grad(a, NULL), *dense_b = tg_tensor_new_dense_grad(b, NULL);
    compare(name, what, dense_a, dense_b);
    tg_release(dense_a);
    tg_release(dense_b);
}

/* Runs a program twice, as two steps, with `backwards` backwards through each. */
static void run_program(run *r, program *call, int backwards, tg_tensor **y)
{
    for (int step = 0; step < 2; step++) {
        tg_release(r->retained);
        r->retained = NULL;
        r->kept_count = 0;
        tg_tape_reset(r->tape);
        tg_tape_set_training(r->tape, true);
        tg_rng_seed(tg_run_rng(r->shared_run), 5);
        *y = call(r);
        if (!*y) {
            fail_msg("%s", tg_tape_error(r->tape)->text);
        }
        tg_backward_config config = tg_backward_config_default();
        config.gradient = *y;
        for (int i = 1; i <= backwards; i++) {
            config.retain_graph = i < backwards;
            if (!tg_backward(r->tape, *y, &config)) {
                fail_msg("%s", tg_tape_error(r->tape)->text);
            }
        }
    }
}

/* In each mode of a tape, with one backward and with three through the same records. */
static void test_programs(void **state)
{
    (void)state;
    for (int k = 0; k < PROGRAMS * 6; k++) {
        const char *name = programs[k / 6].name;
        bool recycle = k % 3 != 0, detect = k % 3 == 2;
        int backwards = k / 3 % 2 ? 3 : 1;
        tg_tensor *y[2];
        run plain = run_make(recycle, detect), spans = run_make(recycle, detect);
        spans.in_spans = true;
        spans.drops = !detect;
        run_program(&plain, programs[k / 6].call, backwards, &y[0]);
        run_program(&spans, programs[k / 6].call, backwards, &y[1]);
        compare(name, "the result", y[0], y[1]);
        compare_leaf(name, "x", plain.x, spans.x);
        compare_leaf(name, "the weight", plain.weight, spans.weight);
        compare_leaf(name, "the table", plain.table, spans.table);
        assert_int_equal(plain.kept_count, spans.kept_count);
        for (int i = 0; i < plain.kept_count; i++) {
            assert_non_null(tg_tensor_grad(plain.kept[i]));
            compare(name, "the gradient of a result", tg_tensor_grad(plain.kept[i]), tg_tensor_grad(spans.kept[i]));
        }
        assert_true(tg_rng_position(tg_run_rng(plain.shared_run)) == tg_rng_position(tg_run_rng(spans.shared_run)));
        run_free(&plain);
        run_free(&spans);
    }
    assert_true(repeated_calls > 0);
}

/* A watch may look at each result, so nothing is dropped; a profile has the repeated calls as forward ones. */
static void test_watched_tape(void **state)
{
    (void)state;
    run r = run_make(true, false);
    tg_tensor *y;
    r.in_spans = true;
    tg_kernel_watch watch = {.keeps_results = true};
    tg_tape_add_watch(r.tape, &watch);
    repeated_calls = calls = 0;
    run_program(&r, own_op, 1, &y);
    assert_int_equal(calls, 4);
    assert_int_equal(repeated_calls, 0);
    tg_tape_remove_watch(r.tape, &watch);
    r.drops = true;
    run_program(&r, own_op, 3, &y);
    assert_int_equal(calls, 8);
    assert_int_equal(repeated_calls, 2 * 2 * 3);
    tg_profile *profile = tg_profile_new(r.tape);
    run_program(&r, own_op, 1, &y);
    tg_profile_row row = {.op = NULL};
    for (int64_t i = 0; i < tg_profile_count(profile); i++) {
        row = strcmp(tg_profile_at(profile, i).op, "counted") == 0 ? tg_profile_at(profile, i) : row;
    }
    assert_int_equal(row.calls, 2 * (2 + 2));
    assert_true(row.forward_seconds > 0);
    for (int64_t i = 0; i < tg_profile_count(profile); i++) {
        row = strcmp(tg_profile_at(profile, i).op, "exp") == 0 ? tg_profile_at(profile, i) : row;
    }
    assert_int_equal(row.calls, 2); /* the last call has the result of the span, and is not repeated */
    tg_profile_free(profile);
    run_free(&r);
}

static void count_leaf(void *context, tg_tensor *leaf)
{
    int *count = context;
    assert_int_equal(tg_tensor_grad_kind(leaf), TG_GRAD_ROWS);
    ++*count;
}

/* Two lookups in a table whose other rows have missed steps of a deferred optimizer: a replay reads the rows that the
 * calls have made up. The leaf is announced once per backward. */
static void test_deferred_steps(void **state)
{
    (void)state;
    tg_params *params[2];
    for (int in_spans = 0; in_spans < 2; in_spans++) {
        tg_run *shared_run = tg_run_new(3);
        tg_tape *t = tg_tape_new(shared_run, NULL);
        params[in_spans] = tg_params_new(shared_run, TG_F32);
        tg_tensor *table = tg_params_add_normal(params[in_spans], "table", TG_SHAPE(TABLE_ROWS, WIDTH), 0, 1);
        tg_adamw_config config = tg_adamw_config_default();
        config.deferred = true;
        tg_optim *optim = tg_adamw_new(params[in_spans], &config);
        tg_tensor *ids = tensor_i32(TG_SHAPE(ROWS), (int32_t[]){1, 5, 5, 0});
        int announced = 0;
        tg_backward_config announce = tg_backward_config_default();
        announce.on_gradient = count_leaf;
        announce.context = &announced;
        for (int i = 0; i < 6; i++) {
            tg_tape_reset(t);
            tg_optim_zero_grad(optim);
            ((int32_t *)tg_tensor_data_mut(ids))[0] = i;
            assert_true(!in_spans || tg_activation_checkpoint_begin(t));
            tg_tensor *y = tg_dropout(t, tg_embedding(t, ids, table, NULL), 0.5);
            tg_tensor *other = tg_tensor_new_copy(ids, NULL);
            ((int32_t *)tg_tensor_data_mut(other))[1] = 6 - i;
            y = tg_tanh(t, tg_mul(t, y, tg_embedding(t, other, table, NULL)));
            y = tg_sum(t, tg_mul(t, y, y), TG_ALL_AXES, TG_DROP_AXES);
            y = in_spans ? tg_activation_checkpoint_end(t, y) : y;
            tg_release(other);
            if (!tg_backward(t, y, &announce) || !tg_optim_step(optim)) {
                fail_msg("%s%s", tg_tape_error(t)->text, optim_error(optim)->text);
            }
        }
        assert_int_equal(announced, 6);
        assert_true(tg_optim_flush(optim));
        tg_tape_free(t);
        tg_release(ids);
        tg_optim_free(optim);
        tg_run_free(shared_run);
    }
    compare("deferred steps", "the table", tg_params_find(params[0], "table"), tg_params_find(params[1], "table"));
    tg_params_free(params[0]);
    tg_params_free(params[1]);
}

/* Steps of known shapes allocate nothing. */
static void test_later_steps_allocate_nothing(void **state)
{
    (void)state;
    for (int k = 0; k < PROGRAMS; k++) {
        counting_allocator counting;
        tg_tensor *y;
        run r = run_make(true, false);
        r.in_spans = r.drops = true;
        run_program(&r, programs[k].call, 2, &y);
        allocator_install(&counting);
        run_program(&r, programs[k].call, 2, &y);
        if (counting.calls > 0 && r.kept_count == 0) { /* tg_retain_grad allocates */
            fail_msg("%s: %zu allocations", programs[k].name, counting.calls);
        }
        allocator_restore();
        run_free(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_programs),
        cmocka_unit_test(test_watched_tape),
        cmocka_unit_test(test_deferred_steps),
        cmocka_unit_test(test_later_steps_allocate_nothing),
    };
    return cmocka_run_group_tests_name("activation_checkpoint", tests, NULL, NULL);
}
