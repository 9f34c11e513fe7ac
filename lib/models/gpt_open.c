/* gpt_open: creates the model that a file or a folder of another program holds. Sizes are those of the tensors, which
 * config.json must confirm; only the number of heads is not among them. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/text.h"
#include "models/gpt.h"
#include "models/gpt_files.h"
#include "params/params.h"
#include "system/system.h"
#include "tensor/tensor.h"

static const char call[] = "gpt_open";
static const char mark[] = "tg_gpt_open_config_default";

tg_gpt_open_config tg_gpt_open_config_default(void)
{
    return (tg_gpt_open_config){.mark = mark, .names = TG_GPT_NAMES_TRANSFORMERS, .heads = TG_HEADS_OF_FILE};
}

/* The names from which the sizes are found. */
typedef struct layout {
    /* (V,C) and (T,C) */
    const char *tokens, *positions;
    /* block N is "BLOCKS.N." and the names of its weights; `norm` is one that every block has */
    const char *blocks, *norm;
    /* exist only with biases of the queries, and without a tied head */
    const char *qkv_bias, *head;
    /* ends of the names of causal masks, which some files have; a model here computes them */
    const char *masks[2];
} layout;

static const layout layouts[] = {
    [TG_GPT_NAMES_TRANSFORMERS] = {.tokens = "wte.weight",
                                   .positions = "wpe.weight",
                                   .blocks = "h",
                                   .norm = "ln_1.weight",
                                   .qkv_bias = "attn.c_attn.bias",
                                   .head = "lm_head.weight",
                                   .masks = {".attn.bias", ".attn.masked_bias"}},
    [TG_GPT_NAMES_COURSE] = {.tokens = "tok_emb.weight",
                             .positions = "pos_emb.weight",
                             .blocks = "trf_blocks",
                             .norm = "norm1.scale",
                             .qkv_bias = "att.W_query.bias",
                             .head = "out_head.weight",
                             .masks = {".att.mask", ".att.mask"}},
};

#define MOST_LAYERS 1000

typedef struct source {
    /* of the tensors, and of config.json or NULL */
    char *path, *json_path;
    tg_safetensors_list *list;
    tg_gpt_names names;
    const layout *layout;
    /* of all names except the head's */
    const char *prefix;
    tg_error error;
} source;

static bool fail(source *s, tg_code code, const char *format, ...) TG_PRINTF_LIKE(3, 4);

/* Sets an error about the file of the tensors. Returns false. */
static bool fail(source *s, tg_code code, const char *format, ...)
{
    char text[TG_ERROR_TEXT];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return tg_error_set(&s->error, code, "%s: '%s': %s", call, s->path, text);
}

/* ---- what the file has ---- */

/* Returns the tensor prefix + name, or NULL. */
static const tg_safetensors_item *find(const source *s, const char *prefix, const char *name)
{
    size_t length = strlen(prefix);
    for (int64_t i = 0; i < s->list->count; i++) {
        const tg_safetensors_item *item = &s->list->items[i];
        if (strncmp(item->name, prefix, length) == 0 && strcmp(item->name + length, name) == 0) {
            return item;
        }
    }
    return NULL;
}

/* Returns whether block number `block` has the weight `name`. */
static bool has_in_block(const source *s, int64_t block, const char *name)
{
    char full[80];
    snprintf(full, sizeof full, "%s.%lld.%s", s->layout->blocks, (long long)block, name);
    return find(s, s->prefix, full) != NULL;
}

/* Finds a table (rows,columns). */
static bool find_table(source *s, const char *name, tg_shape *shape)
{
    const tg_safetensors_item *item = find(s, s->prefix, name);
    if (!item) {
        return fail(s, TG_ERROR_VALUE, "has no tensor '%s' of a GPT-2 under the names of %s", name,
                    s->names == TG_GPT_NAMES_COURSE ? "the course" : "transformers");
    }
    char text[TG_SHAPE_TEXT];
    *shape = item->shape;
    return shape->rank == 2 || fail(s, TG_ERROR_SHAPE, "'%s' is %s; it must be a table of rank 2", item->name,
                                    tg_shape_format(*shape, text));
}

/* Checks that the weights of such a model are not larger than the file, so that no file can allocate much more than its
 * size. */
static bool is_plausible(source *s, const tg_gpt_config *c)
{
    double values = 0, width = (double)c->width;
    for (int64_t i = 0; i < s->list->count; i++) {
        double count = 1;
        for (int axis = 0; axis < s->list->items[i].shape.rank; axis++) {
            count *= (double)s->list->items[i].shape.size[axis];
        }
        values += count;
    }
    double needed = ((double)c->vocabulary + (double)c->context + 12 * (double)c->layers * width) * width;
    return (c->layers >= 1 && c->layers <= MOST_LAYERS && c->width >= 1 && c->width <= 65536 && c->context >= 1 &&
            c->context <= 1000000 && c->vocabulary >= 1 && values >= needed) ||
           fail(s, TG_ERROR_VALUE, "%lld layers of width %lld and a context of %lld do not fit the other tensors",
                (long long)c->layers, (long long)c->width, (long long)c->context);
}

