/* gpt_open: creates the model that a file or a folder of another program holds. The settings are those of config.json.
 * A GPT-2 without one has the sizes of its tensors, which do not show the number of heads. Each parameter is read while
 * it is made, so no initial values are drawn, and a file allocates no more than it has. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/text.h"
#include "files/safetensors.h"
#include "models/family.h"
#include "params/params.h"
#include "system/system.h"

TG_CONFIG(tg_gpt_open_config, tg_gpt_open_config_default, mark, .mark = mark, .names = TG_GPT_NAMES_TRANSFORMERS,
          .heads = TG_HEADS_OF_FILE);

typedef struct source {
    const char *call;
    /* of the tensors, and of config.json or NULL */
    char *path, *json_path;
    tg_weights weights;
    tg_settings settings;
    tg_error error;
} source;

/* ---- paths ---- */

/* Returns the first `length` bytes of a folder, and a name; yours (tg_free). */
static char *join(source *s, const char *folder, size_t length, const char *name)
{
    char *path = tg_path_join(folder, length, name);
    if (!path) {
        tg_error_set(&s->error, TG_ERROR_MEMORY, "%s: out of memory", s->call);
    }
    return path;
}

/* Sets the paths: `from` is a file or a folder. A config.json is read with the tensors beside it. */
static bool find_paths(source *s, const char *from, bool has_json)
{
    size_t length = strlen(from);
    bool is_folder = tg_system_status(from).kind == TG_PATH_FOLDER;
    size_t folder = length;
    while (!is_folder && folder > 0 && !tg_system_is_separator(from[folder - 1])) {
        folder--;
    }
    s->json_path = has_json ? join(s, from, folder, is_folder ? "/config.json" : "config.json") : NULL;
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

/* ---- settings ---- */

/* Returns the tensor of the file that is a parameter, with a name that begins with `prefix`; NULL if there is none. */
static const tg_array *find(const source *s, const char *prefix, const char *own)
{
    tg_weight_place place;
    return tg_weight_find(s->weights.family, prefix, own, &place) ? tg_safetensors_find(s->weights.file, "", place.name)
                                                                  : NULL;
}

/* Returns whether block number `block` has a norm. */
static bool has_block(const source *s, int64_t block)
{
    char name[64];
    snprintf(name, sizeof name, "trf_blocks.%lld.norm1.scale", (long long)block);
    return find(s, s->weights.prefix, name);
}

/* Finds a table (rows,columns) of a model without a config.json. */
static bool find_table(source *s, const char *own, tg_shape *shape)
{
    const tg_array *array = find(s, s->weights.prefix, own);
    tg_weight_place place;
    if (!array) {
        tg_weight_find(s->weights.family, s->weights.prefix, own, &place);
        return tg_error_set(
            &s->error, TG_ERROR_VALUE,
            "%s: '%s' has no tensor '%s' of a GPT-2 under the names of %s, and no config.json is beside "
            "it",
            s->call, s->path, place.name, s->weights.family->names ? "transformers" : "the course");
    }
    *shape = array->shape;
    return shape->rank == 2 ||
           tg_error_set(&s->error, TG_ERROR_SHAPE, "%s: '%s': '%s' is %s; it must be a table of rank 2", s->call,
                        s->path, array->name, tg_shape_text(*shape).text);
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

/* Sets the settings of a GPT-2 from its tensors. */
static bool read_tensors(source *s, int64_t heads)
{
    tg_settings *c = &s->settings;
    tg_shape tokens, positions;
    *c = *s->weights.family->standard;
    if (!find_table(s, "tok_emb.weight", &tokens) || !find_table(s, "pos_emb.weight", &positions)) {
        return false;
    }
    c->vocabulary = tokens.size[0];
    c->width = tokens.size[1];
    c->context = positions.size[0];
    c->layers = 0;
    while (c->layers <= TG_MOST_LAYERS && has_block(s, c->layers)) {
        c->layers++;
    }
    c->attention_bias = find(s, s->weights.prefix, "trf_blocks.0.att.W_query.bias");
    c->tied_head = !find(s, s->weights.prefix, "out_head.weight");
    c->heads = heads != TG_HEADS_OF_FILE ? heads : published_heads(c->width);
    return c->heads > 0 ||
           tg_error_set(&s->error, TG_ERROR_VALUE,
                        "%s: '%s': no config.json has the number of heads, and no published GPT-2 has the width %lld; "
                        "heads must be given",
                        s->call, s->path, (long long)c->width);
}

/* Sets the settings, with those of config.json or of the tensors, and the config of the model. */
static bool find_config(source *s, int64_t heads, tg_gpt_config *c)
{
    char problem[TG_GPT_PROBLEM];
    const char *path = s->json_path ? s->json_path : s->path;
    if (!s->json_path && !read_tensors(s, heads)) {
        return false;
    }
    if ((s->json_path && !tg_settings_check(s->weights.family, &s->settings, problem)) ||
        !tg_settings_to_config(s->weights.family, &s->settings, c, problem)) {
        return tg_error_set(&s->error, TG_ERROR_VALUE, "%s: '%s': %s", s->call, path, problem);
    }
    c->out_bias = c->out_bias || !s->json_path;
    if (heads != TG_HEADS_OF_FILE && heads != c->heads) {
        return tg_error_set(&s->error, TG_ERROR_VALUE, "%s: '%s' has %lld heads; heads %lld were given", s->call, path,
                            (long long)c->heads, (long long)heads);
    }
    /* nothing is allocated for more layers than the file has */
    return has_block(s, c->layers - 1) ||
           tg_error_set(&s->error, TG_ERROR_VALUE, "%s: '%s' has %lld layers, but '%s' not", s->call, path,
                        (long long)c->layers, s->path);
}

/* ---- the call ---- */

/* Opens the files and finds the config of the model, after the checks of the arguments. */
static bool open_source(source *s, const char *path, const tg_gpt_open_config *config, tg_gpt_config *c)
{
    tg_weights *w = &s->weights;
    if (!path) {
        return tg_error_set(&s->error, TG_ERROR_STATE, "%s: the path is NULL", s->call);
    }
    if ((unsigned)config->names > TG_GPT_NAMES_COURSE) {
        return tg_error_set(&s->error, TG_ERROR_VALUE, "%s: names %d; they must be a tg_gpt_names", s->call,
                            (int)config->names);
    }
    if (config->heads != TG_HEADS_OF_FILE && config->heads < 1) {
        return tg_error_set(&s->error, TG_ERROR_VALUE, "%s: heads %lld; they must be at least 1, or TG_HEADS_OF_FILE",
                            s->call, (long long)config->heads);
    }
    bool is_course = config->names == TG_GPT_NAMES_COURSE;
    if (!find_paths(s, path, !is_course) ||
        !(w->file = tg_safetensors_open(s->call, s->path, TG_SAFETENSORS_HEADER, &s->error))) {
        return false;
    }
    w->call = s->call;
    w->path = s->path;
    w->family = is_course      ? &tg_course_family
                : s->json_path ? tg_config_json_read(s->call, s->json_path, &s->settings, &s->error)
                               : &tg_gpt2_family;
    w->used = tg_alloc_zeroed((uint64_t)tg_safetensors_count(w->file) + 1, sizeof *w->used);
    if (!w->family || !w->used) {
        return w->family && tg_error_set(&s->error, TG_ERROR_MEMORY, "%s: out of memory", s->call);
    }
    w->prefix = find(s, w->family->prefix, "tok_emb.weight") ? w->family->prefix : "";
    w->keep_bf16 = config->keep_bf16;
    bool is_found = find_config(s, config->heads, c);
    c->activation_checkpointing = config->activation_checkpointing;
    return is_found;
}

static void close_source(source *s)
{
    tg_safetensors_close(s->weights.file);
    tg_free(s->weights.used);
    tg_free(s->path);
    tg_free(s->json_path);
}

/* Makes the model while its parameters are read. */
static tg_gpt *open_model(source *s, tg_params *params, const char *path, const tg_gpt_open_config *given)
{
    tg_gpt_config config;
    s->weights.dtype = tg_params_dtype(params);
    if (!open_source(s, path, given, &config)) {
        tg_params_fail(params, s->error.code, "%s", s->error.text);
        return NULL;
    }
    const tg_params_source reader = {.read = tg_weights_read, .context = &s->weights};
    tg_params_point point = tg_params_save_point(params);
    tg_params_set_source(params, &reader);
    tg_gpt *model = tg_gpt_new(params, &config);
    tg_params_set_source(params, NULL);
    if (model && !tg_weights_end(&s->weights, params, config.tied_head, tg_params_run(params)->error)) {
        tg_gpt_free(model);
        tg_params_return_to(params, &point);
        return NULL;
    }
    if (model) {
        model->family = s->json_path ? s->weights.family->name : NULL;
        model->begin_tokens = s->settings.begin_tokens;
        model->end_tokens = s->settings.end_tokens;
        model->padding_tokens = s->settings.padding_tokens;
    }
    return model;
}

const int32_t *tg_gpt_end_tokens(const tg_gpt *model, int64_t *count)
{
    if (count) {
        *count = model ? model->end_tokens.count : 0;
    }
    return model && count ? model->end_tokens.ids : NULL;
}

tg_gpt *tg_gpt_open(tg_params *params, const char *path, const tg_gpt_open_config *given)
{
    source s = {.call = "gpt_open", .error = TG_NO_ERROR};
    if (!tg_params_expect_config(params, s.call, given, mark)) {
        return NULL;
    }
    tg_gpt_open_config config = given ? *given : tg_gpt_open_config_default();
    tg_gpt *model = open_model(&s, params, path, &config);
    close_source(&s);
    return model;
}

bool tg_gpt_read_summary(const char *path, tg_gpt_summary *summary, const tg_gpt_open_config *given, tg_error *error)
{
    source s = {.call = "gpt_read_summary", .weights = {.dtype = TG_F32}, .error = TG_NO_ERROR};
    if (!tg_config_check(s.call, given, mark, error)) {
        return false;
    }
    if (!summary) {
        return tg_error_set(error, TG_ERROR_STATE, "%s: the summary is NULL", s.call);
    }
    tg_gpt_open_config config = given ? *given : tg_gpt_open_config_default();
    tg_gpt_summary found;
    bool is_read = open_source(&s, path, &config, &found.config) &&
                   tg_weights_measure(&s.weights, &found.config, &found.values, &found.bytes, &s.error);
    if (is_read) {
        found.family = s.json_path ? s.weights.family->name : tg_gpt2_family.name;
        *summary = found;
    } else {
        tg_error_set(error, s.error.code, "%s", s.error.text);
    }
    close_source(&s);
    return is_read;
}
