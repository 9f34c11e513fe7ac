/* normalization: tg_softmax, tg_log_softmax, tg_layer_norm and tg_rms_norm, line by line. */
#include "losses.h"

#include <float.h>
#include <string.h>

/* A shape whose last axis is now and then wider than lanes, or whose rows are many. */
static tg_shape draw_lines(trial *t, int min_rank)
{
    int64_t percent = draw_integer(t, 0, 99);
    return percent < 6   ? TG_SHAPE(draw_integer(t, 1, 4), draw_integer(t, 1, 70))
           : percent < 7 ? TG_SHAPE(draw_integer(t, 1, 2), draw_integer(t, 200, 300))
           : percent < 9 ? TG_SHAPE(draw_integer(t, 60, 70), draw_integer(t, 1, 9))
                         : draw_shape(t, min_rank, TG_MAX_RANK);
}

/* ---- tg_softmax and tg_log_softmax ---- */

typedef struct softmax_options {
    int axis;
} softmax_options;

static void draw_softmax(trial *t)
{
    tg_shape shape = draw_lines(t, 0);
    draw_input(t, "x", shape);
    OPTIONS(t, softmax_options)->axis = (int)note_integer(t, "axis", draw_axis(t, shape.rank));
}

static bool is_valid_softmax(const trial *t)
{
    return is_axis_of_lines(OPTIONS(t, softmax_options)->axis, t->inputs[0].x.shape.rank);
}

static bool is_log(const trial *t)
{
    return strcmp(t->reference->op, "tg_log_softmax") == 0;
}

static tg_tensor *call_softmax(trial *t)
{
    tg_tensor *(*function)(tg_tape *, tg_tensor *, int) = is_log(t) ? tg_log_softmax : tg_softmax;
    return function(t->tape, t->inputs[0].tensor, OPTIONS(t, softmax_options)->axis);
}

static const line *lines_of(trial *t, int64_t *count)
{
    return lines_along_axis(t, t->inputs[0].x.shape, OPTIONS(t, softmax_options)->axis, count);
}

/* The logarithms of the softmax of a line. The difference to the maximum is rounded. */
static quantity *log_softmax_of(trial *t, const line *l)
{
    const double *x = t->inputs[0].x.values;
    double maximum = -INFINITY, sum = 0;
    for (int64_t k = 0; k < l->count; k++) {
        double value = x[l->at[k]];
        maximum = isnan(value) || value > maximum ? value : maximum;
    }
    for (int64_t k = 0; k < l->count; k++) {
        sum += exp(x[l->at[k]] - maximum);
    }
    quantity *log_p = trial_memory(t, (size_t)l->count * sizeof *log_p);
    for (int64_t k = 0; k < l->count; k++) {
        double shifted = x[l->at[k]] - maximum;
        log_p[k] = (quantity){shifted - log(sum), fabs(shifted) + fabs(log(sum)) + 1};
    }
    return log_p;
}

/* e^log_p. A probability of 0 has no terms, whatever those of its logarithm are. */
static quantity probability_of(quantity log_p)
{
    double p = exp(log_p.value);
    return (quantity){p, p > 0 ? p * (1 + log_p.terms) : 0};
}

static void softmax_forward(trial *t)
{
    array *y = output_new(t, 0, t->inputs[0].x.shape);
    int64_t count;
    const line *lines = lines_of(t, &count);
    for (int64_t i = 0; i < count; i++) {
        const quantity *log_p = log_softmax_of(t, &lines[i]);
        for (int64_t k = 0; k < lines[i].count; k++) {
            quantity value = is_log(t) ? log_p[k] : probability_of(log_p[k]);
            put_terms(y, lines[i].at[k], value.value, value.terms);
        }
    }
}

