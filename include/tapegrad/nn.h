/* nn: modules, as in torch.nn. A module is a plain value that refers to its parameters and owns nothing.
 *
 * `_make` adds the parameters to a tg_params under PyTorch's names ("<name>.weight", "<name>.bias"), and draws their
 * initial values from the generator of the params' run in PyTorch's order. So the same seed gives the same model. The
 * params must outlive the module.
 *
 * Errors. If `_make` or another call without a tape fails, the error is in the run of the params, and nothing is added,
 * changed or drawn; a module that is NULL has none, and the call returns false. A forward call of a module that was not
 * made fails with the same error, or with STATE once it is cleared. `_make` reports SHAPE, RANGE or VALUE for an
 * invalid size or field, VALUE for a name that is in use, STATE if it draws and the params have no generator, and
 * MEMORY. The comments do not repeat these errors. A forward call also reports the errors of the ops that it calls
 * (tapegrad/ops.h).
 *
 * ```c
 * tg_nn_embedding tokens = tg_nn_embedding_make(params, "tok_emb", 50257, 256, NULL);
 * tg_nn_positional positions = tg_nn_positional_make(params, "pos_emb", TG_POSITION_LEARNED, 1024, 256, NULL);
 * tg_tensor *embedded = tg_nn_embedding_forward(t, &tokens, ids);             // (B,T) -> (B,T,256)
 * tg_tensor *x = tg_nn_positional_forward(t, &positions, embedded, 0);       // (B,T,256)
 * ```
 *
 * A program may read the fields of a module, but must not write them. The values of its tensors it may write, before
 * the training or between two steps.
 */
#ifndef TAPEGRAD_NN_H
#define TAPEGRAD_NN_H

#include <tapegrad/ops.h>
#include <tapegrad/params.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The first member of every module. */
typedef struct tg_nn_module {
    const tg_params *params;
    /* whether `_make` succeeded */
    bool is_made;
} tg_nn_module;

/* ---- Embedding: torch.nn.Embedding ------------------------------------------------------------------------------- */

typedef struct tg_nn_embedding_config {
    /* private: tg_nn_embedding_config_default() sets it */
    tg_config_mark mark;
    /* the padding row, counted from the end if negative. It starts as zeros, unless the table is given (`from`), and is
     * frozen (tapegrad/rows.h). So it gets no gradient from a tied output head and no weight decay, unlike in PyTorch.
     * Default TG_NO_PADDING */
    int64_t padding_index;
    /* the mean and the standard deviation of the initial values, which are normal; default 0 and 1. After a
     * short training rows are still near them: for neighbors that mean something start with a std of 0.1, say */
    double mean, std;
    /* a table (rows,width) of the params' dtype to use, as in Embedding.from_pretrained; it is retained, not copied,
     * and nothing is drawn; default NULL */
    tg_tensor *from;
    /* whether the table is not trained; default false */
    bool frozen;
    /* as in tg_embedding_config; default 0 (no limit) and 2, false */
    double max_norm, norm_type;
    bool scale_by_frequency;
} tg_nn_embedding_config;

typedef struct tg_nn_embedding {
    tg_nn_module module;
    /* the table, (rows,width), owned by the params */
    tg_tensor *weight;
    /* the options of the forward pass */
    tg_embedding_config lookup;
    double mean, std;
} tg_nn_embedding;

TG_API tg_nn_embedding_config tg_nn_embedding_config_default(void);

/* Adds "<name>.weight" (rows,width), drawn from N(mean,std). */
TG_API tg_nn_embedding tg_nn_embedding_make(tg_params *params, const char *name, int64_t rows, int64_t width,
                                            const tg_nn_embedding_config *config);

/* Changes the number of rows to 1 or more, as tg_tensor_resize_rows, and draws the new rows, in one call of
 * N(mean,std). The tensor, its names and its optimizer stay in use. Errors as for tg_tensor_resize_rows,
 * and STATE if new rows need a generator that the params do not have. */
TG_API bool tg_nn_embedding_resize(tg_nn_embedding *embedding, int64_t rows);

/* tg_embedding: ids (..) i32 -> (..,width). */
TG_API tg_tensor *tg_nn_embedding_forward(tg_tape *tape, const tg_nn_embedding *embedding, tg_tensor *ids);

/* ---- EmbeddingBag: torch.nn.EmbeddingBag ------------------------------------------------------------------------- */

