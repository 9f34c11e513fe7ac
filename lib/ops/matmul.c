/* matmul: batches of matrix products.
 *
 *   forward     C[b] = A[b] B[b]          A (..,M,K), B (..,K,N)  ->  C (..,M,N)
 *   gradient    dA[b] += dC[b] B[b]^T     summed over the batches that A was repeated for
 *               dB[b] += A[b]^T dC[b]     likewise
 *
 * BLAS's gemm computes all of them. It reads row-major and transposed operands with any distance between rows, so a
 * transposed weight is not copied; operands of other layouts are made contiguous first. Batches broadcast: if all
 * matrices of a batch are multiplied by one matrix (a linear layer on (B,T,C)), forward and backward are one large
 * product of (B T) rows instead of B small ones. The products of a batch run one after the other, each on BLAS's
 * threads, and the gradients of a shared operand are added in batch order.
 *
 * Follows torch.matmul.
 */
#include "ops/kernel.h"

TG_DECLARE_KERNEL(tg_matmul_forward);
TG_DECLARE_KERNEL(tg_matmul_backward);

/* The matrices of one operand: each is (rows,columns), and in memory row-major or transposed. */
typedef struct operand {
    int64_t rows, columns;
    bool transposed;
    int64_t distance;            /* between rows; if transposed, between columns */
    int64_t stride[TG_MAX_RANK]; /* between matrices along each batch axis; 0 where broadcast */
} operand;

typedef struct product {
    operand a, b, c;
    int batch_rank;
    int64_t batch[TG_MAX_RANK];
    int64_t batches;
} product;

static bool row_major(const tg_tensor *x)
{
    int64_t row = x->strides[x->rank - 2], column = x->strides[x->rank - 1];
    int64_t rows = x->shape[x->rank - 2], columns = x->shape[x->rank - 1];
    return (columns == 1 || column == 1) && (rows == 1 || row >= columns);
}

static int64_t at_least(int64_t distance, int64_t least)
{
    return distance < least ? least : distance;
}

/* Returns the matrices of x, or, with `contiguous`, those of its gradient, in the batch shape. */
static operand operand_of(const tg_tensor *x, const product *p, bool contiguous)
{
    tg_shape shape = tg_shape_of(x);
    int64_t plain[TG_MAX_RANK];
    tg_contiguous_strides(&shape, plain);
    const int64_t *strides = contiguous ? plain : x->strides;
    operand o = {.rows = x->shape[x->rank - 2], .columns = x->shape[x->rank - 1]};
    o.transposed = !contiguous && !row_major(x);
    o.distance = o.transposed ? at_least(o.columns == 1 ? 0 : strides[x->rank - 1], o.rows)
                              : at_least(o.rows == 1 ? 0 : strides[x->rank - 2], o.columns);
    for (int axis = 0; axis < p->batch_rank; axis++) {
        int own = axis - (p->batch_rank - (x->rank - 2));
        o.stride[axis] = own >= 0 && x->shape[own] != 1 ? strides[own] : 0;
    }
    return o;
}

/* Turns the batch into one product with a tall matrix A, if all matrices A[b] have the same B, and follow each other
 * without gaps. */
static void join_batches(product *p)
{
    bool joined = p->batch_rank > 0 && !p->a.transposed;
    int64_t expected_a = p->a.rows * p->a.distance, expected_c = p->c.rows * p->c.distance;
    for (int axis = p->batch_rank - 1; joined && axis >= 0; axis--) {
        if (p->batch[axis] != 1) {
            joined = p->b.stride[axis] == 0 && p->a.stride[axis] == expected_a && p->c.stride[axis] == expected_c;
            expected_a *= p->batch[axis];
            expected_c *= p->batch[axis];
        }
    }
    if (joined && p->batches * p->a.rows <= TG_GEMM_LIMIT) {
        p->a.rows *= p->batches;
        p->c.rows *= p->batches;
        p->batch_rank = 0;
        p->batches = 1;
    }
}

