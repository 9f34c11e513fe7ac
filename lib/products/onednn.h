/* onednn (private): matrix products of bf16 factors with sums in f32, by oneDNN. Only onednn.c depends on oneDNN;
 * onednn_disabled.c replaces it in a build without.
 *
 * oneDNN compiles code for each shape of a product. A tg_onednn holds the products that a tape has prepared, and their
 * scratch memory. So a product that is prepared cannot fail. The library's threads divide a product, each computes its
 * part by oneDNN on one thread.
 *
 * So no second pool of threads competes for the processors, and the same number of threads gives the same bits. The
 * shape rule of an op prepares its product (tg_onednn_prepare), because compiling can fail and a kernel cannot. The
 * products of the last step are kept; others only as long as they are few.
 *
 * oneDNN decides which instructions it may use. From 2.5 on it asks Linux for AMX (arch_prctl, ARCH_REQ_XCOMP_PERM),
 * and computes with AVX512_BF16 if Linux refuses; the build accepts no older one. Products in bf16 go to oneDNN only if
 * the instructions that it reports include those of bf16. A product that it refuses is an error of the op.
 */
#ifndef TG_PRODUCTS_ONEDNN_H
#define TG_PRODUCTS_ONEDNN_H

#include "products/gemm.h"

typedef struct tg_onednn tg_onednn;

/* Returns NULL if oneDNN has instructions for bf16 on this processor, or else what is missing, as a clause. */
const char *tg_onednn_missing(void);

/* Returns NULL when memory is exhausted. */
tg_onednn *tg_onednn_new(void);
void tg_onednn_free(tg_onednn *o);

/* Returns whether oneDNN should compute the product of matrices of these sizes without gaps. It should not if a matrix
 * is larger than the 32 bits of its offsets, or if the product is so small that calling oneDNN takes longer. */
bool tg_onednn_accepts(int64_t m, int64_t n, int64_t k);

/* Prepares C = A B, or with `add` C += A B, for tg_onednn_run. The error begins with `call`. */
bool tg_onednn_prepare(tg_onednn *o, const char *call, const tg_gemm *gemm, bool add, tg_error *error);

/* Computes a product that was prepared. */
void tg_onednn_run(tg_onednn *o, const tg_gemm *gemm, bool add, const uint16_t *a, const uint16_t *b, float *c);

/* Ends a step: if more products are prepared than TG_ONEDNN_KEPT, frees those that were not prepared again since the
 * last call. */
void tg_onednn_end_step(tg_onednn *o);
#define TG_ONEDNN_KEPT 256

/* Returns the number of prepared products. */
int64_t tg_onednn_count(const tg_onednn *o);

#endif
