/* skip_gram: word2vec's loss of words and their contexts, the skip-gram model with negative sampling.
 *
 *   score       x[b,k] = v[b] . u[b,k]          v[b] = W[center_b,:],  u[b,k] = U[target_bk,:]
 *   loss        l[b] = -log s(x[b,0]) - sum_{k>0} log s(-x[b,k])       s(x) = 1 / (1 + exp(-x))
 *   gradient    g[b,k] = s(x[b,k]) - [k = 0]
 *               dW[center_b,:]  += dl[b] sum_k g[b,k] u[b,k]
 *               dU[target_bk,:] += dl[b] g[b,k] v[b]
 *
 * The first target of a center is a word of its context, and the others are negatives, drawn words. A negative that is
 * equal to the first target is left out of all sums, as in word2vec.c (Mikolov et al. 2013, "Distributed
 * Representations of Words and Phrases and their Compositionality", equation 4).
 *
 * By single ops, rows (B,C), (B,1,C) and (B,K-1,C), their products, and the gradients of all of these pass through
 * memory. Here each row of U is read once: the forward kernel computes a row's score and its part of dW while the row
 * is in the first-level cache. It does so for a group of pairs, which are neighbors with the same center: one row
 * sum_b sum_k g[b,k] u[b,k] is saved per group, and a copy of v. If each loss has a dl[b] of its own, each pair is a
 * group. So backward needs neither table, and they may have changed.
 *
 * Backward sorts the targets by their rows in dU, which a radix sort does in an order that depends on nothing else.
 * Then each row is one sum, in the order of the pairs, so the result has the same bits for any number of threads, and a
 * frequent word costs no more than others.
 *
 * Scores are summed in the dtype, like the products of matrices, in LANES lanes.
 */
#include <tapegrad/extend.h>

#include "ops/grad_rows.h"
#include "ops/lanes.h"
#include "ops/elementwise/elementwise_real.h"
#include "ops/loss/pointwise.h"
#include "tensor/move.h"

enum { CENTERS, TABLE, TARGETS, CONTEXTS };

/* The largest number of pairs in a group: so few that their rows of U stay in the cache. */
enum { SKIP_GRAM_GROUP = 8 };

/* Values of a row that are copied at a time, a multiple of LANES. */
enum { SKIP_GRAM_PART = 256 };

/* The sort looks at so many bits at a time. */
enum { SORT_DIGIT = 11, SORT_DIGITS = 1 << SORT_DIGIT };

TG_DECLARE_KERNELS(tg_skip_gram_forward, tg_skip_gram_backward);

/* The pairs, and what forward saves. */
typedef struct skip_gram {
    const int32_t *centers, *targets; /* (B), (B,K) */
    const real *W, *U;
    const int64_t *w_strides, *u_strides; /* of the rows and the columns: the tables may be views */
    int64_t pairs, K, C, groups;
    bool each;      /* whether each loss is an output */
    double scale;   /* 1 / divisor of the losses */
    int32_t *begin; /* of each group, and of the end: the number of its first pair */
    real *losses;   /* (B,K): the terms of the losses */
    real *g;        /* (B,K) */
    real *sums, *v; /* (groups,C): sum_b sum_k g u; NULL: they are not needed */
} skip_gram;

/* Returns the number of groups. Writes the first pair of each, and the number of pairs behind the last, unless `begin`
 * is NULL. */
static inline int64_t find_groups(const int32_t *centers, int64_t pairs, bool each, int32_t *begin)
{
    int64_t groups = 0, last = 0;
    for (int64_t b = 0; b < pairs; b++) {
        if (b == 0 || each || centers[b] != centers[b - 1] || b - last == SKIP_GRAM_GROUP) {
            if (begin) {
                begin[groups] = (int32_t)b;
            }
            groups++;
            last = b;
        }
    }
    if (begin) {
        begin[groups] = (int32_t)pairs;
    }
    return groups;
}

