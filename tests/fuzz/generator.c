/* A saved state of a generator with some bytes changed. A state that is refused changes nothing; an accepted one is
 * saved with the same words, draws, and is loaded again. Each three bytes of the input are an offset and a value. */
#include <string.h>

#include "fuzz.h"

static void draw(tg_rng *rng, double values[40])
{
    int64_t size = 20;
    tg_tensor *x = tg_tensor_new(TG_F64, tg_shape_make(1, &size), NULL);
    fuzz_require(tg_tensor_fill_uniform(x, rng, 0, 1, NULL), "fill_uniform");
    memcpy(values, tg_tensor_data(x), 20 * sizeof *values);
    for (int i = 0; i < 20; i++) {
        fuzz_require(values[i] >= 0 && values[i] < 1, "a uniform value of %g", values[i]);
    }
    fuzz_require(tg_tensor_fill_normal(x, rng, 0, 1, NULL), "fill_normal");
    memcpy(values + 20, tg_tensor_data(x), 20 * sizeof *values);
    tg_release(x);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    fuzz_input input = {bytes, size};
    static uint8_t state[TG_RNG_TORCH_STATE_SIZE], before[sizeof state], after[sizeof state];
    fuzz_memory_begin();
    tg_rng *rng = tg_rng_new(fuzz_byte(&input)), *other = tg_rng_new(0);
    double values[40], same[40];
    if (fuzz_byte(&input) % 2) {
        draw(rng, values);
    }
    tg_rng_save_torch_state(rng, state, NULL);
    memcpy(before, state, sizeof state);
    while (input.size >= 3) {
        size_t offset = fuzz_byte(&input);
        offset = (offset | fuzz_byte(&input) << 8) % sizeof state;
        state[offset] = (uint8_t)fuzz_byte(&input);
    }
    uint64_t position = tg_rng_position(rng);
    tg_error error = TG_NO_ERROR;
    bool is_loaded = tg_rng_load_torch_state(rng, state, &error);
    tg_rng_save_torch_state(rng, after, NULL);
    if (!is_loaded) {
        fuzz_require(error.code == TG_ERROR_FORMAT, "load: %s", error.text);
        fuzz_require(memcmp(before, after, sizeof after) == 0 && tg_rng_position(rng) == position,
                     "a refused state changed the generator");
    } else {
        fuzz_require(memcmp(after + 24, state + 24, 624 * 8) == 0, "the words differ from those that were loaded");
        fuzz_require(tg_rng_position(rng) == 0, "the position is not 0");
    }
    fuzz_require(tg_rng_load_torch_state(other, after, &error), "a saved state is refused: %s", error.text);
    draw(rng, values);
    draw(other, same);
    fuzz_require(memcmp(values, same, sizeof values) == 0, "the saved state draws other values");
    tg_rng_free(rng);
    tg_rng_free(other);
    fuzz_memory_end();
    return 0;
}
