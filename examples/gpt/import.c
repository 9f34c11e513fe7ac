/* import: reads the weights of a GPT-2 that another program has written, and writes them as a checkpoint. The sizes of
 * the model are found from the shapes of its tensors; only the number of heads is not among them. */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../common/program.h"
#include "commands.h"
#include "hugging_face.h"

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

static const layout hugging_face = {
    .tokens = "wte.weight",
    .positions = "wpe.weight",
    .blocks = "h",
    .norm = "ln_1.weight",
    .qkv_bias = "attn.c_attn.bias",
    .head = "lm_head.weight",
    .masks = {".attn.bias", ".attn.masked_bias"},
};

static const layout course = {
    .tokens = "tok_emb.weight",
    .positions = "pos_emb.weight",
    .blocks = "trf_blocks",
    .norm = "norm1.scale",
    .qkv_bias = "att.W_query.bias",
    .head = "out_head.weight",
    .masks = {".att.mask", ".att.mask"},
};

/* as for gpt train */
#define MAX_LAYERS 1000

typedef struct source {
    char path[PATH_BYTES];
    tg_safetensors_list *list;
    bool is_course;
    const layout *layout;
    /* of all names except the head's */
    const char *prefix;
} source;

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

/* Finds a table (rows,columns). Returns false after printing an error. */
static bool find_table(const source *s, const char *name, tg_shape *shape)
{
    const tg_safetensors_item *item = find(s, s->prefix, name);
    if (!item) {
        return complain("'%s': has no tensor '%s'; --layout %s reads other names", s->path, name,
                        s->is_course ? "hugging-face" : "course");
    }
    char text[TG_SHAPE_TEXT];
    *shape = item->shape;
    return shape->rank == 2 || complain("'%s': '%s' is %s; it must be a table of rank 2", s->path, item->name,
                                        tg_shape_format(*shape, text));
}

/* Returns false after printing an error if the weights of such a model are larger than the file, so that no file can
 * allocate much more than its size, or if gpt train could not create the model. */
