/* schedule: the learning rate as a function of the step s.
 *
 * p = (s - warmup_steps) / (total_steps - warmup_steps), and 1 from step total_steps on; q is the same for the last
 * decay_steps of them, and 0 before:
 *
 *   warm-up      initial + s (lr - initial) / warmup_steps
 *   cosine       minimum + (lr - minimum) (1 + cos(pi p)) / 2
 *   linear       lr + (minimum - lr) p
 *   polynomial   minimum + (lr - minimum) (1 - p)^power
 *   trapezoid    lr + (minimum - lr) q
 *   step         lr gamma^floor((s - warmup_steps) / step_size)
 *   one cycle    half cosines, from initial at step 0 to lr at the step m = warmup_part total_steps - 1, which may lie
 *                between two, and to minimum at step total_steps - 1
 */
#include <math.h>

#include <tapegrad/extend.h>

#include "math/power.h"
#include "math/trigonometry.h"
#include "optim/optim.h"

static const char call[] = "schedule_lr";

TG_CONFIG(tg_schedule_config, tg_schedule_config_default, mark, .mark = mark, .kind = TG_SCHEDULE_CONSTANT, .lr = 1e-3,
          .step_size = 1, .gamma = 0.1, .power = 1, .warmup_part = 0.3);

static bool check_total(const tg_schedule_config *c, tg_error *error)
{
    return (c->total_steps >= 1 && c->total_steps >= c->warmup_steps) ||
           tg_error_set(error, TG_ERROR_VALUE,
                        "%s: total_steps %lld; it must be at least 1, and at least warmup_steps %lld", call,
                        (long long)c->total_steps, (long long)c->warmup_steps);
}

static bool check_schedule(int64_t step, const tg_schedule_config *c, tg_error *error)
{
    if (step < 0) {
        return tg_error_set(error, TG_ERROR_VALUE, "%s: step %lld; it must be 0 or more", call, (long long)step);
    }
    if (!tg_check_option(call, "lr", c->lr, error) || !tg_check_option(call, "initial_lr", c->initial_lr, error) ||
        !tg_check_option(call, "minimum_lr", c->minimum_lr, error) ||
        !tg_check_option(call, "gamma", c->gamma, error) || !tg_check_option(call, "power", c->power, error)) {
        return false;
    }
    if (c->warmup_steps < 0) {
        return tg_error_set(error, TG_ERROR_VALUE, "%s: warmup_steps %lld; it must be 0 or more", call,
                            (long long)c->warmup_steps);
    }
    switch (c->kind) {
    case TG_SCHEDULE_CONSTANT: return true;
    case TG_SCHEDULE_TRAPEZOID:
        return check_total(c, error) &&
               ((c->decay_steps >= 0 && c->decay_steps <= c->total_steps - c->warmup_steps) ||
                tg_error_set(error, TG_ERROR_VALUE,
                             "%s: decay_steps %lld; total_steps %lld and warmup_steps %lld leave 0 to %lld", call,
                             (long long)c->decay_steps, (long long)c->total_steps, (long long)c->warmup_steps,
                             (long long)(c->total_steps - c->warmup_steps)));
    case TG_SCHEDULE_COSINE:
    case TG_SCHEDULE_LINEAR:
    case TG_SCHEDULE_POLYNOMIAL: return check_total(c, error);
    case TG_SCHEDULE_STEP:
        return c->step_size >= 1 || tg_error_set(error, TG_ERROR_VALUE, "%s: step_size %lld; it must be 1 or more",
                                                 call, (long long)c->step_size);
    case TG_SCHEDULE_ONE_CYCLE:
        if (c->warmup_steps != 0) {
            return tg_error_set(error, TG_ERROR_VALUE,
                                "%s: warmup_steps %lld; one cycle has none, its warmup_part is a part of total_steps",
                                call, (long long)c->warmup_steps);
        }
        return ((c->warmup_part >= 0 && c->warmup_part <= 1) ||
                tg_error_set(error, TG_ERROR_VALUE, "%s: warmup_part %g is outside [0,1]", call, c->warmup_part)) &&
               check_total(c, error);
    }
    return tg_error_set(error, TG_ERROR_VALUE, "%s: kind %d does not exist; it must be 0 to %d", call, (int)c->kind,
                        TG_SCHEDULE_ONE_CYCLE);
}

/* Returns the part of the last `decay` steps that has passed, 0 before them and 1 from total_steps on. */
static double part_of(const tg_schedule_config *c, int64_t decay, int64_t step)
{
    int64_t since = step - (c->total_steps - decay);
    return since < 0 ? 0 : since < decay ? (double)since / (double)decay : 1;
}

/* Returns p. Only kinds with a total_steps that was checked have it. */
static double part_of_way(const tg_schedule_config *c, int64_t step)
{
    return part_of(c, c->total_steps - c->warmup_steps, step);
}

/* Returns the rate at a part of half a cosine. */
static double on_cosine(double from, double to, double part)
{
    return to + (from - to) * 0.5 * (1 + tg_cos_f64(3.14159265358979323846 * part));
}

static double on_cycle(const tg_schedule_config *c, int64_t step)
{
    double s = (double)step, last = (double)(c->total_steps - 1);
    double middle = c->warmup_part * (double)c->total_steps - 1;
    if (s <= middle) {
        return on_cosine(c->initial_lr, c->lr, middle > 0 ? s / middle : 1);
    }
    return s < last ? on_cosine(c->lr, c->minimum_lr, (s - middle) / (last - middle)) : c->minimum_lr;
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
    switch (c.kind) {
    case TG_SCHEDULE_COSINE: return on_cosine(c.lr, c.minimum_lr, part_of_way(&c, step));
    case TG_SCHEDULE_LINEAR: return c.lr + (c.minimum_lr - c.lr) * part_of_way(&c, step);
    case TG_SCHEDULE_POLYNOMIAL:
        return c.minimum_lr + (c.lr - c.minimum_lr) * tg_pow_f64(1 - part_of_way(&c, step), c.power);
    case TG_SCHEDULE_TRAPEZOID: return c.lr + (c.minimum_lr - c.lr) * part_of(&c, c.decay_steps, step);
    case TG_SCHEDULE_STEP: return power_of_gamma(&c, step, error);
    case TG_SCHEDULE_ONE_CYCLE: return on_cycle(&c, step);
    default: return c.lr;
    }
}
