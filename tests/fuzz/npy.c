/* An NPY file, and the same bytes as an NPZ archive. An array that is read is written and read again with equal bits. */
#include <stdio.h>
#include <string.h>

#include "fuzz.h"
#include "tensor/tensor.h"

/* Requires that an array survives a file. */
static void write_and_read(const tg_tensor *x, const char *read_from)
{
    char path[1000];
    tg_error error = TG_NO_ERROR;
    snprintf(path, sizeof path, "%s.npy", read_from);
    fuzz_require(tg_tensor_save_npy(x, path, &error), "save: %s", error.text);
    tg_tensor *again = tg_tensor_new_from_npy(path, &error);
    fuzz_require(again, "open what was saved: %s", error.text);
    size_t bytes = (size_t)tg_tensor_count(x) * tg_dtype_size(tg_tensor_dtype(x));
    fuzz_require(tg_tensor_dtype(x) == tg_tensor_dtype(again) &&
                     tg_shape_equal(tg_tensor_shape(x), tg_tensor_shape(again)) &&
                     (bytes == 0 || memcmp(tg_tensor_data(x), tg_tensor_data(again), bytes) == 0),
                 "what was saved is read as something else");
    tg_release(again);
    remove(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    fuzz_memory_begin();
    tg_error error = TG_NO_ERROR;
    const char *path = fuzz_file(bytes, size);
    tg_tensor *x = tg_tensor_new_from_npy(path, &error);
    fuzz_require(x || error.code != TG_OK, "an array is refused without an error");
    if (x && bytes[size - 1] % 8 == 0) { /* not always, because a write waits for the disk */
        write_and_read(x, path);
    }
    tg_release(x);
    error = (tg_error)TG_NO_ERROR;
    x = tg_tensor_new_from_npz(path, "a", &error);
    fuzz_require(x || error.code != TG_OK, "an archive is refused without an error");
    tg_release(x);
    fuzz_memory_end();
    return 0;
}
