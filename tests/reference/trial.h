/* trial: the steps of a trial. */
#ifndef TG_TESTS_REFERENCE_TRIAL_H
#define TG_TESTS_REFERENCE_TRIAL_H

#include "reference.h"

#include <stdio.h>

/* Gives some calls room for long axes (draw.c). */
void draw_room(trial *t);

/* The roundings that long axes allow. */
double with_long_axes(const trial *t, double roundings);

/* Compares a tensor of the library with values of the formula (compare.c). */
void compare(trial *t, const char *what, const tg_tensor *got, tg_dtype dtype, const array *expected, double roundings);

/* Saves the values of the inputs; fails the trial if they are others now, or if an input has a gradient (compare.c).
 * `after` is what was done since: "the call". */
void save_inputs(trial *t);
void expect_same_inputs(trial *t, const char *after);
void expect_no_gradients(trial *t, const char *after);

/* Runs backward, and compares the gradient of each input with that of the formula (gradients.c). */
void check_gradients(trial *t);

/* Prints the shapes of the inputs to shapes_file, unless it is NULL (report.c). */
extern FILE *shapes_file;
void print_shapes(const trial *t);

#endif
