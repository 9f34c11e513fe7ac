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

/* A call with numbers as options: the numbers of the case, in order. */
typedef struct golden_call {
    const char *name;
    tg_tensor *(*run)(tg_tape *tape, tg_tensor **inputs, const double *options);
} golden_call;

/* Runs every case of a file that golden_file.py wrote, of calls in `list` and of ops that have a row (tests/rows), in
 * f64 and in f32, with contiguous inputs and with inputs that are every other value of a larger tensor; returns how
 * many cases. An entry may differ by `f64` or `f32` times 1 + its size. */
int check_goldens_with_options(const char *path, const golden_call *list, int count, double f64, double f32);

/* Runs every case of a file that make_ops.py or make_values.py wrote, by the first rule for it; returns how many. */
int check_goldens(const char *path, const golden_rule *rules, int count);

#endif
