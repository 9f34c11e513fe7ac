/* adapter: the LoRA of a model as a folder of peft. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/text.h"
#include "files/safetensors.h"
#include "models/family.h"
#include "models/lora.h"

typedef struct adapter {
    int64_t rank;
    double alpha;
} adapter;

/* Which layers have LoRA is what the tensors say. Settings that are null are not listed. */
static const tg_setting settings[] = {
    {"peft_type", TG_SETTING_FIXED, .allowed = "\"LORA\""},
    {"task_type", TG_SETTING_FIXED, .allowed = "\"CAUSAL_LM\" null"},
    {"r", TG_SETTING_SIZE, .at = offsetof(adapter, rank)},
    {"lora_alpha", TG_SETTING_NUMBER, .at = offsetof(adapter, alpha)},
    {"bias", TG_SETTING_FIXED, .allowed = "\"none\""},
    {"rank_pattern", TG_SETTING_FIXED, .allowed = "{} null"},
    {"alpha_pattern", TG_SETTING_FIXED, .allowed = "{} null"},
    {"use_rslora", TG_SETTING_FIXED, .allowed = "false"},
    {"use_dora", TG_SETTING_FIXED, .allowed = "false"},
    {"use_qalora", TG_SETTING_FIXED, .allowed = "false", .is_old = true},
    {"use_bdlora", TG_SETTING_FIXED, .allowed = "false null", .is_old = true},
    {"lora_bias", TG_SETTING_FIXED, .allowed = "false"},
    {"ensure_weight_tying", TG_SETTING_FIXED, .allowed = "false", .is_old = true},
    {"init_lora_weights", TG_SETTING_FIXED, .allowed = "true false \"gaussian\"", .is_old = true},
    {"loftq_config", TG_SETTING_FIXED, .allowed = "{} null", .is_old = true},
    {"base_model_name_or_path", .kind = TG_SETTING_HARMLESS},
    {"exclude_modules", .kind = TG_SETTING_HARMLESS},
    {"fan_in_fan_out", .kind = TG_SETTING_HARMLESS},
    {"inference_mode", .kind = TG_SETTING_HARMLESS},
    {"layers_pattern", .kind = TG_SETTING_HARMLESS},
    {"layers_to_transform", .kind = TG_SETTING_HARMLESS},
    {"lora_dropout", .kind = TG_SETTING_HARMLESS},
    {"megatron_core", .kind = TG_SETTING_HARMLESS},
    {"peft_version", .kind = TG_SETTING_HARMLESS},
    {"qalora_group_size", .kind = TG_SETTING_HARMLESS},
    {"revision", .kind = TG_SETTING_HARMLESS},
    {"runtime_config", .kind = TG_SETTING_HARMLESS},
    {"target_modules", .kind = TG_SETTING_HARMLESS},
    {.kind = TG_SETTING_END},
};

/* The two files of a folder. */
typedef struct paths {
    char *config, *weights;
} paths;

static bool find_paths(paths *p, const char *call, const char *folder, tg_error *error)
{
    p->config = tg_path_join(folder, strlen(folder), "/adapter_config.json");
    p->weights = tg_path_join(folder, strlen(folder), "/adapter_model.safetensors");
    return (p->config && p->weights) || tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory", call);
}

static void free_paths(paths *p)
{
    tg_free(p->config);
    tg_free(p->weights);
}

/* ---- reading ---- */

