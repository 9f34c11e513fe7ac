/* An adapter of peft: adapter_config.json, a NUL, and adapter_model.safetensors. The first byte chooses the family of
 * the model, the second one an allocation that fails: none up to '@'. A failed call changes nothing; what was read is
 * written and read again. */
#include <string.h>

#include "fuzz.h"
#include "models.h"

/* Returns the logits of the model of a family without an adapter. */
static tg_tensor *usual_logits(int family)
{
    static tg_tensor *logits[FUZZ_FAMILIES];
    if (!logits[family]) {
        tg_run *run = tg_run_new(1);
        tg_params *params = tg_params_new(run, TG_F32);
        tg_gpt *model = fuzz_gpt_new(params, family);
        logits[family] = fuzz_gpt_logits(run, model, true);
        tg_gpt_free(model);
        tg_params_free(params);
        tg_run_free(run);
    }
    return tg_retain(logits[family]);
}

/* Writes the adapter of a model, and returns the logits of another one that reads it. */
static tg_tensor *saved_logits(const tg_gpt *model, int family)
{
    tg_error error = TG_NO_ERROR;
    tg_run *run = tg_run_new(1);
    tg_params *params = tg_params_new(run, TG_F32);
    tg_gpt *other = fuzz_gpt_new(params, family);
    fuzz_require(tg_gpt_save_adapter(model, fuzz_folder(1), &error), "save: %s", error.text);
    fuzz_require(tg_gpt_open_adapter(other, fuzz_folder(1)), "open what was saved: %s", tg_params_error(params)->text);
    tg_tensor *logits = fuzz_gpt_logits(run, other, false);
    tg_gpt_free(other);
    tg_params_free(params);
    tg_run_free(run);
    return logits;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    fuzz_input input = {bytes, size};
    int family = (int)fuzz_below(&input, FUZZ_FAMILIES);
    unsigned fails = fuzz_byte(&input);
    const uint8_t *end = memchr(input.bytes, '\0', input.size);
    size_t length = end ? (size_t)(end - input.bytes) : input.size;
    fuzz_folder_write(0, "adapter_config.json", input.bytes, length);
    fuzz_folder_write(0, "adapter_model.safetensors", end ? end + 1 : bytes, end ? input.size - length - 1 : 0);

    tg_tensor *expected = usual_logits(family);
    fuzz_memory_begin();
    tg_run *run = tg_run_new(1);
    tg_params *params = tg_params_new(run, TG_F32);
    tg_gpt *model = fuzz_gpt_new(params, family);
    int64_t count = tg_params_count(params);
    uint64_t drawn = tg_rng_position(tg_run_rng(run));
    fuzz_memory_fail(fails > '@' ? fails - '@' : 0, false);
    bool is_read = tg_gpt_open_adapter(model, fuzz_folder(0));
    fuzz_memory_fail(0, false);
    fuzz_require(tg_rng_position(tg_run_rng(run)) == drawn, "the generator has drawn");
    if (!is_read) {
        fuzz_require_error(tg_params_error(params), fuzz_folder(0), fails > '@');
        fuzz_require(tg_params_count(params) == count, "%lld params", (long long)tg_params_count(params));
        tg_run_clear_error(run);
    } else {
        tg_release(expected);
        expected = saved_logits(model, family);
    }
    fuzz_require_same(fuzz_gpt_logits(run, model, false), expected, "other logits");
    tg_gpt_free(model);
    tg_params_free(params);
    tg_run_free(run);
    fuzz_memory_end();
    return 0;
}
