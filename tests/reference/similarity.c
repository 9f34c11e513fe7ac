/* similarity: tg_cosine_similarity, tg_cosine_embedding_loss, and the calls of tg_triplet_margin_loss.
 *
 * A cosine and a distance are composed of sums over rows; the gradients follow the chain rule by hand, with torch's
 * choices where a derivative does not exist.
 */
#include "similarity.h"

#include <string.h>

/* ---- tg_cosine_similarity ---- */

static void draw_cosine(trial *t)
{
    similarity_options *o = OPTIONS(t, similarity_options);
    tg_shape shape =
        draw_chance(t, 6) ? TG_SHAPE(draw_integer(t, 1, 4), draw_integer(t, 1, 70)) : draw_shape(t, 0, TG_MAX_RANK);
    o->given_eps = draw_chance(t, 4) ? DRAW_DOUBLE_OF(t, -1, INFINITY, NAN)
                   : t->flavor == SMOOTH && count_of(shape) > 0 && draw_chance(t, 20)
                       ? 0
                       : DRAW_DOUBLE_OF(t, 1e-8, 1e-8, 1e-8, 0.5, 1, 3, 1e-3);
    o->eps = converted(t->dtype, note_double(t, "eps", o->given_eps));
    draw_input(t, "a", draw_broadcastable(t, shape));
    draw_input(t, "b", draw_broadcastable(t, shape));
    o->axis = (int)note_integer(t, "axis", draw_axis(t, shape.rank));
}

static bool is_valid_cosine(const trial *t)
{
    const similarity_options *o = OPTIONS(t, similarity_options);
    tg_shape shape;
    if (!broadcast_shapes(t->inputs[0].x.shape, t->inputs[1].x.shape, &shape)) {
        return false;
    }
    return is_axis(o->axis, shape.rank == 0 ? 1 : shape.rank) && o->given_eps >= 0 && isfinite(o->given_eps);
}

static tg_tensor *call_cosine(trial *t)
{
    const similarity_options *o = OPTIONS(t, similarity_options);
    return tg_cosine_similarity(t->tape, t->inputs[0].tensor, t->inputs[1].tensor, o->axis, o->given_eps);
}

/* The numbers of the values of a and b that cosine i is of. */
static int64_t find_row(const trial *t, int64_t i, int64_t *a, int64_t *b)
{
    tg_shape both, rest, a_shape = t->inputs[0].x.shape, b_shape = t->inputs[1].x.shape;
    broadcast_shapes(a_shape, b_shape, &both);
    int64_t index[TG_MAX_RANK], full[TG_MAX_RANK] = {0};
    if (both.rank == 0) {
        a[0] = b[0] = 0;
        return 1;
    }
    int axis = axis_from_front(OPTIONS(t, similarity_options)->axis, both.rank);
    rest = both;
    rest.rank--;
    for (int k = axis; k < rest.rank; k++) {
        rest.size[k] = both.size[k + 1];
    }
    split_index(rest, i, index);
    for (int k = 0; k < both.rank; k++) {
        full[k] = k < axis ? index[k] : k > axis ? index[k - 1] : 0;
    }
    for (int64_t k = 0; k < both.size[axis]; k++) {
        full[axis] = k;
        a[k] = broadcast_index(a_shape, both.rank, full);
        b[k] = broadcast_index(b_shape, both.rank, full);
    }
    return both.size[axis];
}

static array *new_cosines(trial *t)
{
    tg_shape shape;
    broadcast_shapes(t->inputs[0].x.shape, t->inputs[1].x.shape, &shape);
    int axis = axis_from_front(OPTIONS(t, similarity_options)->axis, shape.rank);
    for (int k = axis; k + 1 < shape.rank; k++) {
        shape.size[k] = shape.size[k + 1];
    }
    shape.rank -= shape.rank > 0;
    return output_new(t, 0, shape);
}

/* The norm of the row x at these positions, which the cosine takes as eps at least. */
static double norm_of(const double *x, const int64_t *at, int64_t count)
{
    double square = 0;
    for (int64_t k = 0; k < count; k++) {
        square += x[at[k]] * x[at[k]];
    }
    return sqrt(square);
}

