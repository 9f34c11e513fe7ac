/* f: break it. An embedding of its own whose backward pass can have a mistake, and what a gradient check says of it. */
#include "station.h"

#include <math.h>
#include <string.h>

#include <tapegrad/op.h>

enum { ROWS = 6, WIDTH = 3 };

static bool lookup_shape(tg_op_call *call)
{
    return tg_op_expect_dtype(call, 1, TG_F64) && tg_op_expect_ids_below(call, 0, ROWS) &&
           tg_op_output(call, 0, TG_F64, TG_SHAPE(tg_tensor_count(call->inputs[0]), WIDTH));
}

static void lookup_forward(const tg_op_call *call)
{
    const int32_t *ids = tg_tensor_data(call->inputs[0]);
    const double *table = tg_tensor_data(call->inputs[1]);
    double *y = tg_tensor_data_mut(call->outputs[0]);
    for (int64_t i = 0; i < tg_tensor_count(call->inputs[0]); i++) {
        memcpy(y + i * WIDTH, table + ids[i] * WIDTH, WIDTH * sizeof *y);
    }
}

/* What all backward kernels begin with. */
#define BEGIN(call)                                           \
    const int32_t *ids = tg_tensor_data((call)->inputs[0]);   \
    const double *dy = (call)->output_gradients[0];           \
    double *dtable = (call)->input_gradients[1];              \
    const int64_t count = tg_tensor_count((call)->inputs[0]); \
    if (!dtable) {                                            \
        return;                                               \
    }

static void right_backward(const tg_op_call *call)
{
    BEGIN(call)
    /* shown: right */
    for (int64_t i = 0; i < count; i++) {
        for (int k = 0; k < WIDTH; k++) {
            dtable[ids[i] * WIDTH + k] += dy[i * WIDTH + k];
        }
    }
    /* end */
}

static void sign_backward(const tg_op_call *call)
{
    BEGIN(call)
    /* shown: sign */
    for (int64_t i = 0; i < count; i++) {
        for (int k = 0; k < WIDTH; k++) {
            dtable[ids[i] * WIDTH + k] -= dy[i * WIDTH + k];
        }
    }
    /* end */
}

static void assign_backward(const tg_op_call *call)
{
    BEGIN(call)
    /* shown: assign */
    for (int64_t i = 0; i < count; i++) {
        for (int k = 0; k < WIDTH; k++) {
            dtable[ids[i] * WIDTH + k] = dy[i * WIDTH + k];
        }
    }
    /* end */
}

static void row_backward(const tg_op_call *call)
{
    BEGIN(call)
    /* shown: row */
    for (int64_t i = 0; i < count; i++) {
        for (int k = 0; k < WIDTH; k++) {
            dtable[(ids[i] + 1) % ROWS * WIDTH + k] += dy[i * WIDTH + k];
        }
    }
    /* end */
}

static void column_backward(const tg_op_call *call)
{
    BEGIN(call)
    /* shown: column */
    for (int64_t i = 0; i < count; i++) {
        for (int k = 0; k < WIDTH - 1; k++) {
            dtable[ids[i] * WIDTH + k] += dy[i * WIDTH + k];
        }
    }
    /* end */
}

#define LOOKUP(kernel)                                                                  \
    {                                                                                   \
        .name = "my_embedding", .shape = lookup_shape, .f64 = {lookup_forward, kernel}, \
        .input_names = {"ids", "table"}, .backward_ignores_outputs = TG_OP_ALL,         \
    }

static const tg_op lookups[] = {LOOKUP(right_backward), LOOKUP(sign_backward), LOOKUP(assign_backward),
                                LOOKUP(row_backward), LOOKUP(column_backward)};

enum { VARIANTS = sizeof lookups / sizeof *lookups };

/* shown: function */
static tg_tensor *my_embedding(tg_tape *t, tg_tensor *const *inputs, int count, void *op)
{
    return tg_apply(t, op, inputs, count, NULL, 0, NULL);
}
/* end */

