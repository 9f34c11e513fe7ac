/* recurrent: a GRU or an LSTM over all positions of a sequence, in one direction.
 *
 *   forward     b_t = h_{t-1} W^T + bias,   h_t = step(a_t, b_t, h_{t-1})        (ops/sequence/recurrent_cells.h)
 *   gradient    from the last position to the first:   da_t and db_t from dh_t,   dh_{t-1} += db_t W
 *               then dW += sum_t db_t^T h_{t-1},   dbias += sum_t db_t
 *
 * The products with W follow each other, and each has only the rows of the batch; ops/linear_algebra/repeated_product.h
 * computes them. The gradient of W is one product over all positions, and another one for the initial state. Threads
 * divide the columns of the state: a thread computes its columns of the product and of the step, and then waits for the
 * others. A row that is 0 in the mask copies h (and c), and passes their gradient. With `reverse` the last position is
 * the first one.
 */
#include "ops/sequence/recurrent.h"

#include "ops/sequence/recurrent_cells.h"
#include "ops/linear_algebra/repeated_product.h"

TG_DECLARE_KERNEL(tg_gru_forward);
TG_DECLARE_KERNEL(tg_gru_backward);
TG_DECLARE_KERNEL(tg_lstm_forward);
TG_DECLARE_KERNEL(tg_lstm_backward);

enum { INPUTS, STATE, WEIGHT, CELL }; /* a bias and a mask follow */

typedef struct recurrent_attributes {
    int bias, mask; /* numbers of inputs; 0: none */
    bool reverse;
} recurrent_attributes;

/* A call, and the position at which it is. Matrices "in blocks" are those of ops/linear_algebra/repeated_product.h. */
typedef struct layer {
    const recurrent_cell *cell;
    int64_t T, B, H, block;
    bool reverse;
    const real *a, *first_h, *first_c, *weight, *bias;
    const uint8_t *mask;   /* (B,T); NULL: all rows */
    real *states;          /* (T,B,H) */
    real *gates, *kept;    /* saved: (T,B,GH) and (T,B,H) */
    real *matrix;          /* forward: the transpose (H,H) of each gate's weight; backward: W (GH,H); in blocks */
    real *b;               /* forward: (B,H) per gate, in blocks */
    const real *dstates;   /* (T,B,H); NULL: zeros */
    real *da, *db, *dbias; /* (T,B,GH), (T,B,GH) and (GH); da and dbias may be NULL */
    real *dh, *dc;         /* (B,H), in blocks */
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
               .block = block_for(states->shape[2]),
               .reverse = at->reverse,
               .a = tg_values(call->inputs[INPUTS]),
               .first_h = tg_values(call->inputs[STATE]),
               .first_c = cell == &lstm_cell ? tg_values(call->inputs[CELL]) : NULL,
               .weight = tg_values(call->inputs[WEIGHT]),
               .bias = at->bias ? tg_values(call->inputs[at->bias]) : NULL,
               .mask = at->mask ? tg_values(call->inputs[at->mask]) : NULL,
               .states = tg_values(states),
               .gates = call->saved,
               .matrix = call->scratch};
    l.kept = l.gates + cell->gates * states->count;
    return l;
}

/* Returns the position of a step. */
static int64_t position_of(const layer *l, int64_t step)
{
    return l->reverse ? l->T - 1 - step : step;
}

static bool keeps(const layer *l, int64_t row)
{
    return l->mask && !l->mask[row * l->T + position_of(l, l->step)];
}

/* Returns the n columns from `column` on of a row, at the current step. */
static cell_step step_of(const layer *l, int64_t row, int64_t column, int64_t n)
{
    const int64_t H = l->H, at = position_of(l, l->step) * l->B + row, gates = at * l->cell->gates * H + column;
    cell_step s = {.n = n,
                   .H = H,
                   .a = l->a + gates,
                   .h = l->first_h + row * H + column,
                   .c = l->first_c ? l->first_c + row * H + column : NULL,
                   .gates = l->gates + gates,
                   .kept = l->kept + at * H + column,
                   .y = l->states + at * H + column};
    if (l->step > 0) {
        int64_t last = (position_of(l, l->step - 1) * l->B + row) * H + column;
        s.h = l->states + last;
        s.c = l->first_c ? l->kept + last : NULL;
    }
    return s;
}

