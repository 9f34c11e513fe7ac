/* lora: two thin matrices beside the weight of a Linear; lib/nn/linear.c has the forward pass.
 *
 * The product B A is added in double, row by row, so a merged weight in f32 or bf16 is rounded once.
 */
#include "models/lora.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "tensor/tensor.h"

TG_CONFIG(tg_lora_config, tg_lora_config_default, mark, .mark = mark);

bool tg_lora_check_config(tg_params *params, const char *call, const tg_lora_config *given, tg_lora_config *config)
{
    if (!tg_params_expect_config(params, call, given, mark)) {
        return false;
    }
    *config = given ? *given : tg_lora_config_default();
    if (config->rank < 1) {
        return tg_params_fail(params, TG_ERROR_VALUE, "%s: rank %lld; it must be set to at least 1", call,
                              (long long)config->rank);
    }
    return (config->alpha > 0 && isfinite(config->alpha)) ||
           tg_params_fail(params, TG_ERROR_VALUE, "%s: alpha %g; it must be set, finite and above 0", call,
                          config->alpha);
}

/* Writes the name of a layer without ".weight" to `name`. */
static bool name_of(tg_params *params, const char *call, const tg_nn_linear *linear, char name[TG_NAME_SIZE])
{
    static const char end[] = ".weight";
    const char *full = tg_params_at(params, tg_params_number_of(params, linear->weight)).name;
    size_t length = full ? strlen(full) : 0, tail = sizeof end - 1;
    if (!full) {
        return tg_params_fail(params, TG_ERROR_VALUE, "%s: the params do not have the weight of the layer", call);
    }
    if (!tg_ends_with(full, end)) {
        return tg_params_fail(params, TG_ERROR_VALUE, "%s: the weight has the name '%.*s'; it must end in '.weight'",
                              call, TG_CUT(full, 200));
    }
    memcpy(name, full, length - tail);
    name[length - tail] = '\0';
    return true;
}

bool tg_lora_add(tg_params *params, const char *call, tg_nn_linear *linear, const tg_lora_config *config)
{
    char name[TG_NAME_SIZE];
    if (!name_of(params, call, linear, name)) {
        return false;
    }
    if (linear->lora_a) {
        return tg_params_fail(params, TG_ERROR_VALUE, "%s: '%s' has LoRA already", call, name);
    }
    int64_t out = linear->weight->shape[0], in = linear->weight->shape[1], largest = in > out ? in : out;
    if (config->rank > largest) {
        return tg_params_fail(params, TG_ERROR_VALUE,
                              "%s: rank %lld is above %lld, the larger size of the weight (%lld,%lld) of '%s'", call,
                              (long long)config->rank, (long long)largest, (long long)out, (long long)in, name);
    }
    tg_shape shape_a = tg_shape_make(2, (int64_t[]){config->rank, in});
    tg_shape shape_b = tg_shape_make(2, (int64_t[]){out, config->rank});
    tg_tensor *a = tg_module_add_uniform(params, name, "lora_A.weight", shape_a, tg_linear_bound(in));
    tg_tensor *b = a ? tg_module_add(params, name, "lora_B.weight", shape_b, 0) : NULL;
    if (!b) {
        return false;
    }
    linear->lora_a = a;
    linear->lora_b = b;
    linear->lora_scale = config->alpha / (double)config->rank;
    return true;
}

static bool expect_made(tg_params *params, const char *call, const tg_nn_linear *linear)
{
    return tg_params_is_usable(params) &&
           ((linear && linear->module.is_made) ||
            tg_params_fail(params, TG_ERROR_STATE, "%s: the module is NULL, or was not made", call));
}

bool tg_nn_linear_add_lora(tg_params *params, tg_nn_linear *linear, const tg_lora_config *given)
{
    static const char call[] = "nn_linear_add_lora";
    tg_lora_config config;
    if (!expect_made(params, call, linear) || !tg_lora_check_config(params, call, given, &config)) {
        return false;
    }
    tg_params_point point = tg_params_save_point(params);
    bool is_added = tg_lora_add(params, call, linear, &config);
    if (!is_added) {
        tg_params_return_to(params, &point);
    }
    return is_added;
}

/* ---- merging ---- */

