/* params: a list of named tensors. Models have tens or hundreds of entries, so names are found by looking through
 * them. */
#include "params/params.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tensor/tensor.h"

#define MAX_NAME 255

struct tg_params {
    tg_error error;
    tg_dtype dtype;
    tg_rng *rng;
    tg_entry *entries;
    size_t count, capacity;
};

tg_params *tg_params_new(tg_dtype dtype, tg_rng *rng)
{
    tg_params *params = tg_dtype_is_float(dtype) ? tg_alloc_zeroed(1, sizeof *params) : NULL;
    if (params) {
        params->dtype = dtype;
        params->rng = rng;
    }
    return params;
}

void tg_params_free(tg_params *params)
{
    if (!params) {
        return;
    }
    for (size_t i = 0; i < params->count; i++) {
        tg_free((char *)(uintptr_t)params->entries[i].name);
        tg_release(params->entries[i].tensor);
    }
    tg_free(params->entries);
    tg_free(params);
}

/* ---- errors ---- */

const char *tg_params_error(const tg_params *params)
{
    return params ? params->error.text : "the params are NULL: out of memory, or not f32 or f64, when they were made";
}

tg_code tg_params_error_code(const tg_params *params)
{
    return params ? params->error.code : TG_ERROR_MEMORY;
}

void tg_params_clear_error(tg_params *params)
{
    if (params) {
        tg_error_clear(&params->error);
    }
}

bool tg_params_fail(tg_params *params, tg_code code, const char *format, ...)
{
    if (params) {
        char text[TG_ERROR_TEXT];
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(text, sizeof text, format, arguments);
        va_end(arguments);
        tg_error_set(&params->error, code, "%s", text);
    }
    return false;
}

/* ---- adding ---- */

static tg_entry *find(const tg_params *params, const char *name)
{
    for (size_t i = 0; params && name && i < params->count; i++) {
        if (strcmp(params->entries[i].name, name) == 0) {
            return &params->entries[i];
        }
    }
    return NULL;
}

/* The first entry of a tensor, under the name that it was made with. */
static const tg_entry *find_tensor(const tg_params *params, const tg_tensor *x)
{
    size_t i = 0;
    while (i < params->count && params->entries[i].tensor != x) {
        i++;
    }
    return i < params->count ? &params->entries[i] : NULL;
}

static bool check_name(tg_params *params, const char *name)
{
    if (!params || params->error.code != TG_OK) {
        return false;
    }
    if (!name || !*name || strlen(name) > MAX_NAME) {
        return tg_params_fail(params, TG_ERROR_VALUE, "params: a name of %zu characters; allowed are 1 to %d",
                              name ? strlen(name) : 0, MAX_NAME);
    }
    return !find(params, name) || tg_params_fail(params, TG_ERROR_VALUE, "params: the name '%s' is taken", name);
}

/* Puts x, which the params now own, under the name; or releases it. */
static tg_tensor *add(tg_params *params, const char *name, tg_tensor *x, tg_entry_kind kind)
{
    size_t size = strlen(name) + 1;
    char *copy = tg_alloc(size, 1);
    bool ready = copy && tg_grow((void **)&params->entries, &params->capacity, params->count, params->count + 1,
                                 sizeof *params->entries);
    if (!ready || (kind == TG_ENTRY_PARAMETER && !tg_set_requires_grad(x, true, &params->error))) {
        tg_free(copy);
        tg_release(x);
        tg_params_fail(params, TG_ERROR_MEMORY, "params: out of memory for '%s'", name);
        return NULL;
    }
    memcpy(copy, name, size);
    params->entries[params->count++] = (tg_entry){copy, x, kind};
    return x;
}

static tg_tensor *make(tg_params *params, const char *name, tg_shape shape)
{
    return check_name(params, name) ? tg_tensor_new(params->dtype, shape, &params->error) : NULL;
}

tg_tensor *tg_params_add(tg_params *params, const char *name, tg_shape shape)
{
    tg_tensor *x = make(params, name, shape);
    return x ? add(params, name, x, TG_ENTRY_PARAMETER) : NULL;
}

/* Makes room for everything before it draws: a failed call leaves the generator where it was. */
static tg_tensor *add_drawn(tg_params *params, const char *name, tg_tensor *x, double a, double b,
                            bool (*fill)(tg_tensor *, tg_rng *, double, double, tg_error *))
{
    if (!x) {
        return NULL;
    }
    if (!params->rng) {
        tg_params_fail(params, TG_ERROR_STATE, "params: '%s' needs a generator; give tg_params_new one", name);
        tg_release(x);
        return NULL;
    }
    tg_tensor *added = add(params, name, x, TG_ENTRY_PARAMETER);
    if (added && !fill(added, params->rng, a, b, &params->error)) {
        tg_free((char *)(uintptr_t)params->entries[--params->count].name);
        tg_release(added);
        return NULL;
    }
    return added;
}

