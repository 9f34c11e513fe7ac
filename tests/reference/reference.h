/* reference: every op a second time, as the formula in plain C over doubles, compared with the library in random calls.
 *
 * The families elementwise and moves read the rows of tests/rows. Any other family is a file with references of
 * related ops, which exports one reference_family. A reference states how to draw a call (shapes, options, values),
 * when the library must refuse it, and what the values and the gradients are. The framework draws the rest: dtypes,
 * layouts, which inputs require a gradient, CPU level, threads, passes of backward.
 *
 *   main.c        the program: options, calls, the counts
 *   draw.c        random numbers, sizes, axes and values
 *   inputs.c      random inputs and their layouts
 *   numbers.c     memory of a call, dtypes, sums with their terms, indices
 *   trial.c       one random call: the library, the formula, and the comparison
 *   compare.c     results beside the formula's, and inputs beside what they were
 *   gradients.c   passes of backward, and the comparison of the gradients
 *   thresholds    a script: the thresholds of the kernels, and which of them calls have crossed
 *   report.c      the notes of a call, and what a failing call prints
 *   scalar.c      formulas of many steps, which differentiate themselves
 *
 * A number of the formula has a value and `terms`, the sum of the absolute finite values that were added up to it. A
 * result of the library may differ by `roundings` of the reference * eps of the dtype * terms, and with N values along
 * long axes by 1 + N / 64 times as much, unless the terms count the additions. NaN must be NaN, and an infinity the
 * same infinity; only where the terms of a sum overflow in f32 every result is right.
 */
#ifndef TG_TESTS_REFERENCE_H
#define TG_TESTS_REFERENCE_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tapegrad.h>

#include "rows/formula.h"

enum { MAX_INPUTS = 20, MAX_OUTPUTS = 20, OPTION_BYTES = 2048, NOTE_BYTES = 2048, LAYOUT_BYTES = 256 };

/* Logical values in row-major order, whatever the layout of the tensor is. */
typedef struct array {
    tg_shape shape;
    int64_t count;
    double *values;
    double *terms; /* sums of absolute terms */
} array;

/* Which values a trial draws. Formulas need not know, except where a difference of the formula needs SMOOTH. */
typedef enum flavor {
    SMOOTH,  /* uniform in [-2,2) */
    TIES,    /* small whole numbers and halves, -0 among them */
    WIDE,    /* magnitudes from 1e-6 to 1e6 */
    SPECIAL, /* -inf, inf, NaN, -0, -1e30, 1e30 among others */
} flavor;

typedef struct input {
    const char *name;
    bool is_present; /* false: an optional input that is NULL */
    tg_dtype dtype;
    array x;           /* its values; the terms are unused */
    array dx;          /* its gradient, to which the reference adds */
    tg_tensor *tensor; /* what the library gets */
    bool requires_grad;

    /* private to the framework */
    tg_tensor *leaf;    /* the tensor that is viewed, or `tensor` itself; inputs that share storage have one leaf */
    int64_t *positions; /* of each value in the leaf, row-major */
    flavor flavor;      /* of its values */
    bool *shown;        /* which values of the leaf an input has */
    tg_tensor *owner;   /* the tensor that gets the gradient: `tensor`, or what it is a recorded view of */
    int64_t *in_owner;  /* of each value in the owner, row-major */
    char layout[LAYOUT_BYTES];
    void *before; /* the leaf's values before the call */
} input;

typedef struct output {
    array y; /* by the formula */
    tg_dtype dtype;
    array dy; /* the gradient to start from */
    tg_tensor *result;
} output;

typedef struct memory_block memory_block;

typedef struct trial {
    const struct reference *reference;
    flavor flavor;
    tg_dtype dtype;       /* TG_F32 or TG_F64: of the floats */
    bool is_recording;    /* whether the tape records */
    bool is_training;     /* for dropout */
    bool is_smooth;       /* whether differences of the formula give the gradient; `draw` may set it to false */
    bool changes_inputs;  /* the call changes values of an input by design (max_norm); `draw` may set it */
    bool draws_constants; /* inputs that are drawn now require no gradient; `draw` sets it, and back */
    bool shares;          /* inputs may share storage; `draw` may set it to false */
    tg_tape *tape;
    tg_params *params;  /* of a module; `draw` creates them, the framework frees them */
    tg_run *run;        /* the generator of the tape */
    tg_rng *rng_before; /* as it was before the library's call */
    input inputs[MAX_INPUTS];
    int input_count;
    output outputs[MAX_OUTPUTS];
    int output_count;
    _Alignas(max_align_t) char options[OPTION_BYTES]; /* the reference's own: OPTIONS(t, struct) */

    /* private to the framework */
    uint64_t random;
    bool mixes_dtypes;   /* f32 beside f64, which every op refuses */
    int64_t turn;        /* how many calls of this op came before */
    int64_t room;        /* for long axes: the number of values that they may have together; 0: none */
    int64_t long_values; /* that these axes have together; 0: none is long */
    tg_shape whole;      /* the last shape that draw_broadcastable was given */
    char notes[NOTE_BYTES];
    memory_block *newest_block;
    bool has_failed;
    void (*describe)(const struct trial *t);
} trial;

