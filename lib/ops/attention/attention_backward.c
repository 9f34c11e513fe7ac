/* attention_backward: the gradient of scaled dot-product attention (attention.c).
 *
 *   dv += (P m)^T dy        dP = (dy v^T) m       dS = P (dP - r)     r_i = sum_j dP_ij P_ij = dy_i . y_i
 *   dq += scale dS k        dk += scale dS^T q    db += dS
 *
 * The tiles are those of forward (attention_tiles.h), and P_ij = exp((S_ij - M_i) - l_i). r_i = dy_i . y_i also holds
 * with dropout, because y contains the mask m (Dao et al. 2022, appendix B.2). dk, dv and db are summed over the
 * matrices of queries that share a matrix of keys, values or bias.
 *
 * P, dS and scale dS hold no subnormals (math/exp.h): products read them, and so may the op that computed the bias. dq,
 * dk and dv are sums of products, and may hold a few.
 */
#include "ops/attention/attention_tiles.h"

TG_DECLARE_KERNEL(tg_attention_backward);

/* The gradients of one matrix; NULL for those that no input needs. */
typedef struct gradients {
    real *dq, *dk, *dv;
    real *dbias; /* rows are S apart */
    bool overwrite_dbias;
} gradients;

/* Returns the matrix of the gradient of an input, which is contiguous, for matrix `batch` of the queries. NULL if the
 * input needs no gradient. *is_new is whether its values are uninitialized. */
static real *gradient_matrix(const attention *a, int input, int64_t batch, bool *is_new)
{
    const tg_tensor *x = a->call->inputs[input], *q = a->call->inputs[0];
    real *gradient = a->call->input_gradients[input];
    *is_new = gradient && writes_gradient(a->call, input) && tg_is_first_use(x, q, batch);
    return gradient ? gradient + tg_repeated_matrix_of(x, q, batch, true) : NULL;
}

/* The same for queries, keys or values, whose new gradients it sets to zero. */
static real *cleared_matrix(const attention *a, int input, int64_t batch)
{
    const tg_tensor *x = a->call->inputs[input];
    bool is_new;
    real *gradient = gradient_matrix(a, input, batch, &is_new);
    if (is_new) {
        memset(gradient, 0, (size_t)(x->shape[x->rank - 2] * x->shape[x->rank - 1]) * sizeof(real));
    }
    return gradient;
}

static gradients gradients_of(const attention *a, int64_t batch)
{
    gradients g = {
        .dq = cleared_matrix(a, 0, batch), .dk = cleared_matrix(a, 1, batch), .dv = cleared_matrix(a, 2, batch)};
    g.dbias = a->bias ? gradient_matrix(a, 3, batch, &g.overwrite_dbias) : NULL;
    return g;
}

/* Adds n values of dS to a row of the gradient of the bias. */
static void add_to_bias(const gradients *g, const real *drow, int64_t n, int64_t columns, real *dbias)
{
    if (g->overwrite_dbias) {
        memcpy(dbias, drow, (size_t)n * sizeof(real));
        memset(dbias + n, 0, (size_t)(columns - n) * sizeof(real));
        return;
    }
    for (int64_t j = 0; j < n; j++) {
        dbias[j] += drow[j];
    }
}

/* Replaces the products q k^T in `tile` by P m, and dy v^T in `dtile` by scale dS. */
static void gradient_of_tile(const attention *a, const attention_block *b, const gradients *g, const real *r,
                             int64_t first, int64_t columns, real *tile, real *dtile)
{
    for (int64_t i = 0; i < b->rows; i++) {
        real *row = tile + i * columns, *drow = dtile + i * columns;
        real most = a->maxima[b->row + i], log_sum = a->log_sums[b->row + i];
        int64_t n = visible_in_tile(a, b, i, first, columns);
        drop(a, b, i, first, n, drow);
        score_row(a, b, i, first, n, row);
        for (int64_t j = 0; j < n; j++) {
            row[j] = real_exp_or_zero(row[j] - most - log_sum);
            drow[j] = normal_or_zero(row[j] * (drow[j] - r[i]));
        }
        if (g->dbias) {
            add_to_bias(g, drow, n, columns, g->dbias + (b->first + i) * a->keys + first);
        }
        for (int64_t j = 0; j < n; j++) {
            drow[j] = normal_or_zero(drow[j] * a->scale);
        }
        drop(a, b, i, first, n, row);
        memset(row + n, 0, (size_t)(columns - n) * sizeof(real));
        memset(drow + n, 0, (size_t)(columns - n) * sizeof(real));
    }
}