/* The gradient of the sum of all looked-up numbers, as backward computes it: how often each number was read. */
static bool analytic(const tg_op *op, tg_tensor *const *inputs, double gradient[ROWS * WIDTH], tg_error *error)
{
    tg_tape *t = station_tape(NULL);
    tg_backward(t, tg_sum_all(t, my_embedding(t, inputs, 2, (void *)op)), NULL);
    bool good = lookup_is_good(t, ROWS, error);
    for (int64_t i = 0; good && i < (int64_t)ROWS * WIDTH; i++) {
        gradient[i] = tg_tensor_value_at(tg_tensor_grad(inputs[1]), i);
    }
    tg_tape_free(t);
    tg_tensor_zero_grad(inputs[1]);
    return good;
}

/* The same by central differences. */
static bool numeric(const tg_op *op, tg_tensor *const *inputs, double gradient[ROWS * WIDTH], tg_error *error)
{
    const double eps = 1e-6;
    tg_tape *t = station_tape(NULL);
    tg_tape_set_recording(t, false);
    for (int64_t i = 0; i < (int64_t)ROWS * WIDTH; i++) {
        double was = tg_tensor_value_at(inputs[1], i), sums[2];
        for (int k = 0; k < 2; k++) {
            double *table = tg_tensor_data_mut(inputs[1]);
            table[i] = was + (k ? eps : -eps);
            sums[k] = tg_tensor_item(tg_sum_all(t, my_embedding(t, inputs, 2, (void *)op)), NULL);
            table[i] = was;
            tg_tape_reset(t);
        }
        gradient[i] = (sums[1] - sums[0]) / (2 * eps);
    }
    bool good = tape_is_good(t, error);
    tg_tape_free(t);
    return good;
}

static void write_table(const char *key, const double values[ROWS * WIDTH])
{
    json_key(key);
    json_open('[');
    for (int row = 0; row < ROWS; row++) {
        json_open('[');
        for (int k = 0; k < WIDTH; k++) {
            double value = values[row * WIDTH + k];
            json_figure(fabs(value) < 5e-4 ? 0 : value, 3);
        }
        json_close(']');
    }
    json_close(']');
}

static bool check(const tg_op *op, tg_tensor *const *inputs, tg_error *error)
{
    double backward[ROWS * WIDTH], differences[ROWS * WIDTH];
    if (!analytic(op, inputs, backward, error) || !numeric(op, inputs, differences, error)) {
        return false;
    }
    tg_error finding = TG_NO_ERROR;
    tg_gradcheck_report report;
    /* shown: check */
    bool passed = tg_gradcheck(my_embedding, (void *)op, inputs, 2, NULL, &report, &finding);
    /* end */
    json_key("passed");
    json_bool(passed);
    json_key("text");
    json_text(passed ? report.text : finding.text);
    /* the entry of the table that the check names, or -1 */
    json_key("entry");
    json_int(passed || report.input != 1 ? -1 : report.input_index);
    write_table("analytic", backward);
    write_table("numeric", differences);
    int wrong = 0;
    json_key("wrong");
    json_open('[');
    for (int row = 0; row < ROWS; row++) {
        json_open('[');
        for (int k = 0; k < WIDTH; k++) {
            bool differs = fabs(backward[row * WIDTH + k] - differences[row * WIDTH + k]) > 1e-3;
            json_bool(differs);
            wrong += differs;
        }
        json_close(']');
    }
    json_close(']');
    json_key("wrong_entries");
    json_int(wrong);
    return true;
}

/* f.check VARIANT, and ids. */
bool station_gradient(const request *r, tg_error *error)
{
    int32_t typed[MOST_IDS];
    if (strcmp(r->name, "check") != 0) {
        return refuse(error, "f.%s: unknown request", r->name);
    }
    int count = read_ids(r, typed, error);
    if (count == 0) {
        return false;
    }
    tg_rng *rng = tg_rng_new(123);
    tg_tensor *ids = tg_tensor_new_from_i32(TG_SHAPE(count), typed, error);
    tg_tensor *table = tg_tensor_new(TG_F64, TG_SHAPE(ROWS, WIDTH), error);
    bool good = tg_tensor_fill_normal(table, rng, 0, 1, error) && tg_tensor_set_requires_grad(table, true, error) &&
                check(&lookups[request_number(r, 0, 0, VARIANTS - 1, 0)], (tg_tensor *[]){ids, table}, error);
    tg_release(ids);
    tg_release(table);
    tg_rng_free(rng);
    return good;
}
