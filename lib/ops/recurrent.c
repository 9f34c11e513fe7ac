/* recurrent: one step of a GRU (Cho et al. 2014) and of an LSTM (Hochreiter and Schmidhuber 1997), in torch's form.
 *
 *   GRU         r = sigmoid(gi_r + gh_r)        z = sigmoid(gi_z + gh_z)        n = tanh(gi_n + r gh_n)
 *               y = (1 - z) n + z h
 *   gradient    dn = dy (1 - z)     dz = dy (h - n)     dh += dy z
 *               dgi_n += dn' = dn (1 - n^2)     dgh_n += dn' r     dr = dn' gh_n
 *               dgi_r, dgh_r += dr r (1 - r)    dgi_z, dgh_z += dz z (1 - z)
 *
 *   LSTM        i, f, o = sigmoid(gi + gh)      g = tanh(gi_g + gh_g)
 *               c' = f c + i g                  y = o tanh(c')
 *   gradient    dc = dc' + dy o (1 - tanh(c')^2)
 *               di = dc g     df = dc c     dg = dc i     do = dy tanh(c')      and through sigmoid and tanh as above
 *               dc += dc f
 *
 * The gates of a row are in the order r, z, n and i, f, g, o, each of H values. Forward saves their values. A row that
 * is 0 in the mask copies h (and c), and passes their gradient.
 */
#include "ops/recurrent.h"

#include "ops/kernel.h"

TG_DECLARE_KERNEL(tg_gru_step_forward);
TG_DECLARE_KERNEL(tg_gru_step_backward);
TG_DECLARE_KERNEL(tg_lstm_step_forward);
TG_DECLARE_KERNEL(tg_lstm_step_backward);

typedef struct step {
    const tg_op_call *call;
    const real *gi, *gh, *h, *c;
    const uint8_t *mask; /* NULL: all rows */
    real *gates;         /* the saved values */
    int64_t width;       /* H */
} step;

static real sigmoid_of(real x)
{
    return 1 / (1 + EXP(-x));
}

static step step_of(const tg_op_call *call, bool is_lstm)
{
    int mask = is_lstm ? 4 : 3;
    step s = {.call = call,
              .gi = tg_values(call->inputs[0]),
              .gh = tg_values(call->inputs[1]),
              .h = tg_values(call->inputs[2]),
              .c = is_lstm ? tg_values(call->inputs[3]) : NULL,
              .mask = call->input_count > mask ? tg_values(call->inputs[mask]) : NULL,
              .gates = call->saved,
              .width = call->inputs[2]->shape[1]};
    return s;
}

static void over_rows(const tg_op_call *call, bool is_lstm, loop_body *body)
{
    step s = step_of(call, is_lstm);
    tg_parallel_for(call->inputs[2]->shape[0], 1 + TG_GRAIN / 32 / (s.width + 1), body, &s);
}

/* ---- GRU ---- */

static void gru_rows(void *context, int64_t begin, int64_t end)
{
    const step *s = context;
    const int64_t H = s->width;
    for (int64_t row = begin; row < end; row++) {
        const real *gi = s->gi + row * 3 * H, *gh = s->gh + row * 3 * H, *h = s->h + row * H;
        real *gates = s->gates + row * 3 * H, *y = (real *)tg_values(s->call->outputs[0]) + row * H;
        if (s->mask && !s->mask[row]) {
            memcpy(y, h, (size_t)H * sizeof *y);
            continue;
        }
        for (int64_t k = 0; k < H; k++) {
            real r = sigmoid_of(gi[k] + gh[k]), z = sigmoid_of(gi[H + k] + gh[H + k]);
            real n = REAL(tanh)(gi[2 * H + k] + r * gh[2 * H + k]);
            gates[k] = r;
            gates[H + k] = z;
            gates[2 * H + k] = n;
            y[k] = n + z * (h[k] - n);
        }
    }
}

static void add(real *gradient, int64_t at, real value)
{
    if (gradient) {
        gradient[at] += value;
    }
}

