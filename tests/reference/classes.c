/* classes: tg_cross_entropy, tg_nll_loss and tg_linear_cross_entropy, row by row. */
#include "losses.h"

#include <float.h>
#include <string.h>

typedef struct class_options {
    tg_reduction reduction;
    bool has_config, has_probabilities; /* targets (..,V) */
    int64_t ignore_index;
    double label_smoothing;
} class_options;

/* The inputs, by their numbers. tg_linear_cross_entropy has FACTOR, the weight that the logits are products with. */
enum { X, TARGETS, CLASS_WEIGHT, FACTOR };

static bool is_op(const trial *t, const char *op)
{
    return strcmp(t->reference->op, op) == 0;
}

static bool is_linear(const trial *t)
{
    return is_op(t, "tg_linear_cross_entropy");
}

static double smoothing(const trial *t)
{
    return OPTIONS(t, class_options)->label_smoothing;
}

/* ---- a call ---- */

static void draw_options(trial *t, int64_t classes)
{
    class_options *o = OPTIONS(t, class_options);
    *o = (class_options){TG_REDUCTION_MEAN, !draw_chance(t, 8), false, -100, 0};
    if (!note_bool(t, "has_config", o->has_config)) {
        return;
    }
    o->reduction = draw_reduction(t);
    if (draw_chance(t, 60)) {
        o->ignore_index = draw_chance(t, 70) && classes > 0 ? draw_integer(t, 0, classes - 1)
                                                            : DRAW_ONE_OF(t, -1, INT32_MIN, INT32_MAX, classes);
    }
    bool is_smoothed = draw_chance(t, is_op(t, "tg_nll_loss") ? 3 : 50);
    o->label_smoothing = !is_smoothed         ? 0
                         : draw_chance(t, 5)  ? DRAW_DOUBLE_OF(t, -0.1, 1.5, NAN, INFINITY)
                         : draw_chance(t, 30) ? 1
                                              : draw_uniform(t, 0, 1);
    note_integer(t, "ignore_index", o->ignore_index);
    note_double(t, "label_smoothing", o->label_smoothing);
    o->has_probabilities = is_op(t, "tg_cross_entropy") && draw_chance(t, 35);
}

/* Ids of classes, some of them ignored. Seldom one that is neither. */
static void draw_ids(trial *t, tg_shape shape, int64_t classes)
{
    const class_options *o = OPTIONS(t, class_options);
    int ignored = draw_chance(t, 10) ? 100 : draw_chance(t, 50) ? 40 : 0;
    double *ids = numbers(t, count_of(shape));
    for (int64_t i = 0; i < count_of(shape); i++) {
        bool is_ignored = classes == 0 || draw_chance(t, ignored);
        ids[i] = (double)(is_ignored ? o->ignore_index : draw_integer(t, 0, classes - 1));
    }
    if (count_of(shape) > 0 && draw_chance(t, 3)) {
        ids[draw_integer(t, 0, count_of(shape) - 1)] = (double)DRAW_ONE_OF(t, -1, classes, INT32_MIN, INT32_MAX, -100);
    }
    draw_layout(t, "targets", TG_I32, shape, ids);
}

/* Positive weights, and zeros where no mean divides by their sum. */
static void draw_class_weight(trial *t, int64_t classes)
{
    double *weights = numbers(t, classes);
    for (int64_t k = 0; k < classes; k++) {
        bool is_zero = OPTIONS(t, class_options)->reduction != TG_REDUCTION_MEAN && draw_chance(t, 20);
        weights[k] = is_zero ? 0 : draw_uniform(t, 0.25, 3);
    }
    draw_constant_of(t, "class weight", TG_SHAPE(classes), weights);
}

