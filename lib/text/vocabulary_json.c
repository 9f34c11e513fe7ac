/* vocabulary_json: reads tokenizer.json of Hugging Face's tokenizers, and GPT-2's encoder.json.
 *
 * encoder.json is {"token": id, ...}. tokenizer.json has the same object as model.vocab, beside the merges, the added
 * tokens, and how a text is split before it is encoded.
 *
 * The members may have any order. So the positions of all strings are collected first, in lists of 8 bytes per string.
 */
#include <stdio.h>
#include <string.h>

#include <tapegrad/extend.h>
#include "text/json_members.h"
#include "text/vocabulary_json.h"

/* ---- the tokens of all ids ---- */

static const char *text_at(const tg_json *j, size_t at)
{
    return j->text + at + 1; /* after the quotation mark */
}

bool tg_token_list_add(tg_json *j, tg_token_list *list, size_t at, int64_t id)
{
    if (!tg_grow(&list->tokens, &list->capacity, list->count, list->count + 1, sizeof *list->tokens)) {
        return tg_member_no_memory(j);
    }
    if (text_at(j, at)[0] == '\0') {
        return tg_json_fail(j, at, "the token is empty");
    }
    if (id >= INT32_MAX) {
        return tg_json_fail(j, at, "the id %lld of \"%.*s\" is above 2147483646", (long long)id,
                            TG_CUT(text_at(j, at), 60));
    }
    list->tokens[list->count++] = (tg_listed_token){.at = (uint32_t)at, .id = (int32_t)id};
    return true;
}

bool tg_token_list_read(tg_json *j, tg_token_list *list)
{
    size_t count = 0;
    tg_json_text token;
    int64_t id;
    if (!tg_json_begin(j, '{')) {
        return false;
    }
    while (tg_json_key(j, &count, &token)) {
        if (!tg_json_uint(j, &id) || !tg_token_list_add(j, list, token.at, id)) {
            return false;
        }
    }
    return !j->failed;
}

/* The tokens by their ids. Index i is list->tokens[i], and -2 - i is added->tokens[i]; -1: none. */
typedef struct sorted_tokens {
    int32_t *of_id;
    size_t count;
} sorted_tokens;

static const tg_listed_token *token_of(const tg_vocabulary_lists *lists, int32_t index)
{
    return index >= 0 ? &lists->tokens.tokens[index] : &lists->added.tokens[-2 - index];
}

/* Sorts one list into `sorted`, whose size is `most`. */
static bool sort(tg_json *j, tg_vocabulary_lists *lists, bool is_added, size_t most, sorted_tokens *sorted)
{
    const tg_token_list *list = is_added ? &lists->added : &lists->tokens;
    for (size_t i = 0; i < list->count; i++) {
        const tg_listed_token *t = &list->tokens[i];
        if ((size_t)t->id >= most) {
            return tg_json_fail(j, t->at, "the id %d of \"%.*s\"; the ids of at most %zu tokens are below %zu", t->id,
                                TG_CUT(text_at(j, t->at), 60), most, most);
        }
        int32_t other = sorted->of_id[t->id];
        if (other == -1) {
            sorted->of_id[t->id] = is_added ? -2 - (int32_t)i : (int32_t)i;
            sorted->count++;
            continue;
        }
        const char *name = text_at(j, token_of(lists, other)->at);
        if (is_added || other >= 0 || strcmp(name, text_at(j, t->at)) != 0) {
            return tg_json_fail(j, t->at, "the id %d of \"%.*s\" is also that of \"%.*s\"", t->id,
                                TG_CUT(text_at(j, t->at), 60), TG_CUT(name, 60));
        }
        lists->flags[-2 - other].is_in_model = true;
    }
    return true;
}

/* Returns whether the characters of a token are those of its bytes. */
static bool is_own_bytes(const char *text, size_t length)
{
    bool is_own = true;
    for (size_t i = 0; i < length; i++) {
        is_own &= text[i] > ' ' && text[i] < 127;
    }
    return is_own;
}

