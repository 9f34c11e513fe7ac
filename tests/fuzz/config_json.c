/* The config.json of a published model, in a folder with the weights of a tiny one. The first byte chooses its family,
 * the second one an allocation that fails: none up to '@'. */
#include "fuzz.h"
#include "models.h"

/* Writes model.safetensors of each family to a folder of its own. */
static void write_models(void)
{
    static bool is_written;
    for (int i = 0; i < FUZZ_FAMILIES && !is_written; i++) {
        tg_error error = TG_NO_ERROR;
        tg_run *run = tg_run_new(1);
        tg_params *params = tg_params_new(run, TG_F32);
        tg_gpt *model = fuzz_gpt_new(params, i);
        fuzz_require(tg_gpt_save(model, fuzz_folder(i), NULL, &error), "%s", error.text);
        tg_gpt_free(model);
        tg_params_free(params);
        tg_run_free(run);
    }
    is_written = true;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    write_models();
    fuzz_input input = {bytes, size};
    int family = (int)fuzz_below(&input, FUZZ_FAMILIES);
    unsigned fails = fuzz_byte(&input);
    fuzz_folder_write(family, "config.json", input.bytes, input.size);
    fuzz_memory_begin();
    fuzz_gpt_open(family, FUZZ_FAMILIES, fails > '@' ? fails - '@' : 0, true);
    fuzz_memory_end();
    return 0;
}
