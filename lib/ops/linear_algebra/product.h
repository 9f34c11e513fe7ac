/* product (private): the factors of tg_linear and tg_matmul, in the precision of the tape.
 *
 * An op has two factors, its inputs. Its kernels compute up to three products, C = A B in forward, and dA = dC B^T and
 * dB = A^T dC in backward. In f32 a product reads its factors where they are. In bf16 each factor is rounded first: a
 * parameter to a copy that the tape keeps until the reset, any other factor to scratch memory. oneDNN reads values in
 * bf16. BLAS, which computes products that are too small or too large for oneDNN, and all of them in a build without
 * oneDNN, reads floats with the same values.
 *
 * So every machine has the same products, and the tests of one path hold for the other. Factors that are not normal
 * numbers become 0 on both paths, because the processor's bf16 instructions read them as 0.
 */
#ifndef TG_OPS_LINEAR_ALGEBRA_PRODUCT_H
#define TG_OPS_LINEAR_ALGEBRA_PRODUCT_H

#include "products/gemm.h"
#include "tape/tape.h"

/* The attributes of the ops. In f32 they have none. */
typedef struct tg_product_attributes {
    tg_matmul_precision precision;
} tg_product_attributes;

/* Calls an op whose products have the precision of the tape. */
tg_tensor *tg_apply_product(tg_tape *t, const tg_op *op, tg_tensor *const *inputs, int input_count);

/* Returns whether the factors of a call are rounded. */
bool tg_has_rounded_factors(const tg_op_call *call);

/* Returns how the factors of a product of (m,k) and (k,n) are stored, in a shape rule or in a kernel. */
tg_rounded tg_rounded_factors(const tg_op_call *call, int64_t m, int64_t n, int64_t k);

/* The products of a call. */
typedef struct tg_products {
    tg_gemm forward, for_a, for_b;
    bool forward_adds;
    int64_t outputs; /* the number of values of the output */
} tg_products;

/* Declares, in a shape rule, the memory that the kernels need, and prepares oneDNN. Returns false after an error. */
bool tg_products_declare(tg_op_call *call, tg_rounded kind, const tg_products *products);

/* The factors that a kernel reads. */
typedef struct tg_factors {
    const tg_op_call *call;
    tg_rounded kind;
    char *scratch; /* the next free byte */
} tg_factors;

static inline tg_factors tg_factors_of(const tg_op_call *call, tg_rounded kind)
{
    return (tg_factors){call, kind, call->scratch};
}

/* Return a factor: an input, or the gradient of the output. Rounded matrices of an input have no gaps; each is
 * row-major or transposed, as in memory, and repeated matrices occur once. */
const void *tg_input_factor(tg_factors *f, int input);
const void *tg_gradient_factor(tg_factors *f);

#if defined TG_REAL_F32 || defined TG_REAL_F64 /* for kernels */

#include "ops/kernel.h"
#include "products/few_rows.h"

/* Returns the address of value number i of a factor. */
static inline const void *factor_at(const tg_factors *f, const void *factor, int64_t i)
{
    return (const char *)factor + i * (int64_t)(f->kind ? (size_t)f->kind : sizeof(real));
}

/* Computes C = A B, or with `add` C += A B, of two factors; with `in_thread` in the calling thread. */
static inline void product_multiply(const tg_factors *f, const tg_gemm *g, const void *a, const void *b, bool add,
                                    real *c, bool in_thread)
{
    if (f->kind == TG_ROUNDED_BF16) {
        tg_onednn_run(f->call->tape->onednn, g, add, a, b, (void *)c);
    } else if (has_few_rows(g) && !tg_products_are_builtin()) {
        KERNEL(tg_multiply_few_rows)(g, a, b, add, c);
    } else if (in_thread) {
        gemm_in_thread(g, a, b, add, c);
    } else {
        gemm(g, a, b, add, c);
    }
}

#endif

#endif
