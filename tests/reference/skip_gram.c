/* skip_gram: tg_skip_gram_loss: -log s(x_0) - sum_{k>0} log s(-x_k), with x_k = v . u_k of rows of two tables. A
 * negative that is equal to the first target is left out. */
#include "losses.h"

typedef struct skip_gram_options {
    tg_reduction reduction;
} skip_gram_options;

enum { CENTERS, TABLE, TARGETS, CONTEXTS };

static int64_t size_of(const trial *t, int k, int axis)
{
    return t->inputs[k].x.shape.size[axis];
}

/* Ids below `rows`, of which some are repeated; seldom one that does not exist. */
static void draw_ids(trial *t, const char *name, tg_shape shape, int64_t rows, int repeated)
{
    int64_t count = count_of(shape), most = rows > 0 ? draw_integer(t, 0, rows - 1) : 0;
    double *ids = numbers(t, count);
    for (int64_t i = 0; i < count; i++) {
        ids[i] = i > 0 && draw_chance(t, repeated) ? ids[i - 1] : (double)draw_integer(t, 0, most);
    }
    if (count > 0 && draw_chance(t, 2)) {
        ids[draw_integer(t, 0, count - 1)] = (double)DRAW_ONE_OF(t, -1, rows, INT32_MIN, INT32_MAX);
    }
    draw_layout(t, name, TG_I32, shape, ids);
}

static void draw_skip_gram(trial *t)
{
    OPTIONS(t, skip_gram_options)->reduction = draw_reduction(t);
    /* in f32, a score that overflows can be an infinity or NaN, which depends on the order of the sum */
    t->flavor = t->flavor == SPECIAL && t->dtype == TG_F32 ? WIDE : t->flavor;
    int64_t pairs = draw_size(t), K = draw_integer(t, draw_chance(t, 2) ? 0 : 1, 6), V = draw_size(t), U = draw_size(t);
    int64_t width = draw_chance(t, 10) ? draw_integer(t, 1, 140) : draw_size(t);
    tg_shape centers = TG_SHAPE(pairs), table = TG_SHAPE(V, width), contexts = TG_SHAPE(U, width);
    centers.rank -= draw_chance(t, 1);
    table.rank -= draw_chance(t, 1);
    contexts.rank -= draw_chance(t, 1);
    draw_ids(t, "centers", centers, V, 80);
    draw_input(t, "table", table);
    draw_ids(t, "targets", TG_SHAPE(draw_chance(t, 1) ? pairs + 1 : pairs, K), U, 20);
    contexts.size[1] += draw_chance(t, 1);
    draw_input(t, "contexts", contexts);
    t->dtype = t->inputs[TABLE].dtype; /* that of the result */
}

static bool are_rows(const trial *t, int ids, int table)
{
    for (int64_t i = 0; i < t->inputs[ids].x.count; i++) {
        double id = t->inputs[ids].x.values[i];
        if (id < 0 || id >= (double)size_of(t, table, 0)) {
            return false;
        }
    }
    return true;
}

static bool is_valid_skip_gram(const trial *t)
{
    return t->inputs[CENTERS].x.shape.rank == 1 && t->inputs[TABLE].x.shape.rank == 2 &&
           t->inputs[CONTEXTS].x.shape.rank == 2 && is_reduction(t, OPTIONS(t, const skip_gram_options)->reduction) &&
           size_of(t, TARGETS, 0) == size_of(t, CENTERS, 0) && size_of(t, TARGETS, 1) >= 1 &&
           size_of(t, TABLE, 1) == size_of(t, CONTEXTS, 1) && are_rows(t, CENTERS, TABLE) &&
           are_rows(t, TARGETS, CONTEXTS);
}

static tg_tensor *call_skip_gram(trial *t)
{
    return tg_skip_gram_loss(t->tape, t->inputs[CENTERS].tensor, t->inputs[TABLE].tensor, t->inputs[TARGETS].tensor,
                             t->inputs[CONTEXTS].tensor, OPTIONS(t, skip_gram_options)->reduction);
}

