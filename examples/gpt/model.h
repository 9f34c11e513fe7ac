/* model: a GPT with its parameters and its random generator: configuration, initial values, and checkpoints. */
#ifndef MODEL_H
#define MODEL_H

#include <tapegrad.h>
#include <tapegrad_text.h>

#include "../common/program.h"
#include "options.h"

typedef struct model {
    /* draws the initial values, and after them everything random in training */
    tg_run *run;
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

/* Return a tape, or one without recording and without dropout, for evaluation and generation; NULL after printing an
 * error. */
tg_tape *tape_new(tg_run *run, bool reproducible);
tg_tape *quiet_tape_new(tg_run *run, bool reproducible);

/* ---- checkpoint.c ---- */

/* The names of the parts of a checkpoint that commands read. */
#define MODEL_PART "model"
#define CONFIG_PART "config"
#define VOCABULARY_PART "vocabulary"
#define DATA_PART "data"

/* Writes the configuration to `text`, and returns it. */
#define CONFIG_TEXT 400
const char *config_text(const tg_gpt_config *config, char text[CONFIG_TEXT]);

/* Writes the path of a file, or of the best or the last checkpoint of a folder, to `path`. Returns false after printing
 * an error; of a folder without a model it says that `option` names another. */
bool model_find(const char *option, const char *model_path, tg_checkpoint_choice choice, char path[PATH_BYTES]);

/* The same of a folder alone. */
bool model_find_in(const char *option, const char *folder, tg_checkpoint_choice choice, char path[PATH_BYTES]);

/* Reads a trained model: from a folder of gpt train its best or its last checkpoint, or from a file. Unless `bpe` is
 * NULL, it also reads the vocabulary; *bpe becomes NULL if the model has none. Returns false after printing an
 * error. */
bool model_load(model *m, const char *path, tg_checkpoint_choice choice, bool activation_checkpointing,
                tg_tokenizer **bpe);

/* Reads the vocabulary of a checkpoint; *bpe becomes NULL if it has none. Returns false after printing an error. */
bool vocabulary_load(const char *path, tg_tokenizer **bpe);

/* Replaces *bpe, the vocabulary of the model at `path`, by that of --vocab, if that is given. Returns false after
 * printing an error if neither exists. */
bool model_tokenizer(tg_tokenizer **bpe, const char *path, const options *o);

#endif
