/* params: the tensors of a model under PyTorch's names, as in a state_dict, and their initial values.
 *
 * A tg_params owns its tensors. It has three kinds of entries: parameters (trained), buffers (part of the model, not
 * trained) and aliases (a second name of a tensor, for tied weights, which are counted and updated once). Entries keep
 * the order in which they were added, which is the order in which a model draws its initial values.
 *
 * Errors. The first error stays in the run of the params (tapegrad/run.h), and later additions return NULL, so one
 * check after building a model is enough.
 */
#ifndef TAPEGRAD_PARAMS_H
#define TAPEGRAD_PARAMS_H

#include <tapegrad/run.h>
#include <tapegrad/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tg_params tg_params;

/* Returns empty params for tensors of TG_F32, or of TG_F64 to check the gradients of a whole model. Yours to free.
 * Initial values are drawn from the generator of the run. The run is optional: without one the params have an error of
 * their own, and nothing can be drawn. Another dtype is DTYPE, in the run, and the params then refuse every call. NULL
 * when memory is exhausted. */
TG_API tg_params *tg_params_new(tg_run *run, tg_dtype dtype);

/* Frees the params and releases their tensors. Modules and optimizers that use them must not be used afterwards. */
TG_API void tg_params_free(tg_params *params);

/* Returns the error of the params' run; never NULL. MEMORY for NULL params, because they could not be created. */
TG_API const tg_error *tg_params_error(const tg_params *params);

/* ---- adding ------------------------------------------------------------------------------------------------------ */
/* Each call returns the tensor, which the params own. Names are those of PyTorch: "tok_emb.weight". NULL after an
 * error: VALUE for a name that is in use, that does not have 1 to 255 characters, or that has an empty part, as
 * ".weight" and "head..weight" do; SHAPE for an invalid shape; MEMORY. */

/* Adds a parameter of zeros: torch.nn.Parameter(torch.zeros(shape)). */
TG_API tg_tensor *tg_params_add(tg_params *params, const char *name, tg_shape shape);

/* The same with values from the run's generator: x.normal_(mean, std) and x.uniform_(low, high). STATE without a
 * generator; VALUE for invalid arguments of the distribution. */
TG_API tg_tensor *tg_params_add_normal(tg_params *params, const char *name, tg_shape shape, double mean, double std);
TG_API tg_tensor *tg_params_add_uniform(tg_params *params, const char *name, tg_shape shape, double low, double high);

/* Adds x as a parameter: retains it, and lets it require a gradient. STATE unless x is a contiguous leaf that shares no
 * values with an entry of these params; DTYPE unless it has the params' dtype. */
TG_API tg_tensor *tg_params_add_existing(tg_params *params, const char *name, tg_tensor *x);

/* Adds a buffer of zeros: torch.nn.Module.register_buffer. */
TG_API tg_tensor *tg_params_add_buffer(tg_params *params, const char *name, tg_shape shape);

/* Adds an alias, `name`, of the entry `existing`, and returns the tensor of both. If a model replaces or removes the
 * entry, the alias keeps the tensor, and becomes a parameter. RANGE if no entry has that name. */
TG_API tg_tensor *tg_params_add_alias(tg_params *params, const char *name, const char *existing);

/* Returns new params with the parameters whose names match a pattern. A * stands for any number of characters, dots
 * included, and every other character for itself: "h.0.*", "*.bias". Both params own the tensors. So an optimizer, or
 * clipping, can work on a part of a model: torch.optim.Adam([p for name, p in model.named_parameters() if ...]). The
 * part keeps its tensors when the model replaces or removes them (tg_gpt_replace_head, tg_gpt_merge_lora): make a new
 * part, and its optimizer, then. Yours to free. NULL, with the error in the run: RANGE if no name matches; MEMORY. */
TG_API tg_params *tg_params_new_part(tg_params *params, const char *pattern);

/* Stops or resumes the training of the parameters whose names, or aliases, match a pattern, as in tg_params_new_part:
 * requires_grad_(). Stopping drops their gradients, so optimizers skip them. RANGE if no parameter matches; STATE if
 * only buffers do, and for a stop while a backward in progress adds to one of the gradients. */
TG_API bool tg_params_set_frozen(tg_params *params, const char *pattern, bool frozen);

/* ---- getters ----------------------------------------------------------------------------------------------------- */

typedef enum tg_entry_kind { TG_ENTRY_PARAMETER, TG_ENTRY_BUFFER, TG_ENTRY_ALIAS } tg_entry_kind;

/* One entry. Name and tensor are borrowed from the params. */
typedef struct tg_entry {
    const char *name;
    tg_tensor *tensor;
    tg_entry_kind kind;
} tg_entry;

/* Returns the number of entries. */
TG_API int64_t tg_params_count(const tg_params *params);

/* Returns entry number `index`, from 0; NULLs for an index outside of [0,tg_params_count). */
TG_API tg_entry tg_params_at(const tg_params *params, int64_t index);

/* Returns the tensor of a name, borrowed. NULL for an unknown name; this is not an error, so a program can ask whether
 * an entry exists. A call on that NULL sets STATE in the run of its tape or in its tg_error, and is silent without
 * either. */
TG_API tg_tensor *tg_params_find(const tg_params *params, const char *name);

/* Returns the number of values in all parameters, without buffers and aliases: sum(p.numel() for p in
 * model.parameters()). */
TG_API int64_t tg_params_value_count(const tg_params *params);

/* ---- initial values: torch.nn.init, with the same draws ---------------------------------------------------------- */
/* Each fills x in place. The fans of x (out,in,..) are fan_in = in * .. and fan_out = out * .., where .. is the product
 * of the other sizes. Errors: SHAPE for a rank below 2; DTYPE unless x is f32 or f64; VALUE for a number that is not
 * finite or out of bounds; MEMORY. Nothing is drawn then. */

/* Glorot and Bengio 2010: std = gain * sqrt(2 / (fan_in + fan_out)), gain >= 0. Uniform values in +-sqrt(3) std, or
 * normal values of mean 0. */
TG_API bool tg_init_xavier_uniform(tg_tensor *x, tg_rng *rng, double gain, tg_error *error);
TG_API bool tg_init_xavier_normal(tg_tensor *x, tg_rng *rng, double gain, tg_error *error);

typedef enum tg_fan { TG_FAN_IN, TG_FAN_OUT } tg_fan;

/* He et al. 2015: std = sqrt(2 / (1 + a^2)) / sqrt(fan), for layers before a leaky relu with the negative slope `a`, or
 * before a relu (a = 0). Uniform values in +-sqrt(3) std, or normal values of mean 0. */
TG_API bool tg_init_kaiming_uniform(tg_tensor *x, tg_rng *rng, double a, tg_fan fan, tg_error *error);
TG_API bool tg_init_kaiming_normal(tg_tensor *x, tg_rng *rng, double a, tg_fan fan, tg_error *error);

/* Normal values in [low,high], drawn as in PyTorch 2.13: values outside are drawn again. x has any rank; DTYPE unless
 * it is contiguous f32 or f64; VALUE unless std > 0 and low < high, for numbers above half of the dtype's largest one,
 * and for an interval so far from the mean that its density is 0 in the dtype (in f32 from 1.8e19 std on). The farther
 * out in a tail the interval is, the longer it takes, without bound. */
TG_API bool tg_init_trunc_normal(tg_tensor *x, tg_rng *rng, double mean, double std, double low, double high,
                                 tg_error *error);

#ifdef __cplusplus
}
#endif

#endif
