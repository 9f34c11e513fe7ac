/* rows: a table with one row for each op, from which its tests read.
 *
 *   call, inputs, shapes   samples: gradient checks, levels, spans, extreme sizes, names of arguments, tests/mutate
 *   formula, movement      tests/reference: thousands of random calls beside the value and the slope in plain C
 *   torch, options         tests/goldens/make_rows.py, and tests/ops/test_rows.c: torch's values and gradients
 *   accepts, refusal       tests/ops/test_rows.c: the exact message for options that the op refuses
 *   bench, torch           tests/bench: the time beside torch
 *   weight                 tests/programs: random programs of many ops
 *
 * The inputs are x, or a, b and c; the options are the numbers p and q, each of any kind. The terms of a formula are
 * explained in tests/reference/reference.h. A row without `torch` is a sample alone: the op's other tests are in files
 * of their own.
 */
#ifndef TG_TESTS_ROWS_H
#define TG_TESTS_ROWS_H

#include <tapegrad.h>

#include "rows/formula.h"

enum { ROW_INPUTS = 4, ROW_SHAPES = 7, ROW_OPTIONS = 20 };

typedef enum row_input {
    ABSENT,   /* no such input */
    REAL,     /* uniform in [-2,2) */
    POSITIVE, /* uniform in [0.5,2) */
    NONZERO,  /* the same, with a random sign */
    DISTINCT, /* steps of 0.25, shuffled: no two are near each other, none is near 0 or another input's */
    IDS,      /* i32 in [0, bound), with duplicates */
    TARGETS,  /* the same, now and then -100 */
    MASK      /* u8: both 0 and 1 */
} row_input;

/* An option. All are doubles in C, and floats in the expression of PyTorch. */
typedef enum row_option { NUMBER, AXIS, INTEGER } row_option;

typedef struct test_row {
    const char *op;      /* the public function */
    const char *variant; /* what sets the row apart from others of this op; "": nothing */

    tg_tensor *(*call)(tg_tape *tape, tg_tensor *const *inputs);
    row_input inputs[ROW_INPUTS];
    const char *shapes[ROW_SHAPES]; /* one case each: sizes of every input, "2,3 3"; "-" is a scalar. None: the usual */
    int64_t bound;                  /* of the ids */
    double eps;                     /* of the gradient checks; 0: the default */
    bool empty;                     /* the result is, whatever the input is */
    bool padded;                    /* row 1 of input 0 gets no gradient by design */
    bool has_no_gradient;           /* the gradient is 0 everywhere, as in torch */

    /* Instead of `call`, the function itself, if it is of one of these types. */
    tg_tensor *(*of_one)(tg_tape *tape, tg_tensor *x);
    tg_tensor *(*of_two)(tg_tape *tape, tg_tensor *a, tg_tensor *b);
    tg_tensor *(*with_number)(tg_tape *tape, tg_tensor *x, double p);
    tg_tensor *(*with_numbers)(tg_tape *tape, tg_tensor *x, double p, double q);
    tg_tensor *(*with_options)(tg_tape *tape, tg_tensor *const *inputs, const double *number);

    row_option kinds[FORMULA_NUMBERS]; /* of p and q */
    /* Each a list of p and q, "2 1.5". The first one is the benchmark's. Edges are for the values alone, and no
     * samples: options that are infinite, or with which the gradient is 0. */
    const char *options[ROW_OPTIONS], *edges[ROW_OPTIONS];
    bool (*accepts)(const double *number); /* NULL: the op accepts all numbers */
    const char *refusal;                   /* the message for others, with %g for p and q */

    /* the same call in PyTorch: "F.softplus(x, p, q)" */
    const char *torch;

    /* Its value and slopes in plain C, or where its values come from. Without both, tests/reference has them in a file
     * of its own. */
    const formula *formula;
    const movement *movement;

    bool is_never_subnormal; /* results and gradients that are not normal numbers are 0 (math/exp.h) */
    bool loses_digits;       /* in f32 a result is as near as usual only in relation to the terms of the formula */

    const char *bench; /* the inputs in the benchmark (bench/op_inputs.h); NULL: the row has no line there */
    int weight;        /* how often random programs have it; 0: never, as for a function that is not continuous */
} test_row;

const test_row *row_at(int index);
int row_count(void);

/* Returns the first row of an op, or NULL. */
const test_row *row_of(const char *op);

int row_input_count(const test_row *row);
tg_tensor *row_call(const test_row *row, tg_tape *tape, tg_tensor *const *inputs, const double *number);

/* Reads list `k` of the options, or of the edges, and returns its text: NULL behind the last list. A row without
 * options has one list without numbers, "". */
const char *row_options(const test_row *row, bool edges, int k, double number[FORMULA_NUMBERS]);

/* A row that has a gradient, with one list of its options. */
typedef struct sample {
    const test_row *row;
    char variant[80];          /* the row's, and its options */
    const char *const *shapes; /* ROW_SHAPES of them, or fewer before a NULL */
    double number[FORMULA_NUMBERS];
} sample;

const sample *sample_at(int index);
int sample_count(void);
tg_tensor *sample_call(const sample *s, tg_tape *tape, tg_tensor *const *inputs);

/* The shapes of a row, or those that all functions of one value, or of two, share. */
const char *const *row_shapes(const test_row *row);

/* Public functions that return a tensor and have no gradient, with the reason. */
typedef struct without_gradient {
    const char *op, *reason;
} without_gradient;

extern const without_gradient without_gradients[];
extern const int without_gradient_count;

/* The parts of the table, which end with a row without a name. */
extern const test_row elementwise_rows[], move_rows[], samples[];

#endif
