/* recurrent: a GRU or an LSTM over all positions of a sequence, in one direction.
 *
 *   forward     b_t = h_{t-1} W^T + bias,   h_t = step(a_t, b_t, h_{t-1})        (ops/sequence/recurrent_cells.h)
 *   gradient    from the last position to the first:   da_t and db_t from dh_t,   dh_{t-1} += db_t W
 *               then dW += sum_t db_t^T h_{t-1},   dbias += sum_t db_t
 *
 * The products with W follow each other, and each has only the rows of the batch. The gradient of W is one product over
 * all positions, and another one for the initial state. Threads divide the columns of the other sums and of the steps,
 * so one thread computes each value. A row that is 0 in the mask copies h (and c), and passes their gradient. With
 * `reverse` the last position is the first one.
 */
#include "ops/sequence/recurrent.h"

#include "ops/sequence/recurrent_attributes.h"
#include "ops/sequence/recurrent_cells.h"

TG_DECLARE_WIDE_KERNELS(tg_gru_forward, tg_gru_backward);
TG_DECLARE_WIDE_KERNELS(tg_lstm_forward, tg_lstm_backward);

/* The values of a state that are worth the wake-up of a thread. */
enum { STEP_GRAIN = TG_GRAIN / 16 };

/* A call, and the position at which it is. */
typedef struct layer {
    const recurrent_cell *cell;
    int64_t T, B, H, GH; /* GH: the values of all gates of a row */
    bool reverse;
    const real *a, *first_h, *first_c, *weight, *bias;
    const uint8_t *mask;   /* (B,T); NULL: all rows */
    real *states;          /* (T,B,H) */
    real *gates, *kept;    /* saved: (T,B,GH) and (T,B,H) */
    real *b;               /* forward: (B,GH) */
    const real *dstates;   /* (T,B,H); NULL: zeros */
    real *da, *db, *dbias; /* (T,B,GH), (T,B,GH) and (GH); da and dbias may be NULL */
    real *dh, *dc;         /* (B,H) */
    bool overwrite;        /* da */
    int64_t step;          /* 0 .. T - 1 */
} layer;

static layer layer_of(const tg_op_call *call, const recurrent_cell *cell)
{
    const recurrent_attributes *at = call->attributes;
    const tg_tensor *states = call->outputs[0];
    layer l = {.cell = cell,
               .T = states->shape[0],
               .B = states->shape[1],
               .H = states->shape[2],
               .GH = cell->gates * states->shape[2],
               .reverse = at->reverse,
               .a = tg_values(call->inputs[RECURRENT_INPUTS]),
               .first_h = tg_values(call->inputs[RECURRENT_STATE]),
               .first_c = cell == &lstm_cell ? tg_values(call->inputs[RECURRENT_CELL]) : NULL,
               .weight = tg_values(call->inputs[RECURRENT_WEIGHT]),
               .bias = at->bias ? tg_values(call->inputs[at->bias]) : NULL,
               .mask = at->mask ? tg_values(call->inputs[at->mask]) : NULL,
               .states = tg_values(states),
               .gates = call->saved};
    l.kept = l.gates + cell->gates * states->count;
    return l;
}

/* Returns the row at which a step begins in (T B) rows. */
static int64_t first_row_of(const layer *l, int64_t step)
{
    return (l->reverse ? l->T - 1 - step : step) * l->B;
}

static bool keeps(const layer *l, int64_t row)
{
    return l->mask && !l->mask[row * l->T + first_row_of(l, l->step) / l->B];
}

/* Returns the columns from `column` on of a row, at the current step. */
static cell_step step_of(const layer *l, int64_t row, int64_t column, int64_t columns)
{
    const int64_t H = l->H, at = first_row_of(l, l->step) + row, gates = at * l->GH + column;
    cell_step s = {.n = columns,
                   .H = H,
                   .a = l->a + gates,
                   .h = l->first_h + row * H + column,
                   .c = l->first_c ? l->first_c + row * H + column : NULL,
                   .gates = l->gates + gates,
                   .kept = l->kept + at * H + column,
                   .y = l->states + at * H + column};
    if (l->step > 0) {
        int64_t last = (first_row_of(l, l->step - 1) + row) * H + column;
        s.h = l->states + last;
        s.c = l->first_c ? l->kept + last : NULL;
    }
    return s;
}

