/* triplets: tg_triplet_margin_loss. Its inputs and options are drawn in similarity.c. */
#include "similarity.h"

#include <float.h>

tg_tensor *call_triplet(trial *t)
{
    const similarity_options *o = OPTIONS(t, similarity_options);
    tg_triplet_margin_loss_config config = tg_triplet_margin_loss_config_default();
    config.margin = o->given_margin;
    config.p = o->given_p;
    config.eps = o->given_eps;
    config.swap = o->swap;
    config.reduction = o->reduction;
    return tg_triplet_margin_loss(t->tape, t->inputs[0].tensor, t->inputs[1].tensor, t->inputs[2].tensor,
                                  o->has_config ? &config : NULL);
}

static double distance_of(trial *t, int from, int to, int64_t row)
{
    const similarity_options *o = OPTIONS(t, similarity_options);
    tg_shape shape = t->inputs[0].x.shape;
    int64_t width = shape.size[shape.rank - 1];
    double distance = 0;
    for (int64_t i = row * width; i < (row + 1) * width; i++) {
        double d = fabs(t->inputs[from].x.values[i] - t->inputs[to].x.values[i] + o->eps);
        if (isinf(o->p)) {
            distance = d > distance || isnan(d) ? d : distance;
        } else {
            distance += pow(d, o->p);
        }
    }
    return isinf(o->p) ? distance : pow(distance, 1 / o->p);
}

typedef struct triplet {
    double positive, negative, swapped; /* distances; the last is infinite without swap */
    double terms;
} triplet;

static triplet triplet_of(trial *t, int64_t row)
{
    bool swap = OPTIONS(t, similarity_options)->swap;
    triplet d = {distance_of(t, 0, 1, row), distance_of(t, 0, 2, row), swap ? distance_of(t, 1, 2, row) : INFINITY, 0};
    d.terms = d.positive + d.negative + fabs(OPTIONS(t, similarity_options)->margin);
    return d;
}

static double loss_of(const trial *t, triplet d)
{
    const similarity_options *o = OPTIONS(t, similarity_options);
    double nearest = isnan(d.negative) || d.negative < d.swapped ? d.negative : d.swapped;
    return o->margin + d.positive - (o->swap ? nearest : d.negative);
}

void triplet_forward(trial *t)
{
    const similarity_options *o = OPTIONS(t, similarity_options);
    array losses = array_new(t, without_last(t->inputs[0].x.shape));
    for (int64_t row = 0; row < losses.count; row++) {
        triplet d = triplet_of(t, row);
        put_terms(&losses, row, positive_part(loss_of(t, d)), 4 * d.terms);
    }
    put_reduced(t, &losses, o->reduction, divisor_of(o->reduction, losses.shape));
}

/* Adds the gradient of a distance: d (|d|^(p-2)) / distance^(p-1), that of the largest |d| for p = inf. */
static void add_distance_gradient(trial *t, int from, int to, int64_t row, double distance, double dy, double dy_terms)
{
    const similarity_options *o = OPTIONS(t, similarity_options);
    tg_shape shape = t->inputs[0].x.shape;
    int64_t width = shape.size[shape.rank - 1], equals = 0;
    for (int64_t i = row * width; i < (row + 1) * width; i++) {
        equals += fabs(t->inputs[from].x.values[i] - t->inputs[to].x.values[i] + o->eps) == distance;
    }
    for (int64_t i = row * width; i < (row + 1) * width; i++) {
        double a = t->inputs[from].x.values[i], b = t->inputs[to].x.values[i], d = a - b + o->eps, size = fabs(d);
        double slope = isinf(o->p)               ? (size == distance ? 1 / (double)equals : 0)
                       : d == 0 || distance == 0 ? 0
                                                 : pow(size / distance, o->p - 1);
        slope = d < 0 ? -slope : d > 0 ? slope : 0;
        double lost = 1 + (d == 0 ? 0 : (fabs(a - b) + o->eps) / size) * fabs(o->p - 1);
        double terms = isinf(o->p) ? fabs(slope) : fabs(slope) * lost;
        add_terms(&t->inputs[from].dx, i, dy * slope, dy_terms * terms);
        add_terms(&t->inputs[to].dx, i, -dy * slope, dy_terms * terms);
    }
}

/* terms_of_step, where distances that are not sums or maxima of exact differences are never equal for sure. */
static double terms_of_choice(const trial *t, double slope, double u, double terms)
{
    const similarity_options *o = OPTIONS(t, similarity_options);
    bool is_exact = (o->p == 1 || isinf(o->p)) && (o->eps == 0 || o->eps == 0.5);
    return terms_of_step(t, slope, u == 0 && !is_exact ? DBL_MIN : u, terms);
}

void triplet_backward(trial *t)
{
    const similarity_options *o = OPTIONS(t, similarity_options);
    tg_shape rows = without_last(t->inputs[0].x.shape);
    for (int64_t row = 0; row < count_of(rows); row++) {
        double dy = gradient_of_loss(t, o->reduction, divisor_of(o->reduction, rows), row);
        triplet d = triplet_of(t, row);
        double loss = loss_of(t, d), step = loss >= 0 ? dy : 0;
        double terms = terms_of_choice(t, dy, loss, d.terms);
        terms = step == 0 && terms == fabs(dy) ? 0 : terms;
        double share = !o->swap || d.negative < d.swapped ? 1 : d.negative == d.swapped ? 0.5 : 0;
        double choice = o->swap ? terms_of_choice(t, 1, d.negative - d.swapped, d.negative + d.swapped) : 1;
        add_distance_gradient(t, 0, 1, row, d.positive, step, terms);
        add_distance_gradient(t, 0, 2, row, d.negative, -step * share, terms * choice);
        if (o->swap) {
            add_distance_gradient(t, 1, 2, row, d.swapped, -step * (1 - share), terms * choice);
        }
    }
}
