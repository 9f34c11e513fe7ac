/* A safetensors file: opening, listing and reading it, and loading it into params and as a checkpoint. What is read is
 * written and read again. Nothing changes if a load fails. */
#include <string.h>

#include "fuzz.h"
#include "files/safetensors.h"

/* Reads every tensor that can be read, in its own dtype. */
static void read_all(const tg_safetensors *file)
{
    for (int64_t i = 0; i < tg_safetensors_count(file); i++) {
        const tg_array *array = tg_safetensors_at(file, i);
        tg_dtype dtype;
        tg_error error = TG_NO_ERROR;
        fuzz_require(tg_safetensors_find(file, "", array->name) == array, "'%s' is not found", array->name);
        tg_tensor *x = tg_array_read_new(array, &error);
        bool is_known = tg_stored_dtype(array->dtype, &dtype);
        fuzz_require(x || error.code == (is_known ? TG_ERROR_RANGE : TG_ERROR_DTYPE), "read: %s", error.text);
        fuzz_require(!x || tg_shape_equal(tg_tensor_shape(x), array->shape), "'%s' has another shape", array->name);
        tg_release(x);
    }
}

/* Loads the file into params that have a few of its likely names. */
static void load(const char *path)
{
    static const char *const names[] = {"a", "b", "weight"};
    tg_params *params = tg_params_new(NULL, TG_F32);
    for (int i = 0; i < 3; i++) {
        tg_tensor_fill(tg_params_add(params, names[i], TG_SHAPE(2, i + 1)), 7, NULL);
    }
    tg_params_load_config config = tg_params_load_config_default();
    config.strict = false;
    config.grown_rows = true;
    tg_error error = TG_NO_ERROR;
    if (!tg_params_load(params, path, &config, &error)) {
        fuzz_require(error.code != TG_OK, "a failed load has no error");
        for (int64_t i = 0; i < 6; i++) {
            fuzz_require(tg_tensor_value_at(tg_params_find(params, "weight"), i) == 7,
                         "a failed load has changed values");
        }
    }
    int64_t step = 3;
    tg_checkpoint_part part = tg_checkpoint_integer("step", &step);
    fuzz_require(tg_checkpoint_load(path, &part, 1, NULL) || step == 3, "a failed load has changed a number");
    tg_params_free(params);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    fuzz_memory_begin();
    tg_error error = TG_NO_ERROR;
    const char *path = fuzz_file(bytes, size);
    tg_safetensors *file = tg_safetensors_open("fuzz", path, TG_SAFETENSORS_HEADER, &error);
    fuzz_require(file || error.code == TG_ERROR_FORMAT, "open: %s", error.text);
    if (file) {
        read_all(file);
    }
    tg_safetensors_close(file);
    load(path);
    fuzz_memory_end();
    return 0;
}
