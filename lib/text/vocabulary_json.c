/* vocabulary_json: reads tokenizer.json of Hugging Face's tokenizers, and GPT-2's encoder.json.
 *
 * encoder.json is {"token": id, ...}. tokenizer.json has the same object as model.vocab, beside the merges, the added
 * tokens, and how a text is split before it is encoded. Only GPT-2's way to split is known here, so each member that
 * would give other ids is refused by its name.
 *
 * The members may have any order. So the positions of all strings are collected first, in lists of 8 bytes per string.
 */
#include <string.h>

#include <tapegrad/extend.h>
#include "text/vocabulary_json.h"

/* ---- the tokens of all ids ---- */

static const char *text_at(const tg_json *j, size_t at)
{
    return j->text + at + 1; /* after the quotation mark */
}

/* Sets an error about the string at a position. */
static bool fail_out_of_memory(tg_json *j)
{
    j->failed = true;
    return tg_error_set(j->error, TG_ERROR_MEMORY, "%s: '%s': out of memory", j->call, j->path);
}

bool tg_token_list_add(tg_json *j, tg_token_list *list, size_t at, int64_t id)
{
    if (!tg_grow(&list->tokens, &list->capacity, list->count, list->count + 1, sizeof *list->tokens)) {
        return fail_out_of_memory(j);
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
static bool sort(tg_json *j, const tg_vocabulary_lists *lists, bool is_added, size_t most, sorted_tokens *sorted)
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
    }
    return true;
}

/* Adds token `id`, and to the table unless it is an added one. */
static bool add_token(tg_vocabulary *v, tg_json *j, int32_t id, const tg_listed_token *t, bool is_added)
{
    char *text = j->text + t->at + 1;
    size_t length = strlen(text), count = is_added ? length : tg_vocabulary_decode(text, length, text);
    if (count == SIZE_MAX) {
        return tg_json_fail(j, t->at, "the token \"%.*s\" has a character that is not that of a byte",
                            TG_CUT(text, 60));
    }
    tg_added_token added = {id, t->is_special, t->is_normalized};
    if (!tg_tokenizer_add_token(v->z, text, count, NULL, 0) || (is_added && !tg_tokenizer_mark_added(v->z, added))) {
        return fail_out_of_memory(j);
    }
    int32_t same = is_added ? id : tg_vocabulary_add(v, id);
    return same == id || tg_json_fail(j, t->at, "the token of id %d is also that of id %d", id, same);
}

static bool add_sorted(tg_vocabulary *v, tg_json *j, const tg_vocabulary_lists *lists, const sorted_tokens *sorted)
{
    if (!tg_tokenizer_reserve(v->z, sorted->count, j->length, lists->merges.count / 2) ||
        !tg_vocabulary_index(v, sorted->count)) {
        return fail_out_of_memory(j);
    }
    for (size_t id = 0; id < sorted->count; id++) {
        int32_t index = sorted->of_id[id];
        if (index == -1) {
            return tg_json_fail(j, 0, "no token has the id %zu; the ids of %zu tokens are 0 to %zu", id, sorted->count,
                                sorted->count - 1);
        }
        if (!add_token(v, j, (int32_t)id, token_of(lists, index), index < 0)) {
            return false;
        }
    }
    int byte = tg_vocabulary_find_bytes(v);
    return byte < 0 || tg_json_fail(j, 0, "no token is the byte 0x%02x; all 256 bytes must be tokens", (unsigned)byte);
}

bool tg_vocabulary_add_tokens(tg_vocabulary *v, tg_json *j, const tg_vocabulary_lists *lists)
{
    size_t most = lists->tokens.count + lists->added.count;
    sorted_tokens sorted = {tg_alloc(most + 1, sizeof *sorted.of_id), 0};
    if (!sorted.of_id) {
        return fail_out_of_memory(j);
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
            return problem.code == TG_ERROR_MEMORY ? fail_out_of_memory(j)
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
}

/* ---- files ---- */

bool tg_vocabulary_read_json(tg_vocabulary *v)
{
    tg_json j = {.call = v->call, .path = v->path, .text = v->text, .length = v->length, .error = v->error};
    tg_vocabulary_lists lists = {{NULL, 0, 0}, {NULL, 0, 0}, {NULL, 0, 0}};
    bool is_read = tg_json_check_utf8(&j) && tg_tokenizer_json_read(&j, &lists) && tg_json_end(&j) &&
                   tg_vocabulary_add_tokens(v, &j, &lists) && add_merges(v, &j, &lists.merges);
    free_lists(&lists);
    return is_read;
}

bool tg_vocabulary_read_ids(tg_vocabulary *v, tg_json *j)
{
    tg_vocabulary_lists lists = {{NULL, 0, 0}, {NULL, 0, 0}, {NULL, 0, 0}};
    bool is_read = tg_json_check_utf8(j) && tg_token_list_read(j, &lists.tokens) && tg_json_end(j);
    for (size_t i = 0; is_read && i < lists.tokens.count; i++) {
        const tg_listed_token *t = &lists.tokens.tokens[i];
        if (strcmp(text_at(j, t->at), TG_END_OF_TEXT) == 0) {
            is_read = tg_token_list_add(j, &lists.added, t->at, t->id);
            if (is_read) {
                lists.added.tokens[lists.added.count - 1].is_special = true;
            }
        }
    }
    is_read = is_read && tg_vocabulary_add_tokens(v, j, &lists);
    free_lists(&lists);
    return is_read;
}
