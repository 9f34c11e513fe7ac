#include "report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../common/program.h"

#define NEIGHBOURS 4
#define WORDS 8

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
        printf(" %s (%.2f)", token_text(bpe, best[i], text), near[i]);
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
        token_text(bpe, most, text);
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
    printf("The row of %s was looked up most: %lld times, %.1f %% of all.\n", token_text(bpe, most, text),
           (long long)touched[most], 100.0 * (double)touched[most] / (double)(total ? total : 1));
}

/* ---- tables for the Embedding Projector ---- */

bool report_vectors(const char *path, const tg_tensor *table)
{
    FILE *file = file_begin(path);
    if (!file) {
        return false;
    }
    const float *values = tg_data(table);
    int64_t width = tg_size(table, 1);
    for (int64_t i = 0; i < tg_count(table); i++) {
        fprintf(file, "%.6g%c", (double)values[i], (i + 1) % width == 0 ? '\n' : '\t');
    }
    return file_end(file, path);
}

bool report_token_labels(const char *path, const tg_tokenizer *bpe, const int64_t *touched)
{
    FILE *file = file_begin(path);
    if (!file) {
        return false;
    }
    char text[TOKEN_TEXT];
    fprintf(file, "token\tid\ttouched\n");
    for (int32_t id = 0; id < tg_tokenizer_size(bpe); id++) {
        fprintf(file, "%s\t%d\t%lld\n", token_text(bpe, id, text), id, (long long)touched[id]);
    }
    return file_end(file, path);
}

bool report_position_labels(const char *path, int64_t context)
{
    FILE *file = file_begin(path);
    if (!file) {
        return false;
    }
    for (int64_t p = 0; p < context; p++) {
        fprintf(file, "%lld\n", (long long)p);
    }
    return file_end(file, path);
}
