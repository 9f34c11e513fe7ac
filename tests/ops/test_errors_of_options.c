/* The errors of ops with options: bounds, reductions, orders, repetitions and additions at ids. */
#include "ops/refused.h"

#include <math.h>

static void test_bounds(void **state)
{
    fixture *f = *state;
    tg_tape *t = f->tape;
    REFUSED(tg_clamp_tensor(t, f->x, f->four, NULL), SHAPE, NO_BROADCAST("clamp_tensor"));
    REFUSED(tg_clamp_tensor(t, f->x, NULL, f->doubles), DTYPE, MIXED("clamp_tensor", "f32", "f64"));
    REFUSED(tg_clamp_tensor(t, f->x, f->ids, f->x), DTYPE, NOT_FLOAT("clamp_tensor", "low", "i32"));
    REFUSED(tg_clamp_tensor(t, f->x, NULL, NULL), STATE,
            "clamp_tensor: arguments 'low' and 'high' are NULL; one of them is needed");
    REFUSED(tg_clamp_tensor(t, NULL, f->x, f->x), STATE, NULL_ARGUMENT("clamp_tensor", "x"));
    REFUSED(tg_logical_and(t, f->x, f->four), SHAPE, NO_BROADCAST("logical_and"));
    REFUSED(tg_logical_and(t, f->x, f->doubles), DTYPE, MIXED("logical_and", "f32", "f64"));
    REFUSED(tg_logical_and(t, NULL, f->x), STATE, NULL_ARGUMENT("logical_and", "a"));
    REFUSED(tg_logical_or(t, f->x, f->four), SHAPE, NO_BROADCAST("logical_or"));
    REFUSED(tg_logical_or(t, f->x, NULL), STATE, NULL_ARGUMENT("logical_or", "b"));
    REFUSED(tg_logical_not(t, NULL), STATE, NULL_ARGUMENT("logical_not", "x"));
    REFUSED(tg_where(t, f->mask, f->ids, f->x), DTYPE, "where: argument 'b' is f32; it must be i32 (tg_cast converts)");
    REFUSED(tg_where(t, f->x, f->ids, f->ids), DTYPE,
            "where: argument 'mask' is f32; it must be u8 (tg_cast converts)");
    REFUSED(tg_where(t, f->mask, f->ids, f->four_ids), SHAPE,
            "where: shapes (2,3), (2,3) and (4,) do not broadcast: sizes must be equal or 1");
    REFUSED(tg_masked_fill(t, f->ids, f->x, 0), DTYPE,
            "masked_fill: argument 'mask' is f32; it must be u8 (tg_cast converts)");
    REFUSED(tg_masked_fill(t, f->four_ids, f->mask, 0), SHAPE,
            "masked_fill: a mask of shape (2,3) does not broadcast to (4,)");
}

/* Checks the calls that take a list of axes, with a list that has none and is not TG_ALL_AXES. */
static void check_list_without_axes(fixture *f, int count)
{
    tg_tape *t = f->tape;
    const tg_axes none = tg_axes_make(count, NULL);
    static const char *const names[] = {"sum", "mean", "amax", "amin", "logsumexp", "norm",
                                        "any", "all",  "var",  "std",  "flip",      "sum"};
    for (int i = 0; i < 12; i++) {
        tg_tensor *y = i == 0    ? tg_sum(t, f->x, none, TG_DROP_AXES)
                       : i == 1  ? tg_mean(t, f->x, none, TG_KEEP_AXES)
                       : i == 2  ? tg_amax(t, f->x, none, TG_DROP_AXES)
                       : i == 3  ? tg_amin(t, f->x, none, TG_DROP_AXES)
                       : i == 4  ? tg_logsumexp(t, f->x, none, TG_DROP_AXES)
                       : i == 5  ? tg_norm(t, f->x, 2, none, TG_DROP_AXES)
                       : i == 6  ? tg_any(t, f->x, none, TG_DROP_AXES)
                       : i == 7  ? tg_all(t, f->x, none, TG_DROP_AXES)
                       : i == 8  ? tg_var(t, f->x, none, 1, TG_DROP_AXES)
                       : i == 9  ? tg_std(t, f->x, none, 1, TG_DROP_AXES)
                       : i == 10 ? tg_flip(t, f->x, none)
                                 : tg_sum(t, f->ids, none, TG_DROP_AXES);
        char text[100];
        snprintf(text, sizeof text, "%s: %d axes are listed; at least 1 is needed, or TG_ALL_AXES", names[i], count);
        check_refused(f, y, TG_ERROR_VALUE, text, __LINE__);
    }
}

