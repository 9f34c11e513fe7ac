/* scalar: formulas of many steps, number by number, which differentiate themselves.
 *
 * A list of scalars holds every intermediate number of a formula, with the numbers that it was computed from. Each has
 * `terms`, as a result has: it may be off by unit * terms, where unit is the reference's roundings * eps. A number that
 * overflows in the dtype has infinite terms; nothing is known of it, and of what is computed from it. roundings and
 * gradient_roundings of the reference must be equal.
 */
#ifndef TG_TESTS_REFERENCE_SCALAR_H
#define TG_TESTS_REFERENCE_SCALAR_H

#include "reference.h"

typedef struct scalar {
    enum { SCALAR_LEAF, SCALAR_MULTIPLY_ADD, SCALAR_SIGMOID, SCALAR_TANH } op;
    int64_t a, b, c; /* the numbers that it is computed from */
    quantity x, gradient;
    bool has_gradient;
} scalar;

typedef struct scalars {
    const trial *t;
    scalar *list;
    int64_t count, capacity;
    double unit, smallest, largest; /* of the dtype */
} scalars;

/* An empty list, and its end. */
scalars scalars_new(const trial *t);
void scalars_free(scalars *s);

/* Each adds a scalar and returns its position in the list. */
int64_t scalar_constant(scalars *s, double value);
int64_t scalar_multiply_add(scalars *s, int64_t a, int64_t b, int64_t c); /* a b + c */
int64_t scalar_add(scalars *s, int64_t a, int64_t b);
int64_t scalar_subtract(scalars *s, int64_t a, int64_t b);
int64_t scalar_multiply(scalars *s, int64_t a, int64_t b);
int64_t scalar_sigmoid(scalars *s, int64_t a);
int64_t scalar_tanh(scalars *s, int64_t a);

/* Adds the values of an input, in order; returns the position of the first. -1 for an absent input. */
int64_t scalar_load(scalars *s, const input *in);

/* Writes a scalar to value i of a result. */
void scalar_put(const scalars *s, array *y, int64_t i, int64_t at);

/* Starts the gradient of a scalar with dy's share i of a result. */
void scalar_seed(scalars *s, const array *dy, int64_t i, int64_t at);

/* Computes the gradients of all scalars from those that were seeded. */
void scalars_backward(scalars *s);

/* Adds the gradients of an input's scalars to its own. */
void scalar_add_gradient(const scalars *s, input *in, int64_t first);

#endif
