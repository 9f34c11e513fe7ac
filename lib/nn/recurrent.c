/* recurrent: GRU and LSTM as modules, with one or more layers, in one or both directions.
 *
 * A layer projects the inputs of all positions with one product, and an op goes through the positions
 * (lib/ops/sequence/recurrent.c). The other direction goes from the last position to the first. A position that is 0 in
 * the mask keeps the state and gives zeros, so a padded sequence has the results of torch's pack_padded_sequence.
 *
 * One op per position would call BLAS for each product with the state. BLAS copies the weight each time, which takes
 * half as long as a product with 16 rows, and the gradient of the weight would be many products of a few rows.
 */
#include <tapegrad/sequence.h>

#include <math.h>
#include <stdio.h>

#include "nn/module.h"
#include "ops/sequence/recurrent.h"
#include "tape/tape.h"
#include "tensor/tensor.h"

TG_CONFIG(tg_nn_recurrent_config, tg_nn_recurrent_config_default, mark, .mark = mark, .layers = 1, .bias = true);

TG_CONFIG(tg_nn_recurrent_forward_config, tg_nn_recurrent_forward_config_default, forward_mark, .mark = forward_mark);

/* ---- parameters ---- */

/* Adds "<name>.<part>_l<layer>", with "_reverse" for the other direction. */
static tg_tensor *add(tg_params *params, const char *name, const char *part, int layer, bool reverse, tg_shape shape,
                      double bound)
{
    char full[32];
    snprintf(full, sizeof full, "%s_l%d%s", part, layer, reverse ? "_reverse" : "");
    return tg_module_add_uniform(params, name, full, shape, bound);
}

/* Adds the parameters of all layers, in torch's order, for `gates` gates. */
static tg_nn_recurrent make(tg_params *params, const char *call, const char *name, int64_t in, int64_t width, int gates,
                            const tg_nn_recurrent_config *given)
{
    tg_nn_recurrent made = {.module = {params, false}};
    tg_params_point point;
    if (!tg_module_begin(params, call, name, given, mark, &point)) {
        return made;
    }
    tg_nn_recurrent_config c = given ? *given : tg_nn_recurrent_config_default();
    if (in < 1 || width < 1 || c.layers < 1 || c.layers > TG_NN_RECURRENT_LAYERS) {
        tg_params_fail(params, TG_ERROR_VALUE,
                       "%s: '%s' has %lld inputs, width %lld and %d layers; all must be at least 1, and the layers at "
                       "most %d",
                       call, name, (long long)in, (long long)width, c.layers, TG_NN_RECURRENT_LAYERS);
        return made;
    }
    if (!(c.dropout >= 0 && c.dropout <= 1)) {
        tg_params_fail(params, TG_ERROR_VALUE, "%s: '%s' has dropout %g, outside [0,1]", call, name, c.dropout);
        return made;
    }
    int64_t rows, both;
    if (!tg_module_multiply(params, call, name, "width", width, gates, &rows) ||
        !tg_module_multiply(params, call, name, "width", width, c.bidirectional ? 2 : 1, &both)) {
        return made;
    }
    made.in = in;
    made.width = width;
    made.dropout = c.dropout;
    made.layers = c.layers;
    made.directions = c.bidirectional ? 2 : 1;
    double bound = 1 / sqrt((double)width);
    for (int i = 0; i < made.layers * made.directions; i++) {
        int layer = i / made.directions;
        bool reverse = i % made.directions == 1;
        int64_t from = layer == 0 ? in : both;
        tg_nn_recurrent_layer *l = &made.layer[i];
        l->weight_ih = add(params, name, "weight_ih", layer, reverse, tg_shape_make(2, (int64_t[]){rows, from}), bound);
        l->weight_hh =
            add(params, name, "weight_hh", layer, reverse, tg_shape_make(2, (int64_t[]){rows, width}), bound);
        if (c.bias) {
            l->bias_ih = add(params, name, "bias_ih", layer, reverse, tg_shape_make(1, &rows), bound);
            l->bias_hh = add(params, name, "bias_hh", layer, reverse, tg_shape_make(1, &rows), bound);
        }
    }
    made.module = tg_module_end(params, &point);
    return made.module.is_made ? made : (tg_nn_recurrent){.module = made.module};
}

