/* models: what the targets of published models share: a tiny model of each family, and the checks of one. */
#ifndef TG_TESTS_FUZZ_MODELS_H
#define TG_TESTS_FUZZ_MODELS_H

#include <tapegrad.h>

/* GPT-2, Llama, Mistral, Qwen2, Qwen3 and Gemma 3 */
enum { FUZZ_FAMILIES = 6 };

/* Adds a model of a family with 2 layers, whose values a seed draws. Yours to free. */
tg_gpt *fuzz_gpt_new(tg_params *params, int family);

/* Returns the logits of a few ids; yours to release. They must be finite if `is_finite`. */
tg_tensor *fuzz_gpt_logits(tg_run *run, const tg_gpt *model, bool is_finite);

/* Requires that two tensors have the same bits, and releases them. */
void fuzz_require_same(tg_tensor *a, tg_tensor *b, const char *what);

/* Requires that a call has failed with an error that names `path`. MEMORY is one only if `fails`. */
void fuzz_require_error(const tg_error *error, const char *path, bool fails);

/* Opens folder number `from`. If that fails, nothing has changed. Else the model runs, and what it is saved as in
 * folder number `to` has the same logits, and is saved as the same config.json. Allocation number `fail_at` fails; 0:
 * none. */
void fuzz_gpt_open(int from, int to, uint64_t fail_at, bool is_finite);

#endif
