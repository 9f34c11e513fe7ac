#include "hugging_face.h"

#include "../common/program.h"

/* The names of a weight in transformers and in the model here. `own` is part number `part` of `parts` equal parts of
 * the last axis of `other`, transposed if that is (in,out). */
typedef struct names {
    const char *other, *own;
    bool is_transposed;
    int part, parts;
} names;

static const names of_model[] = {
    {"wte.weight", "tok_emb.weight", false, 0, 1},
    {"wpe.weight", "pos_emb.weight", false, 0, 1},
    {"ln_f.weight", "final_norm.scale", false, 0, 1},
    {"ln_f.bias", "final_norm.shift", false, 0, 1},
};

static const names of_block[] = {
    {"ln_1.weight", "norm1.scale", false, 0, 1},
    {"ln_1.bias", "norm1.shift", false, 0, 1},
    {"attn.c_attn.weight", "att.W_query.weight", true, 0, 3},
    {"attn.c_attn.weight", "att.W_key.weight", true, 1, 3},
    {"attn.c_attn.weight", "att.W_value.weight", true, 2, 3},
    {"attn.c_attn.bias", "att.W_query.bias", false, 0, 3},
    {"attn.c_attn.bias", "att.W_key.bias", false, 1, 3},
    {"attn.c_attn.bias", "att.W_value.bias", false, 2, 3},
    {"attn.c_proj.weight", "att.out_proj.weight", true, 0, 1},
    {"attn.c_proj.bias", "att.out_proj.bias", false, 0, 1},
    {"ln_2.weight", "norm2.scale", false, 0, 1},
    {"ln_2.bias", "norm2.shift", false, 0, 1},
    {"mlp.c_fc.weight", "ff.layers.0.weight", true, 0, 1},
    {"mlp.c_fc.bias", "ff.layers.0.bias", false, 0, 1},
    {"mlp.c_proj.weight", "ff.layers.2.weight", true, 0, 1},
    {"mlp.c_proj.bias", "ff.layers.2.bias", false, 0, 1},
};

static const names of_head = {"lm_head.weight", "out_head.weight", false, 0, 1};

#define OF_MODEL ((int64_t)(sizeof of_model / sizeof *of_model))
#define OF_BLOCK ((int64_t)(sizeof of_block / sizeof *of_block))

/* A weight of the model; its full names. */
typedef struct weight {
    char other[80], own[80];
    const names *names;
} weight;

/* Finds weight number `i`. Returns false if the model has no more. */
static bool weight_at(const tg_gpt_config *c, const char *prefix, int64_t i, weight *w)
{
    int64_t in_blocks = i - OF_MODEL, block = in_blocks / OF_BLOCK;
    if (in_blocks < 0) {
        w->names = &of_model[i];
        snprintf(w->other, sizeof w->other, "%s%s", prefix, w->names->other);
        snprintf(w->own, sizeof w->own, "%s", w->names->own);
    } else if (block < c->layers) {
        w->names = &of_block[in_blocks % OF_BLOCK];
        snprintf(w->other, sizeof w->other, "%sh.%lld.%s", prefix, (long long)block, w->names->other);
        snprintf(w->own, sizeof w->own, "trf_blocks.%lld.%s", (long long)block, w->names->own);
    } else if (in_blocks == c->layers * OF_BLOCK && !c->tied_head) {
        w->names = &of_head;
        snprintf(w->other, sizeof w->other, "%s", of_head.other);
        snprintf(w->own, sizeof w->own, "%s", of_head.own);
    } else {
        return false;
    }
    return true;
}

/* Returns the shape that the weight has there. A bias that the model does not have is as wide as the model. */
static tg_shape shape_there(const model *m, const weight *w)
{
    const tg_tensor *own = tg_params_find(m->params, w->own);
    tg_shape shape = own ? tg_tensor_shape(own) : TG_SHAPE(tg_gpt_get_config(m->gpt)->width);
    shape = w->names->is_transposed ? TG_SHAPE(shape.size[1], shape.size[0]) : shape;
    shape.size[shape.rank - 1] *= w->names->parts;
    return shape;
}

tg_params *hugging_face_params_new(const model *m, const char *prefix)
{
    tg_params *other = tg_params_new(TG_F32, NULL);
    weight w;
    for (int64_t i = 0; weight_at(tg_gpt_get_config(m->gpt), prefix, i, &w); i++) {
        if (w.names->part == 0) {
            tg_params_add(other, w.other, shape_there(m, &w));
        }
    }
    if (tg_params_error(other)->code != TG_OK) {
        complain("%s", tg_params_error(other)->text);
        tg_params_free(other);
        return NULL;
    }
    return other;
}

/* Returns a view of the part of `other` that is `own`, in the shape of `own`. */
static tg_tensor *view_of(tg_tape *t, tg_tensor *other, const names *n)
{
    int64_t length = tg_tensor_size(other, -1) / n->parts;
    tg_tensor *part = tg_slice(t, other, -1, n->part * length, (n->part + 1) * length, 1);
    return n->is_transposed ? tg_transpose(t, part, 0, 1) : part;
}

bool hugging_face_copy(tg_params *other, const char *prefix, const model *m, target to)
{
    tg_tape *t = quiet_tape_new(NULL);
    tg_error error = TG_NO_ERROR;
    weight w;
    bool is_copied = t != NULL;
    for (int64_t i = 0; is_copied && weight_at(tg_gpt_get_config(m->gpt), prefix, i, &w); i++) {
        tg_tensor *own = tg_params_find(m->params, w.own);
        tg_tensor *view = view_of(t, tg_params_find(other, w.other), w.names);
        if (!view) {
            is_copied = complain("%s", tg_tape_error(t)->text);
        } else if (own) {
            is_copied = tg_tensor_copy_from(to == TO_MODEL ? own : view, to == TO_MODEL ? view : own, &error) ||
                        complain("%s: %s", w.other, error.text);
        }
    }
    tg_tape_free(t);
    return is_copied;
}
