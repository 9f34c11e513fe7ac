/* contrastive: InfoNCE is the cross-entropy of a head whose weight are the candidates (linear_cross_entropy.c), where
 * the target of anchor b is candidate b. So its similarities exist in chunks, as the logits of a large vocabulary do.
 */
#include <float.h>
#include <math.h>

#include "ops/loss/cross_entropy.h"

static const char call[] = "contrastive_loss";

TG_CONFIG(tg_contrastive_loss_config, tg_contrastive_loss_config_default, mark, .mark = mark, .scale = 20);

/* ---- checks ---- */

/* Returns whether x has the shape of the anchors, except for the number of rows, of which it has a multiple. */
static bool fits(const tg_tensor *x, const tg_tensor *anchors)
{
    return x->rank == 2 && anchors->rank == 2 && anchors->count > 0 && x->shape[1] == anchors->shape[1] &&
           x->shape[0] % anchors->shape[0] == 0;
}

static bool check_vectors(tg_tape *t, const tg_tensor *const inputs[3])
{
    static const char *const names[] = {"anchors", "positives", "negatives"};
    char text[3][TG_SHAPE_TEXT] = {"", "", "NULL"};
    const int count = inputs[2] ? 3 : 2;
    bool fit = tg_tape_expect_floats(t, call, names, inputs, count);
    if (!fit) {
        return false;
    }
    for (int i = 0; i < count; i++) {
        fit = fit && fits(inputs[i], inputs[0]) && (i != 1 || tg_same_shape(inputs[0], inputs[1]));
        tg_shape_format(tg_shape_of(inputs[i]), text[i]);
    }
    return fit || tg_tape_fail(t, TG_ERROR_SHAPE, call,
                               "anchors %s, positives %s and negatives %s; they must be (B,C), (B,C) and (N,C), N a "
                               "multiple of B, B and C >= 1",
                               text[0], text[1], text[2]);
}

static bool check_groups(tg_tape *t, const tg_tensor *groups, int64_t pairs, bool has_negatives)
{
    if (!tg_tape_expect_values(t, call, "groups", groups)) {
        return false;
    }
    if (groups->dtype != TG_I32 || groups->rank != 1 || groups->count != pairs) {
        return tg_tape_fail(t, groups->dtype != TG_I32 ? TG_ERROR_DTYPE : TG_ERROR_SHAPE, call,
                            "the groups are %s %s; for %lld pairs they must be i32 (B)",
                            tg_dtype_name(tg_dtype_of(groups)), tg_shape_text_of(groups).text, (long long)pairs);
    }
    bool differ = has_negatives || pairs == 1;
    for (int64_t b = 1; b < pairs && !differ; b++) {
        differ = tg_value_at(groups, b) != tg_value_at(groups, 0);
    }
    return differ ||
           tg_tape_fail(t, TG_ERROR_VALUE, call, "all %lld pairs are in group %.0f; none of them has a negative",
                        (long long)pairs, tg_value_at(groups, 0));
}

static bool check_options(tg_tape *t, const tg_contrastive_loss_config *config)
{
    if (!(config->scale > 0 && config->scale <= DBL_MAX)) {
        return tg_tape_fail(t, TG_ERROR_VALUE, call, "scale %g; it must be finite and above 0", config->scale);
    }
    return (unsigned)config->similarity <= TG_SIMILARITY_DOT ||
           tg_tape_fail(t, TG_ERROR_VALUE, call, "similarity %d does not exist; it must be 0 (cosine) or 1 (dot)",
                        (int)config->similarity);
}

/* ---- the loss ---- */

/* Returns scale x, for the cosine divided by the norms of its rows. */
static tg_tensor *prepare(tg_tape *t, tg_tensor *x, double scale, tg_similarity similarity)
{
    if (similarity == TG_SIMILARITY_COSINE) {
        tg_tensor *norm = tg_clamp(t, tg_norm(t, x, 2, TG_AXES(-1), TG_KEEP_AXES), 1e-12, (double)INFINITY);
        return tg_div(t, x, scale == 1 ? norm : tg_div_scalar(t, norm, scale));
    }
    return scale == 1 ? x : tg_mul_scalar(t, x, scale);
}

static tg_tensor *new_targets(tg_tape *t, int64_t pairs)
{
    tg_tensor *targets = tg_tape_new_tensor(t, call, TG_I32, TG_SHAPE(pairs));
    for (int64_t b = 0; targets && b < pairs; b++) {
        ((int32_t *)tg_values(targets))[b] = (int32_t)b;
    }
    return targets;
}

tg_tensor *tg_contrastive_loss(tg_tape *t, tg_tensor *anchors, tg_tensor *positives, tg_tensor *negatives,
                               const tg_contrastive_loss_config *given)
{
    tg_contrastive_loss_config c = given ? *given : tg_contrastive_loss_config_default();
    if (!tg_tape_expect_config(t, call, given, mark) ||
        !check_vectors(t, (const tg_tensor *[]){anchors, positives, negatives}) || !check_options(t, &c) ||
        (c.groups && !check_groups(t, c.groups, anchors->shape[0], negatives && negatives->count > 0))) {
        return NULL;
    }
    tg_tape_point point;
    tg_tape_save_point(t, false, &point);
    tg_tensor *targets = new_targets(t, anchors->shape[0]);
    tg_tensor *x = prepare(t, anchors, c.scale, c.similarity), *positive = prepare(t, positives, 1, c.similarity);
    tg_tensor *candidates = positive;
    if (negatives) {
        candidates = tg_cat(t, (tg_tensor *[]){positive, prepare(t, negatives, 1, c.similarity)}, 2, 0);
    }
    tg_tensor *loss = tg_linear_cross_entropy_of_groups(t, x, candidates, targets, c.groups);
    if (c.is_symmetric) {
        tg_tensor *reverse = tg_linear_cross_entropy_of_groups(t, positive, x, targets, c.groups);
        loss = tg_mul_scalar(t, tg_add(t, loss, reverse), 0.5);
    }
    return tg_tape_end(t, &point, loss);
}
