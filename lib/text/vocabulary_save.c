/* vocabulary_save: writes a vocabulary as vocab.bpe, as tokenizer.json and as a file of ranks. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "text/vocabulary.h"

typedef struct writer {
    const char *call;
    const tg_tokenizer *z;
    char *text;
    size_t used, capacity;
    bool failed; /* memory is exhausted */
    tg_error *error;
} writer;

static void append(writer *w, const char *text, size_t length)
{
    void *grown = w->text;
    w->failed = w->failed || !tg_grow(&grown, &w->capacity, w->used, w->used + length, 1);
    w->text = grown;
    if (!w->failed) {
        memcpy(w->text + w->used, text, length);
        w->used += length;
    }
}

static void append_text(writer *w, const char *text)
{
    append(w, text, strlen(text));
}

static void append_number(writer *w, int32_t number)
{
    char text[16];
    append(w, text, (size_t)snprintf(text, sizeof text, "%d", number));
}

/* Appends the bytes of a token as characters. */
static void append_token(writer *w, int32_t id)
{
    size_t length;
    const char *bytes = tg_tokenizer_bytes(w->z, id, &length);
    for (size_t i = 0; i < length; i++) {
        unsigned character = tg_character_of_byte((unsigned char)bytes[i]);
        char coded[2] = {(char)(0xc0 | character >> 6), (char)(0x80 | (character & 0x3f))};
        char plain = (char)character;
        append(w, character < 0x80 ? &plain : coded, character < 0x80 ? 1 : 2);
    }
}

/* ---- vocab.bpe ---- */

/* Returns whether the ids follow from the order of the merges: the bytes, the merges, <|endoftext|>. */
static bool has_ids_of_merges(const tg_tokenizer *z)
{
    int32_t last = z->token_count - 1;
    bool is_ordered = (size_t)last == TG_BYTES + z->merge_count && tg_tokenizer_end_of_text(z) == last;
    int32_t next[2] = {0, 188}; /* the next id of a printable byte, and of another one */
    for (unsigned byte = 0; is_ordered && byte < TG_BYTES; byte++) {
        is_ordered = z->id_of_byte[byte] == next[tg_character_of_byte(byte) >= 256]++;
    }
    for (size_t r = 0; is_ordered && r < z->merge_count; r++) {
        is_ordered = z->merges[r].result == (int32_t)(TG_BYTES + r);
    }
    return is_ordered;
}

static bool write_merges(writer *w)
{
    if (!has_ids_of_merges(w->z)) {
        return tg_error_set(w->error, TG_ERROR_VALUE,
                            "tokenizer_save: the ids do not follow from the order of the merges, and a file of merges "
                            "has no ids; use TG_VOCABULARY_JSON");
    }
    append_text(w, "#version: 0.2\n");
    for (size_t r = 0; r < w->z->merge_count; r++) {
        append_token(w, w->z->merges[r].left);
        append_text(w, " ");
        append_token(w, w->z->merges[r].right);
        append_text(w, "\n");
    }
    return true;
}

/* ---- tokenizer.json ---- */

/* Appends the characters of a JSON string from `from` on with escapes. Characters above ASCII stay as they are. */
static void escape(writer *w, size_t from)
{
    size_t escapes = 0;
    for (size_t i = from; i < w->used; i++) {
        unsigned char c = (unsigned char)w->text[i];
        escapes += c < 0x20 ? 5 : c == '"' || c == '\\';
    }
    size_t old = w->used, at = old + escapes;
    void *grown = w->text;
    w->failed = w->failed || !tg_grow(&grown, &w->capacity, old, at, 1);
    w->text = grown;
    if (w->failed || escapes == 0) {
        return;
    }
    w->used = at;
    for (size_t i = old; i-- > from;) { /* from the end, because the text becomes longer */
        unsigned char c = (unsigned char)w->text[i];
        if (c < 0x20) {
            char code[8];
            snprintf(code, sizeof code, "\\u%04x", (unsigned)c);
            at -= 6;
            memcpy(w->text + at, code, 6);
        } else {
            w->text[--at] = (char)c;
            if (c == '"' || c == '\\') {
                w->text[--at] = '\\';
            }
        }
    }
}

/* Appends a token as a JSON string without its quotation marks. Special tokens are text, not bytes. */
static void append_escaped(writer *w, int32_t id)
{
    size_t from = w->used, length;
    const char *bytes = tg_tokenizer_bytes(w->z, id, &length);
    if (tg_tokenizer_is_special(w->z, id)) {
        append(w, bytes, length);
    } else {
        append_token(w, id);
    }
    escape(w, from);
}

static void append_added_tokens(writer *w)
{
    append_text(w, "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\"added_tokens\":[");
    for (size_t i = 0; i < w->z->special_count; i++) {
        append_text(w, i ? ",\n{\"id\":" : "\n{\"id\":");
        append_number(w, w->z->special[i]);
        append_text(w, ",\"content\":\"");
        append_escaped(w, w->z->special[i]);
        append_text(w, "\",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":false,"
                       "\"special\":true}");
    }
    append_text(w, "],\n");
}

/* Checks that no two tokens have the same bytes, because the names of a JSON object are unique. */
static bool check_names(writer *w)
{
    tg_vocabulary v = {.call = w->call, .path = "", .z = (tg_tokenizer *)w->z};
    bool is_unique = tg_vocabulary_index(&v, (size_t)w->z->token_count);
    w->failed = !is_unique;
    for (int32_t id = 0; is_unique && id < w->z->token_count; id++) {
        int32_t same = tg_vocabulary_add(&v, id);
        is_unique = same == id || tg_error_set(w->error, TG_ERROR_VALUE,
                                               "tokenizer_save: the ids %d and %d have the same bytes; tokenizer.json "
                                               "has one id per token",
                                               same, id);
    }
    tg_free(v.slots);
    tg_free(v.name);
    return is_unique;
}

