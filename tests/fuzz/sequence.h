/* sequence: a program of calls on one tape, drawn from bytes, and the state that a failed call must not change. */
#ifndef TG_TESTS_FUZZ_SEQUENCE_H
#define TG_TESTS_FUZZ_SEQUENCE_H

#include <stdio.h>

#include <tapegrad_tools.h>

#include "fuzz.h"

enum { MAX_OWNED = 24, MAX_RESULTS = 48, MAX_SCOPES = 8, MAX_NUMBERS = 16, MAX_VALUES = 4096 };

/* Everything that a call can change, in parts that a message can name. */
typedef enum part {
    VALUES,
    VERSIONS, /* and shapes, requires_grad and history */
    GRADIENTS,
    ROW_STATES,
    GENERATOR,
    TAPE,
    PARAMS,
    OPTIMIZER,
    MODELS,
    PARTS
} part;

typedef struct state {
    uint64_t hash[PARTS];
} state;

typedef struct program {
    fuzz_input input;
    tg_run *run;
    tg_tape *tape;
    bool detects_freed;
    tg_params *params;
    tg_optim *optim;
    tg_gpt *gpt;
    tg_kv_cache *cache;
    tg_tensor *owned[MAX_OWNED];     /* tensors of the program */
    tg_tensor *results[MAX_RESULTS]; /* results of the tape that are alive */
    tg_tensor *freed[MAX_RESULTS];   /* results that the tape has freed, if it detects them */
    int owned_count, result_count, freed_count;
    int scopes[MAX_SCOPES];   /* result_count at the beginning of each scope */
    bool is_span[MAX_SCOPES]; /* whether it is a span of tg_activation_checkpoint_begin */
    int scope_count;
    tg_nn_embedding embedding;
    tg_nn_embedding_bag embedding_bag;
    tg_nn_positional positional, positional_of_attention;
    tg_nn_linear linear;
    tg_nn_layer_norm layer_norm;
    tg_nn_batch_norm batch_norm;
    tg_nn_rms_norm rms_norm;
    tg_nn_norm norm;
    tg_tensor *slots[2];
    tg_nn_multihead_attention multihead_attention;
    tg_nn_feed_forward feed_forward;
    tg_nn_transformer_block transformer_block;
    FILE *file;

    /* arguments and results of the running call */
    const char *call;
    tg_tensor *last; /* the last argument of the call that is a tensor */
    state before;
    tg_error error;
    tg_tensor *parts[MAX_NUMBERS], *indices;
    int32_t numbers[MAX_NUMBERS];
    tg_row_neighbor neighbors[MAX_NUMBERS];
    tg_nan_report nan_report;
} program;

/* Adds to the trace of the program, which is printed if a rule is broken. */
void note(const char *format, ...) TG_PRINTF_LIKE(1, 2);

/* Whether the programs print hashes of their results. All NaNs then count as the same one. */
extern bool prints_bits;

/* Returns hashes of the state of everything that the program can reach (sequence_state.c). */
state state_of(const program *p);

/* ---- arguments (sequence_draw.c). The configs are NULL, from their default function, or without its mark. ---- */

tg_tensor *draw_tensor(program *p, tg_dtype usual);   /* NULL now and then; u8 and i32 are rare unless usual */
tg_tensor *draw_optional(program *p, tg_dtype usual); /* NULL half of the time */
tg_tensor *draw_vector(program *p);                   /* usually (C) for the last argument (..,C) */
tg_tensor *const *draw_tensors(program *p);           /* MAX_NUMBERS tensors */
int draw_axis(program *p);
int draw_capacity(program *p); /* in [-1,MAX_NUMBERS] */
int draw_choice(program *p);   /* of an enum: 0, 1, ..; now and then no value of the enum */
int64_t draw_integer(program *p);
double draw_double(program *p);
bool draw_bool(program *p);
tg_evaluation draw_evaluation(program *p);
int64_t draw_width(program *p); /* usually 4, the width of the modules of the program */
int64_t draw_heads(program *p); /* usually 2 */
tg_shape draw_shape(program *p);
tg_shape draw_new_shape(program *p, const tg_tensor *x); /* usually with as many values as x */
tg_axes draw_axes(program *p);
tg_axes draw_order(program *p, const tg_tensor *x); /* usually an order of the axes of x */
const char *draw_name(program *p);
tg_rng *draw_rng(program *p);
tg_kv_cache *draw_cache(program *p);
tg_tensor **draw_slot(program *p, int slot);

