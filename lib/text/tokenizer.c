/* tokenizer: the tables of a byte-pair encoding. See tokenizer.h for their layout. */
#include "text/vocabulary_json.h"

#include <string.h>

#include <tapegrad/extend.h>

/* ---- tokens ---- */

tg_tokenizer *tg_tokenizer_make(tg_error *error)
{
    tg_tokenizer *z = tg_alloc_zeroed(1, sizeof *z);
    if (!z) {
        tg_error_set(error, TG_ERROR_MEMORY, "tokenizer: out of memory");
        return NULL;
    }
    z->end_of_text = z->model.unknown_id = -1;
    z->limits.pad = -1;
    return z;
}

void tg_tokenizer_free(tg_tokenizer *z)
{
    if (!z) {
        return;
    }
    for (int i = 0; i < TG_LISTS; i++) {
        tg_stages_free(&z->lists[i]);
    }
    for (int i = 0; i < TG_SETTINGS; i++) {
        tg_free(z->settings[i]);
    }
    if (z->encoder) {
        tg_encoder_free(z->encoder);
        tg_free(z->encoder->ids);
    }
    tg_pattern_free(z->word_character);
    tg_names_free(&z->tokens);
    tg_names_free(&z->shown);
    tg_added_tokens_free(z);
    void *blocks[] = {z->model.unknown, z->model.prefix, z->merges, z->slots.slots, z->added, z->encoder, z};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        tg_free(blocks[i]);
    }
}

/* ---- preparing ---- */

bool tg_tokenizer_prepare(tg_tokenizer *z, const char *call, const char *path, tg_error *error)
{
    tg_error problem = TG_NO_ERROR;
    for (int i = 0; i < TG_LISTS; i++) {
        if (!tg_stages_prepare(&z->lists[i], &problem)) {
            return tg_error_set(error, problem.code, "%s: '%s': %s", call, path, problem.text);
        }
    }
    if (z->model.kind != TG_MODEL_WORD_PIECE) {
        z->model.kind = tg_stages_have_bytes(&z->lists[TG_PRE_TOKENIZERS]) ? TG_MODEL_BYTES : TG_MODEL_CHARACTERS;
    }
    return true;
}

static void add_steps(tg_tokenizer *z, const tg_stages *stages)
{
    for (size_t i = 0; i < stages->count; i++) {
        z->steps[z->step_count++] = &stages->stages[i];
    }
}

static void add_search(tg_tokenizer *z, int search)
{
    z->search_stages[search].kind = &tg_search_kind;
    if (z->searches[search].length_count > 0) {
        z->steps[z->step_count++] = &z->search_stages[search];
    }
}

bool tg_tokenizer_finish(tg_tokenizer *z, tg_error *error)
{
    z->step_count = 0;
    add_steps(z, &z->lists[TG_NORMALIZERS]);
    if (!tg_added_tokens_prepare(z, error)) {
        return false;
    }
    z->step_count = 0;
    add_search(z, 0);
    add_steps(z, &z->lists[TG_NORMALIZERS]);
    add_search(z, 1);
    add_steps(z, &z->lists[TG_PRE_TOKENIZERS]);
    z->encoder = tg_alloc_zeroed(1, sizeof *z->encoder);
    for (int32_t id = 0; id < z->tokens.count; id++) {
        size_t length = tg_names_length(&z->tokens, id);
        z->model.longest = length > z->model.longest ? length : z->model.longest;
    }
    return (z->encoder || tg_error_set(error, TG_ERROR_MEMORY, "tokenizer: out of memory for the tokens")) &&
           tg_tokenizer_show(z, error);
}

/* Adds a pattern of Rust, where ^ and $ are the ends of the text, to a JSON. */
static void add_pattern(tg_text_buffer *json, const char *pattern)
{
    bool in_class = false;
    for (size_t i = 0, size; pattern[i]; i += size) {
        bool is_begin = !in_class && pattern[i] == '^', is_end = !in_class && pattern[i] == '$';
        in_class = pattern[i] == '[' || (in_class && pattern[i] != ']');
        size = pattern[i] == '\\' && pattern[i + 1] ? 1 + tg_character_size(pattern[i + 1])
                                                    : tg_character_size(pattern[i]);
        const char *text = is_begin ? "\\A" : is_end ? "\\z" : pattern + i;
        tg_text_add_json(json, text, is_begin || is_end ? 2 : size);
    }
}