static double at_least(double norm, double eps)
{
    return norm < eps ? eps : norm;
}

static void cosine_forward(trial *t)
{
    array *y = new_cosines(t);
    const size_t most = (size_t)(t->inputs[0].x.count + t->inputs[1].x.count + 1); /* values of a row */
    int64_t *a = trial_memory(t, most * sizeof *a), *b = trial_memory(t, most * sizeof *b);
    double eps = OPTIONS(t, similarity_options)->eps;
    for (int64_t i = 0; i < y->count; i++) {
        int64_t count = find_row(t, i, a, b);
        const double *va = t->inputs[0].x.values, *vb = t->inputs[1].x.values;
        double norm_a = at_least(norm_of(va, a, count), eps), norm_b = at_least(norm_of(vb, b, count), eps);
        put(y, i, 0 / (norm_a * norm_b)); /* NaN of rows without values, if eps is 0 */
        for (int64_t k = 0; k < count; k++) {
            double term = va[a[k]] / norm_a * (vb[b[k]] / norm_b);
            add_terms(y, i, term, fabs(term) + overflow_of(t, norm_a * norm_a) + overflow_of(t, norm_b * norm_b));
        }
    }
}

/* Adds dy d cos / dx for x = a or b: dy (other / (|a| |b|) - cos x / (|x| n)). As in torch, n is the norm with eps, and
 * |x| the norm without: a row below eps has its share of the second term, too, and none if it is 0. */
static void add_cosine_gradient(trial *t, int side, double dy, const int64_t *x, const int64_t *other, int64_t count)
{
    const double *vx = t->inputs[side].x.values, *vo = t->inputs[1 - side].x.values;
    double eps = OPTIONS(t, similarity_options)->eps, norm = norm_of(vx, x, count), n = at_least(norm, eps);
    double m = at_least(norm_of(vo, other, count), eps), cosine = 0, terms = 0;
    for (int64_t k = 0; k < count; k++) {
        cosine += vx[x[k]] / n * (vo[other[k]] / m);
        terms += fabs(vx[x[k]] / n * (vo[other[k]] / m));
    }
    for (int64_t k = 0; k < count; k++) {
        double first = vo[other[k]] / m / n, second = norm == 0 ? 0 * cosine : cosine * vx[x[k]] / norm / n;
        double more = overflow_of(t, n * n) + overflow_of(t, m * m) + overflow_of(t, first) + overflow_of(t, 1 / n);
        add_terms(&t->inputs[side].dx, x[k], dy * (first - second),
                  fabs(dy) * (fabs(first) + (norm == 0 ? 0 : terms * fabs(vx[x[k]]) / norm / n)) + more);
    }
}

static void cosine_backward(trial *t)
{
    const array *dy = &t->outputs[0].dy;
    const size_t most = (size_t)(t->inputs[0].x.count + t->inputs[1].x.count + 1); /* values of a row */
    int64_t *a = trial_memory(t, most * sizeof *a), *b = trial_memory(t, most * sizeof *b);
    for (int64_t i = 0; i < dy->count; i++) {
        int64_t count = find_row(t, i, a, b);
        add_cosine_gradient(t, 0, dy->values[i], a, b, count);
        add_cosine_gradient(t, 1, dy->values[i], b, a, count);
    }
}

/* ---- rows of the losses ---- */

static bool is_triplet(const trial *t)
{
    return strcmp(t->reference->op, "tg_triplet_margin_loss") == 0;
}

static tg_shape draw_rows(trial *t)
{
    return draw_chance(t, 6)   ? TG_SHAPE(draw_integer(t, 1, 4), draw_integer(t, 1, 70))
           : draw_chance(t, 4) ? TG_SHAPE(draw_integer(t, 60, 70), draw_integer(t, 1, 6))
                               : draw_shape(t, draw_chance(t, 2) ? 0 : 1, TG_MAX_RANK);
}

