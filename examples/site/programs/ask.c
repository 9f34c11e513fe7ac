/* ask MODEL FILE COLUMN QUERY: prints the three texts of a column that are nearest to a query, by a model that
 * `sentences train` has written to the folder MODEL. FILE is a .csv. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tapegrad.h>
#include <tapegrad_text.h>
#include <tapegrad_tools.h>

enum { TOP = 3 };

static tg_error error = TG_NO_ERROR;

static void check(const tg_error *e)
{
    if (e->code != TG_OK) {
        fprintf(stderr, "ask: %s\n", e->text);
        exit(1);
    }
}

typedef struct model {
    tg_tokenizer *tokenizer;
    tg_tensor *table;
} model;

static model open_model(const char *folder)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/0_StaticEmbedding/tokenizer.json", folder);
    model m = {.tokenizer = tg_tokenizer_open(path, NULL, &error)};
    snprintf(path, sizeof path, "%s/0_StaticEmbedding/model.safetensors", folder);
    m.table = tg_tensor_new_from_safetensors(path, "embedding.weight", &error);
    check(&error);
    return m;
}

/* Returns the vectors (count,width) of texts, a result on the tape. */
static tg_tensor *vectors(const model *m, tg_tape *t, const char *const *texts, int64_t count)
{
    /* the ids of all texts, one behind the other, and where each text begins */
    int32_t *ids = NULL, *offsets = malloc((size_t)count * sizeof *offsets), used = 0;
    for (int64_t i = 0; i < count; i++) {
        tg_tokens tokens;
        tg_tokenizer_encode(m->tokenizer, texts[i], strlen(texts[i]), false, &tokens, &error);
        check(&error);
        ids = realloc(ids, (size_t)(used + tokens.count + 1) * sizeof *ids);
        for (int64_t k = 0; k < tokens.count; k++) {
            ids[used + k] = tokens.ids[k];
        }
        offsets[i] = used;
        used += (int32_t)tokens.count;
        tg_tokens_free(&tokens);
    }
    tg_embedding_bag_config config = tg_embedding_bag_config_default();
    config.offsets = tg_constant_i32(t, TG_SHAPE(count), offsets);
    tg_tensor *means = tg_embedding_bag(t, tg_constant_i32(t, TG_SHAPE(used), ids), m->table, &config);
    free(ids), free(offsets);
    check(tg_tape_error(t));
    return means;
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        fprintf(stderr, "ask MODEL FILE COLUMN QUERY\n");
        return 2;
    }
    model m = open_model(argv[1]);
    tg_csv *csv = tg_csv_open(argv[2], NULL, &error);
    const int column = tg_csv_find(csv, argv[3], &error);
    check(&error);
    /* the first row of each different text */
    int64_t *rows = malloc((size_t)tg_csv_rows(csv) * sizeof *rows), count;
    tg_release(tg_csv_new_categories(csv, column, rows, &count, &error));
    check(&error);
    const char **texts = malloc((size_t)count * sizeof *texts);
    for (int64_t i = 0; i < count; i++) {
        texts[i] = tg_csv_field(csv, rows[i], column);
    }

    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_tape_set_recording(t, false);
    tg_tensor *documents = vectors(&m, t, texts, count);
    tg_tensor *query = vectors(&m, t, &(const char *){argv[4]}, 1);
    tg_row_neighbor near[TOP];
    const int64_t found = count < TOP ? count : TOP;
    tg_tensor_neighbors(documents, query, TG_SIMILARITY_COSINE, NULL, found, near, &error);
    check(&error);
    for (int64_t i = 0; i < found && near[i].row >= 0; i++) {
        printf("%.4f  %s\n", near[i].similarity, texts[near[i].row]);
    }
    tg_tape_free(t);
    tg_release(m.table);
    tg_tokenizer_free(m.tokenizer);
    tg_csv_free(csv);
    free(texts), free(rows);
}
