/* distances: losses of each value of a prediction and a target, which are summed, averaged or returned.
 *
 * The formulas at infinities and NaN are those of torch 2.13, in its order of operations.
 */
#include "distances.h"

#include <string.h>

enum { MOST_INPUTS = 4 };

static double number_of(const trial *t)
{
    return OPTIONS(t, loss_options)->number;
}

/* ---- tg_mse_loss and tg_l1_loss, which have no config ---- */

static tg_tensor *call_mse_loss(trial *t)
{
    return tg_mse_loss(ARGUMENTS, OPTIONS(t, loss_options)->reduction);
}

static quantity mse_value(const trial *t, const double *in)
{
    double distance = in[0] - in[1];
    (void)t;
    return plain(distance * distance);
}

static quantity mse_slope(const trial *t, int k, const double *in)
{
    (void)t;
    return plain((k == 0 ? 2 : -2) * (in[0] - in[1]));
}

static tg_tensor *call_l1_loss(trial *t)
{
    return tg_l1_loss(ARGUMENTS, OPTIONS(t, loss_options)->reduction);
}

static quantity l1_value(const trial *t, const double *in)
{
    (void)t;
    return plain(fabs(in[0] - in[1]));
}

static quantity l1_slope(const trial *t, int k, const double *in)
{
    (void)t;
    return plain((k == 0 ? 1 : -1) * sign_of(in[0] - in[1]));
}

/* ---- tg_smooth_l1_loss and tg_huber_loss ---- */

#define CALL_WITH_CONFIG(op, member, arguments)               \
    static tg_tensor *call_##op(trial *t)                     \
    {                                                         \
        const loss_options *o = OPTIONS(t, loss_options);     \
        tg_##op##_config config = tg_##op##_config_default(); \
        config.member = o->given;                             \
        config.reduction = o->reduction;                      \
        return tg_##op arguments;                             \
    }

CALL_WITH_CONFIG(smooth_l1_loss, beta, (ARGUMENTS, o->has_config ? &config : NULL))
CALL_WITH_CONFIG(huber_loss, delta, (ARGUMENTS, o->has_config ? &config : NULL))

static bool accepts_beta(double beta)
{
    return beta >= 0 && isfinite(beta);
}

static quantity smooth_l1_value(const trial *t, const double *in)
{
    double d = fabs(in[0] - in[1]), beta = number_of(t);
    return d < beta ? (quantity){d * d / (2 * beta), d * d / (2 * beta) + overflow_of(t, d * d)}
                    : (quantity){d - beta / 2, d + beta / 2};
}

static quantity smooth_l1_slope(const trial *t, int k, const double *in)
{
    double d = in[0] - in[1], beta = number_of(t), sign = k == 0 ? 1 : -1;
    bool is_linear = beta == 0 || fabs(d) >= beta;
    return plain(sign * (is_linear ? sign_of(d) : d / beta));
}

static bool accepts_delta(double delta)
{
    return delta > 0 && isfinite(delta);
}

static quantity huber_value(const trial *t, const double *in)
{
    double d = fabs(in[0] - in[1]), delta = number_of(t);
    return d < delta ? plain(d * d / 2) : (quantity){delta * (d - delta / 2), delta * (d + delta / 2)};
}

static quantity huber_slope(const trial *t, int k, const double *in)
{
    double d = in[0] - in[1], delta = number_of(t), sign = k == 0 ? 1 : -1;
    return plain(sign * (fabs(d) > delta ? delta * sign_of(d) : d));
}

/* ---- tg_hinge_embedding_loss and tg_margin_ranking_loss ---- */

CALL_WITH_CONFIG(hinge_embedding_loss, margin, (ARGUMENTS, o->has_config ? &config : NULL))
CALL_WITH_CONFIG(margin_ranking_loss, margin, (ARGUMENTS, t->inputs[2].tensor, o->has_config ? &config : NULL))

static bool accepts_finite(double margin)
{
    return isfinite(margin);
}

static quantity hinge_value(const trial *t, const double *in)
{
    double x = in[0], target = in[1], margin = number_of(t);
    double far = target == -1 ? 0 : x, near = target == 1 ? 0 : positive_part(margin - x);
    return (quantity){far + near, fabs(far) + fabs(near)};
}