static bool write_json(writer *w)
{
    if (!check_names(w)) {
        return false;
    }
    append_added_tokens(w);
    append_text(w, "\"normalizer\":null,\n"
                   "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,"
                   "\"use_regex\":true},\n"
                   "\"post_processor\":null,\n"
                   "\"decoder\":{\"type\":\"ByteLevel\",\"add_prefix_space\":true,\"trim_offsets\":true,"
                   "\"use_regex\":true},\n"
                   "\"model\":{\"type\":\"BPE\",\"dropout\":null,\"unk_token\":null,\"continuing_subword_prefix\":null,"
                   "\"end_of_word_suffix\":null,\"fuse_unk\":false,\"byte_fallback\":false,\"ignore_merges\":false,\n"
                   "\"vocab\":{");
    for (int32_t id = 0; id < w->z->token_count; id++) {
        append_text(w, id ? ",\n\"" : "\n\"");
        append_escaped(w, id);
        append_text(w, "\":");
        append_number(w, id);
    }
    append_text(w, "},\n\"merges\":[");
    for (size_t r = 0; r < w->z->merge_count; r++) {
        append_text(w, r ? ",\n\"" : "\n\"");
        append_escaped(w, w->z->merges[r].left);
        append_text(w, " ");
        append_escaped(w, w->z->merges[r].right);
        append_text(w, "\"");
    }
    append_text(w, "]}}\n");
    return true;
}

/* ---- ranks ---- */

/* Appends bytes in base64 (RFC 4648). */
static void append_base64(writer *w, const char *bytes, size_t length)
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
        append(w, four, 4);
    }
}

/* Checks that a file of ranks has the same merges: each token of several bytes is the result of one merge, which its
 * bytes give with the merges of lower ranks, and ids have the order of the merges. */
static bool check_merges(writer *w, tg_encoder *e)
{
    const tg_tokenizer *z = w->z;
    size_t r = 0;
    for (int32_t id = 0; id < z->token_count; id++) {
        size_t length;
        const char *bytes = tg_tokenizer_bytes(z, id, &length);
        if (length == 1 || tg_tokenizer_is_special(z, id)) {
            continue;
        }
        const tg_merge *merge = r < z->merge_count && z->merges[r].result == id ? &z->merges[r] : NULL;
        e->id_count = 0;
        if (merge && length <= TG_LONGEST_RANKED && !tg_encoder_word(e, z, bytes, length, (int64_t)r)) {
            w->failed = true;
            return false;
        }
        if (e->id_count != 2 || e->ids[0] != merge->left || e->ids[1] != merge->right) {
            return tg_error_set(w->error, TG_ERROR_VALUE,
                                "tokenizer_save: a file of ranks cannot have the merges of the id %d; use "
                                "TG_VOCABULARY_JSON",
                                id);
        }
        r++;
    }
    return r == z->merge_count || tg_error_set(w->error, TG_ERROR_VALUE,
                                               "tokenizer_save: a file of ranks cannot have two merges with the "
                                               "same result; use TG_VOCABULARY_JSON");
}

static bool write_ranks(writer *w)
{
    tg_encoder e = {0};
    bool is_possible = check_merges(w, &e);
    tg_encoder_free(&e);
    tg_free(e.ids);
    bool is_alone = w->z->special_count == 1 && tg_tokenizer_end_of_text(w->z) >= 0;
    if (is_possible && !is_alone) {
        return tg_error_set(w->error, TG_ERROR_VALUE,
                            "tokenizer_save: a file of ranks has no special tokens, except "
                            "an id for <|endoftext|>; use TG_VOCABULARY_JSON");
    }
    for (int32_t id = 0; is_possible && id < w->z->token_count; id++) {
        if (!tg_tokenizer_is_special(w->z, id)) {
            size_t length;
            const char *bytes = tg_tokenizer_bytes(w->z, id, &length);
            append_base64(w, bytes, length);
            append_text(w, " ");
            append_number(w, id);
            append_text(w, "\n");
        }
    }
    return is_possible;
}

/* ---- saving ---- */

static bool (*const formats[])(writer *) = {write_merges, write_json, write_ranks};

/* Returns the text of a format; NULL with the error set. */
static char *text_of(const char *call, const tg_tokenizer *z, tg_vocabulary_format format, size_t *length,
                     tg_error *error)
{
    writer w = {.call = call, .z = z, .error = error};
    bool is_written = formats[format](&w);
    *length = w.used;
    append(&w, "", 1); /* the NUL */
    if (w.failed) {
        tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory", call);
    }
    if (w.failed || !is_written) {
        tg_free(w.text);
        return NULL;
    }
    return w.text;
}

char *tg_tokenizer_text(const tg_tokenizer *z, size_t *length, tg_error *error)
{
    size_t unused;
    length = length ? length : &unused;
    *length = 0;
    if (!z) {
        tg_error_set(error, TG_ERROR_STATE, "tokenizer_text: the tokenizer is NULL");
        return NULL;
    }
    return text_of("tokenizer_text", z, has_ids_of_merges(z) ? TG_VOCABULARY_MERGES : TG_VOCABULARY_JSON, length,
                   error);
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
