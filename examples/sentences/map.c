/* map: draws documents as points: an SVG file with some of the names, and an HTML file that names the point under the
 * pointer. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <tapegrad/extend.h>

#include "../common/svg.h"
#include "../common/terminal.h"
#include "sentences.h"

/* The picture in pixels; the size of a name and of the room that a letter takes; the bytes of a name. */
enum { SIZE = 1000, MARGIN = 20, LINE = 11, LETTER = 6, NAME = 120 };

/* Writes a text for SVG and HTML, at most NAME bytes of it. */
static void write_text(FILE *file, const char *text)
{
    char cut[NAME + 1], escaped[4 * NAME + 1];
    snprintf(cut, sizeof cut, "%.*s", (int)tg_cut_bytes(text, strlen(text), NAME), text);
    tg_escape(escaped, sizeof escaped, cut);
    for (const char *c = escaped; *c; c++) {
        const char *name = *c == '&' ? "&amp;" : *c == '<' ? "&lt;" : *c == '>' ? "&gt;" : *c == '"' ? "&quot;" : NULL;
        if (name) {
            fputs(name, file);
        } else {
            fputc(*c, file);
        }
    }
}

/* Moves the places into the middle of the picture, with one scale for both axes. */
static void fit(double *places, int64_t count)
{
    double low[2] = {INFINITY, INFINITY}, high[2] = {-INFINITY, -INFINITY};
    for (int64_t i = 0; i < 2 * count; i++) {
        low[i % 2] = fmin(low[i % 2], places[i]);
        high[i % 2] = fmax(high[i % 2], places[i]);
    }
    const double size = fmax(fmax(high[0] - low[0], high[1] - low[1]), 1e-30);
    for (int64_t i = 0; i < 2 * count; i++) {
        const double from_middle = places[i] - (low[i % 2] + high[i % 2]) / 2;
        places[i] = SIZE / 2 + from_middle / size * (SIZE - 2 * MARGIN);
    }
}

static void write_points(FILE *file, const texts *t, const double *places)
{
    for (int64_t i = 0; i < t->count; i++) {
        fprintf(file, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"#1b6ca8\" fill-opacity=\"0.5\"><title>",
                places[2 * i], places[2 * i + 1]);
        write_text(file, t->at[i].name);
        fprintf(file, "</title></circle>\n");
    }
}

/* Writes the names of the points that have room for them, to the right or to the left. */
static void write_names(FILE *file, const texts *t, const double *places)
{
    /* the pixels of lines of half a name's height */
    static char taken[2 * SIZE / LINE + 2][SIZE];
    memset(taken, 0, sizeof taken);
    for (int64_t i = 0; i < t->count; i++) {
        const int x = (int)places[2 * i], line = 2 * (int)places[2 * i + 1] / LINE;
        const size_t length = strlen(t->at[i].name), width = LETTER * (length < NAME ? length : NAME);
        int left = 0;
        bool is_free = false, is_right = false;
        for (int side = 0; side < 2 && !is_free; side++) {
            is_right = side == 0;
            left = is_right ? x + 5 : x - 5 - (int)width;
            is_free = left >= 0 && left + (int)width < SIZE;
            for (int k = 0; is_free && k < 2; k++) {
                is_free = !memchr(taken[line + k] + left, 1, width);
            }
        }
        if (is_free) {
            memset(taken[line] + left, 1, width);
            memset(taken[line + 1] + left, 1, width);
            fprintf(file, "<text x=\"%d\" y=\"%.1f\" font-size=\"10\" text-anchor=\"%s\">", is_right ? x + 5 : x - 5,
                    places[2 * i + 1] + 3, is_right ? "start" : "end");
            write_text(file, t->at[i].name);
            fprintf(file, "</text>\n");
        }
    }
}

static bool write_svg(const char *path, const texts *t, const double *places)
{
    FILE *file = svg_begin(path, SIZE, SIZE);
    if (!file) {
        return false;
    }
    write_points(file, t, places);
    write_names(file, t, places);
    return svg_end(file, path);
}

