/* params: the trainable tensors of a model under PyTorch's names, and how they start.
 *
 * A tg_params owns its tensors. Three kinds of entries: parameters (trained), buffers (part of the model, not trained)
 * and aliases (a second name for a parameter: tied weights, counted and updated once). Entries keep the order of their
 * making, which is the order in which a model draws its initial values from the generator.
 *
 * Errors are sticky, as on a tape: the first stays, later additions return NULL, and one check after building a model
 * is enough. A NULL params counts as one that could not be made.
 */
#ifndef TAPEGRAD_PARAMS_H
#define TAPEGRAD_PARAMS_H

#include <tapegrad/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tg_params tg_params;

/* f32, or f64 to check a whole model's gradients. `rng` gives the initial values; it stays yours, must live as long as
 * tensors are added, and may be NULL when none is drawn. Yours to free. NULL when out of memory or for another
 * dtype. */
TG_API tg_params *tg_params_new(tg_dtype dtype, tg_rng *rng);
TG_API void tg_params_free(tg_params *params); /* releases its tensors; NULL is fine */

TG_API const char *tg_params_error(const tg_params *params); /* "" when there is none */
TG_API tg_code tg_params_error_code(const tg_params *params);
TG_API void tg_params_clear_error(tg_params *params);

/* ---- adding: each returns the tensor, owned by the params, or NULL with the error set ---------------------------- */
/* Names are PyTorch's ("tok_emb.weight"): 1 to 255 characters, each once (VALUE). */

/* Zeros, trained. */
TG_API tg_tensor *tg_params_add(tg_params *params, const char *name, tg_shape shape);

/* The same, filled from the params' generator: x.normal_(mean, std), x.uniform_(low, high). STATE without
 * a generator. */
TG_API tg_tensor *tg_params_add_normal(tg_params *params, const char *name, tg_shape shape, double mean, double std);
TG_API tg_tensor *tg_params_add_uniform(tg_params *params, const char *name, tg_shape shape, double low, double high);

/* A tensor that exists, which the params retain: of their dtype, contiguous, a leaf, and not there yet under another
 * name (that would be an alias). It becomes trained. */
TG_API tg_tensor *tg_params_add_existing(tg_params *params, const char *name, tg_tensor *x);

/* Zeros, not trained. */
TG_API tg_tensor *tg_params_add_buffer(tg_params *params, const char *name, tg_shape shape);

/* A second name for an entry that exists. Returns its tensor. */
TG_API tg_tensor *tg_params_add_alias(tg_params *params, const char *name, const char *existing);

/* Stops, or starts again, training a parameter. RANGE for an unknown name, STATE for a buffer. */
TG_API bool tg_params_set_frozen(tg_params *params, const char *name, bool frozen);

/* ---- looking ----------------------------------------------------------------------------------------------------- */

typedef enum tg_entry_kind { TG_ENTRY_PARAMETER, TG_ENTRY_BUFFER, TG_ENTRY_ALIAS } tg_entry_kind;

typedef struct tg_entry {
    const char *name;
    tg_tensor *tensor;
    tg_entry_kind kind;
} tg_entry;

TG_API int64_t tg_params_count(const tg_params *params);                     /* entries */
TG_API tg_entry tg_params_at(const tg_params *params, int64_t index);        /* nulls outside of [0,count) */
TG_API tg_tensor *tg_params_find(const tg_params *params, const char *name); /* NULL when there is none */
TG_API int64_t tg_params_values(const tg_params *params); /* numbers in all parameters, aliases once */
TG_API tg_dtype tg_params_dtype(const tg_params *params);
TG_API tg_rng *tg_params_rng(const tg_params *params);

/* tg_zero_grad on every parameter. */
TG_API void tg_params_zero_grad(tg_params *params);

/* ---- initial values: torch.nn.init, the same draws --------------------------------------------------------------- */
/* x is f32 or f64 of rank 2 or more, (out,in,..) as PyTorch keeps weights: fan_in = in * the rest, fan_out = out * the
 * rest. Each returns false, sets `error` and draws nothing when something is wrong. */

TG_API bool tg_init_xavier_uniform(tg_tensor *x, tg_rng *rng, double gain, tg_error *error);
TG_API bool tg_init_xavier_normal(tg_tensor *x, tg_rng *rng, double gain, tg_error *error);

typedef enum tg_fan { TG_FAN_IN, TG_FAN_OUT } tg_fan;

/* For leaky_relu of the negative slope `a` (0: relu), PyTorch's default nonlinearity. */
TG_API bool tg_init_kaiming_uniform(tg_tensor *x, tg_rng *rng, double a, tg_fan fan, tg_error *error);
TG_API bool tg_init_kaiming_normal(tg_tensor *x, tg_rng *rng, double a, tg_fan fan, tg_error *error);

/* Normal values cut at low < high, which are finite: torch.nn.init.trunc_normal_ of PyTorch 2.13. Any rank, contiguous.
 * Values are drawn until they are accepted: a cut far out in a tail, or a wide one beside the mean, takes long. */
TG_API bool tg_init_trunc_normal(tg_tensor *x, tg_rng *rng, double mean, double std, double low, double high,
                                 tg_error *error);

#ifdef __cplusplus
}
#endif

#endif
