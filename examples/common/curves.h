/* curves: plots losses, or other values, over steps, as text on the terminal and as an SVG file. */
#ifndef CURVES_H
#define CURVES_H

#include <stdbool.h>
#include <stdint.h>

typedef struct curve {
    const char *name;
    const float *losses;
    /* the step of each loss, ascending, from 1; NULL for one loss per step */
    const int64_t *steps;
    int64_t count;
} curve;

/* The maximum number of curves in an SVG file. On the terminal it is 4. */
#define CURVES 10

/* Prints the curves. Losses in the same column are averaged. A curve without losses is left out. */
void curves_terminal(const curve *curves, int count);

/* Writes an SVG file, with a label of the vertical axis, such as "loss". Returns false after printing an error. */
bool curves_svg(const char *path, const char *label, const curve *curves, int count);

#endif
