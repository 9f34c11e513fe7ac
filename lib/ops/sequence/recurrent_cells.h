/* recurrent_cells (private): one step of a GRU (Cho et al. 2014) and of an LSTM (Hochreiter and Schmidhuber 1997), in
 * torch's form, for some columns of one row. Here a is the projected input, and b the projected state with its bias.
 *
 *   GRU         r = sigmoid(a_r + b_r)          z = sigmoid(a_z + b_z)          n = tanh(a_n + r b_n)
 *               y = (1 - z) n + z h
 *   gradient    dn = dy (1 - z)     dz = dy (h - n)     dh += dy z
 *               da_n = dn' = dn (1 - n^2)       db_n = dn' r     dr = dn' b_n
 *               da_r, db_r = dr r (1 - r)       da_z, db_z = dz z (1 - z)
 *
 *   LSTM        i, f, o = sigmoid(a + b)        g = tanh(a_g + b_g)
 *               c' = f c + i g                  y = o tanh(c')
 *   gradient    dc' += dy o (1 - tanh(c')^2)
 *               di = dc' g    df = dc' c    dg = dc' i    do = dy tanh(c')      and through sigmoid and tanh as above
 *               dc = dc' f
 *
 * The gates of a row are in the order r, z, n and i, f, g, o, each of H values. The loops are functions of their own,
 * because GCC obeys `restrict` for parameters only, and does not vectorize a loop over so many arrays that may overlap.
 */
#ifndef TG_OPS_SEQUENCE_RECURRENT_CELLS_H
#define TG_OPS_SEQUENCE_RECURRENT_CELLS_H

#include "ops/kernel_real.h"

/* n columns of a row. Pointers to gates have the first gate; the others are H values apart. */
typedef struct cell_step {
    int64_t n, H;
    const real *a, *b;
    const real *h, *c;  /* the last state and, in an LSTM, the last cell */
    real *gates, *kept; /* saved by forward: the gates, and b_n of a GRU or c' of an LSTM */
    real *y;            /* the new state */
} cell_step;

/* The gradients for the same columns. */
typedef struct cell_gradient {
    real *dh, *dc;  /* of the new state and cell; the step writes those of the last ones, without the product with b */
    real *da, *db;  /* written; da is NULL if the input has no gradient */
    bool overwrite; /* da, instead of adding to it */
} cell_gradient;

typedef struct recurrent_cell {
    int64_t gates;
    void (*forward)(const cell_step *s);
    void (*backward)(const cell_step *s, const cell_gradient *d);
} recurrent_cell;

static inline void sigmoid_of_sum(int64_t n, const real *restrict a, const real *restrict b, real *restrict out)
{
    for (int64_t k = 0; k < n; k++) {
        out[k] = sigmoid_of(a[k] + b[k]);
    }
}

static inline void tanh_of_sum(int64_t n, const real *restrict a, const real *restrict b, real *restrict out)
{
    for (int64_t k = 0; k < n; k++) {
        out[k] = real_tanh(a[k] + b[k]);
    }
}

/* Writes db of all gates to da. */
static inline void pass_to_input(const cell_step *s, const cell_gradient *d, int gates)
{
    for (int64_t gate = 0; d->da && gate < gates; gate++) {
        const real *restrict db = d->db + gate * s->H;
        real *restrict da = d->da + gate * s->H;
        for (int64_t k = 0; k < s->n; k++) {
            da[k] = accumulated(d->overwrite, da[k], db[k]);
        }
    }
}

/* ---- GRU ---- */

/* Computes the gate n, and y. */
static void gru_state(int64_t count, const real *restrict a, const real *restrict b, const real *restrict r,
                      const real *restrict z, const real *restrict h, real *restrict n, real *restrict y)
{
    for (int64_t k = 0; k < count; k++) {
        n[k] = real_tanh(a[k] + r[k] * b[k]);
        y[k] = n[k] + z[k] * (h[k] - n[k]);
    }
}

static void gru_forward(const cell_step *s)
{
    const int64_t H = s->H;
    const real *a_n = s->a + 2 * H, *b_n = s->b + 2 * H;
    real *r = s->gates, *z = r + H, *n = z + H;
    sigmoid_of_sum(s->n, s->a, s->b, r);
    sigmoid_of_sum(s->n, s->a + H, s->b + H, z);
    gru_state(s->n, a_n, b_n, r, z, s->h, n, s->y);
    memcpy(s->kept, b_n, (size_t)s->n * sizeof *b_n);
}

