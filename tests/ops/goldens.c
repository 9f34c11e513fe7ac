/* goldens: the calls of the ops in the golden files, the reader of these files, and the comparison. */
#include "ops/goldens.h"

#include "ops/calls.h"
#include "rows/rows.h"
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_INPUTS 5

typedef tg_tensor *call(tg_tape *t, tg_tensor **in);

/* The calls of make_ops.py. */
#define CALL(name, expression)                                \
    static tg_tensor *call_##name(tg_tape *t, tg_tensor **in) \
    {                                                         \
        return expression;                                    \
    }

CALL(where, tg_where(t, in[0], in[1], in[2]))
CALL(masked_fill, tg_masked_fill(t, in[0], in[1], -7))
CALL(tril, tg_tril(t, in[0], 1))
CALL(triu, tg_triu(t, in[0], -1))
CALL(sum, tg_sum(t, in[0], TG_AXES(0, 2), TG_DROP_AXES))
CALL(mean, tg_mean(t, in[0], TG_AXES(1), TG_KEEP_AXES))
CALL(max, tg_amax(t, in[0], TG_AXES(-1), TG_DROP_AXES))
CALL(var, tg_var(t, in[0], TG_AXES(0, 2), 1, TG_DROP_AXES))
CALL(topk, tg_topk(t, in[0], 3, 1, TG_LARGEST_FIRST, NULL))
CALL(reshape, tg_reshape(t, in[0], TG_SHAPE(3, -1)))
CALL(permute, tg_permute(t, in[0], TG_AXES(2, 0, 1)))
CALL(slice, tg_slice(t, in[0], 1, 1, 6, 2))
CALL(expand, tg_expand(t, in[0], TG_SHAPE(4, 2, 5, -1)))
CALL(cat, tg_cat(t, in, 2, 1))
CALL(stack, tg_stack(t, in, 2, 1))
CALL(gather, tg_gather(t, in[0], 1, in[1]))
CALL(index_select, tg_index_select(t, in[0], 1, in[1]))
CALL(matmul, tg_matmul(t, in[0], in[1]))
CALL(embedding, tg_embedding(t, in[1], in[0], NULL))
CALL(embedding_by_frequency, embed(t, in[1], in[0], TG_NO_PADDING, true))
#define BAG(mode, padding, offsets, weights) embed_bags(t, in[1], in[0], mode, padding, offsets, weights)
CALL(bag_mean, BAG(TG_BAG_MEAN, TG_NO_PADDING, NULL, NULL))
CALL(bag_max, BAG(TG_BAG_MAX, TG_NO_PADDING, NULL, NULL))
CALL(bag_padded, BAG(TG_BAG_MEAN, -1, NULL, NULL))
CALL(bag_padded_max, BAG(TG_BAG_MAX, 4, NULL, NULL))
CALL(bag_weighted, BAG(TG_BAG_SUM, TG_NO_PADDING, NULL, in[2]))
CALL(bag_offsets, BAG(TG_BAG_MEAN, TG_NO_PADDING, in[2], NULL))
CALL(bag_offsets_sum, BAG(TG_BAG_SUM, TG_NO_PADDING, in[2], in[3]))
CALL(embedding_padded, embed(t, in[1], in[0], -1, false))
CALL(softmax, tg_softmax(t, in[0], 1))
CALL(log_softmax, tg_log_softmax(t, in[0], -1))
CALL(layer_norm, tg_layer_norm(t, in[0], in[1], in[2], 1e-5))
CALL(rms_norm, tg_rms_norm(t, in[0], in[1], 1e-5))
CALL(cross_entropy, tg_cross_entropy(t, in[0], in[1], NULL))
CALL(cross_entropy_smooth, cross_entropy(t, in[0], in[1], loss_config(-100, 0.1, TG_REDUCTION_SUM)))
CALL(cross_entropy_none, cross_entropy(t, in[0], in[1], loss_config(-100, 0, TG_REDUCTION_NONE)))
CALL(nll_loss, nll_loss(t, in[0], in[1], -100, TG_REDUCTION_MEAN))
CALL(mse_loss, tg_mse_loss(t, in[0], in[1], TG_REDUCTION_MEAN))
CALL(attention, attend(TG_ATTENTION_FUSED, t, in[0], in[1], in[2], attention_config(true, 0, NULL)))
CALL(attention_elementary, attend(TG_ATTENTION_ELEMENTARY, t, in[0], in[1], in[2], attention_config(true, 0, NULL)))
CALL(attention_cross, attend(TG_ATTENTION_FUSED, t, in[0], in[1], in[2], attention_config(false, 0, in[3])))