bool tg_tokenizer_use_pattern(tg_tokenizer *z, const char *pattern, const char *call, tg_error *error)
{
    tg_text_buffer json = {0}, kept = {0};
    tg_error problem = TG_NO_ERROR;
    if (pattern && tg_utf8_check(pattern, strlen(pattern)) < strlen(pattern)) {
        return tg_error_set(error, TG_ERROR_VALUE, "%s: the pattern is not UTF-8", call);
    }
    tg_text_add(&json, pattern
                           ? "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":\""
                           : "{");
    if (pattern) {
        add_pattern(&json, pattern);
        tg_text_add(&json, "\"},\"behavior\":\"Isolated\",\"invert\":false},{");
    }
    tg_text_add(&json, "\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":");
    tg_text_add(&json, pattern ? "false}]}" : "true}");
    if (!json.failed) {
        tg_text_add_bytes(&kept, json.bytes, json.length);
    }
    z->settings[TG_PRE_TOKENIZERS] = kept.bytes;
    tg_json j = {.call = call, .path = "pattern", .text = json.bytes, .length = json.length, .error = &problem};
    bool is_good = (!json.failed && !kept.failed) ||
                   tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory for the pattern", call);
    bool is_prepared = is_good && tg_json_check_utf8(&j) &&
                       tg_stages_json_read(&j, TG_PRE_TOKENIZERS, &z->lists[TG_PRE_TOKENIZERS]) &&
                       tg_tokenizer_prepare(z, call, "pattern", &problem);
    tg_free(json.bytes);
    return is_good &&
           (is_prepared ||
            tg_error_set(error, problem.code == TG_ERROR_FORMAT ? TG_ERROR_VALUE : problem.code, "%s", problem.text));
}

bool tg_tokenizer_is_gpt2(const tg_tokenizer *z)
{
    bool has_more = z->settings[TG_PADDING] || z->settings[TG_TRUNCATION] || z->model.kind != TG_MODEL_BYTES;
    for (size_t i = 0; i < z->lists[TG_POST_PROCESSORS].count; i++) {
        has_more |= z->lists[TG_POST_PROCESSORS].stages[i].id_count > 0;
    }
    return !has_more && !z->model.ignores_merges && tg_tokenizer_cuts(z) == TG_CUT_GPT2;
}

/* ---- tokens ---- */

/* The bytes that are not printable are 0 to 32, 127 to 160, and 173. */
unsigned tg_character_of_byte(unsigned byte)
{
    return byte <= 32 ? 256 + byte : byte >= 127 && byte <= 160 ? 256 + 33 + byte - 127 : byte == 173 ? 256 + 67 : byte;
}

bool tg_tokenizer_add_bytes(tg_tokenizer *z)
{
    for (int pass = 0; pass < 2; pass++) {
        for (unsigned byte = 0; byte < TG_BYTES; byte++) {
            char one = (char)byte;
            bool is_itself = tg_character_of_byte(byte) == byte; /* in vocab.bpe; these 188 bytes have the first ids */
            if (is_itself == (pass == 0)) {
                z->id_of_byte[byte] = z->tokens.count;
                if (!tg_names_append(&z->tokens, &one, 1, NULL, 0) || tg_names_enter(&z->tokens) < 0) {
                    return false;
                }
            }
        }
    }
    return true;
}

const char *tg_tokenizer_token(const tg_tokenizer *z, int32_t id, size_t *length)
{
    size_t unused;
    length = length ? length : &unused;
    *length = 0;
    if (id < 0 || id >= z->tokens.count) {
        return NULL;
    }
    return tg_names_at(&z->tokens, id, length);
}

int32_t tg_tokenizer_vocabulary(const tg_tokenizer *z)
{
    return z ? z->tokens.count : 0;
}

/* ---- merges ---- */

int64_t tg_tokenizer_rank(const tg_tokenizer *z, int32_t left, int32_t right)
{
    return z->slots.count == 0 ? -1 : *tg_pair_slot(&z->slots, z->merges, sizeof *z->merges, (tg_pair){left, right});
}

bool tg_tokenizer_add_merge(tg_tokenizer *z, int32_t left, int32_t right, int32_t result)
{
    const tg_pair pair = {left, right};
    size_t rank = z->merge_count;
    if (rank == INT32_MAX || !tg_grow(&z->merges, &z->merge_capacity, rank, rank + 1, sizeof *z->merges) ||
        !tg_pair_slots_reserve(&z->slots, z->merges, sizeof *z->merges, rank)) {
        return false;
    }
    *tg_pair_slot(&z->slots, z->merges, sizeof *z->merges, pair) = (int32_t)rank;
    z->merges[rank] = (tg_merge){pair, result};
    z->merge_count++;
    return true;
}

bool tg_tokenizer_add_merged_token(tg_tokenizer *z, int32_t left, int32_t right)
{
    size_t a_length, b_length;
    const char *a = tg_tokenizer_token(z, left, &a_length), *b = tg_tokenizer_token(z, right, &b_length);
    return tg_names_append(&z->tokens, a, a_length, b, b_length) && tg_names_enter(&z->tokens) >= 0 &&
           tg_tokenizer_add_merge(z, left, right, z->tokens.count - 1);
}

/* ---- added tokens ---- */

bool tg_tokenizer_mark_added(tg_tokenizer *z, tg_added_token token)
{
    if (!tg_grow(&z->added, &z->added_capacity, z->added_count, z->added_count + 1, sizeof *z->added)) {
        return false;
    }
    z->added[z->added_count++] = token;
    size_t length;
    const char *bytes = tg_tokenizer_token(z, token.id, &length);
    if (z->end_of_text < 0 && length == sizeof TG_END_OF_TEXT - 1 && memcmp(bytes, TG_END_OF_TEXT, length) == 0) {
        z->end_of_text = token.id;
    }
    return true;
}

bool tg_tokenizer_add_special(tg_tokenizer *z, const char *text)
{
    return tg_names_append(&z->tokens, text, strlen(text), NULL, 0) &&
           tg_tokenizer_mark_added(z, (tg_added_token){.id = z->tokens.count - 1, .is_special = true});
}

const tg_added_token *tg_tokenizer_added(const tg_tokenizer *z, int32_t id)
{
    size_t low = 0, high = z->added_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (z->added[middle].id < id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < z->added_count && z->added[low].id == id ? &z->added[low] : NULL;
}

const char *tg_tokenizer_normalized_token(const tg_tokenizer *z, int32_t id, size_t *length)
{
    const tg_added_token *added = tg_tokenizer_added(z, id);
    if (!added) {
        return tg_tokenizer_token(z, id, length);
    }
    return tg_names_at(&z->searches[0].names, (int32_t)(added - z->added), length);
}

int32_t tg_tokenizer_end_of_text(const tg_tokenizer *z)
{
    return z ? z->end_of_text : -1;
}