static skip_gram skip_gram_of(const tg_op_call *call)
{
    const tg_tensor *centers = call->inputs[CENTERS], *targets = call->inputs[TARGETS], *W = call->inputs[TABLE],
                    *U = call->inputs[CONTEXTS];
    const tg_reduction reduction = *(const tg_reduction *)call->attributes;
    skip_gram s = {.centers = tg_values(centers),
                   .targets = tg_values(targets),
                   .w_strides = W->strides,
                   .u_strides = U->strides,
                   .pairs = centers->count,
                   .K = targets->shape[1],
                   .C = W->shape[1],
                   .each = reduction == TG_REDUCTION_NONE,
                   .scale = 1 / tg_loss_divisor(reduction, centers->count, centers->count)};
    return s;
}

/* ---- forward ---- */

/* Returns n values of a row of a table, neighbors, which are copied unless they are that already. */
static inline const real *neighbors(const real *row, int64_t step, int64_t n, real copy[SKIP_GRAM_PART])
{
    if (step == 1) {
        return row;
    }
    copy_to_row(copy, (const word *)row, step, n);
    return copy;
}

static inline real dot(const real *v, int64_t v_step, const real *u, int64_t u_step, int64_t n)
{
    real lane[LANES] = {0}, sum = 0;
    for (int64_t begin = 0; begin < n; begin += SKIP_GRAM_PART) {
        real v_copy[SKIP_GRAM_PART], u_copy[SKIP_GRAM_PART];
        const int64_t length = n - begin < SKIP_GRAM_PART ? n - begin : SKIP_GRAM_PART;
        const real *a = neighbors(v + begin * v_step, v_step, length, v_copy);
        const real *b = neighbors(u + begin * u_step, u_step, length, u_copy);
        int64_t i = 0;
        for (; i + LANES <= length; i += LANES) {
            for (int k = 0; k < LANES; k++) {
                lane[k] += a[i + k] * b[i + k];
            }
        }
        for (; i < length; i++) {
            sum += a[i] * b[i];
        }
    }
    for (int width = LANES / 2; width > 0; width /= 2) {
        for (int k = 0; k < width; k++) {
            lane[k] += lane[k + width];
        }
    }
    return lane[0] + sum;
}

/* Returns whether target k of a pair is a negative that is left out. */
static inline bool is_left_out(const int32_t *targets, int64_t k)
{
    return k > 0 && targets[k] == targets[0];
}

/* From scores to their losses and g. `losses` holds 1 for a context, -1 for a negative, and 0 for one that is left
 * out. */
static void score_losses(real *restrict g, real *restrict losses, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const real sign = losses[i], x = sign * g[i], e = real_exp_or_zero(-real_fabs(x));
        const real loss = (x < 0 ? -x : 0) + real_log1p(e), slope = -sign * ((x < 0 ? 1 : e) / (1 + e));
        losses[i] = sign == 0 ? 0 : loss;
        g[i] = sign == 0 ? 0 : slope;
    }
}

static void score_group(const skip_gram *s, int64_t group)
{
    const int64_t from = s->begin[group], to = s->begin[group + 1], K = s->K, C = s->C;
    const real *v = s->W + s->centers[from] * s->w_strides[0];
    for (int64_t b = from; b < to; b++) {
        const int32_t *targets = s->targets + b * K;
        real *losses = s->losses + b * K, *g = s->g + b * K;
        for (int64_t k = 0; k < K; k++) {
            if (b + 1 < s->pairs) {
                tg_prefetch_row(s->U + targets[K + k] * s->u_strides[0], (size_t)C * sizeof(real));
            }
            losses[k] = k == 0 ? 1 : is_left_out(targets, k) ? 0 : -1;
            const real *u = s->U + targets[k] * s->u_strides[0];
            g[k] = dot(v, s->w_strides[1], u, s->u_strides[1], C);
        }
    }
    score_losses(s->g + from * K, s->losses + from * K, (to - from) * K);
}

