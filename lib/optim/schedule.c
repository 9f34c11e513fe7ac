/* schedule: the learning rate as a function of the step s.
 *
 * p = (s - warmup_steps) / (total_steps - warmup_steps), and 1 from step total_steps on:
 *
 *   warm-up   initial + s (lr - initial) / warmup_steps
 *   cosine    minimum + (lr - minimum) (1 + cos(pi p)) / 2
 *   linear    lr + (minimum - lr) p
 *   step      lr gamma^floor((s - warmup_steps) / step_size)
 */
#include <math.h>

#include <tapegrad/extend.h>
#include <tapegrad/optim.h>

#include "math/doubles.h"

static const char call[] = "schedule_lr";
static const char mark[] = "tg_schedule_config_default";

tg_schedule_config tg_schedule_config_default(void)
{
    return (tg_schedule_config){.mark = mark, .kind = TG_SCHEDULE_CONSTANT, .lr = 1e-3, .step_size = 1, .gamma = 0.1};
}

static bool check_rate(const char *name, double value, tg_error *error)
{
    return (isfinite(value) && value >= 0) ||
           tg_error_set(error, TG_ERROR_VALUE, "%s: %s %g; it must be finite and at least 0", call, name, value);
}

static bool check_schedule(int64_t step, const tg_schedule_config *c, tg_error *error)
{
    if (step < 0) {
        return tg_error_set(error, TG_ERROR_VALUE, "%s: step %lld; it must be 0 or more", call, (long long)step);
    }
    if (!check_rate("lr", c->lr, error) || !check_rate("initial_lr", c->initial_lr, error) ||
        !check_rate("minimum_lr", c->minimum_lr, error) || !check_rate("gamma", c->gamma, error)) {
        return false;
    }
    if (c->warmup_steps < 0) {
        return tg_error_set(error, TG_ERROR_VALUE, "%s: warmup_steps %lld; it must be 0 or more", call,
                            (long long)c->warmup_steps);
    }
    switch (c->kind) {
    case TG_SCHEDULE_CONSTANT: return true;
    case TG_SCHEDULE_COSINE:
    case TG_SCHEDULE_LINEAR:
        return (c->total_steps >= 1 && c->total_steps >= c->warmup_steps) ||
               tg_error_set(error, TG_ERROR_VALUE,
                            "%s: total_steps %lld; it must be at least 1, and at least warmup_steps %lld", call,
                            (long long)c->total_steps, (long long)c->warmup_steps);
    case TG_SCHEDULE_STEP:
        return c->step_size >= 1 || tg_error_set(error, TG_ERROR_VALUE, "%s: step_size %lld; it must be 1 or more",
                                                 call, (long long)c->step_size);
    }
    return tg_error_set(error, TG_ERROR_VALUE, "%s: kind %d does not exist", call, (int)c->kind);
}

/* Returns p. Only a cosine and a line have a total_steps that was checked. */
static double part_of_way(const tg_schedule_config *c, int64_t since)
{
    int64_t decay = c->total_steps - c->warmup_steps;
    return since < decay ? (double)since / (double)decay : 1;
}

/* Returns the rate of a step. A gamma above 1 ends at infinity. */
static double power_of_gamma(const tg_schedule_config *c, int64_t step, tg_error *error)
{
    double rate = c->lr * tg_pow_f64(c->gamma, (double)((step - c->warmup_steps) / c->step_size));
    if (!isfinite(rate)) {
        tg_error_set(error, TG_ERROR_VALUE, "%s: gamma %g; the rate of step %lld is not finite", call, c->gamma,
                     (long long)step);
        return NAN;
    }
    return rate;
}

double tg_schedule_lr(int64_t step, const tg_schedule_config *config, tg_error *error)
{
    if (!tg_config_check(call, config, mark, error)) {
        return NAN;
    }
    const tg_schedule_config c = config ? *config : tg_schedule_config_default();
    if (!check_schedule(step, &c, error)) {
        return NAN;
    }
    if (step < c.warmup_steps) {
        return c.initial_lr + (double)step * ((c.lr - c.initial_lr) / (double)c.warmup_steps);
    }
    int64_t since = step - c.warmup_steps;
    switch (c.kind) {
    case TG_SCHEDULE_COSINE:
        return c.minimum_lr +
               (c.lr - c.minimum_lr) * 0.5 * (1 + tg_cos_f64(3.14159265358979323846 * part_of_way(&c, since)));
    case TG_SCHEDULE_LINEAR: return c.lr + (c.minimum_lr - c.lr) * part_of_way(&c, since);
    case TG_SCHEDULE_STEP: return power_of_gamma(&c, step, error);
    default: return c.lr;
    }
}