static void test_reductions(void **state)
{
    fixture *f = *state;
    tg_tape *t = f->tape;
    REFUSED(tg_amin(t, f->x, TG_AXES(2), TG_DROP_AXES), RANGE, NO_AXIS("amin", 2));
    check_list_without_axes(f, 0);
    check_list_without_axes(f, -2);
    REFUSED(tg_flip(t, f->x, tg_axes_make(2, NULL)), STATE, "flip: the array of axes is NULL");
    REFUSED(tg_amin(t, f->empty, TG_AXES(0), TG_DROP_AXES), SHAPE,
            "amin: axis 0 of (0,3) is empty, and has no minimum");
    REFUSED(tg_amin(t, f->ids, TG_ALL_AXES, TG_DROP_AXES), DTYPE, NOT_FLOAT("amin", "x", "i32"));
    REFUSED(tg_amin(t, NULL, TG_ALL_AXES, TG_DROP_AXES), STATE, NULL_ARGUMENT("amin", "x"));
    REFUSED(tg_argmin(t, f->x, 2, TG_DROP_AXES), RANGE, NO_AXIS("argmin", 2));
    REFUSED(tg_argmin(t, f->empty, 0, TG_DROP_AXES), SHAPE,
            "argmin: axis 0 of (0,3); its size must be 1 to 2147483647");
    REFUSED(tg_argmin(t, NULL, 0, TG_DROP_AXES), STATE, NULL_ARGUMENT("argmin", "x"));
    REFUSED(tg_logsumexp(t, f->x, TG_AXES(0, 0), TG_DROP_AXES), RANGE, "logsumexp: axis 0 is listed twice");
    REFUSED(tg_logsumexp(t, f->ids, TG_ALL_AXES, TG_DROP_AXES), DTYPE, NOT_FLOAT("logsumexp", "x", "i32"));
    REFUSED(tg_logsumexp(t, NULL, TG_ALL_AXES, TG_DROP_AXES), STATE, NULL_ARGUMENT("logsumexp", "x"));
    REFUSED(tg_std(t, f->x, TG_AXES(2), 1, TG_DROP_AXES), RANGE, NO_AXIS("std", 2));
    REFUSED(tg_std(t, f->ids, TG_ALL_AXES, 1, TG_DROP_AXES), DTYPE, NOT_FLOAT("std", "x", "i32"));
    REFUSED(tg_std(t, NULL, TG_ALL_AXES, 1, TG_DROP_AXES), STATE, NULL_ARGUMENT("std", "x"));
    REFUSED(tg_norm(t, f->x, 0, TG_ALL_AXES, TG_DROP_AXES), VALUE, "norm: p 0; it must be above 0, or INFINITY");
    REFUSED(tg_norm(t, f->x, NAN, TG_ALL_AXES, TG_DROP_AXES), VALUE, "norm: p nan; it must be above 0, or INFINITY");
    REFUSED(tg_norm(t, f->empty, INFINITY, TG_ALL_AXES, TG_DROP_AXES), SHAPE,
            "norm: axis 0 of (0,3) is empty, and has no maximum");
    REFUSED(tg_norm(t, f->x, 2, TG_AXES(-3), TG_DROP_AXES), RANGE, NO_AXIS("norm", -3));
    REFUSED(tg_norm(t, f->ids, 2, TG_ALL_AXES, TG_DROP_AXES), DTYPE, NOT_FLOAT("norm", "x", "i32"));
    REFUSED(tg_norm(t, NULL, 2, TG_ALL_AXES, TG_DROP_AXES), STATE, NULL_ARGUMENT("norm", "x"));
    REFUSED(tg_any(t, f->mask, TG_AXES(2), TG_DROP_AXES), RANGE, NO_AXIS("any", 2));
    REFUSED(tg_any(t, NULL, TG_ALL_AXES, TG_DROP_AXES), STATE, NULL_ARGUMENT("any", "x"));
    REFUSED(tg_all(t, f->mask, TG_AXES(0, 0), TG_DROP_AXES), RANGE, "all: axis 0 is listed twice");
    REFUSED(tg_all(t, NULL, TG_ALL_AXES, TG_DROP_AXES), STATE, NULL_ARGUMENT("all", "x"));
    REFUSED(tg_sum(t, f->ids, TG_AXES(2), TG_DROP_AXES), RANGE, NO_AXIS("sum", 2));
    REFUSED(tg_sort(t, f->x, 2, TG_SMALLEST_FIRST, NULL), RANGE, NO_AXIS("sort", 2));
    REFUSED(tg_sort(t, f->ids, 0, TG_SMALLEST_FIRST, NULL), DTYPE, NOT_FLOAT("sort", "x", "i32"));
    REFUSED(tg_sort(t, NULL, 0, TG_SMALLEST_FIRST, NULL), STATE, NULL_ARGUMENT("sort", "x"));
    REFUSED(tg_cumsum(t, f->x, 2), RANGE, NO_AXIS("cumsum", 2));
    REFUSED(tg_cumsum(t, f->ids, 0), DTYPE, NOT_FLOAT("cumsum", "x", "i32"));
    REFUSED(tg_cumsum(t, NULL, 0), STATE, NULL_ARGUMENT("cumsum", "x"));
}

