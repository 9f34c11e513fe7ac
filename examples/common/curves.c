#include "curves.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "svg.h"

#define COLUMNS 64
#define LINES 12
/* points of a curve in the SVG */
#define PARTS 200

static int64_t step_of(const curve *c, int64_t i)
{
    return c->steps ? c->steps[i] : i + 1;
}

static int64_t last_step(const curve *curves, int count)
{
    int64_t last = 1;
    for (int k = 0; k < count; k++) {
        if (curves[k].count > 0 && step_of(&curves[k], curves[k].count - 1) > last) {
            last = step_of(&curves[k], curves[k].count - 1);
        }
    }
    return last;
}

/* Divides the steps 1 to `last` into equal parts and sets mean[i] to the mean loss of part i, or to NaN if it has no
 * loss. If the curve has one loss per step, a part that is shorter than a step gets the next loss. */
static void means(const curve *c, int64_t last, int parts, double *mean)
{
    int64_t i = 0;
    for (int part = 0; part < parts; part++) {
        int64_t end = last * (part + 1) / parts, taken = 0;
        double sum = 0;
        for (; i < c->count && step_of(c, i) <= end; i++, taken++) {
            sum += (double)c->losses[i];
        }
        bool between = taken == 0 && !c->steps && i < c->count;
        mean[part] = taken > 0 ? sum / (double)taken : between ? (double)c->losses[i] : (double)NAN;
    }
}

static void find_range(const curve *curves, int count, int parts, double *low, double *high)
{
    double mean[PARTS];
    int64_t last = last_step(curves, count);
    *low = INFINITY;
    *high = -INFINITY;
    for (int k = 0; k < count; k++) {
        means(&curves[k], last, parts, mean);
        /* fmin and fmax ignore NaN */
        for (int i = 0; i < parts; i++) {
            *low = fmin(*low, mean[i]);
            *high = fmax(*high, mean[i]);
        }
    }
    /* all values are equal, or the curves are empty */
    if (!(*high > *low)) {
        *low = isfinite(*low) ? *low : 0;
        *high = *low + 1;
    }
}

void curves_terminal(const curve *curves, int count)
{
    static const char marks[] = "*o+x";
    char picture[LINES][COLUMNS + 1];
    double low, high, mean[PARTS];
    int64_t last = last_step(curves, count);
    find_range(curves, count, COLUMNS, &low, &high);
    for (int line = 0; line < LINES; line++) {
        memset(picture[line], ' ', COLUMNS);
        picture[line][COLUMNS] = '\0';
    }
    for (int k = count - 1; k >= 0; k--) {
        means(&curves[k], last, COLUMNS, mean);
        for (int i = 0; i < COLUMNS; i++) {
            if (isfinite(mean[i])) {
                int height = (int)((mean[i] - low) / (high - low) * (LINES - 1) + 0.5);
                picture[LINES - 1 - height][i] = marks[k % 4];
            }
        }
    }
    printf("\n");
    for (int line = 0; line < LINES; line++) {
        printf("%7.3f |%s\n", high - (high - low) * line / (LINES - 1), picture[line]);
    }
    printf("   loss +%.*s step %lld\n        ", COLUMNS,
           "----------------------------------------------------------------", (long long)last);
    for (int k = 0; k < count; k++) {
        if (curves[k].count > 0) {
            printf(" %c%c%c %s  ", marks[k % 4], marks[k % 4], marks[k % 4], curves[k].name);
        }
    }
    printf("\n");
}

bool curves_svg(const char *path, const char *label, const curve *curves, int count)
{
    enum { LEFT = 64, TOP = 20, WIDTH = 556, HEIGHT = 300, LEGEND = LEFT + WIDTH + 12, SAMPLE = 16 };
    static const char *const colors[CURVES] = {"#1b6ca8", "#c0392b", "#2e8b57", "#8e44ad", "#d68910",
                                               "#17a2a2", "#7f5539", "#d63384", "#6c757d", "#9aa82b"};
    double low, high, mean[PARTS];
    int64_t last = last_step(curves, count);
    FILE *file = svg_begin(path, 780, 380);
    if (!file) {
        return false;
    }
    find_range(curves, count, PARTS, &low, &high);
    svg_axis loss = svg_axis_make(low, high, 6, 0), steps = svg_axis_make(0, (double)last, 8, 1);
    svg_axis_extend(&loss);
    loss.left = steps.left = LEFT;
    loss.top = steps.top = TOP;
    loss.width = steps.width = WIDTH;
    loss.height = steps.height = HEIGHT;
    svg_axis_up(file, &loss, label, true);
    svg_axis_across(file, &steps, "step", false);
    for (int k = 0; k < count; k++) {
        if (curves[k].count == 0) {
            continue;
        }
        fprintf(file, "<polyline fill=\"none\" stroke-width=\"1.5\" stroke=\"%s\" points=\"", colors[k % CURVES]);
        means(&curves[k], last, PARTS, mean);
        for (int i = 0; i < PARTS; i++) {
            if (isfinite(mean[i])) {
                fprintf(file, "%.1f,%.1f ", LEFT + WIDTH * (i + 0.5) / PARTS,
                        TOP + HEIGHT * (loss.high - mean[i]) / (loss.high - loss.low));
            }
        }
        int y = TOP + 10 + 18 * k;
        fprintf(file, "\"/>\n<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" stroke-width=\"1.5\" stroke=\"%s\"/>\n",
                LEGEND, y - 4, LEGEND + SAMPLE, y - 4, colors[k % CURVES]);
        fprintf(file, "<text x=\"%d\" y=\"%d\" fill=\"%s\">%s</text>\n", LEGEND + SAMPLE + 6, y, colors[k % CURVES],
                curves[k].name);
    }
    return svg_end(file, path);
}
