/* contrastive: tg_contrastive_loss, the cross-entropy of the similarities of each anchor and all candidates. Gradients
 * are differences of the formula. */
#include "losses.h"

enum { ANCHORS, POSITIVES, NEGATIVES, GROUPS };

typedef struct contrastive_options {
    bool has_config, is_symmetric;
    double scale;
    tg_similarity similarity;
} contrastive_options;

static void draw_contrastive(trial *t)
{
    contrastive_options *o = OPTIONS(t, contrastive_options);
    *o = (contrastive_options){.scale = 20};
    t->flavor = SMOOTH;
    tg_shape pairs = TG_SHAPE(draw_integer(t, 0, 6), draw_integer(t, 0, 9)), negatives = pairs;
    o->has_config = note_bool(t, "config", draw_chance(t, 80));
    if (o->has_config) {
        o->is_symmetric = note_bool(t, "is_symmetric", draw_chance(t, 50));
        o->scale = draw_number(t, "scale", 0.1, 5);
        o->similarity = (tg_similarity)note_integer(t, "similarity", draw_chance(t, 2) ? 2 : draw_integer(t, 0, 1));
    }
    /* a difference must not reach from one side of 0 to the other, where a cosine jumps */
    const double low = o->similarity == TG_SIMILARITY_COSINE ? 0.5 : -2;
    draw_input_within(t, "anchors", pairs, low, 2);
    pairs.size[draw_integer(t, 0, 1)] += draw_chance(t, 1);
    pairs.rank -= draw_chance(t, 1);
    draw_input_within(t, "positives", pairs, low, 2);
    negatives.size[0] = negatives.size[0] * draw_integer(t, 0, 3) + draw_chance(t, 2);
    negatives.size[1] += draw_chance(t, 1);
    negatives.rank -= draw_chance(t, 1);
    if (draw_chance(t, 50)) {
        draw_input_within(t, "negatives", negatives, low, 2);
    } else {
        draw_absent(t, "negatives");
    }
    if (o->has_config && draw_chance(t, 50)) {
        draw_integers(t, "groups", draw_chance(t, 2) ? TG_U8 : TG_I32, TG_SHAPE(pairs.size[0] + draw_chance(t, 1)), 0,
                      2);
    } else {
        draw_absent(t, "groups");
    }
}

static bool has_several_groups(const array *groups)
{
    for (int64_t i = 1; i < groups->count; i++) {
        if (groups->values[i] != groups->values[0]) {
            return true;
        }
    }
    return false;
}

static bool is_valid_contrastive(const trial *t)
{
    const contrastive_options *o = OPTIONS(t, const contrastive_options);
    const input *negatives = &t->inputs[NEGATIVES], *groups = &t->inputs[GROUPS];
    tg_shape a = t->inputs[ANCHORS].x.shape, n = negatives->x.shape;
    int64_t pairs = a.size[0];
    bool fits = count_of(a) > 0 && tg_shape_equal(a, t->inputs[POSITIVES].x.shape) && o->scale > 0 &&
                isfinite(o->scale) && (unsigned)o->similarity <= TG_SIMILARITY_DOT;
    if (fits && negatives->is_present) {
        fits = n.rank == 2 && n.size[0] % pairs == 0 && n.size[1] == a.size[1];
    }
    if (fits && groups->is_present) {
        fits = groups->dtype == TG_I32 && groups->x.count == pairs &&
               (pairs == 1 || has_several_groups(&groups->x) || (negatives->is_present && n.size[0] > 0));
    }
    return fits;
}

static tg_tensor *call_contrastive(trial *t)
{
    const contrastive_options *o = OPTIONS(t, contrastive_options);
    tg_contrastive_loss_config config = tg_contrastive_loss_config_default();
    config.scale = o->scale;
    config.similarity = o->similarity;
    config.is_symmetric = o->is_symmetric;
    config.groups = t->inputs[GROUPS].tensor;
    return tg_contrastive_loss(t->tape, t->inputs[ANCHORS].tensor, t->inputs[POSITIVES].tensor,
                               t->inputs[NEGATIVES].tensor, o->has_config ? &config : NULL);
}

/* The scaled similarity of two rows. */
static quantity similarity_of(const trial *t, const double *a, const double *b)
{
    const contrastive_options *o = OPTIONS(t, const contrastive_options);
    double squares_a = 0, squares_b = 0;
    quantity s = {0, 0};
    for (int64_t c = 0; c < t->inputs[ANCHORS].x.shape.size[1]; c++) {
        s.value += o->scale * a[c] * b[c];
        s.terms += o->scale * fabs(a[c] * b[c]);
        squares_a += a[c] * a[c];
        squares_b += b[c] * b[c];
    }
    if (o->similarity == TG_SIMILARITY_COSINE) {
        double norms = fmax(sqrt(squares_a), 1e-12) * fmax(sqrt(squares_b), 1e-12);
        s = (quantity){s.value / norms, s.terms / norms};
    }
    return s;
}

/* Adds share times log sum_k exp(s_k) - s_b to the result, for pair b of `from`, over the rows of `to` and, if they
 * exist, the negatives. */
static void add_loss(trial *t, int64_t b, int from, int to, bool has_negatives, double share)
{
    const double *group = t->inputs[GROUPS].is_present ? t->inputs[GROUPS].x.values : NULL;
    int64_t width = t->inputs[ANCHORS].x.shape.size[1], pairs = t->inputs[ANCHORS].x.shape.size[0];
    int64_t count = pairs + (has_negatives ? t->inputs[NEGATIVES].x.shape.size[0] : 0);
    double sum = 0, terms = 1;
    quantity own = {0, 0};
    for (int turn = 0; turn < 2; turn++) {
        for (int64_t k = 0; k < count; k++) {
            const double *other =
                k < pairs ? t->inputs[to].x.values + k * width : t->inputs[NEGATIVES].x.values + (k - pairs) * width;
            quantity s = similarity_of(t, t->inputs[from].x.values + b * width, other);
            own = turn == 0 && k == b ? s : own;
            bool counts = k >= pairs || k == b || !group || group[k] != group[b];
            sum += turn == 1 && counts ? exp(s.value - own.value) : 0;
            terms += turn == 1 && counts ? s.terms : 0;
        }
    }
    add_terms(&t->outputs[0].y, 0, share * log(sum), share * (fabs(log(sum)) + terms));
}

static void contrastive_forward(trial *t)
{
    output_new(t, 0, TG_SCALAR);
    int64_t pairs = t->inputs[ANCHORS].x.shape.size[0];
    bool is_symmetric = OPTIONS(t, contrastive_options)->is_symmetric;
    double share = (is_symmetric ? 0.5 : 1) / (double)pairs;
    for (int64_t b = 0; b < pairs; b++) {
        add_loss(t, b, ANCHORS, POSITIVES, t->inputs[NEGATIVES].is_present, share);
        if (is_symmetric) {
            add_loss(t, b, POSITIVES, ANCHORS, false, share);
        }
    }
}

static const reference references[] = {
    {
        .op = "tg_contrastive_loss",
        .draw = draw_contrastive,
        .is_valid = is_valid_contrastive,
        .call = call_contrastive,
        .forward = contrastive_forward,
        .roundings = 64,
        .gradient_roundings = 64,
    },
};

reference_family contrastive = {"contrastive", references, 1, 2000, NULL};
