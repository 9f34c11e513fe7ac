/* vocabulary: opens a file of any format, and what the readers of the formats share. */
#include "text/vocabulary.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <tapegrad/extend.h>

#include "system/system.h"

/* ---- errors ---- */

bool tg_vocabulary_fail(const tg_vocabulary *v, size_t line, const char *format, ...)
{
    char text[TG_ERROR_TEXT];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return tg_error_set_at(v->error, (int64_t)line, -1, "%s: '%s', line %zu: %s", v->call, v->path, line, text);
}

bool tg_vocabulary_out_of_memory(const tg_vocabulary *v)
{
    return tg_error_set(v->error, TG_ERROR_MEMORY, "%s: '%s': out of memory", v->call, v->path);
}

/* ---- bytes as characters ---- */

int tg_byte_of_character(unsigned character)
{
    unsigned hidden = character - 256;
    unsigned byte = character < 256 ? character : hidden <= 32 ? hidden : hidden < 67 ? 127 + hidden - 33 : 173;
    return byte < TG_BYTES && tg_character_of_byte(byte) == character ? (int)byte : -1;
}

size_t tg_vocabulary_decode(const char *text, size_t length, char *out)
{
    size_t count = 0;
    for (size_t i = 0; i < length; i++) {
        unsigned character = (unsigned char)text[i];
        if (character >= 0xc2 && character < 0xe0 && i + 1 < length && ((unsigned char)text[i + 1] & 0xc0) == 0x80) {
            character = (character & 0x1f) << 6 | ((unsigned char)text[++i] & 0x3f);
        } else if (character >= 0x80) {
            return SIZE_MAX;
        }
        int byte = tg_byte_of_character(character);
        if (byte < 0) {
            return SIZE_MAX;
        }
        out[count++] = (char)byte;
    }
    return count;
}

/* ---- tokens by their bytes ---- */

int tg_vocabulary_find_bytes(tg_vocabulary *v)
{
    for (int byte = 0; byte < TG_BYTES; byte++) {
        char one = (char)byte;
        v->z->id_of_byte[byte] = tg_names_find(&v->z->tokens, &one, 1);
        if (v->z->id_of_byte[byte] < 0) {
            return byte;
        }
    }
    return -1;
}

bool tg_vocabulary_merge(tg_vocabulary *v, const char *left, size_t left_length, const char *right, size_t right_length,
                         bool has_ids, tg_error *problem)
{
    int32_t ids[2];
    size_t used = 0;
    for (int i = 0; i < 2; i++) {
        const char *text = i ? right : left;
        size_t length = i ? right_length : left_length, count = length;
        if (v->z->model.kind == TG_MODEL_BYTES) {
            count = tg_vocabulary_decode(text, length, v->copy + used);
        } else {
            memcpy(v->copy + used, text, length);
        }
        ids[i] = count == 0 || count == SIZE_MAX ? -1 : tg_names_find(&v->z->tokens, v->copy + used, count);
        if (ids[i] < 0) {
            return tg_error_set(problem, TG_ERROR_FORMAT, "the token \"%.*s\" is %s", tg_cut_bytes(text, length, 60),
                                text, has_ids ? "not in the vocabulary" : "neither a byte nor an earlier merge");
        }
        used += count;
    }
    if (tg_tokenizer_rank(v->z, ids[0], ids[1]) >= 0) {
        return tg_error_set(problem, TG_ERROR_FORMAT, "the merge of \"%.*s\" and \"%.*s\" was given before",
                            tg_cut_bytes(left, left_length, 60), left, tg_cut_bytes(right, right_length, 60), right);
    }
    int32_t result = has_ids ? tg_names_find(&v->z->tokens, v->copy, used) : 0;
    if (result < 0) {
        return tg_error_set(problem, TG_ERROR_FORMAT,
                            "the merge of \"%.*s\" and \"%.*s\" gives a token that is not in the vocabulary",
                            tg_cut_bytes(left, left_length, 60), left, tg_cut_bytes(right, right_length, 60), right);
    }
    bool is_added = has_ids ? tg_tokenizer_add_merge(v->z, ids[0], ids[1], result)
                            : tg_tokenizer_add_merged_token(v->z, ids[0], ids[1]);
    if (!is_added) {
        return tg_error_set(problem, TG_ERROR_MEMORY, "out of memory");
    }
    return true;
}

