/* The operations that an instruction can call: the functions of tests/rows, other elementwise ops, and reductions. The
 * lists of shapes.c and layers.c follow. An operation may be more than one op. It reads its options from numbers that
 * were drawn once, so it does the same in each run. */
#include <stdarg.h>
#include <string.h>

#include "programs.h"

/* ---- for all operations ---- */

void describe(call *c, const char *format, ...)
{
    if (c->detail) {
        size_t length = strlen(c->detail);
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(c->detail + length, DETAIL - length, format, arguments);
        va_end(arguments);
    }
}

int draw_axis(call *c, uint32_t option, const tg_tensor *x)
{
    int rank = tg_tensor_rank(x), axis = rank > 0 ? (int)(option % (2 * (unsigned)rank)) - rank : 0;
    describe(c, ", axis %d", axis);
    return axis;
}

static int64_t count_of(tg_shape shape)
{
    int64_t count = 1;
    for (int i = 0; i < shape.rank; i++) {
        count *= shape.size[i];
    }
    return count;
}

tg_tensor *constant(call *c, tg_shape shape, uint32_t seed, double low, double high)
{
    static double f64[MOST_COUNT];
    static float f32[MOST_COUNT];
    int64_t count = count_of(shape);
    if (count > MOST_COUNT) {
        return NULL;
    }
    for (int64_t i = 0; i < count; i++) {
        f64[i] = low + (high - low) * (number_of(seed, (uint64_t)i) + 1) / 2;
        f32[i] = (float)f64[i];
    }
    bool is_f32 = c->run->s.dtype == TG_F32;
    return tg_constant(c->tape, c->run->s.dtype, shape, is_f32 ? (void *)f32 : (void *)f64);
}

tg_tensor *constant_ids(call *c, tg_shape shape, uint32_t seed, int64_t bound)
{
    static int32_t ids[MOST_COUNT];
    int64_t count = count_of(shape);
    if (count > MOST_COUNT || bound < 1) {
        return NULL;
    }
    for (int64_t i = 0; i < count; i++) {
        ids[i] = (int32_t)((number_of(seed, (uint64_t)i) + 1) / 2 * (double)bound);
    }
    return tg_constant(c->tape, TG_I32, shape, ids);
}

tg_tensor *constant_mask(call *c, tg_shape shape, uint32_t seed)
{
    static uint8_t mask[MOST_COUNT];
    int64_t count = count_of(shape);
    if (count > MOST_COUNT) {
        return NULL;
    }
    for (int64_t i = 0; i < count; i++) {
        mask[i] = number_of(seed, (uint64_t)i) > 0;
    }
    return tg_constant(c->tape, TG_U8, shape, mask);
}

/* ---- elementwise ---- */

tg_tensor *positive(call *c, tg_tensor *x)
{
    return tg_add_scalar(c->tape, tg_mul(c->tape, x, x), 0.5);
}

static tg_tensor *bernoulli(call *c)
{
    return tg_bernoulli(c->tape, c->x[0]);
}

/* The options of an op of tests/rows. One number is drawn. Of two, which may be bounds, the first one is scaled. An
 * integer is an index of the axis before it. */
static void draw_options(call *c, double number[FORMULA_NUMBERS])
{
    const test_row *row = c->row;
    double value = number_of(c->option[1], 0) * 2 + 0.0625;
    row_options(row, false, 0, number);
    if (row->kinds[0] == NUMBER) {
        number[0] = row->with_number ? value : number[0] * (0.5 + value * value);
    }
    for (int k = 0; k < FORMULA_NUMBERS && row->kinds[k] != NUMBER; k++) {
        int64_t size = k > 0 ? tg_tensor_size(c->x[0], (int)number[0]) : 3;
        number[k] = row->kinds[k] == AXIS ? draw_axis(c, c->option[k], c->x[0])
                    : size > 0            ? (double)((int64_t)c->option[k] % (2 * size) - size)
                                          : 0;
    }
    if (row->options[0]) {
        describe(c, ", %g %g", number[0], number[1]);
    }
}

/* An op of tests/rows. */
static tg_tensor *function(call *c)
{
    const test_row *row = c->row;
    tg_tensor *x[ROW_INPUTS] = {NULL};
    for (int k = 0; k < row_input_count(row); k++) {
        bool is_positive = row->inputs[k] == POSITIVE || row->inputs[k] == NONZERO;
        x[k] = is_positive ? positive(c, c->x[k]) : c->x[k];
    }
    double number[FORMULA_NUMBERS];
    draw_options(c, number);
    return row_call(row, c->tape, x, number);
}

static tg_tensor *clamp_tensor(call *c)
{
    /* At a bound that is equal to x, or to the other one, the function has a kink, and only one of its inputs has the
     * gradient. The summands keep copies of x and of each other away from that. */
    tg_tensor *low = tg_add_scalar(c->tape, c->x[1], -0.28125);
    tg_tensor *high = c->option[0] % 2 ? tg_add_scalar(c->tape, c->x[2], 0.3125) : NULL;
    return tg_clamp_tensor(c->tape, c->x[0], low, high);
}

static tg_tensor *where(call *c)
{
    return tg_where(c->tape, constant_mask(c, tg_tensor_shape(c->x[0]), c->option[0]), c->x[0], c->x[1]);
}

static tg_tensor *masked_fill(call *c)
{
    return tg_masked_fill(c->tape, c->x[0], constant_mask(c, tg_tensor_shape(c->x[0]), c->option[0]), 0.25);
}

