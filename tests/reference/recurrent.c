/* recurrent: the modules GRU and LSTM, step by step.
 *
 *   GRU   r, z = sigmoid(x W_ih^T + b_ih + h W_hh^T + b_hh), n = tanh(x W_in^T + b_in + r (h W_hn^T + b_hn)),
 *         h' = (1 - z) n + z h
 *   LSTM  i, f, o = sigmoid(..), g = tanh(..), c' = f c + i g, h' = o tanh(c')
 */
#include "scalar.h"

#include <stdio.h>
#include <string.h>

enum { X, STATE, CELL, MASK, PARAMETERS };

typedef struct recurrent_call {
    tg_nn_gru gru;
    tg_nn_lstm lstm;
    bool is_lstm, has_config, wants_state, wants_cell;
    int layers, directions;
    double dropout;
    int64_t batch, steps, in, width;
    double *kept; /* the factors by dropout, (layers - 1,T,B,directions H); NULL: not known yet, or all 1 */
} recurrent_call;

static void draw_module(trial *t)
{
    recurrent_call *r = OPTIONS(t, recurrent_call);
    static const char *const names[] = {"weight_ih", "weight_hh", "bias_ih", "bias_hh"};
    static char full[2 * 4 * 4][40]; /* the names of parameters, which inputs point to */
    tg_nn_recurrent_config config = tg_nn_recurrent_config_default();
    config.layers = r->layers;
    config.bidirectional = r->directions == 2;
    config.bias = note_bool(t, "bias", draw_chance(t, 60));
    config.dropout = r->dropout;
    t->params = tg_params_new(t->run, t->dtype);
    if (r->is_lstm) {
        r->lstm = tg_nn_lstm_make(t->params, "m", r->in, r->width, &config);
    } else {
        r->gru = tg_nn_gru_make(t->params, "m", r->in, r->width, &config);
    }
    for (int k = 0; k < r->layers * r->directions * 4; k++) {
        snprintf(full[k], sizeof full[k], "m.%s_l%d%s", names[k % 4], k / 4 / r->directions,
                 k / 4 % r->directions ? "_reverse" : "");
        draw_parameter(t, full[k]);
    }
}

/* u8 (B,T): mostly ones, and zeros behind the end; seldom holes. */
static void draw_mask(trial *t, tg_shape shape)
{
    double *values = numbers(t, count_of(shape));
    bool has_holes = draw_chance(t, 20);
    int64_t row = shape.size[1];
    for (int64_t i = 0; i < count_of(shape); i += row) {
        int64_t length = draw_integer(t, 0, row);
        for (int64_t k = 0; k < row; k++) {
            values[i + k] = has_holes ? (double)draw_integer(t, 0, 1) : k < length ? (double)draw_integer(t, 1, 2) : 0;
        }
    }
    draw_layout(t, "mask", TG_U8, shape, values);
}

static void draw_recurrent(trial *t)
{
    recurrent_call *r = OPTIONS(t, recurrent_call);
    r->is_lstm = strcmp(t->reference->op, "tg_nn_lstm_forward") == 0;
    r->directions = (int)note_integer(t, "directions", draw_integer(t, 1, 2));
    int64_t most = draw_chance(t, 5) ? 4 / r->directions : 2;
    r->layers = (int)note_integer(t, "layers", draw_chance(t, 55) ? 1 : draw_integer(t, 2, most));
    r->dropout = note_double(t, "dropout", draw_chance(t, 40) ? DRAW_DOUBLE_OF(t, 0.1, 0.5, 1) : 0);
    bool is_wide = draw_chance(t, 6), is_long = !is_wide && draw_chance(t, 6), has_many = !is_long && draw_chance(t, 4);
    r->width = is_wide ? draw_integer(t, 6, 35) : draw_integer(t, 1, 4);
    r->in = is_wide ? draw_integer(t, 1, 35) : draw_integer(t, 1, 4);
    r->steps = is_long ? draw_integer(t, 6, 40) : draw_integer(t, draw_chance(t, 10) ? 0 : 1, 4);
    r->batch = has_many ? draw_integer(t, 8, 40) : draw_integer(t, draw_chance(t, 10) ? 0 : 1, 3);
    r->has_config = note_bool(t, "has_config", draw_chance(t, 75));
    r->wants_state = note_bool(t, "wants_state", draw_chance(t, 70));
    r->wants_cell = r->is_lstm && note_bool(t, "wants_cell", draw_chance(t, 70));
    draw_input(t, "x", TG_SHAPE(r->batch, r->steps, draw_chance(t, 1) ? draw_size(t) : r->in));
    tg_shape states = TG_SHAPE(r->layers * r->directions, draw_chance(t, 1) ? draw_size(t) : r->batch, r->width);
    if (r->has_config && draw_chance(t, 60)) {
        draw_input(t, "state", states);
    } else {
        draw_absent(t, "state");
    }
    if (r->has_config && draw_chance(t, r->is_lstm ? 60 : 2)) {
        draw_input(t, "cell", TG_SHAPE(states.size[0], r->batch, r->width));
    } else {
        draw_absent(t, "cell");
    }
    if (r->has_config && draw_chance(t, 50)) {
        draw_mask(t, TG_SHAPE(draw_chance(t, 1) ? draw_size(t) : r->batch, r->steps));
    } else {
        draw_absent(t, "mask");
    }
    draw_module(t);
}