/* ---- forward ---- */

/* Computes b = h W^T + bias, of all gates. */
static void project_state(const layer *l)
{
    const real *h = l->step > 0 ? l->states + first_row_of(l, l->step - 1) * l->H : l->first_h;
    for (int64_t row = 0; l->bias && row < l->B; row++) {
        memcpy(l->b + row * l->GH, l->bias, (size_t)l->GH * sizeof *l->b);
    }
    const tg_gemm g = {l->B,        l->GH,       l->H,         .b_layout = TG_TRANSPOSED,
                       .lda = l->H, .ldb = l->H, .ldc = l->GH, .add = l->bias};
    gemm(&g, h, l->weight, l->b);
}

static void forward_columns(void *context, int64_t begin, int64_t end)
{
    const layer *l = context;
    for (int64_t row = 0; row < l->B; row++) {
        cell_step s = step_of(l, row, begin, end - begin);
        s.b = l->b + row * l->GH + begin;
        if (!keeps(l, row)) {
            l->cell->forward(&s);
            continue;
        }
        memcpy(s.y, s.h, (size_t)s.n * sizeof *s.y);
        if (s.c) {
            memcpy(s.kept, s.c, (size_t)s.n * sizeof *s.kept);
        }
    }
}

static void run_forward(const tg_op_call *call, const recurrent_cell *cell)
{
    layer l = layer_of(call, cell);
    l.b = call->scratch;
    for (l.step = 0; l.step < l.T; l.step++) {
        project_state(&l);
        tg_parallel_for(l.H, 1 + STEP_GRAIN / (l.B + 1), forward_columns, &l);
    }
    if (call->output_count > 1) {
        memcpy(tg_values(call->outputs[1]), l.kept + first_row_of(&l, l.T - 1) * l.H,
               (size_t)(l.B * l.H) * sizeof(real));
    }
}

void KERNEL(tg_gru_forward)(const tg_op_call *call)
{
    run_forward(call, &gru_cell);
}

void KERNEL(tg_lstm_forward)(const tg_op_call *call)
{
    run_forward(call, &lstm_cell);
}

/* ---- backward ---- */

/* Computes db and da for some columns of a row, and dh and dc without the product of db. */
static void row_gradient(const layer *l, int64_t row, int64_t column, int64_t columns)
{
    const int64_t H = l->H, G = l->cell->gates, at = first_row_of(l, l->step) + row;
    cell_step s = step_of(l, row, column, columns);
    cell_gradient d = {.dh = l->dh + row * H + column,
                       .dc = l->dc + row * H + column,
                       .da = l->da ? l->da + at * l->GH + column : NULL,
                       .db = l->db + at * l->GH + column,
                       .overwrite = l->overwrite};
    for (int64_t k = 0; l->dstates && k < s.n; k++) {
        d.dh[k] += l->dstates[at * H + column + k];
    }
    if (!keeps(l, row)) {
        l->cell->backward(&s, &d);
    } else {
        for (int64_t gate = 0; gate < G; gate++) {
            memset(d.db + gate * H, 0, (size_t)s.n * sizeof *d.db);
        }
        pass_to_input(&s, &d, (int)G);
    }
    for (int64_t gate = 0; l->dbias && gate < G; gate++) {
        for (int64_t k = 0; k < s.n; k++) {
            l->dbias[gate * H + column + k] += d.db[gate * H + k];
        }
    }
}

static void backward_columns(void *context, int64_t begin, int64_t end)
{
    const layer *l = context;
    for (int64_t row = 0; row < l->B; row++) {
        row_gradient(l, row, begin, end - begin);
    }
}

/* Adds the gradient of W: sum_t db_t^T h_{t-1}. In the states, those before the steps 1 .. T - 1 are neighbors. */
static void add_weight_gradient(const layer *l, bool overwrite, real *dweight)
{
    const int64_t H = l->H, rows = (l->T - 1) * l->B;
    tg_gemm product = {l->GH, H, rows, .transpose_a = true, .lda = l->GH, .ldb = H, .ldc = H, .add = !overwrite};
    gemm(&product, l->db + (l->reverse ? 0 : l->B * l->GH), l->states + (l->reverse ? l->B * H : 0), dweight);
    product.k = l->B;
    product.add = true;
    gemm(&product, l->db + first_row_of(l, 0) * l->GH, l->first_h, dweight);
}

