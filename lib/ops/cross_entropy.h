/* cross_entropy (private): what the losses with ids and with probabilities as targets share. */
#ifndef TG_OPS_CROSS_ENTROPY_H
#define TG_OPS_CROSS_ENTROPY_H

#include "ops/lanes.h"
#include "ops/loss.h"

/* The maximum m of a row of logits, and z = sum_k exp(x_k - m). */
typedef struct tg_softmax_row {
    double most, sum;
} tg_softmax_row;

/* Returns m and z of a row. The exponentials are computed 256 at a time. */
static inline tg_softmax_row softmax_row(const real *x, int64_t n)
{
    real most = row_max(x, n), part[256];
    double sum = 0;
    for (int64_t k = 0; k < n; k += 256) {
        int64_t length = n - k < 256 ? n - k : 256;
        row_exp(x + k, length, most, part);
        sum += row_sum(part, length);
    }
    return (tg_softmax_row){(double)most, sum};
}

/* Checks the options and, if it exists, the weight, input 2. Input 0 has the rank 1 or more. */
bool tg_check_cross_entropy(tg_op_call *call, const tg_cross_entropy_config *config);

/* The op for targets that are probabilities. Its attributes begin with a tg_cross_entropy_config. */
extern const tg_op tg_cross_entropy_probabilities_op;

#endif
