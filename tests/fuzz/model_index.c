/* The index of a model in two files, and the second one of these files if the index ends with a NUL. The first byte
 * chooses an allocation that fails: none up to '@'. */
#include <stdio.h>
#include <string.h>

#include <tapegrad_text.h>

#include "fuzz.h"
#include "models.h"

static char *second;
static size_t second_size;

/* Writes a Llama to the folders 0 and 1, and there its weights in two files of equal numbers of tensors. */
static void write_model(void)
{
    tg_error error = TG_NO_ERROR;
    char path[200];
    tg_run *run = tg_run_new(1);
    tg_params *params = tg_params_new(run, TG_F32);
    tg_gpt *model = fuzz_gpt_new(params, 1);
    fuzz_require(tg_gpt_save(model, fuzz_folder(0), NULL, &error) && tg_gpt_save(model, fuzz_folder(1), NULL, &error),
                 "%s", error.text);
    snprintf(path, sizeof path, "%s/model.safetensors", fuzz_folder(0));
    tg_safetensors_list *list = tg_safetensors_list_new(path, &error);
    tg_named_tensor tensors[64];
    for (int64_t i = 0; i < list->count; i++) {
        tensors[i] = (tg_named_tensor){.name = list->items[i].name};
        tensors[i].tensor = tg_tensor_new_from_safetensors(path, list->items[i].name, &error);
    }
    int64_t half = list->count / 2;
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%d.safetensors", fuzz_folder(0), i + 1);
        fuzz_require(tg_safetensors_save(path, tensors + i * half, i == 0 ? half : list->count - half, &error), "%s",
                     error.text);
    }
    second = tg_text_read(path, &second_size, &error);
    for (int64_t i = 0; i < list->count; i++) {
        tg_release((tg_tensor *)tensors[i].tensor);
    }
    tg_safetensors_list_free(list);
    tg_gpt_free(model);
    tg_params_free(params);
    tg_run_free(run);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    if (!second) {
        write_model();
    }
    fuzz_input input = {bytes, size};
    unsigned fails = fuzz_byte(&input);
    const uint8_t *end = memchr(input.bytes, '\0', input.size);
    size_t length = end ? (size_t)(end - input.bytes) : input.size;
    fuzz_folder_write(0, "model.safetensors.index.json", input.bytes, length);
    fuzz_folder_write(0, "2.safetensors", end ? (const char *)end + 1 : second,
                      end ? input.size - length - 1 : second_size);
    fuzz_memory_begin();
    fuzz_gpt_open(0, 1, fails > '@' ? fails - '@' : 0, !end);
    fuzz_memory_end();
    return 0;
}