/* Saves what backward needs of a group. */
static void sum_group(const skip_gram *s, int64_t group)
{
    const int64_t from = s->begin[group], to = s->begin[group + 1], K = s->K, C = s->C;
    real *sum = s->sums + group * C, *v = s->v + group * C;
    const real *w = s->W + s->centers[from] * s->w_strides[0];
    copy_to_row(v, (const word *)w, s->w_strides[1], C);
    memset(sum, 0, (size_t)C * sizeof(real));
    for (int64_t b = from; b < to; b++) {
        const int32_t *targets = s->targets + b * K;
        for (int64_t k = 0; k < K; k++) {
            const real *u = s->U + targets[k] * s->u_strides[0];
            for (int64_t begin = 0; begin < C && !is_left_out(targets, k); begin += SKIP_GRAM_PART) {
                real copy[SKIP_GRAM_PART];
                const int64_t length = C - begin < SKIP_GRAM_PART ? C - begin : SKIP_GRAM_PART, step = s->u_strides[1];
                add_scaled(sum + begin, neighbors(u + begin * step, step, length, copy), s->g[b * K + k], length,
                           false);
            }
        }
    }
}

static void score_groups(void *context, int64_t begin, int64_t end)
{
    const skip_gram *s = context;
    for (int64_t group = begin; group < end; group++) {
        score_group(s, group);
        if (s->sums) {
            sum_group(s, group);
        }
    }
}

/* The parts of the saved memory: g, sums, v. Without pairs there is none. */
static void find_saved(skip_gram *s, void *saved)
{
    s->g = saved;
    if (!saved) {
        return;
    }
    s->sums = s->g + s->pairs * s->K;
    s->v = s->sums + s->groups * s->C;
}

void KERNEL(tg_skip_gram_forward)(const tg_op_call *call)
{
    skip_gram s = skip_gram_of(call);
    real *y = tg_values(call->outputs[0]);
    s.W = tg_values(call->inputs[TABLE]);
    s.U = tg_values(call->inputs[CONTEXTS]);
    s.losses = call->scratch;
    s.begin = (int32_t *)((double *)call->scratch + s.pairs * s.K);
    s.groups = find_groups(s.centers, s.pairs, s.each, s.begin);
    find_saved(&s, call->saved);
    if (!call->tape->recording && !call->is_repeated) {
        s.sums = NULL;
    }
    int64_t work = s.groups > 0 ? s.pairs * s.K * s.C / s.groups : 0;
    tg_parallel_for(s.groups, 1 + TG_GRAIN / (work + 1), score_groups, &s);
    for (int64_t b = 0; s.each && b < s.pairs; b++) {
        y[b] = (real)row_sum(s.losses + b * s.K, s.K);
    }
    if (!s.each) {
        *y = (real)(row_sum(s.losses, s.pairs * s.K) * s.scale);
    }
}

/* ---- backward ---- */

/* What the threads of backward share. */
typedef struct scatter {
    skip_gram s;
    const real *dl; /* of each pair, or one for all */
    real *dW, *dU;
    int32_t *row;      /* of each group its row in dW, and then of each target its row in dU */
    int32_t *group;    /* of each pair */
    int32_t *order;    /* the targets, sorted by their rows */
    int64_t count;     /* of targets in `order` */
    int32_t first_new; /* from this row on, those of dW, and then of dU, have no values until the first is written */
} scatter;

static inline real gradient_of_loss(const scatter *a, int64_t pair)
{
    return (real)((double)a->dl[a->s.each ? pair : 0] * a->s.scale);
}

/* Adds the columns begin .. end - 1 of the groups' sums to dW. */
static void add_sums(void *context, int64_t begin, int64_t end)
{
    const scatter *a = context;
    int32_t next_new = a->first_new;
    for (int64_t i = 0; i < a->s.groups; i++) {
        add_scaled(a->dW + a->row[i] * a->s.C + begin, a->s.sums + i * a->s.C + begin,
                   gradient_of_loss(a, a->s.begin[i]), end - begin, is_new_row(a->row[i], &next_new));
    }
}