/* Of make_values.py alone. */
CALL(eq, tg_eq(t, in[0], in[1]))
CALL(ne, tg_ne(t, in[0], in[1]))
CALL(lt, tg_lt(t, in[0], in[1]))
CALL(le, tg_le(t, in[0], in[1]))
CALL(gt, tg_gt(t, in[0], in[1]))
CALL(ge, tg_ge(t, in[0], in[1]))
CALL(mask_out, tg_masked_fill(t, in[0], in[1], -(double)INFINITY))
CALL(max_all, tg_amax(t, in[0], TG_ALL_AXES, TG_DROP_AXES))
CALL(max_outer, tg_amax(t, in[0], TG_AXES(0, 2), TG_DROP_AXES))
CALL(sum_last, tg_sum(t, in[0], TG_AXES(-1), TG_DROP_AXES))
CALL(mean_last, tg_mean(t, in[0], TG_AXES(-1), TG_DROP_AXES))
CALL(var_last, tg_var(t, in[0], TG_AXES(-1), 1, TG_DROP_AXES))
CALL(var_biased, tg_var(t, in[0], TG_AXES(-1), 0, TG_DROP_AXES))
/* an empty list of axes in torch */
CALL(max_none, tg_amax(t, in[0], TG_ALL_AXES, TG_DROP_AXES))
CALL(sum_none, tg_sum(t, in[0], TG_ALL_AXES, TG_DROP_AXES))
CALL(mean_none, tg_mean(t, in[0], TG_ALL_AXES, TG_DROP_AXES))
CALL(var_none, tg_var(t, in[0], TG_ALL_AXES, 1, TG_DROP_AXES))
CALL(sum_all, tg_sum(t, in[0], TG_ALL_AXES, TG_DROP_AXES))
CALL(mean_all, tg_mean(t, in[0], TG_ALL_AXES, TG_DROP_AXES))
CALL(argmax, tg_argmax(t, in[0], 1, TG_DROP_AXES))
CALL(topk_none, tg_topk(t, in[0], 0, 1, TG_LARGEST_FIRST, NULL))
CALL(softmax_last, tg_softmax(t, in[0], -1))
CALL(smooth_none, cross_entropy(t, in[0], in[1], loss_config(-100, 0.25, TG_REDUCTION_NONE)))
CALL(nll_none, nll_loss(t, in[0], in[1], -100, TG_REDUCTION_NONE))
CALL(mse_none, tg_mse_loss(t, in[0], in[1], TG_REDUCTION_NONE))
CALL(slice_pair, tg_slice(t, in[0], -1, 1, 2, 1))
CALL(reshape_none, tg_reshape(t, in[0], TG_SHAPE(2, 0, 3)))
CALL(expand_none, tg_expand(t, in[0], TG_SHAPE(0, -1)))
CALL(linear_map_bias, tg_linear(t, in[0], in[1], in[2]))
CALL(one_hot, tg_one_hot(t, in[0], 5, TG_F64))

static const struct {
    const char *name;
    call *run;
} calls[] = {
#define ENTRY(name)        \
    {                      \
#name, call_##name \
    }
    ENTRY(where),
    ENTRY(masked_fill),
    ENTRY(tril),
    ENTRY(triu),
    ENTRY(sum),
    ENTRY(mean),
    ENTRY(max),
    ENTRY(var),
    ENTRY(topk),
    ENTRY(reshape),
    ENTRY(permute),
    ENTRY(slice),
    ENTRY(expand),
    ENTRY(cat),
    ENTRY(stack),
    ENTRY(gather),
    ENTRY(index_select),
    ENTRY(matmul),
    ENTRY(embedding),
    ENTRY(embedding_by_frequency),
    ENTRY(bag_mean),
    ENTRY(bag_max),
    ENTRY(bag_padded),
    ENTRY(bag_padded_max),
    ENTRY(bag_weighted),
    ENTRY(bag_offsets),
    ENTRY(bag_offsets_sum),
    ENTRY(embedding_padded),
    ENTRY(softmax),
    ENTRY(log_softmax),
    ENTRY(layer_norm),
    ENTRY(rms_norm),
    ENTRY(cross_entropy),
    ENTRY(cross_entropy_smooth),
    ENTRY(cross_entropy_none),
    ENTRY(nll_loss),
    ENTRY(mse_loss),
    ENTRY(attention),
    ENTRY(attention_elementary),
    ENTRY(attention_cross),
    ENTRY(eq),
    ENTRY(ne),
    ENTRY(lt),
    ENTRY(le),
    ENTRY(gt),
    ENTRY(ge),
    ENTRY(mask_out),
    ENTRY(max_all),
    ENTRY(max_none),
    ENTRY(sum_none),
    ENTRY(mean_none),
    ENTRY(var_none),
    ENTRY(max_outer),
    ENTRY(sum_last),
    ENTRY(mean_last),
    ENTRY(var_last),
    ENTRY(var_biased),
    ENTRY(sum_all),
    ENTRY(mean_all),
    ENTRY(argmax),
    ENTRY(topk_none),
    ENTRY(softmax_last),
    ENTRY(smooth_none),
    ENTRY(nll_none),
    ENTRY(mse_none),
    ENTRY(slice_pair),
    ENTRY(reshape_none),
    ENTRY(expand_none),
    ENTRY(linear_map_bias),
    ENTRY(one_hot),
};

