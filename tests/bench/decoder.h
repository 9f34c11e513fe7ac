/* decoder: the sizes of published decoders, for the benchmarks. */
#ifndef TG_BENCH_DECODER_H
#define TG_BENCH_DECODER_H

#include <tapegrad/gpt.h>

/* The sizes of SmolLM2-135M, "135m", and of Qwen3-0.6B, "0.6b", which are in their config.json. Returns false for
 * another name. */
bool bench_decoder(const char *name, tg_gpt_config *config);

#endif
