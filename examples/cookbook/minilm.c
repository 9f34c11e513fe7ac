/* minilm: vectors of sentences by all-MiniLM-L6-v2, a BERT (Devlin et al. 2019) of 6 layers that sentence-transformers
 * publishes. --model is its folder, with model.safetensors and tokenizer.json, and --text a file with a sentence in
 * each line, at most 10,000. The vector of a sentence is the mean of the last layer's results, divided by its length.
 * Prints for each sentence the most similar other one, with the cosine; --vectors FILE writes all vectors in NumPy's
 * format. */
#include "../common/command_line.h"
#include "../common/terminal.h"
#include "recipe.h"

#include <string.h>

#include <tapegrad_text.h>

const char program_name[] = "cookbook_minilm";

enum { WIDTH = 384, HEADS = 12, LAYERS = 6, HIDDEN = 1536, CONTEXT = 512, VOCABULARY = 30522 };
enum { MOST_TOKENS = 256, MOST_SENTENCES = 10000 };

typedef struct model {
    tg_nn_embedding words, types;
    tg_nn_positional positions;
    tg_nn_layer_norm norm;
    tg_nn_transformer_encoder_layer layers[LAYERS];
} model;

static void make(model *m, tg_params *params)
{
    tg_nn_layer_norm_config norm = tg_nn_layer_norm_config_default();
    tg_nn_transformer_layer_config layer = tg_nn_transformer_layer_config_default();
    norm.eps = layer.eps = 1e-12;
    layer.hidden = HIDDEN;
    layer.activation = TG_ACTIVATION_GELU;
    m->words = tg_nn_embedding_make(params, "words", VOCABULARY, WIDTH, NULL);
    m->types = tg_nn_embedding_make(params, "types", 2, WIDTH, NULL);
    m->positions = tg_nn_positional_make(params, "positions", TG_POSITION_LEARNED, CONTEXT, WIDTH, NULL);
    m->norm = tg_nn_layer_norm_make(params, "norm", WIDTH, &norm);
    for (int i = 0; i < LAYERS; i++) {
        char name[20];
        snprintf(name, sizeof name, "layer.%d", i);
        m->layers[i] = tg_nn_transformer_encoder_layer_make(params, name, WIDTH, HEADS, &layer);
    }
}

/* Reads a tensor of the file into x, or, of BERT's separate projections, into rows first .. of it. */
static void read(recipe *r, const char *folder, const char *name, tg_tensor *x, int64_t first)
{
    tg_tensor *from = tg_tensor_new_from_safetensors(folder_file(folder, "model.safetensors"), name, &r->error);
    check(&r->error);
    tg_tensor *part = tg_slice(r->data, x, 0, first, first + tg_tensor_size(from, 0), 1);
    tg_tensor_copy_from(part, from, &r->error);
    tg_release(from);
    recipe_check(r);
}

/* Reads the weight and the bias of a part of a layer. */
static void read_part(recipe *r, const char *folder, int layer, const char *part, tg_tensor *weight, tg_tensor *bias,
                      int64_t first)
{
    char name[100];
    snprintf(name, sizeof name, "encoder.layer.%d.%s.weight", layer, part);
    read(r, folder, name, weight, first);
    snprintf(name, sizeof name, "encoder.layer.%d.%s.bias", layer, part);
    read(r, folder, name, bias, first);
}

static void load(recipe *r, const char *folder, model *m)
{
    read(r, folder, "embeddings.word_embeddings.weight", m->words.weight, 0);
    read(r, folder, "embeddings.token_type_embeddings.weight", m->types.weight, 0);
    read(r, folder, "embeddings.position_embeddings.weight", m->positions.weight, 0);
    read(r, folder, "embeddings.LayerNorm.weight", m->norm.weight, 0);
    read(r, folder, "embeddings.LayerNorm.bias", m->norm.bias, 0);
    for (int i = 0; i < LAYERS; i++) {
        tg_nn_transformer_encoder_layer *l = &m->layers[i];
        tg_nn_multihead_attention *a = &l->self_attn;
        read_part(r, folder, i, "attention.self.query", a->in_proj_weight, a->in_proj_bias, 0);
        read_part(r, folder, i, "attention.self.key", a->in_proj_weight, a->in_proj_bias, WIDTH);
        read_part(r, folder, i, "attention.self.value", a->in_proj_weight, a->in_proj_bias, 2 * WIDTH);
        read_part(r, folder, i, "attention.output.dense", a->out.weight, a->out.bias, 0);
        read_part(r, folder, i, "attention.output.LayerNorm", l->norm1.weight, l->norm1.bias, 0);
        read_part(r, folder, i, "intermediate.dense", l->linear1.weight, l->linear1.bias, 0);
        read_part(r, folder, i, "output.dense", l->linear2.weight, l->linear2.bias, 0);
        read_part(r, folder, i, "output.LayerNorm", l->norm2.weight, l->norm2.bias, 0);
    }
}

