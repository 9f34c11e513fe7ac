/* recurrent: a GRU or an LSTM over all positions of a sequence, in one direction.
 *
 *   forward     b_t = h_{t-1} W^T + bias,   h_t = step(a_t, b_t, h_{t-1})        (ops/sequence/recurrent_cells.h)
 *   gradient    from the last position to the first:   da_t and db_t from dh_t,   dh_{t-1} += db_t W
 *               then dW += sum_t db_t^T h_{t-1},   dbias += sum_t db_t
 *
 * The products with W follow each other, and each has only the rows of the batch; products/panels.h computes them. The
 * gradient of W is one product over all positions, and another one for the initial state. The columns of the state are
 * divided into blocks (recurrent_layer.h), and threads divide the blocks: a thread computes its columns of the product
 * and of the step, and then waits for the others. A row that is 0 in the mask copies h (and c), and passes their
 * gradient. With `reverse` the last position is the first one.
 */
#include "ops/sequence/recurrent.h"

#include "ops/sequence/recurrent_layer.h"

TG_DECLARE_WIDE_KERNEL(tg_gru_forward);
TG_DECLARE_WIDE_KERNEL(tg_gru_backward);
TG_DECLARE_WIDE_KERNEL(tg_lstm_forward);
TG_DECLARE_WIDE_KERNEL(tg_lstm_backward);

/* ---- forward ---- */

/* Returns the copy of the weights of all gates for the columns of a block. */
static real *weights_of(const layer *l, layer_block b)
{
    return l->matrix + b.first * l->cell->gates * l->H;
}

static void store_weights(const layer *l, layer_block b)
{
    for (int64_t gate = 0; gate < l->cell->gates; gate++) {
        store_columns(l, b, l->weight + (gate * l->H + b.first) * l->H, l->H, 1, l->H,
                      weights_of(l, b) + gate * b.width * l->H);
    }
}

/* Computes the columns of a block of b = h W^T + bias, of all gates, and returns them: (B,gates,width). */
static const real *project_state(const layer *l, layer_block b, const real *h)
{
    const int64_t G = l->cell->gates;
    real *to = l->b + b.first * l->B * G;
    for (int64_t i = 0; l->bias && i < l->B * G; i++) {
        memcpy(to + i * b.width, l->bias + i % G * l->H + b.first, (size_t)b.count * sizeof *to);
        memset(to + i * b.width + b.count, 0, (size_t)(b.width - b.count) * sizeof *to);
    }
    const tg_gemm g = {l->B,        G * b.width,        l->H,           .b_layout = TG_PANELS,
                       .lda = l->H, .ldc = G * b.width, .add = l->bias, .in_thread = true};
    gemm(&g, h, weights_of(l, b), to);
    return to;
}