static void draw_similarity(trial *t)
{
    similarity_options *o = OPTIONS(t, similarity_options);
    *o = (similarity_options){
        .has_config = !draw_chance(t, 5), .given_margin = is_triplet(t), .given_p = 2, .given_eps = 1e-6};
    if (note_bool(t, "has_config", o->has_config)) {
        o->reduction = draw_reduction(t);
        o->given_margin = draw_number(t, "margin", is_triplet(t) ? 0.01 : -1, 3);
        if (is_triplet(t)) {
            o->given_p =
                draw_chance(t, 3) ? DRAW_DOUBLE_OF(t, 0, -1, NAN) : DRAW_DOUBLE_OF(t, 0.5, 1, 1.5, 2, 3, INFINITY);
            o->given_eps = draw_chance(t, 70) ? DRAW_DOUBLE_OF(t, 1e-6, 0, 0.5) : draw_number(t, "eps", 0, 0.1);
            o->swap = note_bool(t, "swap", draw_chance(t, 50));
            note_double(t, "p", o->given_p);
            note_double(t, "eps", o->given_eps);
        }
    }
    o->margin = converted(t->dtype, o->given_margin);
    o->p = converted(t->dtype, o->given_p);
    o->eps = converted(t->dtype, o->given_eps);
    /* Which gradient is NaN beside an infinite distance depends on the order of operations. */
    t->flavor = is_triplet(t) && t->flavor == SPECIAL ? WIDE : t->flavor;
    tg_shape shape = draw_rows(t);
    static const char *const names[] = {"first", "second", "third"};
    for (int k = 0; k < (is_triplet(t) ? 3 : 2); k++) {
        draw_input(t, names[k], k > 0 && draw_chance(t, 2) ? draw_broadcastable(t, shape) : shape);
    }
    if (!is_triplet(t)) {
        tg_shape rows = draw_chance(t, 2) ? draw_rows(t) : without_last(shape);
        double *targets = numbers(t, count_of(rows));
        for (int64_t i = 0; i < count_of(rows); i++) {
            targets[i] = draw_chance(t, 10) ? draw_value(t) : draw_chance(t, 50) ? 1 : -1;
        }
        draw_constant_of(t, "target", rows, targets);
    }
}

static bool is_valid_similarity(const trial *t)
{
    const similarity_options *o = OPTIONS(t, similarity_options);
    tg_shape shape = t->inputs[0].x.shape;
    bool matches = shape.rank >= 1 && tg_shape_equal(shape, t->inputs[1].x.shape);
    if (is_triplet(t)) {
        return matches && tg_shape_equal(shape, t->inputs[2].x.shape) && is_reduction(t, o->reduction) &&
               o->given_margin > 0 && isfinite(o->given_margin) && o->given_p > 0 && o->given_eps >= 0 &&
               isfinite(o->given_eps);
    }
    return matches && tg_shape_equal(without_last(shape), t->inputs[2].x.shape) && is_reduction(t, o->reduction) &&
           isfinite(o->given_margin) && !refuses_gradient(t, &t->inputs[2]);
}

static tg_tensor *call_cosine_embedding(trial *t)
{
    const similarity_options *o = OPTIONS(t, similarity_options);
    tg_cosine_embedding_loss_config config = tg_cosine_embedding_loss_config_default();
    config.margin = o->given_margin;
    config.reduction = o->reduction;
    return tg_cosine_embedding_loss(t->tape, t->inputs[0].tensor, t->inputs[1].tensor, t->inputs[2].tensor,
                                    o->has_config ? &config : NULL);
}

/* ---- tg_cosine_embedding_loss: as in torch, cos = sum(a b) / sqrt((sum(a^2) + 1e-12) (sum(b^2) + 1e-12)) ---- */

typedef struct sums {
    double product, terms, a, b, cosine;
} sums;

