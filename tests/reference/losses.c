#include "losses.h"

#include <float.h>
#include <string.h>

tg_reduction draw_reduction(trial *t)
{
    int64_t reduction = draw_chance(t, 2)   ? DRAW_ONE_OF(t, -1, 4, 77)
                        : draw_chance(t, 3) ? TG_REDUCTION_BATCH_MEAN
                                            : draw_integer(t, TG_REDUCTION_MEAN, TG_REDUCTION_NONE);
    return (tg_reduction)note_integer(t, "reduction", reduction);
}

bool is_reduction(const trial *t, tg_reduction reduction)
{
    return reduction == TG_REDUCTION_MEAN || reduction == TG_REDUCTION_SUM || reduction == TG_REDUCTION_NONE ||
           (reduction == TG_REDUCTION_BATCH_MEAN && strcmp(t->reference->op, "tg_kl_div") == 0);
}

double divisor_of(tg_reduction reduction, tg_shape losses)
{
    switch (reduction) {
    case TG_REDUCTION_MEAN: return (double)count_of(losses);
    case TG_REDUCTION_BATCH_MEAN: return losses.rank > 0 ? (double)losses.size[0] : 1;
    case TG_REDUCTION_SUM:
    case TG_REDUCTION_NONE: break;
    }
    return 1;
}

void put_reduced(trial *t, const array *losses, tg_reduction reduction, double divisor)
{
    if (reduction == TG_REDUCTION_NONE) {
        array *y = output_new(t, 0, losses->shape);
        for (int64_t i = 0; i < y->count; i++) {
            put_terms(y, i, losses->values[i], losses->terms[i]);
        }
        return;
    }
    array *y = output_new(t, 0, TG_SCALAR);
    long double sum = 0; /* thousands of equal values lose as many digits in a double as in the library */
    double terms = 0;
    for (int64_t i = 0; i < losses->count; i++) {
        sum += losses->values[i];
        terms += losses->terms[i];
    }
    put_terms(y, 0, (double)sum / divisor, terms / fabs(divisor) + overflow_of(t, terms));
    if (overflow_of(t, terms) > 0) {
        y->terms[0] = terms; /* beside an infinite loss, too: inf - inf */
    }
}

double gradient_of_loss(const trial *t, tg_reduction reduction, double divisor, int64_t i)
{
    const array *dy = &t->outputs[0].dy;
    return reduction == TG_REDUCTION_NONE ? dy->values[i] : dy->values[0] / divisor;
}

double draw_number(trial *t, const char *name, double low, double high)
{
    double number = draw_chance(t, 4)    ? DRAW_DOUBLE_OF(t, -1, -INFINITY, INFINITY, NAN)
                    : draw_chance(t, 40) ? DRAW_DOUBLE_OF(t, 0, 0.5, 1, 2, 1e-3)
                                         : draw_uniform(t, low, high);
    return note_double(t, name, number);
}

input *draw_constant(trial *t, const char *name, tg_shape shape)
{
    t->draws_constants = !draw_chance(t, t->is_recording ? 2 : 20);
    input *in = draw_input(t, name, shape);
    t->draws_constants = false;
    return in;
}

input *draw_finite_constant(trial *t, const char *name, tg_shape shape)
{
    const flavor drawn = t->flavor;
    t->flavor = drawn == SPECIAL ? SMOOTH : drawn;
    input *in = draw_constant(t, name, shape);
    t->flavor = drawn;
    return in;
}

input *draw_constant_of(trial *t, const char *name, tg_shape shape, const double *values)
{
    t->draws_constants = !draw_chance(t, t->is_recording ? 2 : 20);
    input *in = draw_layout(t, name, t->dtype, shape, values);
    t->draws_constants = false;
    return in;
}

bool refuses_gradient(const trial *t, const input *in)
{
    return t->is_recording && in->is_present && in->requires_grad;
}

double overflow_of(const trial *t, double x)
{
    return t->dtype == TG_F32 && fabs(x) > FLT_MAX ? fabs(x) : 0;
}

double terms_of_step(const trial *t, double slope, double u, double terms)
{
    double eps = eps_of(t->dtype);
    bool is_sure = u == 0 || !(fabs(u) <= 8 * eps * terms + smallest_of(t->dtype)); /* below it u may be 0 */
    return is_sure ? fabs(slope) : fabs(slope) / eps;
}