/* W[o,:] += scale * sum over r of B[o,r] A[r,:]. `memory` has room for A, a row of W and a row of B. */
static void add_product(const tg_nn_linear *linear, tg_tensor *w, double *memory)
{
    int64_t out = w->shape[0], in = w->shape[1], rank = linear->lora_a->shape[0];
    tg_dtype dtype = tg_dtype_of(w), thin = tg_dtype_of(linear->lora_a); /* they differ if w is bf16 */
    size_t size = tg_dtype_size(dtype), thin_size = tg_dtype_size(thin);
    double *a = memory, *row = a + rank * in, *factors = row + in;
    tg_convert(a, TG_F64, tg_values(linear->lora_a), thin, rank * in);
    for (int64_t o = 0; o < out; o++) {
        char *values = (char *)tg_values(w) + (size_t)(o * in) * size;
        tg_convert(row, TG_F64, values, dtype, in);
        tg_convert(factors, TG_F64, (char *)tg_values(linear->lora_b) + (size_t)(o * rank) * thin_size, thin, rank);
        for (int64_t r = 0; r < rank; r++) {
            double factor = linear->lora_scale * factors[r];
            for (int64_t i = 0; i < in; i++) {
                row[i] += factor * a[r * in + i];
            }
        }
        tg_convert(values, dtype, row, TG_F64, in);
    }
}

bool tg_lora_check(const char *call, const tg_nn_linear *linear, tg_error *error)
{
    const struct {
        const char *name;
        const tg_tensor *tensor;
    } read[] = {{"weight", linear->weight}, {"lora_A.weight", linear->lora_a}, {"lora_B.weight", linear->lora_b}};
    for (int i = 0; i < 3; i++) {
        if (!tg_tensor_check(call, read[i].name, read[i].tensor, error)) {
            return false;
        }
    }
    return tg_lora_check_shapes(call, linear, error);
}

uint64_t tg_lora_scratch(const tg_nn_linear *linear)
{
    int64_t rank = linear->lora_a->shape[0];
    return (uint64_t)((rank + 1) * linear->lora_a->shape[1] + rank);
}

tg_tensor *tg_lora_new_merged(const char *call, const tg_nn_linear *linear, tg_error *error)
{
    if (!tg_lora_check(call, linear, error)) {
        return NULL;
    }
    tg_tensor *merged = tg_tensor_new_copy(linear->weight, NULL);
    double *memory = merged ? tg_alloc(tg_lora_scratch(linear), sizeof *memory) : NULL;
    if (!memory) {
        tg_release(merged);
        tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory", call);
        return NULL;
    }
    add_product(linear, merged, memory);
    tg_free(memory);
    return merged;
}

void tg_lora_remove(tg_params *params, tg_nn_linear *linear)
{
    tg_tensor *matrices[] = {linear->lora_a, linear->lora_b};
    for (int i = 0; i < 2; i++) {
        int64_t number = matrices[i] ? tg_params_number_of(params, matrices[i]) : -1;
        if (number >= 0) {
            tg_params_remove(params, number);
        }
    }
    linear->lora_a = linear->lora_b = NULL;
    linear->lora_scale = 0;
}

void tg_lora_merge(tg_params *params, tg_nn_linear *linear, double *memory)
{
    tg_tensor_data_mut(linear->weight); /* its version changes */
    add_product(linear, linear->weight, memory);
    tg_lora_remove(params, linear);
}

bool tg_nn_linear_merge_lora(tg_params *params, tg_nn_linear *linear)
{
    static const char call[] = "nn_linear_merge_lora";
    if (!expect_made(params, call, linear)) {
        return false;
    }
    if (!linear->lora_a) {
        return true;
    }
    if (tg_params_number_of(params, linear->lora_a) < 0 || tg_params_number_of(params, linear->lora_b) < 0) {
        return tg_params_fail(params, TG_ERROR_STATE, "%s: the params do not have the matrices of the layer", call);
    }
    if (!tg_lora_check(call, linear, tg_params_run(params)->error)) {
        return false;
    }
    double *memory = tg_alloc(tg_lora_scratch(linear), sizeof *memory);
    if (!memory) {
        return tg_params_fail(params, TG_ERROR_MEMORY, "%s: out of memory", call);
    }
    tg_lora_merge(params, linear, memory);
    tg_free(memory);
    return true;
}
