/* svg: pictures for the example programs: files, axes with round ticks, and the scale of a heat map. */
#ifndef SVG_H
#define SVG_H

#include <stdbool.h>
#include <stdio.h>

/* Opens a white picture of this size, and closes it. Return NULL or false after printing an error. */
FILE *svg_begin(const char *path, int width, int height);
bool svg_end(FILE *file, const char *path);

/* One axis of a plot, whose upper left corner and size are in pixels. */
typedef struct svg_axis {
    int left, top, width, height;
    /* the values at the ends of the axis */
    double low, high;
    /* the distance of the ticks, 1, 2 or 5 times a power of ten, and the decimals of their labels */
    double step;
    int decimals;
} svg_axis;

/* Returns an axis from `low` to `high`, low < high, with at most `most` distances between ticks, and none below
 * `least`. */
svg_axis svg_axis_make(double low, double high, int most, double least);

/* Moves both ends outward to ticks. */
void svg_axis_extend(svg_axis *axis);

/* Draw the ticks and the label: of a horizontal axis below the plot, of a vertical one, whose values increase upward,
 * to the left. The grid is a line across the plot at each tick. */
void svg_axis_across(FILE *file, const svg_axis *axis, const char *label, bool grid);
void svg_axis_up(FILE *file, const svg_axis *axis, const char *label, bool grid);

/* Returns the color of a value from -1 to 1, as "rgb(r,g,b)" in `color`: red if it is positive, blue if it is negative,
 * white for 0. */
#define SVG_COLOR 48
const char *svg_color(double value, char color[SVG_COLOR]);

/* Draws the colors of the values from axis->low to axis->high as a bar of the axis' width and height, with ticks and a
 * label. `sign` is multiplied with the value before its color is chosen. */
void svg_scale(FILE *file, const svg_axis *axis, const char *label, double sign);

#endif