tg_tensor *tg_params_add_normal(tg_params *params, const char *name, tg_shape shape, double mean, double std)
{
    return add_drawn(params, name, make(params, name, shape), mean, std, tg_fill_normal);
}

tg_tensor *tg_params_add_uniform(tg_params *params, const char *name, tg_shape shape, double low, double high)
{
    return add_drawn(params, name, make(params, name, shape), low, high, tg_fill_uniform);
}

tg_tensor *tg_params_add_existing(tg_params *params, const char *name, tg_tensor *x)
{
    if (!check_name(params, name)) {
        return NULL;
    }
    if (!x || x->dtype != params->dtype || !x->contiguous || x->node >= 0) {
        tg_params_fail(params, TG_ERROR_STATE, "params: the tensor for '%s' is %s; it must be a contiguous %s leaf",
                       name,
                       !x               ? "NULL"
                       : x->node >= 0   ? "the result of a recorded op"
                       : !x->contiguous ? "not contiguous"
                                        : tg_dtype_name((tg_dtype)x->dtype),
                       tg_dtype_name(params->dtype));
        return NULL;
    }
    const tg_entry *other = find_tensor(params, x);
    if (other) {
        tg_params_fail(params, TG_ERROR_STATE,
                       "params: the tensor for '%s' is there as '%s'; tg_params_add_alias adds names", name,
                       other->name);
        return NULL;
    }
    return add(params, name, tg_retain(x), TG_ENTRY_PARAMETER);
}

tg_tensor *tg_params_add_buffer(tg_params *params, const char *name, tg_shape shape)
{
    tg_tensor *x = make(params, name, shape);
    return x ? add(params, name, x, TG_ENTRY_BUFFER) : NULL;
}

tg_tensor *tg_params_add_alias(tg_params *params, const char *name, const char *existing)
{
    if (!check_name(params, name)) {
        return NULL;
    }
    const tg_entry *entry = find(params, existing);
    if (!entry) {
        tg_params_fail(params, TG_ERROR_RANGE, "params: there is no '%s' to call '%s' as well",
                       existing ? existing : "(null)", name);
        return NULL;
    }
    return add(params, name, tg_retain(entry->tensor), TG_ENTRY_ALIAS);
}

bool tg_params_set_frozen(tg_params *params, const char *name, bool frozen)
{
    if (!params) {
        return false;
    }
    const tg_entry *entry = find(params, name);
    if (!entry) {
        return tg_params_fail(params, TG_ERROR_RANGE, "params: there is no '%s' to freeze", name ? name : "(null)");
    }
    if (find_tensor(params, entry->tensor)->kind == TG_ENTRY_BUFFER) {
        return tg_params_fail(params, TG_ERROR_STATE, "params: '%s' is a buffer, which is never trained", name);
    }
    return tg_set_requires_grad(entry->tensor, !frozen, &params->error);
}

/* ---- looking ---- */

int64_t tg_params_count(const tg_params *params)
{
    return params ? (int64_t)params->count : 0;
}

tg_entry tg_params_at(const tg_params *params, int64_t index)
{
    return index >= 0 && index < tg_params_count(params) ? params->entries[index]
                                                         : (tg_entry){NULL, NULL, TG_ENTRY_BUFFER};
}

tg_tensor *tg_params_find(const tg_params *params, const char *name)
{
    const tg_entry *entry = find(params, name);
    return entry ? entry->tensor : NULL;
}

int64_t tg_params_values(const tg_params *params)
{
    int64_t values = 0;
    for (int64_t i = 0; i < tg_params_count(params); i++) {
        values += params->entries[i].kind == TG_ENTRY_PARAMETER ? params->entries[i].tensor->count : 0;
    }
    return values;
}

tg_dtype tg_params_dtype(const tg_params *params)
{
    return params ? params->dtype : TG_F32;
}

tg_rng *tg_params_rng(const tg_params *params)
{
    return params ? params->rng : NULL;
}

void tg_params_zero_grad(tg_params *params)
{
    for (int64_t i = 0; i < tg_params_count(params); i++) {
        tg_zero_grad(params->entries[i].tensor);
    }
}