/* Lists the targets that are not left out, and sorts them by their rows. Those of one row keep the order of the pairs.
 * `other` has the size of `order`. */
static void sort_targets(scatter *a, int32_t *other)
{
    int32_t most = 0;
    a->count = 0;
    for (int64_t b = 0; b < a->s.pairs; b++) {
        for (int64_t k = 0; k < a->s.K; k++) {
            const int64_t target = b * a->s.K + k;
            a->order[a->count] = (int32_t)target;
            a->count += !is_left_out(a->s.targets + b * a->s.K, k);
            most = a->row[target] > most ? a->row[target] : most;
        }
    }
    for (int shift = 0; shift < 31 && most >> shift > 0; shift += SORT_DIGIT) {
        int32_t next[SORT_DIGITS] = {0}, sum = 0, *from = a->order;
        for (int64_t i = 0; i < a->count; i++) {
            next[a->row[from[i]] >> shift & (SORT_DIGITS - 1)]++;
        }
        for (int digit = 0; digit < SORT_DIGITS; digit++) {
            const int32_t size = next[digit];
            next[digit] = sum;
            sum += size;
        }
        for (int64_t i = 0; i < a->count; i++) {
            other[next[a->row[from[i]] >> shift & (SORT_DIGITS - 1)]++] = from[i];
        }
        a->order = other;
        other = from;
    }
}

/* Adds the rows of dU whose first target is one of those from begin to end - 1 of the order. */
static void add_targets(void *context, int64_t begin, int64_t end)
{
    const scatter *a = context;
    const int32_t K = (int32_t)a->s.K, *order = a->order;
    int64_t i = begin;
    while (i > 0 && i < a->count && a->row[order[i]] == a->row[order[i - 1]]) {
        i++; /* the row of the thread before */
    }
    for (; i < a->count && (i < end || a->row[order[i]] == a->row[order[i - 1]]); i++) {
        const int32_t target = order[i], pair = target / K, row = a->row[target];
        const bool is_new = row >= a->first_new && (i == 0 || a->row[order[i - 1]] != row);
        add_scaled(a->dU + row * a->s.C, a->s.v + a->group[pair] * a->s.C, gradient_of_loss(a, pair) * a->s.g[target],
                   a->s.C, is_new);
    }
}

void KERNEL(tg_skip_gram_backward)(const tg_op_call *call)
{
    skip_gram s = skip_gram_of(call);
    const int64_t targets = s.pairs * s.K;
    scatter a = {.dl = call->output_gradients[0], .row = call->scratch};
    int32_t *other;
    a.order = a.row + targets;
    other = a.order + targets;
    a.group = other + targets;
    s.begin = a.group + s.pairs;
    s.groups = find_groups(s.centers, s.pairs, s.each, s.begin);
    find_saved(&s, call->saved);
    a.s = s;
    for (int64_t i = 0; i < s.groups; i++) {
        a.order[i] = s.centers[s.begin[i]];
        for (int64_t b = s.begin[i]; b < s.begin[i + 1]; b++) {
            a.group[b] = (int32_t)i;
        }
    }
    if ((a.dW = tg_find_grad_rows(call, TABLE, a.order, s.groups, a.row, &a.first_new))) {
        /* Threads divide the columns. */
        tg_parallel_for(s.C, 32, add_sums, &a);
    }
    if ((a.dU = tg_find_grad_rows(call, CONTEXTS, s.targets, targets, a.row, &a.first_new))) {
        sort_targets(&a, other);
        tg_parallel_for(a.count, 1 + TG_GRAIN / (s.C + 1), add_targets, &a);
    }
}

/* ---- the op ---- */

#ifdef TG_ONCE

