/* A file of ids, and a loader over it. The first five bytes are the size of an id, the loader's context, stride and
 * batch size, and its switches; the other bytes are the file. */
#include <stdlib.h>

#include "fuzz.h"

static int64_t id_at(const fuzz_input *file, int width, int64_t i)
{
    int64_t id = 0;
    for (int k = 0; k < width; k++) {
        id |= (int64_t)file->bytes[i * width + k] << (8 * k);
    }
    return id;
}

static void read_ids(const tg_token_file *file, const fuzz_input *content, int width)
{
    int64_t count = tg_token_file_count(file);
    fuzz_require(count == (int64_t)content->size / width, "%lld ids", (long long)count);
    int32_t *ids = malloc((size_t)(count + 1) * sizeof *ids);
    for (int64_t begin = 0; ids && begin <= count; begin += 1 + count / 3) {
        bool fits = true;
        for (int64_t i = begin; i < count; i++) {
            fits = fits && id_at(content, width, i) <= INT32_MAX;
        }
        tg_error error = TG_NO_ERROR;
        bool is_read = tg_token_file_read(file, begin, count - begin, ids, &error);
        fuzz_require(is_read == fits && (fits || error.code == TG_ERROR_RANGE), "read: %s", error.text);
        for (int64_t i = begin; fits && i < count; i++) {
            fuzz_require(ids[i - begin] == id_at(content, width, i), "id %lld differs", (long long)i);
        }
        fuzz_require(!tg_token_file_read(file, begin, count - begin + 1, ids, NULL), "a read behind the end");
    }
    free(ids);
}

static void load(const tg_token_file *file, fuzz_input *options)
{
    tg_run *run = tg_run_new(1);
    tg_loader_config config = tg_loader_config_default();
    config.context = fuzz_below(options, 9);
    config.stride = fuzz_below(options, 9);
    config.batch_size = fuzz_below(options, 9);
    unsigned switches = fuzz_byte(options);
    config.shuffle = switches & 1;
    config.drop_last = switches & 2;
    tg_loader *loader = tg_loader_new_from_file(run, file, &config);
    int64_t batches = 0;
    for (tg_batch batch; batches < 300 && tg_loader_next(loader, &batch); batches++) {
        int64_t T = tg_tensor_size(batch.inputs, 1);
        fuzz_require(T == config.context &&
                         tg_shape_equal(tg_tensor_shape(batch.inputs), tg_tensor_shape(batch.targets)),
                     "a batch has another shape");
        for (int64_t i = 0; i < tg_tensor_count(batch.inputs); i++) {
            fuzz_require(i % T == T - 1 ||
                             tg_tensor_value_at(batch.inputs, i + 1) == tg_tensor_value_at(batch.targets, i),
                         "target %lld is not the next id", (long long)i);
        }
    }
    fuzz_require(batches == 300 || tg_loader_error(loader)->code != TG_OK || batches == tg_loader_batches(loader),
                 "%lld batches of %lld", (long long)batches, (long long)tg_loader_batches(loader));
    tg_loader_free(loader);
    tg_run_free(run);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    fuzz_input input = {bytes, size};
    int width = fuzz_byte(&input) % 2 ? 4 : 2;
    fuzz_input options = input;
    for (int i = 0; i < 4; i++) {
        fuzz_byte(&input);
    }
    fuzz_memory_begin();
    tg_error error = TG_NO_ERROR;
    tg_token_file *file = tg_token_file_open(fuzz_file(input.bytes, input.size), width, &error);
    bool is_whole = input.size % (size_t)width == 0;
    fuzz_require(is_whole == (file != NULL) && (file || error.code == TG_ERROR_FORMAT), "open: %s", error.text);
    if (file) {
        read_ids(file, &input, width);
        load(file, &options);
    }
    tg_token_file_free(file);
    fuzz_memory_end();
    return 0;
}