/* Adds token `id`, and its name unless it is an added token that the model does not have. `flags` is that of an added
 * one. */
static bool add_token(tg_vocabulary *v, tg_json *j, int32_t id, const tg_listed_token *t, const tg_added_token *flags)
{
    char *text = j->text + t->at + 1;
    bool has_bytes = v->z->model.kind == TG_MODEL_BYTES;
    size_t length = strlen(text), count = flags || !has_bytes ? length : tg_vocabulary_decode(text, length, text);
    if (count == SIZE_MAX) {
        return tg_json_fail(j, t->at, "the token \"%.*s\" has a character that is not that of a byte",
                            TG_CUT(text, 60));
    }
    if (!tg_names_append(&v->z->tokens, text, count, NULL, 0) || (flags && !tg_tokenizer_mark_added(v->z, *flags))) {
        return tg_member_no_memory(j);
    }
    bool is_named = !flags || (flags->is_in_model && (!has_bytes || is_own_bytes(text, length)));
    int32_t same = is_named ? tg_names_enter(&v->z->tokens) : id;
    return same == id || (same < 0 ? tg_member_no_memory(j)
                                   : tg_json_fail(j, t->at, "the token of id %d is also that of id %d", id, same));
}

/* Checks the ids of templates. */
static bool check_templates(const tg_vocabulary *v, tg_json *j)
{
    const tg_stages *list = &v->z->lists[TG_POST_PROCESSORS];
    for (size_t i = 0; i < list->count; i++) {
        for (size_t k = 0; k < list->stages[i].id_count; k++) {
            if (list->stages[i].ids[k] >= v->z->tokens.count) {
                return tg_json_fail(j, 0, "the template has the id %d; the ids are 0 to %d", list->stages[i].ids[k],
                                    v->z->tokens.count - 1);
            }
        }
    }
    return true;
}

/* Finds the tokens of bytes, and that of what is unknown. */
static bool find_special(tg_vocabulary *v, tg_json *j)
{
    tg_model *m = &v->z->model;
    int missing = 0;
    for (int byte = 0; byte < TG_BYTES && m->kind == TG_MODEL_CHARACTERS; byte++) {
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", (unsigned)byte);
        v->z->id_of_byte[byte] = tg_names_find(&v->z->tokens, name, 6);
        missing += v->z->id_of_byte[byte] < 0;
    }
    if (m->kind == TG_MODEL_BYTES && (missing = tg_vocabulary_find_bytes(v)) >= 0) {
        return tg_json_fail(j, 0, "no token is the byte 0x%02x; all 256 bytes must be tokens", (unsigned)missing);
    }
    m->unknown_id =
        m->unknown && m->kind != TG_MODEL_BYTES ? tg_names_find(&v->z->tokens, m->unknown, strlen(m->unknown)) : -1;
    return !m->unknown || m->kind == TG_MODEL_BYTES || m->unknown_id >= 0 ||
           tg_json_fail(j, 0, "the unk_token \"%.*s\" is not in the vocabulary", TG_CUT(m->unknown, 60));
}

static bool add_sorted(tg_vocabulary *v, tg_json *j, const tg_vocabulary_lists *lists, const sorted_tokens *sorted)
{
    for (size_t id = 0; id < sorted->count; id++) {
        int32_t index = sorted->of_id[id];
        if (index == -1) {
            return tg_json_fail(j, 0, "no token has the id %zu; the ids of %zu tokens are 0 to %zu", id, sorted->count,
                                sorted->count - 1);
        }
        if (!add_token(v, j, (int32_t)id, token_of(lists, index), index < 0 ? &lists->flags[-2 - index] : NULL)) {
            return false;
        }
    }
    return find_special(v, j) && check_templates(v, j);
}