typedef struct tg_nn_embedding_bag_config {
    /* private: tg_nn_embedding_bag_config_default() sets it */
    tg_config_mark mark;
    /* sum, mean or maximum; default TG_BAG_MEAN */
    tg_bag_mode mode;
    /* whether offsets have one more entry, the end of the last bag; default false */
    bool last_offset;
    /* the padding row, which starts as zeros and is frozen, as in tg_nn_embedding_config. Its ids do not count: a mean
     * is over the other ids of the bag, and a bag with no other id gives zeros. Default TG_NO_PADDING */
    int64_t padding_index;
    /* as in tg_nn_embedding_config, with the same defaults; scale_by_frequency must be false with TG_BAG_MAX */
    double mean, std;
    tg_tensor *from;
    bool frozen;
    double max_norm, norm_type;
    bool scale_by_frequency;
} tg_nn_embedding_bag_config;

typedef struct tg_nn_embedding_bag {
    tg_nn_module module;
    /* the table, (rows,width), owned by the params */
    tg_tensor *weight;
    /* the options of the forward pass, without offsets and weights */
    tg_embedding_bag_config bag;
} tg_nn_embedding_bag;

TG_API tg_nn_embedding_bag_config tg_nn_embedding_bag_config_default(void);

/* Adds "<name>.weight" (rows,width), drawn from N(mean,std). */
TG_API tg_nn_embedding_bag tg_nn_embedding_bag_make(tg_params *params, const char *name, int64_t rows, int64_t width,
                                                    const tg_nn_embedding_bag_config *config);

/* tg_embedding_bag: ids (N) with offsets (bags), or ids (bags,length) without -> (bags,width). `offsets` and `weights`,
 * in the shape of ids, are optional. */
TG_API tg_tensor *tg_nn_embedding_bag_forward(tg_tape *tape, const tg_nn_embedding_bag *bag, tg_tensor *ids,
                                              tg_tensor *offsets, tg_tensor *weights);

/* ---- Linear: torch.nn.Linear ------------------------------------------------------------------------------------- */

/* whether a module has a bias; TG_BIAS_OF_KIND leaves it to the kind of a feed-forward network */
typedef enum tg_bias { TG_BIAS, TG_NO_BIAS, TG_BIAS_OF_KIND } tg_bias;

typedef struct tg_nn_linear {
    tg_nn_module module;
    /* the matrix, (out,in) */
    tg_tensor *weight;
    /* the bias, (out); NULL without one */
    tg_tensor *bias;
    /* the matrices of LoRA (tapegrad/lora.h), (rank,in) and (out,rank); NULL without them */
    tg_tensor *lora_a, *lora_b;
    /* the factor of their product, alpha / rank */
    double lora_scale;
} tg_nn_linear;

/* Adds "<name>.weight" (out,in) and "<name>.bias" (out), drawn in this order, both uniform in +-1/sqrt(in). With
 * TG_NO_BIAS the bias is neither added nor drawn. */
TG_API tg_nn_linear tg_nn_linear_make(tg_params *params, const char *name, int64_t in, int64_t out, tg_bias bias);

/* tg_linear: x weight^T + bias, x (..,in) -> (..,out). With LoRA, lora_scale (x lora_a^T) lora_b^T is added;
 * SHAPE if its matrices do not fit the weight. */
TG_API tg_tensor *tg_nn_linear_forward(tg_tape *tape, const tg_nn_linear *linear, tg_tensor *x);

/* ---- LayerNorm and RMSNorm over the last axis, BatchNorm over the batch: torch.nn -------------------------------- */

/* The eps that means the machine epsilon of the params' dtype, as torch's None does. */
#define TG_EPS_OF_DTYPE (-1.0)

typedef struct tg_nn_layer_norm_config {
    /* private: tg_nn_layer_norm_config_default() sets it */
    tg_config_mark mark;
    /* what is added to the variance, > 0, or TG_EPS_OF_DTYPE; default 1e-5 */
    double eps;
} tg_nn_layer_norm_config;

typedef struct tg_nn_layer_norm {
    tg_nn_module module;
    /* the parameters, (width) each */
    tg_tensor *weight, *bias;
    double eps;
} tg_nn_layer_norm;

TG_API tg_nn_layer_norm_config tg_nn_layer_norm_config_default(void);

/* Adds "<name>.weight" (width), ones, and "<name>.bias" (width), zeros. */
TG_API tg_nn_layer_norm tg_nn_layer_norm_make(tg_params *params, const char *name, int64_t width,
                                              const tg_nn_layer_norm_config *config);

/* tg_layer_norm: x (..,width) -> (..,width). */
TG_API tg_tensor *tg_nn_layer_norm_forward(tg_tape *tape, const tg_nn_layer_norm *norm, tg_tensor *x);

