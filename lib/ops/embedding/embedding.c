/* embedding: rows of a table, selected by id.
 *
 *   forward     y[i,:]      = W[id[i],:]        W (V,C), ids of any shape S  ->  y (S,C)
 *   gradient    dW[id[i],:] += dy[i,:]          ids that repeat add up
 *
 * Follows torch.nn.functional.embedding.
 *
 * The shape rule checks every id before the forward kernel runs, so an invalid id changes nothing.
 *
 * Only the rows that an id names get a gradient. If W is a leaf, its gradient is by rows (tapegrad/tensor.h): it holds
 * only these rows, so backward costs as much as the batch, not as much as the table. Each row adds its dy[i,:] in the
 * order of i, and threads divide the columns, so the result has the same bits for any number of threads.
 *
 * Options (tapegrad/ops.h):
 *
 *   padding_index         this row gets no gradient; forward returns it like any other
 *   scale_by_frequency    dy[i,:] is divided by the number of ids that are equal to id[i]
 *   max_norm              before the lookup, rows with a larger norm are scaled down to it: in place, or, without
 *                         recording, in the result (embedding_options.c)
 *
 * An op file has these parts: the forward kernel, the backward kernel, the shape rule, the tg_op, and the public
 * function. Kernels read and write through a tg_op_call (tapegrad/op.h). The file is compiled for float and for double,
 * at each level of the processor: `real` is the type, and KERNEL(name) the name with the suffix _f32 or _f64 and that
 * of the level. The part below TG_ONCE is compiled once (base/real.h). TG_KERNELS lists the kernels.
 */
#include "ops/embedding/embedding.h"
#include "ops/grad_rows.h"

typedef struct embedding_attributes {
    int64_t padding;     /* the padding row, or -1 */
    bool by_frequency;   /* scale_by_frequency */
    tg_norm_limit limit; /* max_norm and norm_type */
} embedding_attributes;

TG_DECLARE_KERNELS(tg_embedding_forward, tg_embedding_backward);

/* ---- forward ---- */

/* The data that the threads of the forward pass share. N is the number of ids. W may be a view, of which only the rows
 * that an id names are read. */
typedef struct lookup {
    const real *W;     /* (V,C) */
    const int32_t *id; /* (N) */
    real *y;           /* (N,C) */
    int64_t C;
    const int64_t *strides; /* of W */
} lookup;

/* The same of a table of bf16, which is contiguous. */
static void convert_rows(void *context, int64_t begin, int64_t end)
{
    const lookup *l = context;
    for (int64_t i = begin; i < end; i++) {
        tg_convert(l->y + i * l->C, real_dtype, (const uint16_t *)(const void *)l->W + l->id[i] * l->C, TG_BF16, l->C);
    }
}

/* Copies one row of W to each of the rows begin .. end - 1 of y. */
static void copy_rows(void *context, int64_t begin, int64_t end)
{
    const lookup *l = context;
    const int64_t row_stride = l->strides[0], column_stride = l->strides[1];
    for (int64_t i = begin; i < end; i++) {
        const real *w = l->W + l->id[i] * row_stride;
        real *y = l->y + i * l->C;
        if (i + 1 < end) {
            tg_prefetch_row(l->W + l->id[i + 1] * row_stride, (size_t)l->C * sizeof(real));
        }
        if (column_stride == 1 && l->C >= 8) { /* a call of memcpy takes as long as some values */
            memcpy(y, w, (size_t)l->C * sizeof(real));
            continue;
        }
        for (int64_t c = 0; c < l->C; c++) {
            y[c] = w[c * column_stride];
        }
    }
}

void KERNEL(tg_embedding_forward)(const tg_op_call *call)
{
    const embedding_attributes *a = call->attributes;
    const tg_tensor *ids = call->inputs[0], *table = call->inputs[1];
    /* Does nothing without a max_norm. */
    tg_limit_norms(call, &a->limit);
    lookup l = {tg_values(table), tg_values(ids), tg_values(call->outputs[0]), table->shape[1], table->strides};
    /* Threads divide the ids, in ranges of about TG_GRAIN values. */
    tg_parallel_for(ids->count, 1 + TG_GRAIN / (l.C + 1), table->dtype == TG_BF16 ? convert_rows : copy_rows, &l);
    if (tg_limits_copies(call, &a->limit)) {
        tg_limit_copies(call, &a->limit, l.y);
    }
}

/* ---- backward ---- */

/* The data that the threads of backward share. A gradient by rows holds only the rows that an id names, so dy[i,:] is
 * added to dW[row[i],:]; in a dense gradient row[i] is id[i]. */
typedef struct scatter {
    const real *dy;     /* (N,C) */
    real *dW;           /* (rows,C) */
    const int32_t *row; /* (N); -1: no gradient */
    int32_t first_new;  /* from this row on, they have no values until their first dy[i,:] is written */
    const real *scale;  /* (N), the factor of dy[i,:]; NULL: 1 */
    int64_t N, C;
} scatter;

/* Adds the columns begin .. end - 1 of dy to dW. The forward pass computed y[i,:] = W[id[i],:]. */
static void add_rows(void *context, int64_t begin, int64_t end)
{
    const scatter *s = context;
    int32_t next_new = s->first_new;
    for (int64_t i = 0; i < s->N; i++) {
        if (s->row[i] < 0) {
            continue;
        }
        add_scaled(s->dW + s->row[i] * s->C + begin, s->dy + i * s->C + begin, s->scale ? s->scale[i] : 1, end - begin,
                   is_new_row(s->row[i], &next_new));
    }
}