bool tg_vocabulary_add_tokens(tg_vocabulary *v, tg_json *j, tg_vocabulary_lists *lists)
{
    size_t most = lists->tokens.count + lists->added.count;
    sorted_tokens sorted = {tg_alloc(most + 1, sizeof *sorted.of_id), 0};
    if (!sorted.of_id) {
        return tg_member_no_memory(j);
    }
    memset(sorted.of_id, -1, (most + 1) * sizeof *sorted.of_id);
    bool is_added =
        sort(j, lists, true, most, &sorted) && sort(j, lists, false, most, &sorted) && add_sorted(v, j, lists, &sorted);
    tg_free(sorted.of_id);
    return is_added;
}

/* ---- merges ---- */

/* Each merge is two elements of the list. */
static bool add_merges(tg_vocabulary *v, tg_json *j, const tg_token_list *merges)
{
    for (size_t i = 0; i + 1 < merges->count; i += 2) {
        const char *left = text_at(j, merges->tokens[i].at), *right = text_at(j, merges->tokens[i + 1].at);
        tg_error problem = TG_NO_ERROR;
        if (!tg_vocabulary_merge(v, left, strlen(left), right, strlen(right), true, &problem)) {
            return problem.code == TG_ERROR_MEMORY ? tg_member_no_memory(j)
                                                   : tg_json_fail(j, merges->tokens[i].at, "%s", problem.text);
        }
    }
    return true;
}

static void free_lists(tg_vocabulary_lists *lists)
{
    tg_free(lists->tokens.tokens);
    tg_free(lists->added.tokens);
    tg_free(lists->merges.tokens);
    tg_free(lists->flags);
}

/* ---- files ---- */

/* Refuses a decoder of bytes for tokens of characters, and the other way round. */
static bool check_decoder(const tg_vocabulary *v)
{
    const tg_stages *decoders = &v->z->lists[TG_DECODERS];
    bool has_bytes = v->z->model.kind == TG_MODEL_BYTES, is_good = true;
    for (size_t i = 0; i < decoders->count; i++) {
        is_good = is_good && (strcmp(decoders->stages[i].kind->name, "ByteLevel") == 0) == has_bytes;
    }
    return is_good ||
           tg_error_set(v->error, TG_ERROR_FORMAT,
                        "%s: '%s': the decoder must be %s, as the pre_tokenizer %s a ByteLevel", v->call, v->path,
                        has_bytes ? "null or a ByteLevel" : "no ByteLevel", has_bytes ? "has" : "has not");
}

bool tg_vocabulary_read_json(tg_vocabulary *v)
{
    tg_json j = {.call = v->call, .path = v->path, .text = v->text, .length = v->length, .error = v->error};
    tg_vocabulary_lists lists = {0};
    bool is_read = tg_json_check_utf8(&j) && tg_tokenizer_json_read(v, &j, &lists) && tg_json_end(&j) &&
                   tg_tokenizer_prepare(v->z, v->call, v->path, v->error) && check_decoder(v) &&
                   tg_vocabulary_add_tokens(v, &j, &lists) && add_merges(v, &j, &lists.merges);
    free_lists(&lists);
    return is_read;
}

bool tg_vocabulary_read_ids(tg_vocabulary *v, tg_json *j)
{
    tg_vocabulary_lists lists = {0};
    bool is_read = tg_json_check_utf8(j) && tg_token_list_read(j, &lists.tokens) && tg_json_end(j);
    for (size_t i = 0; is_read && i < lists.tokens.count; i++) {
        const tg_listed_token *t = &lists.tokens.tokens[i];
        if (strcmp(text_at(j, t->at), TG_END_OF_TEXT) == 0) {
            is_read = tg_token_list_add(j, &lists.added, t->at, t->id);
            lists.flags = lists.flags ? lists.flags : tg_alloc(1, sizeof *lists.flags);
            is_read = is_read && (lists.flags || tg_member_no_memory(j));
            if (is_read) {
                lists.flags[0] = (tg_added_token){.id = t->id, .is_special = true};
            }
        }
    }
    is_read = is_read && tg_vocabulary_add_tokens(v, j, &lists);
    free_lists(&lists);
    return is_read;
}
