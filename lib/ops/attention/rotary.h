/* rotary (private): the check of a tg_rotary_config, which a tg_nn_positional_config contains. */
#ifndef TG_OPS_ATTENTION_ROTARY_H
#define TG_OPS_ATTENTION_ROTARY_H

#include <tapegrad/ops.h>

/* Returns whether the config is NULL or valid, its mark included. If not, sets an error that begins with `call`. */
bool tg_rotary_check(const char *call, const tg_rotary_config *config, tg_error *error);

#endif