/* softmax: dx = y (dy - sum(dy y)); its logarithm: dx = dy - e^y sum(dy). */
static void softmax_backward(trial *t)
{
    const double *dy = t->outputs[0].dy.values;
    int64_t count;
    const line *lines = lines_of(t, &count);
    for (int64_t i = 0; i < count; i++) {
        const line *l = &lines[i];
        const quantity *log_p = log_softmax_of(t, l);
        quantity sum = {0, 0};
        for (int64_t k = 0; k < l->count; k++) {
            quantity factor = is_log(t) ? plain(1) : probability_of(log_p[k]);
            sum.value += dy[l->at[k]] * factor.value;
            sum.terms += fabs(dy[l->at[k]]) * factor.terms;
        }
        for (int64_t k = 0; k < l->count; k++) {
            quantity p = probability_of(log_p[k]);
            double up = dy[l->at[k]];
            if (is_log(t)) {
                add_terms(&t->inputs[0].dx, l->at[k], up - p.value * sum.value, fabs(up) + p.terms * sum.terms);
            } else {
                add_terms(&t->inputs[0].dx, l->at[k], p.value * (up - sum.value), p.terms * (fabs(up) + sum.terms));
            }
        }
    }
}

/* ---- tg_layer_norm and tg_rms_norm ----
 *
 * y = (x - mean) / sqrt(mean((x - mean)^2) + eps) * weight + bias along the last axis. For tg_rms_norm the mean that is
 * subtracted is 0, and a bias is absent.
 */

enum { X, WEIGHT, BIAS };

typedef struct norm_options {
    double eps;
} norm_options;

static bool is_rms(const trial *t)
{
    return strcmp(t->reference->op, "tg_rms_norm") == 0;
}

/* Draws the weight or the bias, which is present in so many percent of the calls. */
static void draw_of_width(trial *t, const char *name, int64_t width, int percent)
{
    tg_shape shape = TG_SHAPE(draw_chance(t, 2) ? draw_size(t) : width);
    shape.rank -= draw_chance(t, 1);
    if (draw_chance(t, percent)) {
        draw_input(t, name, shape);
    } else {
        draw_absent(t, name);
    }
}

static void draw_norm(trial *t)
{
    tg_shape shape = draw_lines(t, draw_chance(t, 2) ? 0 : 1);
    int64_t width = shape.rank > 0 ? shape.size[shape.rank - 1] : 1;
    double eps = draw_chance(t, 3) ? DRAW_DOUBLE_OF(t, 0, -1, NAN, -INFINITY)
                                   : DRAW_DOUBLE_OF(t, 1e-5, 1e-5, 1e-12, 1e-3, 1, 30);
    OPTIONS(t, norm_options)->eps = note_double(t, "eps", eps);
    draw_input(t, "x", shape);
    /* A weight that is not normal may count as 0, and an infinite one would give NaN. */
    const flavor drawn = t->flavor;
    t->flavor = drawn == SPECIAL ? SMOOTH : drawn;
    draw_of_width(t, "weight", width, 60);
    t->flavor = drawn;
    if (is_rms(t)) {
        draw_absent(t, "bias");
    } else {
        draw_of_width(t, "bias", width, 60);
    }
}

static bool is_valid_norm(const trial *t)
{
    tg_shape shape = t->inputs[0].x.shape;
    for (int k = WEIGHT; k <= BIAS; k++) {
        tg_shape parameter = t->inputs[k].x.shape;
        if (t->inputs[k].is_present &&
            (parameter.rank != 1 || shape.rank == 0 || parameter.size[0] != shape.size[shape.rank - 1])) {
            return false;
        }
    }
    return shape.rank >= 1 && shape.size[shape.rank - 1] >= 1 && OPTIONS(t, norm_options)->eps > 0;
}

static tg_tensor *call_norm(trial *t)
{
    tg_tensor *x = t->inputs[X].tensor, *weight = t->inputs[WEIGHT].tensor, *bias = t->inputs[BIAS].tensor;
    double eps = OPTIONS(t, norm_options)->eps;
    return is_rms(t) ? tg_rms_norm(t->tape, x, weight, eps) : tg_layer_norm(t->tape, x, weight, bias, eps);
}

/* The mean, which is subtracted; none with tg_rms_norm. The sum is kept in long double: for a row of equal values its
 * roundings would be all that is left of them. */
static quantity mean_of(const trial *t, const double *x, int64_t width)
{
    long double sum = 0, terms = 0;
    for (int64_t k = 0; k < width && !is_rms(t); k++) {
        sum += x[k];
        terms += fabs(x[k]);
    }
    return (quantity){(double)(sum / (long double)width), (double)(terms / (long double)width)};
}

/* The normalized values of a row, (x - mean) / sqrt(var + eps), and the factor. */
typedef struct normalized {
    quantity *values;
    double factor, lost; /* 1 / sqrt(..), and the roundings that it may be off by */
} normalized;