static void draw_classes(trial *t)
{
    tg_shape x = draw_chance(t, 6)   ? TG_SHAPE(draw_integer(t, 1, 6), draw_integer(t, 1, 70))
                 : draw_chance(t, 4) ? TG_SHAPE(draw_integer(t, 60, 140), draw_integer(t, 1, 6))
                                     : draw_shape(t, draw_chance(t, 2) ? 0 : 1, TG_MAX_RANK - 1);
    int64_t width = x.rank > 0 ? x.size[x.rank - 1] : 1, classes = is_linear(t) ? draw_size(t) : width;
    draw_options(t, classes);
    const class_options *o = OPTIONS(t, class_options);
    tg_shape targets = x;
    targets.rank -= !o->has_probabilities && x.rank > 0;
    if (draw_chance(t, 2)) {
        targets = draw_shape(t, 0, 3);
    }
    draw_input(t, "x", x);
    if (!o->has_probabilities) {
        draw_ids(t, targets, classes);
    } else if (t->flavor == SPECIAL || draw_chance(t, 50)) { /* no infinite probabilities */
        draw_input_within(t, "targets", targets, 0, 1);
    } else {
        draw_input(t, "targets", targets);
    }
    if (o->has_config && draw_chance(t, 50)) {
        draw_class_weight(t, draw_chance(t, 3) ? draw_size(t) : classes);
    } else {
        draw_absent(t, "class weight");
    }
    if (is_linear(t)) {
        tg_shape weight = TG_SHAPE(classes, draw_chance(t, 2) ? draw_size(t) : width);
        if (t->flavor == SPECIAL) { /* products of 1e30 overflow in f32 */
            draw_input_within(t, "weight", weight, -2, 2);
        } else {
            draw_input(t, "weight", weight);
        }
    }
}

static int64_t count_classes(const trial *t)
{
    tg_shape x = t->inputs[X].x.shape;
    return is_linear(t) ? t->inputs[FACTOR].x.shape.size[0] : x.size[x.rank - 1];
}

static bool is_ignored(const trial *t, int64_t row)
{
    return t->inputs[TARGETS].x.values[row] == (double)OPTIONS(t, class_options)->ignore_index;
}

static bool is_valid_classes(const trial *t)
{
    const class_options *o = OPTIONS(t, class_options);
    const input *targets = &t->inputs[TARGETS], *weight = &t->inputs[CLASS_WEIGHT];
    tg_shape x = t->inputs[X].x.shape, rows = x;
    if (x.rank == 0 || x.size[x.rank - 1] == 0 || count_classes(t) == 0 ||
        (is_linear(t) && t->inputs[FACTOR].x.shape.size[1] != x.size[x.rank - 1])) {
        return false;
    }
    rows.rank -= !o->has_probabilities;
    double most = is_op(t, "tg_nll_loss") ? 0 : 1;
    if (!tg_shape_equal(rows, targets->x.shape) || !is_reduction(t, o->reduction) ||
        !(o->label_smoothing >= 0 && o->label_smoothing <= most) || refuses_gradient(t, weight) ||
        (weight->is_present && weight->x.shape.size[0] != count_classes(t))) {
        return false;
    }
    for (int64_t row = 0; !o->has_probabilities && row < targets->x.count; row++) {
        double id = targets->x.values[row];
        if (!is_ignored(t, row) && !(id >= 0 && id < (double)count_classes(t))) {
            return false;
        }
    }
    return true;
}

static tg_tensor *call_classes(trial *t)
{
    const class_options *o = OPTIONS(t, class_options);
    tg_cross_entropy_config config = tg_cross_entropy_config_default();
    config.reduction = o->reduction;
    config.ignore_index = (int32_t)o->ignore_index;
    config.label_smoothing = o->label_smoothing;
    config.weight = t->inputs[CLASS_WEIGHT].tensor;
    const tg_cross_entropy_config *given = o->has_config ? &config : NULL;
    tg_tensor *x = t->inputs[X].tensor, *targets = t->inputs[TARGETS].tensor;
    return is_linear(t)              ? tg_linear_cross_entropy(t->tape, x, t->inputs[FACTOR].tensor, targets, given)
           : is_op(t, "tg_nll_loss") ? tg_nll_loss(t->tape, x, targets, given)
                                     : tg_cross_entropy(t->tape, x, targets, given);
}

/* ---- the formulas ---- */

/* The logarithms of the probabilities of a row, and their terms. */
typedef struct row_of_classes {
    int64_t classes;
    double *log_p, *terms;
} row_of_classes;

