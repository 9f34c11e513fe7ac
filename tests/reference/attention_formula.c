/* attention_formula: the values and gradients of tg_scaled_dot_product_attention.
 *
 * The result at query t is the sum of the values, weighted with the softmax of scale q k^T + bias over the keys that t
 * attends to; zeros without such keys. Weights that dropout keeps are multiplied by 1 / (1 - p).
 *
 * An infinity or a NaN at a key whose weight is 0, or may be rounded to 0, may count or not: a term that is unknown. At
 * a key that lengths or the mask hide it does not count: the key and its value are those of zeros.
 */
#include "attention.h"

tg_shape attention_batch(const trial *t, int which)
{
    const attention_call *a = OPTIONS(t, const attention_call);
    tg_shape q = t->inputs[QUERIES].x.shape, shape = t->inputs[which].x.shape;
    if (a->has_groups && which != QUERIES && q.rank >= 3 && shape.rank >= 3) {
        shape.size[shape.rank - 3] = q.size[q.rank - 3];
    }
    shape.rank -= 2;
    return shape;
}

bool attention_result(const trial *t, tg_shape *result)
{
    tg_shape q = t->inputs[QUERIES].x.shape;
    if (!broadcast_shapes(attention_batch(t, QUERIES), attention_batch(t, KEYS), result) ||
        !broadcast_shapes(*result, attention_batch(t, VALUES), result)) {
        return false;
    }
    result->size[result->rank++] = q.size[q.rank - 2];
    result->size[result->rank++] = q.size[q.rank - 1];
    return true;
}

/* The query at `index` of the result, and its softmax. */
typedef struct query {
    int64_t t, keys, width;
    int64_t q, k, v; /* where its row, and the matrices that it meets, begin */
    int64_t index[TG_MAX_RANK];
    double *weights, *kept;
    double *changes; /* what roundings of the scores may change of the weights, in terms */
    bool *attends;
    enum { USUAL, WITHOUT_KEYS, NOT_A_NUMBER, UNKNOWN } kind; /* UNKNOWN: its scores overflow in the dtype */
} query;

/* What a term of 1 allows a result to be off. */
static double unit_of(const trial *t)
{
    return t->reference->roundings * eps_of(t->dtype);
}

static double scale_of(const trial *t)
{
    const attention_call *a = OPTIONS(t, const attention_call);
    tg_shape q = t->inputs[QUERIES].x.shape;
    return a->scale == TG_SCALE_OF_WIDTH ? 1 / sqrt((double)q.size[q.rank - 1]) : a->scale;
}

static tg_shape result_shape(const trial *t)
{
    tg_shape shape;
    attention_result(t, &shape);
    return shape;
}

/* The axes of the weights (..,T,S): those of queries, keys, bias and mask. */
static tg_shape weights_shape(const trial *t)
{
    tg_shape k = t->inputs[KEYS].x.shape, result = result_shape(t), shape, mask = result;
    broadcast_shapes(attention_batch(t, QUERIES), attention_batch(t, KEYS), &shape);
    shape.size[shape.rank++] = result.size[result.rank - 2];
    shape.size[shape.rank++] = k.size[k.rank - 2];
    if (t->inputs[BIAS].is_present) {
        broadcast_shapes(shape, t->inputs[BIAS].x.shape, &shape);
    }
    const input *first = &t->inputs[FIRST_KEYS];
    if (t->inputs[LENGTHS].is_present || t->inputs[KEY_MASK].is_present ||
        (first->is_present && first->x.shape.rank == 2)) {
        for (int axis = 1; axis < mask.rank; axis++) {
            mask.size[axis] = 1;
        }
        broadcast_shapes(shape, mask, &shape);
    }
    return shape;
}

/* The number of the first value of the matrix that queries, keys or values have for an index of the result. */
static int64_t matrix_at(const trial *t, int which, tg_shape result, const int64_t index[TG_MAX_RANK])
{
    const attention_call *a = OPTIONS(t, const attention_call);
    tg_shape shape = t->inputs[which].x.shape;
    int64_t matrix = 0;
    for (int axis = 0; axis < shape.rank - 2; axis++) {
        int64_t at = index[axis + result.rank - shape.rank], size = shape.size[axis];
        if (a->has_groups && axis == shape.rank - 3 && which != QUERIES) {
            at /= result.size[result.rank - 3] / size;
        }
        matrix = matrix * size + (size == 1 ? 0 : at);
    }
    return matrix * shape.size[shape.rank - 2] * shape.size[shape.rank - 1];
}

