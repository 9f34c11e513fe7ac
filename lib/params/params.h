/* params (private): functions of params for those that train or hold them. */
#ifndef TG_PARAMS_PARAMS_H
#define TG_PARAMS_PARAMS_H

#include <tapegrad/extend.h>
#include <tapegrad/params.h>

#include "base/run.h"

/* Sets the error of the params unless one is set already. Returns false. */
bool tg_params_fail(tg_params *params, tg_code code, const char *format, ...) TG_PRINTF_LIKE(3, 4);

/* Returns whether the params exist and were made, and their run has no error. */
bool tg_params_is_usable(const tg_params *params);

/* The same for a call that has an error of its own: it becomes a copy of the run's. */
bool tg_params_check(const char *call, const tg_params *params, tg_error *error);

/* Returns whether the params are usable and the config is NULL or has this mark. For another mark it sets an error that
 * begins with `call`. */
bool tg_params_expect_config(tg_params *params, const char *call, const void *config, const char *mark);

/* Returns whether a text matches a pattern, in which * stands for any number of characters. */
bool tg_name_matches(const char *pattern, const char *text);

/* The same with a pattern of `length` bytes. */
bool tg_name_matches_bytes(const char *pattern, size_t length, const char *text);

/* Returns the number of an entry by its name, or of the first entry of a tensor, for tg_params_at; -1 if there is none.
 * Params and name may be NULL in the first one. */
int64_t tg_params_number(const tg_params *params, const char *name);
int64_t tg_params_number_of(const tg_params *params, const tg_tensor *x);

/* Returns the number of an alias of the tensor of entry `number`, which is the first one of its tensor or was returned
 * by this call: the newest alias comes first. -1 after the oldest one. */
int64_t tg_params_next_alias(const tg_params *params, int64_t number);

/* Returns the dtype of the params; TG_F32 for NULL. */
tg_dtype tg_params_dtype(const tg_params *params);

/* Returns the generator of the initial values, or NULL. */
tg_rng *tg_params_rng(const tg_params *params);

/* Where the tensors of new parameters come from while a model is made with values that exist: nothing is drawn then. */
typedef struct tg_params_source {
    /* returns the tensor of a parameter with this name and shape; NULL with the error set */
    tg_tensor *(*read)(void *context, const char *name, tg_shape shape, tg_error *error);
    void *context;
} tg_params_source;

/* Sets the source, borrowed; NULL: new parameters are zeros or drawn, as usual. */
void tg_params_set_source(tg_params *params, const tg_params_source *source);

/* Returns whether the params have a source, so that the caller writes no initial values. */
bool tg_params_has_source(const tg_params *params);

/* Gives entry `number` another tensor, whose reference it takes over; the entry becomes a parameter of its own. */
void tg_params_replace(tg_params *params, int64_t number, tg_tensor *x);

/* Removes entry `number`. In both calls the oldest alias of the old tensor becomes a parameter. */
void tg_params_remove(tg_params *params, int64_t number);

/* Returns how often an entry was replaced or removed. */
int64_t tg_params_changes(const tg_params *params);

/* A state of the params that is restored if a module cannot be created: the number of entries, and the generator. */
typedef struct tg_params_point {
    int64_t count;
    tg_rng rng;
} tg_params_point;

tg_params_point tg_params_save_point(const tg_params *params);

/* Removes the entries that were added after the point, and restores the generator. The error stays. */
void tg_params_return_to(tg_params *params, const tg_params_point *point);

#endif