static row_of_classes row_of(trial *t, int64_t row)
{
    const array *x = &t->inputs[X].x;
    int64_t classes = count_classes(t), width = x->shape.size[x->shape.rank - 1];
    row_of_classes r = {classes, numbers(t, classes), numbers(t, classes)};
    for (int64_t k = 0; k < classes; k++) {
        for (int64_t c = 0; is_linear(t) && c < width; c++) {
            double product = x->values[row * width + c] * t->inputs[FACTOR].x.values[k * width + c];
            r.log_p[k] += product;
            r.terms[k] += isfinite(product) ? fabs(product) : 0;
        }
        r.log_p[k] = is_linear(t) ? r.log_p[k] : x->values[row * width + k];
    }
    if (is_op(t, "tg_nll_loss")) {
        for (int64_t k = 0; k < classes; k++) {
            r.terms[k] = fabs(r.log_p[k]);
        }
        return r;
    }
    double maximum = -INFINITY, sum = 0, largest = 0;
    for (int64_t k = 0; k < classes; k++) {
        maximum = isnan(r.log_p[k]) || r.log_p[k] > maximum ? r.log_p[k] : maximum;
        largest = r.terms[k] > largest ? r.terms[k] : largest;
    }
    for (int64_t k = 0; k < classes; k++) {
        sum += exp(r.log_p[k] - maximum);
    }
    for (int64_t k = 0; k < classes; k++) {
        double shifted = r.log_p[k] - maximum;
        r.log_p[k] = shifted - log(sum);
        r.terms[k] = fabs(shifted) + fabs(log(sum)) + fabs(maximum) + 1 + 2 * largest;
    }
    return r;
}

static double weight_of(const trial *t, int64_t k)
{
    return t->inputs[CLASS_WEIGHT].is_present ? t->inputs[CLASS_WEIGHT].x.values[k] : 1;
}

static int64_t count_rows(const trial *t)
{
    const class_options *o = OPTIONS(t, class_options);
    tg_shape rows = t->inputs[TARGETS].x.shape;
    rows.rank -= o->has_probabilities;
    return count_of(rows);
}

/* What a mean divides by: the weights of the targets that count, or the number of rows with probabilities. */
static double divisor(const trial *t)
{
    const class_options *o = OPTIONS(t, class_options);
    if (o->reduction != TG_REDUCTION_MEAN) {
        return 1;
    }
    double sum = 0;
    for (int64_t row = 0; row < count_rows(t); row++) {
        if (o->has_probabilities) {
            sum += 1;
        } else if (!is_ignored(t, row)) {
            sum += weight_of(t, (int64_t)t->inputs[TARGETS].x.values[row]);
        }
    }
    return sum;
}

/* The factors of -log_p[k] in the loss of a row: that of the target, and that of the smoothing. */
static double target_factor(const trial *t, int64_t row, int64_t classes, int64_t k)
{
    const array *targets = &t->inputs[TARGETS].x;
    if (OPTIONS(t, class_options)->has_probabilities) {
        return weight_of(t, k) * targets->values[row * classes + k] * (1 - smoothing(t));
    }
    return targets->values[row] == (double)k ? weight_of(t, k) * (1 - smoothing(t)) : 0;
}

static double smoothing_factor(const trial *t, int64_t classes, int64_t k)
{
    return weight_of(t, k) * smoothing(t) / (double)classes;
}

static bool is_skipped(const trial *t, int64_t row)
{
    return !OPTIONS(t, class_options)->has_probabilities && is_ignored(t, row);
}

/* The loss of a row is infinite if a class is impossible (its logarithm is -inf), or NaN if its factor is 0; but with
 * probabilities a class whose factor is 0 does not count (torch has NaN). */
