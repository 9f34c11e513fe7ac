/* Arguments of calls, from the bytes of a program. Most are valid; the others are those at which code breaks: 0, the
 * smallest and the largest number, infinities, NaN, NULL, and ranks and axes that do not exist. */
#include <math.h>
#include <string.h>

#include "sequence.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

static unsigned byte(program *p)
{
    return fuzz_byte(&p->input);
}

/* ---- tensors ---- */

/* Writes a tensor to the trace. The getters of a freed result would set the tape's error, so its shape is left out. */
static tg_tensor *noted(program *p, const char *list, int index, tg_tensor *x)
{
    char text[TG_SHAPE_TEXT];
    note(" %s%d", list, index);
    if (x && list[0] != 'f') {
        p->last = x;
        note(":%s%s%s", tg_dtype_name(tg_tensor_dtype(x)), tg_shape_format(tg_tensor_shape(x), text),
             tg_tensor_requires_grad(x) ? "*" : "");
    }
    return x;
}

/* A view of the last tensor, which the tape owns; without one the tensor itself. */
static tg_tensor *draw_view_of_last(program *p)
{
    tg_tensor *x = p->last, *view = NULL;
    const unsigned drawn = byte(p);
    const int axis = drawn / 8 % 2 ? -1 : 0;
    if (tg_tape_error(p->tape)->code == TG_OK) {
        switch (drawn % 4) {
        case 0: view = tg_slice(p->tape, x, axis, 0, 1, 1); break;
        case 1: view = tg_expand(p->tape, tg_slice(p->tape, x, axis, 0, 1, 1), tg_tensor_shape(x)); break;
        case 2: view = tg_flip(p->tape, x, TG_AXES(axis)); break;
        default: view = tg_transpose(p->tape, x, 0, -1);
        }
        tg_run_clear_error(p->run); /* a scalar has no axis */
    }
    return noted(p, view ? "view" : "last", (int)drawn, view ? view : x);
}

tg_tensor *draw_tensor(program *p, tg_dtype usual)
{
    unsigned drawn = byte(p);
    int entries = (int)tg_params_count(p->params), all = p->owned_count + p->result_count + entries;
    if (drawn >= 252 || all == 0) {
        bool is_freed = drawn > 252 && p->freed_count > 0;
        return is_freed ? noted(p, "freed", 0, p->freed[byte(p) % (unsigned)p->freed_count])
                        : noted(p, "NULL", 0, NULL);
    }
    if (drawn >= 240 && p->last) {
        return draw_view_of_last(p);
    }
    if (drawn >= 232 && p->last) {
        return noted(p, "last", 0, p->last);
    }
    /* Half of the bytes count from the newest result. From there on, the first tensor of a usual dtype is taken. */
    int start = drawn < 128 ? (int)drawn % all : (p->owned_count + p->result_count - 1 - (int)(drawn - 128) % all);
    for (int i = 0; i < all; i++) {
        int at = ((start + i) % all + all) % all;
        const char *list = at < p->owned_count ? "owned" : at < p->owned_count + p->result_count ? "result" : "param";
        int index = list[0] == 'o' ? at : list[0] == 'r' ? at - p->owned_count : at - p->owned_count - p->result_count;
        tg_tensor *x = list[0] == 'o'   ? p->owned[index]
                       : list[0] == 'r' ? p->results[index]
                                        : tg_params_at(p->params, index).tensor;
        tg_dtype dtype = tg_tensor_dtype(x);
        bool is_usual = usual == TG_F32 ? dtype == TG_F32 || dtype == TG_F64 : dtype == usual;
        if (is_usual || drawn % 16 == 0 || i == all - 1) {
            return noted(p, list, index, x);
        }
    }
    return NULL;
}

tg_tensor *draw_vector(program *p)
{
    unsigned drawn = byte(p);
    int entries = (int)tg_params_count(p->params);
    for (int i = 0; drawn < 200 && i < entries; i++) {
        int at = (int)(drawn + (unsigned)i) % entries;
        tg_tensor *x = tg_params_at(p->params, at).tensor;
        if (tg_tensor_rank(x) == 1 && tg_tensor_size(x, 0) == tg_tensor_size(p->last, -1)) {
            tg_tensor *last = p->last;
            noted(p, "param", at, x);
            p->last = last;
            return x;
        }
    }
    return draw_tensor(p, TG_F32);
}

tg_tensor *draw_optional(program *p, tg_dtype usual)
{
    return byte(p) % 2 ? draw_tensor(p, usual) : NULL;
}

