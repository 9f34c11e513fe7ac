#include "memory.h"

#include <stdio.h>

/* Lines fitted to the tapes of models of 1 to 12 blocks:
 *
 *                       a block   the rest
 *   without             19.3C     17.4C + 2.1V
 *   with checkpointing  1.15C     39C + 2.1V
 *
 * With checkpointing a block keeps its input, and the rest includes one block that backward computes again. Of the
 * vocabulary there are logits and their gradient. Sizes are those of the pool's blocks, up to an eighth larger than
 * what is in them. tests/examples/test_memory.c compares.
 */
#define LOGITS 2.1

/* Returns the floats of the results of a block: 18C of a GPT-2. */
static double block_floats(const tg_gpt_config *c)
{
    double C = (double)c->width, D = c->head_width ? (double)c->head_width : C / (double)c->heads;
    double queries = (double)c->heads * D, keys = c->key_heads ? (double)c->key_heads * D : queries;
    double hidden = c->hidden ? (double)c->hidden : 4 * C;
    int rotated = (c->position == TG_POSITION_ROTARY) + c->query_key_norm;
    bool is_gated = c->feed_forward == TG_FEED_FORWARD_SWIGLU || c->feed_forward == TG_FEED_FORWARD_GEGLU;
    return (c->norm_after ? 8 : 6) * C + (2 + rotated) * (queries + keys) + (is_gated ? 4 : 2) * hidden;
}

double activation_floats(const tg_gpt_config *config)
{
    double L = (double)config->layers, C = (double)config->width, block = 1.072 * block_floats(config);
    return (config->activation_checkpointing ? block + (1.15 * L + 19.7) * C : L * block + 17.4 * C) +
           LOGITS * (double)config->vocabulary;
}

double training_floats(const tg_gpt_config *config, int64_t trained, int64_t rank, int64_t tokens)
{
    /* tg_gpt_loss has at most 2^23 logits at a time, and their gradients */
    double logits = LOGITS * (double)config->vocabulary, most = LOGITS * (1 << 23) / (double)tokens;
    /* LoRA of a layer from I to O values has rank (I + O) values, and keeps about 0.4 (I + O) results, fitted, too */
    double lora = rank > 0 ? 0.4 * (double)trained / (double)rank : 0;
    return (rank > 0 ? 4 : 3) * (double)trained +
           (double)tokens * (activation_floats(config) + lora - logits + (logits < most ? logits : most));
}

double cache_floats(const tg_gpt_config *config, int64_t tokens)
{
    return 2 * (double)tokens * (double)config->layers * (double)config->key_heads * (double)config->head_width;
}

const char *bytes_text(double bytes, char text[BYTES_TEXT])
{
    bool is_large = bytes >= 1e9;
    snprintf(text, BYTES_TEXT, "%.*f %s", is_large ? 2 : 1, bytes / (is_large ? 1e9 : 1e6), is_large ? "GB" : "MB");
    return text;
}
