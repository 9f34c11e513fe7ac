/* vocabulary_save: writes a vocabulary as vocab.bpe, as tokenizer.json and as a file of ranks. */
#include <stdio.h>
#include <string.h>

#include <tapegrad/extend.h>
#include "text/vocabulary_json.h"

typedef struct writer {
    const tg_tokenizer *z;
    tg_text_buffer out;
    tg_error *error;
} writer;

/* Adds the bytes of a token as characters; with `is_json`, as those of a string of JSON. */
static void add_token(writer *w, int32_t id, bool is_json)
{
    size_t length;
    const char *bytes = tg_tokenizer_token(w->z, id, &length);
    for (size_t i = 0; i < length; i++) {
        unsigned character = tg_character_of_byte((unsigned char)bytes[i]);
        char two[2] = {(char)(0xc0 | character >> 6), (char)(0x80 | (character & 0x3f))}, one = (char)character;
        const char *text = character < 0x80 ? &one : two;
        size_t size = character < 0x80 ? 1 : 2;
        if (is_json) {
            tg_text_add_json(&w->out, text, size);
        } else {
            tg_text_add_bytes(&w->out, text, size);
        }
    }
}

/* ---- vocab.bpe ---- */

static bool write_merges(writer *w)
{
    tg_text_add(&w->out, "#version: 0.2\n");
    for (size_t r = 0; r < w->z->merge_count; r++) {
        add_token(w, w->z->merges[r].pair.left, false);
        tg_text_add(&w->out, " ");
        add_token(w, w->z->merges[r].pair.right, false);
        tg_text_add(&w->out, "\n");
    }
    return true;
}

/* ---- tokenizer.json ---- */

/* Adds a token as a string of JSON without its quotation marks. Added tokens are text, not bytes. */
static void add_string(writer *w, int32_t id)
{
    if (w->z->model.kind != TG_MODEL_BYTES || tg_tokenizer_added(w->z, id)) {
        size_t length;
        const char *bytes = tg_tokenizer_token(w->z, id, &length);
        tg_text_add_json(&w->out, bytes, length);
    } else {
        add_token(w, id, true);
    }
}

/* Adds a member: a setting, or null. */
static void add_setting(writer *w, int setting)
{
    tg_text_add_format(&w->out, "\"%s\":", tg_setting_names[setting]);
    tg_text_add(&w->out, w->z->settings[setting] ? w->z->settings[setting] : "null");
    tg_text_add(&w->out, ",\n");
}

static void add_bool(writer *w, const char *name, bool value)
{
    tg_text_add_format(&w->out, ",\"%s\":%s", name, value ? "true" : "false");
}

static void add_added_tokens(writer *w)
{
    tg_text_add(&w->out, "{\"version\":\"1.0\",");
    add_setting(w, TG_TRUNCATION);
    add_setting(w, TG_PADDING);
    tg_text_add(&w->out, "\"added_tokens\":[");
    for (size_t i = 0; i < w->z->added_count; i++) {
        const tg_added_token *token = &w->z->added[i];
        tg_text_add(&w->out, i ? ",\n{\"id\":" : "\n{\"id\":");
        tg_text_add_format(&w->out, "%d", token->id);
        tg_text_add(&w->out, ",\"content\":\"");
        add_string(w, token->id);
        tg_text_add(&w->out, "\"");
        add_bool(w, "single_word", token->is_single_word);
        add_bool(w, "lstrip", token->strips_left);
        add_bool(w, "rstrip", token->strips_right);
        add_bool(w, "normalized", token->is_normalized);
        add_bool(w, "special", token->is_special);
        tg_text_add(&w->out, "}");
    }
    tg_text_add(&w->out, "],\n");
}

/* Adds a member that is a string, or null. */
static void add_text(writer *w, const char *name, const char *text)
{
    tg_text_add_format(&w->out, ",\"%s\":", name);
    tg_text_add(&w->out, text ? "\"" : "null");
    tg_text_add_json(&w->out, text ? text : "", text ? strlen(text) : 0);
    tg_text_add(&w->out, text ? "\"" : "");
}

