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

/* ---- Embedding: torch.nn.Embedding ------------------------------------------------------------------------------------ */

#define TG_NO_PADDING INT64_MIN

typedef struct tg_embedding_config {
    int64_t
        padding_index; /* this row starts as zeros and gets no gradient from lookups; negative: from the end; default
                              TG_NO_PADDING */
    double mean, std;  /* the table starts as N(mean, std): 0 and 1 */
    tg_tensor *from; /* an existing table (rows,width) of the params' dtype instead; shared, not copied, and nothing is
                              drawn: Embedding.from_pretrained. Default NULL */
    bool frozen;     /* not trained; default false */
} tg_embedding_config;

typedef struct tg_embedding {
    const tg_params *params;
    tg_tensor *weight; /* (rows,width), owned by the params; NULL if it could not be made */
    int64_t padding_index;
} tg_embedding;

TG_API tg_embedding_config tg_embedding_config_default(void);

/* A table "<name>.weight" of rows x width. `config` may be NULL for the default. */
TG_API tg_embedding tg_embedding_make(tg_params *params, const char *name, int64_t rows, int64_t width,
                                      const tg_embedding_config *config);

/* ids of any shape (S), i32 -> (S,width): tg_embedding_lookup. */
TG_API tg_tensor *tg_embedding_forward(tg_tape *tape, const tg_embedding *embedding, tg_tensor *ids);

/* ---- positions ---------------------------------------------------------------------------------------------------------- */

typedef enum tg_position {
    TG_POSITION_LEARNED,   /* a trained table (context,width), N(0,1) like an Embedding: GPT's */
    TG_POSITION_SINUSOIDAL /* sin and cos of geometric wavelengths, fixed: Vaswani et al. 2017, section 3.5 */
} tg_position;

typedef struct tg_positional {
    const tg_params *params;
    tg_position kind;
    tg_tensor *weight; /* (context,width): a parameter when learned, a buffer when sinusoidal */
} tg_positional;

/* Positions 0 .. context - 1, as "<name>.weight". */
TG_API tg_positional tg_positional_make(tg_params *params, const char *name, tg_position kind, int64_t context,
                                        int64_t width);

/* Adds the positions' vectors to x (..,T,width): position 0 to the first of T, or `start`, for a sequence that goes on.
 * RANGE when start + T is above the context. */
TG_API tg_tensor *tg_positional_forward(tg_tape *tape, const tg_positional *positional, tg_tensor *x);
TG_API tg_tensor *tg_positional_forward_at(tg_tape *tape, const tg_positional *positional, tg_tensor *x, int64_t start);

/* ---- Linear: torch.nn.Linear --------------------------------------------------------------------------------------------- */

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

/* ---- LayerNorm: torch.nn.LayerNorm over the last axis ---------------------------------------------------------------------- */

typedef struct tg_layernorm {
    const tg_params *params;
    tg_tensor *weight, *bias; /* (width) */
    double eps;
} tg_layernorm;

/* "<name>.weight" ones and "<name>.bias" zeros; eps > 0, PyTorch's default is 1e-5. */
TG_API tg_layernorm tg_layernorm_make(tg_params *params, const char *name, int64_t width, double eps);

/* x (..,width): tg_layer_norm. */
TG_API tg_tensor *tg_layernorm_forward(tg_tape *tape, const tg_layernorm *norm, tg_tensor *x);

#ifdef __cplusplus
}
#endif

#endif
