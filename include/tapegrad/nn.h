/* nn: modules. A module is a plain value that names its parameters; it owns nothing.
 *
 * `_make` creates the parameters inside a tg_params, under PyTorch's names ("<name>.weight", "<name>.bias"), and draws
 * their initial values from the params' generator in PyTorch's order; so the same seed gives the same model. What goes
 * wrong is a sticky error of the params; a forward through a module that could not be made reports it on the tape. The
 * params must outlive the module.
 *
 *     tg_embedding  tok = tg_embedding_make(params, "tok_emb", 50257, 256, NULL);
 *     tg_positional pos = tg_positional_make(params, "pos_emb", TG_POSITION_LEARNED, 1024, 256);
 *     tg_tensor *x = tg_positional_forward(t, &pos, tg_embedding_forward(t, &tok, ids));      (B,T) -> (B,T,256)
 */
#ifndef TAPEGRAD_NN_H
#define TAPEGRAD_NN_H

#include <tapegrad/ops.h>
#include <tapegrad/params.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Embedding: torch.nn.Embedding ------------------------------------------------------------------------------- */

typedef struct tg_embedding_config {
    /* this row starts as zeros and is frozen (tapegrad/rows.h): unlike torch's it gets no gradient from a tied output
     * head either, and no weight decay; negative: from the end; default TG_NO_PADDING */
    int64_t padding_index;
    /* the table starts as N(mean, std): 0 and 1 */
    double mean, std;
    /* an existing table (rows,width) of the params' dtype instead; shared, not copied, and nothing is drawn:
     * Embedding.from_pretrained. Default NULL */
    tg_tensor *from;
    /* not trained; default false */
    bool frozen;
    /* each row's gradient is divided by how often a lookup names it: scale_grad_by_freq; default false */
    bool scale_by_frequency;
    /* before a lookup, rows with a larger norm are cut to this one, in place: max_norm and norm_type; 0, the default,
     * for none, and 2 */
    double max_norm, norm_type;
} tg_embedding_config;

typedef struct tg_embedding {
    const tg_params *params;
    tg_tensor *weight; /* (rows,width), owned by the params; NULL if it could not be made */
    tg_lookup_config lookup;
    double mean, std, max_norm, norm_type;
} tg_embedding;

TG_API tg_embedding_config tg_embedding_config_default(void);

/* A table "<name>.weight" of rows x width. `config` may be NULL for the default. */
TG_API tg_embedding tg_embedding_make(tg_params *params, const char *name, int64_t rows, int64_t width,
                                      const tg_embedding_config *config);

/* The table gets a new number of rows, 1 or more: tg_resize_rows, and new rows are drawn from the params' generator
 * as at the beginning, one run of N(mean, std). The handle, the names and an optimizer go on. False with the error,
 * and nothing changed: STATE for what tg_resize_rows refuses (the padding row among it) and without a generator,
 * SHAPE, MEMORY. */
TG_API bool tg_embedding_resize(tg_embedding *embedding, int64_t rows, tg_error *error);

/* ids of any shape (S), i32 -> (S,width): tg_embedding_renorm where there is a max_norm, tg_embedding_lookup_with. */
TG_API tg_tensor *tg_embedding_forward(tg_tape *tape, const tg_embedding *embedding, tg_tensor *ids);

/* Bags of the table's rows: torch.nn.EmbeddingBag. As tg_embedding_bag, with the embedding's own padding row, scaling
 * by frequency and max_norm; those of `config`, which may be NULL, are not looked at. */
TG_API tg_tensor *tg_embedding_bag_forward(tg_tape *tape, const tg_embedding *embedding, tg_tensor *ids,
                                           const tg_embedding_bag_config *config);

/* ---- positions --------------------------------------------------------------------------------------------------- */

typedef enum tg_position {
    /* absolute: vectors that are added to the tokens' */
    TG_POSITION_LEARNED,    /* a trained table (context,width): GPT's */
    TG_POSITION_SINUSOIDAL, /* sin and cos of geometric wavelengths, fixed: Vaswani et al. 2017, section 3.5 */
    /* relative: attention sees how far a key is from its query */
    TG_POSITION_ROTARY,         /* queries and keys are turned: Su et al. 2021 */
    TG_POSITION_ALIBI,          /* a penalty for distance, fixed: Press, Smith and Lewis 2022 */
    TG_POSITION_T5,             /* a trained number a head and bucket of distances: Raffel et al. 2020 */
    TG_POSITION_SHAW,           /* trained vectors for clipped distances: Shaw, Uszkoreit and Vaswani 2018 */
    TG_POSITION_TRANSFORMER_XL, /* sinusoidal distances through a trained matrix, and two biases: Dai et al. 2019 */
    TG_POSITION_NONE            /* none: with attention in both directions a text is a bag of words */
} tg_position;

