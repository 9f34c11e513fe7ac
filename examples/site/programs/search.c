/* search PAIRS HELD_OUT BEFORE AFTER: trains a search on a table of questions and descriptions, and measures it.
 *
 * The files have a header, and the columns question, description and name. The last two are folders for
 * sentence-transformers, with the rows before and after the training. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <tapegrad.h>
#include <tapegrad_text.h>
#include <tapegrad_tools.h>

enum { VOCABULARY = 800, WIDTH = 32, STEPS = 100, TOP = 10, QUESTION = 0, DESCRIPTION, NAME };

static tg_error error = TG_NO_ERROR;

static void check(const tg_error *e)
{
    if (e->code != TG_OK) {
        fprintf(stderr, "%s\n", e->text);
        exit(1);
    }
}

/* The ids of texts, one behind the other, and where each text begins. */
typedef struct bags {
    tg_tensor *ids, *offsets;
} bags;

/* Encodes `count` fields of a column: those of the rows of a list, or the first ones. */
static bags encode(tg_tokenizer *tokenizer, const tg_csv *csv, int column, const int64_t *rows, int64_t count)
{
    int32_t *ids = NULL, *offsets = malloc((size_t)count * sizeof *offsets), used = 0;
    for (int64_t i = 0; i < count; i++) {
        tg_tokens tokens;
        const char *text = tg_csv_field(csv, rows ? rows[i] : i, column);
        tg_tokenizer_encode(tokenizer, text, strlen(text), false, &tokens, &error);
        check(&error);
        ids = realloc(ids, (size_t)(used + tokens.count) * sizeof *ids);
        memcpy(ids + used, tokens.ids, (size_t)tokens.count * sizeof *ids);
        offsets[i] = used;
        used += (int32_t)tokens.count;
        tg_tokens_free(&tokens);
    }
    bags b = {tg_tensor_new_from_i32(TG_SHAPE(used), ids, &error),
              tg_tensor_new_from_i32(TG_SHAPE(count), offsets, &error)};
    free(ids), free(offsets);
    check(&error);
    return b;
}

typedef struct search {
    tg_csv *pairs, *held_out;
    tg_tokenizer *tokenizer;
    tg_tape *t;
    tg_tensor *table;
    /* the questions and the descriptions of the pairs; the different descriptions, and the row of each in the file */
    bags questions, descriptions, searched;
    int64_t *rows;
    /* the questions that are held out, and the number of the description of each */
    bags asked;
    tg_tensor *own;
} search;

/* Returns the vectors (texts,WIDTH): of each text the mean of its rows. */
static tg_tensor *vectors(const search *s, bags b)
{
    tg_embedding_bag_config config = tg_embedding_bag_config_default();
    config.offsets = b.offsets;
    return tg_embedding_bag(s->t, b.ids, s->table, &config);
}

/* Searches for the nearest descriptions of each question that is held out, prints some, and how good they are. */
static void measure(const search *s)
{
    const int32_t *own = tg_tensor_data(s->own);
    int64_t count = tg_csv_rows(s->held_out);
    tg_row_neighbor *near = malloc((size_t)(count * TOP) * sizeof *near);
    tg_tensor_neighbors(vectors(s, s->searched), vectors(s, s->asked), TG_SIMILARITY_COSINE, NULL, TOP, near, &error);
    check(&error);
    tg_ranking first = {0}, top = {0};
    for (int64_t i = 0; i < count; i++) {
        const tg_row_neighbor *found = near + i * TOP;
        const int64_t relevant = own[i];
        tg_ranking_add(&first, found, 1, &relevant, 1, &error);
        tg_ranking_add(&top, found, TOP, &relevant, 1, &error);
        if (i % 16 == 3) {
            printf("  %s:", tg_csv_field(s->held_out, i, QUESTION));
            for (int k = 0; k < 3; k++) {
                printf("  %.2f %s", found[k].similarity, tg_csv_field(s->pairs, s->rows[found[k].row], NAME));
            }
            printf("\n");
        }
    }
    printf("recall at 1 %.2f, recall at 10 %.2f, MRR at 10 %.2f, NDCG at 10 %.2f\n", first.recall / (double)count,
           top.recall / (double)count, top.reciprocal_rank / (double)count, top.ndcg / (double)count);
    free(near);
}