/* Adds (B,H) values to the gradient of an input, which may be NULL. */
static void add_to_input(const tg_op_call *call, int input, const real *from, int64_t count)
{
    real *to = call->input_gradients[input];
    for (int64_t k = 0; to && k < count; k++) {
        to[k] = accumulated(writes_gradient(call, input), to[k], from[k]);
    }
}

static void run_backward(const tg_op_call *call, const recurrent_cell *cell)
{
    layer l = layer_of(call, cell);
    const int64_t count = l.B * l.H;
    void *const *gradients = call->input_gradients;
    l.dh = call->scratch;
    l.dc = l.dh + count;
    l.db = l.dc + count;
    l.dstates = call->output_gradients[0];
    l.da = gradients[RECURRENT_INPUTS];
    if (cell == &lstm_cell && l.da && writes_gradient(call, RECURRENT_INPUTS)) {
        l.db = l.da; /* they are equal */
        l.da = NULL;
    }
    l.overwrite = writes_gradient(call, RECURRENT_INPUTS);
    const recurrent_attributes *at = call->attributes;
    l.dbias = at->bias ? gradients[at->bias] : NULL;
    if (l.dbias && writes_gradient(call, at->bias)) {
        memset(l.dbias, 0, (size_t)l.GH * sizeof(real));
    }
    memset(l.dh, 0, (size_t)(2 * count) * sizeof(real));
    const real *dlast = call->output_count > 1 ? call->output_gradients[1] : NULL;
    if (dlast) {
        memcpy(l.dc, dlast, (size_t)count * sizeof(real));
    }
    const tg_gemm g = {l.B, l.H, l.GH, .lda = l.GH, .ldb = l.H, .ldc = l.H, .add = true};
    for (l.step = l.T - 1; l.step >= 0; l.step--) {
        tg_parallel_for(l.H, 1 + STEP_GRAIN / (l.B + 1), backward_columns, &l);
        if (l.step > 0 || gradients[RECURRENT_STATE]) {
            gemm(&g, l.db + first_row_of(&l, l.step) * l.GH, l.weight, l.dh);
        }
    }
    add_to_input(call, RECURRENT_STATE, l.dh, count);
    if (cell == &lstm_cell) {
        add_to_input(call, RECURRENT_CELL, l.dc, count);
    }
    if (gradients[RECURRENT_WEIGHT]) {
        add_weight_gradient(&l, writes_gradient(call, RECURRENT_WEIGHT), gradients[RECURRENT_WEIGHT]);
    }
}

void KERNEL(tg_gru_backward)(const tg_op_call *call)
{
    run_backward(call, &gru_cell);
}

void KERNEL(tg_lstm_backward)(const tg_op_call *call)
{
    run_backward(call, &lstm_cell);
}

/* ---- the ops ---- */

#ifdef TG_ONCE

static bool expect(tg_op_call *call, int input, const char *name, tg_dtype dtype, tg_shape shape)
{
    const tg_tensor *x = call->inputs[input];
    return (tg_dtype_of(x) == dtype && tg_shape_equal(tg_shape_of(x), shape)) ||
           tg_op_fail(call, TG_ERROR_SHAPE, "the %s is %s %s; it must be %s %s", name, tg_dtype_name(tg_dtype_of(x)),
                      tg_shape_text_of(x).text, tg_dtype_name(dtype), tg_shape_text(shape).text);
}

/* Checks the inputs, which a module has computed. The sizes of the others follow from the projected inputs and the
 * width of the state. */
