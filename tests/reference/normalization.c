/* normalization: tg_softmax, tg_log_softmax, tg_layer_norm and tg_rms_norm, line by line. */
#include "losses.h"

#include <float.h>
#include <string.h>

/* A line of values along an axis: value k is at begin + k * step. */
typedef struct strided_line {
    int64_t begin, step, length;
} strided_line;

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
    int rank = t->inputs[0].x.shape.rank;
    return is_axis(OPTIONS(t, softmax_options)->axis, rank == 0 ? 1 : rank); /* a scalar is a line of one value */
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

static int64_t count_lines(const trial *t)
{
    tg_shape shape = t->inputs[0].x.shape;
    if (shape.rank == 0) {
        return 1;
    }
    int64_t length = shape.size[axis_from_front(OPTIONS(t, softmax_options)->axis, shape.rank)];
    return length > 0 ? count_of(shape) / length : 0;
}

static strided_line line_of(const trial *t, int64_t number)
{
    tg_shape shape = t->inputs[0].x.shape;
    if (shape.rank == 0) {
        return (strided_line){0, 1, 1};
    }
    int axis = axis_from_front(OPTIONS(t, softmax_options)->axis, shape.rank);
    int64_t step = 1, length = shape.size[axis];
    for (int behind = axis + 1; behind < shape.rank; behind++) {
        step *= shape.size[behind];
    }
    return (strided_line){number / step * step * length + number % step, step, length};
}

/* The logarithm of each softmax, in `log_p`, and its terms. The difference to the maximum is rounded. */
static void log_softmax_of(const trial *t, strided_line l, double *log_p, double *terms)
{
    const double *x = t->inputs[0].x.values + l.begin;
    double maximum = -INFINITY, sum = 0;
    for (int64_t k = 0; k < l.length; k++) {
        maximum = isnan(x[k * l.step]) || x[k * l.step] > maximum ? x[k * l.step] : maximum;
    }
    for (int64_t k = 0; k < l.length; k++) {
        sum += exp(x[k * l.step] - maximum);
    }
    for (int64_t k = 0; k < l.length; k++) {
        double shifted = x[k * l.step] - maximum;
        log_p[k] = shifted - log(sum);
        terms[k] = fabs(shifted) + fabs(log(sum)) + 1;
    }
}

static void softmax_forward(trial *t)
{
    array *y = output_new(t, 0, t->inputs[0].x.shape);
    for (int64_t number = 0; number < count_lines(t); number++) {
        strided_line l = line_of(t, number);
        double *log_p = numbers(t, l.length), *terms = numbers(t, l.length);
        log_softmax_of(t, l, log_p, terms);
        for (int64_t k = 0; k < l.length; k++) {
            int64_t at = l.begin + k * l.step;
            if (is_log(t)) {
                put_terms(y, at, log_p[k], terms[k]);
            } else {
                put_terms(y, at, exp(log_p[k]), exp(log_p[k]) * (1 + terms[k]));
            }
        }
    }
}

/* softmax: dx = y (dy - sum(dy y)); its logarithm: dx = dy - e^y sum(dy). */
static void softmax_backward(trial *t)
{
    const double *dy = t->outputs[0].dy.values;
    for (int64_t number = 0; number < count_lines(t); number++) {
        strided_line l = line_of(t, number);
        double *log_p = numbers(t, l.length), *terms = numbers(t, l.length), sum = 0, sum_terms = 0;
        log_softmax_of(t, l, log_p, terms);
        for (int64_t k = 0; k < l.length; k++) {
            double factor = is_log(t) ? 1 : exp(log_p[k]), up = dy[l.begin + k * l.step];
            sum += up * factor;
            sum_terms += factor > 0 ? fabs(up) * factor * (is_log(t) ? 1 : 1 + terms[k]) : 0;
        }
        for (int64_t k = 0; k < l.length; k++) {
            double p = exp(log_p[k]), up = dy[l.begin + k * l.step];
            double p_terms = p > 0 ? p * (1 + terms[k]) : 0;
            if (is_log(t)) {
                add_terms(&t->inputs[0].dx, l.begin + k * l.step, up - p * sum, fabs(up) + p_terms * sum_terms);
            } else {
                add_terms(&t->inputs[0].dx, l.begin + k * l.step, p * (up - sum), p_terms * (fabs(up) + sum_terms));
            }
        }
    }
}