/* (x - mean) / sqrt(var + eps) * weight + bias for each channel (Ioffe and Szegedy 2015), as torch's: x (N,C,..) and
 * weight, bias, running_mean, running_var (C) -> the shape of x. In training, mean and biased var are those of the
 * channel's values in x, and the running statistics move to them, `running + momentum * (batch - running)`, with the
 * unbiased variance. In evaluation they are the running ones. Without these, both NULL, they are always those of x.
 * Weight and bias are optional: NULL is 1 or 0. Where the forward pass runs twice, as with activation checkpoints, the
 * running statistics move twice. SHAPE unless a channel has 2 values or more if its own statistics are used; STATE for
 * running statistics that are not contiguous or require a gradient; VALUE unless momentum is in [0,1] and eps > 0. */
TG_API tg_tensor *tg_batch_norm(tg_tape *tape, tg_tensor *x, tg_tensor *running_mean, tg_tensor *running_var,
                                tg_tensor *weight, tg_tensor *bias, double momentum, double eps);

/* torch.nn.BatchNorm1d, and for more axes BatchNorm2d and BatchNorm3d. */
typedef struct tg_nn_batch_norm_config {
    /* private: tg_nn_batch_norm_config_default() sets it */
    tg_config_mark mark;
    /* what is added to the variance, > 0, or TG_EPS_OF_DTYPE; default 1e-5 */
    double eps;
    /* the weight of a batch in the running statistics, in [0,1]; default 0.1 */
    double momentum;
    /* whether there are a weight and a bias; default true */
    bool affine;
    /* whether there are running statistics, which evaluation uses; default true */
    bool track_running_stats;
} tg_nn_batch_norm_config;

typedef struct tg_nn_batch_norm {
    tg_nn_module module;
    /* the parameters, (channels) each; NULL without affine */
    tg_tensor *weight, *bias;
    /* the buffers, (channels) each; NULL without track_running_stats */
    tg_tensor *running_mean, *running_var;
    double eps, momentum;
} tg_nn_batch_norm;

TG_API tg_nn_batch_norm_config tg_nn_batch_norm_config_default(void);

/* Adds "<name>.weight" (channels), ones, and "<name>.bias" (channels), zeros, and the buffers "<name>.running_mean",
 * zeros, and "<name>.running_var", ones. A file of torch has "<name>.num_batches_tracked", too: it is unexpected when
 * it is loaded, so set `strict` to false. */
TG_API tg_nn_batch_norm tg_nn_batch_norm_make(tg_params *params, const char *name, int64_t channels,
                                              const tg_nn_batch_norm_config *config);

/* tg_batch_norm: x (N,channels,..) -> the shape of x. */
TG_API tg_tensor *tg_nn_batch_norm_forward(tg_tape *tape, const tg_nn_batch_norm *norm, tg_tensor *x);

typedef struct tg_nn_rms_norm_config {
    /* private: tg_nn_rms_norm_config_default() sets it */
    tg_config_mark mark;
    /* what is added to the mean square, > 0; default TG_EPS_OF_DTYPE */
    double eps;
    /* whether the factor is 1 + weight, and the weight starts as zeros, as in Gemma; default false */
    bool plus_one;
    /* whether there is no weight (elementwise_affine=False in torch), so that the factor is 1; default false */
    bool no_weight;
} tg_nn_rms_norm_config;

typedef struct tg_nn_rms_norm {
    tg_nn_module module;
    /* the parameter, (width); NULL without one */
    tg_tensor *weight;
    double eps;
    bool plus_one;
} tg_nn_rms_norm;

TG_API tg_nn_rms_norm_config tg_nn_rms_norm_config_default(void);

/* Adds "<name>.weight" (width): ones, or zeros with plus_one. */
TG_API tg_nn_rms_norm tg_nn_rms_norm_make(tg_params *params, const char *name, int64_t width,
                                          const tg_nn_rms_norm_config *config);

/* tg_rms_norm: x (..,width) -> (..,width). */
TG_API tg_tensor *tg_nn_rms_norm_forward(tg_tape *tape, const tg_nn_rms_norm *norm, tg_tensor *x);

/* The norms of a block, of which a model chooses one. */
typedef enum tg_norm_kind {
    /* no norm */
    TG_NORM_NONE,
    /* tg_layer_norm: GPT-2 */
    TG_NORM_LAYER,
    /* tg_rms_norm: Llama */
    TG_NORM_RMS,
    /* tg_rms_norm with 1 + the weight, which starts as zeros: Gemma */
    TG_NORM_RMS_PLUS_ONE
} tg_norm_kind;

typedef struct tg_nn_norm {
    tg_nn_module module;
    /* the argument of `_make` */
    tg_norm_kind kind;
    /* the parameters, (width) each: no weight for TG_NORM_NONE, and a bias for TG_NORM_LAYER alone; else NULL */
    tg_tensor *weight, *bias;
    double eps;
} tg_nn_norm;

