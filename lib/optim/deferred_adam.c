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

#include "base/alloc.h"
#include "math/power.h"

/* ---- the log: an entry per step s, with S_k for the present T ----
 *
 * A step adds its terms to the last `window` entries: q^j is negligible in older ones, whose sums are complete. No sum
 * is a difference of larger sums. */

/* Powers of beta1 and beta2. */
typedef struct moment_decay {
    double first, second;
} moment_decay;

/* The number of ages between two powers of adam_log.high. */
#define LOW_AGES 256

typedef struct adam_log {
    tg_dtype dtype; /* of the table */
    double beta1, beta2, eps, tolerance;
    double mean_age, mean_growth; /* of the sum of q^j: its mean j, and 1 / sqrt(beta2)^j there, for the centers u0 */
    tg_logged_step *steps;        /* step s is steps[s & mask] */
    uint32_t mask, logged;        /* logged: the number of steps since the log began, at most mask */
    uint32_t window;
    double *weight, *growth;    /* q^j and 1 / sqrt(beta2)^j, for j up to the window */
    moment_decay low[LOW_AGES]; /* powers 0 .. LOW_AGES - 1 */
    moment_decay *high;         /* multiples of LOW_AGES, up to mask */
} adam_log;

static moment_decay decay_over(const adam_log *log, double age)
{
    return (moment_decay){tg_pow_f64(log->beta1, age), tg_pow_f64(log->beta2, age)};
}

static bool make_powers(adam_log *log)
{
    double q = log->beta1 / sqrt(log->beta2);
    /* q^window is negligible beside 1 in the table's dtype. */
    double bits = log->dtype == TG_F32 ? 32 : 60;
    log->window = q > 0 ? (uint32_t)ceil(-bits / (tg_log_f64(q) * 1.4426950408889634)) + 1 : 1;
    uint32_t high = log->mask / LOW_AGES + 1;
    log->weight = tg_alloc((uint64_t)log->window + 1, sizeof *log->weight);
    log->growth = tg_alloc((uint64_t)log->window + 1, sizeof *log->growth);
    log->high = tg_alloc(high, sizeof *log->high);
    if (!log->weight || !log->growth || !log->high) {
        return false;
    }
    for (uint32_t j = 0; j <= log->window; j++) {
        log->weight[j] = tg_pow_f64(q, (double)j);
        log->growth[j] = tg_pow_f64(log->beta2, -0.5 * (double)j);
    }
    for (uint32_t i = 0; i < LOW_AGES; i++) {
        log->low[i] = decay_over(log, i);
    }
    for (uint32_t i = 0; i < high; i++) {
        log->high[i] = decay_over(log, (double)i * LOW_AGES);
    }
    return true;
}

static void free_log(void *context)
{
    adam_log *log = context;
    if (log) {
        tg_free(log->steps);
        tg_free(log->weight);
        tg_free(log->growth);
        tg_free(log->high);
        tg_free(log);
    }
}

static void *new_log(const tg_optim *optim, const tg_slot *slot, uint32_t capacity)
{
    const tg_adam_config *config = &optim->config.adam;
    adam_log *log = tg_alloc_zeroed(1, sizeof *log);
    if (!log) {
        return NULL;
    }
    log->dtype = tg_dtype_of(slot->tensor);
    log->beta1 = config->beta1;
    log->beta2 = config->beta2;
    log->eps = config->eps;
    log->mean_age = 1 / (1 - log->beta1 / sqrt(log->beta2));
    log->mean_growth = tg_pow_f64(log->beta2, -0.5 * log->mean_age);
    log->tolerance = ldexp(1, log->dtype == TG_F32 ? -24 : -44);
    log->mask = capacity - 1;
    log->steps = tg_alloc(capacity, sizeof *log->steps);
    if (!log->steps || !make_powers(log)) {
        free_log(log);
        return NULL;
    }
    return log;
}

