/* gradcheck_params: a gradient check with respect to the parameters of a model.
 *
 * A module refers to its parameters by their addresses, so the parameters themselves are moved. During the check each
 * of them has a copy of its storage, and no gradient; its own storage and gradient are kept in the copy, and come back
 * at the end, whatever has failed. A view shares the storage of the copy, so the function cannot resize a parameter.
 */
#include <string.h>

#include "base/alloc.h"
#include "gradcheck/gradcheck.h"
#include "params/params.h"
#include "tensor/tensor.h"

#include <tapegrad/params.h>

/* The inputs and then the parameters, with the names of the latter, their copies, and the views of the copies. */
typedef struct list {
    tg_tensor **tensors, **copies, **views;
    const char **names;
    int inputs, parameters;
} list;

static void exchange(tg_tensor *x, tg_tensor *y)
{
    tg_storage *storage = x->storage;
    int64_t offset = x->offset;
    tg_gradient *gradient = x->gradient;
    x->storage = y->storage;
    x->offset = y->offset;
    x->gradient = y->gradient;
    y->storage = storage;
    y->offset = offset;
    y->gradient = gradient;
}

static bool add_parameter(list *l, tg_entry entry, tg_error *error)
{
    tg_tensor *copy = tg_tensor_new_copy(entry.tensor, error);
    tg_shape shape = tg_shape_of(entry.tensor);
    l->tensors[l->inputs + l->parameters] = entry.tensor;
    l->names[l->parameters] = entry.name;
    l->copies[l->parameters] = copy;
    l->views[l->parameters] = copy ? tg_tensor_make_view(NULL, copy, &shape, copy->strides, 0) : NULL;
    return l->views[l->parameters++] || tg_error_set(error, TG_ERROR_MEMORY, "gradcheck: out of memory");
}

/* Lists the parameters that require a gradient. Returns false after an error. */
static bool make_list(list *l, const tg_params *params, tg_tensor *const *inputs, tg_error *error)
{
    size_t entries = (size_t)tg_params_count(params), all = (size_t)l->inputs + entries;
    l->tensors = tg_alloc_zeroed(all + 1, sizeof *l->tensors);
    l->copies = tg_alloc_zeroed(entries + 1, sizeof *l->copies);
    l->views = tg_alloc_zeroed(entries + 1, sizeof *l->views);
    l->names = tg_alloc_zeroed(entries + 1, sizeof *l->names);
    if (!l->tensors || !l->copies || !l->views || !l->names) {
        return tg_error_set(error, TG_ERROR_MEMORY, "gradcheck: out of memory");
    }
    if (l->inputs > 0) {
        memcpy(l->tensors, inputs, (size_t)l->inputs * sizeof *inputs);
    }
    for (size_t i = 0; i < entries; i++) {
        tg_entry entry = tg_params_at(params, (int64_t)i);
        if (entry.kind == TG_ENTRY_PARAMETER && tg_tensor_requires_grad(entry.tensor) &&
            !add_parameter(l, entry, error)) {
            return false;
        }
    }
    return true;
}

static void exchange_all(const list *l)
{
    for (int i = 0; i < l->parameters; i++) {
        exchange(l->tensors[l->inputs + i], l->copies[i]);
    }
}

static void free_list(list *l)
{
    for (int i = 0; i < l->parameters; i++) {
        tg_release(l->copies[i]);
        tg_release(l->views[i]);
    }
    tg_free(l->tensors);
    tg_free(l->copies);
    tg_free(l->views);
    tg_free(l->names);
}

bool tg_gradcheck_params(tg_params *params, tg_gradcheck_function function, void *context, tg_tensor *const *inputs,
                         int input_count, const tg_gradcheck_config *config, tg_gradcheck_report *report,
                         tg_error *error)
{
    if (!tg_params_check("gradcheck", params, error)) {
        return false;
    }
    if (input_count < 0 || (!inputs && input_count > 0)) {
        return tg_error_set(error, TG_ERROR_STATE, "gradcheck: the inputs are NULL");
    }
    list l = {.inputs = input_count};
    bool passed = false;
    if (make_list(&l, params, inputs, error)) {
        tg_check c = {.function = function,
                      .context = context,
                      .reference_context = context,
                      .f64_refusal = "is for inputs; params of TG_F64 give a more reliable check",
                      .given = l.tensors,
                      .names = l.names,
                      .input_count = l.inputs + l.parameters,
                      .parameter_count = l.parameters,
                      .report = report};
        exchange_all(&l);
        passed = tg_check_run(&c, config, error);
        exchange_all(&l);
    }
    free_list(&l);
    return passed;
}
