/* params: parts of params, by a pattern of names. */
#include <string.h>

#include "base/text.h"
#include "params/list.h"

/* `star` is the last * that was passed. After a mismatch it takes one more character, and the search continues at
 * `retry`. */
bool tg_name_matches_bytes(const char *pattern, size_t length, const char *text)
{
    const char *end = pattern + length, *star = NULL, *retry = NULL;
    while (*text) {
        char next = (char)(pattern < end ? *pattern : '\0');
        if (next == '*') {
            star = pattern++;
            retry = text;
        } else if (next == *text) {
            pattern++;
            text++;
        } else if (star) {
            pattern = star + 1;
            text = ++retry;
        } else {
            return false;
        }
    }
    while (pattern < end && *pattern == '*') {
        pattern++;
    }
    return pattern == end;
}

bool tg_name_matches(const char *pattern, const char *text)
{
    return tg_name_matches_bytes(pattern, strlen(pattern), text);
}

tg_params *tg_params_new_part(tg_params *params, const char *pattern)
{
    static const char call[] = "params_new_part";
    if (!tg_params_is_usable(params)) {
        return NULL;
    }
    if (!pattern) {
        tg_params_fail(params, TG_ERROR_STATE, "%s: the pattern is NULL", call);
        return NULL;
    }
    tg_params *part = tg_params_new(params->run, params->dtype);
    for (size_t i = 0; part && i < params->count; i++) {
        tg_entry entry = params->entries[i].entry;
        if (entry.kind == TG_ENTRY_PARAMETER && tg_name_matches(pattern, entry.name)) {
            bool required_grad = entry.tensor->requires_grad; /* false if the parameter is frozen */
            tg_params_add_entry(part, entry.name, tg_retain(entry.tensor), TG_ENTRY_PARAMETER);
            entry.tensor->requires_grad = required_grad;
        }
    }
    if (part && part->count > 0 && tg_run_is_clear(params->run)) {
        return part;
    }
    tg_params_fail(params, TG_ERROR_RANGE, "%s: no parameter matches '%.*s'", call, TG_CUT(pattern, 200));
    tg_params_free(part);
    return NULL;
}

/* Returns whether no parameter that matches is of bf16, which is never trained. */
static bool expect_trainable(tg_params *params, size_t first, size_t end, const char *call, const char *pattern)
{
    for (size_t i = first; i < end; i++) {
        const tg_entry *entry = &params->entries[i].entry;
        if (entry->tensor->dtype == TG_BF16 && tg_name_matches(pattern, entry->name)) {
            return tg_params_fail(params, TG_ERROR_DTYPE, "%s: '%.*s' is bf16; a trained parameter must be %s", call,
                                  TG_CUT(entry->name, 200), tg_dtype_name(params->dtype));
        }
    }
    return true;
}

/* Returns whether no backward in progress adds to the gradient of a parameter that matches, from entry `first` on. */
static bool expect_no_backward(tg_params *params, size_t first, size_t end, const char *call, const char *pattern)
{
    for (size_t i = first; i < end; i++) {
        const tg_entry *entry = &params->entries[i].entry;
        if (entry->tensor->last_use > 0 && tg_name_matches(pattern, entry->name)) {
            return tg_params_fail(params, TG_ERROR_STATE, "%s: a backward in progress adds to the gradient of '%.*s'",
                                  call, TG_CUT(entry->name, 200));
        }
    }
    return true;
}

bool tg_params_set_frozen(tg_params *params, const char *pattern, bool frozen)
{
    static const char call[] = "params_set_frozen";
    if (!tg_params_is_usable(params)) {
        return false;
    }
    if (!pattern) {
        return tg_params_fail(params, TG_ERROR_STATE, "%s: the pattern is NULL", call);
    }
    /* a name without a * is looked up */
    int64_t matching = 0, buffers = 0, one = strchr(pattern, '*') ? -1 : tg_params_number(params, pattern);
    size_t first = one < 0 ? 0 : (size_t)one, end = one < 0 ? params->count : first + 1;
    if (!(frozen ? expect_no_backward : expect_trainable)(params, first, end, call, pattern)) {
        return false;
    }
    for (size_t i = first; i < end; i++) {
        const tg_entry *entry = &params->entries[i].entry;
        if (tg_name_matches(pattern, entry->name)) {
            bool is_buffer = tg_params_at(params, tg_params_number_of(params, entry->tensor)).kind == TG_ENTRY_BUFFER;
            matching++;
            buffers += is_buffer;
            if (!is_buffer) {
                tg_tensor_set_requires_grad(entry->tensor, !frozen, NULL); /* cannot fail */
            }
        }
    }
    if (matching == 0) {
        return tg_params_fail(params, TG_ERROR_RANGE, "%s: no parameter matches '%.*s'", call, TG_CUT(pattern, 200));
    }
    return buffers < matching ||
           tg_params_fail(params, TG_ERROR_STATE, "%s: '%.*s' matches only buffers, which are never trained", call,
                          TG_CUT(pattern, 200));
}