void KERNEL(tg_embedding_backward)(const tg_op_call *call)
{
    const embedding_attributes *a = call->attributes;
    const tg_tensor *ids = call->inputs[0], *table = call->inputs[1];
    const int32_t *id = tg_values(ids);
    /* The scratch memory has three arrays of N values. */
    real *scale = call->scratch;
    int32_t *row = (int32_t *)(scale + ids->count), *sorted = row + ids->count;
    int32_t first_new;
    real *dW = tg_rows_of_ids(call, 1, id, ids->count, a->padding, row, &first_new);
    if (!dW) {
        return; /* no row gets a gradient */
    }
    if (a->by_frequency) {
        KERNEL(tg_frequency_scales)(id, ids->count, sorted, scale);
    }
    scatter s = {
        call->output_gradients[0], dW, row, first_new, a->by_frequency ? scale : NULL, ids->count, table->shape[1]};
    /* Threads divide the columns, in ranges of about TG_GRAIN values and at least 16 columns. */
    int64_t grain = s.N > 0 ? TG_GRAIN / s.N : s.C;
    tg_parallel_for(s.C, grain < 16 ? 16 : grain, add_rows, &s);
}

#ifdef TG_ONCE
#include "ops/differentiate.h"

/* ---- gradients in ops ---- */

/* The gradient is dense: rows of dy, added to zeros. */
static void differentiate_embedding(tg_tape *t, const tg_op_call *call, tg_tensor *const *dy, tg_tensor **dx)
{
    const embedding_attributes *a = call->attributes;
    const tg_tensor *table = call->inputs[1];
    const tg_shape column = {2, {call->inputs[0]->count, 1}};
    tg_tensor *id = tg_reshape(t, call->inputs[0], (tg_shape){1, {column.size[0]}}), *rows = tg_as_rows(t, dy[0]);
    if (a->padding >= 0) {
        tg_tensor *is_padding = tg_eq(t, id, tg_full(t, TG_I32, TG_SCALAR, (double)a->padding));
        rows = tg_masked_fill(t, rows, tg_reshape(t, is_padding, column), 0);
    }
    if (a->by_frequency) {
        tg_tensor *none = tg_full(t, TG_F64, (tg_shape){2, {table->shape[0], 1}}, 0);
        tg_tensor *frequency = tg_index_add(t, none, 0, id, tg_full(t, TG_F64, column, 1));
        rows = tg_div(t, rows, tg_cast(t, tg_index_select(t, frequency, 0, id), tg_dtype_of(table)));
    }
    dx[1] = tg_index_add(t, tg_zeros_like(t, table), 0, id, rows);
}

/* ---- the op ---- */

/* Ids are contiguous; the table may have any strides. */
static bool embedding_layout(const tg_tensor *input, int i)
{
    (void)input;
    return i == TG_LOOKUP_TABLE;
}

/* The shape rule: checks the inputs, and declares the output and the memory of the kernels. */
static bool embedding_shape(tg_op_call *call)
{
    const embedding_attributes *a = call->attributes;
    const tg_tensor *ids = call->inputs[0], *table = call->inputs[1];
    tg_shape shape = tg_shape_of(ids);
    if (!tg_op_expect_float(call, 1) || !tg_op_expect_rank(call, 1, 2) ||
        !tg_op_expect_ids_below(call, 0, table->shape[0]) || !tg_check_norm_limit(call, 1, &a->limit)) {
        return false;
    }
    if (shape.rank == TG_MAX_RANK) {
        return tg_op_fail(call, TG_ERROR_SHAPE,
                          "ids of rank %d; it must be at most %d, because the result has one more axis", shape.rank,
                          TG_MAX_RANK - 1);
    }
    shape.size[shape.rank++] = table->shape[1];
    return tg_op_output(call, 0, table->dtype == TG_BF16 ? TG_F32 : tg_dtype_of(table), shape) &&
           tg_op_reserve_rows(call, ids->count) &&
           (a->limit.norm == 0 || tg_op_scratch(call, ids->count, sizeof(int32_t))) &&
           tg_op_backward_scratch(call, ids->count, sizeof(double) + 2 * sizeof(int32_t));
}

static const tg_op embedding_op = {
    .name = "embedding",
    .shape = embedding_shape,
    .input_names = {"ids", "table"},
    TG_KERNELS(tg_embedding_forward, tg_embedding_backward),
    .accepts_layout = embedding_layout,
    .backward_ignores_inputs = 1u << 1, /* input 1, the table: backward reads the ids alone */
    .backward_ignores_outputs = TG_OP_ALL,
    .row_inputs = 1u << 1, /* the table's gradient is by rows */
    .lookups = 1u << TG_LOOKUP_TABLE,
    .bf16_inputs = 1u << TG_LOOKUP_TABLE,
    .differentiate = differentiate_embedding,
};

/* Identifies a tg_embedding_config (tg_config_check). */
static const char mark[] = "tg_embedding_config_default";

tg_embedding_config tg_embedding_config_default(void)
{
    return (tg_embedding_config){.mark = mark, .padding_index = TG_NO_PADDING, .norm_type = 2};
}

tg_tensor *tg_embedding(tg_tape *t, tg_tensor *ids, tg_tensor *table, const tg_embedding_config *given)
{
    if (!tg_tape_expect_config(t, "embedding", given, mark)) {
        return NULL;
    }
    tg_embedding_config config = given ? *given : tg_embedding_config_default();
    embedding_attributes a = {.by_frequency = config.scale_by_frequency, .limit = {config.max_norm, config.norm_type}};
    tg_tensor *inputs[] = {ids, table};
    return tg_padding_row(t, "embedding", table, config.padding_index, &a.padding)
               ? tg_apply(t, &embedding_op, inputs, 2, &a, sizeof a, NULL)
               : NULL;
}

#endif