/* "learned", "sinusoidal", "rotary", "alibi", "t5", "shaw", "transformer-xl", "none". */
TG_API const char *tg_position_name(tg_position kind);              /* NULL for another number */
TG_API bool tg_position_named(const char *name, tg_position *kind); /* false for another name */

typedef struct tg_positional_config {
    int64_t heads;           /* relative kinds: attention's heads, which divide the width; 1 */
    int64_t buckets;         /* T5: a multiple of 4; 32 */
    int64_t max_distance;    /* T5: from here on one bucket, more than buckets / 2; 128 */
    int64_t clip;            /* Shaw: farther keys count as this far; 16 */
    bool sinusoidal_start;   /* learned: the table starts as the sinusoidal one, and nothing is drawn; false */
    tg_rotary_config rotary; /* tg_rotary_config_default() */
} tg_positional_config;

TG_API tg_positional_config tg_positional_config_default(void);

typedef struct tg_positional {
    const tg_params *params;
    tg_position kind;
    tg_positional_config config;
    int64_t width;
    tg_tensor *weight;        /* absolute: (context,width), a parameter when learned, a buffer when sinusoidal; T5:
                                (buckets,heads); Shaw: of keys, (2 clip + 1,D); Transformer-XL: W_r (width,width) */
    tg_tensor *values;        /* Shaw: of values, (2 clip + 1,D) */
    tg_tensor *content_bias;  /* Transformer-XL: u, (heads,D) */
    tg_tensor *position_bias; /* Transformer-XL: v, (heads,D) */
    bool made;
} tg_positional;

/* Absolute: positions 0 .. context - 1, as "<name>.weight", drawn from N(0,1) when learned. T5: "<name>.weight"; Shaw:
 * "<name>.keys" and ".values"; Transformer-XL: "<name>.r_net.weight", ".r_w_bias" (u) and ".r_r_bias" (v), as its
 * code calls them; the others have no parameters. `config` may be NULL for the default. VALUE, SHAPE. */
TG_API tg_positional tg_positional_make(tg_params *params, const char *name, tg_position kind, int64_t context,
                                        int64_t width);
TG_API tg_positional tg_positional_make_with(tg_params *params, const char *name, tg_position kind, int64_t context,
                                             int64_t width, const tg_positional_config *config);

/* Adds the positions' vectors to x (..,T,width): position 0 to the first of T, or `start`, for a sequence that goes
 * on. The relative kinds, and none, return x itself: they are an attention's
 * (tg_multi_head_attention_config.position). RANGE when start + T is above the context. */
TG_API tg_tensor *tg_positional_forward(tg_tape *tape, const tg_positional *positional, tg_tensor *x);
TG_API tg_tensor *tg_positional_forward_at(tg_tape *tape, const tg_positional *positional, tg_tensor *x, int64_t start);

/* A learned table (rows,width) for another number of positions, 2 or more: rows between two old ones are
 * interpolated, the first and the last stay. Yours to release. NULL with the error. */
TG_API tg_tensor *tg_positional_interpolate(const tg_tensor *table, int64_t positions, tg_error *error);

/* The same for a module whose positions have a table, which is the same tensor afterwards (tg_resize_rows): learned
 * ones are interpolated, sinusoidal ones computed on. `context` is at least what it was (RANGE). A learned row then
 * means another position, so begin with a new optimizer. Kinds without a table reach any context: true. STATE with frozen
 * rows and for what tg_resize_rows refuses. */
TG_API bool tg_positional_extend(tg_positional *positional, int64_t context, tg_error *error);

/* ALiBi's slope of a head, and T5's bucket of a distance (query minus key): what the papers' code computes. */
TG_API double tg_alibi_slope(int64_t heads, int64_t head);
TG_API int64_t tg_t5_bucket(int64_t distance, int64_t buckets, int64_t max_distance, bool both_directions);