/* ---- tg_layer_norm and tg_rms_norm ---- */

typedef struct norm_options {
    double eps;
} norm_options;

static bool is_rms(const trial *t)
{
    return strcmp(t->reference->op, "tg_rms_norm") == 0;
}

static void draw_norm(trial *t)
{
    tg_shape shape = draw_lines(t, draw_chance(t, 2) ? 0 : 1);
    int64_t width = shape.rank > 0 ? shape.size[shape.rank - 1] : 1;
    double eps = draw_chance(t, 3) ? DRAW_DOUBLE_OF(t, 0, -1, NAN, -INFINITY)
                                   : DRAW_DOUBLE_OF(t, 1e-5, 1e-5, 1e-12, 1e-3, 1, 30);
    OPTIONS(t, norm_options)->eps = note_double(t, "eps", eps);
    draw_input(t, "x", shape);
    static const char *const names[] = {"weight", "bias"};
    for (int k = 0; k < (is_rms(t) ? 1 : 2); k++) {
        tg_shape parameter = TG_SHAPE(draw_chance(t, 2) ? draw_size(t) : width);
        parameter.rank -= draw_chance(t, 1);
        if (draw_chance(t, is_rms(t) ? 97 : 60)) { /* tg_rms_norm's weight is not optional */
            /* A number that is not normal may count as 0, and an infinite weight would give NaN. */
            const flavor drawn = t->flavor;
            t->flavor = drawn == SPECIAL && k == 0 ? SMOOTH : drawn;
            draw_input(t, names[k], parameter);
            t->flavor = drawn;
        } else {
            draw_absent(t, names[k]);
        }
    }
}

static bool is_valid_norm(const trial *t)
{
    tg_shape shape = t->inputs[0].x.shape;
    for (int k = 1; k < t->input_count; k++) {
        tg_shape parameter = t->inputs[k].x.shape;
        if (t->inputs[k].is_present &&
            (parameter.rank != 1 || shape.rank == 0 || parameter.size[0] != shape.size[shape.rank - 1])) {
            return false;
        }
    }
    bool has_weight = !is_rms(t) || t->inputs[1].is_present;
    return shape.rank >= 1 && shape.size[shape.rank - 1] >= 1 && has_weight && OPTIONS(t, norm_options)->eps > 0;
}

static tg_tensor *call_norm(trial *t)
{
    double eps = OPTIONS(t, norm_options)->eps;
    return is_rms(t) ? tg_rms_norm(t->tape, t->inputs[0].tensor, t->inputs[1].tensor, eps)
                     : tg_layer_norm(t->tape, t->inputs[0].tensor, t->inputs[1].tensor, t->inputs[2].tensor, eps);
}

/* The normalized values of a row, (x - mean) / sqrt(var + eps), their terms, and the factor. */
typedef struct normalized {
    double *values, *terms;
    double factor, lost; /* 1 / sqrt(..), and the roundings that it may be off by */
} normalized;

static normalized normalize(trial *t, const double *x, int64_t width)
{
    double mean = 0, magnitude = 0, square = 0, square_terms = 0, eps = OPTIONS(t, norm_options)->eps;
    for (int64_t k = 0; k < width && !is_rms(t); k++) {
        mean += x[k] / (double)width;
        magnitude += fabs(x[k]) / (double)width;
    }
    for (int64_t k = 0; k < width; k++) {
        double terms = fabs(x[k]) + magnitude, centered = x[k] - mean;
        square += centered * centered / (double)width;
        square_terms +=
            (fabs(centered) * terms + eps_of(t->dtype) * terms * terms + overflow_of(t, terms * terms)) / (double)width;
    }
    normalized n = {numbers(t, width), numbers(t, width), 1 / sqrt(square + eps), 1 + square_terms / (square + eps)};
    n.lost += overflow_of(t, square_terms * (double)width);
    for (int64_t k = 0; k < width; k++) {
        n.values[k] = (x[k] - mean) * n.factor;
        n.terms[k] = (fabs(x[k]) + magnitude) * n.factor + fabs(n.values[k]) * n.lost + FLT_MIN;
    }
    return n;
}