/* Returns the smallest number of columns that is worth a thread. */
static int64_t grain_of(const layer *l)
{
    return 1 + 32 * TG_GRAIN / (l->B * l->cell->gates * l->H + 1);
}

/* ---- forward ---- */

/* Computes the n columns from `column` on of b = h W^T + bias. */
static void project_state(const layer *l, const real *h, int64_t column, int64_t n)
{
    const int64_t B = l->B, H = l->H, width = block_width(l->block, H, column);
    for (int64_t gate = 0; gate < l->cell->gates; gate++) {
        real *b = in_blocks(l->block, l->b + gate * B * H, B, H, 0, column);
        for (int64_t row = 0; row < B; row++) {
            if (l->bias) {
                memcpy(b + row * width, l->bias + gate * H + column, (size_t)n * sizeof *b);
            } else {
                memset(b + row * width, 0, (size_t)n * sizeof *b);
            }
        }
        add_product(&(block_product){.rows = B,
                                     .terms = H,
                                     .columns = n,
                                     .a = h,
                                     .m = in_blocks(l->block, l->matrix + gate * H * H, H, H, 0, column),
                                     .sum = b,
                                     .a_distance = H,
                                     .m_distance = width,
                                     .sum_distance = width});
    }
}

static void forward_columns(void *context, int64_t begin, int64_t end)
{
    const layer *l = context;
    const real *h = l->step > 0 ? l->states + position_of(l, l->step - 1) * l->B * l->H : l->first_h;
    for (int64_t column = begin, n; (n = columns_in_block(l->block, column, end)) > 0; column += n) {
        for (int64_t gate = 0, size = l->H * l->H; l->step == 0 && gate < l->cell->gates; gate++) {
            store_transposed_columns(l->block, l->H, l->H, l->weight + gate * size, l->matrix + gate * size, column, n);
        }
        project_state(l, h, column, n);
        for (int64_t row = 0; row < l->B; row++) {
            cell_step s = step_of(l, row, column, n);
            s.b = in_blocks(l->block, l->b, l->B, l->H, row, column);
            s.b_distance = l->B * l->H;
            if (!keeps(l, row)) {
                l->cell->forward(&s);
                continue;
            }
            memcpy(s.y, s.h, (size_t)n * sizeof *s.y);
            if (s.c) {
                memcpy(s.kept, s.c, (size_t)n * sizeof *s.kept);
            }
        }
    }
}

