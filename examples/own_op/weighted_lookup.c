/* weighted_lookup: an op of one's own, with a gradient by rows, and its cmocka test.
 *
 *   y[i,:] = weight[i] table[id[i],:]
 *   gradient   dtable[id[i],:] += weight[i] dy[i,:]      dweight[i] += table[id[i],:] . dy[i,:]
 *
 * tapegrad/op.h is the manual. Two lookups of one row are two gradients, so backward adds and never assigns. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <tapegrad.h>

#include <cmocka.h>

enum { IDS, TABLE, WEIGHT };

/* ids (N), table (V,C), weight (N) -> (N,C) */
static bool shape(tg_op_call *call)
{
    const tg_tensor *ids = call->inputs[IDS], *table = call->inputs[TABLE], *weight = call->inputs[WEIGHT];
    if (!tg_op_expect_rank(call, IDS, 1) || !tg_op_expect_rank(call, TABLE, 2) || !tg_op_expect_rank(call, WEIGHT, 1)) {
        return false;
    }
    int64_t count = tg_tensor_count(ids);
    if (tg_tensor_count(weight) != count) {
        return tg_op_fail(call, TG_ERROR_SHAPE, "%lld ids, but %lld weights", (long long)count,
                          (long long)tg_tensor_count(weight));
    }
    return tg_op_expect_ids_below(call, IDS, tg_tensor_size(table, 0)) &&
           tg_op_output(call, 0, TG_F32, TG_SHAPE(count, tg_tensor_size(table, 1))) &&
           /* backward names at most `count` rows, and needs their slots */
           tg_op_reserve_rows(call, count) && tg_op_backward_scratch(call, count, sizeof(int32_t));
}

static void forward(const tg_op_call *call)
{
    const int32_t *ids = tg_tensor_data(call->inputs[IDS]);
    const float *table = tg_tensor_data(call->inputs[TABLE]), *weight = tg_tensor_data(call->inputs[WEIGHT]);
    float *y = tg_tensor_data_mut(call->outputs[0]);
    int64_t count = tg_tensor_count(call->inputs[IDS]), width = tg_tensor_size(call->inputs[TABLE], 1);
    for (int64_t i = 0; i < count; i++) {
        for (int64_t c = 0; c < width; c++) {
            y[i * width + c] = weight[i] * table[ids[i] * width + c];
        }
    }
}

static void backward(const tg_op_call *call)
{
    const int32_t *ids = tg_tensor_data(call->inputs[IDS]);
    const float *table = tg_tensor_data(call->inputs[TABLE]), *weight = tg_tensor_data(call->inputs[WEIGHT]);
    const float *dy = call->output_gradients[0];
    float *dweight = call->input_gradients[WEIGHT];
    int64_t count = tg_tensor_count(call->inputs[IDS]), width = tg_tensor_size(call->inputs[TABLE], 1);
    /* the gradient of the rows that the ids name, and no others; NULL if the table needs none */
    int32_t *slots = call->scratch;
    float *dtable = tg_op_grad_rows(call, TABLE, ids, count, slots);
    for (int64_t i = 0; i < count; i++) {
        for (int64_t c = 0; c < width; c++) {
            if (dtable) {
                dtable[slots[i] * width + c] += weight[i] * dy[i * width + c];
            }
            if (dweight) {
                dweight[i] += table[ids[i] * width + c] * dy[i * width + c];
            }
        }
    }
}

static const tg_op op = {
    .name = "weighted_lookup",
    .shape = shape,
    .f32 = {forward, backward},
    .input_names = {"ids", "table", "weight"},
    .backward_ignores_outputs = TG_OP_ALL,
    .row_inputs = 1u << TABLE,
};

static tg_tensor *weighted_lookup(tg_tape *t, tg_tensor *const *inputs, int input_count, void *context)
{
    (void)context;
    return tg_apply(t, &op, inputs, input_count, NULL, 0, NULL);
}

/* ---- its test: ids 2, 0, 2 of a table (3,2) ---------------------------------------------------------------------- */

/* The same in plain C over doubles, for the check of float kernels: differences of floats have few digits. */
static void reference(void *context, const double *const *inputs, double *y)
{
    (void)context;
    for (int i = 0; i < 6; i++) {
        y[i] = inputs[WEIGHT][i / 2] * inputs[TABLE][(int)inputs[IDS][i / 2] * 2 + i % 2];
    }
}

static void test(void **state)
{
    (void)state;
    tg_error error = TG_NO_ERROR;
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_tensor *inputs[] = {tg_tensor_new_from_i32(TG_SHAPE(3), (int32_t[]){2, 0, 2}, &error),
                           tg_tensor_new_from_f32(TG_SHAPE(3, 2), (float[]){1, 2, 3, 4, 5, 6}, &error),
                           tg_tensor_new_from_f32(TG_SHAPE(3), (float[]){1, 10, 100}, &error)};
    /* each alone, and both: a kernel may be wrong only where another gradient is NULL */
    for (int needs = 1; needs < 4; needs++) {
        tg_tensor_set_requires_grad(inputs[TABLE], needs & 1, &error);
        tg_tensor_set_requires_grad(inputs[WEIGHT], needs & 2, &error);
        tg_gradcheck_config config = tg_gradcheck_config_default();
        config.dtype = TG_F32;
        config.reference = reference;
        if (!tg_gradcheck(weighted_lookup, NULL, inputs, 3, &config, NULL, &error)) {
            fail_msg("%s", error.text);
        }
    }
    assert_true(tg_backward(t, tg_sum_all(t, weighted_lookup(t, inputs, 3, NULL)), NULL));
    /* row 2 has both of its gradients, 1 + 100, and row 1 has none */
    tg_grad_rows rows = tg_tensor_grad_rows(inputs[TABLE]);
    assert_int_equal(rows.count, 2);
    assert_int_equal(rows.ids[0], 2);
    assert_float_equal(((const float *)rows.values)[0], 101, 0);
    tg_tape_reset(t);
    ((int32_t *)tg_tensor_data_mut(inputs[IDS]))[1] = 7;
    assert_null(weighted_lookup(t, inputs, 3, NULL));
    assert_string_equal(tg_tape_error(t)->text, "weighted_lookup: id 7 at [1] is outside [0,3)");
    tg_tape_free(t);
    for (int i = 0; i < 3; i++) {
        tg_release(inputs[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
