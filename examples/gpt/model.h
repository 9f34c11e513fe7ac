/* model: a GPT with its parameters and its generator; how it starts, and how it is kept in a file. */
#ifndef MODEL_H
#define MODEL_H

#include <tapegrad.h>

#include "options.h"

typedef struct model {
    tg_rng *rng; /* draws the initial values, and then what training draws */
    tg_params *params;
    tg_gpt *gpt;
} model;

/* What --config and the sizes beside it ask for. */
bool model_configure(const options *o, tg_gpt_config *config);

/* GPT-2's initial values (Radford et al. 2019): N(0,0.02), and what adds to a shortcut divided by sqrt(2 layers). On
 * failure the model is empty. */
bool model_make(model *m, const tg_gpt_config *config, uint64_t seed);
void model_free(model *m);

/* For evaluation and generation: a tape that records nothing and drops nothing out. NULL after complaining. */
tg_tape *quiet_tape_new(tg_rng *rng);

/* DIR/model.tgw: see weights.c. */
bool weights_save(const model *m, const char *folder);
bool weights_load(model *m, const char *folder);

#endif