/* ---- opening ---- */

TG_CONFIG(tg_tokenizer_open_config, tg_tokenizer_open_config_default, mark, .mark = mark);

/* Returns the text of a file, which ends with a NUL, or NULL with the error set. */
static char *read_file(const char *path, size_t *length, tg_error *error)
{
    const uint64_t size = path ? tg_system_status(path).size : 0;
    if (size > TG_VOCABULARY_BYTES) {
        tg_error_set(error, TG_ERROR_FORMAT, "tokenizer_open: '%s' has %llu bytes; at most %zu are read", path,
                     (unsigned long long)size, TG_VOCABULARY_BYTES);
        return NULL;
    }
    return tg_file_read_text("tokenizer_open", path, length, error);
}

/* Returns whether a text is JSON: the first byte that is not white space is '{'. */
static bool is_json(const char *text)
{
    return text[strspn(text, " \t\r\n")] == '{';
}

/* Refuses a byte order mark, as Hugging Face's reader does, but by its name, because an editor does not show it. */
static bool check_begin(const tg_vocabulary *v, const char *path, const char *text)
{
    return strncmp(text, "\xef\xbb\xbf", 3) != 0 ||
           tg_error_set(v->error, TG_ERROR_FORMAT,
                        "%s: '%s' begins with a byte order mark, U+FEFF; save it as UTF-8 without one", v->call, path);
}

/* Reads the ids and then the merges. */
static bool read_with_ids(tg_vocabulary *v, const char *path)
{
    tg_json ids = {.call = v->call, .path = path, .error = v->error};
    ids.text = read_file(path, &ids.length, v->error);
    bool is_read = ids.text && check_begin(v, path, ids.text) && tg_vocabulary_read_ids(v, &ids) &&
                   tg_vocabulary_read_merges(v, true);
    tg_free(ids.text);
    return is_read;
}

static bool read_text(tg_vocabulary *v, const tg_tokenizer_open_config *config)
{
    bool is_others = config->pattern || config->special_count > 0;
    if (v->length == 0) {
        return tg_error_set(v->error, TG_ERROR_FORMAT, "%s: '%s' is empty", v->call, v->path);
    }
    if (!check_begin(v, v->path, v->text)) {
        return false;
    }
    if (is_json(v->text)) {
        return config->ids || is_others
                   ? tg_vocabulary_fail(v, 1,
                                        "a JSON file; the config's ids, pattern and special tokens belong to others")
                   : tg_vocabulary_read_json(v);
    }
    if (!tg_tokenizer_use_pattern(v->z, config->pattern, v->call, v->error)) {
        return false;
    }
    if (config->ids || tg_vocabulary_is_merges(v->text)) {
        return config->special_count > 0 ? tg_vocabulary_fail(v, 1, "a file of merges; it has no other special tokens")
               : config->ids             ? read_with_ids(v, config->ids)
                                         : tg_vocabulary_read_merges(v, false);
    }
    return tg_vocabulary_read_ranks(v, config);
}

/* Takes the text. */
static tg_tokenizer *open_text(const char *call, const char *path, char *text, size_t length,
                               const tg_tokenizer_open_config *config, tg_error *error)
{
    tg_vocabulary v = {.call = call, .path = path, .text = text, .length = length, .error = error};
    v.copy = tg_alloc(length + 1, 1);
    v.z = tg_tokenizer_make(error);
    if (v.copy) {
        memcpy(v.copy, text, length + 1);
    }
    bool is_read =
        (v.copy || tg_vocabulary_out_of_memory(&v)) && v.z && read_text(&v, config) && tg_tokenizer_finish(v.z, error);
    if (!is_read) {
        tg_tokenizer_free(v.z);
        v.z = NULL;
    }
    tg_free(v.copy);
    tg_free(text);
    return v.z;
}

