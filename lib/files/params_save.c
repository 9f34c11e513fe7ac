#include <tapegrad/extend.h>

#include "files/params_file.h"
#include "params/params.h"

TG_CONFIG(tg_params_save_config, tg_params_save_config_default, mark, .mark = mark, .floats = TG_SAVE_FLOATS_KEEP);

bool tg_params_add_to_file(const tg_params *params, tg_safetensors_writer *writer, const char *prefix,
                           tg_save_floats floats, tg_error *error)
{
    for (int64_t i = 0; i < tg_params_count(params); i++) {
        tg_entry entry = tg_params_at(params, i);
        bool is_added = entry.kind == TG_ENTRY_ALIAS
                            ? tg_safetensors_add_metadata(
                                  writer, prefix, entry.name,
                                  tg_params_at(params, tg_params_number_of(params, entry.tensor)).name, error)
                            : tg_safetensors_add(writer, prefix, entry.name, entry.tensor, tg_shard_of(entry.tensor),
                                                 floats, error);
        if (!is_added) {
            return false;
        }
    }
    return true;
}

static bool check_options(const char *call, const tg_params_save_config *c, tg_error *error)
{
    if ((unsigned)c->floats > TG_SAVE_FLOATS_BF16) {
        return tg_error_set(error, TG_ERROR_VALUE, "%s: floats is %d; it must be a tg_save_floats", call,
                            (int)c->floats);
    }
    if (!tg_config_check_list(call, "metadata", c->metadata, "metadata_count", c->metadata_count, error)) {
        return false;
    }
    for (int64_t i = 0; i < c->metadata_count; i++) {
        if (!c->metadata[i].key || !c->metadata[i].value) {
            return tg_error_set(error, TG_ERROR_STATE, "%s: the %s of metadata %lld is NULL", call,
                                c->metadata[i].key ? "value" : "key", (long long)i);
        }
    }
    return true;
}

/* Returns a writer with all that the file has, or NULL. */
static tg_safetensors_writer *prepare(const char *call, const tg_params *params, const tg_params_save_config *given,
                                      tg_error *error)
{
    tg_params_save_config defaults = tg_params_save_config_default();
    if (!tg_config_check(call, given, mark, error) || !check_options(call, given ? given : &defaults, error) ||
        !tg_params_check(call, params, error)) {
        return NULL;
    }
    const tg_params_save_config *c = given ? given : &defaults;
    tg_safetensors_writer *writer = tg_safetensors_writer_new(call, error);
    bool is_ready = writer;
    for (int64_t i = 0; is_ready && i < c->metadata_count; i++) {
        is_ready = tg_safetensors_add_metadata(writer, "", c->metadata[i].key, c->metadata[i].value, error);
    }
    if (!is_ready || !tg_safetensors_add_metadata(writer, "", "format", "pt", error) ||
        !tg_params_add_to_file(params, writer, c->prefix ? c->prefix : "", c->floats, error)) {
        tg_safetensors_writer_free(writer);
        return NULL;
    }
    return writer;
}

bool tg_params_save(const tg_params *params, const char *path, const tg_params_save_config *config, tg_error *error)
{
    static const char call[] = "params_save";
    if (!params || !path) {
        return tg_error_set(error, TG_ERROR_STATE, "%s: the %s NULL", call, params ? "path is" : "params are");
    }
    tg_safetensors_writer *writer = prepare(call, params, config, error);
    bool is_saved = writer && tg_safetensors_write(writer, path, error);
    tg_safetensors_writer_free(writer);
    return is_saved;
}

char *tg_params_save_bytes(const tg_params *params, int64_t *size, const tg_params_save_config *config, tg_error *error)
{
    static const char call[] = "params_save_bytes";
    if (!params || !size) {
        tg_error_set(error, TG_ERROR_STATE, "%s: the %s NULL", call, params ? "size is" : "params are");
        return NULL;
    }
    tg_safetensors_writer *writer = prepare(call, params, config, error);
    char *bytes = writer ? tg_safetensors_write_bytes(writer, size, error) : NULL;
    tg_safetensors_writer_free(writer);
    return bytes;
}