/* The forward pass computed y = (1 - z) n + z h. */
static void gru_gradient_rows(void *context, int64_t begin, int64_t end)
{
    const step *s = context;
    const int64_t H = s->width;
    real *dgi = s->call->input_gradients[0], *dgh = s->call->input_gradients[1], *dh = s->call->input_gradients[2];
    for (int64_t row = begin; row < end; row++) {
        const real *gates = s->gates + row * 3 * H, *h = s->h + row * H, *gh = s->gh + row * 3 * H;
        const real *dy = (const real *)s->call->output_gradients[0] + row * H;
        bool keeps = s->mask && !s->mask[row];
        for (int64_t k = 0; k < H; k++) {
            if (keeps) {
                add(dh, row * H + k, dy[k]);
                continue;
            }
            real r = gates[k], z = gates[H + k], n = gates[2 * H + k];
            real dn = dy[k] * (1 - z) * (1 - n * n), dz = dy[k] * (h[k] - n) * z * (1 - z);
            real dr = dn * gh[2 * H + k] * r * (1 - r);
            int64_t at = row * 3 * H + k;
            add(dgi, at, dr);
            add(dgi, at + H, dz);
            add(dgi, at + 2 * H, dn);
            add(dgh, at, dr);
            add(dgh, at + H, dz);
            add(dgh, at + 2 * H, dn * r);
            add(dh, row * H + k, dy[k] * z);
        }
    }
}

void KERNEL(tg_gru_step_forward)(const tg_op_call *call)
{
    over_rows(call, false, gru_rows);
}

void KERNEL(tg_gru_step_backward)(const tg_op_call *call)
{
    over_rows(call, false, gru_gradient_rows);
}

/* ---- LSTM ---- */

static void lstm_rows(void *context, int64_t begin, int64_t end)
{
    const step *s = context;
    const int64_t H = s->width;
    for (int64_t row = begin; row < end; row++) {
        const real *gi = s->gi + row * 4 * H, *gh = s->gh + row * 4 * H, *c = s->c + row * H;
        real *gates = s->gates + row * 4 * H;
        real *y = (real *)tg_values(s->call->outputs[0]) + row * H;
        real *next = (real *)tg_values(s->call->outputs[1]) + row * H;
        if (s->mask && !s->mask[row]) {
            memcpy(y, s->h + row * H, (size_t)H * sizeof *y);
            memcpy(next, c, (size_t)H * sizeof *next);
            continue;
        }
        for (int64_t k = 0; k < H; k++) {
            real i = sigmoid_of(gi[k] + gh[k]), f = sigmoid_of(gi[H + k] + gh[H + k]);
            real g = REAL(tanh)(gi[2 * H + k] + gh[2 * H + k]), o = sigmoid_of(gi[3 * H + k] + gh[3 * H + k]);
            gates[k] = i;
            gates[H + k] = f;
            gates[2 * H + k] = g;
            gates[3 * H + k] = o;
            next[k] = f * c[k] + i * g;
            y[k] = o * REAL(tanh)(next[k]);
        }
    }
}

/* The forward pass computed c' = f c + i g and y = o tanh(c'). */
static void lstm_gradient_rows(void *context, int64_t begin, int64_t end)
{
    const step *s = context;
    const int64_t H = s->width;
    void *const *d = s->call->input_gradients;
    const real *dy = s->call->output_gradients[0], *dnext = s->call->output_gradients[1];
    for (int64_t row = begin; row < end; row++) {
        const real *gates = s->gates + row * 4 * H;
        const real *next = (const real *)tg_values(s->call->outputs[1]) + row * H;
        bool keeps = s->mask && !s->mask[row];
        for (int64_t k = 0; k < H; k++) {
            int64_t at = row * H + k;
            real dh = dy ? dy[at] : 0, dc = dnext ? dnext[at] : 0;
            if (keeps) {
                add(d[2], at, dh);
                add(d[3], at, dc);
                continue;
            }
            real i = gates[k], f = gates[H + k], g = gates[2 * H + k], o = gates[3 * H + k];
            real t = REAL(tanh)(next[k]);
            dc += dh * o * (1 - t * t);
            const real gate[] = {dc * g * i * (1 - i), dc * s->c[at] * f * (1 - f), dc * i * (1 - g * g),
                                 dh * t * o * (1 - o)};
            for (int64_t part = 0; part < 4; part++) {
                add(d[0], (row * 4 + part) * H + k, gate[part]);
                add(d[1], (row * 4 + part) * H + k, gate[part]);
            }
            add(d[3], at, dc * f);
        }
    }
}