static quantity hinge_slope(const trial *t, int k, const double *in)
{
    double x = in[0], target = in[1], margin = number_of(t);
    return k == 0 ? plain((target != -1) - (target != 1 && margin - x >= 0)) : plain(0);
}

static quantity ranking_value(const trial *t, const double *in)
{
    double a = in[0], b = in[1], target = in[2], margin = number_of(t), product = -target * (a - b);
    return (quantity){positive_part(product + margin), fabs(product) + fabs(margin)};
}

static quantity ranking_slope(const trial *t, int k, const double *in)
{
    double a = in[0], b = in[1], target = in[2], margin = number_of(t), product = -target * (a - b);
    double step = product + margin >= 0, slope = (k == 0 ? -target : k == 1 ? target : -(a - b));
    return (quantity){step * slope, terms_of_step(t, slope, product + margin, fabs(product) + fabs(margin))};
}

/* ---- a call ---- */

/* Targets of 1 and -1, and seldom others. */
static double draw_sign(trial *t)
{
    return draw_chance(t, 10) ? draw_value(t) : draw_chance(t, 50) ? 1 : -1;
}

/* Draws the weights of tg_binary_cross_entropy_with_logits, which broadcast to the logits, and are finite. */
static void draw_weight(trial *t, const char *name, tg_shape shape, bool has_config)
{
    if (has_config && draw_chance(t, 50)) {
        draw_finite_constant(t, name, draw_broadcastable(t, shape));
    } else {
        draw_absent(t, name);
    }
}

static void draw_loss(trial *t)
{
    const char *op = t->reference->op;
    const loss *l = t->reference->data;
    loss_options *o = OPTIONS(t, loss_options);
    bool is_hinge = strcmp(op, "tg_hinge_embedding_loss") == 0, is_kl = strcmp(op, "tg_kl_div") == 0;
    *o = (loss_options){TG_REDUCTION_MEAN, !draw_chance(t, 5), false, l->number, l->number};
    note_bool(t, "has_config", o->has_config);
    bool needs_reduction = strcmp(op, "tg_mse_loss") == 0 || strcmp(op, "tg_l1_loss") == 0;
    if (o->has_config || needs_reduction) {
        o->reduction = draw_reduction(t);
        if (is_kl && draw_chance(t, 25)) {
            o->reduction = (tg_reduction)note_integer(t, "reduction", TG_REDUCTION_BATCH_MEAN);
        }
    }
    if (o->has_config && l->accepts) {
        o->given = draw_number(t, "number", -1, 3);
    }
    o->is_log = is_kl && o->has_config && note_bool(t, "log_target", draw_chance(t, 50));
    o->number = converted(t->dtype, o->given);
    tg_shape shape = draw_chance(t, 5) ? TG_SHAPE(draw_integer(t, 1, 300)) : draw_shape(t, 0, TG_MAX_RANK);
    int signs = is_hinge ? 1 : strcmp(op, "tg_margin_ranking_loss") == 0 ? 2 : -1;
    bool is_bce = strcmp(op, "tg_binary_cross_entropy_with_logits") == 0;
    bool has_probabilities = !o->is_log && l->inputs == 2 && !is_hinge &&
                             (is_bce && t->flavor == SPECIAL ? true : draw_chance(t, is_kl || is_bce ? 60 : 20));
    static const char *const names[] = {"prediction", "target", "third"};
    for (int k = 0; k < l->inputs || k < signs + 1; k++) {
        tg_shape drawn = k > 0 && draw_chance(t, 2) ? draw_broadcastable(t, shape) : shape;
        if (k == signs) {
            double *values = numbers(t, count_of(drawn));
            for (int64_t i = 0; i < count_of(drawn); i++) {
                values[i] = draw_sign(t);
            }
            if (is_hinge) {
                draw_constant_of(t, names[k], drawn, values);
            } else {
                draw_layout(t, names[k], t->dtype, drawn, values);
            }
        } else if (k == 1 && o->is_log && t->flavor == WIDE) { /* e^target would overflow */
            draw_input_within(t, names[k], drawn, -30, 3);
        } else if (k == 1 && has_probabilities) {
            draw_input_within(t, names[k], drawn, 0, 1);
        } else {
            draw_input(t, names[k], drawn);
        }
    }
    if (is_bce) {
        draw_weight(t, "weight", shape, o->has_config);
        draw_weight(t, "pos_weight", shape, o->has_config);
    }
}