static void backward_of_block(const attention *a, const attention_block *b, const gradients *g)
{
    real tile[TILE_VALUES], dtile[TILE_VALUES], r[ATTENTION_TILE];
    const int64_t width = a->width, rows = b->rows;
    const real *y = a->y + b->row * width, *dy = a->dy + b->row * width;
    for (int64_t i = 0; i < rows; i++) {
        r[i] = (real)row_dot(dy + i * width, y + i * width, width);
    }
    for (int64_t first = b->begin; first < b->visible; first += b->columns) {
        int64_t columns = b->visible - first < b->columns ? b->visible - first : b->columns;
        const real *k = b->k + first * a->lk, *v = b->v + first * a->lv;
        const tg_gemm dweights = {rows,         columns,      width,          .b_layout = TG_TRANSPOSED,
                                  .lda = width, .ldb = a->lv, .ldc = columns, .in_thread = true};
        multiply_keys(a, b, first, columns, tile);
        gemm(&dweights, dy, v, dtile);
        gradient_of_tile(a, b, g, r, first, columns, tile, dtile);
        tg_gemm to_queries = {rows,         width,        columns,     .lda = columns,
                              .ldb = a->lk, .ldc = width, .add = true, .in_thread = true};
        tg_gemm to_keys = {columns,      width,        rows,        .transpose_a = true, .lda = columns,
                           .ldb = a->lq, .ldc = width, .add = true, .in_thread = true};
        tg_gemm to_values = to_keys;
        to_values.ldb = width;
        if (g->dq) {
            gemm(&to_queries, dtile, k, g->dq + b->first * width);
        }
        if (g->dk) {
            gemm(&to_keys, dtile, b->q, g->dk + first * width);
        }
        if (g->dv) {
            gemm(&to_values, tile, dy, g->dv + first * width);
        }
    }
    for (int64_t i = 0; g->overwrite_dbias && i < rows; i++) {
        real *row = g->dbias + (b->first + i) * a->keys;
        const int64_t end = b->visible > b->begin ? b->visible : b->begin;
        memset(row, 0, (size_t)b->begin * sizeof(real));
        memset(row + end, 0, (size_t)(a->keys - end) * sizeof(real));
    }
}

static void backward_of_matrix(const attention *a, int64_t batch)
{
    gradients g = gradients_of(a, batch);
    for (int64_t block = 0; block < a->blocks; block++) {
        attention_block b = attention_block_of(a, batch, block);
        backward_of_block(a, &b, &g);
    }
}

/* ---- groups of matrices ---- */

/* The matrices of queries that share a matrix of dk, dv or db form a group, which one thread computes. Along each batch
 * axis a group has `members` neighbors. */
typedef struct grouping {
    const attention *a;
    int64_t members[TG_MAX_RANK];
    int64_t groups, size; /* the number of groups, and of matrices per group */
} grouping;

/* Along an axis, matrices are shared by 1 query, by all, or by the heads of a group, whose number is the same for keys
 * and values. So the largest of these numbers is a multiple of the others. */
static grouping grouping_of(const attention *a)
{
    const tg_tensor *q = a->call->inputs[0];
    grouping g = {.a = a, .groups = a->batches, .size = 1};
    for (int axis = 0; a->batches > 0 && axis < q->rank - 2; axis++) {
        g.members[axis] = 1;
        for (int i = 1; i < (a->bias ? 4 : 3); i++) {
            const tg_tensor *x = a->call->inputs[i];
            int own = axis - q->rank + x->rank;
            int64_t shared_by = q->shape[axis] / (own < 0 ? 1 : x->shape[own]);
            if (a->call->input_gradients[i] && shared_by > g.members[axis]) {
                g.members[axis] = shared_by;
            }
        }
        g.groups /= g.members[axis];
        g.size *= g.members[axis];
    }
    return g;
}

/* Returns the matrix of queries that is this member of a group. */
static int64_t member_of(const grouping *g, int64_t group, int64_t member)
{
    const tg_tensor *q = g->a->call->inputs[0];
    int64_t batch = 0, step = 1;
    for (int axis = q->rank - 3; axis >= 0; axis--) {
        int64_t members = g->members[axis], groups = q->shape[axis] / members;
        batch += (group % groups * members + member % members) * step;
        step *= q->shape[axis];
        group /= groups;
        member /= members;
    }
    return batch;
}

static void backward_of_groups(void *context, int64_t begin, int64_t end)
{
    const grouping *g = context;
    for (int64_t group = begin; group < end; group++) {
        for (int64_t member = 0; member < g->size; member++) {
            backward_of_matrix(g->a, member_of(g, group, member));
        }
    }
}

/* The forward pass computed y = (softmax(scale q k^T + b) m) v. */
void KERNEL(tg_attention_backward)(const tg_op_call *call)
{
    attention a = attention_of(call);
    a.dy = call->output_gradients[0];
    grouping g = grouping_of(&a);
    tg_parallel_for(g.groups, 1 + TG_GRAIN / (a.queries * a.keys * g.size + 1), backward_of_groups, &g);
}