tg_tensor *const *draw_tensors(program *p)
{
    static tg_tensor *tensors[MAX_NUMBERS];
    for (int i = 0; i < MAX_NUMBERS; i++) {
        tensors[i] = i < 3 ? draw_tensor(p, TG_F32) : tensors[i - 3];
    }
    return tensors;
}

/* ---- numbers ---- */

int64_t draw_integer(program *p)
{
    static const int64_t special[] = {
        INT64_MAX, INT64_MIN, INT64_MAX - 1, (int64_t)1 << 40, (int64_t)1 << 32, INT32_MAX, INT32_MIN, (int64_t)1 << 31,
        -100,      255,       65536,         1 << 20};
    unsigned drawn = byte(p);
    int64_t value = drawn < 224 ? (int64_t)(drawn % 10) - 1 : special[drawn % (unsigned)COUNT(special)];
    note(" %lld", (long long)value);
    return value;
}

int64_t draw_width(program *p)
{
    return byte(p) < 200 ? 4 : draw_integer(p);
}

int64_t draw_heads(program *p)
{
    return byte(p) < 200 ? 2 : draw_integer(p);
}

int draw_axis(program *p)
{
    unsigned drawn = byte(p);
    int axis = drawn < 240 ? (int)(drawn % 6) - 3 : drawn < 248 ? 100 : INT32_MIN;
    note(" axis %d", axis);
    return axis;
}

int draw_capacity(program *p)
{
    int capacity = (int)(byte(p) % (MAX_NUMBERS + 2)) - 1;
    note(" %d", capacity);
    return capacity;
}

int draw_choice(program *p)
{
    unsigned drawn = byte(p);
    int choice = drawn < 248 ? (int)(drawn % 8) : -1;
    note(" choice %d", choice);
    return choice;
}

double draw_double(program *p)
{
    static const double values[] = {0,    1,   0.5,  2,        -1,        0.1,    1e-5,    0.9, -0.5,
                                    1e30, NAN, 1e-8, INFINITY, -INFINITY, 5e-324, 1.7e308, 3,   0.25};
    double value = values[byte(p) % (unsigned)COUNT(values)];
    note(" %g", value);
    return value;
}

bool draw_bool(program *p)
{
    bool value = byte(p) % 2;
    note(" %s", value ? "true" : "false");
    return value;
}

tg_evaluation draw_evaluation(program *p)
{
    bool recording = draw_bool(p);
    return (tg_evaluation){recording, draw_bool(p)};
}

/* The last ones have rows and columns around sizes at which kernels change their loops. */
tg_shape draw_shape(program *p)
{
    static const tg_shape usual[] = {
        {2, {2, 3}},      {2, {3, 4}},   {1, {4}},      {2, {4, 4}},       {3, {2, 3, 4}}, {0, {0}},
        {2, {0, 4}},      {1, {3}},      {2, {1, 4}},   {4, {2, 2, 3, 2}}, {2, {5, 4}},    {1, {0}},
        {3, {2, 3, 4}},   {1, {1}},      {1, {-1}},     {3, {2, 1, 3}},    {2, {3, 3}},    {3, {1, 3, 4}},
        {2, {4, 4}},      {2, {1, 3}},   {2, {2, 129}}, {2, {65, 2}},      {1, {513}},     {2, {3, 193}},
        {3, {2, 128, 1}}, {2, {33, 17}},
    };
    char text[TG_SHAPE_TEXT];
    unsigned drawn = byte(p);
    tg_shape shape = usual[drawn % (unsigned)COUNT(usual)];
    if (drawn >= 200) {
        shape.rank = (int)(byte(p) % 11) - 1;
        for (int axis = 0; axis < shape.rank && axis < TG_MAX_RANK; axis++) {
            shape.size[axis] = draw_integer(p);
        }
    }
    note(" shape %s", shape.rank < 0 || shape.rank > TG_MAX_RANK ? "invalid" : tg_shape_format(shape, text));
    return shape;
}

tg_shape draw_new_shape(program *p, const tg_tensor *x)
{
    tg_shape shape = tg_tensor_shape(x);
    unsigned drawn = byte(p);
    if (drawn < 128) {
        return draw_shape(p);
    }
    if (shape.rank > 1 && drawn % 2) {
        int64_t first = shape.size[0];
        shape.size[0] = shape.size[shape.rank - 1];
        shape.size[shape.rank - 1] = first;
    } else if (shape.rank < TG_MAX_RANK) {
        shape.size[shape.rank++] = drawn % 4 ? 1 : -1;
    }
    note(" reshaped");
    return shape;
}