/* Adds the members of the model before its tokens. */
static void add_model(writer *w)
{
    const tg_model *m = &w->z->model;
    bool has_pieces = m->kind == TG_MODEL_WORD_PIECE;
    tg_text_add_format(&w->out, "\"model\":{\"type\":\"%s\"", has_pieces ? "WordPiece" : "BPE");
    add_text(w, "unk_token", m->unknown);
    add_text(w, "continuing_subword_prefix", m->prefix);
    if (has_pieces) {
        tg_text_add_format(&w->out, ",\"max_input_chars_per_word\":%lld", (long long)m->most_characters);
    } else {
        tg_text_add(&w->out, ",\"dropout\":null,\"end_of_word_suffix\":null");
        add_bool(w, "fuse_unk", m->fuses_unknown);
        add_bool(w, "byte_fallback", m->has_byte_fallback);
        add_bool(w, "ignore_merges", m->ignores_merges);
    }
}

/* Checks that no two tokens have the same bytes, because the names of a JSON object are unique. */
static bool check_names(writer *w)
{
    const tg_tokenizer *z = w->z;
    tg_names names = {0};
    bool is_unique = true;
    for (int32_t id = 0; is_unique && id < z->tokens.count; id++) {
        size_t length;
        const char *bytes = tg_tokenizer_token(z, id, &length);
        int32_t same = tg_names_append(&names, bytes, length, NULL, 0) ? tg_names_enter(&names) : -1;
        w->out.failed = same < 0;
        is_unique = same == id ||
                    (same >= 0 && tg_error_set(w->error, TG_ERROR_VALUE,
                                               "tokenizer_save: the ids %d and %d have the same bytes; tokenizer.json "
                                               "has one id per token",
                                               same, id));
    }
    tg_names_free(&names);
    return is_unique;
}

static void add_merges(writer *w)
{
    tg_text_add(&w->out, ",\n\"merges\":[");
    for (size_t r = 0; r < w->z->merge_count; r++) {
        tg_text_add(&w->out, r ? ",\n[\"" : "\n[\"");
        add_string(w, w->z->merges[r].pair.left);
        tg_text_add(&w->out, "\",\"");
        add_string(w, w->z->merges[r].pair.right);
        tg_text_add(&w->out, "\"]");
    }
    tg_text_add(&w->out, "]");
}

static bool write_json(writer *w)
{
    if (!check_names(w)) {
        return false;
    }
    add_added_tokens(w);
    add_setting(w, TG_NORMALIZERS);
    add_setting(w, TG_PRE_TOKENIZERS);
    add_setting(w, TG_POST_PROCESSORS);
    if (w->z->settings[TG_DECODERS] || w->z->model.kind != TG_MODEL_BYTES) {
        add_setting(w, TG_DECODERS);
    } else {
        tg_text_add(&w->out, "\"decoder\":{\"type\":\"ByteLevel\",\"add_prefix_space\":true,\"trim_offsets\":true,"
                             "\"use_regex\":true},\n");
    }
    add_model(w);
    tg_text_add(&w->out, ",\n\"vocab\":{");
    for (int32_t id = 0; id < w->z->tokens.count; id++) {
        tg_text_add(&w->out, id ? ",\n\"" : "\n\"");
        add_string(w, id);
        tg_text_add(&w->out, "\":");
        tg_text_add_format(&w->out, "%d", id);
    }
    tg_text_add(&w->out, "}");
    if (w->z->model.kind != TG_MODEL_WORD_PIECE) {
        add_merges(w);
    }
    tg_text_add(&w->out, "}}\n");
    return true;
}

/* ---- ranks ---- */

/* Adds bytes in base64 (RFC 4648). */
static void add_base64(writer *w, const char *bytes, size_t length)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < length; i += 3) {
        uint32_t bits = 0;
        for (size_t k = 0; k < 3; k++) {
            bits = bits << 8 | (i + k < length ? (unsigned char)bytes[i + k] : 0);
        }
        char four[4];
        for (size_t k = 0; k < 4; k++) {
            four[k] = i + k > length ? '=' : digits[bits >> (18 - 6 * k) & 63];
        }
        tg_text_add_bytes(&w->out, four, 4);
    }
}