/* Adds the parameters of a kind under the book's names: "<name>.scale" and, for TG_NORM_LAYER, "<name>.shift". eps is
 * above 0, or TG_EPS_OF_DTYPE. */
TG_API tg_nn_norm tg_nn_norm_make(tg_params *params, const char *name, int64_t width, tg_norm_kind kind, double eps);

/* Applies the norm: x (..,width) -> (..,width); x itself for TG_NORM_NONE. */
TG_API tg_tensor *tg_nn_norm_forward(tg_tape *tape, const tg_nn_norm *norm, tg_tensor *x);

/* ---- positions --------------------------------------------------------------------------------------------------- */

typedef enum tg_position {
    /* Absolute kinds add a vector per position to the tokens' vectors. */

    /* a trained table (context,width): GPT */
    TG_POSITION_LEARNED,
    /* a fixed table of sines and cosines with geometric wavelengths: Vaswani et al. 2017, section 3.5 */
    TG_POSITION_SINUSOIDAL,

    /* Relative kinds let attention depend on the distance between a query and a key. */

    /* a rotation of queries and keys: Su et al. 2021 */
    TG_POSITION_ROTARY,
    /* a fixed penalty for distance: Press, Smith and Lewis 2022 */
    TG_POSITION_ALIBI,
    /* a trained number per head and bucket of distances: Raffel et al. 2020 */
    TG_POSITION_T5,
    /* trained vectors per clipped distance: Shaw, Uszkoreit and Vaswani 2018 */
    TG_POSITION_SHAW,
    /* sinusoidal distances times a trained matrix, and two biases: Dai et al. 2019. As in the authors' code, all sines
     * come before all cosines */
    TG_POSITION_TRANSFORMER_XL,
    /* a trained vector per distance, multiplied with the query: Huang et al. 2020, and relative_key in transformers */
    TG_POSITION_RELATIVE_KEY,
    /* the same, multiplied with the query and with the key: relative_key_query in transformers */
    TG_POSITION_RELATIVE_KEY_QUERY,
    /* a trained vector per distance, or per bucket of distances. Each layer projects it to a key for the queries, and
     * to a query for the keys: He et al. 2021, and DeBERTa 2 and 3 in transformers */
    TG_POSITION_DEBERTA,

    /* no positions: without a causal mask the order of the tokens then has no effect */
    TG_POSITION_NONE
} tg_position;

/* Returns "learned", "sinusoidal", "rotary", "alibi", "t5", "shaw", "transformer-xl", "relative-key",
 * "relative-key-query", "deberta" or "none"; "unknown" for a number that is not a kind. */
TG_API const char *tg_position_name(tg_position kind);

/* Writes the kind with this name to *kind. VALUE, with the list of names, for an unknown name. */
TG_API bool tg_position_from_name(const char *name, tg_position *kind, tg_error *error);

typedef struct tg_nn_positional_config {
    /* private: tg_nn_positional_config_default() sets it */
    tg_config_mark mark;
    /* relative kinds: the number of heads of the attention, a divisor of the width; must be set */
    int64_t heads;
    /* learned: whether the table starts as the sinusoidal table, and nothing is drawn; default false */
    bool sinusoidal_start;
    /* T5: the number of buckets, a multiple of 4; default 32 */
    int64_t buckets;
    /* T5: the distance from which on all distances share the last bucket, above buckets / 2; default 128 */
    int64_t max_distance;
    /* Shaw: the largest distance with a vector of its own, at least 1; default 16 */
    int64_t clip;
    /* rotary: its options; default tg_rotary_config_default() */
    tg_rotary_config rotary;
    /* DeBERTa: whether queries are multiplied with distances ("c2p" in pos_att_type), and whether keys are ("p2c"); at
     * least one must be true; default both */
    bool content_to_position, position_to_content;
    /* DeBERTa: whether the attention's own projections to queries and keys also project the distances (share_att_key);
     * default false */
    bool shared_projections;
    /* DeBERTa 2: the number of buckets of each direction, at least 2. Half of them hold one distance each, and the
     * others grow exponentially up to max_relative_positions. Default -1, a vector per distance */
    int64_t position_buckets;
    /* DeBERTa: the distance from which on all distances share the last vector, above position_buckets / 2 + 1; default
     * -1, the context */
    int64_t max_relative_positions;
    /* DeBERTa: the table of distances that all layers share, (2 span,width) of the params' dtype. The span is
     * position_buckets, or max_relative_positions without buckets. The table must outlive the module. Default NULL, a
     * table of its own */
    tg_tensor *distances;
    /* DeBERTa: the layer norm of the table (norm_rel_ebd), made for the width. The module keeps a copy of the struct.
     * Default NULL, none */
    const tg_nn_layer_norm *distances_norm;
} tg_nn_positional_config;