static normalized normalize(trial *t, const double *x, int64_t width)
{
    quantity mean = mean_of(t, x, width), square = {0, 0};
    double eps = OPTIONS(t, norm_options)->eps;
    for (int64_t k = 0; k < width; k++) {
        double terms = fabs(x[k]) + mean.terms, centered = x[k] - mean.value;
        double lost = fabs(centered) * terms + eps_of(t->dtype) * terms * terms + overflow_of(t, terms * terms);
        square.value += centered * centered / (double)width;
        square.terms += lost / (double)width;
    }
    normalized n = {.values = trial_memory(t, (size_t)width * sizeof *n.values)};
    n.factor = 1 / sqrt(square.value + eps);
    n.lost = 1 + square.terms / (square.value + eps) + overflow_of(t, square.terms * (double)width);
    for (int64_t k = 0; k < width; k++) {
        double value = (x[k] - mean.value) * n.factor;
        n.values[k] = (quantity){value, (fabs(x[k]) + mean.terms) * n.factor + fabs(value) * n.lost + FLT_MIN};
    }
    return n;
}

static double weight_at(const trial *t, int64_t k)
{
    const input *weight = &t->inputs[WEIGHT];
    return weight->is_present ? weight->x.values[k] : 1;
}

static void norm_forward(trial *t)
{
    const array *x = &t->inputs[X].x;
    const input *bias = &t->inputs[BIAS];
    array *y = output_new(t, 0, x->shape);
    int64_t width = x->shape.size[x->shape.rank - 1];
    for (int64_t row = 0; row < y->count / width; row++) {
        normalized n = normalize(t, x->values + row * width, width);
        for (int64_t k = 0; k < width; k++) {
            double scale = weight_at(t, k), shift = bias->is_present ? bias->x.values[k] : 0;
            double terms = n.values[k].terms * fabs(scale) + fabs(shift) + overflow_of(t, n.values[k].terms);
            put_terms(y, row * width + k, n.values[k].value * scale + shift, terms);
        }
    }
}

/* dx = (g - mean(g) - xn average(g xn)) factor with g = weight dy and the normalized values xn. */
static void norm_backward(trial *t)
{
    input *x = &t->inputs[X], *weight = &t->inputs[WEIGHT], *bias = &t->inputs[BIAS];
    int64_t width = x->x.shape.size[x->x.shape.rank - 1];
    double *g = numbers(t, width);
    for (int64_t row = 0; row < x->x.count / width; row++) {
        normalized n = normalize(t, x->x.values + row * width, width);
        const double *dy = t->outputs[0].dy.values + row * width;
        quantity average = {0, 0};
        for (int64_t k = 0; k < width; k++) {
            quantity xn = n.values[k];
            g[k] = dy[k] * weight_at(t, k);
            average.value += g[k] * xn.value / (double)width;
            average.terms += fabs(g[k]) * xn.terms / (double)width;
            if (weight->is_present) {
                add_terms(&weight->dx, k, dy[k] * xn.value, fabs(dy[k]) * xn.terms + overflow_of(t, xn.terms));
            }
            if (bias->is_present) {
                add(&bias->dx, k, dy[k]);
            }
        }
        quantity mean = mean_of(t, g, width);
        for (int64_t k = 0; k < width; k++) {
            double terms = fabs(g[k]) + mean.terms + n.values[k].terms * average.terms;
            double overflow = overflow_of(t, terms) + overflow_of(t, average.terms * (double)width);
            double dx = (g[k] - mean.value - n.values[k].value * average.value) * n.factor;
            add_terms(&x->dx, row * width + k, dx, terms * n.factor * n.lost + overflow);
        }
    }
}

#define REFERENCE(name, functions)                                                                                   \
    {                                                                                                                \
        .op = "tg_" #name, .draw = draw_##functions, .is_valid = is_valid_##functions, .call = call_##functions,     \
        .forward = functions##_forward, .backward = functions##_backward, .roundings = 16, .gradient_roundings = 64, \
    }

static const reference references[] = {
    REFERENCE(softmax, softmax),
    REFERENCE(log_softmax, softmax),
    REFERENCE(layer_norm, norm),
    REFERENCE(rms_norm, norm),
};

reference_family normalization = {"normalization", references, sizeof references / sizeof *references, 30000, NULL};
