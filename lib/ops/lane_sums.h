/* lane_sums (private): the lanes in which kernels sum a row (lanes.h), and what they return of it. */
#ifndef TG_OPS_LANE_SUMS_H
#define TG_OPS_LANE_SUMS_H

enum { LANES = 16 };

static inline double sum_of_lanes(const double lane[LANES])
{
    double eight[8], four[4];
    for (int k = 0; k < 8; k++) {
        eight[k] = lane[k] + lane[k + 8];
    }
    for (int k = 0; k < 4; k++) {
        four[k] = eight[k] + eight[k + 4];
    }
    return (four[0] + four[1]) + (four[2] + four[3]);
}

/* Four neighboring lanes, which are a vector of each level. */
typedef double tg_four_lanes __attribute__((vector_size(4 * sizeof(double)), aligned(sizeof(double)), may_alias));

/* The maximum m of a row, and z = sum_i exp(x_i - m). */
typedef struct tg_softmax_row {
    double most, sum;
} tg_softmax_row;

#endif