const tg_embedding_config *draw_tg_embedding_config(program *p);
const tg_embedding_bag_config *draw_tg_embedding_bag_config(program *p);
const tg_scaled_dot_product_attention_config *draw_tg_scaled_dot_product_attention_config(program *p);
const tg_rotary_config *draw_tg_rotary_config(program *p);
const tg_cross_entropy_config *draw_tg_cross_entropy_config(program *p);
const tg_binary_cross_entropy_with_logits_config *draw_tg_binary_cross_entropy_with_logits_config(program *p);
const tg_kl_div_config *draw_tg_kl_div_config(program *p);
const tg_smooth_l1_loss_config *draw_tg_smooth_l1_loss_config(program *p);
const tg_huber_loss_config *draw_tg_huber_loss_config(program *p);
const tg_cosine_embedding_loss_config *draw_tg_cosine_embedding_loss_config(program *p);
const tg_hinge_embedding_loss_config *draw_tg_hinge_embedding_loss_config(program *p);
const tg_margin_ranking_loss_config *draw_tg_margin_ranking_loss_config(program *p);
const tg_triplet_margin_loss_config *draw_tg_triplet_margin_loss_config(program *p);
const tg_contrastive_loss_config *draw_tg_contrastive_loss_config(program *p);
const tg_conv1d_config *draw_tg_conv1d_config(program *p);
const tg_pool1d_config *draw_tg_pool1d_config(program *p);
const tg_backward_config *draw_tg_backward_config(program *p);
const tg_tensor_print_config *draw_tg_tensor_print_config(program *p);
const tg_nn_embedding_config *draw_tg_nn_embedding_config(program *p);
const tg_nn_embedding_bag_config *draw_tg_nn_embedding_bag_config(program *p);
const tg_nn_positional_config *draw_tg_nn_positional_config(program *p);
const tg_nn_layer_norm_config *draw_tg_nn_layer_norm_config(program *p);
const tg_nn_batch_norm_config *draw_tg_nn_batch_norm_config(program *p);
const tg_nn_rms_norm_config *draw_tg_nn_rms_norm_config(program *p);
const tg_kv_cache_config *draw_tg_kv_cache_config(program *p);
const tg_nn_feed_forward_config *draw_tg_nn_feed_forward_config(program *p);
const tg_nn_multihead_attention_config *draw_tg_nn_multihead_attention_config(program *p);
const tg_nn_multihead_attention_forward_config *draw_tg_nn_multihead_attention_forward_config(program *p);
const tg_nn_transformer_block_config *draw_tg_nn_transformer_block_config(program *p);
const tg_gpt_config *draw_tg_gpt_config(program *p);
const tg_gpt_forward_config *draw_tg_gpt_forward_config(program *p);
const tg_lora_config *draw_tg_lora_config(program *p);
const tg_sample_config *draw_tg_sample_config(program *p);
const tg_sgd_config *draw_tg_sgd_config(program *p);
const tg_adam_config *draw_tg_adam_config(program *p);
const tg_adamw_config *draw_tg_adamw_config(program *p);
const tg_sparse_adam_config *draw_tg_sparse_adam_config(program *p);
const tg_adagrad_config *draw_tg_adagrad_config(program *p);
const tg_rmsprop_config *draw_tg_rmsprop_config(program *p);
const tg_lion_config *draw_tg_lion_config(program *p);
const tg_muon_config *draw_tg_muon_config(program *p);
const tg_schedule_config *draw_tg_schedule_config(program *p);

#endif
