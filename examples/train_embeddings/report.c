#include "report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/program.h"
#include "../common/vocabulary.h"

/* report_neighbors: neighbors per word, words, and the minimum number of updates of all of them */
#define NEIGHBORS 4
#define WORDS 6
#define OFTEN 50
/* report_rows: the number of most-updated rows */
#define MOST 3

/* ---- neighbors ---- */

/* Returns whether a token is a word of four letters or more that was updated at least OFTEN times. */
static bool is_word(const tg_tokenizer *bpe, int32_t id, const tg_tensor *watched)
{
    size_t length;
    const char *bytes = tg_tokenizer_bytes(bpe, id, &length);
    bool letters = length >= 5 && bytes[0] == ' ';
    for (size_t i = 1; letters && i < length; i++) {
        letters = (bytes[i] >= 'a' && bytes[i] <= 'z') || (bytes[i] >= 'A' && bytes[i] <= 'Z');
    }
    return letters && tg_tensor_row_updates(watched, id).count >= OFTEN;
}

/* Returns the most-updated remaining row and removes it from `remaining`, or -1. */
static int32_t next_row(const tg_tensor *watched, uint8_t *remaining)
{
    int32_t most = -1;
    int64_t count = 0;
    for (int32_t id = 0; id < tg_tensor_size(watched, 0); id++) {
        int64_t updates = tg_tensor_row_updates(watched, id).count;
        if (remaining[id] && updates > count) {
            most = id;
            count = updates;
        }
    }
    if (most >= 0) {
        remaining[most] = 0;
    }
    return most;
}

void report_neighbors(const tg_tokenizer *bpe, const tg_tensor *const tables[3])
{
    static const char *const when[] = {"before", "halfway", "after"};
    int64_t rows = tg_tensor_size(tables[2], 0);
    uint8_t *words = calloc((size_t)rows, 1), *remaining = calloc((size_t)rows, 1);
    for (int32_t id = 0; words && remaining && id < rows; id++) {
        words[id] = remaining[id] = is_word(bpe, id, tables[2]);
    }
    printf("\nNearest neighbors by cosine, among words updated in at least %d steps (_ is a space):\n", OFTEN);
    for (int word = 0; words && remaining && word < WORDS; word++) {
        int32_t id = next_row(tables[2], remaining);
        char text[TOKEN_TEXT];
        for (int k = 0; id >= 0 && k < 3; k++) {
            tg_row_neighbor near[NEIGHBORS];
            int64_t count = tg_tensor_row_neighbors(tables[k], id, words, near, NEIGHBORS, NULL);
            printf("  %-13s %7s:", k == 0 ? token_text(bpe, id, text) : "", when[k]);
            for (int64_t i = 0; i < count; i++) {
                printf(" %s (%.2f)", token_text(bpe, (int32_t)near[i].row, text), near[i].similarity);
            }
            printf("\n");
        }
    }
    free(words);
    free(remaining);
}

/* ---- rows ---- */

static void print_row(const tg_tokenizer *bpe, const tg_tensor *before, const tg_tensor *after, int32_t id)
{
    char text[TOKEN_TEXT];
    tg_row_updates updates = tg_tensor_row_updates(after, id);
    printf("  %-13s %7lld %10lld %11.3f %8.3f\n", token_text(bpe, id, text), (long long)updates.count,
           (long long)updates.last_step, tg_tensor_row_norm(before, id, 2, NULL),
           tg_tensor_row_norm(after, id, 2, NULL));
}

void report_rows(const tg_tokenizer *bpe, const tg_tensor *before, const tg_tensor *after, int64_t steps)
{
    int64_t never = tg_tensor_rows_never_updated(after, NULL, 0, NULL), rows = tg_tensor_size(after, 0), same = 0;
    size_t bytes = (size_t)tg_tensor_size(after, 1) * sizeof(float);
    int32_t longest_ago = -1;
    uint8_t *remaining = calloc((size_t)rows, 1);
    for (int32_t id = 0; id < rows; id++) {
        tg_row_updates updates = tg_tensor_row_updates(after, id);
        bool kept = memcmp((const char *)tg_tensor_data(before) + (size_t)id * bytes,
                           (const char *)tg_tensor_data(after) + (size_t)id * bytes, bytes) == 0;
        same += updates.count == 0 && kept;
        if (remaining) {
            remaining[id] = 1;
        }
        bool older = longest_ago < 0 || updates.last_step < tg_tensor_row_updates(after, longest_ago).last_step;
        longest_ago = updates.count > 0 && older ? id : longest_ago;
    }
    printf("\nRows of the token table: %lld were updated in %lld steps, %lld never. Of the latter, %lld are unchanged, "
           "bit for bit%s.\n",
           (long long)(rows - never), (long long)steps, (long long)never, (long long)same,
           same < never ? "; weight decay shrank the others" : "");
    printf("  %-13s %7s %10s %11s %8s\n", "token", "updates", "last step", "norm before", "after");
    for (int k = 0; remaining && k < MOST; k++) {
        int32_t id = next_row(after, remaining);
        if (id >= 0) {
            print_row(bpe, before, after, id);
        }
    }
    free(remaining);
    if (longest_ago >= 0) {
        print_row(bpe, before, after, longest_ago);
    }
    int32_t first_never;
    if (tg_tensor_rows_never_updated(after, &first_never, 1, NULL) > 0) {
        print_row(bpe, before, after, first_never);
    }
}

/* ---- tables for the Embedding Projector ---- */

bool report_vectors(const char *path, const tg_tensor *table)
{
    FILE *file = file_begin(path);
    if (!file) {
        return false;
    }
    const float *values = tg_tensor_data(table);
    int64_t width = tg_tensor_size(table, 1);
    for (int64_t i = 0; i < tg_tensor_count(table); i++) {
        fprintf(file, "%.6g%c", (double)values[i], (i + 1) % width == 0 ? '\n' : '\t');
    }
    return file_end(file, path);
}

bool report_token_labels(const char *path, const tg_tokenizer *bpe, const tg_tensor *watched)
{
    FILE *file = file_begin(path);
    if (!file) {
        return false;
    }
    char text[TOKEN_TEXT];
    fprintf(file, "token\tid\tupdates\tlast step\n");
    for (int32_t id = 0; id < tg_tokenizer_vocabulary(bpe); id++) {
        tg_row_updates updates = tg_tensor_row_updates(watched, id);
        fprintf(file, "%s\t%d\t%lld\t%lld\n", token_text(bpe, id, text), id, (long long)updates.count,
                (long long)updates.last_step);
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