static char line[1 << 16];

/* The next line's tensor; floats become `dtype`. */
static tg_tensor *read_tensor(FILE *goldens, tg_dtype dtype)
{
    int rank, used;
    char name[4];
    assert_non_null(fgets(line, sizeof line, goldens));
    assert_int_equal(sscanf(line, "%3s %d%n", name, &rank, &used), 2);
    char *at = line + used;
    tg_shape shape = {.rank = rank};
    for (int axis = 0; axis < rank; axis++) {
        shape.size[axis] = strtoll(at, &at, 10);
    }
    tg_tensor *values = tg_tensor_new(TG_F64, shape, NULL);
    assert_non_null(values);
    for (int64_t i = 0; i < tg_tensor_count(values); i++) {
        ((double *)tg_tensor_data_mut(values))[i] = strtod(at, &at);
    }
    tg_dtype own = strcmp(name, "i32") == 0 ? TG_I32 : strcmp(name, "u8") == 0 ? TG_U8 : dtype;
    tg_tensor *x = tg_tensor_new_cast(values, own, NULL);
    tg_release(values);
    return x;
}

static bool is_float(const tg_tensor *x)
{
    return tg_tensor_dtype(x) == TG_F32 || tg_tensor_dtype(x) == TG_F64;
}

static bool is_close(double value, double expected, const golden_rule *rule)
{
    if (isnan(expected) || isinf(expected)) {
        return isnan(expected) ? isnan(value) : value == expected;
    }
    return fabs(value - expected) <= rule->absolute + rule->relative * fabs(expected);
}

/* NaN beside NaN; else equal, zeros by their signs too. */
static bool is_same(double value, double expected)
{
    return isnan(expected) ? isnan(value) : value == expected && signbit(value) == signbit(expected);
}

/* What is compared, for messages. */
typedef struct subject {
    const char *name;
    int number; /* of the case in its file, from 1 */
    const char *what;
    bool exact;
} subject;

static void assert_same(subject at, const tg_tensor *x, const tg_tensor *expected, const golden_rule *rule)
{
    assert_non_null(x);
    if (!tg_shape_equal(tg_tensor_shape(x), tg_tensor_shape(expected))) {
        char a[TG_SHAPE_TEXT], b[TG_SHAPE_TEXT];
        fail_msg("%s, case %d: the %s has shape %s, torch's %s", at.name, at.number, at.what,
                 tg_shape_format(tg_tensor_shape(x), a), tg_shape_format(tg_tensor_shape(expected), b));
    }
    for (int64_t i = 0; i < tg_tensor_count(x); i++) {
        double value = tg_tensor_value_at(x, i), wanted = tg_tensor_value_at(expected, i);
        if (!(at.exact ? is_same(value, wanted) : is_close(value, wanted, rule))) {
            fail_msg("%s, case %d: the %s is %.17g at %lld, torch's %.17g", at.name, at.number, at.what, value,
                     (long long)i, wanted);
        }
    }
}

/* The call of a case: an op of tests/rows, a call of the list above, or one of a test's own list; and its options. */
typedef struct bound_call {
    const test_row *row;
    call *plain;
    const golden_call *own;
    double options[12];
} bound_call;

static tg_tensor *run_call(const bound_call *bound, tg_tape *t, tg_tensor **in)
{
    return bound->own     ? bound->own->run(t, in, bound->options)
           : bound->plain ? bound->plain(t, in)
                          : row_call(bound->row, t, in, bound->options);
}

/* x as every other value along the last axis of a larger tensor; a scalar stays. */
static tg_tensor *strided(tg_tape *t, tg_tensor *x)
{
    tg_shape shape = tg_tensor_shape(x);
    if (shape.rank == 0) {
        return x;
    }
    int64_t last = shape.size[shape.rank - 1];
    shape.size[shape.rank - 1] = 2 * last + 1;
    tg_tensor *base = tg_tensor_new(tg_tensor_dtype(x), shape, NULL);
    tg_tensor *view = tg_retain(tg_slice(t, base, -1, 1, 2 * last + 1, 2));
    assert_true(tg_tensor_copy_from(view, x, NULL));
    tg_tape_reset(t);
    tg_release(base);
    tg_release(x);
    return view;
}

