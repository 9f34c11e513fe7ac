/* deferred_sgd: the missed steps of SGD, in one formula (deferred.c).
 *
 * Where an element x has no gradient, a step of SGD is linear in x and its momentum buffer b. With the weight decay d,
 * the momentum m, and f = 1 - dampening, which is 1 in the first step,
 *
 *   b = m b + f d x
 *   x = x - lr b,   or nesterov's   x - lr (d x + m b)                 b: that of the line above
 *
 * So it is a matrix that depends on the step alone, and the n steps that a row has missed are the product of their
 * matrices: one matrix per row, exact up to roundings.
 *
 * The log is a tree over the last `capacity` steps. Its leaves are the matrices of single steps, and every other node
 * is the product of its two children. So a step costs one product on average, and the product of a row's n steps is
 * that of the largest nodes that lie in this range, at most about 2 log2(n). Nothing is divided: a quotient of prefix
 * products would lose all digits, because the powers of m vanish.
 */
#include "base/real.h"
#include "optim/deferred.h"

/* Computes in double, so that floats are rounded once. Without momentum the buffer is NULL; without weight decay b
 * does not read x, which may be infinite. */
void KERNEL(tg_sgd_make_up)(const tg_sgd_matrix *missed, void *theta, void *buffer, int64_t count)
{
    real *restrict x = theta, *restrict b = buffer;
    const double xx = missed->xx, xb = missed->xb, bx = missed->bx, bb = missed->bb;
    if (!b) {
        for (int64_t i = 0; i < count; i++) {
            x[i] = (real)(xx * (double)x[i]);
        }
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        double value = x[i], momentum = b[i];
        x[i] = (real)(xx * value + xb * momentum);
        b[i] = (real)(bx != 0 ? bx * value + bb * momentum : bb * momentum);
    }
}

#ifdef TG_ONCE

#include "base/alloc.h"

typedef struct sgd_log {
    tg_sgd_make_up_kernel *kernel;
    uint32_t capacity;
    /* nodes[1] is the root, and the children of nodes[i] are nodes[2 i] and nodes[2 i + 1]; step s is in
     * nodes[capacity + s % capacity] */
    tg_sgd_matrix *nodes;
} sgd_log;

static tg_sgd_matrix product(tg_sgd_matrix later, tg_sgd_matrix earlier)
{
    return (tg_sgd_matrix){.xx = later.xx * earlier.xx + later.xb * earlier.bx,
                           .xb = later.xx * earlier.xb + later.xb * earlier.bb,
                           .bx = later.bx * earlier.xx + later.bb * earlier.bx,
                           .bb = later.bx * earlier.xb + later.bb * earlier.bb};
}

static tg_sgd_matrix matrix_of(const tg_optim_factors *factors)
{
    const tg_sgd_config *config = &factors->config->sgd;
    double lr = factors->lr, decay = factors->weight_decay;
    double direct = config->nesterov ? decay : 0, share = config->nesterov ? config->momentum : 1;
    tg_sgd_matrix step = {.bx = factors->gradient_factor * decay, .bb = config->momentum};
    step.xx = 1 - lr * (direct + share * step.bx);
    step.xb = -lr * share * step.bb;
    return step;
}

/* A step that takes more than half of x, or adds to it, is not deferred: products of such steps may be infinite, where
 * the dense optimizer keeps an element that is 0. Without momentum and weight decay no row moves. */
static bool accepts(const tg_optim_factors *factors)
{
    double kept = matrix_of(factors).xx;
    return kept >= 0.5 && kept <= 1 && (factors->config->sgd.momentum != 0 || factors->weight_decay != 0);
}

static void free_log(void *context)
{
    sgd_log *log = context;
    if (log) {
        tg_free(log->nodes);
        tg_free(log);
    }
}

static void *new_log(const tg_optim *optim, const tg_slot *slot, uint32_t capacity)
{
    static tg_sgd_make_up_kernel *const f32[] = {TG_EACH_LEVEL(avx512, tg_sgd_make_up_f32)};
    static tg_sgd_make_up_kernel *const f64[] = {TG_EACH_LEVEL(avx2, tg_sgd_make_up_f64)};
    (void)optim;
    sgd_log *log = tg_alloc(1, sizeof *log);
    if (!log) {
        return NULL;
    }
    log->kernel = (tg_dtype_of(slot->tensor) == TG_F32 ? f32 : f64)[tg_level()];
    log->capacity = capacity;
    /* zeros: the products of the first steps may have a factor that is no step, but no range has such a product */
    log->nodes = tg_alloc_zeroed(2 * (uint64_t)capacity, sizeof *log->nodes);
    if (!log->nodes) {
        free_log(log);
        return NULL;
    }
    return log;
}

static void add(void *context, uint32_t now, int64_t steps, const tg_optim_factors *factors)
{
    sgd_log *log = context;
    (void)steps;
    uint32_t node = log->capacity + (now & (log->capacity - 1));
    log->nodes[node] = matrix_of(factors);
    /* A node is complete with its right child, which has an odd number. */
    for (; node > 1 && node % 2 == 1; node /= 2) {
        log->nodes[node / 2] = product(log->nodes[node], log->nodes[node - 1]);
    }
}

static void make_up(const void *context, uint32_t now, uint32_t age, void *x, void *const *state, int64_t count)
{
    const sgd_log *log = context;
    tg_sgd_matrix missed = {.xx = 1, .bb = 1};
    while (age > 0) {
        uint32_t node = log->capacity + ((now - age + 1) & (log->capacity - 1)), steps = 1;
        for (; node % 2 == 0 && 2 * steps <= age; node /= 2) {
            steps *= 2;
        }
        missed = product(log->nodes[node], missed);
        age -= steps;
    }
    log->kernel(&missed, x, state[0], count);
}

const tg_deferred_kind tg_deferred_sgd = {
    .accepts = accepts,
    .new_log = new_log,
    .free_log = free_log,
    .add = add,
    .make_up = make_up,
};

bool tg_deferred_check_sgd(tg_params *params, const char *method, const tg_sgd_config *config)
{
    return config->momentum < 1 ||
           tg_params_fail(params, TG_ERROR_VALUE, "%s: deferred with momentum %g; it must be below 1", method,
                          config->momentum);
}

#endif
