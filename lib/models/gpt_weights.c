/* gpt_weights: the names and shapes of a GPT's weights in the files of other programs.
 *
 * Those of transformers are those of OpenAI's GPT-2: a linear layer stores its weight as (in,out), and the queries,
 * keys and values of a block are one layer. The prefix is "transformer." for a GPT2LMHeadModel and "" for a GPT2Model;
 * the head has none. Those of the book are the names of the params, without a prefix.
 */
#include <stdio.h>
#include <string.h>

#include "models/gpt.h"
#include "models/gpt_files.h"
#include "models/lora.h"
#include "params/params.h"
#include "tensor/tensor.h"

/* The sizes of the axes of a weight; NONE: a vector. */
typedef enum axis_size { NONE, VOCABULARY, POSITIONS, WIDTH, HIDDEN } axis_size;

/* The names of a weight in transformers and in the model here, and its shape here. `own` is part number `part` of
 * `parts` equal parts of the last axis of `other`, transposed if that is (in,out). */
typedef struct names {
    const char *other, *own;
    bool is_transposed;
    int part, parts;
    axis_size rows, columns;
} names;

static const names of_model[] = {
    {"wte.weight", "tok_emb.weight", false, 0, 1, VOCABULARY, WIDTH},
    {"wpe.weight", "pos_emb.weight", false, 0, 1, POSITIONS, WIDTH},
    {"ln_f.weight", "final_norm.scale", false, 0, 1, WIDTH, NONE},
    {"ln_f.bias", "final_norm.shift", false, 0, 1, WIDTH, NONE},
};

static const names of_block[] = {
    {"ln_1.weight", "norm1.scale", false, 0, 1, WIDTH, NONE},
    {"ln_1.bias", "norm1.shift", false, 0, 1, WIDTH, NONE},
    {"attn.c_attn.weight", "att.W_query.weight", true, 0, 3, WIDTH, WIDTH},
    {"attn.c_attn.weight", "att.W_key.weight", true, 1, 3, WIDTH, WIDTH},
    {"attn.c_attn.weight", "att.W_value.weight", true, 2, 3, WIDTH, WIDTH},
    {"attn.c_attn.bias", "att.W_query.bias", false, 0, 3, WIDTH, NONE},
    {"attn.c_attn.bias", "att.W_key.bias", false, 1, 3, WIDTH, NONE},
    {"attn.c_attn.bias", "att.W_value.bias", false, 2, 3, WIDTH, NONE},
    {"attn.c_proj.weight", "att.out_proj.weight", true, 0, 1, WIDTH, WIDTH},
    {"attn.c_proj.bias", "att.out_proj.bias", false, 0, 1, WIDTH, NONE},
    {"ln_2.weight", "norm2.scale", false, 0, 1, WIDTH, NONE},
    {"ln_2.bias", "norm2.shift", false, 0, 1, WIDTH, NONE},
    {"mlp.c_fc.weight", "ff.layers.0.weight", true, 0, 1, HIDDEN, WIDTH},
    {"mlp.c_fc.bias", "ff.layers.0.bias", false, 0, 1, HIDDEN, NONE},
    {"mlp.c_proj.weight", "ff.layers.2.weight", true, 0, 1, WIDTH, HIDDEN},
    {"mlp.c_proj.bias", "ff.layers.2.bias", false, 0, 1, WIDTH, NONE},
};

static const names of_head = {"lm_head.weight", "out_head.weight", false, 0, 1, VOCABULARY, WIDTH};

#define OF_MODEL ((int64_t)(sizeof of_model / sizeof *of_model))
#define OF_BLOCK ((int64_t)(sizeof of_block / sizeof *of_block))

/* A weight of the model; its full names. */
typedef struct weight {
    char other[80], own[80];
    tg_shape shape;
    bool is_transposed;
    int part, parts;
} weight;

static int64_t size_of(const tg_gpt_config *c, axis_size axis)
{
    const int64_t sizes[] = {
        [VOCABULARY] = c->vocabulary, [POSITIONS] = c->context, [WIDTH] = c->width, [HIDDEN] = 4 * c->width};
    return sizes[axis];
}

