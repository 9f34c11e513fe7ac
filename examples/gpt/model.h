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
    /* whether another program has written it: a folder with a config.json */
    bool is_published;
    /* the bytes of the weights of a published model */
    double bytes;
    /* the number of tokens of a window in training and evaluation */
    int64_t window;
} model;

/* How a model is loaded. */
typedef struct model_use {
    /* of the checkpoints of a folder */
    tg_checkpoint_choice choice;
    /* whether all weights are trained or written; else those that a published folder has in bf16 stay so */
    bool is_f32;
    bool activation_checkpointing;
    /* the number of tokens of a window; below 1: the context, of a published model at most 1024 */
    int64_t window;
    /* a folder of peft for a published model, or NULL */
    const char *adapter;
    /* of a published model a line is printed before its weights are read, unless `more` is NULL: it returns the floats
     * that the command with these options needs besides the weights, with windows of `window` tokens */
    double (*more)(const tg_gpt_config *config, int64_t values, int64_t window, const options *o);
    const options *o;
} model_use;

/* Sets the configuration from --config and the size options. Returns false after printing an error. */
bool model_configure(const options *o, tg_gpt_config *config);

/* Creates a model with GPT-2's initial values (Radford et al. 2019): weights are normal with a standard deviation of
 * 0.02, or 0.02 / sqrt(2 layers) if their layer's output is added to a shortcut; biases are 0. Returns false after
 * printing an error; the model is then empty. */
bool model_make(model *m, const tg_gpt_config *config, uint64_t seed);
void model_free(model *m);

/* Returns the loss of a batch, a scalar. Of a published model, whose vocabulary may be large, the logits never exist as
 * a whole. */
tg_tensor *model_loss(tg_tape *t, const model *m, const tg_batch *batch);

/* Return a tape, or one without recording and without dropout, for evaluation and generation; NULL after printing an
 * error. Unless it recycles, memory returns to the system after each step: for examples, whose batches have all kinds
 * of lengths. A tape that recycles would keep blocks for each, 5 times the memory of the longest. */
tg_tape *tape_new(tg_run *run, bool reproducible, bool recycles);
tg_tape *quiet_tape_new(tg_run *run, bool reproducible, bool recycles);

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

/* Reads a trained model: from a folder of gpt train its best or its last checkpoint, from a file, or from a published
 * folder. Unless `bpe` is NULL, it also reads the vocabulary; *bpe becomes NULL if the model has none. Returns false
 * after printing an error. */
bool model_load(model *m, const char *path, const model_use *use, tg_tokenizer **bpe);

/* Reads the vocabulary of a checkpoint; *bpe becomes NULL if it has none. Returns false after printing an error. */
bool vocabulary_load(const char *path, tg_tokenizer **bpe);

/* Replaces *bpe, the vocabulary of the model at `path`, by that of --vocab, if that is given. Returns false after
 * printing an error if neither exists. */
bool model_tokenizer(tg_tokenizer **bpe, const char *path, const options *o);

/* Returns true if the vocabulary has as many ids as the model's table has rows, of a published model at most so many,
 * or if `bpe` is NULL. Returns false after printing an error. */
bool vocabulary_fits(const tg_tokenizer *bpe, const model *m);

/* ---- published.c ---- */

/* Returns whether a folder has a vocabulary. */
bool has_vocabulary(const char *folder);

/* Returns whether a path is a folder of a published model, which has a config.json, or one of peft. */
bool is_published(const char *path);
bool is_adapter(const char *path);

/* Reads a model that another program has written, as model_load does. */
bool published_load(model *m, const char *folder, const model_use *use, tg_tokenizer **bpe);

/* Returns the number of tokens of a window: those that are given, or of a published model, whose context may be far
 * longer than a machine can train, at most 1024. */
int64_t model_window(const tg_gpt_config *config, bool is_published, int64_t given);

/* Return the layers of --lora-layers as patterns with spaces between them, and the values of the LoRA that a training
 * has, and its rank: those of --adapter, or of new LoRA. */
const char *published_lora_layers(const tg_gpt_config *config, const options *o);
int64_t published_lora(const tg_gpt_config *config, const options *o, int64_t *rank);

/* Adds LoRA to the layers of --lora-layers, unless that of --adapter is there, and stops the training of all else. */
bool published_add_lora(const model *m, const options *o);

/* Copies the files of the vocabulary from one published folder to another. */
bool published_copy_vocabulary(const char *from, const char *to);

/* The files that published_copy_vocabulary copies. The last one is NULL. */
extern const char *const published_vocabulary[];

#endif