/* Returns an entry without later steps, for step number `steps` of the parameter. */
static tg_logged_step entry_of(const adam_log *log, int64_t steps)
{
    double center = sqrt(1 - tg_pow_f64(log->beta2, (double)steps + log->mean_age)) * log->mean_growth;
    return (tg_logged_step){.decay = 1, .center = center, .scale = 1 / center};
}

static void begin(void *context, uint32_t now, int64_t steps)
{
    adam_log *log = context;
    log->logged = 0;
    log->steps[now & log->mask] = entry_of(log, steps);
}

/* Adds the terms of the last step, number `now`, to the sums of the entries before it. */
static void add_terms(adam_log *log, uint32_t now, const tg_logged_step *last)
{
    const double first = last->step_size * last->correction / last->decay;
    for (uint32_t j = 1; j <= log->logged && j <= log->window; j++) {
        tg_logged_step *entry = &log->steps[(now - j) & log->mask];
        double term = first * log->weight[j];
        const double distance = last->correction * log->growth[j] * entry->scale - 1;
        for (int k = 0; k <= TG_ADAM_TERMS; k++) {
            entry->sums[k] += term;
            term *= distance;
        }
    }
}

/* Divides all products of decay factors by the last one, before they become subnormal. */
static void rescale(adam_log *log, uint32_t now)
{
    double last = log->steps[now & log->mask].decay;
    if (last > 0x1p-200) {
        return;
    }
    for (uint32_t j = 0; j <= log->logged; j++) {
        tg_logged_step *entry = &log->steps[(now - j) & log->mask];
        entry->decay /= last;
        for (int k = 0; k <= TG_ADAM_TERMS; k++) {
            entry->sums[k] *= last;
        }
    }
}

static void add(void *context, uint32_t now, int64_t steps, const tg_optim_factors *factors)
{
    adam_log *log = context;
    tg_logged_step *entry = &log->steps[now & log->mask];
    *entry = entry_of(log, steps);
    entry->decay_factor = factors->decay_factor;
    entry->correction = factors->root_correction;
    entry->step_size = factors->step_size;
    entry->decay = entry->decay_factor * log->steps[(now - 1) & log->mask].decay;
    log->logged += log->logged < log->mask;
    add_terms(log, now, entry);
    rescale(log, now);
}

/* ---- the steps of a row ---- */

/* The largest q. Its window has 8900 steps in f32 and 17000 in f64. */
#define LARGEST_Q 0.9975

static void find_gap(tg_adam_gap *missed, const adam_log *log, uint32_t now, uint32_t age)
{
    uint32_t step = now - age;
    const tg_logged_step *from = &log->steps[step & log->mask], *to = &log->steps[now & log->mask];
    const moment_decay *low = &log->low[age % LOW_AGES], *high = &log->high[age / LOW_AGES];
    const double *sums = from->sums;
    const double bound = sums[TG_ADAM_TERMS], allowed = log->tolerance * sums[0];
    *missed = (tg_adam_gap){.decay = to->decay / from->decay,
                            .first = low->first * high->first,
                            .second = low->second * high->second,
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

static void make_up(const void *context, uint32_t now, uint32_t age, void *x, void *const *state, int64_t count)
{
    static tg_adam_make_up_kernel *const f32[] = {TG_EACH_LEVEL(avx512, tg_adam_make_up_f32)};
    static tg_adam_make_up_kernel *const f64[] = {TG_EACH_LEVEL(avx2, tg_adam_make_up_f64)};
    const adam_log *log = context;
    tg_adam_gap missed;
    find_gap(&missed, log, now, age);
    (log->dtype == TG_F32 ? f32 : f64)[tg_level()](&missed, x, state[0], state[1], count);
}

/* ---- the method ---- */

static bool accepts(const tg_optim_factors *factors)
{
    return factors->decay_factor >= 0.5 && factors->weight_decay == 0;
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

const tg_deferred_kind tg_deferred_adam = {
    .accepts = accepts,
    .new_log = new_log,
    .free_log = free_log,
    .begin = begin,
    .add = add,
    .make_up = make_up,
};

#endif