typedef struct tg_nn_positional {
    tg_nn_module module;
    /* the arguments of `_make` */
    tg_position kind;
    tg_nn_positional_config config;
    int64_t width;
    /* absolute kinds: the table (context,width), a parameter if learned, a buffer if sinusoidal; T5: (buckets,heads);
     * Shaw: the vectors of keys (2 clip + 1,D); Transformer-XL: W_r (width,width); relative key: the vectors of
     * distances (2 context - 1,D); DeBERTa: those of distances or buckets (2 span,width); else NULL */
    tg_tensor *weight;
    /* the number of rows that `_make` gave to weight; relative kinds need it, and report SHAPE if weight has another */
    int64_t rows;
    /* Shaw: the vectors of values (2 clip + 1,D); else NULL */
    tg_tensor *values;
    /* Transformer-XL: u and v, (heads,D); else NULL */
    tg_tensor *content_bias, *position_bias;
    /* DeBERTa: the projections of the distances to keys and to queries; without weights if absent or shared */
    tg_nn_linear position_key, position_query;
    /* DeBERTa: the layer norm of the distances; without weights if absent */
    tg_nn_layer_norm distances_norm;
} tg_nn_positional;

TG_API tg_nn_positional_config tg_nn_positional_config_default(void);

/* Adds the parameters of positions 0 .. context - 1. Absolute kinds: "<name>.weight", drawn from N(0,1) if learned, as
 * by torch.nn.Embedding. T5: "<name>.weight", from N(0,1/sqrt(width)). Shaw: "<name>.keys" and "<name>.values", from
 * N(0,1/sqrt(D)). Transformer-XL, with the names of its code: "<name>.r_net.weight", from N(0,1/sqrt(width)),
 * "<name>.r_w_bias" (u) and "<name>.r_r_bias" (v), from N(0,0.02). Relative key: "<name>.distance_embedding.weight",
 * from N(0,0.02). DeBERTa: "<name>.rel_embeddings.weight", unless a table is given, and, unless the projections are
 * shared, the weights and biases of "<name>.pos_key_proj" and "<name>.pos_query_proj"; the weights from N(0,0.02), the
 * biases zeros. The second number is the standard deviation. The other kinds have no parameters. The config is for
 * relative kinds; TG_POSITION_LEARNED needs none. */
TG_API tg_nn_positional tg_nn_positional_make(tg_params *params, const char *name, tg_position kind, int64_t context,
                                              int64_t width, const tg_nn_positional_config *config);

/* Adds the vectors of the positions start .. start + T - 1 to x (..,T,width). Relative kinds, which attention applies
 * (tg_nn_multihead_attention_config.positional), and TG_POSITION_NONE return x itself. RANGE if start < 0, or if the
 * positions exceed the context. */
TG_API tg_tensor *tg_nn_positional_forward(tg_tape *tape, const tg_nn_positional *positional, tg_tensor *x,
                                           int64_t start);

/* Extends the context. A learned table is interpolated linearly: the first and the last row stay, and each row between
 * them is a combination of two old rows. Its rows then belong to other positions, so continue with a new optimizer,
 * without the old moments. A sinusoidal table is recomputed. Relative key cannot be extended (VALUE), and the other
 * kinds accept any context. RANGE for a smaller context; STATE if a row is frozen; the other errors of
 * tg_tensor_resize_rows. */
TG_API bool tg_nn_positional_extend(tg_nn_positional *positional, int64_t context);

/* ---- cache of keys and values ------------------------------------------------------------------------------------ */
/* For generation, in which each pass continues the text of the last one. Attention writes the keys and values of a pass
 * to its layer of the cache, and the next pass attends to them. tg_kv_cache_commit completes a pass. A pass that was
 * not committed, because it failed, is overwritten by the next one.
 *
 * tg_nn_multihead_attention_forward takes a cache in its config, and so does what calls it (tg_gpt, the layers of
 * tapegrad/transformer.h). Attention of your own appends its keys and values, and attends to what it gets:
 *
 * ```c
 * static tg_tensor *attend(tg_tape *t, tg_kv_cache *cache, tg_tensor *q, tg_tensor *k, tg_tensor *v)
 * {
 *     tg_scaled_dot_product_attention_config config = tg_scaled_dot_product_attention_config_default();
 *     config.is_causal = true;
 *     return tg_kv_cache_append(t, cache, 0, &k, &v) ? tg_scaled_dot_product_attention(t, q, k, v, &config) : NULL;
 * }
 * ```
 */