static bool is_valid_recurrent(const trial *t)
{
    const recurrent_call *r = OPTIONS(t, const recurrent_call);
    const input *x = &t->inputs[X], *state = &t->inputs[STATE], *mask = &t->inputs[MASK];
    return r->steps >= 1 && x->x.shape.size[2] == r->in && (!state->is_present || state->x.shape.size[1] == r->batch) &&
           (!mask->is_present || mask->x.shape.size[0] == r->batch) && (r->is_lstm || !t->inputs[CELL].is_present);
}

static tg_tensor *call_recurrent(trial *t)
{
    recurrent_call *r = OPTIONS(t, recurrent_call);
    tg_nn_recurrent_forward_config config = tg_nn_recurrent_forward_config_default();
    config.state = t->inputs[STATE].tensor;
    config.cell = t->inputs[CELL].tensor;
    config.mask = t->inputs[MASK].tensor;
    tg_tensor *x = t->inputs[X].tensor, *cell = NULL, *state = NULL;
    tg_tensor **to_state = r->wants_state ? &state : NULL, **to_cell = r->wants_cell ? &cell : NULL;
    tg_tensor *y = r->is_lstm
                       ? tg_nn_lstm_forward(t->tape, &r->lstm, x, to_state, to_cell, r->has_config ? &config : NULL)
                       : tg_nn_gru_forward(t->tape, &r->gru, x, to_state, r->has_config ? &config : NULL);
    t->outputs[1].result = r->wants_state ? state : cell;
    t->outputs[2].result = cell;
    return y;
}

/* ---- the formula ---- */

/* What is dropped between the layers: torch draws for (T,B,directions H), layer by layer. */
static void observe_dropout(trial *t)
{
    recurrent_call *r = OPTIONS(t, recurrent_call);
    int64_t count = r->steps * r->batch * r->directions * r->width;
    if (r->kept || !t->is_training || r->dropout == 0 || r->layers == 1) {
        return;
    }
    r->kept = numbers(t, (r->layers - 1) * count);
    tg_run *run = tg_run_new(0);
    tg_rng_copy(tg_run_rng(run), t->rng_before);
    tg_tape *tape = tg_tape_new(run, NULL);
    for (int layer = 0; layer < r->layers - 1; layer++) {
        tg_tensor *kept = tg_dropout(tape, tg_full(tape, t->dtype, TG_SHAPE(count), 1), r->dropout);
        for (int64_t i = 0; i < count; i++) {
            r->kept[layer * count + i] = tg_tensor_value_at(kept, i);
        }
    }
    if (tg_rng_position(tg_run_rng(run)) != tg_rng_position(tg_run_rng(t->run))) {
        trial_fail(t, "another number of random numbers was drawn than by %d dropouts", r->layers - 1);
    }
    tg_tape_free(tape);
    tg_run_free(run);
}