/* ---- Linear: torch.nn.Linear ------------------------------------------------------------------------------------- */

typedef enum tg_bias { TG_NO_BIAS, TG_BIAS } tg_bias;

typedef struct tg_linear {
    const tg_params *params;
    tg_tensor *weight; /* (out,in) */
    tg_tensor *bias;   /* (out), or NULL without one */
    bool has_bias;
} tg_linear;

/* "<name>.weight" (out,in), and with TG_BIAS "<name>.bias" (out); both uniform in +-1/sqrt(in), weight drawn first. */
TG_API tg_linear tg_linear_make(tg_params *params, const char *name, int64_t in, int64_t out, tg_bias bias);

/* x (..,in) -> x weight^T + bias, (..,out). */
TG_API tg_tensor *tg_linear_forward(tg_tape *tape, const tg_linear *linear, tg_tensor *x);

/* ---- LayerNorm and RMSNorm: torch.nn.LayerNorm, torch.nn.RMSNorm over the last axis ------------------------------ */

typedef struct tg_layernorm {
    const tg_params *params;
    tg_tensor *weight, *bias; /* (width) */
    double eps;
} tg_layernorm;

/* "<name>.weight" ones and "<name>.bias" zeros; eps > 0, PyTorch's default is 1e-5. */
TG_API tg_layernorm tg_layernorm_make(tg_params *params, const char *name, int64_t width, double eps);

/* The same under the names that the course gives them: "<name>.scale" and "<name>.shift". */
TG_API tg_layernorm tg_layernorm_make_scale_shift(tg_params *params, const char *name, int64_t width, double eps);

/* x (..,width): tg_layer_norm. */
TG_API tg_tensor *tg_layernorm_forward(tg_tape *tape, const tg_layernorm *norm, tg_tensor *x);

typedef struct tg_rmsnorm {
    const tg_params *params;
    tg_tensor *weight; /* (width) */
    double eps;
} tg_rmsnorm;

/* "<name>.weight" ones; eps > 0. */
TG_API tg_rmsnorm tg_rmsnorm_make(tg_params *params, const char *name, int64_t width, double eps);

/* x (..,width): tg_rms_norm. */
TG_API tg_tensor *tg_rmsnorm_forward(tg_tape *tape, const tg_rmsnorm *norm, tg_tensor *x);

/* ---- multi-head causal self-attention: Vaswani et al. 2017, section 3.2; the course's MultiHeadAttention --------- */

/* Two ways to the same numbers: TG_ATTENTION_FUSED is one op, tg_attention, which keeps no (T,T) matrix;
 * TG_ATTENTION_ELEMENTARY is the chapter's chain of ops, which keeps several: for the classroom and for tests. */
typedef enum tg_attention_path { TG_ATTENTION_FUSED, TG_ATTENTION_ELEMENTARY } tg_attention_path;

typedef struct tg_multi_head_attention_config {
    double dropout;         /* of attention weights, in training: 0 */
    tg_bias qkv_bias;       /* of the three projections: TG_NO_BIAS; the output projection always has one */
    tg_attention_path path; /* TG_ATTENTION_FUSED; Shaw's positions always take the other one, for their values */
    bool both_directions;   /* position t looks at all positions, and not only at 0 .. t: false */
    const tg_positional *position; /* relative positions, which must live as long as the module; NULL: none */
} tg_multi_head_attention_config;

TG_API tg_multi_head_attention_config tg_multi_head_attention_config_default(void);

typedef struct tg_multi_head_attention {
    tg_linear query, key, value, out;
    int64_t heads;
    tg_multi_head_attention_config config;
} tg_multi_head_attention;

/* "<name>.W_query", ".W_key", ".W_value" (out,in) and ".out_proj" (out,out), drawn in this order. `heads` divides
 * `out`: VALUE otherwise. `config` may be NULL for the default. */
TG_API tg_multi_head_attention tg_multi_head_attention_make(tg_params *params, const char *name, int64_t in,
                                                            int64_t out, int64_t heads,
                                                            const tg_multi_head_attention_config *config);

/* x (B,T,in) -> (B,T,out). */
TG_API tg_tensor *tg_multi_head_attention_forward(tg_tape *tape, const tg_multi_head_attention *attention,
                                                  tg_tensor *x);

/* The same, where keys and values are also made of a memory (B,M,in), the positions before x: Transformer-XL's
 * recurrence over segments. The memory gets no gradient. */