typedef struct tg_kv_cache tg_kv_cache;

typedef struct tg_kv_cache_config {
    /* private: tg_kv_cache_config_default() sets it */
    tg_config_mark mark;
    /* the windows of the layers, in order and repeated: layer i has window number i modulo window_count. A layer with a
     * window of W keeps at most the last 2 W positions, and its views begin at the first position that a query of the
     * pass sees: W - 1 before the pass. 0 keeps all. Default NULL and 0, all layers keep all */
    const int64_t *windows;
    int64_t window_count;
} tg_kv_cache_config;

TG_API tg_kv_cache_config tg_kv_cache_config_default(void);

/* Returns an empty cache for `layers` layers of keys and values (batch,heads,context,width/heads). `heads` is the
 * number of heads of keys, and `width` that of all of them. Yours to free. VALUE for a size below 1, for a window below
 * 0, and for heads that do not divide the width; DTYPE for i32 and u8; MEMORY. */
TG_API tg_kv_cache *tg_kv_cache_new(tg_dtype dtype, int64_t layers, int64_t batch, int64_t heads, int64_t context,
                                    int64_t width, const tg_kv_cache_config *config, tg_error *error);
TG_API void tg_kv_cache_free(tg_kv_cache *cache);

/* Removes all positions, to begin another text. */
TG_API void tg_kv_cache_clear(tg_kv_cache *cache);

/* Returns the number of committed positions. */
TG_API int64_t tg_kv_cache_length(const tg_kv_cache *cache);

/* Writes the keys and values (B,H,T,D) of a pass to a layer, after the committed positions, and replaces both by those
 * of the committed positions and of the pass, (B,H,S,D). They are views, which the next pass may overwrite. S is
 * the length and T together, or less in a layer with a window. Recording must be off (STATE). RANGE for a layer that
 * the cache does not have, and if the positions exceed its context; SHAPE. */
TG_API bool tg_kv_cache_append(tg_tape *tape, tg_kv_cache *cache, int64_t layer, tg_tensor **keys, tg_tensor **values);

/* Adds the positions of the last pass to the cache, after all layers have written them. STATE unless every layer has
 * written the same number of positions. */
TG_API bool tg_kv_cache_commit(tg_kv_cache *cache, tg_error *error);

/* ---- MultiheadAttention: torch.nn.MultiheadAttention, batch_first ------------------------------------------------ */
/* Vaswani et al. 2017, section 3.2. */

/* The names of the parameters, and their initial draws. */
typedef enum tg_attention_layout {
    /* torch's: "<name>.in_proj_weight" (3 width,width), "<name>.in_proj_bias" (3 width), and the Linear
     * "<name>.out_proj" */
    TG_ATTENTION_IN_PROJ,
    /* the book's MultiHeadAttention: the Linears "<name>.W_query", "<name>.W_key" and "<name>.W_value" from `in` to
     * all heads, which are `out` channels by default, and "<name>.out_proj" from these to `out` */
    TG_ATTENTION_SEPARATE
} tg_attention_layout;

typedef struct tg_nn_multihead_attention_config {
    /* private: tg_nn_multihead_attention_config_default() sets it */
    tg_config_mark mark;
    /* torch's or the book's; default TG_ATTENTION_IN_PROJ */
    tg_attention_layout layout;
    /* the number of heads of keys and values, a divisor of `heads`. Each of them serves `heads` / key_heads neighboring
     * heads of queries (Ainslie et al. 2023). Positions that add vectors to keys or queries, which are all relative
     * kinds but rotary, ALiBi and T5, need as many as `heads`. Default 0, as many */
    int64_t key_heads;
    /* the width of a head; default 0, `out` / `heads` */
    int64_t head_width;
    /* whether the projections to queries, keys and values have biases. In torch's layout this also holds for the output
     * projection. Default true */
    bool bias;
    /* whether the output projection has a bias; default true. In torch's layout key_heads, head_width and out_bias must
     * be left at their defaults */
    bool out_bias;
    /* a norm over the width of a head, with one weight for all heads, of the queries and of the keys before they are
     * rotated: RMS in Qwen3, RMS + 1 in Gemma 3. Default TG_NORM_NONE */
    tg_norm_kind query_key_norm;
    /* its eps; default 1e-6 */
    double query_key_eps;
    /* the factor of q k^T, finite and at least 0; only TG_SCALE_OF_WIDTH for positions that need as many heads of keys
     * as of queries. Default TG_SCALE_OF_WIDTH */
    double scale;
    /* whether a position attends only to itself and to earlier positions; default false */
    bool is_causal;
    /* how many keys a query sees, from its own position on backwards, with is_causal: sliding_window in transformers.
     * 0 means all; default 0 */
    int64_t window;
    /* the probability that an attention weight is dropped in training, in [0,1); default 0 */
    double dropout;
    /* relative positions, made for the same number of heads, and for the width of all heads of queries together. The
     * module keeps a copy of the struct, which refers to the same parameters. If the positions share the projections of
     * the attention, `in` must be equal to `out`. Shaw's positions always use TG_ATTENTION_ELEMENTARY, because their
     * values need the weights. Default NULL,
     * none */
    const tg_nn_positional *positional;
    /* fused or elementary; default TG_ATTENTION_FUSED */
    tg_attention_path path;
} tg_nn_multihead_attention_config;