/* Finds weight number `i`. Returns false if the model has no more. */
static bool weight_at(const tg_gpt_config *c, tg_gpt_names layout, const char *prefix, int64_t i, weight *w)
{
    int64_t in_blocks = i - OF_MODEL, block = in_blocks / OF_BLOCK;
    bool is_of_model = in_blocks < 0, is_of_block = !is_of_model && block < c->layers;
    if (!is_of_model && !is_of_block && (c->tied_head || in_blocks > c->layers * OF_BLOCK)) {
        return false;
    }
    const names *n = is_of_model ? &of_model[i] : is_of_block ? &of_block[in_blocks % OF_BLOCK] : &of_head;
    char part[32] = "";
    if (is_of_block) {
        snprintf(part, sizeof part, "trf_blocks.%lld.", (long long)block);
    }
    snprintf(w->own, sizeof w->own, "%s%s", part, n->own);
    w->shape =
        n->columns == NONE ? TG_SHAPE(size_of(c, n->rows)) : TG_SHAPE(size_of(c, n->rows), size_of(c, n->columns));
    if (layout == TG_GPT_NAMES_COURSE) {
        memcpy(w->other, w->own, sizeof w->own);
        w->is_transposed = false;
        w->part = 0;
        w->parts = 1;
        return true;
    }
    if (is_of_block) {
        snprintf(part, sizeof part, "h.%lld.", (long long)block);
    }
    snprintf(w->other, sizeof w->other, "%s%s%s", n == &of_head ? "" : prefix, part, n->other);
    w->is_transposed = n->is_transposed;
    w->part = n->part;
    w->parts = n->parts;
    return true;
}

/* Returns the shape that the weight has there. */
static tg_shape shape_there(const weight *w)
{
    tg_shape shape = w->is_transposed ? TG_SHAPE(w->shape.size[1], w->shape.size[0]) : w->shape;
    shape.size[shape.rank - 1] *= w->parts;
    return shape;
}

tg_params *tg_gpt_weights_new(const tg_params *own, const tg_gpt_config *c, tg_gpt_names layout, const char *prefix,
                              tg_error *error)
{
    tg_params *weights = tg_params_new(NULL, tg_params_dtype(own));
    weight w;
    for (int64_t i = 0; weights && weight_at(c, layout, prefix, i, &w); i++) {
        const tg_tensor *mine = tg_params_find(own, w.own);
        /* the book's model without biases has none in its file */
        if (w.part == 0 && (mine || layout == TG_GPT_NAMES_TRANSFORMERS)) {
            tg_params_add(weights, w.other, shape_there(&w));
        }
    }
    const tg_error *problem = tg_params_error(weights);
    if (problem->code != TG_OK) {
        tg_error_copy(error, problem);
        tg_params_free(weights);
        return NULL;
    }
    return weights;
}

/* Copies own[r,c] to or from there[c, part * rows + r] if that is transposed, else there[part * columns + c] of a
 * vector and there[r,c] of a matrix. */
static void copy(tg_tensor *there, tg_tensor *own, const weight *w, bool to_model)
{
    bool is_vector = own->rank == 1;
    int64_t rows = is_vector ? 1 : own->shape[0], columns = own->shape[own->rank - 1];
    size_t size = tg_dtype_size(tg_dtype_of(own));
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t c = 0; c < columns; c++) {
            int64_t at = w->is_transposed ? (c * w->parts + w->part) * rows + r : (w->part * rows + r) * columns + c;
            char *a = (char *)tg_values(own) + (size_t)(r * columns + c) * size;
            char *b = (char *)tg_values(there) + (size_t)at * size;
            memcpy(to_model ? a : b, to_model ? b : a, size);
        }
    }
}

/* Copies a weight of a model, with its LoRA. */
static bool copy_from(const char *call, const tg_gpt *model, tg_tensor *there, tg_tensor *own, const weight *w,
                      tg_error *error)
{
    const tg_nn_linear *layer = tg_gpt_layer_of(model, own);
    tg_tensor *merged = layer && layer->lora_a ? tg_lora_new_merged(call, layer, error) : tg_retain(own);
    if (merged) {
        copy(there, merged, w, false);
    }
    tg_release(merged);
    return merged != NULL;
}

bool tg_gpt_weights_copy(const char *call, tg_params *weights, tg_params *own, const tg_gpt_config *c,
                         tg_gpt_names layout, const char *prefix, const tg_gpt *from, tg_error *error)
{
    weight w;
    for (int64_t i = 0; weight_at(c, layout, prefix, i, &w); i++) {
        tg_tensor *there = tg_params_find(weights, w.other), *mine = tg_params_find(own, w.own);
        if (!there || !mine) {
            continue;
        }
        if (!tg_tensor_check(call, w.own, mine, error)) {
            return false;
        }
        if (tg_shard_of(mine).rows > 0) {
            return tg_error_set(error, TG_ERROR_STATE, "%s: '%s' is a shard; its rows are divided among processes",
                                call, w.own);
        }
        if (!tg_shape_equal(tg_shape_of(mine), w.shape)) {
            char found[TG_SHAPE_TEXT], expected[TG_SHAPE_TEXT];
            return tg_error_set(error, TG_ERROR_SHAPE, "%s: '%s' is %s; in a model of this config it must be %s", call,
                                w.own, tg_shape_format(tg_shape_of(mine), found), tg_shape_format(w.shape, expected));
        }
        if (!from) {
            copy(there, mine, &w, true);
        } else if (!copy_from(call, from, there, mine, &w, error)) {
            return false;
        }
    }
    return true;
}