static bool check_recurrent_shapes(tg_op_call *call, int64_t gates, bool has_cell)
{
    const recurrent_attributes *at = call->attributes;
    const tg_tensor *a = call->inputs[RECURRENT_INPUTS], *h = call->inputs[RECURRENT_STATE];
    int64_t H = h->rank == 2 ? h->shape[1] : 0, rows;
    if (!tg_op_expect_float(call, RECURRENT_INPUTS)) {
        return false;
    }
    if (a->rank != 3 || a->shape[0] < 1 || a->shape[0] * a->shape[1] > TG_GEMM_LIMIT || H < 1 ||
        __builtin_mul_overflow(gates, H, &rows) || a->shape[2] != rows) {
        return tg_op_fail(call, TG_ERROR_SHAPE,
                          "the projected inputs are %s and the state %s; they must be (T,B,%lld H) and (B,H), T and H "
                          "at least 1, and T B at most %d",
                          tg_shape_text_of(a).text, tg_shape_text_of(h).text, (long long)gates, TG_GEMM_LIMIT);
    }
    int64_t T = a->shape[0], B = a->shape[1];
    tg_dtype dtype = tg_dtype_of(a);
    return expect(call, RECURRENT_STATE, "state", dtype, tg_shape_make(2, (int64_t[]){B, H})) &&
           expect(call, RECURRENT_WEIGHT, "weight", dtype, tg_shape_make(2, (int64_t[]){rows, H})) &&
           (!has_cell || expect(call, RECURRENT_CELL, "cell", dtype, tg_shape_of(h))) &&
           (!at->bias || expect(call, at->bias, "bias", dtype, tg_shape_make(1, &rows))) &&
           (!at->mask || expect(call, at->mask, "mask", TG_U8, tg_shape_make(2, (int64_t[]){B, T})));
}

static bool recurrent_shape(tg_op_call *call, int64_t gates, bool has_cell)
{
    if (!check_recurrent_shapes(call, gates, has_cell)) {
        return false;
    }
    const tg_tensor *a = call->inputs[RECURRENT_INPUTS], *h = call->inputs[RECURRENT_STATE];
    int64_t T = a->shape[0], B = h->shape[0], H = h->shape[1];
    size_t size = tg_size_of(a->dtype);
    return tg_op_output(call, 0, tg_dtype_of(a), tg_shape_make(3, (int64_t[]){T, B, H})) &&
           (!has_cell || tg_op_output(call, 1, tg_dtype_of(a), tg_shape_of(h))) &&
           tg_op_save(call, a->count + T * h->count, size) && tg_op_scratch(call, gates * h->count, size) &&
           tg_op_backward_scratch(call, 2 * h->count + a->count, size);
}

static bool gru_shape(tg_op_call *call)
{
    return recurrent_shape(call, 3, false);
}

static bool lstm_shape(tg_op_call *call)
{
    return recurrent_shape(call, 4, true);
}

static const tg_op gru_op = {
    .name = "gru",
    .shape = gru_shape,
    .input_names = {"inputs", "state", "weight"},
    TG_WIDE_KERNELS(tg_gru_forward, tg_gru_backward),
    .backward_ignores_inputs = 1u << RECURRENT_INPUTS,
    .can_overwrite = true,
};

static const tg_op lstm_op = {
    .name = "lstm",
    .shape = lstm_shape,
    .input_names = {"inputs", "state", "weight", "cell"},
    TG_WIDE_KERNELS(tg_lstm_forward, tg_lstm_backward),
    .backward_ignores_inputs = 1u << RECURRENT_INPUTS,
    .backward_ignores_outputs = 1u << 1,
    .can_overwrite = true,
};

static tg_tensor *apply(tg_tape *t, const tg_op *op, const tg_recurrence *r, tg_tensor *cell, tg_tensor **outputs)
{
    tg_tensor *inputs[6] = {r->inputs, r->state, r->weight, cell};
    int count = op == &lstm_op ? 4 : 3;
    recurrent_attributes at = {.reverse = r->reverse};
    if (r->bias) {
        at.bias = count;
        inputs[count++] = r->bias;
    }
    if (r->mask) {
        at.mask = count;
        inputs[count++] = r->mask;
    }
    return tg_apply(t, op, inputs, count, &at, sizeof at, outputs);
}

tg_tensor *tg_gru(tg_tape *t, const tg_recurrence *recurrence)
{
    return apply(t, &gru_op, recurrence, NULL, NULL);
}

tg_tensor *tg_lstm(tg_tape *t, const tg_recurrence *recurrence, tg_tensor *cell, tg_tensor **last_cell)
{
    tg_tensor *outputs[TG_OP_MAX_OUTPUTS] = {NULL};
    apply(t, &lstm_op, recurrence, cell, outputs);
    *last_cell = outputs[1];
    return outputs[0];
}

#endif