static bool is_hidden(const trial *t, const query *of, int64_t s)
{
    const input *lengths = &t->inputs[LENGTHS], *mask = &t->inputs[KEY_MASK];
    int64_t sequence = of->index[0];
    return (lengths->is_present && (double)s >= lengths->x.values[sequence]) ||
           (mask->is_present && mask->x.values[sequence * of->keys + s] == 0);
}

static bool attends(const trial *t, const query *of, tg_shape result, int64_t s)
{
    const attention_call *a = OPTIONS(t, const attention_call);
    const input *first = &t->inputs[FIRST_KEYS];
    int64_t rows = result.size[result.rank - 2], own = of->keys - rows + of->t;
    if (first->is_present && s < first->x.values[(first->x.shape.rank == 2 ? of->index[0] * rows : 0) + of->t]) {
        return false;
    }
    return (!a->is_causal || s <= own) && (a->window == 0 || own - s < a->window) && !is_hidden(t, of, s);
}

/* A value of key s, or of its value. */
static double value_of_key(const trial *t, const query *of, int which, int64_t s, int64_t d)
{
    int64_t matrix = which == KEYS ? of->k : of->v;
    return is_hidden(t, of, s) ? 0 : t->inputs[which].x.values[matrix + s * of->width + d];
}

/* Returns the score of key s, and what roundings may change of it. Sets kind to UNKNOWN if it overflows. */
static double score_of(trial *t, query *of, int64_t s, tg_shape result, double *change)
{
    const double *q = t->inputs[QUERIES].x.values + of->q, *k = t->inputs[KEYS].x.values + of->k + s * of->width;
    double scale = scale_of(t), score = 0, terms = 0, eps = eps_of(t->dtype);
    for (int64_t d = 0; d < of->width; d++) {
        score += q[d] * k[d];
        terms += isfinite(q[d] * k[d]) ? fabs(q[d] * k[d]) : 0;
    }
    score *= scale;
    if (terms * fmax(scale, 1) > largest_of(t->dtype)) {
        of->kind = UNKNOWN;
    }
    terms *= scale;
    *change = 8 * eps * (terms + 1);
    if (t->inputs[BIAS].is_present) {
        int64_t index[TG_MAX_RANK];
        for (int axis = 0; axis < result.rank; axis++) {
            index[axis] = of->index[axis];
        }
        index[result.rank - 1] = s;
        double bias = t->inputs[BIAS].x.values[broadcast_index(t->inputs[BIAS].x.shape, result.rank, index)];
        bool is_lost = isfinite(bias) && isfinite(score) && terms < eps / 8 * fabs(bias);
        *change = is_lost ? 0 : *change + (isfinite(bias) ? 4 * eps * fabs(bias) : 0);
        score = is_lost ? bias : score + bias;
    }
    return score;
}

/* The softmax of the scores, 0 for keys that are not attended to. Where roundings change a score by more than a small
 * part, the weights of all keys but those far below may be anything. */
static void weigh(trial *t, query *of, const double *scores, const double *score_changes)
{
    double eps = eps_of(t->dtype), smallest = smallest_of(t->dtype);
    double largest = -INFINITY, sum = 0, most = -INFINITY, change = 0;
    for (int64_t s = 0; s < of->keys; s++) {
        largest = of->attends[s] ? fmax(largest, scores[s]) : largest;
        most = of->attends[s] ? fmax(most, scores[s] - score_changes[s]) : most;
    }
    for (int64_t s = 0; s < of->keys; s++) {
        sum += of->weights[s] = of->attends[s] ? exp(scores[s] - largest) : 0;
        if (of->attends[s] && scores[s] + score_changes[s] + 120 >= most) {
            change = fmax(change, score_changes[s] + 4 * eps * (largest - scores[s]));
        }
    }
    for (int64_t s = 0; s < of->keys; s++) {
        of->weights[s] /= sum;
        double own = score_changes[s] + 4 * eps * (largest - scores[s]);
        bool is_far_below = scores[s] + score_changes[s] + 120 < most;
        double moved = own < 0.5 ? 4 * (change + own) * of->weights[s] : exp(-120);
        bool is_anything = change >= 0.5 && !is_far_below;
        of->changes[s] = (!of->attends[s] ? 0 : is_anything ? 2 : moved + smallest) / unit_of(t);
    }
}