/* One layer in one direction: the positions of its parameters in the list. */
typedef struct direction {
    int64_t in, weight_ih, weight_hh, bias_ih, bias_hh;
} direction;

/* x W^T + b of gate row `row`, or h W^T + b. */
static int64_t affine(scalars *s, const int64_t *x, int64_t count, int64_t weight, int64_t bias, int64_t row)
{
    int64_t sum = bias < 0 ? scalar_constant(s, 0) : bias + row;
    for (int64_t k = 0; k < count; k++) {
        sum = scalar_multiply_add(s, x[k], weight + row * count + k, sum);
    }
    return sum;
}

/* Replaces the state h, and the cell c of an LSTM, by those after one step. */
static void step(scalars *s, const recurrent_call *r, const direction *d, const int64_t *x, int64_t *h, int64_t *c)
{
    int64_t width = r->width, next[64], gate[4];
    for (int64_t k = 0; k < width; k++) {
        for (int g = 0; g < (r->is_lstm ? 4 : 3); g++) {
            int64_t of_x = affine(s, x, d->in, d->weight_ih, d->bias_ih, g * width + k);
            int64_t of_h = affine(s, h, width, d->weight_hh, d->bias_hh, g * width + k);
            if (g == 2 && !r->is_lstm) { /* r reads h, but only its own part of the sum */
                gate[g] = scalar_tanh(s, scalar_multiply_add(s, gate[0], of_h, of_x));
            } else {
                int64_t sum = scalar_add(s, of_x, of_h);
                gate[g] = g == 2 ? scalar_tanh(s, sum) : scalar_sigmoid(s, sum);
            }
        }
        if (r->is_lstm) {
            c[k] = scalar_multiply_add(s, gate[0], gate[2], scalar_multiply(s, gate[1], c[k]));
            next[k] = scalar_multiply(s, gate[3], scalar_tanh(s, c[k]));
        } else {
            int64_t rest = scalar_subtract(s, scalar_constant(s, 1), gate[1]);
            next[k] = scalar_multiply_add(s, gate[1], h[k], scalar_multiply(s, rest, gate[2]));
        }
    }
    memcpy(h, next, (size_t)width * sizeof *h);
}

/* The positions of all results in the list. */
typedef struct places {
    int64_t *y, *state, *cell;
    int64_t inputs[MAX_INPUTS];
} places;

static int64_t *places_new(trial *t, int64_t count)
{
    return trial_memory(t, (size_t)count * sizeof(int64_t));
}

/* Runs one direction of a layer on x (B,T,in), and writes its states to y (B,T,directions H). */
static void run_direction(scalars *s, trial *t, places *p, int layer, int side, const int64_t *x, int64_t in,
                          int64_t *y)
{
    const recurrent_call *r = OPTIONS(t, const recurrent_call);
    const input *mask = &t->inputs[MASK];
    int layer_number = layer * r->directions + side;
    const int64_t *own = &p->inputs[PARAMETERS + 4 * layer_number];
    direction d = {in, own[0], own[1], own[2], own[3]};
    int64_t width = r->width, row = r->directions * width;
    for (int64_t b = 0; b < r->batch; b++) {
        int64_t first = (layer_number * r->batch + b) * width, h[64], c[64];
        for (int64_t k = 0; k < width; k++) {
            h[k] = p->inputs[STATE] < 0 ? scalar_constant(s, 0) : p->inputs[STATE] + first + k;
            c[k] = p->inputs[CELL] < 0 ? scalar_constant(s, 0) : p->inputs[CELL] + first + k;
        }
        for (int64_t i = 0; i < r->steps; i++) {
            int64_t at = b * r->steps + (side == 1 ? r->steps - 1 - i : i);
            bool exists = !mask->is_present || mask->x.values[at] != 0;
            if (exists) {
                step(s, r, &d, x + at * in, h, c);
            }
            for (int64_t k = 0; k < width; k++) {
                y[at * row + side * width + k] = exists ? h[k] : scalar_constant(s, 0);
            }
        }
        memcpy(p->state + first, h, (size_t)width * sizeof *h);
        memcpy(p->cell + first, c, (size_t)width * sizeof *c);
    }
}