typedef struct tg_nn_multihead_attention {
    tg_nn_module module;
    /* TG_ATTENTION_IN_PROJ: (3 width,width), and (3 width) or NULL without biases */
    tg_tensor *in_proj_weight, *in_proj_bias;
    /* TG_ATTENTION_SEPARATE: the projections to queries, keys and values */
    tg_nn_linear query, key, value;
    /* the output projection */
    tg_nn_linear out;
    /* the norms of queries and keys, of kind TG_NORM_NONE without them */
    tg_nn_norm query_norm, key_norm;
    int64_t heads;
    /* the relative positions; not made without them */
    tg_nn_positional positional;
    /* the config of tg_nn_multihead_attention_make, with the sizes that its zeros stand for, and without its pointer to
     * the positions */
    tg_nn_multihead_attention_config config;
} tg_nn_multihead_attention;

TG_API tg_nn_multihead_attention_config tg_nn_multihead_attention_config_default(void);

/* Adds an attention from `in` to `out` channels, and after its projections the weights of the norms, if it has any,
 * "<name>.q_norm.scale" and "<name>.k_norm.scale" (and .shift). VALUE unless `heads` divides `out` or head_width is
 * set, and, in torch's layout, `in` is equal to `out`. */
TG_API tg_nn_multihead_attention tg_nn_multihead_attention_make(tg_params *params, const char *name, int64_t in,
                                                                int64_t out, int64_t heads,
                                                                const tg_nn_multihead_attention_config *config);

/* The keys and values of a forward pass besides those of x. */
typedef struct tg_nn_multihead_attention_forward_config {
    /* private: tg_nn_multihead_attention_forward_config_default() sets it */
    tg_config_mark mark;
    /* M positions before x, (B,M,in), whose keys and values are computed, too. They get no gradient, as in
     * Transformer-XL's recurrence over segments. Default NULL, none */
    tg_tensor *memory;
    /* the cache of earlier passes, which x continues, and the index of this module's layer in it. Recording must be off
     * (STATE), and `memory` NULL. RANGE if the positions exceed the cache. Default NULL and 0 */
    tg_kv_cache *cache;
    int64_t layer;
    /* the sequences of keys and of values, (B,S,in) each, for cross-attention, such as that of a decoder to an
     * encoder's result. VALUE together with a memory, a cache or relative positions. Default NULL: the key is x, and
     * the value is the key */
    tg_tensor *key, *value;
    /* the keys that exist, as in tg_scaled_dot_product_attention_config: their number, (B) i32, or a mask, (B,S) u8, in
     * which 1 is a key and 0 is padding. torch's key_padding_mask has the opposite values. S includes memory and cache.
     * A query without keys gets zeros, as in torch with need_weights=False. Default NULL, all keys */
    tg_tensor *lengths, *key_mask;
    /* the first key that each query sees, (B,T) or (T) i32 from 0 to S, so that a query does not see padding before its
     * text, or another text of the same row. S counts as above, with windows, too. Default NULL, key 0 */
    tg_tensor *first_keys;
    /* the positions of x for rotary positions, (B,T) or (T) i32; VALUE for other kinds, and with a memory. Default
     * NULL: from the number of positions in memory and cache on */
    tg_tensor *positions;
    /* receives the attention weights of each head, (B,H,T,S), after dropout: need_weights=True with
     * average_attn_weights=False. torch's default is their mean over the heads, tg_mean(t, weights, TG_AXES(1),
     * TG_DROP_AXES). NULL after an error. Asking for them selects the elementary path. A query without keys has weights
     * of 0; torch's are NaN. Default NULL */
    tg_tensor **weights;
} tg_nn_multihead_attention_forward_config;

TG_API tg_nn_multihead_attention_forward_config tg_nn_multihead_attention_forward_config_default(void);

/* The attention of x to itself, or to another sequence: x (B,T,in) -> (B,T,out). With a cache, call tg_kv_cache_commit
 * after the last layer. */