static product product_of(const tg_op_call *call)
{
    const tg_tensor *c = call->outputs[0];
    product p = {.batch_rank = c->rank - 2, .batches = 1};
    for (int axis = 0; axis < p.batch_rank; axis++) {
        p.batch[axis] = c->shape[axis];
        p.batches *= c->shape[axis];
    }
    p.a = operand_of(call->inputs[0], &p, false);
    p.b = operand_of(call->inputs[1], &p, false);
    p.c = operand_of(c, &p, true);
    join_batches(&p);
    return p;
}

/* Returns the offset of matrix number `batch`. */
static int64_t start(const product *p, const operand *o, int64_t batch)
{
    int64_t start = 0;
    for (int axis = p->batch_rank - 1; axis >= 0; axis--) {
        start += batch % p->batch[axis] * o->stride[axis];
        batch /= p->batch[axis];
    }
    return start;
}

void KERNEL(tg_matmul_forward)(const tg_op_call *call)
{
    product p = product_of(call);
    const real *a = tg_values(call->inputs[0]), *b = tg_values(call->inputs[1]);
    real *c = tg_values(call->outputs[0]);
    tg_gemm g = {p.a.rows,       p.b.columns,  p.a.columns,  p.a.transposed,
                 p.b.transposed, p.a.distance, p.b.distance, p.c.distance};
    for (int64_t i = 0; i < p.batches; i++) {
        gemm(&g, a + start(&p, &p.a, i), b + start(&p, &p.b, i), 0, c + start(&p, &p.c, i));
    }
}

/* Returns gemm's beta: 0 if the product is the first contribution to a matrix that is to be overwritten, else 1. */
static real beta_of(bool overwrite, const product *p, const operand *gradient, int64_t batch)
{
    bool first = true; /* index 0 on every axis along which the matrix is repeated */
    for (int axis = p->batch_rank - 1; axis >= 0; axis--) {
        first = first && (gradient->stride[axis] != 0 || p->batch[axis] == 1 || batch % p->batch[axis] == 0);
        batch /= p->batch[axis];
    }
    return overwrite && first ? 0 : 1;
}

void KERNEL(tg_matmul_backward)(const tg_op_call *call)
{
    product p = product_of(call);
    const real *a = tg_values(call->inputs[0]), *b = tg_values(call->inputs[1]), *dc = call->output_gradients[0];
    real *da = call->input_gradients[0], *db = call->input_gradients[1];
    operand to_a = operand_of(call->inputs[0], &p, true), to_b = operand_of(call->inputs[1], &p, true);
    /* The forward pass computed C = A B, so dA = dC B^T and dB = A^T dC. */
    tg_gemm for_a = {p.a.rows,        p.a.columns,  p.c.columns,  false,
                     !p.b.transposed, p.c.distance, p.b.distance, to_a.distance};
    tg_gemm for_b = {p.b.rows, p.b.columns,  p.c.rows,     !p.a.transposed,
                     false,    p.a.distance, p.c.distance, to_b.distance};
    for (int64_t i = 0; i < p.batches; i++) {
        const real *dc_i = dc + start(&p, &p.c, i);
        if (da) {
            gemm(&for_a, dc_i, b + start(&p, &p.b, i), beta_of(call->overwrite[0], &p, &to_a, i),
                 da + start(&p, &to_a, i));
        }
        if (db) {
            gemm(&for_b, a + start(&p, &p.a, i), dc_i, beta_of(call->overwrite[1], &p, &to_b, i),
                 db + start(&p, &to_b, i));
        }
    }
}

#ifdef TG_ONCE

static bool column_major(const tg_tensor *x)
{
    int64_t row = x->strides[x->rank - 2], column = x->strides[x->rank - 1];
    int64_t rows = x->shape[x->rank - 2], columns = x->shape[x->rank - 1];
    return (rows == 1 || row == 1) && (columns == 1 || column >= rows);
}