tg_axes draw_axes(program *p)
{
    tg_axes axes = {.count = (int)(byte(p) % 6) - 1};
    for (int i = 0; i < axes.count; i++) {
        axes.axis[i] = draw_axis(p);
    }
    axes.count = axes.count == 4 ? TG_MAX_RANK + 1 : axes.count;
    note(" %d axes", axes.count);
    return axes;
}

tg_axes draw_order(program *p, const tg_tensor *x)
{
    tg_axes axes = {.count = tg_tensor_rank(x)};
    unsigned drawn = byte(p);
    if (drawn >= 128) {
        return draw_axes(p);
    }
    for (int i = 0; i < axes.count; i++) {
        axes.axis[i] = (int)((drawn + (unsigned)i) % (unsigned)axes.count);
    }
    note(" rotated");
    return axes;
}

const char *draw_name(program *p)
{
    static char long_name[300];
    memset(long_name, 'x', sizeof long_name - 1);
    const char *const names[] = {"a",
                                 "b",
                                 "c",
                                 "embedding.weight",
                                 "linear.weight",
                                 "default",
                                 "*",
                                 "*.weight",
                                 "",
                                 "d",
                                 "group",
                                 "e",
                                 "*a*",
                                 "a.weight",
                                 "f",
                                 NULL,
                                 long_name};
    const char *name = names[byte(p) % (unsigned)COUNT(names)];
    note(" \"%.20s\"", name ? name : "(NULL)");
    return name;
}

tg_rng *draw_rng(program *p)
{
    return byte(p) == 255 ? NULL : tg_run_rng(p->run);
}

tg_kv_cache *draw_cache(program *p)
{
    return byte(p) % 4 == 0 ? NULL : p->cache;
}

/* A tensor that the call may replace. */
tg_tensor **draw_slot(program *p, int slot)
{
    p->slots[slot] = draw_tensor(p, TG_F32);
    return &p->slots[slot];
}

/* ---- configs ---- */

/* A function that returns NULL, the default config with some fields drawn, or, rarely, a config without a mark. Fields
 * are set by the statements that follow; each is drawn if a bit of `set` is 1. */
#define CONFIG(type, ...)               \
    const type *draw_##type(program *p) \
    {                                   \
        static type config;             \
        config = type##_default();      \
        unsigned set = byte(p);         \
        if (set % 4 == 0) {             \
            note(" default");           \
            return NULL;                \
        }                               \
        note(" {");                     \
        type *c = &config;              \
        set /= 4;                       \
        __VA_ARGS__                     \
        if (set == 63) {                \
            c->mark = NULL;             \
        }                               \
        note(" }");                     \
        return c;                       \
    }

