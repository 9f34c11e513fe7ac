/* adam_log: see adam_log.h. */
#include "optim/adam_log.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "math/doubles.h"

/* ---- constructor ---- */

static tg_moment_decay decay_over(const tg_adam_log *log, double age)
{
    return (tg_moment_decay){tg_pow_f64(log->beta1, age), tg_pow_f64(log->beta2, age)};
}

/* The weights stand in the order of the steps: q^j at [window + TG_RECENT_STEPS - j]. The weights of the other steps in
 * the first and in the last group are 0. */
static bool make_powers(tg_adam_log *log, tg_dtype dtype)
{
    double q = log->beta1 / sqrt(log->beta2);
    /* q^window is negligible beside 1 in the table's dtype. */
    double bits = dtype == TG_F32 ? 32 : 60;
    log->window = q > 0 ? (uint32_t)ceil(-bits / (tg_log_f64(q) * 1.4426950408889634)) + 1 : 1;
    log->groups = 2 * (log->window / TG_RECENT_STEPS + 2);
    uint32_t weights = log->window + 2 * TG_RECENT_STEPS, high = log->mask / TG_LOW_AGES + 1;
    log->recent = tg_alloc(log->groups, sizeof *log->recent);
    log->weight = tg_alloc(weights, sizeof *log->weight);
    log->growth = tg_alloc(weights, sizeof *log->growth);
    log->high = tg_alloc(high, sizeof *log->high);
    if (!log->recent || !log->weight || !log->growth || !log->high) {
        return false;
    }
    for (uint32_t i = 0; i < weights; i++) {
        int64_t j = (int64_t)log->window + TG_RECENT_STEPS - i;
        bool is_weighted = j >= 1 && j <= log->window;
        log->weight[i] = is_weighted ? tg_pow_f64(q, (double)j) : 0;
        log->growth[i] = is_weighted ? tg_pow_f64(log->beta2, -0.5 * (double)j) : 1;
    }
    for (uint32_t i = 0; i < TG_LOW_AGES; i++) {
        log->low[i] = decay_over(log, i);
    }
    for (uint32_t i = 0; i < high; i++) {
        log->high[i] = decay_over(log, (double)i * TG_LOW_AGES);
    }
    return true;
}

tg_adam_log *tg_adam_log_new(const tg_adam_config *config, tg_dtype dtype, uint32_t capacity)
{
    tg_adam_log *log = tg_alloc_zeroed(1, sizeof *log);
    if (!log) {
        return NULL;
    }
    log->dtype = dtype;
    log->beta1 = config->beta1;
    log->beta2 = config->beta2;
    log->eps = config->eps;
    log->mean_age = 1 / (1 - log->beta1 / sqrt(log->beta2));
    log->mean_growth = tg_pow_f64(log->beta2, -0.5 * log->mean_age);
    log->tolerance = ldexp(1, dtype == TG_F32 ? -24 : -44);
    log->mask = capacity - 1;
    log->steps = tg_alloc(capacity, sizeof *log->steps);
    if (!log->steps || !make_powers(log, dtype)) {
        tg_adam_log_free(log);
        return NULL;
    }
    return log;
}

void tg_adam_log_free(void *context)
{
    tg_adam_log *log = context;
    if (log) {
        tg_free(log->steps);
        tg_free(log->recent);
        tg_free(log->weight);
        tg_free(log->growth);
        tg_free(log->high);
        tg_free(log);
    }
}

/* ---- steps ---- */

/* Returns an entry without later steps, for step number `steps` of the parameter. */
static tg_logged_step entry_of(const tg_adam_log *log, int64_t steps)
{
    return (tg_logged_step){
        .decay = 1, .center = sqrt(1 - tg_pow_f64(log->beta2, (double)steps + log->mean_age)) * log->mean_growth};
}

/* Makes `step` the last of the recent ones. */
static void add_recent(tg_adam_log *log, const tg_logged_step *step)
{
    if (++log->at == log->groups * TG_RECENT_STEPS) {
        uint32_t kept = log->groups / 2, first = log->groups - kept;
        memmove(log->recent, log->recent + first, kept * sizeof *log->recent);
        log->at -= first * TG_RECENT_STEPS;
    }
    tg_recent_steps *last = &log->recent[log->at / TG_RECENT_STEPS];
    if (log->at % TG_RECENT_STEPS == 0) {
        memset(last, 0, sizeof *last);
    }
    last->scale[log->at % TG_RECENT_STEPS] = 1 / step->center;
}

static void copy_sums(const tg_adam_log *log, uint32_t age, double *sums)
{
    uint32_t at = log->at - age;
    for (int k = 0; k <= TG_ADAM_TERMS; k++) {
        sums[k] = log->recent[at / TG_RECENT_STEPS].sums[k][at % TG_RECENT_STEPS];
    }
}

void tg_adam_log_sums(const tg_adam_log *log, uint32_t now, uint32_t age, double sums[TG_ADAM_TERMS + 1])
{
    if (age < log->window) {
        copy_sums(log, age, sums);
    } else {
        memcpy(sums, log->steps[(now - age) & log->mask].sums, sizeof log->steps->sums);
    }
}

/* Adds the terms of the last step, number `now`, to the sums of the entries before it. They complete those of one. */
static void add_terms(tg_adam_log *log, uint32_t now, const tg_logged_step *last)
{
    static tg_adam_add_kernel *const kernels[] = {TG_EACH_WIDE_LEVEL(tg_adam_add_terms)};
    uint32_t reach = log->logged < log->window ? log->logged : log->window;
    uint32_t group = (log->at - reach) / TG_RECENT_STEPS;
    uint32_t weight = group * TG_RECENT_STEPS + log->window + TG_RECENT_STEPS - log->at;
    kernels[tg_level()](log->recent + group, log->at / TG_RECENT_STEPS - group + 1, log->weight + weight,
                        log->growth + weight, last->step_size * last->correction / last->decay, last->correction);
    if (reach == log->window) {
        copy_sums(log, reach, log->steps[(now - reach) & log->mask].sums);
    }
}

/* Divides all products of decay factors by the last one, before they become subnormal. */
static void rescale(tg_adam_log *log, uint32_t now)
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
    for (uint32_t i = 0; i <= log->at; i++) {
        for (int k = 0; k <= TG_ADAM_TERMS; k++) {
            log->recent[i / TG_RECENT_STEPS].sums[k][i % TG_RECENT_STEPS] *= last;
        }
    }
}

void tg_adam_log_begin(void *context, uint32_t now, int64_t steps)
{
    tg_adam_log *log = context;
    tg_logged_step entry = entry_of(log, steps);
    log->logged = 0;
    log->at = UINT32_MAX;
    log->steps[now & log->mask] = entry;
    add_recent(log, &entry);
}

void tg_adam_log_add(void *context, uint32_t now, int64_t steps, const tg_optim_factors *factors)
{
    tg_adam_log *log = context;
    tg_logged_step entry = entry_of(log, steps);
    entry.decay_factor = factors->adam.decay_factor;
    entry.correction = factors->adam.root_correction;
    entry.step_size = factors->adam.step_size;
    entry.decay = entry.decay_factor * log->steps[(now - 1) & log->mask].decay;
    log->logged += log->logged < log->mask;
    log->steps[now & log->mask] = entry;
    add_recent(log, &entry);
    add_terms(log, now, &entry);
    rescale(log, now);
}