static bool write_ranks(writer *w)
{
    for (int32_t id = 0; id < w->z->tokens.count; id++) {
        if (!tg_tokenizer_added(w->z, id)) {
            size_t length;
            const char *bytes = tg_tokenizer_token(w->z, id, &length);
            add_base64(w, bytes, length);
            tg_text_add_format(&w->out, " %d\n", id);
        }
    }
    return true;
}

/* ---- saving ---- */

static const struct format {
    const char *name;
    bool (*write)(writer *);
} formats[] = {{"merges", write_merges}, {"ids", write_json}, {"ranks", write_ranks}};

/* Returns whether a file of merges or of ranks gives the same vocabulary, which is opened to compare. */
static bool is_kept(writer *w, tg_vocabulary_format format)
{
    const tg_tokenizer *a = w->z;
    if (a->added_count != 1 || !a->added[0].is_special ||
        (format == TG_VOCABULARY_MERGES && !tg_tokenizer_is_gpt2(a))) {
        return false;
    }
    tg_error problem = TG_NO_ERROR;
    tg_tokenizer *b = tg_tokenizer_new_from_text(w->out.bytes, w->out.length, &problem);
    w->out.failed |= problem.code == TG_ERROR_MEMORY;
    bool is_same =
        b && a->tokens.count == b->tokens.count && a->merge_count == b->merge_count && a->added[0].id == b->added[0].id;
    for (int32_t id = 0; is_same && id < a->tokens.count; id++) {
        size_t length, other;
        const char *bytes = tg_tokenizer_token(a, id, &length), *others = tg_tokenizer_token(b, id, &other);
        is_same = length == other && memcmp(bytes, others, length) == 0;
    }
    for (size_t r = 0; is_same && r < a->merge_count; r++) {
        const tg_merge *x = &a->merges[r], *y = &b->merges[r];
        is_same = x->pair.left == y->pair.left && x->pair.right == y->pair.right && x->result == y->result;
    }
    tg_tokenizer_free(b);
    return is_same;
}

/* Returns the text of a format; NULL with the error set. */
static char *text_of(const char *call, const tg_tokenizer *z, tg_vocabulary_format format, size_t *length,
                     tg_error *error)
{
    writer w = {.z = z, .error = error};
    bool is_written = formats[format].write(&w);
    if (is_written && !w.out.failed && format != TG_VOCABULARY_JSON && !is_kept(&w, format)) {
        is_written = !w.out.failed && tg_error_set(error, TG_ERROR_VALUE,
                                                   "%s: a file of %s cannot have the ids, merges and added tokens of "
                                                   "this vocabulary; use TG_VOCABULARY_JSON",
                                                   call, formats[format].name);
    }
    *length = w.out.length;
    if (w.out.failed) {
        tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory", call);
    }
    if (w.out.failed || !is_written) {
        tg_free(w.out.bytes);
        return NULL;
    }
    return w.out.bytes;
}

char *tg_tokenizer_text(const tg_tokenizer *z, size_t *length, tg_error *error)
{
    static const char call[] = "tokenizer_text";
    size_t unused;
    length = length ? length : &unused;
    *length = 0;
    if (!z) {
        tg_error_set(error, TG_ERROR_STATE, "%s: the tokenizer is NULL", call);
        return NULL;
    }
    tg_error problem = TG_NO_ERROR;
    char *text = text_of(call, z, TG_VOCABULARY_MERGES, length, &problem);
    if (problem.code == TG_ERROR_VALUE) {
        return text_of(call, z, TG_VOCABULARY_JSON, length, error);
    }
    tg_error_copy(error, &problem);
    return text;
}

bool tg_tokenizer_save(const tg_tokenizer *z, const char *path, tg_vocabulary_format format, tg_error *error)
{
    static const char call[] = "tokenizer_save";
    size_t length;
    if (!z) {
        return tg_error_set(error, TG_ERROR_STATE, "%s: the tokenizer is NULL", call);
    }
    if ((unsigned)format >= sizeof formats / sizeof *formats) {
        return tg_error_set(error, TG_ERROR_VALUE, "%s: format %d; it must be a tg_vocabulary_format", call,
                            (int)format);
    }
    char *text = text_of(call, z, format, &length, error);
    bool is_saved = text && tg_file_replace(call, path, text, length, error);
    tg_free(text);
    return is_saved;
}
