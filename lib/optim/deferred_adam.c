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
 *
 * The log has one entry per step s, with S_k for the present T. A step adds its terms to the last `window` entries: q^j
 * is negligible in older ones, whose sums are complete. No sum is a difference of larger sums.
 */
#include "base/real.h"
#include "optim/deferred.h"

/* The number of terms of the expansion. */
#define TERMS 8

/* One step, and the sums over the steps after it. */
typedef struct logged_step {
    double decay_factor, correction, step_size; /* the factors of the step: d, c and a */
    double decay;                               /* D: the product of all decay factors up to this step */
    double center;                              /* u0 */
    double sums[TERMS + 1];                     /* S_0 .. S_8 */
} logged_step;

/* The steps that a row has missed, in the form that its kernel needs. */
typedef struct gap {
    double decay, first, second; /* the factors of x, m and v */
    double offset;               /* eps u0 */
    double terms[TERMS];         /* S_k times D */
    double limit;                /* an element is replayed if p^8 is above it */
    /* for the replay: the first `steps` missed steps are log[(first_step + i) & mask]; rest: the decay after them */
    const logged_step *log;
    uint32_t first_step, steps, mask;
    double beta1, beta2, eps, rest;
} gap;

/* Applies missed steps of `count` values: writes x, m and v. */
typedef void make_up_kernel(const gap *missed, void *theta, void *mean, void *square, int64_t count);
make_up_kernel TG_EACH_LEVEL(tg_adam_make_up_f32), TG_EACH_LEVEL(tg_adam_make_up_f64);

/* ---- one row ---- */

/* The fields of a gap that the loops read, as reals. */
typedef struct real_gap {
    real decay, first, second, offset, limit, terms[TERMS];
} real_gap;

static real_gap real_gap_of(const gap *missed)
{
    real_gap g = {(real)missed->decay,  (real)missed->first, (real)missed->second,
                  (real)missed->offset, (real)missed->limit, {0}};
    for (int k = 0; k < TERMS; k++) {
        g.terms[k] = (real)missed->terms[k];
    }
    return g;
}

static inline bool needs_replay(const real_gap *g, real m, real v)
{
    real p = g->offset / (REAL(sqrt)(v) + g->offset), p2 = p * p, p4 = p2 * p2;
    return m != 0 && p4 * p4 > g->limit;
}

static bool any_needs_replay(const real_gap *g, const real *m, const real *v, int64_t count)
{
    int any = 0;
    for (int64_t i = 0; i < count; i++) {
        any |= needs_replay(g, m[i], v[i]);
    }
    return any;
}

static inline real made_up(const real_gap *g, real x, real m, real v)
{
    const real den = REAL(sqrt)(v) + g->offset, p = g->offset / den, *S = g->terms;
    real sum = S[4] - p * (S[5] - p * (S[6] - p * S[7]));
    sum = S[0] - p * (S[1] - p * (S[2] - p * (S[3] - p * sum)));
    return x * g->decay - m / den * sum;
}

static real replayed(const gap *missed, real x, real m, real v)
{
    const real beta1 = (real)missed->beta1, beta2 = (real)missed->beta2, eps = (real)missed->eps;
    for (uint32_t i = 0; i < missed->steps; i++) {
        const logged_step *step = &missed->log[(missed->first_step + i) & missed->mask];
        m *= beta1;
        v *= beta2;
        x = x * (real)step->decay_factor - (real)step->step_size * m / (REAL(sqrt)(v) / (real)step->correction + eps);
    }
    return x * (real)missed->rest;
}

void KERNEL(tg_adam_make_up)(const gap *missed, void *theta, void *mean, void *square, int64_t count)
{
    real *restrict x = theta, *restrict m = mean, *restrict v = square;
    const real_gap g = real_gap_of(missed);
    bool replay = missed->limit < 1 && any_needs_replay(&g, m, v, count);
    for (int64_t i = 0; replay && i < count; i++) {
        x[i] = needs_replay(&g, m[i], v[i]) ? replayed(missed, x[i], m[i], v[i]) : made_up(&g, x[i], m[i], v[i]);
    }
    for (int64_t i = 0; !replay && i < count; i++) {
        x[i] = made_up(&g, x[i], m[i], v[i]);
    }
    for (int64_t i = 0; i < count; i++) {
        m[i] *= g.first;
        v[i] *= g.second;
    }
}

#ifdef TG_ONCE

#include "base/alloc.h"

/* The largest q. Its window has 8900 steps in f32 and 17000 in f64. */
#define LARGEST_Q 0.9975

typedef struct adam_log {
    double beta1, beta2, eps, tolerance;
    make_up_kernel *kernel;
    logged_step *steps;    /* step s is steps[s & mask] */
    uint32_t mask, logged; /* logged: the number of steps since the log began, at most mask */
    uint32_t window;
    double *weight, *growth; /* q^j and 1 / sqrt(beta2)^j for j <= window */
} adam_log;

/* ---- making up steps ---- */