/* Ids are contiguous; the tables may have any strides. */
static bool skip_gram_layout(const tg_tensor *input, int i)
{
    (void)input;
    return i == TABLE || i == CONTEXTS;
}

static bool skip_gram_shape(tg_op_call *call)
{
    const tg_tensor *centers = call->inputs[CENTERS], *table = call->inputs[TABLE], *targets = call->inputs[TARGETS],
                    *contexts = call->inputs[CONTEXTS];
    const tg_reduction reduction = *(const tg_reduction *)call->attributes;
    if (!tg_loss_check_reduction(call, reduction, false) || !tg_op_expect_rank(call, CENTERS, 1) ||
        !tg_op_expect_float(call, TABLE) || !tg_op_expect_rank(call, TABLE, 2) ||
        !tg_op_expect_rank(call, TARGETS, 2) || !tg_op_expect_float(call, CONTEXTS) ||
        !tg_op_expect_rank(call, CONTEXTS, 2)) {
        return false;
    }
    if (targets->shape[0] != centers->shape[0] || targets->shape[1] < 1) {
        return tg_op_fail(call, TG_ERROR_SHAPE, "centers %s and targets %s; they must be (B) and (B,K) with K >= 1",
                          tg_shape_text_of(centers).text, tg_shape_text_of(targets).text);
    }
    if (table->shape[1] != contexts->shape[1]) {
        return tg_op_fail(call, TG_ERROR_SHAPE, "a table %s and contexts %s; their rows must have the same width",
                          tg_shape_text_of(table).text, tg_shape_text_of(contexts).text);
    }
    if (targets->count > INT32_MAX) {
        return tg_op_fail(call, TG_ERROR_RANGE, "targets %s; a call has at most 2147483647",
                          tg_shape_text_of(targets).text);
    }
    if (!tg_op_expect_ids_below(call, CENTERS, table->shape[0]) ||
        !tg_op_expect_ids_below(call, TARGETS, contexts->shape[0])) {
        return false;
    }
    const int64_t pairs = centers->count, width = table->shape[1];
    const bool each = reduction == TG_REDUCTION_NONE;
    const int64_t groups = find_groups(tg_values(centers), pairs, each, NULL);
    const size_t size = tg_size_of(table->dtype);
    return tg_op_output(call, 0, tg_dtype_of(table), each ? TG_SHAPE(pairs) : TG_SCALAR) &&
           tg_op_save(call, targets->count, size) && tg_op_save(call, groups, 2 * size * (size_t)width) &&
           tg_op_scratch(call, targets->count, sizeof(double)) && tg_op_scratch(call, pairs + 1, sizeof(int32_t)) &&
           tg_op_reserve_rows(call, targets->count) &&
           tg_op_backward_scratch(call, targets->count, 3 * sizeof(int32_t)) &&
           tg_op_backward_scratch(call, 2 * pairs + 1, sizeof(int32_t));
}

static const tg_op skip_gram_op = {
    .name = "skip_gram_loss",
    .shape = skip_gram_shape,
    .input_names = {"centers", "table", "targets", "contexts"},
    TG_KERNELS(tg_skip_gram_forward, tg_skip_gram_backward),
    .accepts_layout = skip_gram_layout,
    .backward_ignores_inputs = 1u << TABLE | 1u << CONTEXTS, /* backward reads the ids and what forward has saved */
    .backward_ignores_outputs = TG_OP_ALL,
    .row_inputs = 1u << TABLE | 1u << CONTEXTS,
    .lookups = 1u << TABLE | 1u << CONTEXTS,
};

tg_tensor *tg_skip_gram_loss(tg_tape *t, tg_tensor *centers, tg_tensor *table, tg_tensor *targets, tg_tensor *contexts,
                             tg_reduction reduction)
{
    tg_tensor *inputs[] = {centers, table, targets, contexts};
    return tg_apply(t, &skip_gram_op, inputs, 4, &reduction, sizeof reduction, NULL);
}

#endif