/* The point nearest to the pointer is named, if it is near. */
static const char script[] =
    "<script>\n"
    "const map = document.querySelector('svg'), points = [...map.querySelectorAll('circle')];\n"
    "const label = document.querySelector('output');\n"
    "let last = null;\n"
    "map.addEventListener('pointermove', event => {\n"
    "  const box = map.getBoundingClientRect(), scale = map.viewBox.baseVal.width / box.width;\n"
    "  const x = (event.clientX - box.left) * scale, y = (event.clientY - box.top) * scale;\n"
    "  const far = p => (p.cx.baseVal.value - x) ** 2 + (p.cy.baseVal.value - y) ** 2;\n"
    "  const near = points.reduce((a, b) => far(b) < far(a) ? b : a);\n"
    "  if (last) last.setAttribute('r', 3);\n"
    "  last = far(near) < 400 ? near : null;\n"
    "  if (last) last.setAttribute('r', 6);\n"
    "  label.textContent = last ? last.textContent : '';\n"
    "});\n"
    "</script>\n";

static bool write_html(const char *path, const texts *t, const double *places)
{
    FILE *file = file_begin(path);
    if (!file) {
        return false;
    }
    fprintf(file,
            "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>Map of %lld documents</title>\n"
            "<style>body { font-family: sans-serif; margin: 1em } output { display: block; height: 1.5em }\n"
            "svg { width: min(95vw, 88vh); border: 1px solid #ccc }</style>\n<output></output>\n"
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\">\n",
            (long long)t->count, SIZE, SIZE);
    write_points(file, t, places);
    fprintf(file, "</svg>\n%s</html>\n", script);
    return file_end(file, path);
}

/* Keeps at most `most` rows, evenly spread. */
static void thin(texts *t, int64_t most)
{
    const int64_t kept = t->count < most ? t->count : most;
    for (int64_t i = 0; i < kept; i++) {
        const int64_t from = i * t->count / kept;
        const text_row here = t->at[i];
        t->at[i] = t->at[from];
        t->at[from] = here;
    }
    while (t->count > kept) {
        text_row_free(&t->at[--t->count]);
    }
}

static bool is_tsne(const options *o)
{
    return strcmp(o->method, "tsne") == 0;
}

/* Places vectors by the method of the options. */
static bool place(tg_tensor *vectors, const options *o, double *places)
{
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_tape_set_recording(t, false);
    tg_tensor *norms = tg_clamp(t, tg_norm(t, vectors, 2, TG_AXES(1), TG_KEEP_AXES), 1e-12, INFINITY);
    tg_tensor *units = tg_div(t, vectors, norms);
    const bool good = is_tsne(o) ? tsne(t, units, o->seed, places) : pca(t, units, places);
    tg_tape_free(t);
    return good;
}

int map(const options *o)
{
    texts t = {0};
    model m = {0};
    if (!is_tsne(o) && strcmp(o->method, "pca") != 0) {
        complain("--method %s: must be pca or tsne", o->method);
        return 2;
    }
    if (is_tsne(o) && o->most > MOST_TSNE) {
        complain("--most %lld: must be at most %d with --method tsne", (long long)o->most, MOST_TSNE);
        return 2;
    }
    const char *folder = o->out ? o->out : o->model;
    int32_t *numbers =
        model_open(&m, o) && texts_read(&t, o->documents, m.columns, false) ? texts_drop_equal(&t) : NULL;
    bool good = numbers && (t.count >= 3 ||
                            complain("%s: %lld different documents; a map needs 3", o->documents, (long long)t.count));
    if (good) {
        thin(&t, o->most);
    }
    tg_tensor *vectors = good ? model_vectors_of(&m, &t) : NULL;
    double *places = vectors ? malloc(2 * (size_t)t.count * sizeof *places) : NULL;
    good = places && place(vectors, o, places);
    if (good) {
        fit(places, t.count);
        good = folder_make(folder) && write_svg(folder_file(folder, "map.svg"), &t, places) &&
               write_html(folder_file(folder, "map.html"), &t, places);
    }
    if (good) {
        print_line(stdout, "written to %s: map.svg and map.html, %lld documents", folder, (long long)t.count);
    }
    tg_release(vectors);
    free(places);
    free(numbers);
    texts_free(&t);
    model_free(&m);
    return good ? 0 : 2;
}
