/* config_read: reads config.json, the settings of a published model, by the tables of its family. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/text.h"
#include "models/family.h"

#define VALUE_TEXT 64

/* A table, and the struct that its rows are fields of. */
typedef struct scope {
    const tg_setting *table;
    void *fields;
} scope;

#define MOST_SCOPES 3

#define ROPE_AT(field) offsetof(tg_rope, field)

static const tg_setting of_rope[] = {
    {"rope_type", TG_SETTING_CHOICE, .at = ROPE_AT(type), .allowed = TG_ROPE_TYPES},
    {"type", TG_SETTING_CHOICE, .at = ROPE_AT(type), .allowed = TG_ROPE_TYPES},
    {"rope_theta", TG_SETTING_NUMBER, .at = ROPE_AT(theta)},
    {"factor", TG_SETTING_NUMBER, .at = ROPE_AT(factor)},
    {"low_freq_factor", TG_SETTING_NUMBER, .at = ROPE_AT(low)},
    {"high_freq_factor", TG_SETTING_NUMBER, .at = ROPE_AT(high)},
    {"original_max_position_embeddings", TG_SETTING_SIZE, .at = ROPE_AT(original)},
    {"partial_rotary_factor", TG_SETTING_FIXED, .allowed = "1.0 1"},
    {.kind = TG_SETTING_END},
};

static const tg_setting of_ropes[] = {
    {"full_attention", TG_SETTING_ROPE, .at = TG_SETTING_AT(rope)},
    {"sliding_attention", TG_SETTING_ROPE, .at = TG_SETTING_AT(sliding_rope)},
    {.kind = TG_SETTING_END},
};

/* ---- values ---- */

/* Sets a VALUE error about a setting. Returns false. */
static bool refuse(tg_json *j, const char *key, const char *value, const char *rule)
{
    j->failed = true;
    return tg_error_set(j->error, TG_ERROR_VALUE, "%s: '%s': %.*s is %s; it must be %s", j->call, j->path,
                        TG_CUT(key, 60), value, rule);
}

/* Takes a value, and writes its JSON, which is cut if it is long. */
static bool take_value(tg_json *j, char text[VALUE_TEXT])
{
    tg_json_next(j);
    size_t begin = j->at, length = j->length - begin < VALUE_TEXT ? j->length - begin : VALUE_TEXT - 1;
    memcpy(text, j->text + begin, length);
    if (!tg_json_skip(j)) {
        return false;
    }
    length = j->at - begin < length ? j->at - begin : length;
    text[tg_cut_bytes(text, length, VALUE_TEXT - 1)] = '\0';
    return true;
}

/* Takes a value that must be one of those in `allowed`, and returns its number; -1 after an error. */
static int64_t take_allowed(tg_json *j, const char *key, const char *allowed)
{
    char value[VALUE_TEXT], rule[200] = "";
    if (!take_value(j, value)) {
        return -1;
    }
    size_t used = 0;
    int64_t number = 0;
    for (const char *at = allowed; *at; number++) {
        size_t length = strcspn(at, " ");
        if (strlen(value) == length && memcmp(value, at, length) == 0) {
            return number;
        }
        bool is_last = !at[length];
        used += (size_t)snprintf(rule + used, sizeof rule - used, "%s%.*s",
                                 number == 0 ? ""
                                 : is_last   ? " or "
                                             : ", ",
                                 (int)length, at);
        at += length + !is_last;
    }
    refuse(j, key, value, rule);
    return -1;
}

static bool read_number(tg_json *j, const char *key, double *value)
{
    return tg_json_number(j, value) && (isfinite(*value) || refuse(j, key, "infinite", "a finite number"));
}

static bool read_tokens(tg_json *j, const char *key, tg_special_ids *list)
{
    double id;
    size_t members = 0;
    list->count = 0;
    bool is_list = tg_json_take(j, '[');
    if (!is_list && tg_json_word(j, "null")) {
        return true;
    }
    while (is_list ? tg_json_more(j, ']', &members) : list->count == 0) {
        if (!tg_json_number(j, &id)) {
            return false;
        }
        if (list->count == (int64_t)(sizeof list->ids / sizeof *list->ids)) {
            return refuse(j, key, "a list of 9 ids or more", "one of at most 8");
        }
        if (id < 0) { /* no token, in some files */
            return is_list ? refuse(j, key, "negative", "an id") : true;
        }
        if (!(id <= INT32_MAX) || id != floor(id)) {
            return refuse(j, key, "no id", "a whole number below 2^31");
        }
        list->ids[list->count++] = (int32_t)id;
    }
    return !j->failed;
}

