/* matmul: batches of matrix products.
 *
 *   forward     C[b] = A[b] B[b]          A (..,M,K), B (..,K,N)  ->  C (..,M,N)
 *   gradient    dA[b] += dC[b] B[b]^T     summed over the batches that A was repeated for
 *               dB[b] += A[b]^T dC[b]     likewise
 *
 * BLAS's gemm computes all of them. It reads row-major and transposed operands with any distance between rows, so a
 * transposed weight is not copied; operands of other layouts are made contiguous first. Batches broadcast: if all
 * matrices of a batch are multiplied by one matrix (a linear layer on (B,T,C)), forward and backward are one large
 * product of (B T) rows instead of B small ones. Threads divide the products of a batch, or, if these are large, each
 * product; the gradients of a shared operand are added in batch order.
 *
 * Follows torch.matmul.
 */
#include "ops/kernel_real.h"

TG_DECLARE_KERNELS(tg_matmul_forward, tg_matmul_backward);

/* The most multiplications of a product that one thread computes. */
static const double small_product = 256.0 * 256 * 256;

/* The matrices of one operand: each is (rows,columns), and in memory row-major or transposed. */
typedef struct operand {
    int64_t rows, columns;
    bool transposed;
    int64_t distance;            /* between rows; if transposed, between columns */
    int64_t stride[TG_MAX_RANK]; /* between matrices along each batch axis; 0 where broadcast */
} operand;