/* Returns the number of heads of the published models of a width, or 0. */
static int64_t published_heads(int64_t width)
{
    static const char *const published[] = {"gpt2-small", "gpt2-medium", "gpt2-large", "gpt2-xl"};
    for (size_t i = 0; i < sizeof published / sizeof *published; i++) {
        tg_gpt_config config;
        if (tg_gpt_config_from_name(published[i], &config, NULL) && config.width == width) {
            return config.heads;
        }
    }
    return 0;
}

/* ---- what config.json has ---- */

/* Compares the sizes of the tensors with those of config.json, and takes from it what tensors do not show. */
static bool follow_json(source *s, int64_t given_heads, tg_gpt_config *c)
{
    tg_gpt_json json;
    if (!tg_gpt_json_read(call, s->json_path, &json, &s->error)) {
        return false;
    }
    const struct {
        const char *name;
        int64_t said, found;
    } sizes[] = {{"vocab_size", json.vocabulary, c->vocabulary},
                 {"n_positions", json.context, c->context},
                 {"n_embd", json.width, c->width},
                 {"n_layer", json.layers, c->layers}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (sizes[i].said >= 0 && sizes[i].said != sizes[i].found) {
            return tg_error_set(&s->error, TG_ERROR_VALUE, "%s: '%s': %s is %lld; the tensors have %lld", call,
                                s->json_path, sizes[i].name, (long long)sizes[i].said, (long long)sizes[i].found);
        }
    }
    if (given_heads != TG_HEADS_OF_FILE && given_heads != json.heads) {
        return tg_error_set(&s->error, TG_ERROR_VALUE, "%s: '%s': n_head is %lld; heads %lld were given", call,
                            s->json_path, (long long)json.heads, (long long)given_heads);
    }
    if (!json.tied_head && c->tied_head) {
        return tg_error_set(&s->error, TG_ERROR_VALUE,
                            "%s: '%s': tie_word_embeddings is false; the tensors have no '%s'", call, s->json_path,
                            s->layout->head);
    }
    c->heads = json.heads;
    c->dropout = json.dropout[0];
    c->tied_head = json.tied_head;
    return true;
}

/* Sets the configuration of the model in the file. */
static bool find_config(source *s, int64_t heads, tg_gpt_config *c)
{
    tg_shape tokens, positions;
    *c = tg_gpt_config_default();
    if (!find_table(s, s->layout->tokens, &tokens) || !find_table(s, s->layout->positions, &positions)) {
        return false;
    }
    c->vocabulary = tokens.size[0];
    c->width = tokens.size[1];
    c->context = positions.size[0];
    while (c->layers <= MOST_LAYERS && has_in_block(s, c->layers, s->layout->norm)) {
        c->layers++;
    }
    c->qkv_bias = has_in_block(s, 0, s->layout->qkv_bias);
    c->tied_head = !find(s, "", s->layout->head);
    /* of every published GPT-2 */
    c->dropout = 0.1;
    c->heads = heads != TG_HEADS_OF_FILE ? heads : published_heads(c->width);
    if (!is_plausible(s, c) || (s->json_path && !follow_json(s, heads, c))) {
        return false;
    }
    if (c->heads == 0 && !s->json_path) {
        return fail(s, TG_ERROR_VALUE,
                    "no config.json has the number of heads, and no published GPT-2 has the width %lld; heads must be "
                    "given",
                    (long long)c->width);
    }
    return (c->heads >= 1 && c->width % c->heads == 0) ||
           fail(s, TG_ERROR_VALUE, "heads %lld; they must divide the width, %lld", (long long)c->heads,
                (long long)c->width);
}

/* ---- paths ---- */

/* Returns the first `length` bytes of a folder, and a name; yours (tg_free). */
static char *join(source *s, const char *folder, size_t length, const char *name)
{
    char *path = tg_path_join(folder, length, name);
    if (!path) {
        tg_error_set(&s->error, TG_ERROR_MEMORY, "%s: out of memory", call);
    }
    return path;
}

/* Sets the paths: `from` is a file or a folder. A config.json is read with the tensors beside it. */
static bool find_paths(source *s, const char *from)
{
    size_t length = strlen(from);
    bool is_folder = tg_system_status(from).kind == TG_PATH_FOLDER;
    size_t folder = length;
    while (!is_folder && folder > 0 && !tg_system_is_separator(from[folder - 1])) {
        folder--;
    }
    const char *json = is_folder ? "/config.json" : "config.json";
    s->json_path = s->names == TG_GPT_NAMES_TRANSFORMERS ? join(s, from, folder, json) : NULL;
    s->path = is_folder ? join(s, from, length, "/model.safetensors.index.json") : join(s, from, length, "");
    if (is_folder && s->path && tg_system_status(s->path).kind == TG_PATH_NONE) {
        tg_free(s->path);
        s->path = join(s, from, length, "/model.safetensors");
    }
    if (s->json_path && tg_system_status(s->json_path).kind == TG_PATH_NONE) {
        tg_free(s->json_path);
        s->json_path = NULL;
    }
    return s->error.code == TG_OK;
}