tg_nn_gru tg_nn_gru_make(tg_params *params, const char *name, int64_t in, int64_t width,
                         const tg_nn_recurrent_config *config)
{
    tg_nn_recurrent made = make(params, "nn_gru_make", name, in, width, 3, config);
    return (tg_nn_gru){made.module, made};
}

tg_nn_lstm tg_nn_lstm_make(tg_params *params, const char *name, int64_t in, int64_t width,
                           const tg_nn_recurrent_config *config)
{
    tg_nn_recurrent made = make(params, "nn_lstm_make", name, in, width, 4, config);
    return (tg_nn_lstm){made.module, made};
}

/* ---- forward ---- */

/* One forward pass. */
typedef struct pass {
    tg_tape *t;
    const char *call;
    const tg_nn_recurrent *r;
    bool is_lstm;
    tg_nn_recurrent_forward_config config;
    int64_t batch, length;
    tg_tensor *states[2 * TG_NN_RECURRENT_LAYERS], *cells[2 * TG_NN_RECURRENT_LAYERS];
} pass;

/* Returns the state of a layer and direction before the first position: a part of the given states, or zeros. */
static tg_tensor *initial(const pass *p, tg_tensor *given, int index, tg_dtype dtype)
{
    return given ? tg_select(p->t, given, 0, index)
                 : tg_full(p->t, dtype, tg_shape_make(2, (int64_t[]){p->batch, p->r->width}), 0);
}

/* Returns whether a state of one layer is (B,H), as the layer's weight needs it. It is not if the module was changed,
 * or if the tape has freed the given state and used its memory again. */
static bool check_initial(const pass *p, const tg_nn_recurrent_layer *l, const char *name, const tg_tensor *state)
{
    tg_shape needed = tg_shape_make(2, (int64_t[]){p->batch, tg_tensor_size(l->weight_hh, 1)});
    return state && (tg_shape_equal(tg_shape_of(state), needed) ||
                     tg_tape_fail(p->t, TG_ERROR_SHAPE, p->call,
                                  "the %s of a layer is %s; it must be (B,H) = %s. A state that is used after "
                                  "tg_tape_reset must be kept with tg_retain",
                                  name, tg_shape_text_of(state).text, tg_shape_text(needed).text));
}

/* Runs a layer in one direction: x (T,B,in) -> (T,B,H). */
static tg_tensor *run_layer(pass *p, int index, tg_tensor *x)
{
    tg_tape *t = p->t;
    const tg_nn_recurrent_layer *l = &p->r->layer[index];
    tg_recurrence r = {.inputs = tg_linear(t, x, l->weight_ih, l->bias_ih),
                       .state = initial(p, p->config.state, index, tg_tensor_dtype(x)),
                       .weight = l->weight_hh,
                       .bias = l->bias_hh,
                       .mask = p->config.mask,
                       .reverse = index % p->r->directions == 1};
    tg_tensor *cell = p->is_lstm ? initial(p, p->config.cell, index, tg_tensor_dtype(x)) : NULL;
    if (!check_initial(p, l, "state", r.state) || (p->is_lstm && !check_initial(p, l, "cell", cell))) {
        return NULL;
    }
    tg_tensor *y = p->is_lstm ? tg_lstm(t, &r, cell, &p->cells[index]) : tg_gru(t, &r);
    p->states[index] = tg_select(t, y, 0, r.reverse ? 0 : p->length - 1);
    if (!p->config.mask) {
        return y;
    }
    return tg_masked_fill(t, y, tg_logical_not(t, tg_unsqueeze(t, tg_transpose(t, p->config.mask, 0, 1), -1)), 0);
}

/* Runs all layers: x (B,T,in) -> (B,T,directions H). As in torch, time is the first axis inside: then the values of a
 * position are neighbors, and dropout draws in torch's order. */
static tg_tensor *run_layers(pass *p, tg_tensor *x)
{
    x = tg_transpose(p->t, x, 0, 1);
    for (int layer = 0; layer < p->r->layers && x; layer++) {
        int first = layer * p->r->directions;
        tg_tensor *both[] = {run_layer(p, first, x), NULL};
        if (p->r->directions == 2) {
            both[1] = run_layer(p, first + 1, x);
        }
        x = p->r->directions == 2 ? tg_cat(p->t, both, 2, -1) : both[0];
        if (p->r->dropout > 0 && layer < p->r->layers - 1) {
            x = tg_dropout(p->t, x, p->r->dropout);
        }
    }
    return tg_contiguous(p->t, tg_transpose(p->t, x, 0, 1));
}