/* Writes the table and the vocabulary as a StaticEmbedding of sentence-transformers. */
static void save(const search *s, const char *folder)
{
    char path[3][1000];
    snprintf(path[0], sizeof path[0], "%s/model.safetensors", folder);
    snprintf(path[1], sizeof path[1], "%s/tokenizer.json", folder);
    snprintf(path[2], sizeof path[2], "%s/modules.json", folder);
    mkdir(folder, 0777);
    tg_safetensors_save(path[0], &(tg_named_tensor){"embedding.weight", s->table, NULL}, 1, &error);
    tg_tokenizer_save(s->tokenizer, path[1], TG_VOCABULARY_JSON, &error);
    check(&error);
    FILE *file = fopen(path[2], "w");
    fprintf(file, "[{\"idx\": 0, \"name\": \"0\", \"path\": \"\", "
                  "\"type\": \"sentence_transformers.models.StaticEmbedding\"}]\n");
    fclose(file);
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        fprintf(stderr, "search PAIRS HELD_OUT BEFORE AFTER\n");
        return 2;
    }
    search s = {.pairs = tg_csv_open(argv[1], NULL, &error), .held_out = tg_csv_open(argv[2], NULL, &error)};
    s.tokenizer = tg_tokenizer_train_files(&(const char *){argv[1]}, 1, VOCABULARY, NULL, &error);
    check(&error);
    int64_t count = tg_csv_rows(s.pairs), different;
    s.rows = malloc((size_t)count * sizeof *s.rows);
    /* equal descriptions have the same number */
    tg_tensor *numbers = tg_csv_new_categories(s.pairs, DESCRIPTION, s.rows, &different, &error);
    s.own = tg_csv_new_known_categories(s.held_out, DESCRIPTION, s.pairs, DESCRIPTION, &error);
    check(&error);
    s.questions = encode(s.tokenizer, s.pairs, QUESTION, NULL, count);
    s.descriptions = encode(s.tokenizer, s.pairs, DESCRIPTION, NULL, count);
    s.searched = encode(s.tokenizer, s.pairs, DESCRIPTION, s.rows, different);
    s.asked = encode(s.tokenizer, s.held_out, QUESTION, NULL, tg_csv_rows(s.held_out));

    tg_run *run = tg_run_new(123);
    tg_params *params = tg_params_new(run, TG_F32);
    tg_nn_embedding_config embedding = tg_nn_embedding_config_default();
    embedding.std = 0.1;
    s.table = tg_nn_embedding_make(params, "table", VOCABULARY, WIDTH, &embedding).weight;
    tg_adam_config config = tg_adam_config_default();
    config.lr = 0.05;
    tg_optim *adam = tg_adam_new(params, &config);
    s.t = tg_tape_new(run, NULL);
    check(tg_run_error(run));
    save(&s, argv[3]);
    measure(&s);

    tg_contrastive_loss_config contrastive = tg_contrastive_loss_config_default();
    contrastive.groups = numbers;
    for (int step = 1; step <= STEPS; step++) {
        tg_tape_reset(s.t);
        tg_tensor *questions = vectors(&s, s.questions), *descriptions = vectors(&s, s.descriptions);
        tg_tensor *loss = tg_contrastive_loss(s.t, questions, descriptions, NULL, &contrastive);
        tg_optim_zero_grad(adam);
        tg_backward(s.t, loss, NULL);
        tg_optim_step(adam);
        check(tg_run_error(run));
        if (step == 1 || step % 25 == 0) {
            printf("step %d: loss %.3f\n", step, tg_tensor_item(loss, NULL));
        }
    }
    measure(&s);
    save(&s, argv[4]);
}
