/* op_inputs: the shapes in which the ops run, and the inputs of a row in one of them.
 *
 * The inputs of a row are a text, such as "real S; ids<L S": a kind and a list of sizes each, which are numbers, or
 * letters with or without a factor ("4X"). The letters have values in each shape (op_inputs.c):
 *
 *   S      the whole shape; P is S without its last size, F its first size, and L its last one
 *   M,K,N  a product of matrices
 *   B,C,T  convolutions and pools
 *   A,H,Q,D attention: batch, heads, positions, channels of a head
 *   V,E,I  a table of V rows of width E, and I ids; R rows of V classes
 *   J,U,W,X recurrent layers: batch, positions, width of the input, width
 *
 * A row does not run in a shape that has no value for one of its letters. A row of numbers only runs in the first one.
 */
#ifndef TG_BENCH_OP_INPUTS_H
#define TG_BENCH_OP_INPUTS_H

#include "bench/op_row.h"

#define OP_INPUTS 5

typedef enum op_kind {
    OP_REAL,        /* normal values; these, positive, weight and table require a gradient */
    OP_POSITIVE,    /* uniform in [0.5,1.5) */
    OP_WEIGHT,      /* normal values, of a standard deviation of 0.05 */
    OP_TABLE,       /* normal values, of which a call reads no more than its result has */
    OP_TARGET,      /* normal values */
    OP_PROBABILITY, /* uniform in [0,1) */
    OP_SIGN,        /* 1 or -1 */
    OP_MASK,        /* u8: 0 or 1 */
    OP_MODEL,       /* zeros that only lend their shape to a result */
    OP_IDS          /* i32: uniform in [0,below) */
} op_kind;

typedef struct op_input {
    op_kind kind;
    tg_shape shape;
    int64_t below;
} op_input;

typedef struct op_shape op_shape;

/* Returns the shape of this name, NULL: the first one; or NULL if there is none. */
const op_shape *op_shape_of(const char *name);
const char *op_shape_name(const op_shape *shape);

/* Writes the inputs of a row to `inputs` and returns their number, or -1 if it does not run in this shape. */
int op_inputs(const op_row *row, const op_shape *shape, op_input inputs[OP_INPUTS]);

/* Returns the multiplications and additions of a row's forward. */
double op_work(const op_row *row, const op_shape *shape);

const char *op_kind_name(op_kind kind);
bool op_has_gradient(op_kind kind);

/* Whether the input is every second column of a wider one: in the shape "strided", those of two axes or more except
 * ids. */
bool op_input_is_strided(const op_input *input, const op_shape *shape);

/* Returns a new input; one of `dtype` unless it is a mask or ids. */
tg_tensor *op_input_new(const op_input *input, const op_shape *shape, tg_dtype dtype, tg_rng *rng);

/* Changes each id, so that the next call has to check all of them. */
void op_change_ids(tg_tensor *ids, int64_t below);

#endif
