/* check: what all checks of the course share. A check calls the student's functions in another process (worker.h),
 * compares their results, and ends at the first one that is wrong.
 *
 * A file of checks begins a check with check("name"), and then calls, expects and checks gradients. The order is:
 * literal values, the trap of the exercise, gradients, seeded inputs beside the library, whole models, cost.
 */
#ifndef COURSE_CHECK_H
#define COURSE_CHECK_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tapegrad.h>

#include "protocol.h"

typedef struct course_argument {
    void *values;
    size_t bytes;
    course_direction direction;
} course_argument;

/* An argument of `call`: an array, and the number of its values. */
#define IN(array, count) ((course_argument){(void *)(array), (size_t)(count) * sizeof *(array), COURSE_IN})
#define OUT(array, count) ((course_argument){(array), (size_t)(count) * sizeof *(array), COURSE_OUT})
#define INOUT(array, count) ((course_argument){(array), (size_t)(count) * sizeof *(array), COURSE_INOUT})
/* Numbers, as an array of int or of double. */
#define INTS(...) IN(((int[]){__VA_ARGS__}), sizeof((int[]){__VA_ARGS__}) / sizeof(int))
#define DOUBLES(...) IN(((double[]){__VA_ARGS__}), sizeof((double[]){__VA_ARGS__}) / sizeof(double))
#define NOTHING ((course_argument){NULL, 0, COURSE_IN})
/* A list of arguments. */
#define LIST(...) \
    (course_argument[]){__VA_ARGS__}, (int)(sizeof((course_argument[]){__VA_ARGS__}) / sizeof(course_argument))

/* The checks of an exercise, and what it is called: each file of checks defines it. */
void course_checks(void);

/* The seed of the random inputs: the same in each run, unless `course` is given another. */
extern uint64_t course_seed;

/* Begins a check, with a new process in which nothing of the student has run. Its name is a word; messages/ has its
 * text. */
void check(const char *name);

/* Says which case the next calls are about: "ids 2 3 5 2". */
void describe(const char *format, ...) TG_PRINTF_LIKE(1, 2);

/* Calls a function of course_calls: call("lookup", LIST(INTS(6, 3), IN(table, 18), OUT(y, 12))). */
void call(const char *name, const course_argument *arguments, int count);

/* Each ends the check as failed unless the values agree: |got - expected| <= tolerance * max(1, |expected|). With
 * `columns` 0 the place of a value is [i], else [row,column]. */
void expect(const char *what, const double *got, const double *expected, int rows, int columns, double tolerance);
void expect_ints(const char *what, const int *got, const int *expected, int count);
void expect_int(const char *what, int64_t got, int64_t expected);
void expect_number(const char *what, double got, double expected, double tolerance);
/* The same with the values of a tensor, of 1e-9 in f64 and 1e-5 in f32. */
void expect_tensor(const char *what, const double *got, const tg_tensor *expected);
/* The ops of a model, as two ledgers: they are the same, up to rounding. */
void expect_ledger(const char *got, const char *expected);

/* Ends the check as failed, with a message of its own: the key of a text in messages/. */
void fail(const char *key);

/* ---- gradients --------------------------------------------------------------------------------------------------- */

/* An array of doubles: an input or a result. `columns` 0: a vector. */
typedef struct course_array {
    const char *name;
    const double *values;
    int rows, columns;
} course_array;

/* Compares backward with differences of forward, by tg_gradcheck in f64. Both are calls:
 *
 *     forward(context..., inputs..., result)
 *     backward(context..., inputs..., dresult, dinputs...)
 *
 * where `result` is OUT, and each gradient of `dinputs` INOUT, since backward adds to it. */
typedef struct course_gradient {
    const char *forward, *backward;
    const course_argument *context;
    int context_count;
    course_array inputs[4];
    int input_count;
    course_array result;
} course_gradient;

void check_gradient(course_gradient gradient);

/* ---- inputs and the library -------------------------------------------------------------------------------------- */

/* Writes normal values, or ids below `bound`, drawn with the seed. */
void draw(double *values, int count);
void draw_ids(int *ids, int count, int bound);
int draw_int(int low, int high);

/* A table whose cost is measured (forbid_rows in worker.h): its size and two different ids are drawn. `named` are the
 * rows of the ids, one behind the other; `step` has as many values, and `result` room for them. It ends with the
 * process. */
typedef struct course_table {
    int rows, width, ids[2];
    double *values, *named, *step, *result;
} course_table;

/* Either with rows of whole pages, or with short ones. */
course_table draw_table(bool has_pages);

/* The tape of the check, for what the library computes; it ends with the process. */
tg_tape *tape(void);

/* Tensors in f64, with a gradient or without, and of ids. They end with the tape's process. */
tg_tensor *leaf(const double *values, tg_shape shape);
tg_tensor *constant(const double *values, tg_shape shape);
tg_tensor *ids_tensor(const int *ids, tg_shape shape);

/* Adds the gradients of y for the gradient dy of y, an array. */
void library_backward(tg_tensor *y, const double *dy);
/* The gradient of a leaf, made dense. */
tg_tensor *gradient_of(tg_tensor *x);

#endif