static void check_case(FILE *goldens, subject at, const bound_call *bound, int count, const golden_rule *rule,
                       bool is_strided)
{
    tg_tape *t = tg_tape_new(NULL, NULL);
    assert_in_range(count, 1, MAX_INPUTS);
    tg_tensor *in[MAX_INPUTS];
    for (int i = 0; i < count; i++) {
        in[i] = read_tensor(goldens, rule->dtype);
        in[i] = is_strided ? strided(t, in[i]) : in[i];
        if (is_float(in[i])) {
            leaf(in[i]);
        }
    }
    tg_tensor *y = run_call(bound, t, in);
    assert_string_equal(tg_tape_error(t)->text, "");
    tg_tensor *seed = tg_tensor_requires_grad(y) ? read_tensor(goldens, rule->dtype) : NULL;
    tg_tensor *expected = read_tensor(goldens, rule->dtype);
    at.what = "result";
    at.exact = rule->exact;
    assert_same(at, y, expected, rule);
    tg_release(expected);
    if (seed) {
        assert_true(backward_from(t, y, seed));
    }
    at.what = "gradient";
    at.exact = false;
    for (int i = 0; i < count; i++) {
        if (seed && is_float(in[i])) {
            tg_tensor *gradient = tg_tensor_new_dense_grad(in[i], NULL);
            expected = read_tensor(goldens, rule->dtype);
            assert_same(at, gradient, expected, rule);
            tg_release(gradient);
            tg_release(expected);
        }
        tg_release(in[i]);
    }
    tg_release(seed);
    tg_tape_free(t);
}

/* Reads "op NAME INPUTS OPTIONS...", and what follows in the line. */
static bound_call read_call(const golden_call *list, int count, char name[64], int *inputs, char **rest)
{
    bound_call bound = {.row = NULL};
    int used;
    assert_int_equal(sscanf(line, "op %58s %d%n", name, inputs, &used), 2);
    char *at = line + used, *end = at;
    for (int i = 0; i < 12; i++, at = end) {
        bound.options[i] = strtod(at, &end);
    }
    *rest = end;
    for (int i = 0; i < count; i++) {
        bound.own = strcmp(list[i].name, name) == 0 ? &list[i] : bound.own;
    }
    for (size_t k = 0; k < sizeof calls / sizeof *calls; k++) {
        bound.plain = strcmp(calls[k].name, name) == 0 ? calls[k].run : bound.plain;
    }
    char op[80];
    snprintf(op, sizeof op, "tg_%s", name);
    bound.row = row_of(op);
    if (!bound.own && !bound.plain && !(bound.row && bound.row->torch)) {
        fail_msg("no call for %s", name);
    }
    return bound;
}

int check_goldens(const char *path, const golden_rule *rules, int count)
{
    FILE *goldens = fopen(path, "r");
    assert_non_null(goldens);
    int cases = 0;
    while (fgets(line, sizeof line, goldens)) {
        char name[64], dtype[4] = "", kind[8] = "", *rest;
        int inputs, rule = 0;
        const bound_call bound = read_call(NULL, 0, name, &inputs, &rest);
        sscanf(rest, "%3s %7s", dtype, kind);
        while (rule < count &&
               (strcmp(rules[rule].kind, kind) || (*dtype && strcmp(tg_dtype_name(rules[rule].dtype), dtype)))) {
            rule++;
        }
        assert_in_range(rule, 0, count - 1);
        check_case(goldens, (subject){.name = name, .number = ++cases}, &bound, inputs, &rules[rule], false);
    }
    fclose(goldens);
    return cases;
}

int check_goldens_with_options(const char *path, const golden_call *list, int count, double f64, double f32)
{
    FILE *goldens = fopen(path, "r");
    assert_non_null(goldens);
    int cases = 0;
    while (fgets(line, sizeof line, goldens)) {
        char name[64], *rest;
        int inputs;
        const bound_call bound = read_call(list, count, name, &inputs, &rest);
        long start = ftell(goldens);
        subject at = {.name = name, .number = ++cases};
        for (int run = 0; run < 4; run++) {
            double tolerance = run / 2 ? f32 : f64;
            golden_rule rule = {.dtype = run / 2 ? TG_F32 : TG_F64, .absolute = tolerance, .relative = tolerance};
            fseek(goldens, start, SEEK_SET);
            check_case(goldens, at, &bound, inputs, &rule, run % 2);
        }
    }
    fclose(goldens);
    return cases;
}
