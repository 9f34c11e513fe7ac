#include "report.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NEIGHBOURS 4
#define WORDS 8

const char *report_token(const tg_tokenizer *bpe, int32_t id, char text[TOKEN_TEXT])
{
    size_t length, used = 0;
    const char *bytes = tg_tokenizer_bytes(bpe, id, &length);
    for (size_t i = 0; i < length && used + 5 < TOKEN_TEXT; i++) {
        unsigned char c = (unsigned char)bytes[i];
        if (c == ' ') {
            used += (size_t)snprintf(text + used, TOKEN_TEXT - used, "_");
        } else if (c == '\n') {
            used += (size_t)snprintf(text + used, TOKEN_TEXT - used, "\\n");
        } else if (c < 33 || c == 127 || (c >= 128 && length < 2)) {
            used += (size_t)snprintf(text + used, TOKEN_TEXT - used, "\\x%02x", c);
        } else {
            text[used++] = (char)c;
        }
    }
    text[used] = '\0';
    return text;
}

/* ---- neighbours ---- */

static double cosine(const float *a, const float *b, int64_t n)
{
    double ab = 0, aa = 0, bb = 0;
    for (int64_t i = 0; i < n; i++) {
        ab += (double)a[i] * (double)b[i];
        aa += (double)a[i] * (double)a[i];
        bb += (double)b[i] * (double)b[i];
    }
    return aa > 0 && bb > 0 ? ab / sqrt(aa * bb) : 0;
}

/* Words of four letters and more that came often enough to have learned something. */
static bool is_word(const tg_tokenizer *bpe, int32_t id, const int64_t *touched)
{
    size_t length;
    const char *bytes = tg_tokenizer_bytes(bpe, id, &length);
    bool letters = length >= 5 && bytes[0] == ' ';
    for (size_t i = 1; letters && i < length; i++) {
        letters = (bytes[i] >= 'a' && bytes[i] <= 'z') || (bytes[i] >= 'A' && bytes[i] <= 'Z');
    }
    return letters && touched[id] >= 50;
}

static void print_neighbours(const tg_tokenizer *bpe, const tg_tensor *table, int32_t id, const int64_t *touched)
{
    const float *values = tg_data(table);
    int64_t width = tg_size(table, 1), rows = tg_size(table, 0);
    int32_t best[NEIGHBOURS];
    double near[NEIGHBOURS];
    int count = 0;
    for (int32_t other = 0; other < rows; other++) {
        if (other == id || !is_word(bpe, other, touched)) {
            continue;
        }
        double similar = cosine(values + id * width, values + other * width, width);
        int place = count < NEIGHBOURS ? count++ : NEIGHBOURS;
        for (; place > 0 && similar > near[place - 1]; place--) {
            if (place < NEIGHBOURS) {
                near[place] = near[place - 1];
                best[place] = best[place - 1];
            }
        }
        if (place < NEIGHBOURS) {
            near[place] = similar;
            best[place] = other;
        }
    }
    char text[TOKEN_TEXT];
    for (int i = 0; i < count; i++) {
        printf(" %s (%.2f)", report_token(bpe, best[i], text), near[i]);
    }
    printf("\n");
}

void report_neighbours(const tg_tokenizer *bpe, const tg_tensor *before, const tg_tensor *after, const int64_t *touched)
{
    int64_t rows = tg_size(after, 0), limit = INT64_MAX;
    char text[TOKEN_TEXT];
    printf("\nNearest neighbours by cosine, among words seen at least 50 times (_ is a space):\n");
    for (int word = 0; word < WORDS; word++) {
        int32_t most = -1;
        for (int32_t id = 0; id < rows; id++) {
            if (is_word(bpe, id, touched) && touched[id] < limit && (most < 0 || touched[id] > touched[most])) {
                most = id;
            }
        }
        if (most < 0) {
            return;
        }
        limit = touched[most];
        report_token(bpe, most, text);
        printf("  %-13s before:", text);
        print_neighbours(bpe, before, most, touched);
        printf("  %-13s after: ", "");
        print_neighbours(bpe, after, most, touched);
    }
}

void report_touched(const tg_tokenizer *bpe, const tg_tensor *before, const tg_tensor *after, const int64_t *touched)
{
    int64_t never = 0, same = 0, total = 0, width = tg_size(after, 1), rows = tg_size(after, 0);
    int32_t most = 0;
    const float *was = tg_data(before), *is = tg_data(after);
    for (int32_t id = 0; id < rows; id++) {
        size_t bytes = (size_t)width * sizeof *was;
        never += touched[id] == 0;
        same += touched[id] == 0 && memcmp(was + id * width, is + id * width, bytes) == 0;
        total += touched[id];
        most = touched[id] > touched[most] ? id : most;
    }
    char text[TOKEN_TEXT];
    printf(
        "\nRows of the token table: %lld were touched, %lld never. Of these %lld are bit for bit what they were%s.\n",
        (long long)(rows - never), (long long)never, (long long)same,
        same < never ? "; weight decay shrank the others" : "");
    printf("The row of %s was looked up most: %lld times, %.1f %% of all.\n", report_token(bpe, most, text),
           (long long)touched[most], 100.0 * (double)touched[most] / (double)(total ? total : 1));
}

/* ---- curves ---- */

#define COLUMNS 64
#define LINES 12

/* The mean loss of the steps that fall into one of `parts` equal parts. */
static double part_mean(const curve *c, int part, int parts)
{
    int64_t begin = c->steps * part / parts, end = c->steps * (part + 1) / parts;
    end = end > begin ? end : begin + 1;
    double sum = 0;
    for (int64_t i = begin; i < end; i++) {
        sum += (double)c->losses[i < c->steps ? i : c->steps - 1];
    }
    return sum / (double)(end - begin);
}