TG_API tg_tensor *tg_multi_head_attention_forward_memory(tg_tape *tape, const tg_multi_head_attention *attention,
                                                         tg_tensor *x, tg_tensor *memory);

/* What the module does between its projections: attention of queries (B,H,T,D) to keys and values (B,H,S,D) with what
 * `position` adds to scores and values. `position` may be NULL or of any kind; queries and keys of rotary ones were
 * turned before (tg_rotary). */
TG_API tg_tensor *tg_positional_attention(tg_tape *tape, const tg_positional *position, tg_attention_path path,
                                          tg_tensor *queries, tg_tensor *keys, tg_tensor *values, bool causal,
                                          double dropout);

/* Keys and values of positions that were computed before, so that the next one costs itself alone. */
typedef struct tg_kv_cache tg_kv_cache;

/* Room for `layers` layers of keys and values (B,heads,context,width/heads) of dtype. Yours to free. NULL, with `error`
 * set (it may be NULL), when a size is below 1, heads do not divide width, or memory is out. */
TG_API tg_kv_cache *tg_kv_cache_new(tg_dtype dtype, int64_t layers, int64_t batch, int64_t heads, int64_t context,
                                    int64_t width, tg_error *error);
TG_API void tg_kv_cache_free(tg_kv_cache *cache);            /* NULL is fine */
TG_API void tg_kv_cache_clear(tg_kv_cache *cache);           /* forgets all positions */
TG_API int64_t tg_kv_cache_length(const tg_kv_cache *cache); /* positions that are complete in every layer */

/* x (B,T,in) are the T positions that follow those in the cache; they are added to its layer `layer`. RANGE when they
 * do not fit. Only without recording: STATE otherwise. */
TG_API tg_tensor *tg_multi_head_attention_forward_cached(tg_tape *tape, const tg_multi_head_attention *attention,
                                                         tg_tensor *x, tg_kv_cache *cache, int64_t layer);

/* ---- feed-forward ------------------------------------------------------------------------------------------------ */

typedef enum tg_feed_forward_kind {
    TG_FEED_FORWARD_GELU, /* down(gelu_tanh(up(x))), with biases: GPT-2. "<name>.layers.0" up, "<name>.layers.2" down */
    TG_FEED_FORWARD_SWIGLU /* down(silu(gate(x)) * up(x)): Shazeer 2020. "<name>.fc1" gate, "fc2" up, "fc3" down */
} tg_feed_forward_kind;

typedef struct tg_feed_forward {
    tg_feed_forward_kind kind;
    tg_linear gate, up, down; /* gate: TG_FEED_FORWARD_SWIGLU alone */
} tg_feed_forward;

/* width -> hidden -> width. */
TG_API tg_feed_forward tg_feed_forward_make(tg_params *params, const char *name, int64_t width, int64_t hidden,
                                            tg_feed_forward_kind kind);

/* x (..,width) -> (..,width). */
TG_API tg_tensor *tg_feed_forward_forward(tg_tape *tape, const tg_feed_forward *feed_forward, tg_tensor *x);

/* ---- pre-norm transformer block ---------------------------------------------------------------------------------- */

typedef struct tg_transformer_block {
    tg_multi_head_attention attention;
    tg_feed_forward feed_forward;
    tg_layernorm norm1, norm2;
    double dropout; /* of both shortcuts' branches */
} tg_transformer_block;

/* "<name>.att", ".ff" (hidden 4 width), ".norm1", ".norm2", made in this order, as in the course. */
TG_API tg_transformer_block tg_transformer_block_make(tg_params *params, const char *name, int64_t width, int64_t heads,
                                                      double dropout, const tg_multi_head_attention_config *attention);

/* x + dropout(att(norm1(x))), and then x + dropout(ff(norm2(x))): (B,T,width) -> (B,T,width). The second form continues
 * the cache's layer `layer`, as in tg_multi_head_attention_forward_cached. */
TG_API tg_tensor *tg_transformer_block_forward(tg_tape *tape, const tg_transformer_block *block, tg_tensor *x);
TG_API tg_tensor *tg_transformer_block_forward_cached(tg_tape *tape, const tg_transformer_block *block, tg_tensor *x,
                                                      tg_kv_cache *cache, int64_t layer);

#ifdef __cplusplus
}
#endif

#endif