static void run_forward(const tg_op_call *call, const recurrent_cell *cell)
{
    layer l = layer_of(call, cell);
    l.b = l.matrix + cell->gates * l.H * l.H;
    for (l.step = 0; l.step < l.T; l.step++) {
        tg_parallel_for(l.H, grain_of(&l), forward_columns, &l);
    }
    if (call->output_count > 1) {
        memcpy(tg_values(call->outputs[1]), l.kept + position_of(&l, l.T - 1) * l.B * l.H,
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

/* Adds the gradient that the next step has given to its state: dh += db W. */
static void add_state_gradient(const layer *l, int64_t step, int64_t column, int64_t n)
{
    const int64_t B = l->B, H = l->H, gates = l->cell->gates * H, width = block_width(l->block, H, column);
    add_product(&(block_product){.rows = B,
                                 .terms = gates,
                                 .columns = n,
                                 .a = l->db + position_of(l, step) * B * gates,
                                 .m = in_blocks(l->block, l->matrix, gates, H, 0, column),
                                 .sum = in_blocks(l->block, l->dh, B, H, 0, column),
                                 .a_distance = gates,
                                 .m_distance = width,
                                 .sum_distance = width});
}

/* Computes db and da for the columns of a row, and dh and dc without the product of db. */
static void row_gradient(const layer *l, int64_t row, int64_t column, int64_t n)
{
    const int64_t H = l->H, G = l->cell->gates, at = position_of(l, l->step) * l->B + row;
    cell_step s = step_of(l, row, column, n);
    cell_gradient d = {.dh = in_blocks(l->block, l->dh, l->B, H, row, column),
                       .dc = in_blocks(l->block, l->dc, l->B, H, row, column),
                       .da = l->da ? l->da + at * G * H + column : NULL,
                       .db = l->db + at * G * H + column,
                       .overwrite = l->overwrite};
    for (int64_t k = 0; l->dstates && k < n; k++) {
        d.dh[k] += l->dstates[at * H + column + k];
    }
    if (!keeps(l, row)) {
        l->cell->backward(&s, &d);
    } else {
        for (int64_t gate = 0; gate < G; gate++) {
            memset(d.db + gate * H, 0, (size_t)n * sizeof *d.db);
        }
        pass_to_input(&s, &d, (int)G);
    }
    for (int64_t gate = 0; l->dbias && gate < G; gate++) {
        for (int64_t k = 0; k < n; k++) {
            l->dbias[gate * H + column + k] += d.db[gate * H + k];
        }
    }
}

static void backward_columns(void *context, int64_t begin, int64_t end)
{
    const layer *l = context;
    for (int64_t column = begin, n; (n = columns_in_block(l->block, column, end)) > 0; column += n) {
        if (l->step < l->T - 1) {
            add_state_gradient(l, l->step + 1, column, n);
        } else {
            store_columns(l->block, l->cell->gates * l->H, l->H, l->weight, l->matrix, column, n);
        }
        for (int64_t row = 0; row < l->B; row++) {
            row_gradient(l, row, column, n);
        }
    }
}

/* Adds the columns of the gradient of the initial state that come from db. */
static void first_state_columns(void *context, int64_t begin, int64_t end)
{
    const layer *l = context;
    for (int64_t column = begin, n; (n = columns_in_block(l->block, column, end)) > 0; column += n) {
        add_state_gradient(l, 0, column, n);
    }
}

/* Adds a matrix (B,H) in blocks to a gradient, which may be NULL. */
static void add_blocks(const layer *l, real *matrix, bool overwrite, real *gradient)
{
    for (int64_t i = 0; gradient && i < l->B * l->H; i++) {
        gradient[i] = accumulated(overwrite, gradient[i], *in_blocks(l->block, matrix, l->B, l->H, i / l->H, i % l->H));
    }
}

/* Adds the gradient of W: sum_t db_t^T h_{t-1}. In the states, those before the steps 1 .. T - 1 are neighbors. */
static void add_weight_gradient(const layer *l, bool overwrite, real *dweight)
{
    const int64_t H = l->H, gates = l->cell->gates * H, rows = (l->T - 1) * l->B;
    tg_gemm product = {gates, H, rows, .transpose_a = true, .lda = gates, .ldb = H, .ldc = H};
    gemm(&product, l->db + (l->reverse ? 0 : l->B * gates), l->states + (l->reverse ? l->B * H : 0), !overwrite,
         dweight);
    product.k = l->B;
    gemm(&product, l->db + position_of(l, 0) * l->B * gates, l->first_h, true, dweight);
}

static void run_backward(const tg_op_call *call, const recurrent_cell *cell)
{
    layer l = layer_of(call, cell);
    const int64_t H = l.H, count = l.B * H;
    void *const *gradients = call->input_gradients;
    const bool *overwrite = call->overwrite;
    l.db = l.matrix + cell->gates * H * H;
    l.dh = l.db + cell->gates * l.T * count;
    l.dc = l.dh + count;
    l.dstates = call->output_gradients[0];
    l.da = gradients[INPUTS];
    if (cell == &lstm_cell && l.da && overwrite[INPUTS]) {
        l.db = l.da; /* they are equal */
        l.da = NULL;
    }
    l.overwrite = overwrite[INPUTS];
    const recurrent_attributes *at = call->attributes;
    l.dbias = at->bias ? gradients[at->bias] : NULL;
    if (l.dbias && overwrite[at->bias]) {
        memset(l.dbias, 0, (size_t)(cell->gates * H) * sizeof(real));
    }
    memset(l.dh, 0, (size_t)(2 * count) * sizeof(real));
    const real *dlast = call->output_count > 1 ? call->output_gradients[1] : NULL;
    for (int64_t column = 0, n; dlast && (n = columns_in_block(l.block, column, H)) > 0; column += n) {
        store_columns(l.block, l.B, H, dlast, l.dc, column, n);
    }
    for (l.step = l.T - 1; l.step >= 0; l.step--) {
        tg_parallel_for(H, grain_of(&l), backward_columns, &l);
    }
    if (gradients[STATE]) {
        tg_parallel_for(H, grain_of(&l), first_state_columns, &l);
        add_blocks(&l, l.dh, overwrite[STATE], gradients[STATE]);
    }
    if (cell == &lstm_cell) {
        add_blocks(&l, l.dc, overwrite[CELL], gradients[CELL]);
    }
    if (gradients[WEIGHT]) {
        add_weight_gradient(&l, overwrite[WEIGHT], gradients[WEIGHT]);
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
    char text[TG_SHAPE_TEXT], needed[TG_SHAPE_TEXT];
    return (tg_dtype_of(x) == dtype && tg_shape_equal(tg_shape_of(x), shape)) ||
           tg_op_fail(call, TG_ERROR_SHAPE, "the %s is %s %s; it must be %s %s", name, tg_dtype_name(tg_dtype_of(x)),
                      tg_shape_format(tg_shape_of(x), text), tg_dtype_name(dtype), tg_shape_format(shape, needed));
}

/* Checks the inputs, which a module has computed. The sizes of the others follow from the projected inputs and the
 * width of the state. */
static bool check_recurrent_shapes(tg_op_call *call, int64_t gates, bool has_cell)
{
    const recurrent_attributes *at = call->attributes;
    const tg_tensor *a = call->inputs[INPUTS], *h = call->inputs[STATE];
    int64_t H = h->rank == 2 ? h->shape[1] : 0, rows;
    if (!tg_op_expect_float(call, INPUTS)) {
        return false;
    }
    if (a->rank != 3 || a->shape[0] < 1 || a->shape[0] * a->shape[1] > TG_GEMM_LIMIT || H < 1 ||
        __builtin_mul_overflow(gates, H, &rows) || a->shape[2] != rows) {
        char text[TG_SHAPE_TEXT], state[TG_SHAPE_TEXT];
        return tg_op_fail(call, TG_ERROR_SHAPE,
                          "the projected inputs are %s and the state %s; they must be (T,B,%lld H) and (B,H), T and H "
                          "at least 1, and T B at most %d",
                          tg_shape_format(tg_shape_of(a), text), tg_shape_format(tg_shape_of(h), state),
                          (long long)gates, TG_GEMM_LIMIT);
    }
    int64_t T = a->shape[0], B = a->shape[1];
    tg_dtype dtype = tg_dtype_of(a);
    return expect(call, STATE, "state", dtype, tg_shape_make(2, (int64_t[]){B, H})) &&
           expect(call, WEIGHT, "weight", dtype, tg_shape_make(2, (int64_t[]){rows, H})) &&
           (!has_cell || expect(call, CELL, "cell", dtype, tg_shape_of(h))) &&
           (!at->bias || expect(call, at->bias, "bias", dtype, tg_shape_make(1, &rows))) &&
           (!at->mask || expect(call, at->mask, "mask", TG_U8, tg_shape_make(2, (int64_t[]){B, T})));
}

static bool recurrent_shape(tg_op_call *call, int64_t gates, bool has_cell)
{
    if (!check_recurrent_shapes(call, gates, has_cell)) {
        return false;
    }
    const tg_tensor *a = call->inputs[INPUTS], *h = call->inputs[STATE];
    int64_t T = a->shape[0], weights = gates * h->shape[1] * h->shape[1];
    size_t size = tg_size_of(a->dtype);
    return tg_op_output(call, 0, tg_dtype_of(a), tg_shape_make(3, (int64_t[]){T, h->shape[0], h->shape[1]})) &&
           (!has_cell || tg_op_output(call, 1, tg_dtype_of(a), tg_shape_of(h))) &&
           tg_op_save(call, a->count + T * h->count, size) && tg_op_scratch(call, weights + gates * h->count, size) &&
           tg_op_backward_scratch(call, weights + a->count + 2 * h->count, size);
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
    TG_KERNELS(tg_gru_forward, tg_gru_backward),
    .backward_ignores_inputs = 1u << INPUTS,
    .can_overwrite = true,
};

static const tg_op lstm_op = {
    .name = "lstm",
    .shape = lstm_shape,
    .input_names = {"inputs", "state", "weight", "cell"},
    TG_KERNELS(tg_lstm_forward, tg_lstm_backward),
    .backward_ignores_inputs = 1u << INPUTS,
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