static void forward_blocks(void *context, int64_t begin, int64_t end)
{
    const layer *l = context;
    const real *h = l->step > 0 ? l->states + layer_position_of(l, l->step - 1) * l->B * l->H : l->first_h;
    for (int64_t i = begin; i < end; i++) {
        const layer_block b = layer_block_of(l, i);
        if (l->step == 0) {
            store_weights(l, b);
        }
        const real *projected = project_state(l, b, h);
        for (int64_t row = 0; row < l->B; row++) {
            cell_step s = step_of(l, b, row);
            s.b = projected + row * l->cell->gates * b.width;
            s.b_distance = b.width;
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
}

static void run_forward(const tg_op_call *call, const recurrent_cell *cell)
{
    layer l = layer_of(call, cell);
    l.b = l.matrix + cell->gates * l.panels * l.panel * l.H;
    for (l.step = 0; l.step < l.T; l.step++) {
        tg_parallel_for(l.blocks, layer_grain_of(&l), forward_blocks, &l);
    }
    if (call->output_count > 1) {
        memcpy(tg_values(call->outputs[1]), l.kept + layer_position_of(&l, l.T - 1) * l.B * l.H,
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
static void add_state_gradient(const layer *l, layer_block b, int64_t step)
{
    const int64_t gates = l->cell->gates * l->H;
    const tg_gemm g = {l->B,         b.width,        gates,       .b_layout = TG_PANELS,
                       .lda = gates, .ldc = b.width, .add = true, .in_thread = true};
    gemm(&g, l->db + layer_position_of(l, step) * l->B * gates, l->matrix + b.first * gates,
         layer_row_of(l, b, l->dh, 0));
}

/* Computes db and da for the columns of a block of a row, and dh and dc without the product of db. */
static void row_gradient(const layer *l, layer_block b, int64_t row)
{
    const int64_t H = l->H, G = l->cell->gates, column = b.first, at = layer_position_of(l, l->step) * l->B + row;
    cell_step s = step_of(l, b, row);
    cell_gradient d = {.dh = layer_row_of(l, b, l->dh, row),
                       .dc = layer_row_of(l, b, l->dc, row),
                       .da = l->da ? l->da + at * G * H + column : NULL,
                       .db = l->db + at * G * H + column,
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

static void backward_blocks(void *context, int64_t begin, int64_t end)
{
    const layer *l = context;
    const int64_t gates = l->cell->gates * l->H;
    for (int64_t i = begin; i < end; i++) {
        const layer_block b = layer_block_of(l, i);
        if (l->step < l->T - 1) {
            add_state_gradient(l, b, l->step + 1);
        } else {
            store_columns(l, b, l->weight + b.first, 1, l->H, gates, l->matrix + b.first * gates);
        }
        for (int64_t row = 0; row < l->B; row++) {
            row_gradient(l, b, row);
        }
    }
}

/* Adds the columns of the gradient of the initial state that come from db. */
static void first_state_blocks(void *context, int64_t begin, int64_t end)
{
    const layer *l = context;
    for (int64_t i = begin; i < end; i++) {
        add_state_gradient(l, layer_block_of(l, i), 0);
    }
}

/* Adds the gradient of W: sum_t db_t^T h_{t-1}. In the states, those before the steps 1 .. T - 1 are neighbors. */
static void add_weight_gradient(const layer *l, bool overwrite, real *dweight)
{
    const int64_t H = l->H, gates = l->cell->gates * H, rows = (l->T - 1) * l->B;
    tg_gemm product = {gates, H, rows, .transpose_a = true, .lda = gates, .ldb = H, .ldc = H, .add = !overwrite};
    gemm(&product, l->db + (l->reverse ? 0 : l->B * gates), l->states + (l->reverse ? l->B * H : 0), dweight);
    product.k = l->B;
    product.add = true;
    gemm(&product, l->db + layer_position_of(l, 0) * l->B * gates, l->first_h, dweight);
}

static void run_backward(const tg_op_call *call, const recurrent_cell *cell)
{
    layer l = layer_of(call, cell);
    const int64_t H = l.H, count = l.B * l.panels * l.panel;
    void *const *gradients = call->input_gradients;
    l.dh = l.matrix + cell->gates * l.panels * l.panel * H;
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
        memset(l.dbias, 0, (size_t)(cell->gates * H) * sizeof(real));
    }
    memset(l.dh, 0, (size_t)(2 * count) * sizeof(real));
    const real *dlast = call->output_count > 1 ? call->output_gradients[1] : NULL;
    if (dlast) {
        copy_to_blocks(&l, dlast, l.dc);
    }
    for (l.step = l.T - 1; l.step >= 0; l.step--) {
        tg_parallel_for(l.blocks, layer_grain_of(&l), backward_blocks, &l);
    }
    if (gradients[RECURRENT_STATE]) {
        tg_parallel_for(l.blocks, layer_grain_of(&l), first_state_blocks, &l);
        add_blocks(&l, l.dh, writes_gradient(call, RECURRENT_STATE), gradients[RECURRENT_STATE]);
    }
    if (cell == &lstm_cell) {
        add_blocks(&l, l.dc, writes_gradient(call, RECURRENT_CELL), gradients[RECURRENT_CELL]);
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
    const tg_tensor *a = call->inputs[RECURRENT_INPUTS], *h = call->inputs[RECURRENT_STATE];
    int64_t H = h->rank == 2 ? h->shape[1] : 0, rows;
    if (!tg_op_expect_float(call, RECURRENT_INPUTS)) {
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
    int64_t T = a->shape[0], B = h->shape[0], H = h->shape[1], width = H + TG_PANEL_MOST - 1;
    size_t size = tg_size_of(a->dtype);
    return tg_op_output(call, 0, tg_dtype_of(a), tg_shape_make(3, (int64_t[]){T, B, H})) &&
           (!has_cell || tg_op_output(call, 1, tg_dtype_of(a), tg_shape_of(h))) &&
           tg_op_save(call, a->count + T * h->count, size) && tg_op_scratch(call, gates * width * (H + B), size) &&
           tg_op_backward_scratch(call, width * (gates * H + 2 * B) + a->count, size);
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