typedef struct reference {
    const char *op; /* the public function: "tg_conv1d" */

    /* The op inside of a module, which an error may name instead. NULL: none. */
    const char *inner;

    /* Draws the inputs, in the order of MAX_INPUTS, and the options. */
    void (*draw)(trial *t);

    /* Whether the library must accept the call. NULL: always. */
    bool (*is_valid)(const trial *t);

    /* Calls the library with t->inputs and t->options. Returns the result, and writes further results to
     * t->outputs[1].result and so on. */
    tg_tensor *(*call)(trial *t);

    /* The formula: writes the values of each result (output_new, then put or add). */
    void (*forward)(trial *t);

    /* The gradient: adds t->outputs[..].dy's share to t->inputs[..].dx (add). NULL: differences of `forward`, for
     * smooth draws in f64. */
    void (*backward)(trial *t);

    /* The error bound: how many roundings of the sum of absolute terms a result may be off; 0: none at all. */
    double roundings, gradient_roundings;

    bool has_no_gradient;  /* results are integers or constants */
    bool counts_additions; /* the terms of results count the additions, so long axes allow no more */
    bool may_mix_dtypes;   /* the op takes inputs of different float dtypes */
    const void *data;      /* for functions above that serve several references */
} reference;

typedef struct reference_family {
    const char *name;
    const reference *references;
    int count;
    int64_t calls;                                  /* of a run without options, in CI */
    void (*begin)(struct reference_family *family); /* fills the list; NULL: it is constant */
} reference_family;

#define OPTIONS(t, type) ((type *)(void *)(t)->options)

/* ---- random numbers, from the trial's own generator (draw.c) ---- */

uint64_t draw_bits(trial *t);
int64_t draw_integer(trial *t, int64_t low, int64_t high); /* both included */
double draw_uniform(trial *t, double low, double high);
bool draw_chance(trial *t, int percent);

/* Draws one of a list of integers, or of doubles: DRAW_ONE_OF(t, 0, 1, INT64_MAX). */
int64_t draw_one_of(trial *t, int count, const int64_t *list);
double draw_double_of(trial *t, int count, const double *list);
#define DRAW_ONE_OF(t, ...) \
    draw_one_of(t, (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__})
#define DRAW_DOUBLE_OF(t, ...) \
    draw_double_of(t, (int)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)), (double[]){__VA_ARGS__})

/* A size: mostly 1 to 5, now and then 0, seldom up to 40. In a trial with room for long axes, sizes beside a threshold
 * of the kernels (tests/reference/thresholds), too. */
int64_t draw_size(trial *t);

/* A shape with sizes as above, and with few values but for its long axes. Rank 8 now and then if max_rank is
 * TG_MAX_RANK. */
tg_shape draw_shape(trial *t, int min_rank, int max_rank);

/* A shape that broadcasts with `shape`: sizes of 1, and fewer axes. Seldom one that does not. */
tg_shape draw_broadcastable(trial *t, tg_shape shape);

/* An axis of `rank`, counted from the end half of the time; seldom out of range. */
int draw_axis(trial *t, int rank);

/* A list of axes of `rank`: all of them, or some; seldom an invalid list. Notes it. */
tg_axes draw_axes(trial *t, int rank);

/* A value of the trial's flavor. */
double draw_value(trial *t);

/* ---- inputs, of which each call adds one to the trial (inputs.c) ---- */

/* Floats of the trial's dtype and flavor, in a random layout. In a trial that shares, it may be the same tensor as an
 * input before, or a view of its storage; so may the next three, if the values there are in the range. */
input *draw_input(trial *t, const char *name, tg_shape shape);

/* Floats in [low,high). */
input *draw_input_within(trial *t, const char *name, tg_shape shape, double low, double high);

/* i32 or u8, in [low,high]. */
input *draw_integers(trial *t, const char *name, tg_dtype dtype, tg_shape shape, int64_t low, int64_t high);

