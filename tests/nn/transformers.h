/* transformers: models of transformers, built from the library's modules. Their parameters are filled by a formula, and
 * their results are compared with golden files (tests/goldens/transformers_file.py). */
#ifndef TG_TESTS_TRANSFORMERS_H
#define TG_TESTS_TRANSFORMERS_H

#include "support.h"

/* Returns value i of a tensor that is filled with a salt. */
double filled(double salt, int64_t i);

/* Writes value i of a float tensor. */
void put(tg_tensor *x, int64_t i, double value);

/* Fills `count` values from `first` on: factor * filled + plus. */
void fill_part(tg_tensor *x, int64_t first, int64_t count, double salt, double factor, double plus);

/* Compares values first .. first + count - 1 of x, in rows of its last axis, with the line "<name> <what> values.." of
 * a golden file: all differ by at most `allowed` times the largest value of the line. A line with only roundings of
 * zeros allows `allowed`. */
void compare_golden(const char *file, const char *name, const char *what, const tg_tensor *x, int64_t first,
                    int64_t count, double allowed);

/* The same for the gradient of x; count -1 means all of it. */
void compare_golden_gradient(const char *file, const char *name, const char *what, const tg_tensor *x, int64_t first,
                             int64_t count, double allowed);

#endif
