/* config_write: writes config.json, with the keys of transformers 5. */
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "models/family.h"

void tg_config_json_add_key(tg_text_buffer *text, const char *key)
{
    tg_text_add_format(text, "%s  \"%s\": ", text->length > 2 ? ",\n" : "", key);
}

static void add_number(tg_text_buffer *text, double value)
{
    char number[TG_NUMBER_TEXT];
    double again = 0;
    for (int digits = 6; digits <= 17 && (digits == 6 || again != value); digits++) {
        tg_format_number(value, digits, number);
        tg_parse_number(number, &again);
    }
    tg_text_add(text, number);
    /* a float stays one */
    tg_text_add(text, strpbrk(number, ".e") ? "" : ".0");
}

/* Adds value number `index` of a list with spaces. */
static void add_allowed(tg_text_buffer *text, const char *allowed, int64_t index)
{
    for (; index > 0; index--) {
        allowed = strchr(allowed, ' ') + 1;
    }
    tg_text_add_bytes(text, allowed, strcspn(allowed, " "));
}

static void add_rope(tg_text_buffer *text, const tg_rope *rope)
{
    const struct {
        const char *key;
        double value;
        int64_t first; /* the first type that has it */
    } numbers[] = {{"rope_theta", rope->theta, TG_ROPE_DEFAULT},
                   {"factor", rope->factor, TG_ROPE_LINEAR},
                   {"low_freq_factor", rope->low, TG_ROPE_LLAMA3},
                   {"high_freq_factor", rope->high, TG_ROPE_LLAMA3}};
    tg_text_add(text, "{\"rope_type\": ");
    add_allowed(text, TG_ROPE_TYPES, rope->type);
    for (int i = 0; i < 4 && rope->type >= numbers[i].first; i++) {
        tg_text_add_format(text, ", \"%s\": ", numbers[i].key);
        add_number(text, numbers[i].value);
    }
    if (rope->original > 0) {
        tg_text_add_format(text, ", \"original_max_position_embeddings\": %lld", (long long)rope->original);
    }
    tg_text_add(text, "}");
}

static void add_tokens(tg_text_buffer *text, const tg_special_ids *list)
{
    if (list->count == 0) {
        tg_text_add(text, "null");
    }
    for (int64_t i = 0; i < list->count; i++) {
        tg_text_add_format(text, "%s%d", i > 0 ? ", " : list->count > 1 ? "[" : "", (int)list->ids[i]);
    }
    tg_text_add(text, list->count > 1 ? "]" : "");
}

static void add_types(tg_text_buffer *text, const tg_settings *s)
{
    for (int64_t i = 0; i < s->layer_types; i++) {
        tg_text_add_format(text, "%s\"%s_attention\"", i > 0 ? ", " : "[", s->is_sliding[i] ? "sliding" : "full");
    }
    tg_text_add(text, s->layer_types > 0 ? "]" : "null");
}

void tg_config_json_add(tg_text_buffer *text, const tg_setting *setting, const void *fields)
{
    const tg_settings *s = fields; /* of a kind that only models have */
    const void *field = (const char *)fields + setting->at;
    int64_t size = setting->kind == TG_SETTING_SIZE || setting->kind == TG_SETTING_CHOICE ? *(const int64_t *)field : 0;
    tg_config_json_add_key(text, setting->key);
    switch (setting->kind) {
    case TG_SETTING_SIZE:
        size > 0 ? tg_text_add_format(text, "%lld", (long long)size) : tg_text_add(text, "null");
        return;
    case TG_SETTING_NUMBER: add_number(text, *(const double *)field); return;
    case TG_SETTING_SWITCH: tg_text_add(text, *(const bool *)field ? "true" : "false"); return;
    case TG_SETTING_CHOICE:
    case TG_SETTING_FIXED: add_allowed(text, setting->allowed, size); return;
    case TG_SETTING_TOKENS: add_tokens(text, field); return;
    case TG_SETTING_TYPES: add_types(text, s); return;
    case TG_SETTING_ROPE: add_rope(text, field); return;
    default: /* TG_SETTING_ROPES */
        tg_text_add(text, "{\"full_attention\": ");
        add_rope(text, &s->rope);
        tg_text_add(text, ", \"sliding_attention\": ");
        add_rope(text, &s->sliding_rope);
        tg_text_add(text, "}");
    }
}

bool tg_config_json_write(const char *call, const char *path, const tg_family *family, const tg_settings *s,
                          const char *dtype, tg_error *error)
{
    tg_text_buffer text = {0};
    tg_text_add(&text, "{\n");
    tg_config_json_add_key(&text, "architectures");
    tg_text_add_format(&text, "[\"%s\"]", family->architecture);
    tg_config_json_add_key(&text, "model_type");
    tg_text_add_format(&text, "\"%s\"", family->name);
    tg_config_json_add_key(&text, "dtype");
    tg_text_add_format(&text, "\"%s\"", dtype);
    const tg_setting *tables[] = {family->settings, family->more_settings, tg_harmless_settings};
    for (int i = 0; i < 3; i++) {
        for (const tg_setting *row = tables[i]; row && row->kind != TG_SETTING_END; row++) {
            if (row->kind != TG_SETTING_HARMLESS && !row->is_old &&
                !tg_setting_is_replaced(family, tables[i], row->key)) {
                tg_config_json_add(&text, row, s);
            }
        }
    }
    tg_text_add(&text, "\n}\n");
    bool is_written = text.failed ? tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory", call)
                                  : tg_file_replace(call, path, text.bytes, text.length, error);
    tg_free(text.bytes);
    return is_written;
}