static void find_range(const curve *curves, int count, int parts, double *low, double *high)
{
    *low = INFINITY;
    *high = -INFINITY;
    for (int k = 0; k < count; k++) {
        for (int i = 0; i < parts; i++) {
            *low = fmin(*low, part_mean(&curves[k], i, parts));
            *high = fmax(*high, part_mean(&curves[k], i, parts));
        }
    }
    *high = *high > *low ? *high : *low + 1;
}

void report_curves_terminal(const curve *curves, int count)
{
    static const char marks[] = "*o+x";
    char picture[LINES][COLUMNS + 1];
    double low, high;
    find_range(curves, count, COLUMNS, &low, &high);
    for (int line = 0; line < LINES; line++) {
        memset(picture[line], ' ', COLUMNS);
        picture[line][COLUMNS] = '\0';
    }
    for (int k = count - 1; k >= 0; k--) {
        for (int i = 0; i < COLUMNS; i++) {
            double height = (part_mean(&curves[k], i, COLUMNS) - low) / (high - low);
            picture[LINES - 1 - (int)(height * (LINES - 1) + 0.5)][i] = marks[k % 4];
        }
    }
    printf("\n");
    for (int line = 0; line < LINES; line++) {
        printf("%7.3f |%s\n", high - (high - low) * line / (LINES - 1), picture[line]);
    }
    printf("   loss +%.*s step %lld\n        ", COLUMNS,
           "----------------------------------------------------------------", (long long)curves[0].steps);
    for (int k = 0; k < count; k++) {
        printf(" %c %s  ", marks[k % 4], curves[k].name);
    }
    printf("\n");
}

static bool finish(FILE *file, const char *path)
{
    bool good = !ferror(file);
    good = fclose(file) == 0 && good;
    if (!good) {
        fprintf(stderr, "train_embeddings: writing %s: %s\n", path, strerror(errno));
    }
    return good;
}

static FILE *begin(const char *path)
{
    FILE *file = fopen(path, "w");
    if (!file) {
        fprintf(stderr, "train_embeddings: opening %s: %s\n", path, strerror(errno));
    }
    return file;
}

bool report_curves_svg(const char *path, const curve *curves, int count)
{
    enum { parts = 200, left = 60, top = 20, width = 560, height = 300 };
    static const char *const colours[] = {"#1b6ca8", "#c0392b", "#2e8b57", "#8e44ad"};
    double low, high;
    FILE *file = begin(path);
    if (!file) {
        return false;
    }
    find_range(curves, count, parts, &low, &high);
    fprintf(file, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"640\" height=\"380\" font-family=\"sans-serif\" "
                  "font-size=\"12\">\n"
                  "<rect width=\"640\" height=\"380\" fill=\"white\"/>\n");
    for (int i = 0; i <= 5; i++) {
        double y = top + height * i / 5.0, x = left + width * i / 5.0;
        fprintf(file, "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/>\n", left, left + width, y,
                y);
        fprintf(file, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.2f</text>\n", left - 6, y + 4,
                high - (high - low) * i / 5);
        fprintf(file, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%lld</text>\n", x, top + height + 18,
                (long long)(curves[0].steps * i / 5));
    }
    for (int k = 0; k < count; k++) {
        fprintf(file, "<polyline fill=\"none\" stroke-width=\"1.5\" stroke=\"%s\" points=\"", colours[k % 4]);
        for (int i = 0; i < parts; i++) {
            fprintf(file, "%.1f,%.1f ", left + width * (i + 0.5) / parts,
                    top + height * (high - part_mean(&curves[k], i, parts)) / (high - low));
        }
        fprintf(file, "\"/>\n<text x=\"%d\" y=\"%d\" fill=\"%s\">%s</text>\n", left + width - 180, top + 20 + 18 * k,
                colours[k % 4], curves[k].name);
    }
    fprintf(file, "<text x=\"340\" y=\"370\" text-anchor=\"middle\">step</text>\n<text x=\"16\" y=\"170\" "
                  "transform=\"rotate(-90 16 170)\" "
                  "text-anchor=\"middle\">loss</text>\n</svg>\n");
    return finish(file, path);
}

/* ---- tables for the Embedding Projector ---- */

bool report_vectors(const char *path, const tg_tensor *table)
{
    FILE *file = begin(path);
    if (!file) {
        return false;
    }
    const float *values = tg_data(table);
    int64_t width = tg_size(table, 1);
    for (int64_t i = 0; i < tg_count(table); i++) {
        fprintf(file, "%.6g%c", (double)values[i], (i + 1) % width == 0 ? '\n' : '\t');
    }
    return finish(file, path);
}

bool report_token_labels(const char *path, const tg_tokenizer *bpe, const int64_t *touched)
{
    FILE *file = begin(path);
    if (!file) {
        return false;
    }
    char text[TOKEN_TEXT];
    fprintf(file, "token\tid\ttouched\n");
    for (int32_t id = 0; id < tg_tokenizer_size(bpe); id++) {
        fprintf(file, "%s\t%d\t%lld\n", report_token(bpe, id, text), id, (long long)touched[id]);
    }
    return finish(file, path);
}

bool report_position_labels(const char *path, int64_t context)
{
    FILE *file = begin(path);
    if (!file) {
        return false;
    }
    for (int64_t p = 0; p < context; p++) {
        fprintf(file, "%lld\n", (long long)p);
    }
    return finish(file, path);
}
