/* curves: losses over steps, as characters on the terminal and as an SVG with axes and legend. */
#ifndef CURVES_H
#define CURVES_H

#include <stdbool.h>
#include <stdint.h>

typedef struct curve {
    const char *name;
    const float *losses;
    const int64_t *steps; /* where each was measured, rising, from 1; NULL: one a step */
    int64_t count;
} curve;

#define CURVES 9 /* at most, on a picture; 4 on the terminal */

/* Smoothed: what falls onto the same place is averaged. A curve without any loss is left out. */
void curves_terminal(const curve *curves, int count);
bool curves_svg(const char *path, const curve *curves, int count); /* false after complaining */

#endif
