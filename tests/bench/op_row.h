/* op_row: the lines of the benchmark of ops. Each op of the headers has at least one (tests/reference/registry). They
 * are the rows of tests/rows that have `bench`, and those of the files of this folder.
 *
 * A row names the op, its inputs as a text (op_inputs.h) and its call: one of the function pointers, for ops whose
 * arguments many share, or a function of its own. tests/bench/beside_torch has the same call for PyTorch under the name
 * of the row.
 */
#ifndef TG_BENCH_OP_ROW_H
#define TG_BENCH_OP_ROW_H

#include <tapegrad.h>

#include "rows/rows.h"

/* As an axis: all of them. */
#define OP_ALL_AXES 99

typedef struct op_row {
    /* the function of the header, and what sets the row apart from others of that op; "": nothing */
    const char *op, *what;
    const char *inputs;
    /* the multiplications and additions of forward as a product of sizes, "2,M,K,N"; NULL: only bytes bound the row */
    const char *work;
    /* the call is one of these */
    tg_tensor *(*call)(tg_tape *t, tg_tensor *const *x);
    tg_tensor *(*unary)(tg_tape *t, tg_tensor *x);
    tg_tensor *(*binary)(tg_tape *t, tg_tensor *a, tg_tensor *b);
    tg_tensor *(*scalar)(tg_tape *t, tg_tensor *x, double value);
    tg_tensor *(*along)(tg_tape *t, tg_tensor *x, int axis);
    tg_tensor *(*reduce)(tg_tape *t, tg_tensor *x, tg_axes axes, tg_keep_axes keep);
    tg_tensor *(*arg)(tg_tape *t, tg_tensor *x, int axis, tg_keep_axes keep);
    tg_tensor *(*loss)(tg_tape *t, tg_tensor *prediction, tg_tensor *target, tg_reduction reduction);
    /* the arguments of some of them */
    double value;
    int axis;
    /* or the row of tests/rows, with its first options */
    const test_row *row;
} op_row;

/* The rows of a file; the last one has no op. */
extern const op_row op_arithmetic[], op_masks[], op_reductions[], op_layouts[], op_indexing[], op_products[],
    op_norms[], op_losses[], op_sequences[];

/* Returns all of these, and NULL at the end. */
const op_row *const *op_all_rows(void);

/* The name of a row is that of the op without "tg_", and `what` after a comma. */
#define OP_NAME 64
const char *op_name(const op_row *row, char name[OP_NAME]);

tg_tensor *op_call(const op_row *row, tg_tape *tape, tg_tensor *const *x);

/* The axes of an axis that may be OP_ALL_AXES. */
tg_axes op_axes(int axis);

/* Reads a value, so that it must exist. For results that a call does not return. */
void op_read(const tg_tensor *x);

#endif
