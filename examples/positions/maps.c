/* maps: the heat maps of lessons as SVG files. */
#include "lesson.h"

#include <math.h>

#include "../common/svg.h"

enum { CELL = 9, MAP = CELL * LENGTH, GAP = 48, ACROSS = 5, SCALE = 240, FOOT = 70 };

typedef struct kind {
    /* the value of a cell, -1 to 1, and the number in the title, in percent */
    double (*value)(const lesson *l, int i, int j);
    double (*title)(const lesson *l);
    int decimals;
    /* the labels of the axis down, and of the scale, which goes from `low` to 1 */
    const char *down, *scale;
    double low, sign;
} kind;

static double influence(const lesson *l, int i, int j)
{
    double most = 0;
    for (int k = 0; k < LENGTH; k++) {
        most = fmax(most, l->influence[i][k]);
    }
    return most > 0 ? l->influence[i][j] / most : 0;
}

static double share_right(const lesson *l)
{
    return 100 * l->right;
}

static double similarity(const lesson *l, int i, int j)
{
    return l->similarity[i][j];
}

static double position_share(const lesson *l)
{
    return 100 * l->position_share;
}

static void map(FILE *file, const kind *k, const lesson *l, int left, int top)
{
    char color[SVG_COLOR];
    fprintf(file, "<text x=\"%d\" y=\"%d\">%s: %.*f %%</text>\n", left, top - 6, l->name, k->decimals, k->title(l));
    for (int i = 0; i < LENGTH; i++) {
        for (int j = 0; j < LENGTH; j++) {
            fprintf(file, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"%s\"/>\n", left + j * CELL,
                    top + i * CELL, CELL, CELL, svg_color(k->sign * k->value(l, i, j), color));
        }
    }
    fprintf(file, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"none\" stroke=\"#ccc\"/>\n", left, top,
            MAP, MAP);
    /* ticks in the middle of their cells; position 0 is at the top */
    for (int i = 0; i < LENGTH; i += 5) {
        fprintf(file, "<text class=\"tick\" x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%d</text>\n",
                left + (i + 0.5) * CELL, top + MAP + 13, i);
        fprintf(file, "<text class=\"tick\" x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%d</text>\n", left - 4,
                top + (i + 0.5) * CELL + 4, i);
    }
}

static bool write_maps(const char *path, const kind *k, const lesson *lessons, int count)
{
    int lines = (count + ACROSS - 1) / ACROSS, foot = lines * (MAP + GAP) + GAP;
    FILE *file = svg_begin(path, ACROSS * (MAP + GAP) + GAP, foot + FOOT);
    if (!file) {
        return false;
    }
    for (int i = 0; i < count; i++) {
        map(file, k, &lessons[i], GAP + i % ACROSS * (MAP + GAP), GAP + i / ACROSS * (MAP + GAP));
    }
    svg_axis scale = svg_axis_make(k->low, 1, 4, 0.5);
    scale.left = GAP;
    scale.top = foot;
    scale.width = SCALE;
    scale.height = 12;
    svg_scale(file, &scale, k->scale, k->sign);
    fprintf(file,
            "<text class=\"label\" x=\"%d\" y=\"%d\">down: %s</text>\n"
            "<text class=\"label\" x=\"%d\" y=\"%d\">across: position of the token</text>\n",
            2 * GAP + SCALE, foot + 10, k->down, 2 * GAP + SCALE, foot + 28);
    return svg_end(file, path);
}

bool lessons_influence_svg(const char *path, const lesson *lessons, int count)
{
    static const kind blue = {influence, share_right, 0, "position of the answer", "influence / largest of the line",
                              0,         -1};
    return write_maps(path, &blue, lessons, count);
}

bool lessons_similarity_svg(const char *path, const lesson *lessons, int count)
{
    static const kind both = {
        similarity, position_share, 1, "position of another token", "cosine of the mean states", -1, 1};
    return write_maps(path, &both, lessons, count);
}
