/* deferred_rows: applies the missed steps of one row (deferred.c has the formulas).
 *
 *   den = sqrt(v) + eps u0,   p = eps u0 / den
 *   x = D x - m / den (S_0 - p (S_1 - p (S_2 - ...)))
 *   m = beta1^n m,   v = beta2^n v                       n missed steps
 *
 * An element for which the sum converges too slowly is replayed: its steps are made one after the other.
 */
#include "base/real.h"
#include "optim/deferred.h"

/* The fields of a tg_gap that the loops read, as reals. */
typedef struct factors {
    real decay, first, second, offset, limit, terms[TG_DEFERRED_TERMS];
} factors;

static factors factors_of(const tg_gap *gap)
{
    factors f = {(real)gap->decay, (real)gap->first, (real)gap->second, (real)gap->offset, (real)gap->limit, {0}};
    for (int k = 0; k < TG_DEFERRED_TERMS; k++) {
        f.terms[k] = (real)gap->terms[k];
    }
    return f;
}

static inline bool needs_replay(const factors *f, real m, real v)
{
    real p = f->offset / (REAL(sqrt)(v) + f->offset), p2 = p * p, p4 = p2 * p2;
    return m != 0 && p4 * p4 > f->limit;
}

static bool any_needs_replay(const factors *f, const real *m, const real *v, int64_t count)
{
    int any = 0;
    for (int64_t i = 0; i < count; i++) {
        any |= needs_replay(f, m[i], v[i]);
    }
    return any;
}

static inline real made_up(const factors *f, real x, real m, real v)
{
    const real den = REAL(sqrt)(v) + f->offset, p = f->offset / den, *S = f->terms;
    real sum = S[4] - p * (S[5] - p * (S[6] - p * S[7]));
    sum = S[0] - p * (S[1] - p * (S[2] - p * (S[3] - p * sum)));
    return x * f->decay - m / den * sum;
}

static real replayed(const tg_gap *gap, real x, real m, real v)
{
    const real beta1 = (real)gap->beta1, beta2 = (real)gap->beta2, eps = (real)gap->eps;
    for (uint32_t i = 0; i < gap->steps; i++) {
        const tg_logged_step *step = &gap->log[(gap->first_step + i) & gap->mask];
        m *= beta1;
        v *= beta2;
        x = x * (real)step->decay_factor - (real)step->step_size * m / (REAL(sqrt)(v) / (real)step->correction + eps);
    }
    return x * (real)gap->rest;
}

void KERNEL(tg_make_up)(const tg_gap *gap, void *theta, void *mean, void *square, int64_t count)
{
    real *restrict x = theta, *restrict m = mean, *restrict v = square;
    const factors f = factors_of(gap);
    bool replay = gap->limit < 1 && any_needs_replay(&f, m, v, count);
    for (int64_t i = 0; replay && i < count; i++) {
        x[i] = needs_replay(&f, m[i], v[i]) ? replayed(gap, x[i], m[i], v[i]) : made_up(&f, x[i], m[i], v[i]);
    }
    for (int64_t i = 0; !replay && i < count; i++) {
        x[i] = made_up(&f, x[i], m[i], v[i]);
    }
    for (int64_t i = 0; i < count; i++) {
        m[i] *= f.first;
        v[i] *= f.second;
    }
}