static bool is_plausible(const source *s, const tg_gpt_config *c)
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
    return (c->layers >= 1 && c->layers <= MAX_LAYERS && c->width >= 1 && c->width <= 65536 && c->context <= 1000000 &&
            values >= needed) ||
           complain("'%s': %lld layers of width %lld and a context of %lld do not fit the other tensors", s->path,
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

/* Sets the configuration of the model in the file. Returns false after printing an error. */
static bool find_config(const source *s, int64_t heads, tg_gpt_config *c)
{
    tg_shape tokens, positions;
    *c = tg_gpt_config_default();
    if (!find_table(s, s->layout->tokens, &tokens) || !find_table(s, s->layout->positions, &positions)) {
        return false;
    }
    c->vocabulary = tokens.size[0];
    c->width = tokens.size[1];
    c->context = positions.size[0];
    while (c->layers <= MAX_LAYERS && has_in_block(s, c->layers, s->layout->norm)) {
        c->layers++;
    }
    c->qkv_bias = has_in_block(s, 0, s->layout->qkv_bias);
    c->tied_head = !find(s, "", s->layout->head);
    /* of every published GPT-2 */
    c->dropout = 0.1;
    if (!is_plausible(s, c)) {
        return false;
    }
    c->heads = heads != AS_CONFIGURED ? heads : published_heads(c->width);
    if (c->heads == 0) {
        return complain("--heads N: is required; no published GPT-2 has the width %lld", (long long)c->width);
    }
    return c->width % c->heads == 0 ||
           complain("--heads %lld: must be a divisor of the width, %lld", (long long)c->heads, (long long)c->width);
}

/* Sets the path: `from` is a file or a folder. */
static void find_path(source *s, const char *from)
{
    struct stat status;
    snprintf(s->path, sizeof s->path, "%s", from);
    if (stat(from, &status) == 0 && S_ISDIR(status.st_mode)) {
        snprintf(s->path, sizeof s->path, "%s", folder_file(from, "model.safetensors.index.json"));
        if (access(s->path, F_OK) != 0) {
            snprintf(s->path, sizeof s->path, "%s", folder_file(from, "model.safetensors"));
        }
    }
}

static bool source_open(source *s, const options *o)
{
    tg_error error = TG_NO_ERROR;
    *s = (source){.is_course = strcmp(o->layout, "course") == 0, .prefix = ""};
    s->layout = s->is_course ? &course : &hugging_face;
    find_path(s, o->from);
    s->list = tg_safetensors_list_new(s->path, &error);
    if (!s->list) {
        return complain("%s", error.text);
    }
    if (!s->is_course && find(s, "transformer.", s->layout->tokens)) {
        s->prefix = "transformer.";
    }
    return true;
}

/* ---- the weights ---- */

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

/* Reads all params. Every tensor of the file must be one of them, or a mask. */
static bool load(const source *s, tg_params *params)
{
    tg_error error = TG_NO_ERROR;
    tg_load_report report;
    tg_params_load_config config = tg_params_load_config_default();
    config.strict = false;
    config.report = &report;
    for (int64_t i = 0; i < s->list->count; i++) {
        const char *name = s->list->items[i].name;
        if (!tg_params_find(params, name) && !ends_with(name, s->layout->masks[0]) &&
            !ends_with(name, s->layout->masks[1])) {
            return complain("'%s': '%s' is no tensor of a GPT-2 with this layout", s->path, name);
        }
    }
    if (!tg_params_load(params, s->path, &config, &error)) {
        return complain("%s", error.text);
    }
    /* the first line of the report is a missing name */
    return report.missing == 0 || complain("'%s': %.*s", s->path, (int)strcspn(report.text, "\n"), report.text);
}

static bool read_weights(const source *s, model *m)
{
    if (s->is_course) {
        return load(s, m->params);
    }
    tg_params *other = hugging_face_params_new(m, s->prefix);
    bool is_read = other && load(s, other) && hugging_face_copy(other, s->prefix, m, TO_MODEL);
    tg_params_free(other);
    return is_read;
}

/* ---- the command ---- */

static bool save(const model *m, const tg_tokenizer *bpe, const char *folder)
{
    tg_error error = TG_NO_ERROR;
    char config[CONFIG_TEXT];
    size_t length = 0;
    char *vocabulary = bpe ? tg_tokenizer_text(bpe, &length, &error) : NULL;
    const tg_checkpoint_part parts[] = {
        {.name = MODEL_PART, .params = m->params},
        {.name = CONFIG_PART, .text = config_text(tg_gpt_get_config(m->gpt), config)},
        {.name = VOCABULARY_PART, .bytes = vocabulary, .size = (int64_t)length},
    };
    bool is_ready = (vocabulary || !bpe) && folder_make(folder);
    tg_checkpoint_folder *checkpoints = is_ready ? tg_checkpoint_folder_open(folder, NULL, &error) : NULL;
    bool is_saved = checkpoints && tg_checkpoint_folder_save(checkpoints, 0, false, parts, bpe ? 3 : 2, &error);
    tg_checkpoint_folder_free(checkpoints);
    tg_text_free(vocabulary);
    return is_saved || error.code == TG_OK ? is_saved : complain("%s", error.text);
}

static bool import_model(const options *o, const source *s, model *m, tg_tokenizer **bpe)
{
    tg_error error = TG_NO_ERROR;
    tg_gpt_config config;
    if (!find_config(s, o->heads, &config)) {
        return false;
    }
    *bpe = o->vocab ? tg_tokenizer_open(o->vocab, NULL, &error) : NULL;
    if (o->vocab && !*bpe) {
        return complain("%s", error.text);
    }
    if (!vocabulary_fits(*bpe, config.vocabulary) || !model_make(m, &config, 0) || !read_weights(s, m) ||
        !save(m, *bpe, o->out)) {
        return false;
    }
    printf("%lld layers, %lld heads, width %lld, context %lld, vocabulary %lld, head %s: %lld parameters\n"
           "Written to %s\n",
           (long long)config.layers, (long long)config.heads, (long long)config.width, (long long)config.context,
           (long long)config.vocabulary, config.tied_head ? "tied" : "untied",
           (long long)tg_params_value_count(m->params), o->out);
    return true;
}

int import(const options *o)
{
    source s;
    model m = {0};
    tg_tokenizer *bpe = NULL;
    if (!o->from || !o->out) {
        complain("import: the options must have --from FILE and --out DIR");
        return 2;
    }
    char *trained = tg_checkpoint_find(o->out, TG_CHECKPOINT_LAST, NULL);
    tg_text_free(trained);
    if (trained) {
        complain("--out %s: has a trained model", o->out);
        return 2;
    }
    bool is_imported = source_open(&s, o) && import_model(o, &s, &m, &bpe);
    tg_tokenizer_free(bpe);
    model_free(&m);
    tg_safetensors_list_free(s.list);
    return is_imported ? 0 : 2;
}
