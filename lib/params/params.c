/* params: a list of named tensors. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "params/list.h"
#include "tensor/overlap.h"

#define MAX_NAME 255

tg_params *tg_params_new(tg_run *given, tg_dtype dtype)
{
    tg_run *run = tg_run_keep(given);
    tg_params *params = run ? tg_alloc_zeroed(1, sizeof *params) : NULL;
    if (!params) {
        if (run) {
            tg_error_set(run->error, TG_ERROR_MEMORY, "params_new: out of memory");
        }
        tg_run_free(run);
        return NULL;
    }
    params->run = run;
    params->dtype = tg_dtype_is_float((int)dtype) ? dtype : TG_F32;
    params->is_made =
        tg_run_is_clear(run) &&
        (params->dtype == dtype ||
         tg_params_fail(params, TG_ERROR_DTYPE, "params_new: dtype %s; it must be f32 or f64", tg_dtype_name(dtype)));
    return params;
}

static void free_last_name(tg_params *params)
{
    tg_name *last = params->names;
    params->names = last->before;
    tg_free(last);
}

/* Removes the entries after the first `count` ones. */
static void cut(tg_params *params, size_t count)
{
    while (params->count > count) {
        const tg_named *last = &params->entries[--params->count];
        if (last->entry.kind == TG_ENTRY_PARAMETER) {
            last->entry.tensor->requires_grad = last->required_grad;
        }
        tg_release(last->entry.tensor);
        if (last->entry.name == params->names->text) { /* nobody has seen it */
            free_last_name(params);
        }
    }
    tg_params_index_all(params);
}

void tg_params_free(tg_params *params)
{
    if (!params) {
        return;
    }
    for (size_t i = 0; i < params->count; i++) {
        tg_release(params->entries[i].entry.tensor);
    }
    while (params->names) {
        free_last_name(params);
    }
    tg_free(params->slots);
    tg_free(params->entries);
    tg_run_free(params->run);
    tg_free(params);
}

/* ---- errors ---- */

tg_run *tg_params_run(const tg_params *params)
{
    return params ? params->run : NULL;
}

const tg_error *tg_params_error(const tg_params *params)
{
    static const tg_error none = {TG_ERROR_MEMORY, "the params are NULL: they could not be created", -1, -1};
    return params ? params->run->error : &none;
}

bool tg_params_fail(tg_params *params, tg_code code, const char *format, ...)
{
    if (params) {
        char text[TG_ERROR_TEXT];
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(text, sizeof text, format, arguments);
        va_end(arguments);
        tg_error_set(params->run->error, code, "%s", text);
    }
    return false;
}

bool tg_params_is_usable(const tg_params *params)
{
    return params && tg_run_is_clear(params->run) &&
           (params->is_made || tg_error_set(params->run->error, TG_ERROR_STATE,
                                            "the params were not made: tg_params_new has reported why; make others"));
}

bool tg_params_check(const char *call, const tg_params *params, tg_error *error)
{
    if (!params) {
        return tg_error_set(error, TG_ERROR_STATE, "%s: the params are NULL", call);
    }
    return tg_params_is_usable(params) || tg_error_copy(error, params->run->error);
}

bool tg_params_expect_config(tg_params *params, const char *call, const void *config, const char *mark)
{
    return tg_params_is_usable(params) && tg_config_check(call, config, mark, params->run->error);
}

/* ---- adding ---- */

/* Returns whether a dot of the name is at its beginning or its end, or beside another dot. */
static bool has_empty_part(const char *name)
{
    return name[0] == '.' || name[strlen(name) - 1] == '.' || strstr(name, "..");
}