static bool matrix_layout(const tg_tensor *x, int i)
{
    (void)i;
    return x->rank >= 2 && (row_major(x) || column_major(x)) && x->strides[x->rank - 1] <= TG_GEMM_LIMIT &&
           x->strides[x->rank - 2] <= TG_GEMM_LIMIT;
}

static bool matmul_shape(tg_op_call *call)
{
    const tg_tensor *a = call->inputs[0], *b = call->inputs[1];
    tg_shape a_shape = tg_shape_of(a), b_shape = tg_shape_of(b), shape;
    char a_text[TG_SHAPE_TEXT], b_text[TG_SHAPE_TEXT];
    if (!tg_op_expect_float(call, 0) || !tg_op_expect_float(call, 1)) {
        return false;
    }
    int64_t m = a_shape.size[a->rank - 2], k = a_shape.size[a->rank - 1], n = b_shape.size[b->rank - 1];
    if (k != b_shape.size[b->rank - 2]) {
        return tg_op_fail(call, TG_ERROR_SHAPE, "%s x %s: inner sizes %lld and %lld differ",
                          tg_shape_format(a_shape, a_text), tg_shape_format(b_shape, b_text), (long long)k,
                          (long long)b_shape.size[b->rank - 2]);
    }
    if (m > TG_GEMM_LIMIT || k > TG_GEMM_LIMIT || n > TG_GEMM_LIMIT) {
        return tg_op_fail(call, TG_ERROR_SHAPE, "%s x %s: BLAS takes sizes up to %d", tg_shape_format(a_shape, a_text),
                          tg_shape_format(b_shape, b_text), TG_GEMM_LIMIT);
    }
    tg_shape a_batch = a_shape, b_batch = b_shape;
    a_batch.rank -= 2;
    b_batch.rank -= 2;
    if (!tg_shape_broadcast(&a_batch, &b_batch, &shape)) {
        return tg_op_fail(call, TG_ERROR_SHAPE, "%s x %s: the batch axes do not broadcast; sizes must be equal or 1",
                          tg_shape_format(a_shape, a_text), tg_shape_format(b_shape, b_text));
    }
    shape.size[shape.rank++] = m;
    shape.size[shape.rank++] = n;
    return tg_op_output(call, 0, tg_dtype_of(a), shape);
}

static const tg_op matmul_op = {
    .name = "matmul",
    .shape = matmul_shape,
    TG_KERNELS(tg_matmul_forward, tg_matmul_backward),
    .accepts_layout = matrix_layout,
    .backward_ignores_outputs = TG_OP_ALL,
    .can_overwrite = true,
};

tg_tensor *tg_matmul(tg_tape *t, tg_tensor *a, tg_tensor *b)
{
    if (!tg_tape_expect_tensor(t, "matmul", "left operand", a) ||
        !tg_tape_expect_tensor(t, "matmul", "right operand", b)) {
        return NULL;
    }
    if (a->rank == 0 || b->rank == 0) {
        tg_tape_fail(t, TG_ERROR_SHAPE, "matmul", "the %s operand is a scalar; it must have rank 1 or more",
                     a->rank == 0 ? "left" : "right");
        return NULL;
    }
    tg_tape_point point;
    tg_tape_save_point(t, false, &point);
    bool row = a->rank == 1, column = b->rank == 1;
    a = row ? tg_unsqueeze(t, a, 0) : a;
    b = column ? tg_unsqueeze(t, b, 1) : b;
    tg_tensor *inputs[] = {a, b};
    tg_tensor *c = tg_apply(t, &matmul_op, inputs, 2, NULL, 0, NULL);
    c = column && c ? tg_squeeze(t, c, -1) : c;
    return tg_tape_end(t, &point, row && c ? tg_squeeze(t, c, column ? -1 : -2) : c);
}

#endif
