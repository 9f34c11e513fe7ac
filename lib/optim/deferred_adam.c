/* deferred_adam: the missed steps of Adam and AdamW, in one formula (deferred.c).
 *
 * Let x, m and v be an element after step s, and let it have no gradient in the steps s+1 .. T. In step t = s + j
 *
 *   m = beta1^j m,   v = beta2^j v,   x = d_t x - a_t m / (sqrt(v) / c_t + eps)         m, v: those of step s, scaled
 *
 * with the decay factor d_t = 1 - lr weight_decay of AdamW, a_t = lr / (1 - beta1^t) and c_t = sqrt(1 - beta2^t). With
 * q = beta1 / sqrt(beta2), u_t = c_t / sqrt(beta2)^j, and the m and v of step s, the subtrahend is
 *
 *   a_t c_t q^j m / (sqrt(v) + eps u_t)
 *
 * Only sqrt(v) + eps u_t combines the element with t. u_t changes little while q^j is not small. For any fixed u0,
 *
 *   1 / (sqrt(v) + eps u_t) = 1/den sum_k (-p)^k (u_t/u0 - 1)^k,    den = sqrt(v) + eps u0,   p = eps u0 / den < 1
 *
 * So all missed steps together are one formula, whose sums S_k depend on s and T, but not on the element:
 *
 *   x = D x - m / den sum_k (-p)^k D S_k,   D = d_{s+1} ... d_T,   S_k = sum_t a_t c_t q^j (u_t/u0 - 1)^k / D_t
 *
 * where D_t is the product of d up to step t. Eight terms suffice, and S_8 bounds the error. An element for which it is
 * too large, because eps is not small beside sqrt(v) in the first steps of a training, or because beta2 is far from 1,
 * is replayed: its steps are made one after the other. Replaying all elements would cost as much as the dense sweep. An
 * expansion in eps / sqrt(v) would have the same sums, but it diverges for small gradients.
 */
#include "base/real.h"
#include "optim/adam_log.h"
#include "optim/deferred.h"

/* ---- one row ---- */

/* The fields of a gap that the loops read, as reals. */
typedef struct real_gap {
    real decay, first, second, offset, limit, terms[TG_ADAM_TERMS];
} real_gap;

static real_gap real_gap_of(const tg_adam_gap *missed)
{
    real_gap g = {(real)missed->decay,  (real)missed->first, (real)missed->second,
                  (real)missed->offset, (real)missed->limit, {0}};
    for (int k = 0; k < TG_ADAM_TERMS; k++) {
        g.terms[k] = (real)missed->terms[k];
    }
    return g;
}

static inline bool needs_replay(const real_gap *g, real m, real v)
{
    return m != 0 && v <= g->limit;
}

static bool any_needs_replay(const real_gap *g, const real *m, const real *v, int64_t count)
{
    int any = 0;
    for (int64_t i = 0; i < count; i++) {
        any |= needs_replay(g, m[i], v[i]);
    }
    return any;
}

/* `count` is a constant in each call. */
static inline __attribute__((always_inline)) real made_up(int count, const real_gap *g, real x, real m, real v)
{
    const real inverse = 1 / (real_sqrt(v) + g->offset), p = g->offset * inverse;
    real sum = g->terms[count - 1];
    for (int k = count - 2; k >= 0; k--) {
        sum = g->terms[k] - p * sum;
    }
    return x * g->decay - m * inverse * sum;
}

/* Applies steps of which no element needs a replay. */
static inline __attribute__((always_inline)) void make_up_all(int terms, const real_gap *g, real *restrict x,
                                                              real *restrict m, real *restrict v, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        x[i] = made_up(terms, g, x[i], m[i], v[i]);
        m[i] *= g->first;
        v[i] *= g->second;
    }
}

static real replayed(const tg_adam_gap *missed, real x, real m, real v)
{
    const real beta1 = (real)missed->beta1, beta2 = (real)missed->beta2, eps = (real)missed->eps;
    for (uint32_t i = 0; i < missed->steps; i++) {
        const tg_logged_step *step = &missed->log[(missed->first_step + i) & missed->mask];
        m *= beta1;
        v *= beta2;
        x = x * (real)step->decay_factor - (real)step->step_size * m / (real_sqrt(v) / (real)step->correction + eps);
    }
    return x * (real)(missed->end / missed->log[(missed->first_step + missed->steps - 1) & missed->mask].decay);
}

