/* comparison: shared by the programs that lead from the book's GPT to Llama, Qwen3 and Gemma 3, one change at a time.
 * Each compares a model with the same model after the change. Both are small, and are trained on the same batches of a
 * short story. */
#ifndef COMPARISON_H
#define COMPARISON_H

#include "../book.h"

/* Returns the book's GPT in small: width 64, 4 heads, 2 layers, a context of 64, no dropout. Its vocabulary is set by
 * the comparison. */
tg_gpt_config gpt(void);

/* The changes, in the order of the programs: RMSNorm without biases, rotary positions, and SwiGLU are Llama 2; grouped
 * queries Llama 3; norms of queries and keys Qwen3; a window in every other layer is that of Gemma 3, which has it in
 * five of six. */
void use_rms_norm(tg_gpt_config *config);
void use_rotary_positions(tg_gpt_config *config);
void use_swiglu(tg_gpt_config *config);
void use_grouped_queries(tg_gpt_config *config);
void use_query_key_norm(tg_gpt_config *config);
void use_windows(tg_gpt_config *config);

/* Trains both models, and prints for each its number of parameters, the bytes of the keys and values of a text
 * as long as the context, and its losses on the text of the training and on the rest. `lr` is the learning rate. */
void compare(const char *book, double lr, const char *before_name, tg_gpt_config before, const char *after_name,
             tg_gpt_config after);

#endif