static void test_constants(void **state)
{
    fixture *f = *state;
    tg_tape *t = f->tape;
    const float values[] = {1, 2, 3, 4, 5, 6};
    REFUSED(tg_constant(t, (tg_dtype)9, TG_SHAPE(2, 3), values), DTYPE, "constant: 9 is not a dtype");
    REFUSED(tg_constant(t, TG_F32, TG_SHAPE(2, -3), values), SHAPE,
            "constant: size -3 of axis 1 in (2,-3) is negative");
    REFUSED(tg_constant(t, TG_F32, TG_SHAPE(2, 3), NULL), STATE, "constant: the array of values is NULL");
    tg_tensor *x = tg_constant(t, TG_F32, TG_SHAPE(2, 3), values);
    assert_values(x, (double[]){1, 2, 3, 4, 5, 6}, 6, 0, 0);
    assert_false(tg_tensor_requires_grad(x));
    assert_int_equal(tg_tensor_count(tg_constant(t, TG_I32, TG_SHAPE(0, 3), values)), 0);
    int64_t records = tape_stats_of(t).records;
    assert_non_null(tg_mul(t, x, f->x));
    assert_int_equal(tape_stats_of(t).records, records + 1);
}

static void test_movements(void **state)
{
    fixture *f = *state;
    tg_tape *t = f->tape;
    REFUSED(tg_flip(t, f->x, TG_AXES(2)), RANGE, NO_AXIS("flip", 2));
    REFUSED(tg_flip(t, f->x, TG_AXES(1, -1)), RANGE, "flip: axis 1 is listed twice");
    REFUSED((tg_flip(t, f->x, (tg_axes){.count = 9})), RANGE, "flip: 9 axes are listed; a tensor has at most 8");
    REFUSED(tg_flip(t, NULL, TG_AXES(0)), STATE, NULL_ARGUMENT("flip", "x"));
#define REPEAT(times) \
    "repeat: " times " times a shape (2,3); it must have one count, 0 or more, for each axis, and at most 8"
    REFUSED(tg_repeat(t, f->x, TG_SHAPE(2)), SHAPE, REPEAT("(2,)"));
    REFUSED(tg_repeat(t, f->x, TG_SHAPE(2, -1)), SHAPE, REPEAT("(2,-1)"));
    REFUSED(tg_repeat(t, f->x, TG_SHAPE(1, INT64_MAX)), SHAPE, REPEAT("(1,9223372036854775807)"));
    REFUSED(tg_repeat(t, NULL, TG_SHAPE(2)), STATE, NULL_ARGUMENT("repeat", "x"));
#define SCATTER(ids, source, x, axis)                               \
    "scatter_add: ids " ids ", a source " source " and an input " x \
    "; the ranks must be equal, the ids no larger than the source, and only on axis " axis " larger than the input"
    REFUSED(tg_scatter_add(t, f->x, 1, f->ids, f->x), RANGE, "scatter_add: id 8 at [0,1] is outside [0,3)");
    REFUSED(tg_scatter_add(t, f->vector, 0, f->ids, f->x), SHAPE, SCATTER("(2,3)", "(2,3)", "(3,)", "0"));
    REFUSED(tg_scatter_add(t, f->x, 1, f->ids, f->row), SHAPE, SCATTER("(2,3)", "(1,3)", "(2,3)", "1"));
    REFUSED(tg_scatter_add(t, f->x, 2, f->ids, f->x), RANGE, NO_AXIS("scatter_add", 2));
    REFUSED(tg_scatter_add(t, f->ids, 0, f->ids, f->x), DTYPE, NOT_FLOAT("scatter_add", "x", "i32"));
    REFUSED(tg_scatter_add(t, f->x, 0, f->x, f->x), DTYPE, NOT_IDS("scatter_add", "ids", "f32"));
    REFUSED(tg_scatter_add(t, f->x, 0, f->ids, f->doubles), DTYPE, MIXED("scatter_add", "f32", "f64"));
    REFUSED(tg_scatter_add(t, f->x, 0, NULL, f->x), STATE, NULL_ARGUMENT("scatter_add", "ids"));
    REFUSED(tg_index_add(t, f->x, 0, f->id_list, f->x), RANGE, "index_add: id 5 at [0] is outside [0,2)");
    REFUSED(tg_index_add(t, f->x, 0, f->id_list, f->row), SHAPE,
            "index_add: the source has shape (1,3); it must be (2,3), the input's with one slice per id");
    REFUSED(tg_index_add(t, f->x, 0, f->ids, f->x), SHAPE,
            "index_add: argument 'ids' has shape (2,3); it must have rank 1");
    REFUSED(tg_index_add(t, f->scalar, 0, f->id_list, f->x), SHAPE,
            "index_add: argument 'x' is a scalar, which has no axis");
    REFUSED(tg_index_add(t, f->x, 2, f->id_list, f->x), RANGE, NO_AXIS("index_add", 2));
    REFUSED(tg_index_add(t, f->x, 0, f->id_list, f->ids), DTYPE, NOT_FLOAT("index_add", "source", "i32"));
    REFUSED(tg_index_add(t, f->x, 0, f->id_list, NULL), STATE, NULL_ARGUMENT("index_add", "source"));
    REFUSED(tg_gather(t, f->ids, 1, f->ids), RANGE, "gather: id 8 at [0,1] is outside [0,3)");
    REFUSED(tg_index_select(t, f->mask, 0, f->id_list), RANGE, "index_select: id 5 at [0] is outside [0,2)");
    REFUSED(tg_layer_norm(t, NULL, NULL, NULL, 1e-5), STATE, NULL_ARGUMENT("layer_norm", "x"));
    REFUSED(tg_layer_norm(t, f->ids, NULL, NULL, 1e-5), DTYPE, NOT_FLOAT("layer_norm", "x", "i32"));
    REFUSED(tg_bernoulli(t, NULL), STATE, NULL_ARGUMENT("bernoulli", "p"));
    REFUSED(tg_bernoulli(t, f->ids), DTYPE, NOT_FLOAT("bernoulli", "p", "i32"));
    tg_tensor *two = tg_full(t, TG_F32, TG_SHAPE(2, 2), 2);
    REFUSED(tg_bernoulli(t, two), VALUE, "bernoulli: probability 2 at [0,0] is outside [0,1]");
    tg_tape *plain = tg_tape_new(NULL, NULL);
    assert_null(tg_bernoulli(plain, f->vector));
    assert_tape_error(plain, TG_ERROR_STATE, "bernoulli: the tape has no generator; it needs a run (tg_run_new)");
    tg_tape_free(plain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_bounds, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_reductions, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_constants, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_movements, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("errors of options", tests, NULL, NULL);
}