/* ids (1,T) -> the vector (1,WIDTH) */
static tg_tensor *vector_of(tg_tape *t, const model *m, tg_tensor *ids)
{
    tg_tensor *x = tg_add(t, tg_nn_embedding_forward(t, &m->words, ids), tg_select(t, m->types.weight, 0, 0));
    x = tg_nn_layer_norm_forward(t, &m->norm, tg_nn_positional_forward(t, &m->positions, x, 0));
    for (int i = 0; i < LAYERS; i++) {
        x = tg_nn_transformer_encoder_layer_forward(t, &m->layers[i], x, NULL);
    }
    x = tg_mean(t, x, TG_AXES(1), TG_DROP_AXES);
    return tg_div(t, x, tg_norm(t, x, 2, TG_AXES(1), TG_KEEP_AXES));
}

/* Returns the vectors of all sentences, (count,WIDTH). */
static tg_tensor *vectors_of(recipe *r, const model *m, tg_tokenizer *words, const char *const *lines, int64_t count)
{
    tg_tensor *vectors = tg_full(r->data, TG_F32, TG_SHAPE(count, WIDTH), 0);
    tg_tokenizer_encode_config config = tg_tokenizer_encode_config_default();
    config.with_template = true; /* [CLS] .. [SEP] */
    config.most = MOST_TOKENS;
    tg_evaluation_begin(r->tape);
    for (int64_t i = 0; i < count; i++) {
        tg_encoding text;
        tg_tokenizer_encode_text(words, lines[i], strlen(lines[i]), &text, &config, &r->error);
        check(&r->error);
        tg_tape_reset(r->tape);
        tg_tensor *ids = tg_constant_i32(r->tape, TG_SHAPE(1, text.count), text.ids);
        tg_tensor_copy_from(tg_slice(r->data, vectors, 0, i, i + 1, 1), vector_of(r->tape, m, ids), &r->error);
        tg_encoding_free(&text);
        recipe_check(r);
    }
    return vectors;
}

static void print_most_similar(recipe *r, const char *const *lines, tg_tensor *vectors, int64_t count)
{
    tg_tensor *products = tg_matmul(r->data, vectors, tg_transpose(r->data, vectors, 0, 1));
    recipe_check(r);
    for (int64_t i = 0; i < count && count > 1; i++) {
        const float *cosine = (const float *)tg_tensor_data(products) + i * count;
        int64_t best = i == 0;
        for (int64_t j = 0; j < count; j++) {
            best = j != i && cosine[j] > cosine[best] ? j : best;
        }
        print_line(stdout, "%.4f  %s | %s", (double)cosine[best], lines[i], lines[best]);
    }
}

int main(int argc, char **argv)
{
    const char *given[3] = {NULL};
    static const command_line_option options[] = {
        {"model", "DIR", VALUE_TEXT, 0, NULL, "folder of all-MiniLM-L6-v2", 1},
        {"text", "FILE", VALUE_TEXT, sizeof *given, NULL, "file with a sentence in each line", 1},
        {"vectors", "FILE", VALUE_TEXT, 2 * sizeof *given, NULL, "write the vectors, in NumPy's format", 1}};
    program_begin();
    int status = command_line_read(options, 3, 1, "cookbook_minilm: vectors of sentences by all-MiniLM-L6-v2\n", given,
                                   argc, argv);
    if (status < 0 && (!given[0] || !given[1])) {
        status = complain("the options must have --model DIR and --text FILE") ? 0 : 2;
    }
    if (status >= 0) {
        return program_end(status);
    }
    recipe r = recipe_begin(0);
    int64_t count = 0;
    static const char *lines[MOST_SENTENCES];
    char *text = tg_text_read(given[1], NULL, &r.error);
    check(&r.error);
    for (char *line = strtok(text, "\r\n"); line && count < MOST_SENTENCES; line = strtok(NULL, "\r\n")) {
        lines[count++] = line;
    }
    tg_tokenizer *words = tg_tokenizer_open(given[0], NULL, &r.error);
    check(&r.error);
    model m;
    make(&m, r.params);
    recipe_check(&r);
    load(&r, given[0], &m);
    tg_tensor *vectors = vectors_of(&r, &m, words, lines, count);
    print_most_similar(&r, lines, vectors, count);
    if (given[2]) {
        tg_tensor_save_npy(vectors, given[2], &r.error);
    }
    tg_tokenizer_free(words);
    tg_text_free(text);
    return recipe_end(&r);
}
