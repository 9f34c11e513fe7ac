/* positions (private): the kinds of positions, each a constant structure of functions, like GSL's interpolation types.
 * No code compares kinds.
 *
 * Relative kinds are scores by distance, which become the bias of attention, so the fused path serves all of them.
 * ALiBi and T5 compute one number per distance, and lib/ops/attention/relative.c moves it to the pairs of queries and
 * keys. Transformer-XL multiplies with vectors of distances (relative_scores.c), and relative key uses the same op, for
 * keys with the roles exchanged. Shaw has 2 k + 1 clipped distances, so its products are small, and one pass copies
 * them to the pairs (relative_clip.c). The exception is Shaw's values, which need the weights, and so the elementary
 * path.
 */
#ifndef TG_NN_POSITIONS_H
#define TG_NN_POSITIONS_H

#include "nn/module.h"
#include "tape/tape.h"

/* A kind of positions. A function that is NULL does nothing: it returns x itself, or adds nothing. */
typedef struct tg_position_kind {
    const char *name;
    bool is_relative;        /* attention applies it, so the config has the number of heads */
    bool is_per_layer;       /* each layer of a model has parameters of its own */
    bool projects_distances; /* with projections of its own or, if the config shares them, with the attention's */
    bool multiplies_heads;   /* its vectors with those of queries or keys, head by head, and by 1 / sqrt(D) */

    /* Checks the config; false with the params' error set. */
    bool (*check)(tg_params *params, const char *name, int64_t width, const tg_nn_positional_config *config);

    /* Adds the parameters of a positional whose kind, width and config are set. */
    void (*make)(tg_params *params, const char *name, int64_t context, tg_nn_positional *made);

    /* Adds the vectors of the positions start .. start + T - 1 to x (..,T,width). Absolute kinds only. */
    tg_tensor *(*add)(tg_tape *t, const tg_nn_positional *p, tg_tensor *x, int64_t start);

    /* Extends the context (tg_nn_positional_extend), or reports that it cannot. */
    bool (*extend)(tg_nn_positional *p, int64_t context, tg_error *error);

    /* Rotates queries or keys x (B,H,T,D), at the positions start .. start + T - 1, or at `positions`, unless NULL. */
    tg_tensor *(*rotate)(tg_tape *t, const tg_nn_positional *p, tg_tensor *x, int64_t start, tg_tensor *positions);

    /* Returns the bias of the scaled scores of queries (B,H,T,D) and keys (B,H,S,D). If causal, only its values for
     * keys up to each query's position matter. */
    tg_tensor *(*bias)(tg_tape *t, const tg_nn_positional *p, tg_tensor *queries, tg_tensor *keys, bool is_causal);

    /* Returns the queries that are multiplied with the keys. */
    tg_tensor *(*content)(tg_tape *t, const tg_nn_positional *p, tg_tensor *queries);

    /* Returns the term that is added to the result (B,H,T,D) of attention, from its weights (B,H,T,S). */
    tg_tensor *(*values)(tg_tape *t, const tg_nn_positional *p, tg_tensor *weights);
} tg_position_kind;

extern const tg_position_kind tg_learned_positions, tg_sinusoidal_positions, tg_rotary_positions, tg_alibi_positions,
    tg_t5_positions, tg_shaw_positions, tg_transformer_xl_positions, tg_relative_key_positions,
    tg_relative_key_query_positions, tg_deberta_positions, tg_no_positions;

/* Returns the structure of a kind; tg_no_positions for a number that is no kind. */
const tg_position_kind *tg_position_kind_of(tg_position kind);

/* Returns whether the attention must set the projections of the distances, position_key and position_query, to its own
 * projections in each pass. `positional` may be NULL. */
bool tg_positional_shares_projections(const tg_nn_positional *positional);

/* Returns scaled dot-product attention with relative positions. It does not call `rotate`: the queries and keys are
 * already rotated. `positional` may be NULL. A kind with a bias replaces the config's. */
tg_tensor *tg_positional_attention(tg_tape *t, const tg_nn_positional *positional, tg_tensor *queries, tg_tensor *keys,
                                   tg_tensor *values, const tg_scaled_dot_product_attention_config *config);

/* ---- parts of the kinds ---- */

/* Adds a parameter "<name>.<part>" (rows,columns) drawn from N(0,std). */
tg_tensor *tg_positions_add(tg_params *params, const char *name, const char *part, int64_t rows, int64_t columns,
                            double std);

/* The channels of the sine and the cosine of pair i: 2 i and 2 i + 1, as in Vaswani et al. 2017, or i and i + C/2, all
 * sines before all cosines, as in the code of Transformer-XL. */
typedef enum tg_sinusoidal_layout { TG_SINUSOIDAL_PAIRS, TG_SINUSOIDAL_HALVES } tg_sinusoidal_layout;

/* Writes to row p of a table the sinusoids of position first + p * step, times `amplitude`. */
void tg_fill_sinusoidal(tg_tensor *table, double first, double step, double amplitude, tg_sinusoidal_layout layout);

/* Returns ALiBi's slope of a head, counted from 0. */
double tg_alibi_slope(int64_t heads, int64_t head);

/* Returns T5's bucket of a distance, the position of the query minus that of the key. */
int64_t tg_t5_bucket(int64_t distance, int64_t buckets, int64_t max_distance, bool is_causal);

/* Returns DeBERTa 2's bucket of a distance, with its sign; the distance itself if buckets is -1. */
int64_t tg_deberta_bucket(int64_t distance, int64_t buckets, int64_t max_distance);

#endif
