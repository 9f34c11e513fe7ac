/* gpt_parts: the parts of a model that have a weight, in the order of the params. */
#include <stdio.h>
#include <string.h>

#include "models/gpt.h"

typedef enum axis { NONE, VOCABULARY, POSITIONS, WIDTH, HIDDEN, QUERIES, KEYS, HEAD } axis;

/* What a config may have, which decides about a part or its bias. */
typedef enum condition {
    NEVER,
    ALWAYS,
    LEARNED,
    UNTIED,
    QKV_BIAS,
    OUT_BIAS,
    QUERY_KEY_NORM,
    GATED,
    NOT_GATED,
    FEED_FORWARD_BIAS,
    NORM_AFTER,
    LAYER_NORM,
    CONDITIONS
} condition;

/* A part, the axes of its weight, and when it and its bias exist. A norm has no columns. `layer` is the offset of its
 * Linear in a block. */
typedef struct slot {
    const char *name;
    axis rows, columns;
    condition exists, bias;
    size_t layer;
} slot;

#define LAYER(field) offsetof(tg_nn_transformer_block, field)

static const slot before[] = {
    {"tok_emb", VOCABULARY, WIDTH, ALWAYS, NEVER, 0},
    {"pos_emb", POSITIONS, WIDTH, LEARNED, NEVER, 0},
};

static const slot of_block[] = {
    {"att.W_query", QUERIES, WIDTH, ALWAYS, QKV_BIAS, LAYER(attention.query)},
    {"att.W_key", KEYS, WIDTH, ALWAYS, QKV_BIAS, LAYER(attention.key)},
    {"att.W_value", KEYS, WIDTH, ALWAYS, QKV_BIAS, LAYER(attention.value)},
    {"att.out_proj", WIDTH, QUERIES, ALWAYS, OUT_BIAS, LAYER(attention.out)},
    {"att.q_norm", HEAD, NONE, QUERY_KEY_NORM, LAYER_NORM, 0},
    {"att.k_norm", HEAD, NONE, QUERY_KEY_NORM, LAYER_NORM, 0},
    {"ff.fc1", HIDDEN, WIDTH, GATED, FEED_FORWARD_BIAS, LAYER(feed_forward.gate)},
    {"ff.fc2", HIDDEN, WIDTH, GATED, FEED_FORWARD_BIAS, LAYER(feed_forward.up)},
    {"ff.fc3", WIDTH, HIDDEN, GATED, FEED_FORWARD_BIAS, LAYER(feed_forward.down)},
    {"ff.layers.0", HIDDEN, WIDTH, NOT_GATED, FEED_FORWARD_BIAS, LAYER(feed_forward.up)},
    {"ff.layers.2", WIDTH, HIDDEN, NOT_GATED, FEED_FORWARD_BIAS, LAYER(feed_forward.down)},
    {"norm1", WIDTH, NONE, ALWAYS, LAYER_NORM, 0},
    {"norm2", WIDTH, NONE, ALWAYS, LAYER_NORM, 0},
    {"norm1_after", WIDTH, NONE, NORM_AFTER, LAYER_NORM, 0},
    {"norm2_after", WIDTH, NONE, NORM_AFTER, LAYER_NORM, 0},
};

static const slot after[] = {
    {"final_norm", WIDTH, NONE, ALWAYS, LAYER_NORM, 0},
    {"out_head", VOCABULARY, WIDTH, UNTIED, NEVER, 0},
};

#define COUNT(slots) ((int64_t)(sizeof slots / sizeof *slots))

/* Returns slot number `i`, and the number of its block, or -1; NULL after the last one. */
static const slot *slot_at(const tg_gpt_config *c, int64_t i, int64_t *block)
{
    *block = -1;
    if (i < COUNT(before)) {
        return &before[i];
    }
    i -= COUNT(before);
    if (i < c->layers * COUNT(of_block)) {
        *block = i / COUNT(of_block);
        return &of_block[i % COUNT(of_block)];
    }
    i -= c->layers * COUNT(of_block);
    return i < COUNT(after) ? &after[i] : NULL;
}

bool tg_gpt_next_part(const tg_gpt_config *c, tg_gpt_part *part)
{
    const int64_t sizes[] = {[VOCABULARY] = c->vocabulary,
                             [POSITIONS] = c->context,
                             [WIDTH] = c->width,
                             [HIDDEN] = c->hidden,
                             [QUERIES] = c->heads * c->head_width,
                             [KEYS] = c->key_heads * c->head_width,
                             [HEAD] = c->head_width};
    const bool holds[CONDITIONS] = {[ALWAYS] = true,
                                    [LEARNED] = c->position == TG_POSITION_LEARNED,
                                    [UNTIED] = !c->tied_head,
                                    [QKV_BIAS] = c->qkv_bias,
                                    [OUT_BIAS] = c->out_bias,
                                    [QUERY_KEY_NORM] = c->query_key_norm && c->norm != TG_NORM_NONE,
                                    [GATED] = c->feed_forward != TG_FEED_FORWARD_GELU,
                                    [NOT_GATED] = c->feed_forward == TG_FEED_FORWARD_GELU,
                                    [FEED_FORWARD_BIAS] = c->feed_forward_bias == TG_BIAS,
                                    [NORM_AFTER] = c->norm_after,
                                    [LAYER_NORM] = c->norm == TG_NORM_LAYER};
    const slot *s;
    do {
        s = slot_at(c, part->next++, &part->block);
    } while (s && (!holds[s->exists] || (s->columns == NONE && c->norm == TG_NORM_NONE)));
    if (!s) {
        return false;
    }
    if (part->block >= 0) {
        snprintf(part->name, sizeof part->name, "trf_blocks.%lld.%s", (long long)part->block, s->name);
    } else {
        snprintf(part->name, sizeof part->name, "%s", s->name);
    }
    part->is_norm = s->columns == NONE;
    part->has_bias = holds[s->bias];
    part->layer = s->layer;
    part->shape = part->is_norm ? TG_SHAPE(sizes[s->rows]) : TG_SHAPE(sizes[s->rows], sizes[s->columns]);
    return true;
}

tg_nn_linear *tg_gpt_layer_of(tg_gpt *model, const tg_gpt_part *part)
{
    if (part->block < 0) {
        return strcmp(part->name, "out_head") == 0 ? &model->out_head : NULL;
    }
    return part->layer > 0 ? (tg_nn_linear *)(void *)((char *)&model->blocks[part->block] + part->layer) : NULL;
}

bool tg_gpt_next_layer(tg_gpt *model, tg_gpt_part *part, tg_nn_linear **layer)
{
    do {
        if (!tg_gpt_next_part(&model->config, part)) {
            return false;
        }
        *layer = tg_gpt_layer_of(model, part);
    } while (!*layer);
    return true;
}