static bool open_source(source *s, const char *path)
{
    if (!find_paths(s, path) || !(s->list = tg_safetensors_list_new(s->path, &s->error))) {
        return false;
    }
    if (s->names == TG_GPT_NAMES_TRANSFORMERS && find(s, "transformer.", s->layout->tokens)) {
        s->prefix = "transformer.";
    }
    return true;
}

static void close_source(source *s)
{
    tg_safetensors_list_free(s->list);
    tg_free(s->path);
    tg_free(s->json_path);
}

/* ---- the weights ---- */

/* Reads all weights. Every tensor of the file must be one of them, or a mask. */
static bool load(source *s, tg_params *weights)
{
    tg_load_report report;
    tg_params_load_config config = tg_params_load_config_default();
    config.strict = false;
    config.convert_floats = true;
    config.report = &report;
    for (int64_t i = 0; i < s->list->count; i++) {
        const char *name = s->list->items[i].name;
        if (!tg_params_find(weights, name) && !tg_ends_with(name, s->layout->masks[0]) &&
            !tg_ends_with(name, s->layout->masks[1])) {
            return fail(s, TG_ERROR_VALUE, "'%s' is no tensor of a GPT-2 with these names", name);
        }
    }
    /* the first line of the report is a missing name */
    return tg_params_load(weights, s->path, &config, &s->error) &&
           (report.missing == 0 || fail(s, TG_ERROR_VALUE, "%.*s", (int)strcspn(report.text, "\n"), report.text));
}

/* Checks that a head that is tied, and nevertheless in the file, is the token table. */
static bool head_agrees(source *s, const tg_params *weights, const tg_gpt_config *c)
{
    char tokens[80];
    snprintf(tokens, sizeof tokens, "%s%s", s->prefix, s->layout->tokens);
    const tg_tensor *head = tg_params_find(weights, s->layout->head), *table = tg_params_find(weights, tokens);
    return !head || !c->tied_head || memcmp(tg_values(head), tg_values(table), tg_bytes_of(table)) == 0 ||
           tg_error_set(&s->error, TG_ERROR_VALUE,
                        "%s: '%s': tie_word_embeddings is true; the tensors '%s' and '%s' differ", call, s->json_path,
                        s->layout->head, tokens);
}

/* Reads the weights of a model with these parameters. */
static bool read_weights(source *s, tg_params *own, const tg_gpt_config *config)
{
    tg_gpt_config in_file = *config;
    in_file.tied_head = !find(s, "", s->layout->head);
    tg_params *weights = tg_gpt_weights_new(own, &in_file, s->names, s->prefix, &s->error);
    bool is_read = weights && load(s, weights) && head_agrees(s, weights, config) &&
                   tg_gpt_weights_copy(call, weights, own, &in_file, s->names, s->prefix, NULL, &s->error);
    tg_params_free(weights);
    return is_read;
}

/* ---- the call ---- */

/* Creates the model and reads its weights. The generator is as it was: no initial value is used. */
static tg_gpt *open_model(source *s, tg_params *params, const char *path, int64_t heads)
{
    tg_gpt_config config;
    tg_params_point point = tg_params_save_point(params);
    tg_gpt *model = open_source(s, path) && find_config(s, heads, &config) ? tg_gpt_new(params, &config) : NULL;
    if (model && !read_weights(s, params, &config)) {
        tg_gpt_free(model);
        tg_params_return_to(params, &point);
        model = NULL;
    }
    if (model && tg_params_rng(params)) {
        *tg_params_rng(params) = point.rng;
    }
    if (s->error.code != TG_OK) {
        tg_params_fail(params, s->error.code, "%s", s->error.text);
    }
    return model;
}

tg_gpt *tg_gpt_open(tg_params *params, const char *path, const tg_gpt_open_config *given)
{
    if (!tg_params_expect_config(params, call, given, mark)) {
        return NULL;
    }
    tg_gpt_open_config config = given ? *given : tg_gpt_open_config_default();
    if (!path) {
        tg_params_fail(params, TG_ERROR_STATE, "%s: the path is NULL", call);
        return NULL;
    }
    if ((unsigned)config.names > TG_GPT_NAMES_COURSE) {
        tg_params_fail(params, TG_ERROR_VALUE, "%s: names %d; they must be a tg_gpt_names", call, (int)config.names);
        return NULL;
    }
    if (config.heads != TG_HEADS_OF_FILE && config.heads < 1) {
        tg_params_fail(params, TG_ERROR_VALUE, "%s: heads %lld; they must be at least 1, or TG_HEADS_OF_FILE", call,
                       (long long)config.heads);
        return NULL;
    }
    source s = {.names = config.names, .layout = &layouts[config.names], .prefix = "", .error = TG_NO_ERROR};
    tg_gpt *model = open_model(&s, params, path, config.heads);
    close_source(&s);
    return model;
}