static bool check_name(tg_params *params, const char *name)
{
    if (!tg_params_is_usable(params)) {
        return false;
    }
    if (!name) {
        return tg_params_fail(params, TG_ERROR_STATE, "params: the name is NULL");
    }
    if (!*name || strlen(name) > MAX_NAME) {
        return tg_params_fail(params, TG_ERROR_VALUE, "params: a name of %zu characters; it must have 1 to %d",
                              strlen(name), MAX_NAME);
    }
    if (has_empty_part(name)) {
        return tg_params_fail(params, TG_ERROR_VALUE,
                              "params: the name '%s' has an empty part; names of modules and parameters are not empty, "
                              "and one dot is between two of them",
                              name);
    }
    return tg_params_number(params, name) < 0 ||
           tg_params_fail(params, TG_ERROR_VALUE, "params: the name '%s' is in use", name);
}

/* Returns the entry with this name. If it does not exist, returns NULL and sets an error that begins with `call`. */
static const tg_entry *find_entry(tg_params *params, const char *call, const char *name)
{
    int64_t number = tg_params_number(params, name);
    if (number < 0) {
        name ? tg_params_fail(params, TG_ERROR_RANGE, "%s: no entry '%.*s' exists", call, TG_CUT(name, 200))
             : tg_params_fail(params, TG_ERROR_STATE, "%s: the name is NULL", call);
        return NULL;
    }
    return &params->entries[number].entry;
}

tg_tensor *tg_params_add_entry(tg_params *params, const char *name, tg_tensor *x, tg_entry_kind kind)
{
    size_t length = strlen(name) + 1;
    tg_name *copy = tg_params_reserve(params) ? tg_alloc(sizeof *copy + length, 1) : NULL;
    if (!copy) {
        tg_release(x);
        tg_params_fail(params, TG_ERROR_MEMORY, "params: out of memory for '%s'", name);
        return NULL;
    }
    copy->before = params->names;
    memcpy(copy->text, name, length);
    params->names = copy;
    params->entries[params->count++] = (tg_named){.entry = {copy->text, x, kind}, .required_grad = x->requires_grad};
    tg_params_index_last(params);
    x->requires_grad = x->requires_grad || (kind == TG_ENTRY_PARAMETER && x->dtype != TG_BF16);
    return x;
}

void tg_params_set_source(tg_params *params, const tg_params_source *source)
{
    params->source = source;
}

bool tg_params_has_source(const tg_params *params)
{
    return params && params->source;
}

static tg_tensor *add_new(tg_params *params, const char *name, tg_shape shape, tg_entry_kind kind)
{
    if (!check_name(params, name)) {
        return NULL;
    }
    const tg_params_source *source = kind == TG_ENTRY_PARAMETER ? params->source : NULL;
    tg_error *error = params->run->error;
    tg_tensor *x =
        source ? source->read(source->context, name, shape, error) : tg_tensor_new(params->dtype, shape, error);
    return x ? tg_params_add_entry(params, name, x, kind) : NULL;
}

tg_tensor *tg_params_add(tg_params *params, const char *name, tg_shape shape)
{
    return add_new(params, name, shape, TG_ENTRY_PARAMETER);
}

tg_tensor *tg_params_add_buffer(tg_params *params, const char *name, tg_shape shape)
{
    return add_new(params, name, shape, TG_ENTRY_BUFFER);
}

static tg_tensor *add_drawn(tg_params *params, const char *name, tg_shape shape, double a, double b,
                            bool (*fill)(tg_tensor *, tg_rng *, double, double, tg_error *))
{
    if (tg_params_has_source(params)) {
        return tg_params_add(params, name, shape);
    }
    if (check_name(params, name) && !tg_params_rng(params)) {
        tg_params_fail(params, TG_ERROR_STATE, "params: '%s' needs a generator; give a run to tg_params_new", name);
        return NULL;
    }
    tg_tensor *x = tg_params_add(params, name, shape);
    if (x && !fill(x, tg_params_rng(params), a, b, params->run->error)) {
        cut(params, params->count - 1);
        return NULL;
    }
    return x;
}

tg_tensor *tg_params_add_normal(tg_params *params, const char *name, tg_shape shape, double mean, double std)
{
    return add_drawn(params, name, shape, mean, std, tg_tensor_fill_normal);
}