/* The offset of the row that number i of the ids names. */
static int64_t row_of(const trial *t, int ids, int64_t i)
{
    return (int64_t)t->inputs[ids].x.values[i] * size_of(t, TABLE, 1);
}

static bool is_left_out(const trial *t, int64_t pair, int64_t k)
{
    const double *targets = t->inputs[TARGETS].x.values + pair * size_of(t, TARGETS, 1);
    return k > 0 && targets[k] == targets[0];
}

/* The score of target k, with the sign of a context. */
static quantity score_of(const trial *t, int64_t pair, int64_t k)
{
    const double *v = t->inputs[TABLE].x.values + row_of(t, CENTERS, pair);
    const double *u = t->inputs[CONTEXTS].x.values + row_of(t, TARGETS, pair * size_of(t, TARGETS, 1) + k);
    quantity x = {0, 0};
    for (int64_t c = 0; c < size_of(t, TABLE, 1); c++) {
        x.value += v[c] * u[c];
        x.terms += isfinite(v[c] * u[c]) ? fabs(v[c] * u[c]) : 0;
    }
    x.value = k == 0 ? x.value : -x.value;
    return x;
}

static void skip_gram_forward(trial *t)
{
    array losses = array_new(t, t->inputs[CENTERS].x.shape);
    for (int64_t pair = 0; pair < losses.count; pair++) {
        double loss = 0, terms = 0;
        for (int64_t k = 0; k < size_of(t, TARGETS, 1); k++) {
            if (!is_left_out(t, pair, k)) {
                quantity x = score_of(t, pair, k);
                double own = (x.value < 0 ? -x.value : 0) + log1p(exp(-fabs(x.value)));
                loss += own;
                terms += (isfinite(own) ? own : 0) + x.terms + overflow_of(t, x.terms);
            }
        }
        put_terms(&losses, pair, loss, terms);
    }
    tg_reduction reduction = OPTIONS(t, skip_gram_options)->reduction;
    put_reduced(t, &losses, reduction, divisor_of(reduction, losses.shape));
}

static void skip_gram_backward(trial *t)
{
    tg_reduction reduction = OPTIONS(t, skip_gram_options)->reduction;
    int64_t pairs = size_of(t, CENTERS, 0), K = size_of(t, TARGETS, 1);
    for (int64_t target = 0; target < pairs * K; target++) {
        int64_t pair = target / K, k = target % K;
        if (is_left_out(t, pair, k)) {
            continue;
        }
        double dl = gradient_of_loss(t, reduction, divisor_of(reduction, TG_SHAPE(pairs)), pair);
        quantity x = score_of(t, pair, k);
        double slope = 1 / (1 + exp(x.value)), g = k == 0 ? -slope : slope;
        double g_terms = slope + x.terms, over = overflow_of(t, x.terms);
        int64_t v = row_of(t, CENTERS, pair), u = row_of(t, TARGETS, target);
        for (int64_t c = 0; c < size_of(t, TABLE, 1); c++) {
            double of_v = t->inputs[TABLE].x.values[v + c], of_u = t->inputs[CONTEXTS].x.values[u + c];
            add_terms(&t->inputs[TABLE].dx, v + c, dl * g * of_u, fabs(dl * of_u) * g_terms + over);
            add_terms(&t->inputs[CONTEXTS].dx, u + c, dl * g * of_v, fabs(dl * of_v) * g_terms + over);
        }
    }
}

static const reference references[] = {
    {
        .op = "tg_skip_gram_loss",
        .draw = draw_skip_gram,
        .is_valid = is_valid_skip_gram,
        .call = call_skip_gram,
        .forward = skip_gram_forward,
        .backward = skip_gram_backward,
        .roundings = 64,
        .gradient_roundings = 64,
    },
};

reference_family skip_gram = {"skip_gram", references, 1, 10000, NULL};