static bool check_state(const pass *p, const char *name, const tg_tensor *given, const tg_tensor *x)
{
    tg_shape needed = tg_shape_make(3, (int64_t[]){p->r->layers * p->r->directions, p->batch, p->r->width});
    if (!given || (tg_is_tensor(given) && given->dtype == x->dtype && tg_shape_equal(tg_shape_of(given), needed))) {
        return true;
    }
    return tg_tape_expect_tensor(p->t, p->call, name, given) &&
           tg_tape_fail(p->t, TG_ERROR_SHAPE, p->call, "the %s is %s %s; it must be %s %s", name,
                        tg_dtype_name(tg_dtype_of(given)), tg_shape_text_of(given).text, tg_dtype_name(tg_dtype_of(x)),
                        tg_shape_text(needed).text);
}

static bool check_cell(const pass *p)
{
    return p->is_lstm || !p->config.cell ||
           tg_tape_fail(p->t, TG_ERROR_VALUE, p->call, "a cell is given; a GRU has none, so it must be NULL");
}

static bool check_recurrent_input(const pass *p, const tg_tensor *x)
{
    const tg_tensor *mask = p->config.mask;
    if (!tg_tape_expect_input(p->t, p->call, "x", x) || (mask && !tg_tape_expect_tensor(p->t, p->call, "mask", mask))) {
        return false;
    }
    if (x->rank != 3 || x->shape[2] != p->r->in || x->shape[1] < 1 || x->shape[1] > INT32_MAX) {
        return tg_tape_fail(p->t, TG_ERROR_SHAPE, p->call, "the input has shape %s; it must be (B,T,%lld) with T >= 1",
                            tg_shape_text_of(x).text, (long long)p->r->in);
    }
    if (mask &&
        (mask->dtype != TG_U8 || mask->rank != 2 || mask->shape[0] != x->shape[0] || mask->shape[1] != x->shape[1])) {
        return tg_tape_fail(p->t, TG_ERROR_SHAPE, p->call, "the mask is %s %s for an input %s; it must be u8 (B,T)",
                            tg_dtype_name(tg_dtype_of(mask)), tg_shape_text_of(mask).text, tg_shape_text_of(x).text);
    }
    return true;
}

static tg_tensor *forward(tg_tape *t, const char *call, const tg_nn_recurrent *r, bool is_lstm, tg_tensor *x,
                          tg_tensor **state, tg_tensor **cell, const tg_nn_recurrent_forward_config *given)
{
    tg_tensor *y = NULL;
    pass p = {.t = t, .call = call, .r = r, .is_lstm = is_lstm};
    tg_tape_point point;
    tg_tape_save_point(t, true, &point);
    if (tg_module_is_ready(t, call, r) && tg_tape_expect_config(t, call, given, forward_mark)) {
        p.config = given ? *given : tg_nn_recurrent_forward_config_default();
        p.batch = tg_tensor_size(x, 0);
        p.length = tg_tensor_size(x, 1);
        if (check_recurrent_input(&p, x) && check_cell(&p) && check_state(&p, "state", p.config.state, x) &&
            check_state(&p, "cell", p.config.cell, x)) {
            y = run_layers(&p, x);
        }
    }
    int count = y ? r->layers * r->directions : 0;
    tg_tensor *last_state = y && state ? tg_stack(t, p.states, count, 0) : NULL;
    tg_tensor *last_cell = y && cell ? tg_stack(t, p.cells, count, 0) : NULL;
    if ((state && !last_state) || (cell && !last_cell)) {
        y = NULL;
    }
    if (y && state) {
        *state = last_state;
    }
    if (y && cell) {
        *cell = last_cell;
    }
    return tg_tape_end(t, &point, y);
}

tg_tensor *tg_nn_gru_forward(tg_tape *t, const tg_nn_gru *gru, tg_tensor *x, tg_tensor **state,
                             const tg_nn_recurrent_forward_config *config)
{
    return forward(t, "nn_gru_forward", gru ? &gru->recurrent : NULL, false, x, state, NULL, config);
}

tg_tensor *tg_nn_lstm_forward(tg_tape *t, const tg_nn_lstm *lstm, tg_tensor *x, tg_tensor **state, tg_tensor **cell,
                              const tg_nn_recurrent_forward_config *config)
{
    return forward(t, "nn_lstm_forward", lstm ? &lstm->recurrent : NULL, true, x, state, cell, config);
}