TG_API tg_tensor *tg_nn_multihead_attention_forward(tg_tape *tape, const tg_nn_multihead_attention *attention,
                                                    tg_tensor *x,
                                                    const tg_nn_multihead_attention_forward_config *config);

/* ---- feed-forward network ---------------------------------------------------------------------------------------- */

typedef enum tg_feed_forward_kind {
    /* GPT-2's: down(gelu_tanh(up(x))), with biases; up is "<name>.layers.0", and down "<name>.layers.2" */
    TG_FEED_FORWARD_GELU,
    /* Llama's, Shazeer 2020: down(silu(gate(x)) * up(x)), without biases; gate is "<name>.fc1", up "<name>.fc2", and
     * down "<name>.fc3" */
    TG_FEED_FORWARD_SWIGLU,
    /* Gemma's: the same with gelu_tanh instead of silu */
    TG_FEED_FORWARD_GEGLU
} tg_feed_forward_kind;

typedef struct tg_nn_feed_forward_config {
    /* private: tg_nn_feed_forward_config_default() sets it */
    tg_config_mark mark;
    /* whether all layers have biases; default TG_BIAS_OF_KIND */
    tg_bias bias;
} tg_nn_feed_forward_config;

typedef struct tg_nn_feed_forward {
    tg_nn_module module;
    /* the argument of `_make` */
    tg_feed_forward_kind kind;
    /* the layers; TG_FEED_FORWARD_GELU has no gate */
    tg_nn_linear gate, up, down;
} tg_nn_feed_forward;

TG_API tg_nn_feed_forward_config tg_nn_feed_forward_config_default(void);

/* Adds the Linears of a kind, from `width` to `hidden` channels (gate and up) and back (down). */
TG_API tg_nn_feed_forward tg_nn_feed_forward_make(tg_params *params, const char *name, int64_t width, int64_t hidden,
                                                  tg_feed_forward_kind kind, const tg_nn_feed_forward_config *config);

/* Applies the network to each position by itself: x (..,width) -> (..,width). */
TG_API tg_tensor *tg_nn_feed_forward_forward(tg_tape *tape, const tg_nn_feed_forward *feed_forward, tg_tensor *x);

/* ---- transformer block ------------------------------------------------------------------------------------------- */

typedef struct tg_nn_transformer_block_config {
    /* private: tg_nn_transformer_block_config_default() sets it */
    tg_config_mark mark;
    /* the probability of dropout in both residual branches, in [0,1]; default 0 */
    double dropout;
    /* the kind of the norms, and their eps; default TG_NORM_LAYER and 1e-5 */
    tg_norm_kind norm;
    double eps;
    /* whether the result of each half has a norm of its own before the dropout, as in Gemma 3; default false */
    bool norm_after;
    /* the feed-forward network: its number of hidden channels, its kind, and whether it has biases; default 0 (4
     * `width`), TG_FEED_FORWARD_GELU and TG_BIAS_OF_KIND */
    int64_t hidden;
    tg_feed_forward_kind feed_forward;
    tg_bias feed_forward_bias;
    /* the options of the attention; default tg_nn_multihead_attention_config_default(), but with TG_ATTENTION_SEPARATE,
     * is_causal true and bias false */
    tg_nn_multihead_attention_config attention;
} tg_nn_transformer_block_config;

typedef struct tg_nn_transformer_block {
    tg_nn_module module;
    /* the two halves, the norms before and after each, and the dropout after each */
    tg_nn_multihead_attention attention;
    tg_nn_feed_forward feed_forward;
    tg_nn_norm norm1, norm2, norm1_after, norm2_after;
    double dropout;
} tg_nn_transformer_block;

TG_API tg_nn_transformer_block_config tg_nn_transformer_block_config_default(void);

/* Adds a transformer block with a norm before each half (Xiong et al. 2020), by default that of GPT-2 and of the book:
 * "<name>.att", "<name>.ff", "<name>.norm1" and "<name>.norm2", in this order, and with norm_after "<name>.norm1_after"
 * and "<name>.norm2_after". */
TG_API tg_nn_transformer_block tg_nn_transformer_block_make(tg_params *params, const char *name, int64_t width,
                                                            int64_t heads,
                                                            const tg_nn_transformer_block_config *config);

/* x += dropout(norm1_after(att(norm1(x)))), then the same with ff and the other norms: x (B,T,width) -> (B,T,width).
 * The config goes to the attention. A span around the call saves memory: tg_activation_checkpoint_begin. */
TG_API tg_tensor *tg_nn_transformer_block_forward(tg_tape *tape, const tg_nn_transformer_block *block, tg_tensor *x,
                                                  const tg_nn_multihead_attention_forward_config *config);

#ifdef __cplusplus
}
#endif

#endif