/* Any dtype: floats as draw_input, i32 from -3 to 3, or u8 from 0 to 3; or extreme integers. */
input *draw_any(trial *t, const char *name, tg_shape shape);

/* Given row-major values, rounded to the dtype, in a random layout, in a storage of its own. No axis is expanded. */
input *draw_layout(trial *t, const char *name, tg_dtype dtype, tg_shape shape, const double *values);

/* An optional input that is NULL. */
input *draw_absent(trial *t, const char *name);

/* The parameter `name` of t->params, with values of the flavor; now and then it is frozen. If the module was created
 * without it, an input that is NULL. */
input *draw_parameter(trial *t, const char *name);

/* ---- notes, which a failing call prints (report.c) ---- */

void note(trial *t, const char *format, ...) TG_PRINTF_LIKE(2, 3);

/* Note an option and return it. */
int64_t note_integer(trial *t, const char *name, int64_t value);
double note_double(trial *t, const char *name, double value);
bool note_bool(trial *t, const char *name, bool value);

/* ---- arithmetic of the formulas (numbers.c) ---- */

/* Zeros that live as long as the trial. */
double *numbers(trial *t, int64_t count);
array array_new(trial *t, tg_shape shape);

/* Sets the shape of result number k, with zeros, and returns it. The dtype is the trial's; output_of_dtype's is
 * given. */
array *output_new(trial *t, int k, tg_shape shape);
array *output_of_dtype(trial *t, int k, tg_shape shape, tg_dtype dtype);

/* Adds a term to value i; sets value i. With _terms, the sum of its absolute terms is given: those of a difference. */
void add(array *x, int64_t i, double term);
void add_terms(array *x, int64_t i, double term, double terms);
void put(array *x, int64_t i, double value);
void put_terms(array *x, int64_t i, double value, double terms);

/* max(0, x), and NaN for NaN. */
double positive_part(double x);

/* ---- dtypes (numbers.c) ---- */

bool is_float(tg_dtype dtype);

/* A value as a tensor of the dtype holds it: rounded to the float, or truncated to an integer. */
double converted(tg_dtype dtype, double value);

/* Of a float dtype: the distance from 1 to the next number, the smallest normal number, and the largest number. */
double eps_of(tg_dtype dtype);
double smallest_of(tg_dtype dtype);
double largest_of(tg_dtype dtype);

/* ---- indices (numbers.c) ---- */

/* Moves an index to the next in row-major order; false after the last. Begin with zeros, if the count is not 0. */
bool next_index(tg_shape shape, int64_t index[TG_MAX_RANK]);

/* The row-major number of an index, and back. */
int64_t flat_index(tg_shape shape, const int64_t index[TG_MAX_RANK]);
void split_index(tg_shape shape, int64_t flat, int64_t index[TG_MAX_RANK]);

/* The row-major number in `shape` of the value that broadcasts to index `index` of a result of rank `rank`. */
int64_t broadcast_index(tg_shape shape, int rank, const int64_t index[TG_MAX_RANK]);

int64_t count_of(tg_shape shape);

/* The broadcast shape of a and b; false if they do not match. */
bool broadcast_shapes(tg_shape a, tg_shape b, tg_shape *result);

/* Whether a list of axes is valid. Writes which axes it names. */
bool axes_along(tg_axes axes, int rank, bool is_along[TG_MAX_RANK]);

/* The numbers of the values on one line, row-major. */
typedef struct line {
    int64_t count;
    int64_t *at;
} line;

/* The lines of a shape along these axes, in row-major order of the other axes, and their number. */
line *lines_along(trial *t, tg_shape shape, const bool is_along[TG_MAX_RANK], int64_t *count);

/* The same along one axis, which is valid. As in torch, a scalar is a line of one value, and has an axis. */
bool is_axis_of_lines(int axis, int rank);
const line *lines_along_axis(trial *t, tg_shape shape, int axis, int64_t *count);

/* ---- the framework ---- */

/* Runs one call. Returns false, and has printed a report that begins with `describe`, if the library is wrong. */
bool trial_run(const reference *r, uint64_t random, int64_t turn, void (*describe)(const trial *t));

/* Reports a difference that a reference found by itself. */
void trial_fail(trial *t, const char *format, ...) TG_PRINTF_LIKE(2, 3);

/* Zeroed memory that lives as long as the trial, or until all that is newer than `last_kept` is freed. */
void *trial_memory(trial *t, size_t bytes);
void trial_free_memory(trial *t, const memory_block *last_kept);

#endif