static void norm_forward(trial *t)
{
    const input *x = &t->inputs[0], *weight = &t->inputs[1], *bias = is_rms(t) ? NULL : &t->inputs[2];
    array *y = output_new(t, 0, x->x.shape);
    int64_t width = x->x.shape.size[x->x.shape.rank - 1];
    for (int64_t row = 0; row < y->count / width; row++) {
        normalized n = normalize(t, x->x.values + row * width, width);
        for (int64_t k = 0; k < width; k++) {
            double scale = weight->is_present ? weight->x.values[k] : 1;
            double shift = bias && bias->is_present ? bias->x.values[k] : 0;
            double terms = n.terms[k] * fabs(scale) + fabs(shift);
            put_terms(y, row * width + k, n.values[k] * scale + shift, terms + overflow_of(t, n.terms[k]));
        }
    }
}

/* dx = (g - mean(g) - xn mean(g xn)) factor with g = weight dy and the normalized values xn; tg_rms_norm has no
 * mean(g). */
static void norm_backward(trial *t)
{
    input *x = &t->inputs[0], *weight = &t->inputs[1], *bias = is_rms(t) ? NULL : &t->inputs[2];
    int64_t width = x->x.shape.size[x->x.shape.rank - 1];
    for (int64_t row = 0; row < x->x.count / width; row++) {
        normalized n = normalize(t, x->x.values + row * width, width);
        const double *dy = t->outputs[0].dy.values + row * width;
        double mean = 0, mean_terms = 0, product = 0, product_terms = 0;
        for (int64_t k = 0; k < width; k++) {
            double g = dy[k] * (weight->is_present ? weight->x.values[k] : 1);
            mean += is_rms(t) ? 0 : g / (double)width;
            mean_terms += is_rms(t) ? 0 : fabs(g) / (double)width;
            product += g * n.values[k] / (double)width;
            product_terms += fabs(g) * n.terms[k] / (double)width;
            if (weight->is_present) {
                add_terms(&weight->dx, k, dy[k] * n.values[k], fabs(dy[k]) * n.terms[k] + overflow_of(t, n.terms[k]));
            }
            if (bias && bias->is_present) {
                add(&bias->dx, k, dy[k]);
            }
        }
        for (int64_t k = 0; k < width; k++) {
            double g = dy[k] * (weight->is_present ? weight->x.values[k] : 1);
            double terms = fabs(g) + mean_terms + n.terms[k] * product_terms;
            add_terms(&x->dx, row * width + k, (g - mean - n.values[k] * product) * n.factor,
                      terms * n.factor * n.lost + overflow_of(t, terms) +
                          overflow_of(t, product_terms * (double)width));
        }
    }
}

static const reference references[] = {
    {
        .op = "tg_softmax",
        .draw = draw_softmax,
        .is_valid = is_valid_softmax,
        .call = call_softmax,
        .forward = softmax_forward,
        .backward = softmax_backward,
        .roundings = 16,
        .gradient_roundings = 64,
    },
    {
        .op = "tg_log_softmax",
        .draw = draw_softmax,
        .is_valid = is_valid_softmax,
        .call = call_softmax,
        .forward = softmax_forward,
        .backward = softmax_backward,
        .roundings = 16,
        .gradient_roundings = 64,
    },
    {
        .op = "tg_layer_norm",
        .draw = draw_norm,
        .is_valid = is_valid_norm,
        .call = call_norm,
        .forward = norm_forward,
        .backward = norm_backward,
        .roundings = 16,
        .gradient_roundings = 64,
    },
    {
        .op = "tg_rms_norm",
        .draw = draw_norm,
        .is_valid = is_valid_norm,
        .call = call_norm,
        .forward = norm_forward,
        .backward = norm_backward,
        .roundings = 16,
        .gradient_roundings = 64,
    },
};

const reference_family normalization = {"normalization", references, sizeof references / sizeof *references, 8000};