static tg_tensor *triangle(call *c)
{
    int64_t diagonal = (int64_t)(c->option[0] % 5) - 2;
    describe(c, ", diagonal %lld %s", (long long)diagonal, c->option[1] % 2 ? "tril" : "triu");
    return (c->option[1] % 2 ? tg_tril : tg_triu)(c->tape, c->x[0], diagonal);
}

/* ---- reductions ---- */

tg_axes draw_axes(call *c, const tg_tensor *x)
{
    switch (c->option[0] % 4) {
    case 0: describe(c, ", all axes"); return TG_ALL_AXES;
    case 1:
        if (tg_tensor_rank(x) > 1) {
            describe(c, ", axes 0 -1");
            return TG_AXES(0, -1);
        }
        /* fallthrough */
    default: return TG_AXES(draw_axis(c, c->option[2], x));
    }
}

static tg_keep_axes draw_keep(call *c)
{
    describe(c, c->option[3] % 2 ? " kept" : "");
    return c->option[3] % 2 ? TG_KEEP_AXES : TG_DROP_AXES;
}

static tg_tensor *reduce(call *c)
{
    tg_tape *t = c->tape;
    tg_tensor *x = c->x[0];
    tg_axes axes = draw_axes(c, x);
    tg_keep_axes keep = draw_keep(c);
    switch (c->option[1] % 9) {
    case 0: describe(c, " sum"); return tg_sum(t, x, axes, keep);
    case 1: describe(c, " mean"); return tg_mean(t, x, axes, keep);
    case 2: describe(c, " amax"); return tg_amax(t, x, axes, keep);
    case 3: describe(c, " amin"); return tg_amin(t, x, axes, keep);
    case 4: describe(c, " logsumexp"); return tg_logsumexp(t, x, axes, keep);
    case 5: describe(c, " norm 2"); return tg_norm(t, x, 2, axes, keep);
    case 6: describe(c, " norm 3"); return tg_norm(t, x, 3, axes, keep);
    case 7: describe(c, " var"); return tg_var(t, x, axes, (int)(c->option[2] % 2), keep);
    default: break;
    }
    /* equal values would have the deviation 0, whose slope is not defined */
    describe(c, " std");
    tg_tensor *different = tg_add(t, x, constant(c, tg_tensor_shape(x), c->option[1], -1, 1));
    return tg_std(t, different, axes, 0, keep);
}

static tg_tensor *cumsum(call *c)
{
    return tg_cumsum(c->tape, c->x[0], draw_axis(c, c->option[0], c->x[0]));
}

/* The selected values, times the values of a gather with the same indices. */
static tg_tensor *topk(call *c)
{
    tg_tensor *indices = NULL;
    int axis = draw_axis(c, c->option[0], c->x[0]);
    int64_t k = (int64_t)c->option[1] % (tg_tensor_size(c->x[0], axis) + 1);
    tg_order order = c->option[2] % 2 ? TG_LARGEST_FIRST : TG_SMALLEST_FIRST;
    describe(c, ", k %lld", (long long)k);
    tg_tensor *top = c->option[3] % 2 ? tg_sort(c->tape, c->x[0], axis, order, &indices)
                                      : tg_topk(c->tape, c->x[0], k, axis, order, &indices);
    return tg_mul(c->tape, top, tg_gather(c->tape, tg_tanh(c->tape, c->x[0]), axis, indices));
}

const operation elementwise[] = {
    {.name = "bernoulli", .inputs = 1, .weight = 1, .call = bernoulli},
    {.name = "clamp_tensor", .inputs = 3, .weight = 1, .call = clamp_tensor},
    {.name = "where", .inputs = 2, .weight = 2, .call = where},
    {.name = "masked_fill", .inputs = 1, .weight = 2, .call = masked_fill},
    {.name = "triangle", .inputs = 1, .weight = 1, .call = triangle},
    {.name = "reduce", .inputs = 1, .weight = 5, .call = reduce},
    {.name = "cumsum", .inputs = 1, .weight = 1, .call = cumsum},
    {.name = "topk", .inputs = 1, .weight = 2, .call = topk},
    {.name = NULL},
};

/* ---- all of them ---- */

static int length_of(const operation *list)
{
    int length = 0;
    while (list[length].name) {
        length++;
    }
    return length;
}

/* The functions of tests/rows. */
enum { MOST_FUNCTIONS = 100 };
static operation functions[MOST_FUNCTIONS];
static const test_row *function_rows[MOST_FUNCTIONS];

static int function_count(void)
{
    static int count;
    for (int i = count > 0 ? row_count() : 0; i < row_count() && count < MOST_FUNCTIONS; i++) {
        const test_row *row = row_at(i);
        if (row->weight > 0) {
            function_rows[count] = row;
            functions[count++] = (operation){.name = row->op + strlen("tg_"),
                                             .inputs = row_input_count(row),
                                             .weight = row->weight,
                                             .call = function};
        }
    }
    return count;
}

const test_row *operation_row(int index)
{
    return index < function_count() ? function_rows[index] : NULL;
}

const operation *operation_at(int index)
{
    int first = function_count(), second = first + length_of(elementwise), third = second + length_of(shapes);
    return index < first    ? &functions[index]
           : index < second ? &elementwise[index - first]
           : index < third  ? &shapes[index - second]
                            : &layers[index - third];
}

int operation_count(void)
{
    return function_count() + length_of(elementwise) + length_of(shapes) + length_of(layers);
}
