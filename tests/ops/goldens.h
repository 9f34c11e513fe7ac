/* goldens: compares values and gradients of ops with torch's. */
#ifndef TG_TESTS_GOLDENS_H
#define TG_TESTS_GOLDENS_H

#include <tapegrad.h>

/* What is near enough to torch's: absolute + relative * |torch's|. NaN is equal to NaN. */
typedef struct golden_rule {
    const char *kind; /* a case that ends in this word... */
    tg_dtype dtype;   /* ...and in this dtype, or in none, is computed in it */
    bool exact;       /* results must be equal, the signs of zeros too; gradients near */
    double absolute, relative;
} golden_rule;

/* Runs every case of a file that make_ops.py or make_values.py wrote, by the first rule for it; returns how many. */
int check_goldens(const char *path, const golden_rule *rules, int count);

#endif
