#include "svg.h"

#include <math.h>

#include "program.h"

FILE *svg_begin(const char *path, int width, int height)
{
    FILE *file = file_begin(path);
    if (file) {
        fprintf(file,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" "
                "font-size=\"12\">\n<rect width=\"%d\" height=\"%d\" fill=\"white\"/>\n",
                width, height, width, height);
    }
    return file;
}

bool svg_end(FILE *file, const char *path)
{
    fprintf(file, "</svg>\n");
    return file_end(file, path);
}

/* ---- axes ---- */

svg_axis svg_axis_make(double low, double high, int most, double least)
{
    double distance = fmax((high - low) / most, least), power = pow(10, floor(log10(distance)));
    /* 1 + 1e-9: a distance of 0.2 is not 0.2 exactly */
    double factor = distance / power / (1 + 1e-9);
    svg_axis axis = {.low = low, .high = high};
    axis.step = power * (factor <= 1 ? 1 : factor <= 2 ? 2 : factor <= 5 ? 5 : 10);
    axis.decimals = (int)fmax(0, -floor(log10(axis.step) + 1e-9));
    return axis;
}

void svg_axis_extend(svg_axis *axis)
{
    axis->low = axis->step * floor(axis->low / axis->step + 1e-9);
    axis->high = axis->step * ceil(axis->high / axis->step - 1e-9);
}

/* Writes the value of tick number i. Returns its distance from the lower end: 1 at the upper end, more beyond it. */
static double tick_at(const svg_axis *axis, int i, double *value)
{
    /* + 0 turns -0 into 0 */
    *value = axis->step * (ceil(axis->low / axis->step - 1e-9) + i) + 0;
    return (*value - axis->low) / (axis->high - axis->low);
}

#define END (1 + 1e-9)

void svg_axis_across(FILE *file, const svg_axis *axis, const char *label, bool grid)
{
    int bottom = axis->top + axis->height;
    double value, at;
    for (int i = 0; (at = tick_at(axis, i, &value)) <= END; i++) {
        double x = axis->left + at * axis->width;
        fprintf(file, "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\" stroke=\"#ccc\"/>\n", x, x,
                grid ? axis->top : bottom, bottom + 4);
        fprintf(file, "<text class=\"tick\" x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.*f</text>\n", x, bottom + 17,
                axis->decimals, value);
    }
    fprintf(file, "<text class=\"label\" x=\"%d\" y=\"%d\" text-anchor=\"middle\">%s</text>\n",
            axis->left + axis->width / 2, bottom + 34, label);
}

void svg_axis_up(FILE *file, const svg_axis *axis, const char *label, bool grid)
{
    int left = axis->left - 44, middle = axis->top + axis->height / 2;
    double value, at;
    for (int i = 0; (at = tick_at(axis, i, &value)) <= END; i++) {
        double y = axis->top + (1 - at) * axis->height;
        fprintf(file, "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#ccc\"/>\n", axis->left - 4,
                axis->left + (grid ? axis->width : 0), y, y);
        fprintf(file, "<text class=\"tick\" x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.*f</text>\n", axis->left - 7,
                y + 4, axis->decimals, value);
    }
    fprintf(file,
            "<text class=\"label\" x=\"%d\" y=\"%d\" transform=\"rotate(-90 %d %d)\" "
            "text-anchor=\"middle\">%s</text>\n",
            left, middle, left, middle, label);
}

/* ---- heat maps ---- */

const char *svg_color(double value, char color[SVG_COLOR])
{
    int light = 255 - (int)(230 * fmin(fabs(value), 1));
    snprintf(color, SVG_COLOR, "rgb(%d,%d,%d)", value > 0 ? 255 : light, light, value > 0 ? light : 255);
    return color;
}

void svg_scale(FILE *file, const svg_axis *axis, const char *label, double sign)
{
    char color[SVG_COLOR];
    for (int x = 0; x < axis->width; x++) {
        double value = axis->low + (axis->high - axis->low) * (x + 0.5) / axis->width;
        fprintf(file, "<rect x=\"%d\" y=\"%d\" width=\"1\" height=\"%d\" fill=\"%s\"/>\n", axis->left + x, axis->top,
                axis->height, svg_color(sign * value, color));
    }
    svg_axis_across(file, axis, label, false);
}