/* Adds LoRA, with values of the file, to each layer that has a matrix there. `where` begins errors of its config. */
static bool add_layers(tg_gpt *model, tg_weights *w, const char *where, const tg_lora_config *config, tg_error *error)
{
    const tg_params_source reader = {.read = tg_weights_read, .context = w};
    tg_params_point point = tg_params_save_point(model->params);
    tg_gpt_part part = {.next = 0};
    tg_nn_linear *layer;
    tg_weight_place place;
    char name[80];
    int64_t matching = 0;
    bool is_good = true;
    tg_params_set_source(model->params, &reader);
    while (is_good && tg_gpt_next_layer(model, &part, &layer)) {
        snprintf(name, sizeof name, "%s.lora_A.weight", part.name);
        if (tg_weight_find(w->family, w->prefix, name, &place) && tg_safetensors_find(w->file, "", place.name)) {
            is_good = tg_lora_add(model->params, where, layer, config);
            matching++;
        }
    }
    tg_params_set_source(model->params, NULL);
    is_good = is_good && tg_weights_end(w, model->params, false, error) &&
              (matching > 0 || tg_error_set(error, TG_ERROR_VALUE, "%s: '%s' has no tensors", w->call, w->path));
    if (!is_good) {
        tg_gpt_return_to(model, &point);
    }
    return is_good;
}

bool tg_gpt_open_adapter(tg_gpt *model, const char *folder)
{
    static const char call[] = "gpt_open_adapter";
    if (!model || !tg_params_is_usable(model->params)) {
        return false;
    }
    if (!folder) {
        return tg_params_fail(model->params, TG_ERROR_STATE, "%s: the folder is NULL", call);
    }
    tg_error *error = tg_params_run(model->params)->error;
    paths p;
    char where[200];
    tg_settings of_model;
    adapter read = {.rank = 8, .alpha = 8};
    tg_lora_config config = tg_lora_config_default();
    tg_weights w = {.call = call, .dtype = tg_gpt_dtype(model)};
    bool is_good = find_paths(&p, call, folder, error) && (w.family = tg_family_of(call, model, &of_model, error)) &&
                   tg_adapter_json_read(call, p.config, settings, &read, error);
    if (is_good && !(read.rank >= 1 && read.alpha > 0)) {
        is_good = tg_error_set(error, TG_ERROR_VALUE,
                               "%s: '%s': r is %lld and lora_alpha %g; r must be at least 1, and lora_alpha above 0",
                               call, p.config, (long long)read.rank, read.alpha);
    }
    if (is_good && (w.file = tg_safetensors_open(call, p.weights, TG_SAFETENSORS_HEADER, error))) {
        w.path = p.weights;
        w.prefix = w.family->prefix;
        w.used = tg_alloc_zeroed((uint64_t)tg_safetensors_count(w.file) + 1, sizeof *w.used);
        config.rank = read.rank;
        config.alpha = read.alpha;
        snprintf(where, sizeof where, "%s: '%.*s'", call, TG_CUT(p.config, 160));
        is_good = w.used ? add_layers(model, &w, where, &config, error)
                         : tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory", call);
    }
    is_good = is_good && w.file;
    tg_safetensors_close(w.file);
    tg_free(w.used);
    free_paths(&p);
    return is_good;
}

/* ---- writing ---- */

typedef struct output {
    const char *call;
    tg_gpt *model;
    const tg_family *family;
    tg_safetensors_writer *writer;
    tg_text_buffer modules; /* the names of the layers with LoRA */
    adapter adapter;
    bool is_transposed; /* whether the file of the model has a layer transposed */
    tg_error *error;
} output;