void KERNEL(tg_adam_make_up)(const tg_adam_gap *missed, void *theta, void *mean, void *square, int64_t count)
{
    real *restrict x = theta, *restrict m = mean, *restrict v = square;
    const real_gap g = real_gap_of(missed);
    if (missed->limit < 0 || !any_needs_replay(&g, m, v, count)) {
        if (missed->count == TG_ADAM_FEW_TERMS) {
            make_up_all(TG_ADAM_FEW_TERMS, &g, x, m, v, count);
        } else {
            make_up_all(TG_ADAM_TERMS, &g, x, m, v, count);
        }
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        x[i] = needs_replay(&g, m[i], v[i]) ? replayed(missed, x[i], m[i], v[i])
                                            : made_up(TG_ADAM_TERMS, &g, x[i], m[i], v[i]);
        m[i] *= g.first;
        v[i] *= g.second;
    }
}

#ifdef TG_ONCE

/* The largest q. Its window has 8900 steps in f32 and 17000 in f64. */
#define LARGEST_Q 0.9975

static void find_gap(tg_adam_gap *missed, const tg_adam_log *log, uint32_t now, uint32_t age)
{
    uint32_t step = now - age;
    const tg_logged_step *from = &log->steps[step & log->mask], *to = &log->steps[now & log->mask];
    const tg_moment_decay moments = tg_adam_log_decay(log, age);
    double sums[TG_ADAM_TERMS + 1];
    tg_adam_log_sums(log, now, age, sums);
    const double bound = sums[TG_ADAM_TERMS], allowed = log->tolerance * sums[0];
    *missed = (tg_adam_gap){.decay = to->decay / from->decay,
                            .first = moments.first,
                            .second = moments.second,
                            .offset = log->eps * from->center,
                            .count = sums[TG_ADAM_FEW_TERMS] <= allowed ? TG_ADAM_FEW_TERMS : TG_ADAM_TERMS,
                            .limit = -1,
                            .log = log->steps,
                            .first_step = step + 1,
                            .steps = age < log->window ? age : log->window,
                            .mask = log->mask,
                            .beta1 = log->beta1,
                            .beta2 = log->beta2,
                            .eps = log->eps,
                            .end = to->decay};
    int terms = missed->count;
    if (!(bound <= allowed)) {
        /* p^8 is above allowed / bound if v is below this; sums that do not fit into a float: all are replayed */
        bool fits = bound * to->decay < 1e30;
        double p = fits ? sqrt(sqrt(sqrt(allowed / bound))) : 0, root = missed->offset * (1 / p - 1);
        missed->limit = root * root;
        missed->count = TG_ADAM_TERMS;
        terms = fits ? TG_ADAM_TERMS : 1;
    }
    for (int k = 0; k < terms; k++) {
        missed->terms[k] = sums[k] * to->decay;
    }
}

static void prefetch(const void *context, uint32_t now, uint32_t age)
{
    const tg_adam_log *log = context;
    const char *entry = (const char *)&log->steps[(now - age) & log->mask];
    for (size_t i = 0; i < sizeof *log->steps; i += 64) {
        __builtin_prefetch(entry + i);
    }
}

static void make_up(const void *context, uint32_t now, uint32_t age, void *x, void *const *state, int64_t count)
{
    static tg_adam_make_up_kernel *const f32[] = {TG_EACH_WIDE_LEVEL(tg_adam_make_up_f32)};
    static tg_adam_make_up_kernel *const f64[] = {TG_EACH_WIDE_LEVEL(tg_adam_make_up_f64)};
    const tg_adam_log *log = context;
    tg_adam_gap missed;
    find_gap(&missed, log, now, age);
    (log->dtype == TG_F32 ? f32 : f64)[tg_level()](&missed, x, state[0], state[1], count);
}

/* ---- the method ---- */

static bool accepts(const tg_optim_factors *factors)
{
    return factors->adam.decay_factor >= 0.5 && factors->adam.weight_decay == 0;
}

bool tg_deferred_check_adam(tg_params *params, const char *method, const tg_adam_config *config)
{
    double q = config->beta1 / sqrt(config->beta2);
    if (config->amsgrad || !(config->eps > 0)) {
        return tg_params_fail(params, TG_ERROR_VALUE, "%s: deferred with %s", method,
                              config->amsgrad ? "amsgrad; amsgrad must be false" : "eps 0; eps must be above 0");
    }
    return q <= LARGEST_Q ||
           tg_params_fail(params, TG_ERROR_VALUE,
                          "%s: deferred with beta1 %g and beta2 %g; beta1 / sqrt(beta2) must be at most %g", method,
                          config->beta1, config->beta2, LARGEST_Q);
}

static void *new_log(const tg_optim *optim, const tg_slot *slot, uint32_t capacity)
{
    return tg_adam_log_new(&optim->config.adam, tg_dtype_of(slot->tensor), capacity);
}

const tg_deferred_kind tg_deferred_adam = {
    .accepts = accepts,
    .new_log = new_log,
    .free_log = tg_adam_log_free,
    .begin = tg_adam_log_begin,
    .add = tg_adam_log_add,
    .prefetch = prefetch,
    .make_up = make_up,
};

#endif