typedef struct product {
    operand a, b, c;
    operand da, db; /* the gradients of A and B */
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

/* Returns the matrices of x in the batch shape, or those of its gradient, which are contiguous. */
static operand operand_of(const tg_tensor *x, const product *p, bool is_gradient)
{
    operand o = {.rows = x->shape[x->rank - 2], .columns = x->shape[x->rank - 1]};
    o.transposed = !is_gradient && !row_major(x);
    int64_t stored =
        o.transposed ? (o.columns == 1 ? 0 : x->strides[x->rank - 1]) : (o.rows == 1 ? 0 : x->strides[x->rank - 2]);
    o.distance = at_least(is_gradient ? 0 : stored, o.transposed ? o.rows : o.columns);
    int64_t next = o.rows * o.columns;
    for (int axis = p->batch_rank - 1; axis >= 0; axis--) {
        int own = axis - (p->batch_rank - (x->rank - 2));
        bool repeated = own < 0 || x->shape[own] == 1;
        o.stride[axis] = repeated ? 0 : is_gradient ? next : x->strides[own];
        next *= repeated ? 1 : x->shape[own];
    }
    return o;
}

/* Turns the batch into one product with a tall matrix A, if all matrices A[b] have the same B and add to the same
 * gradient of B, and follow each other without gaps. An expanded B has the same values for all, but a gradient for
 * each. */
static void join_batches(product *p)
{
    bool joined = p->batch_rank > 0 && !p->a.transposed;
    int64_t expected_a = p->a.rows * p->a.distance, expected_c = p->c.rows * p->c.distance;
    for (int axis = p->batch_rank - 1; joined && axis >= 0; axis--) {
        if (p->batch[axis] != 1) {
            joined = p->db.stride[axis] == 0 && p->a.stride[axis] == expected_a && p->c.stride[axis] == expected_c;
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

/* The matrices of a contiguous C. */
static operand result_of(const tg_shape *c, const product *p)
{
    operand o = {.rows = c->size[c->rank - 2], .columns = c->size[c->rank - 1]};
    o.distance = o.columns;
    int64_t next = o.rows * o.columns;
    for (int axis = p->batch_rank - 1; axis >= 0; axis--) {
        o.stride[axis] = p->batch[axis] == 1 ? 0 : next;
        next *= p->batch[axis];
    }
    return o;
}

static product product_of(const tg_op_call *call, tg_shape c)
{
    const tg_tensor *a = call->inputs[0], *b = call->inputs[1];
    product p = {.batch_rank = c.rank - 2, .batches = 1};
    for (int axis = 0; axis < p.batch_rank; axis++) {
        p.batch[axis] = c.size[axis];
        p.batches *= c.size[axis];
    }
    p.a = operand_of(a, &p, false);
    p.b = operand_of(b, &p, false);
    p.c = result_of(&c, &p);
    p.da = operand_of(a, &p, true);
    p.db = operand_of(b, &p, true);
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

/* Returns whether a product is added to a gradient: false if it is the first contribution to a matrix that is to be
 * overwritten. */
static bool adds_to(bool overwrite, const product *p, const operand *gradient, int64_t batch)
{
    bool first = true; /* index 0 on every axis along which the matrix is repeated */
    for (int axis = p->batch_rank - 1; axis >= 0; axis--) {
        first = first && (gradient->stride[axis] != 0 || p->batch[axis] == 1 || batch % p->batch[axis] == 0);
        batch /= p->batch[axis];
    }
    return !(overwrite && first);
}

/* One product of each batch: the matrices of c are those of a times those of b. */
typedef struct products {
    const product *p;
    tg_gemm g;
    const real *a, *b;
    real *c;
    const operand *of_a, *of_b, *of_c;
    bool overwrite;
} products;

static void multiply_batches(void *context, int64_t begin, int64_t end)
{
    const products *x = context;
    for (int64_t i = begin; i < end; i++) {
        tg_gemm g = x->g;
        g.add = adds_to(x->overwrite, x->p, x->of_c, i);
        gemm(&g, x->a + start(x->p, x->of_a, i), x->b + start(x->p, x->of_b, i), x->c + start(x->p, x->of_c, i));
    }
}

/* Computes the products: small ones each in one thread, unless several are added to one matrix; others one after the
 * other, each by all threads. */
static void multiply_all(products *x)
{
    const product *p = x->p;
    double multiplications = (double)x->g.m * (double)x->g.n * (double)x->g.k;
    x->g.in_thread = p->batches >= tg_threads() && multiplications <= small_product;
    for (int axis = 0; axis < p->batch_rank; axis++) {
        x->g.in_thread = x->g.in_thread && (x->of_c->stride[axis] != 0 || p->batch[axis] == 1);
    }
    if (x->g.in_thread) {
        tg_parallel_for(p->batches, 1 + (int64_t)(TG_GRAIN / (multiplications + 1)), multiply_batches, x);
    } else {
        multiply_batches(x, 0, p->batches);
    }
}

void KERNEL(tg_matmul_forward)(const tg_op_call *call)
{
    product p = product_of(call, tg_shape_of(call->outputs[0]));
    tg_gemm g = {p.c.rows, p.c.columns, p.a.columns, .lda = p.a.distance, .ldb = p.b.distance, .ldc = p.c.distance};
    g.transpose_a = p.a.transposed;
    g.b_layout = p.b.transposed ? TG_TRANSPOSED : TG_ROW_MAJOR;
    const real *a = tg_values(call->inputs[0]), *b = tg_values(call->inputs[1]);
    multiply_all(&(products){&p, g, a, b, tg_values(call->outputs[0]), &p.a, &p.b, &p.c, .overwrite = true});
}

void KERNEL(tg_matmul_backward)(const tg_op_call *call)
{
    product p = product_of(call, tg_shape_of(call->outputs[0]));
    const real *a = tg_values(call->inputs[0]), *b = tg_values(call->inputs[1]), *dc = call->output_gradients[0];
    real *da = call->input_gradients[0], *db = call->input_gradients[1];
    if (da) {
        tg_gemm g = {
            p.c.rows, p.a.columns, p.c.columns, .lda = p.c.distance, .ldb = p.b.distance, .ldc = p.da.distance};
        g.b_layout = p.b.transposed ? TG_ROW_MAJOR : TG_TRANSPOSED;
        multiply_all(&(products){&p, g, dc, b, da, &p.c, &p.b, &p.da, .overwrite = writes_gradient(call, 0)});
    }
    if (db) {
        tg_gemm g = {p.a.columns,         p.c.columns,         p.c.rows,
                     .lda = p.a.distance, .ldb = p.c.distance, .ldc = p.db.distance};
        g.transpose_a = !p.a.transposed;
        multiply_all(&(products){&p, g, a, dc, db, &p.a, &p.c, &p.db, .overwrite = writes_gradient(call, 1)});
    }
}

#ifdef TG_ONCE
#include "ops/differentiate.h"

/* ---- gradients in ops ---- */

static void differentiate_matmul(tg_tape *t, const tg_op_call *call, tg_tensor *const *dy, tg_tensor **dx)
{
    tg_tensor *a = call->inputs[0], *b = call->inputs[1], *dc = dy[0];
    dx[0] = tg_wants(call, 0) ? tg_matmul(t, dc, tg_transpose(t, b, -2, -1)) : NULL;
    if (tg_wants(call, 1)) {
        const bool is_tall = a->rank > 2 && b->rank == 2 && tg_row_count(a) <= TG_GEMM_LIMIT; /* one product for all */
        a = is_tall ? tg_as_rows(t, a) : a;
        dc = is_tall ? tg_as_rows(t, dc) : dc;
        dx[1] = tg_matmul(t, tg_transpose(t, a, -2, -1), dc);
    }
}

/* ---- the op ---- */

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
    if (!tg_op_expect_float(call, 0) || !tg_op_expect_float(call, 1)) {
        return false;
    }
    int64_t m = a_shape.size[a->rank - 2], k = a_shape.size[a->rank - 1], n = b_shape.size[b->rank - 1];
    if (k != b_shape.size[b->rank - 2]) {
        return tg_op_fail(call, TG_ERROR_SHAPE, "%s x %s: inner sizes %lld and %lld differ",
                          tg_shape_text(a_shape).text, tg_shape_text(b_shape).text, (long long)k,
                          (long long)b_shape.size[b->rank - 2]);
    }
    if (m > TG_GEMM_LIMIT || k > TG_GEMM_LIMIT || n > TG_GEMM_LIMIT) {
        return tg_op_fail(call, TG_ERROR_SHAPE, "%s x %s: BLAS takes sizes up to %d", tg_shape_text(a_shape).text,
                          tg_shape_text(b_shape).text, TG_GEMM_LIMIT);
    }
    tg_shape a_batch = a_shape, b_batch = b_shape;
    a_batch.rank -= 2;
    b_batch.rank -= 2;
    if (!tg_shape_broadcast(&a_batch, &b_batch, &shape)) {
        return tg_op_fail(call, TG_ERROR_SHAPE, "%s x %s: the batch axes do not broadcast; sizes must be equal or 1",
                          tg_shape_text(a_shape).text, tg_shape_text(b_shape).text);
    }
    shape.size[shape.rank++] = m;
    shape.size[shape.rank++] = n;
    return tg_op_output(call, 0, tg_dtype_of(a), shape);
}

static const tg_op matmul_op = {
    .name = "matmul",
    .shape = matmul_shape,
    .input_names = {"a", "b"},
    TG_KERNELS(tg_matmul_forward, tg_matmul_backward),
    .accepts_layout = matrix_layout,
    .backward_ignores_outputs = TG_OP_ALL,
    .can_overwrite = true,
    .differentiate = differentiate_matmul,
};

tg_tensor *tg_matmul(tg_tape *t, tg_tensor *a, tg_tensor *b)
{
    if (!tg_tape_expect_input(t, "matmul", "a", a) || !tg_tape_expect_input(t, "matmul", "b", b)) {
        return NULL;
    }
    if (a->rank == 0 || b->rank == 0) {
        tg_tape_fail(t, TG_ERROR_SHAPE, "matmul", "argument '%s' is a scalar; it must have rank 1 or more",
                     a->rank == 0 ? "a" : "b");
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