/* Adds the matrices of a layer. */
static bool add_layer(output *o, const tg_gpt_part *part, const tg_nn_linear *layer)
{
    const tg_tensor *matrices[] = {layer->lora_a, layer->lora_b};
    int64_t rank = layer->lora_a->shape[0];
    double alpha = layer->lora_scale * (double)rank;
    if (o->adapter.rank > 0 && (rank != o->adapter.rank || alpha != o->adapter.alpha)) {
        return tg_error_set(
            o->error, TG_ERROR_VALUE,
            "%s: '%s' has LoRA of rank %lld and alpha %g, and another layer of %lld and %g; all must have "
            "the same",
            o->call, part->name, (long long)rank, alpha, (long long)o->adapter.rank, o->adapter.alpha);
    }
    o->adapter = (adapter){rank, alpha};
    if (!tg_lora_check(o->call, layer, o->error)) {
        return false;
    }
    tg_weight_place place;
    char name[80];
    for (int i = 0; i < 2; i++) {
        snprintf(name, sizeof name, "%s.lora_%c.weight", part->name, "AB"[i]);
        if (!tg_weight_find(o->family, o->family->prefix, name, &place)) {
            return tg_error_set(o->error, TG_ERROR_VALUE,
                                "%s: '%s' has LoRA, but is a part of a tensor of a %s; peft has none of parts", o->call,
                                part->name, o->family->name);
        }
        if (!tg_safetensors_add(o->writer, "", place.name, matrices[i], (tg_shard){0, 0}, TG_SAVE_FLOATS_KEEP,
                                o->error)) {
            return false;
        }
    }
    const size_t before = sizeof TG_PEFT_PREFIX - 1, around = before + sizeof TG_PEFT_B - 1;
    tg_text_add(&o->modules, o->modules.length > 0 ? ", \"" : "\"");
    tg_text_add_bytes(&o->modules, place.name + before, strlen(place.name) - around);
    tg_text_add(&o->modules, "\"");
    snprintf(name, sizeof name, "%s.weight", part->name);
    tg_weight_find(o->family, "", name, &place);
    o->is_transposed = o->is_transposed || place.is_transposed;
    return true;
}

static bool write_config(const output *o, const char *path)
{
    tg_text_buffer text = {0};
    tg_text_add(&text, "{\n");
    for (const tg_setting *row = settings; row->kind != TG_SETTING_END; row++) {
        if (row->kind != TG_SETTING_HARMLESS && !row->is_old) {
            tg_config_json_add(&text, row, &o->adapter);
        }
    }
    tg_config_json_add_key(&text, "fan_in_fan_out");
    tg_text_add(&text, o->is_transposed ? "true" : "false");
    tg_config_json_add_key(&text, "inference_mode");
    tg_text_add(&text, "true");
    tg_config_json_add_key(&text, "target_modules");
    tg_text_add_format(&text, "[%s]\n}\n", o->modules.bytes);
    bool is_written = text.failed || o->modules.failed
                          ? tg_error_set(o->error, TG_ERROR_MEMORY, "%s: out of memory", o->call)
                          : tg_file_replace(o->call, path, text.bytes, text.length, o->error);
    tg_free(text.bytes);
    return is_written;
}

bool tg_gpt_save_adapter(const tg_gpt *model, const char *folder, tg_error *error)
{
    static const char call[] = "gpt_save_adapter";
    if (!model || !folder) {
        return tg_error_set(error, TG_ERROR_STATE, "%s: the %s is NULL", call, model ? "folder" : "model");
    }
    tg_settings of_model;
    output o = {.call = call, .model = (tg_gpt *)(uintptr_t)model, .error = error};
    if (!(o.family = tg_family_of(call, model, &of_model, error)) ||
        !(o.writer = tg_safetensors_writer_new(call, error))) {
        return false;
    }
    paths p;
    tg_gpt_part part = {.next = 0};
    tg_nn_linear *layer;
    bool is_good =
        find_paths(&p, call, folder, error) && tg_safetensors_add_metadata(o.writer, "", "format", "pt", error);
    while (is_good && tg_gpt_next_layer(o.model, &part, &layer)) {
        is_good = !layer->lora_a || add_layer(&o, &part, layer);
    }
    if (is_good && o.adapter.rank == 0) {
        is_good = tg_error_set(error, TG_ERROR_VALUE, "%s: the model has no LoRA", call);
    }
    is_good = is_good && tg_safetensors_write(o.writer, p.weights, error) && write_config(&o, p.config);
    tg_safetensors_writer_free(o.writer);
    tg_free(o.modules.bytes);
    free_paths(&p);
    return is_good;
}