/* Draws a field if the next bit is 1. */
#define FIELD(name, value)        \
    if (set >> (bit++ % 6) & 1) { \
        note(" " #name);          \
        c->name = value;          \
    }
#define BITS unsigned bit = 0;
#define REAL(name) FIELD(name, draw_double(p))
#define WHOLE(name) FIELD(name, draw_integer(p))
#define FLAG(name) FIELD(name, draw_bool(p))
#define CHOICE(name, type) FIELD(name, (type)draw_choice(p))

CONFIG(tg_embedding_config, BITS WHOLE(padding_index) REAL(max_norm) REAL(norm_type) FLAG(scale_by_frequency))
CONFIG(tg_embedding_bag_config, BITS CHOICE(mode, tg_bag_mode) FIELD(offsets, draw_tensor(p, TG_I32)) FLAG(last_offset)
                                    FIELD(weights, draw_tensor(p, TG_F32)) WHOLE(padding_index) REAL(max_norm)
                                        REAL(norm_type) FLAG(scale_by_frequency))
CONFIG(tg_scaled_dot_product_attention_config,
       BITS FLAG(is_causal) REAL(dropout) FIELD(bias, draw_tensor(p, TG_F32)) CHOICE(path, tg_attention_path)
           REAL(scale) FIELD(lengths, draw_tensor(p, TG_I32)) FIELD(key_mask, draw_tensor(p, TG_U8)) FLAG(enable_gqa)
               WHOLE(window) FIELD(first_keys, draw_tensor(p, TG_I32)))
CONFIG(tg_rotary_config, BITS REAL(base) CHOICE(pairing, tg_rotary_pairing) REAL(position_scale) REAL(ntk_factor)
                             REAL(llama3_factor) REAL(low_frequency_factor) REAL(high_frequency_factor)
                                 WHOLE(original_context) FLAG(float_angles) FIELD(positions, draw_tensor(p, TG_I32)))
CONFIG(tg_cross_entropy_config, BITS FIELD(ignore_index, (int32_t)draw_integer(p)) REAL(label_smoothing)
                                    CHOICE(reduction, tg_reduction) FIELD(weight, draw_optional(p, TG_F32)))
CONFIG(tg_binary_cross_entropy_with_logits_config,
       BITS FIELD(weight, draw_optional(p, TG_F32)) FIELD(pos_weight, draw_optional(p, TG_F32))
           CHOICE(reduction, tg_reduction))
CONFIG(tg_kl_div_config, BITS FLAG(log_target) CHOICE(reduction, tg_reduction))
CONFIG(tg_smooth_l1_loss_config, BITS REAL(beta) CHOICE(reduction, tg_reduction))
CONFIG(tg_huber_loss_config, BITS REAL(delta) CHOICE(reduction, tg_reduction))
CONFIG(tg_cosine_embedding_loss_config, BITS REAL(margin) CHOICE(reduction, tg_reduction))
CONFIG(tg_hinge_embedding_loss_config, BITS REAL(margin) CHOICE(reduction, tg_reduction))
CONFIG(tg_margin_ranking_loss_config, BITS REAL(margin) CHOICE(reduction, tg_reduction))
CONFIG(tg_contrastive_loss_config,
       BITS REAL(scale) CHOICE(similarity, tg_similarity) FLAG(is_symmetric) FIELD(groups, draw_tensor(p, TG_I32)))
CONFIG(tg_triplet_margin_loss_config, BITS REAL(margin) REAL(p) REAL(eps) FLAG(swap) CHOICE(reduction, tg_reduction))
CONFIG(tg_conv1d_config, BITS WHOLE(stride) WHOLE(padding) WHOLE(dilation) WHOLE(groups))
CONFIG(tg_pool1d_config, BITS WHOLE(stride) WHOLE(padding) WHOLE(dilation))
CONFIG(tg_backward_config, BITS FIELD(gradient, draw_tensor(p, TG_F32)) FLAG(retain_graph))
CONFIG(tg_tensor_print_config, BITS FIELD(precision, draw_axis(p)) WHOLE(threshold) FIELD(edge_items, draw_axis(p))
                                   FIELD(line_width, (int)draw_integer(p)) FLAG(plain))
CONFIG(tg_nn_embedding_config,
       BITS WHOLE(padding_index) REAL(mean) FIELD(from, draw_tensor(p, TG_F32)) FLAG(frozen) REAL(max_norm) REAL(std))
CONFIG(tg_nn_embedding_bag_config, BITS CHOICE(mode, tg_bag_mode) FLAG(last_offset) WHOLE(padding_index) REAL(std)
                                       FIELD(from, draw_tensor(p, TG_F32)) REAL(max_norm))
CONFIG(tg_nn_positional_config, c->heads = 2;
       BITS WHOLE(heads) FLAG(sinusoidal_start) FIELD(buckets, draw_integer(p) % 64 * 4) WHOLE(max_distance) WHOLE(clip)
           REAL(rotary.base) FLAG(content_to_position) FLAG(position_to_content) FLAG(shared_projections)
               FIELD(position_buckets, draw_integer(p) % 64) WHOLE(max_relative_positions)
                   FIELD(distances, p->embedding.weight) FIELD(distances_norm, &p->layer_norm))
CONFIG(tg_nn_layer_norm_config, BITS REAL(eps))
CONFIG(tg_nn_batch_norm_config, BITS REAL(eps) REAL(momentum) FLAG(affine) FLAG(track_running_stats))
CONFIG(tg_nn_rms_norm_config, BITS REAL(eps) FLAG(plus_one) FLAG(no_weight))
static const int64_t windows[] = {2, 0, 1};
CONFIG(tg_kv_cache_config, BITS FIELD(windows, windows) FIELD(window_count, draw_integer(p) % 3 + 1))
CONFIG(tg_nn_feed_forward_config, BITS CHOICE(bias, tg_bias))
CONFIG(tg_nn_multihead_attention_config,
       BITS CHOICE(layout, tg_attention_layout) FLAG(bias) FLAG(is_causal) REAL(dropout)
           FIELD(positional, &p->positional_of_attention) CHOICE(path, tg_attention_path) WHOLE(key_heads)
               WHOLE(head_width) FLAG(out_bias) CHOICE(query_key_norm, tg_norm_kind) REAL(query_key_eps) REAL(scale)
                   WHOLE(window))
CONFIG(tg_nn_multihead_attention_forward_config,
       BITS FIELD(memory, draw_tensor(p, TG_F32)) FIELD(cache, p->cache) WHOLE(layer) FIELD(key, draw_tensor(p, TG_F32))
           FIELD(value, draw_tensor(p, TG_F32)) FIELD(lengths, draw_tensor(p, TG_I32))
               FIELD(key_mask, draw_tensor(p, TG_U8)) FIELD(positions, draw_tensor(p, TG_I32))
                   FIELD(first_keys, draw_tensor(p, TG_I32)))
CONFIG(tg_nn_transformer_block_config,
       BITS REAL(dropout) FIELD(attention.positional, &p->positional_of_attention) REAL(attention.dropout)
           CHOICE(attention.path, tg_attention_path) FLAG(attention.is_causal)
               CHOICE(attention.layout, tg_attention_layout) CHOICE(norm, tg_norm_kind) REAL(eps) FLAG(norm_after)
                   WHOLE(hidden) CHOICE(feed_forward, tg_feed_forward_kind) CHOICE(feed_forward_bias, tg_bias))
CONFIG(tg_gpt_config, c->vocabulary = 5; c->context = 6; c->width = 4; c->heads = 2; c->layers = 1;
       BITS WHOLE(context) REAL(dropout) CHOICE(position, tg_position) FLAG(tied_head) CHOICE(path, tg_attention_path)
           WHOLE(layers) WHOLE(heads) CHOICE(init, tg_gpt_init) FLAG(qkv_bias) WHOLE(vocabulary) WHOLE(key_heads)
               WHOLE(head_width) WHOLE(hidden) CHOICE(norm, tg_norm_kind) REAL(eps) FLAG(norm_after)
                   FLAG(query_key_norm) CHOICE(feed_forward, tg_feed_forward_kind) CHOICE(feed_forward_bias, tg_bias)
                       FLAG(out_bias) REAL(embedding_scale) REAL(attention_scale) WHOLE(period)
                           WHOLE(layers_of_period[0].window) REAL(layers_of_period[0].rotary.base))
CONFIG(tg_gpt_forward_config,
       BITS FIELD(cache, p->cache) FIELD(positions, draw_tensor(p, TG_I32)) FIELD(first_keys, draw_tensor(p, TG_I32))
           FIELD(loss, draw_tg_cross_entropy_config(p)))
CONFIG(tg_lora_config, c->rank = 1; c->alpha = 2; BITS WHOLE(rank) REAL(alpha))
CONFIG(tg_sample_config, c->greedy = false;
       BITS REAL(temperature) WHOLE(top_k) REAL(top_p) FLAG(greedy) REAL(min_p) REAL(repetition_penalty))
CONFIG(tg_sgd_config, BITS REAL(lr) REAL(momentum) REAL(dampening) REAL(weight_decay) FLAG(nesterov) FLAG(deferred))
CONFIG(tg_adam_config,
       BITS REAL(lr) REAL(beta1) REAL(beta2) REAL(eps) REAL(weight_decay) FLAG(amsgrad) FLAG(decoupled) FLAG(deferred))
CONFIG(tg_adamw_config,
       BITS REAL(lr) REAL(beta1) REAL(beta2) REAL(eps) REAL(weight_decay) FLAG(amsgrad) FLAG(decoupled) FLAG(deferred))
CONFIG(tg_sparse_adam_config, BITS REAL(lr) REAL(beta1) REAL(beta2) REAL(eps))
CONFIG(tg_adagrad_config, BITS REAL(lr) REAL(lr_decay) REAL(weight_decay) REAL(initial_accumulator) REAL(eps))
CONFIG(tg_rmsprop_config, BITS REAL(lr) REAL(alpha) REAL(momentum) FLAG(centered) REAL(eps) REAL(weight_decay))
CONFIG(tg_lion_config, BITS REAL(lr) REAL(beta1) REAL(beta2) REAL(weight_decay))
CONFIG(tg_muon_config, BITS REAL(lr) REAL(weight_decay) REAL(momentum) FLAG(nesterov) REAL(coefficients[0]) REAL(eps)
                           WHOLE(iterations) CHOICE(adjust_lr, tg_muon_adjust_lr))
CONFIG(tg_schedule_config, BITS CHOICE(kind, tg_schedule_kind) REAL(lr) WHOLE(warmup_steps) WHOLE(total_steps)
                               WHOLE(step_size) REAL(gamma) REAL(power) WHOLE(decay_steps) REAL(warmup_part))