static query query_new(trial *t, tg_shape result, int64_t number)
{
    const attention_call *a = OPTIONS(t, const attention_call);
    query of = {.width = result.size[result.rank - 1]};
    tg_shape k = t->inputs[KEYS].x.shape;
    of.keys = k.size[k.rank - 2];
    split_index(result, number, of.index);
    of.t = of.index[result.rank - 2];
    of.q = matrix_at(t, QUERIES, result, of.index) + of.t * of.width;
    of.k = matrix_at(t, KEYS, result, of.index);
    of.v = matrix_at(t, VALUES, result, of.index);
    of.weights = numbers(t, of.keys);
    of.kept = numbers(t, of.keys);
    of.changes = numbers(t, of.keys);
    of.attends = trial_memory(t, (size_t)of.keys);
    double *scores = numbers(t, of.keys), *score_changes = numbers(t, of.keys), largest = -INFINITY;
    bool has_nan = false;
    for (int64_t s = 0; s < of.keys; s++) {
        of.attends[s] = attends(t, &of, result, s);
        if (of.attends[s]) {
            scores[s] = score_of(t, &of, s, result, &score_changes[s]);
            has_nan = has_nan || isnan(scores[s]);
            largest = fmax(largest, scores[s]);
        }
        of.index[result.rank - 1] = s;
        of.kept[s] = a->kept ? a->kept[broadcast_index(a->weights, result.rank, of.index)] : 1;
    }
    if (of.kind != UNKNOWN) {
        of.kind = has_nan || largest == INFINITY ? NOT_A_NUMBER : largest == -INFINITY ? WITHOUT_KEYS : USUAL;
    }
    if (of.kind == USUAL) {
        weigh(t, &of, scores, score_changes);
    }
    return of;
}

/* Adds a * b, of which b is an input or the gradient of the result. */
static void add_product(array *x, int64_t i, double a, double a_terms, double b, bool is_unknown)
{
    add_terms(x, i, is_unknown || (a == 0 && !isfinite(b)) ? 0 : a * b, a_terms * fabs(b));
    if (is_unknown || (!isfinite(b) && !(fabs(a) > 1e-30) && !isnan(a))) {
        x->terms[i] = INFINITY;
    }
}

/* Finds out which weights dropout drops: those of a tensor of ones that it drops with the same generator. */
static void observe_dropout(trial *t)
{
    attention_call *a = OPTIONS(t, attention_call);
    if (a->kept || !t->is_training || a->dropout == 0) {
        return;
    }
    a->weights = weights_shape(t);
    a->kept = numbers(t, count_of(a->weights));
    tg_run *run = tg_run_new(0);
    tg_rng_copy(tg_run_rng(run), t->rng_before);
    tg_tape *tape = tg_tape_new(run, NULL);
    tg_tensor *kept = tg_dropout(tape, tg_full(tape, t->dtype, a->weights, 1), a->dropout);
    for (int64_t i = 0; i < count_of(a->weights); i++) {
        a->kept[i] = tg_tensor_value_at(kept, i);
    }
    const tg_rng *after = count_of(result_shape(t)) > 0 ? tg_run_rng(run) : t->rng_before;
    if (tg_rng_position(after) != tg_rng_position(tg_run_rng(t->run))) {
        trial_fail(t, "drew %lld numbers, expected %lld",
                   (long long)(tg_rng_position(tg_run_rng(t->run)) - tg_rng_position(t->rng_before)),
                   (long long)(tg_rng_position(after) - tg_rng_position(t->rng_before)));
    }
    tg_tape_free(tape);
    tg_run_free(run);
}

void attention_forward(trial *t)
{
    observe_dropout(t);
    tg_shape result = result_shape(t);
    array *y = output_new(t, 0, result);
    int64_t width = result.size[result.rank - 1];
    for (int64_t row = 0; row < y->count; row += width) {
        query of = query_new(t, result, row);
        double length = 1 + (double)of.keys / 64; /* sums of many equal terms round alike */
        for (int64_t d = 0; d < width; d++) {
            if (of.kind == NOT_A_NUMBER) {
                put(y, row + d, NAN);
            }
            for (int64_t s = 0; s < of.keys && of.kind != NOT_A_NUMBER; s++) {
                double value = value_of_key(t, &of, VALUES, s, d);
                bool may_be_zero = of.weights[s] <= of.changes[s] * unit_of(t);
                add_product(y, row + d, of.weights[s] * of.kept[s],
                            (length * of.weights[s] + of.changes[s]) * of.kept[s], value,
                            of.kind == UNKNOWN || (may_be_zero && !isfinite(value)));
            }
        }
    }
}