tg_tokenizer *tg_tokenizer_new_from_text(const char *text, size_t length, tg_error *error)
{
    static const char call[] = "tokenizer_new_from_text";
    if (!text) {
        tg_error_set(error, TG_ERROR_STATE, "%s: the text is NULL", call);
        return NULL;
    }
    if (length > TG_VOCABULARY_BYTES) {
        tg_error_set(error, TG_ERROR_FORMAT, "%s: the text has %zu bytes; at most %zu are read", call, length,
                     TG_VOCABULARY_BYTES);
        return NULL;
    }
    char *copy = tg_alloc(length + 1, 1);
    if (!copy) {
        tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory for %zu bytes", call, length);
        return NULL;
    }
    memcpy(copy, text, length);
    copy[length] = '\0';
    const tg_tokenizer_open_config config = tg_tokenizer_open_config_default();
    return open_text(call, "text", copy, length, &config, error);
}

static tg_tokenizer *open_file(const char *path, const tg_tokenizer_open_config *config, tg_error *error)
{
    size_t length = 0;
    char *text = read_file(path, &length, error);
    return text ? open_text("tokenizer_open", path, text, length, config, error) : NULL;
}

/* Returns whether the folder has a file, and writes its path to `path`, which is large enough. */
static bool has_file(const char *folder, const char *name, char *path)
{
    sprintf(path, "%s/%s", folder, name);
    return tg_system_status(path).kind != TG_PATH_NONE;
}

/* Opens the vocabulary of a folder of transformers, or of OpenAI's GPT-2. */
static tg_tokenizer *open_folder(const char *folder, const tg_tokenizer_open_config *config, tg_error *error)
{
    tg_tokenizer_open_config inside = *config;
    static const char *const pairs[][2] = {{"vocab.json", "merges.txt"}, {"encoder.json", "vocab.bpe"}};
    size_t size = strlen(folder) + sizeof "/tokenizer.json";
    char *path = tg_alloc(2, size), *ids_path = path ? path + size : NULL;
    tg_tokenizer *tokenizer = NULL;
    if (!path) {
        tg_error_set(error, TG_ERROR_MEMORY, "tokenizer_open: out of memory");
    } else if (config->ids) {
        tg_error_set(error, TG_ERROR_VALUE, "tokenizer_open: '%s' is a folder; the config's ids must be NULL", folder);
    } else if (has_file(folder, "tokenizer.json", path)) {
        tokenizer = open_file(path, config, error);
    } else if ((has_file(folder, pairs[0][0], ids_path) && has_file(folder, pairs[0][1], path)) ||
               (has_file(folder, pairs[1][0], ids_path) && has_file(folder, pairs[1][1], path))) {
        inside.ids = ids_path;
        tokenizer = open_file(path, &inside, error);
    } else {
        tg_error_set(error, TG_ERROR_FILE,
                     "tokenizer_open: the folder '%s' has neither tokenizer.json nor vocab.json and merges.txt",
                     folder);
    }
    tg_free(path);
    return tokenizer;
}

tg_tokenizer *tg_tokenizer_open(const char *path, const tg_tokenizer_open_config *config, tg_error *error)
{
    if (!tg_config_check("tokenizer_open", config, mark, error)) {
        return NULL;
    }
    const tg_tokenizer_open_config o = config ? *config : tg_tokenizer_open_config_default();
    if (!tg_config_check_list("tokenizer_open", "special", o.special, "special_count", o.special_count, error)) {
        return NULL;
    }
    bool is_folder = path && tg_system_status(path).kind == TG_PATH_FOLDER;
    return is_folder ? open_folder(path, &o, error) : open_file(path, &o, error);
}