static places run_layers(scalars *s, trial *t)
{
    recurrent_call *r = OPTIONS(t, recurrent_call);
    places p;
    observe_dropout(t);
    for (int k = 0; k < t->input_count; k++) {
        p.inputs[k] = scalar_load(s, &t->inputs[k]);
    }
    int64_t in = r->in, row = r->directions * r->width, count = r->batch * r->steps * row;
    int64_t *x = places_new(t, r->batch * r->steps * in);
    for (int64_t i = 0; i < r->batch * r->steps * in; i++) {
        x[i] = p.inputs[X] + i;
    }
    p.state = places_new(t, r->layers * r->directions * r->batch * r->width);
    p.cell = places_new(t, r->layers * r->directions * r->batch * r->width);
    for (int layer = 0; layer < r->layers; layer++) {
        p.y = places_new(t, count);
        for (int side = 0; side < r->directions; side++) {
            run_direction(s, t, &p, layer, side, x, in, p.y);
        }
        for (int64_t i = 0; i < count && r->kept && layer + 1 < r->layers; i++) {
            int64_t b = i / row / r->steps, at = i / row % r->steps;
            double kept = r->kept[layer * count + (at * r->batch + b) * row + i % row];
            p.y[i] = scalar_multiply(s, p.y[i], scalar_constant(s, kept));
        }
        x = p.y;
        in = row;
    }
    return p;
}

static void recurrent_forward(trial *t)
{
    recurrent_call *r = OPTIONS(t, recurrent_call);
    scalars s = scalars_new(t);
    places p = run_layers(&s, t);
    array *y = output_new(t, 0, TG_SHAPE(r->batch, r->steps, r->directions * r->width));
    tg_shape states = TG_SHAPE(r->layers * r->directions, r->batch, r->width);
    for (int64_t i = 0; i < y->count; i++) {
        scalar_put(&s, y, i, p.y[i]);
    }
    for (int k = 1; k <= r->wants_state + r->wants_cell; k++) {
        array *last = output_new(t, k, states);
        for (int64_t i = 0; i < last->count; i++) {
            scalar_put(&s, last, i, k == 1 && r->wants_state ? p.state[i] : p.cell[i]);
        }
    }
    scalars_free(&s);
}

/* Adds the gradients from result k alone. The library is asked for each result by itself, too, and sums of infinities
 * depend on it. */
static void backward_from(trial *t, int k)
{
    recurrent_call *r = OPTIONS(t, recurrent_call);
    scalars s = scalars_new(t);
    places p = run_layers(&s, t);
    const int64_t *from = k == 0 ? p.y : k == 1 && r->wants_state ? p.state : p.cell;
    for (int64_t i = 0; i < t->outputs[k].dy.count; i++) {
        scalar_seed(&s, &t->outputs[k].dy, i, from[i]);
    }
    scalars_backward(&s);
    for (int in = 0; in < t->input_count; in++) {
        scalar_add_gradient(&s, &t->inputs[in], p.inputs[in]);
        /* A NaN at a position that the mask excludes may spread. */
        array *dx = &t->inputs[in].dx;
        for (int64_t i = 0; t->flavor == SPECIAL && t->inputs[MASK].is_present && i < dx->count; i++) {
            dx->values[i] = 0;
            dx->terms[i] = INFINITY;
        }
    }
    scalars_free(&s);
}

static void recurrent_backward(trial *t)
{
    for (int k = 0; k < t->output_count; k++) {
        if (tg_tensor_requires_grad(t->outputs[k].result)) {
            backward_from(t, k);
        }
    }
}

#define RECURRENT(name, inside)                                                                                      \
    {                                                                                                                \
        .op = name, .inner = inside, .draw = draw_recurrent, .is_valid = is_valid_recurrent, .call = call_recurrent, \
        .forward = recurrent_forward, .backward = recurrent_backward, .roundings = 16, .gradient_roundings = 16      \
    }

static const reference references[] = {RECURRENT("tg_nn_gru_forward", "gru"), RECURRENT("tg_nn_lstm_forward", "lstm")};

reference_family recurrent = {"recurrent", references, sizeof references / sizeof *references, 2000, NULL};