/* The gradients of the weights, of the scores, and their terms. */
static void gradients_of_scores(const trial *t, const query *of, const double *dy, double *ds, double *ds_terms)
{
    double smallest = smallest_of(t->dtype);
    double mean = 0, mean_terms = 0, mean_change = 0;
    bool is_unknown = of->kind == UNKNOWN;
    for (int64_t s = 0; s < of->keys; s++) {
        ds[s] = ds_terms[s] = 0;
        for (int64_t d = 0; d < of->width; d++) {
            double term = dy[d] * value_of_key(t, of, VALUES, s, d) * of->kept[s];
            ds[s] += term;
            ds_terms[s] += fabs(term);
        }
        is_unknown = is_unknown || !(ds_terms[s] <= largest_of(t->dtype));
        mean += of->weights[s] * ds[s];
        mean_terms += of->weights[s] * ds_terms[s];
        mean_change += of->changes[s] * ds_terms[s];
    }
    for (int64_t s = 0; s < of->keys; s++) {
        double w = of->weights[s];
        double terms = w * (ds_terms[s] + mean_terms + mean_change) +
                       of->changes[s] * (ds_terms[s] + mean_terms + unit_of(t) * mean_change);
        ds_terms[s] = is_unknown ? INFINITY : terms * (1 + (double)of->keys / 64) + smallest / unit_of(t);
        ds[s] = is_unknown ? 0 : w * (ds[s] - mean);
        if (of->kind == NOT_A_NUMBER) {
            ds[s] = NAN;
        }
    }
}

static int64_t bias_at(const trial *t, query *of, tg_shape result, int64_t s)
{
    of->index[result.rank - 1] = s;
    return broadcast_index(t->inputs[BIAS].x.shape, result.rank, of->index);
}

void attention_backward(trial *t)
{
    observe_dropout(t);
    input *q = &t->inputs[QUERIES], *k = &t->inputs[KEYS], *v = &t->inputs[VALUES], *bias = &t->inputs[BIAS];
    const array *dy = &t->outputs[0].dy;
    tg_shape result = result_shape(t);
    int64_t width = result.size[result.rank - 1];
    double scale = scale_of(t);
    for (int which = QUERIES; which <= BIAS && dy->count == 0 && t->flavor == SPECIAL; which++) {
        for (int64_t i = 0; which != VALUES && i < t->inputs[which].dx.count; i++) {
            t->inputs[which].dx.terms[i] = INFINITY; /* 0 or NaN */
        }
    }
    for (int64_t row = 0; row < dy->count; row += width) {
        query of = query_new(t, result, row);
        double *ds = numbers(t, of.keys), *ds_terms = numbers(t, of.keys);
        gradients_of_scores(t, &of, dy->values + row, ds, ds_terms);
        for (int64_t s = 0; s < of.keys; s++) {
            /* A NaN of a row may spread over the weights of keys that it does not attend to. */
            bool is_wild = of.kind == NOT_A_NUMBER || of.kind == UNKNOWN || isinf(ds_terms[s]);
            bool is_unknown = of.kind == UNKNOWN || (is_wild && !of.attends[s]);
            double weight = of.kind == NOT_A_NUMBER ? NAN : of.weights[s] * of.kept[s];
            for (int64_t d = 0; d < width; d++) {
                int64_t at = s * width + d;
                add_product(&v->dx, of.v + at, weight, (of.weights[s] + of.changes[s]) * of.kept[s],
                            dy->values[row + d], is_unknown);
                is_unknown = is_unknown || isinf(ds_terms[s]);
                add_product(&q->dx, of.q + d, ds[s] * scale, ds_terms[s] * scale, value_of_key(t, &of, KEYS, s, d),
                            is_unknown);
                add_product(&k->dx, of.k + at, ds[s] * scale, ds_terms[s] * scale, q->x.values[of.q + d], is_unknown);
            }
            if (bias->is_present) {
                int64_t at = bias_at(t, &of, result, s);
                add_product(&bias->dx, at, ds[s], ds_terms[s], 1, is_unknown || isinf(ds_terms[s]));
            }
        }
    }
}
