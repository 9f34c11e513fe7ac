/* model: a GPT with its parameters and its random generator: configuration, initial values, and the file of weights. */
#ifndef MODEL_H
#define MODEL_H

#include <tapegrad.h>

#include "options.h"

typedef struct model {
    /* draws the initial values, and after them everything random in training */
    tg_rng *rng;
    tg_params *params;
    tg_gpt *gpt;
} model;

/* Sets the configuration from --config and the size options. Returns false after printing an error. */
bool model_configure(const options *o, tg_gpt_config *config);

/* Creates a model with GPT-2's initial values (Radford et al. 2019): weights are normal with a standard deviation of
 * 0.02, or 0.02 / sqrt(2 layers) if their layer's output is added to a shortcut; biases are 0. Returns false after
 * printing an error; the model is then empty. */
bool model_make(model *m, const tg_gpt_config *config, uint64_t seed);
void model_free(model *m);

/* Returns a tape without recording and without dropout, for evaluation and generation; NULL after printing an error. */
tg_tape *quiet_tape_new(tg_rng *rng);

/* Write and read `folder`/model.tgw, whose format is in weights.c. Return false after printing an error. */
bool weights_save(const model *m, const char *folder);
bool weights_load(model *m, const char *folder);

#endif