static gap gap_of(const adam_log *log, uint32_t now, uint32_t age)
{
    uint32_t step = now - age, replayed = age < log->window ? age : log->window;
    const logged_step *from = &log->steps[step & log->mask], *to = &log->steps[now & log->mask];
    gap missed = {.decay = to->decay / from->decay,
                  .first = pow(log->beta1, age),
                  .second = pow(log->beta2, age),
                  .offset = log->eps * from->center,
                  .limit = 1,
                  .log = log->steps,
                  .first_step = step + 1,
                  .steps = replayed,
                  .mask = log->mask,
                  .beta1 = log->beta1,
                  .beta2 = log->beta2,
                  .eps = log->eps,
                  .rest = to->decay / log->steps[(step + replayed) & log->mask].decay};
    const double *sums = from->sums, bound = sums[TERMS], allowed = log->tolerance * sums[0];
    int terms = TERMS;
    if (!(bound <= allowed)) {
        bool fits = bound * to->decay < 1e30;
        missed.limit = fits ? allowed / bound : 0;
        terms = fits ? terms : 1; /* sums that do not fit into a float: every element with a moment is replayed */
    }
    for (int k = 0; k < terms; k++) {
        missed.terms[k] = sums[k] * to->decay;
    }
    return missed;
}

static void make_up(const void *log, uint32_t now, uint32_t age, void *x, void *const *state, int64_t count)
{
    gap missed = gap_of(log, now, age);
    ((const adam_log *)log)->kernel(&missed, x, state[0], state[1], count);
}

/* ---- the log ---- */

/* Returns an entry without later steps, for step number `steps` of the parameter. */
static logged_step entry_of(const adam_log *log, int64_t steps)
{
    /* u at the mean age of the sum of q^j */
    double age = 1 / (1 - log->beta1 / sqrt(log->beta2));
    return (logged_step){.decay = 1,
                         .center = sqrt(1 - pow(log->beta2, (double)steps + age)) * pow(log->beta2, -0.5 * age)};
}

/* Adds the terms of the last step, number `now`, to the sums of the entries before it. */
static void add_terms(adam_log *log, uint32_t now, const logged_step *last)
{
    uint32_t reach = log->logged < log->window ? log->logged : log->window;
    for (uint32_t j = 1; j <= reach; j++) {
        logged_step *entry = &log->steps[(now - j) & log->mask];
        double distance = last->correction * log->growth[j] / entry->center - 1;
        double term = last->step_size * last->correction * log->weight[j] / last->decay;
        for (int k = 0; k <= TERMS; k++) {
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
        logged_step *entry = &log->steps[(now - j) & log->mask];
        entry->decay /= last;
        for (int k = 0; k <= TERMS; k++) {
            entry->sums[k] *= last;
        }
    }
}

static bool accepts(const tg_optim_factors *factors)
{
    return factors->adam.decay_factor >= 0.5 && factors->adam.weight_decay == 0;
}

static void begin_log(void *context, uint32_t now, int64_t steps)
{
    adam_log *log = context;
    log->logged = 0;
    log->steps[now & log->mask] = entry_of(log, steps);
}

static void add(void *context, uint32_t now, int64_t steps, const tg_optim_factors *factors)
{
    adam_log *log = context;
    logged_step entry = entry_of(log, steps);
    entry.decay_factor = factors->adam.decay_factor;
    entry.correction = factors->adam.root_correction;
    entry.step_size = factors->adam.step_size;
    entry.decay = entry.decay_factor * log->steps[(now - 1) & log->mask].decay;
    log->logged += log->logged < log->mask;
    log->steps[now & log->mask] = entry;
    add_terms(log, now, &entry);
    rescale(log, now);
}

/* ---- constructor ---- */

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

static bool make_powers(adam_log *log, tg_dtype dtype)
{
    double q = log->beta1 / sqrt(log->beta2);
    /* q^window is negligible beside 1 in the table's dtype. */
    double bits = dtype == TG_F32 ? 32 : 60;
    log->window = q > 0 ? (uint32_t)ceil(-bits / log2(q)) + 1 : 1;
    log->weight = tg_alloc(log->window + 1, sizeof *log->weight);
    log->growth = tg_alloc(log->window + 1, sizeof *log->growth);
    for (uint32_t j = 0; log->weight && log->growth && j <= log->window; j++) {
        log->weight[j] = pow(q, j);
        log->growth[j] = pow(log->beta2, -0.5 * j);
    }
    return log->weight && log->growth;
}

static void free_log(void *context)
{
    adam_log *log = context;
    if (log) {
        tg_free(log->steps);
        tg_free(log->weight);
        tg_free(log->growth);
        tg_free(log);
    }
}

static void *new_log(const tg_optim *optim, const tg_slot *slot, uint32_t capacity)
{
    static make_up_kernel *const f32[] = {TG_EACH_LEVEL(tg_adam_make_up_f32)};
    static make_up_kernel *const f64[] = {TG_EACH_LEVEL(tg_adam_make_up_f64)};
    const tg_adam_config *config = &optim->config.adam;
    tg_dtype dtype = tg_dtype_of(slot->tensor);
    adam_log *log = tg_alloc_zeroed(1, sizeof *log);
    if (!log) {
        return NULL;
    }
    log->beta1 = config->beta1;
    log->beta2 = config->beta2;
    log->eps = config->eps;
    log->tolerance = ldexp(1, dtype == TG_F32 ? -24 : -44);
    log->kernel = (dtype == TG_F32 ? f32 : f64)[tg_level()];
    log->mask = capacity - 1;
    log->steps = tg_alloc(capacity, sizeof *log->steps);
    if (!make_powers(log, dtype) || !log->steps) {
        free_log(log);
        return NULL;
    }
    return log;
}

const tg_deferred_kind tg_deferred_adam = {
    .accepts = accepts,
    .new_log = new_log,
    .free_log = free_log,
    .begin = begin_log,
    .add = add,
    .make_up = make_up,
};

#endif
