/* safetensors: saving a list of tensors. */
#include <stdio.h>

#include "base/text.h"
#include "files/safetensors.h"

static const char call[] = "safetensors_save";

/* Finds the dtype in the file. */
static bool find_stored(const tg_named_tensor *item, int64_t index, tg_stored *stored, tg_error *error)
{
    static const char *const allowed[] = {[TG_F32] = "F32, F16 or BF16",
                                          [TG_F64] = "F64",
                                          [TG_I32] = "I32 or I64",
                                          [TG_U8] = "U8 or BOOL",
                                          [TG_BF16] = "BF16"};
    tg_dtype dtype = tg_dtype_of(item->tensor);
    *stored = item->dtype ? tg_stored_from_name(item->dtype) : tg_stored_of(dtype, TG_SAVE_FLOATS_KEEP);
    return (*stored < TG_STORED_COUNT && tg_stored_holds(*stored, dtype)) ||
           tg_error_set(error, TG_ERROR_DTYPE,
                        "%s: tensor %lld, '%.*s': %s cannot be written as '%.*s'; the dtype must be %s", call,
                        (long long)index, TG_CUT(item->name, 100), tg_dtype_name(dtype), TG_CUT(item->dtype, 20),
                        allowed[dtype]);
}

static bool add(tg_safetensors_writer *writer, const tg_named_tensor *item, int64_t index, tg_error *error)
{
    char what[40];
    tg_stored stored;
    snprintf(what, sizeof what, "%s %lld", item->name ? "tensor" : "name of tensor", (long long)index);
    if (!item->name) {
        return tg_error_set(error, TG_ERROR_STATE, "%s: the %s is NULL", call, what);
    }
    return tg_tensor_check(call, what, item->tensor, error) && find_stored(item, index, &stored, error) &&
           tg_safetensors_add_stored(writer, "", item->name, item->tensor, (tg_shard){0, 0}, stored, error);
}

bool tg_safetensors_save(const char *path, const tg_named_tensor *tensors, int64_t count, tg_error *error)
{
    if (!path || (!tensors && count > 0)) {
        return tg_error_set(error, TG_ERROR_STATE, "%s: the %s NULL", call, path ? "tensors are" : "path is");
    }
    if (count < 0) {
        return tg_error_set(error, TG_ERROR_VALUE, "%s: %lld tensors; it must be 0 or more", call, (long long)count);
    }
    tg_safetensors_writer *writer = tg_safetensors_writer_new(call, error);
    bool is_ready = writer && tg_safetensors_add_metadata(writer, "", "format", "pt", error);
    for (int64_t i = 0; is_ready && i < count; i++) {
        is_ready = add(writer, &tensors[i], i, error);
    }
    bool is_saved = is_ready && tg_safetensors_write(writer, path, error);
    tg_safetensors_writer_free(writer);
    return is_saved;
}