tg_tensor *tg_params_add_uniform(tg_params *params, const char *name, tg_shape shape, double low, double high)
{
    return add_drawn(params, name, shape, low, high, tg_tensor_fill_uniform);
}

tg_tensor *tg_params_add_existing(tg_params *params, const char *name, tg_tensor *x)
{
    if (!check_name(params, name)) {
        return NULL;
    }
    const char *flaw = !tg_is_tensor(x) ? "NULL"
                       : x->node >= 0   ? "the result of a recorded op"
                       : !x->contiguous ? "not contiguous"
                                        : NULL;
    if (flaw) {
        tg_params_fail(params, TG_ERROR_STATE, "params: the tensor for '%s' is %s; it must be a contiguous leaf", name,
                       flaw);
        return NULL;
    }
    if (x->dtype != params->dtype && !(x->dtype == TG_BF16 && params->dtype == TG_F32)) {
        tg_params_fail(params, TG_ERROR_DTYPE, "params: the tensor for '%s' is %s; these params are %s", name,
                       tg_dtype_name(tg_dtype_of(x)), params->dtype == TG_F32 ? "f32, and may have bf16" : "f64");
        return NULL;
    }
    int64_t other = tg_params_number_of(params, x);
    if (other >= 0) {
        tg_params_fail(params, TG_ERROR_STATE,
                       "params: the tensor for '%s' has the name '%s' already; tg_params_add_alias adds names", name,
                       params->entries[other].entry.name);
        return NULL;
    }
    for (size_t i = 0; tg_storage_references(x) > 1 && i < params->count; i++) {
        if (tg_overlaps(x, params->entries[i].entry.tensor)) {
            tg_params_fail(params, TG_ERROR_STATE,
                           "params: the tensor for '%s' shares memory with '%s', so each value would be trained twice; "
                           "add a copy (tg_tensor_new_copy)",
                           name, params->entries[i].entry.name);
            return NULL;
        }
    }
    return tg_params_add_entry(params, name, tg_retain(x), TG_ENTRY_PARAMETER);
}

tg_tensor *tg_params_add_alias(tg_params *params, const char *name, const char *existing)
{
    const tg_entry *entry = check_name(params, name) ? find_entry(params, "params_add_alias", existing) : NULL;
    return entry ? tg_params_add_entry(params, name, tg_retain(entry->tensor), TG_ENTRY_ALIAS) : NULL;
}

/* ---- returning to an earlier state ---- */

tg_params_point tg_params_save_point(const tg_params *params)
{
    tg_params_point point = {.count = tg_params_count(params)};
    tg_rng_copy(&point.rng, tg_params_rng(params));
    return point;
}

void tg_params_return_to(tg_params *params, const tg_params_point *point)
{
    if (params) {
        cut(params, (size_t)point->count);
    }
    tg_rng_copy(tg_params_rng(params), &point->rng);
}

/* ---- getters ---- */

int64_t tg_params_count(const tg_params *params)
{
    return params ? (int64_t)params->count : 0;
}

tg_entry tg_params_at(const tg_params *params, int64_t index)
{
    return index >= 0 && index < tg_params_count(params) ? params->entries[index].entry
                                                         : (tg_entry){NULL, NULL, TG_ENTRY_BUFFER};
}

tg_tensor *tg_params_find(const tg_params *params, const char *name)
{
    return tg_params_at(params, tg_params_number(params, name)).tensor;
}

int64_t tg_params_value_count(const tg_params *params)
{
    int64_t values = 0;
    for (int64_t i = 0; i < tg_params_count(params); i++) {
        tg_entry entry = tg_params_at(params, i);
        values += entry.kind == TG_ENTRY_PARAMETER ? entry.tensor->count : 0;
    }
    return values;
}

tg_dtype tg_params_dtype(const tg_params *params)
{
    return params ? params->dtype : TG_F32;
}

tg_rng *tg_params_rng(const tg_params *params)
{
    return params ? tg_run_rng(params->run) : NULL;
}