static bool is_valid_loss(const trial *t)
{
    const loss *l = t->reference->data;
    const loss_options *o = OPTIONS(t, loss_options);
    tg_shape shape = t->inputs[0].x.shape;
    bool is_bce = strcmp(t->reference->op, "tg_binary_cross_entropy_with_logits") == 0, matches = true;
    for (int k = 1; k < t->input_count; k++) {
        const input *in = &t->inputs[k];
        tg_shape both = shape;
        bool is_weight = is_bce && k >= 2, is_constant = is_weight || k >= l->inputs;
        matches = matches && (!in->is_present ||
                              (is_weight ? broadcast_shapes(shape, in->x.shape, &both) && tg_shape_equal(both, shape)
                                         : tg_shape_equal(in->x.shape, shape)));
        matches = matches && !(is_constant && refuses_gradient(t, in));
    }
    return matches && is_reduction(t, o->reduction) && (!l->accepts || l->accepts(o->given));
}

static tg_tensor *call_loss(trial *t)
{
    return ((const loss *)t->reference->data)->call(t);
}

/* Reads the values that loss i depends on. A weight that is absent is 1. */
static void read_inputs(const trial *t, int64_t i, double *values)
{
    tg_shape shape = t->inputs[0].x.shape;
    int64_t index[TG_MAX_RANK];
    split_index(shape, i, index);
    for (int k = 0; k < t->input_count; k++) {
        const input *in = &t->inputs[k];
        values[k] = in->is_present ? in->x.values[broadcast_index(in->x.shape, shape.rank, index)] : 1;
    }
}

static void loss_forward(trial *t)
{
    const loss *l = t->reference->data;
    const loss_options *o = OPTIONS(t, loss_options);
    array losses = array_new(t, t->inputs[0].x.shape);
    double in[MOST_INPUTS];
    for (int64_t i = 0; i < losses.count; i++) {
        read_inputs(t, i, in);
        quantity value = l->value(t, in);
        put_terms(&losses, i, value.value, value.terms);
    }
    put_reduced(t, &losses, o->reduction, divisor_of(o->reduction, losses.shape));
}

static void loss_backward(trial *t)
{
    const loss *l = t->reference->data;
    const loss_options *o = OPTIONS(t, loss_options);
    tg_shape shape = t->inputs[0].x.shape;
    double in[MOST_INPUTS];
    for (int64_t i = 0; i < count_of(shape); i++) {
        double dy = gradient_of_loss(t, o->reduction, divisor_of(o->reduction, shape), i);
        read_inputs(t, i, in);
        for (int k = 0; k < l->inputs; k++) {
            quantity slope = l->slope(t, k, in);
            add_terms(&t->inputs[k].dx, i, dy * slope.value, fabs(dy) * slope.terms + overflow_of(t, slope.terms));
        }
    }
}

static const loss mse_loss = {2, call_mse_loss, mse_value, mse_slope, NULL, 0},
                  l1_loss = {2, call_l1_loss, l1_value, l1_slope, NULL, 0},
                  smooth_l1_loss = {2, call_smooth_l1_loss, smooth_l1_value, smooth_l1_slope, accepts_beta, 1},
                  huber_loss = {2, call_huber_loss, huber_value, huber_slope, accepts_delta, 1},
                  hinge_embedding_loss = {1, call_hinge_embedding_loss, hinge_value, hinge_slope, accepts_finite, 1},
                  margin_ranking_loss = {3, call_margin_ranking_loss, ranking_value, ranking_slope, accepts_finite, 0};

#define REFERENCE(loss)                                                                                              \
    {                                                                                                                \
        .op = "tg_" #loss, .draw = draw_loss, .is_valid = is_valid_loss, .call = call_loss, .forward = loss_forward, \
        .backward = loss_backward, .roundings = 128, .gradient_roundings = 128, .data = &loss,                       \
    }

static const reference references[] = {
    REFERENCE(mse_loss),
    REFERENCE(l1_loss),
    REFERENCE(smooth_l1_loss),
    REFERENCE(huber_loss),
    REFERENCE(hinge_embedding_loss),
    REFERENCE(margin_ranking_loss),
    REFERENCE(kl_div),
    REFERENCE(binary_cross_entropy_with_logits),
};

reference_family distances = {"distances", references, sizeof references / sizeof *references, 20000, NULL};
