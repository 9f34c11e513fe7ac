/* schedule: the learning rate as a function of the step.
 *
 * With p the part of the way from the end of the warm-up to total_steps, cut at 1:
 *
 *   warm-up   initial + s (lr - initial) / warmup_steps
 *   cosine    minimum + (lr - minimum) (1 + cos(pi p)) / 2
 *   linear    lr + (minimum - lr) p
 *   step      lr gamma^floor((s - warmup_steps) / step_size)
 */
#include <math.h>

#include <tapegrad/optim.h>

tg_schedule tg_schedule_default(void)
{
    return (tg_schedule){.kind = TG_SCHEDULE_CONSTANT, .lr = 1e-3, .step_size = 1, .gamma = 0.1};
}

double tg_schedule_lr(const tg_schedule *schedule, int64_t step)
{
    if (!schedule || step < 0 || schedule->warmup_steps < 0) {
        return NAN;
    }
    const double lr = schedule->lr, minimum = schedule->minimum_lr;
    const bool ends = schedule->kind == TG_SCHEDULE_COSINE || schedule->kind == TG_SCHEDULE_LINEAR;
    if (ends                                 ? schedule->total_steps <= schedule->warmup_steps
        : schedule->kind == TG_SCHEDULE_STEP ? schedule->step_size < 1
                                             : schedule->kind != TG_SCHEDULE_CONSTANT) {
        return NAN;
    }
    if (step < schedule->warmup_steps) {
        return schedule->initial_lr + (double)step * ((lr - schedule->initial_lr) / (double)schedule->warmup_steps);
    }
    int64_t since = step - schedule->warmup_steps;
    double part = ends ? fmin(1, (double)since / (double)(schedule->total_steps - schedule->warmup_steps)) : 0;
    switch (schedule->kind) {
    case TG_SCHEDULE_COSINE: return minimum + (lr - minimum) * 0.5 * (1 + cos(3.14159265358979323846 * part));
    case TG_SCHEDULE_LINEAR: return lr + (minimum - lr) * part;
    case TG_SCHEDULE_STEP: return lr * pow(schedule->gamma, (double)(since / schedule->step_size));
    default: return lr;
    }
}