static bool read_types(tg_json *j, const char *key, tg_settings *s)
{
    size_t members = 0;
    s->layer_types = 0;
    if (tg_json_word(j, "null")) {
        return true;
    }
    if (!tg_json_begin(j, '[')) {
        return false;
    }
    while (tg_json_more(j, ']', &members)) {
        int64_t type = take_allowed(j, key, "\"full_attention\" \"sliding_attention\"");
        if (type < 0) {
            return false;
        }
        if (s->layer_types == TG_MOST_LAYERS) {
            return refuse(j, key, "a longer list", "one of at most 1000 layers");
        }
        s->is_sliding[s->layer_types++] = type == 1;
    }
    return !j->failed && (s->layer_types > 0 || refuse(j, key, "an empty list", "one of all layers, or null"));
}

/* ---- objects ---- */

static bool read_object(tg_json *j, const char *owner, const scope *scopes);

static bool read_setting(tg_json *j, const char *owner, const tg_setting *setting, void *fields)
{
    void *field = (char *)fields + setting->at;
    switch (setting->kind) {
    case TG_SETTING_SIZE: return tg_json_word(j, "null") ? (*(int64_t *)field = 0, true) : tg_json_uint(j, field);
    case TG_SETTING_NUMBER: return read_number(j, setting->key, field);
    case TG_SETTING_SWITCH:
        *(bool *)field = tg_json_word(j, "true");
        return *(bool *)field || tg_json_word(j, "false") || tg_json_expected(j, "true or false");
    case TG_SETTING_CHOICE: *(int64_t *)field = take_allowed(j, setting->key, setting->allowed); return !j->failed;
    case TG_SETTING_FIXED: return take_allowed(j, setting->key, setting->allowed) >= 0;
    case TG_SETTING_TOKENS: return read_tokens(j, setting->key, field);
    case TG_SETTING_TYPES: return read_types(j, setting->key, fields);
    case TG_SETTING_ROPE:
        return tg_json_word(j, "null") || read_object(j, owner, (scope[MOST_SCOPES]){{of_rope, field}});
    case TG_SETTING_ROPES: {
        const scope scopes[MOST_SCOPES] = {{of_ropes, fields}, {of_rope, field}};
        return tg_json_word(j, "null") || read_object(j, owner, scopes);
    }
    default: return tg_json_skip(j);
    }
}

static const tg_setting *find_setting(const scope *scopes, const char *key, void **fields)
{
    for (int i = 0; i < MOST_SCOPES; i++) {
        for (const tg_setting *s = scopes[i].table; s && s->kind != TG_SETTING_END; s++) {
            if (strcmp(s->key, key) == 0) {
                *fields = scopes[i].fields;
                return s;
            }
        }
    }
    return NULL;
}

/* Reads an object whose members are rows of the tables. A row of an earlier table comes first. */
static bool read_object(tg_json *j, const char *owner, const scope *scopes)
{
    size_t members = 0;
    tg_json_text key;
    if (!tg_json_begin(j, '{')) {
        return false;
    }
    while (tg_json_key(j, &members, &key)) {
        void *fields = NULL;
        const tg_setting *setting = find_setting(scopes, key.text, &fields);
        char value[VALUE_TEXT];
        if (setting ? !read_setting(j, owner, setting, fields) : !take_value(j, value)) {
            return false;
        }
        if (!setting && strcmp(value, "null") != 0) {
            j->failed = true;
            return tg_error_set(j->error, TG_ERROR_VALUE,
                                "%s: '%s': %.*s is %s; this setting is not known for %s, and may change the numbers",
                                j->call, j->path, TG_CUT(key.text, 60), value, owner);
        }
    }
    return !j->failed;
}