/* The forward pass computed y = (1 - z) n + z h. */
static void gru_gradient(int64_t count, const real *restrict r, const real *restrict z, const real *restrict n,
                         const real *restrict b_n, const real *restrict h, real *restrict dh, real *restrict dr,
                         real *restrict dz, real *restrict dn)
{
    for (int64_t k = 0; k < count; k++) {
        dn[k] = dh[k] * (1 - z[k]) * (1 - n[k] * n[k]);
        dz[k] = dh[k] * (h[k] - n[k]) * z[k] * (1 - z[k]);
        dr[k] = dn[k] * b_n[k] * r[k] * (1 - r[k]);
        dh[k] *= z[k];
    }
}

static void gru_backward(const cell_step *s, const cell_gradient *d)
{
    const real *r = s->gates, *z = r + s->H, *n = z + s->H;
    real *dr = d->db, *dz = dr + s->H, *dn = dz + s->H;
    gru_gradient(s->n, r, z, n, s->kept, s->h, d->dh, dr, dz, dn);
    pass_to_input(s, d, 3);
    for (int64_t k = 0; k < s->n; k++) {
        dn[k] *= r[k];
    }
}

static const recurrent_cell gru_cell = {3, gru_forward, gru_backward};

/* ---- LSTM ---- */

/* Computes c' and y. */
static void lstm_state(int64_t n, const real *restrict i, const real *restrict f, const real *restrict g,
                       const real *restrict o, const real *restrict c, real *restrict next, real *restrict y)
{
    for (int64_t k = 0; k < n; k++) {
        next[k] = f[k] * c[k] + i[k] * g[k];
        y[k] = o[k] * real_tanh(next[k]);
    }
}

static void lstm_forward(const cell_step *s)
{
    const int64_t H = s->H;
    real *i = s->gates, *f = i + H, *g = f + H, *o = g + H;
    sigmoid_of_sum(s->n, s->a, s->b, i);
    sigmoid_of_sum(s->n, s->a + H, s->b + H, f);
    tanh_of_sum(s->n, s->a + 2 * H, s->b + 2 * H, g);
    sigmoid_of_sum(s->n, s->a + 3 * H, s->b + 3 * H, o);
    lstm_state(s->n, i, f, g, o, s->c, s->kept, s->y);
}

/* The forward pass computed y = o tanh(c'). Writes the gradient of o, and adds that of c' to dc. */
static void lstm_output_gradient(int64_t n, const real *restrict o, const real *restrict next, real *restrict dh,
                                 real *restrict dc, real *restrict d_o)
{
    for (int64_t k = 0; k < n; k++) {
        real t = real_tanh(next[k]);
        dc[k] += dh[k] * o[k] * (1 - t * t);
        d_o[k] = dh[k] * t * o[k] * (1 - o[k]);
        dh[k] = 0;
    }
}

/* The forward pass computed c' = f c + i g. */
static void lstm_cell_gradient(int64_t n, const real *restrict i, const real *restrict f, const real *restrict g,
                               const real *restrict c, real *restrict dc, real *restrict di, real *restrict df,
                               real *restrict dg)
{
    for (int64_t k = 0; k < n; k++) {
        di[k] = dc[k] * g[k] * i[k] * (1 - i[k]);
        df[k] = dc[k] * c[k] * f[k] * (1 - f[k]);
        dg[k] = dc[k] * i[k] * (1 - g[k] * g[k]);
        dc[k] *= f[k];
    }
}

static void lstm_backward(const cell_step *s, const cell_gradient *d)
{
    const int64_t H = s->H;
    const real *i = s->gates, *f = i + H, *g = f + H, *o = g + H;
    real *di = d->db, *df = di + H, *dg = df + H, *d_o = dg + H;
    lstm_output_gradient(s->n, o, s->kept, d->dh, d->dc, d_o);
    lstm_cell_gradient(s->n, i, f, g, s->c, d->dc, di, df, dg);
    pass_to_input(s, d, 4);
}

static const recurrent_cell lstm_cell = {4, lstm_forward, lstm_backward};

#endif