static sums sums_of(const trial *t, int64_t row, int64_t width)
{
    const double *a = t->inputs[0].x.values + row * width, *b = t->inputs[1].x.values + row * width;
    sums s = {0, 0, 1e-12F, 1e-12F, 0}; /* torch's constant is a float */
    for (int64_t k = 0; k < width; k++) {
        s.product += a[k] * b[k];
        s.terms += fabs(a[k] * b[k]);
        s.a += a[k] * a[k];
        s.b += b[k] * b[k];
    }
    s.cosine = s.product / sqrt(s.a * s.b);
    s.terms = s.terms / sqrt(s.a * s.b) + overflow_of(t, s.a * s.b) + overflow_of(t, s.terms);
    return s;
}

static void cosine_embedding_forward(trial *t)
{
    const similarity_options *o = OPTIONS(t, similarity_options);
    tg_shape shape = t->inputs[0].x.shape;
    array losses = array_new(t, without_last(shape));
    for (int64_t row = 0; row < losses.count; row++) {
        sums s = sums_of(t, row, shape.size[shape.rank - 1]);
        double target = t->inputs[2].x.values[row];
        double loss = target == 1 ? 1 - s.cosine : target == -1 ? positive_part(s.cosine - o->margin) : 0;
        put_terms(&losses, row, loss, target == 1 || target == -1 ? 1 + fabs(o->margin) + s.terms : 0);
    }
    put_reduced(t, &losses, o->reduction, divisor_of(o->reduction, losses.shape));
}

static void cosine_embedding_backward(trial *t)
{
    const similarity_options *o = OPTIONS(t, similarity_options);
    tg_shape shape = t->inputs[0].x.shape, rows = without_last(shape);
    int64_t width = shape.size[shape.rank - 1];
    for (int64_t row = 0; row < count_of(rows); row++) {
        double dy = gradient_of_loss(t, o->reduction, divisor_of(o->reduction, rows), row);
        double target = t->inputs[2].x.values[row];
        sums s = sums_of(t, row, width);
        bool is_far = target == -1 && s.cosine - o->margin < 0;
        double slope = target == 1 ? -dy : target == -1 && !is_far ? dy : 0;
        double slope_terms = target == 1    ? fabs(dy)
                             : target == -1 ? terms_of_step(t, dy, s.cosine - o->margin, 1 + s.terms + fabs(o->margin))
                                            : 0;
        slope_terms = is_far && slope_terms == fabs(dy) ? 0 : slope_terms;
        for (int64_t i = row * width; i < (row + 1) * width; i++) {
            double a = t->inputs[0].x.values[i], b = t->inputs[1].x.values[i], norm = sqrt(s.a * s.b);
            double more = overflow_of(t, s.a * s.b) + overflow_of(t, slope_terms / norm);
            add_terms(&t->inputs[0].dx, i, slope * (b / norm - s.cosine * a / s.a),
                      slope_terms * (fabs(b) / norm + s.terms * fabs(a) / s.a) + more);
            add_terms(&t->inputs[1].dx, i, slope * (a / norm - s.cosine * b / s.b),
                      slope_terms * (fabs(a) / norm + s.terms * fabs(b) / s.b) + more);
        }
    }
}

static const reference references[] = {
    {
        .op = "tg_cosine_similarity",
        .draw = draw_cosine,
        .is_valid = is_valid_cosine,
        .call = call_cosine,
        .forward = cosine_forward,
        .backward = cosine_backward,
        .roundings = 64,
        .gradient_roundings = 128,
    },
    {
        .op = "tg_cosine_embedding_loss",
        .draw = draw_similarity,
        .is_valid = is_valid_similarity,
        .call = call_cosine_embedding,
        .forward = cosine_embedding_forward,
        .backward = cosine_embedding_backward,
        .roundings = 64,
        .gradient_roundings = 128,
    },
    {
        .op = "tg_triplet_margin_loss",
        .draw = draw_similarity,
        .is_valid = is_valid_similarity,
        .call = call_triplet,
        .forward = triplet_forward,
        .backward = triplet_backward,
        .roundings = 64,
        .gradient_roundings = 128,
    },
};

reference_family similarity = {"similarity", references, sizeof references / sizeof *references, 20000, NULL};
