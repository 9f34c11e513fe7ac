/* schedule: the learning rate as a function of the step. Steps count from 0. */
#include <math.h>

#include <tapegrad/optim.h>


tg_schedule tg_schedule_default(double lr)
{
    return (tg_schedule){.decay = TG_DECAY_CONSTANT, .lr = lr, .gamma = 1};
}

double tg_schedule_lr(const tg_schedule *s, int64_t step)
{
    if (step < s->warmup) {
        return s->lr * (double)(step + 1) / (double)s->warmup;
    }
    int64_t decaying = s->steps - s->warmup, done = step - s->warmup;
    double part = decaying > 0 && done < decaying ? (double)done / (double)decaying : 1; /* 0 at lr, 1 at final_lr */
    switch (s->decay) {
    case TG_DECAY_LINEAR: return s->lr + (s->final_lr - s->lr) * part;
    case TG_DECAY_COSINE: return s->final_lr + (s->lr - s->final_lr) * (1 + cos(3.14159265358979323846 * part)) / 2;
    case TG_DECAY_STEP: return s->period > 0 ? s->lr * pow(s->gamma, (double)(done / s->period)) : s->lr;
    default: return s->lr;
    }
}