/* ---- the family ---- */

#define NAME_TEXT 64

/* Sets the names of the type and of the first architecture of a config.json; "" for one that it does not have. */
static bool read_names(tg_json *j, char type[NAME_TEXT], char architecture[NAME_TEXT])
{
    size_t members = 0;
    tg_json_text key, text;
    *type = *architecture = '\0';
    if (!tg_json_check_utf8(j) || !tg_json_begin(j, '{')) {
        return false;
    }
    while (tg_json_key(j, &members, &key)) {
        bool is_type = strcmp(key.text, "model_type") == 0, is_list = strcmp(key.text, "architectures") == 0;
        size_t values = 0;
        if (is_list && tg_json_word(j, "null")) {
            continue;
        }
        if (is_list ? !tg_json_begin(j, '[') : !is_type && !tg_json_skip(j)) {
            return false;
        }
        while (is_list ? tg_json_more(j, ']', &values) : is_type && values++ == 0) {
            if (!tg_json_string(j, &text)) {
                return false;
            }
            snprintf(is_type ? type : architecture, NAME_TEXT, "%.*s", TG_CUT(text.text, NAME_TEXT - 1));
        }
    }
    return !j->failed && tg_json_end(j);
}

/* Returns the family of a config.json; one without names is a GPT-2. NULL after an error. */
static const tg_family *find_family(tg_json *j)
{
    char type[NAME_TEXT], architecture[NAME_TEXT], value[NAME_TEXT + 2], rule[200] = "";
    if (!read_names(j, type, architecture)) {
        return NULL;
    }
    const tg_family *family = *type || *architecture ? NULL : &tg_gpt2_family, *at;
    for (int i = 0; (at = tg_family_at(i)); i++) {
        bool has_class = strcmp(architecture, at->architecture) == 0 || strcmp(architecture, at->base) == 0;
        if (*type ? strcmp(type, at->name) == 0 : has_class) {
            family = at;
            if (*architecture && !has_class) {
                snprintf(value, sizeof value, "\"%s\"", architecture);
                snprintf(rule, sizeof rule, "\"%s\" or \"%s\"", at->architecture, at->base);
                refuse(j, "architectures", value, rule);
                return NULL;
            }
        }
        snprintf(rule + strlen(rule), sizeof rule - strlen(rule), "%s\"%s\"", i == 0 ? "" : ", ", at->name);
    }
    if (!family) {
        snprintf(value, sizeof value, "\"%s\"", *type ? type : architecture);
        refuse(j, *type ? "model_type" : "architectures", value, rule);
    }
    return family;
}

const tg_family *tg_config_json_read(const char *call, const char *path, tg_settings *settings, tg_error *error)
{
    tg_json j = {.call = call, .path = path, .error = error}, first;
    j.text = tg_file_read_text(call, path, &j.length, error);
    first = j;
    /* strings are decoded in place, so the first reading is one of a copy */
    first.text = j.text ? tg_alloc(j.length + 1, 1) : NULL;
    const tg_family *family = NULL;
    if (first.text) {
        memcpy(first.text, j.text, j.length + 1);
        family = find_family(&first);
    } else if (j.text) {
        tg_error_set(error, TG_ERROR_MEMORY, "%s: '%s': out of memory", call, path);
    }
    if (family) {
        *settings = *family->standard;
        const scope scopes[MOST_SCOPES] = {
            {family->more_settings, settings}, {family->settings, settings}, {tg_harmless_settings, settings}};
        family = read_object(&j, family->name, scopes) ? family : NULL;
    }
    tg_free(first.text);
    tg_free(j.text);
    return family;
}

bool tg_adapter_json_read(const char *call, const char *path, const tg_setting *table, void *fields, tg_error *error)
{
    tg_json j = {.call = call, .path = path, .error = error};
    j.text = tg_file_read_text(call, path, &j.length, error);
    const scope scopes[MOST_SCOPES] = {{table, fields}};
    bool is_read = j.text && tg_json_check_utf8(&j) && read_object(&j, "LoRA", scopes) && tg_json_end(&j);
    tg_free(j.text);
    return is_read;
}
