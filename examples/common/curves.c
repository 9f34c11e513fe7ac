#include "curves.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "program.h"

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
            printf(" %c %s  ", marks[k % 4], curves[k].name);
        }
    }
    printf("\n");
}

bool curves_svg(const char *path, const curve *curves, int count)
{
    enum { left = 60, top = 20, width = 560, height = 300 };
    static const char *const colors[CURVES] = {"#1b6ca8", "#c0392b", "#2e8b57", "#8e44ad", "#d68910",
                                               "#17a2a2", "#7f5539", "#d63384", "#6c757d"};
    double low, high, mean[PARTS];
    int64_t last = last_step(curves, count);
    FILE *file = file_begin(path);
    if (!file) {
        return false;
    }
    find_range(curves, count, PARTS, &low, &high);
    fprintf(file, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"780\" height=\"380\" font-family=\"sans-serif\" "
                  "font-size=\"12\">\n"
                  "<rect width=\"780\" height=\"380\" fill=\"white\"/>\n");
    for (int i = 0; i <= 5; i++) {
        double y = top + height * i / 5.0, x = left + width * i / 5.0;
        fprintf(file, "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/>\n", left, left + width, y,
                y);
        fprintf(file, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.2f</text>\n", left - 6, y + 4,
                high - (high - low) * i / 5);
        fprintf(file, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%lld</text>\n", x, top + height + 18,
                (long long)(last * i / 5));
    }
    for (int k = 0; k < count; k++) {
        if (curves[k].count == 0) {
            continue;
        }
        fprintf(file, "<polyline fill=\"none\" stroke-width=\"1.5\" stroke=\"%s\" points=\"", colors[k % CURVES]);
        means(&curves[k], last, PARTS, mean);
        for (int i = 0; i < PARTS; i++) {
            if (isfinite(mean[i])) {
                fprintf(file, "%.1f,%.1f ", left + width * (i + 0.5) / PARTS,
                        top + height * (high - mean[i]) / (high - low));
            }
        }
        fprintf(file, "\"/>\n<text x=\"%d\" y=\"%d\" fill=\"%s\">%s</text>\n", left + width + 14, top + 10 + 18 * k,
                colors[k % CURVES], curves[k].name);
    }
    fprintf(file, "<text x=\"340\" y=\"370\" text-anchor=\"middle\">step</text>\n<text x=\"16\" y=\"170\" "
                  "transform=\"rotate(-90 16 170)\" "
                  "text-anchor=\"middle\">loss</text>\n</svg>\n");
    return file_end(file, path);
}