void KERNEL(tg_lstm_step_forward)(const tg_op_call *call)
{
    over_rows(call, true, lstm_rows);
}

void KERNEL(tg_lstm_step_backward)(const tg_op_call *call)
{
    over_rows(call, true, lstm_gradient_rows);
}

#ifdef TG_ONCE

/* Checks the inputs, which a module has computed, and declares an output like the state, and the saved gates. */
static bool step_shape(tg_op_call *call, int gates, int outputs)
{
    const tg_tensor *h = call->inputs[2];
    bool fits = h->rank == 2 && tg_op_expect_float(call, 2);
    for (int i = 0; fits && i < call->input_count; i++) {
        const tg_tensor *x = call->inputs[i];
        int64_t columns = i < 2 ? gates : 1;
        bool is_mask = i == 2 + outputs;
        fits = x->rank == (is_mask ? 1 : 2) && x->shape[0] == h->shape[0] &&
               (is_mask ? x->dtype == TG_U8
                        : x->dtype == h->dtype && x->shape[1] % columns == 0 && x->shape[1] / columns == h->shape[1]);
    }
    if (!fits) {
        return tg_op_fail(call, TG_ERROR_SHAPE, "the inputs of a step do not fit a state (B,H)");
    }
    bool is_declared = true;
    for (int i = 0; is_declared && i < outputs; i++) {
        is_declared = tg_op_output(call, i, tg_dtype_of(h), tg_shape_of(h));
    }
    return is_declared && tg_op_save(call, gates * h->count, tg_size_of(h->dtype));
}

static bool gru_shape(tg_op_call *call)
{
    return step_shape(call, 3, 1);
}

static bool lstm_shape(tg_op_call *call)
{
    return step_shape(call, 4, 2);
}

static const tg_op gru_op = {
    .name = "gru",
    .shape = gru_shape,
    TG_KERNELS(tg_gru_step_forward, tg_gru_step_backward),
    .backward_ignores_inputs = 1u << 0,
    .backward_ignores_outputs = TG_OP_ALL,
};

static const tg_op lstm_op = {
    .name = "lstm",
    .shape = lstm_shape,
    TG_KERNELS(tg_lstm_step_forward, tg_lstm_step_backward),
    .backward_ignores_inputs = 1u << 0 | 1u << 1 | 1u << 2,
    .backward_ignores_outputs = 1u << 0,
};

tg_tensor *tg_gru_step(tg_tape *t, tg_tensor *gi, tg_tensor *gh, tg_tensor *h, tg_tensor *mask)
{
    tg_tensor *inputs[] = {gi, gh, h, mask};
    return tg_apply(t, &gru_op, inputs, mask ? 4 : 3, NULL, 0, NULL);
}

tg_tensor *tg_lstm_step(tg_tape *t, tg_tensor *gi, tg_tensor *gh, tg_tensor *h, tg_tensor *c, tg_tensor *mask,
                        tg_tensor **next_c)
{
    tg_tensor *inputs[] = {gi, gh, h, c, mask}, *outputs[TG_OP_MAX_OUTPUTS] = {NULL};
    tg_apply(t, &lstm_op, inputs, mask ? 5 : 4, NULL, 0, outputs);
    *next_c = outputs[1];
    return outputs[0];
}

#endif