static void classes_forward(trial *t)
{
    const class_options *o = OPTIONS(t, class_options);
    tg_shape rows = t->inputs[TARGETS].x.shape;
    rows.rank -= o->has_probabilities;
    array losses = array_new(t, rows);
    for (int64_t row = 0; row < losses.count; row++) {
        row_of_classes r = row_of(t, row);
        for (int64_t k = 0; k < r.classes && !is_skipped(t, row); k++) {
            double terms = r.terms[k] + overflow_of(t, r.terms[k]);
            double share = target_factor(t, row, r.classes, k);
            if (o->has_probabilities ? share != 0 : t->inputs[TARGETS].x.values[row] == (double)k) {
                add_terms(&losses, row, -share * r.log_p[k], fabs(share) * terms);
            }
            double spread = smoothing_factor(t, r.classes, k);
            if (o->has_probabilities ? spread != 0 : smoothing(t) > 0) {
                add_terms(&losses, row, -spread * r.log_p[k], fabs(spread) * terms);
            }
        }
    }
    put_reduced(t, &losses, o->reduction, divisor(t));
}

/* Adds the gradient of the logits of a row, or of its logarithms of probabilities. */
static void add_gradient_of_logits(trial *t, int64_t row, int64_t k, double dx, double terms)
{
    input *x = &t->inputs[X], *factor = &t->inputs[FACTOR];
    int64_t width = x->x.shape.size[x->x.shape.rank - 1];
    if (!is_linear(t)) {
        add_terms(&x->dx, row * width + k, dx, terms);
        return;
    }
    for (int64_t c = 0; c < width; c++) {
        double a = x->x.values[row * width + c], b = factor->x.values[k * width + c];
        add_terms(&x->dx, row * width + c, dx * b, terms * fabs(b) + overflow_of(t, terms));
        add_terms(&factor->dx, k * width + c, dx * a, terms * fabs(a) + overflow_of(t, terms));
    }
}

/* The gradient of class k: p[k] sum(factor) - factor[k], or -factor[k] of tg_nll_loss. Those of an ignored row are
 * 0, also beside a NaN, where torch has NaN. */
static void classes_backward(trial *t)
{
    const class_options *o = OPTIONS(t, class_options);
    bool is_nll = is_op(t, "tg_nll_loss");
    const double divided_by = divisor(t);
    for (int64_t row = 0; row < count_rows(t); row++) {
        if (is_skipped(t, row)) {
            for (int64_t k = 0; is_linear(t) && k < count_classes(t); k++) {
                add_gradient_of_logits(t, row, k, 0, 0);
            }
            continue;
        }
        double dy = gradient_of_loss(t, o->reduction, divided_by, row), sum = 0, sum_terms = 0;
        row_of_classes r = row_of(t, row);
        for (int64_t k = 0; k < r.classes; k++) {
            double target = target_factor(t, row, r.classes, k), smoothed = smoothing_factor(t, r.classes, k);
            sum += target + smoothed;
            sum_terms += fabs(target) + fabs(smoothed);
        }
        for (int64_t k = 0; k < r.classes; k++) {
            double target = target_factor(t, row, r.classes, k), smoothed = smoothing_factor(t, r.classes, k);
            double factor = target + smoothed, p = is_nll ? 0 : exp(r.log_p[k]),
                   p_terms = FLT_MIN / FLT_EPSILON + (p > 0 ? p * (1 + r.terms[k]) : 0);
            add_gradient_of_logits(t, row, k, dy * ((is_nll ? 0 : p * sum) - factor),
                                   fabs(dy) * (p_terms * sum_terms + fabs(target) + fabs(smoothed)));
            if (o->has_probabilities) {
                double share = -dy * weight_of(t, k) * (1 - smoothing(t));
                add_terms(&t->inputs[TARGETS].dx, row * r.classes + k, share * r.log_p[k], fabs(share) * r.terms[k]);
            }
        }
    }
}

#define REFERENCE(name)                                                                                       \
    {                                                                                                         \
        .op = name, .draw = draw_classes, .is_valid = is_valid_classes, .call = call_classes,                 \
        .forward = classes_forward, .backward = classes_backward, .roundings = 64, .gradient_roundings = 128, \
    }

static const reference references[] = {
    REFERENCE("tg_cross_entropy"),
    REFERENCE("tg_nll_loss"),
    REFERENCE("tg_linear_cross_entropy"),
};

reference_family classes = {"classes", references, sizeof references / sizeof *references, 40000, NULL};
