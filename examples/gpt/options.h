/* options: the options of each command. */
#ifndef OPTIONS_H
#define OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "../common/command_line.h"

/* The commands, as bits: an option may belong to several. */
typedef enum command {
    TRAIN = 1,
    EVAL = 2,
    GENERATE = 4,
    TOKENIZE = 8,
    INFO = 16,
    COMPARE = 32,
    IMPORT = 64,
    EXPORT = 128,
    VOCABULARY = 256
} command;

/* The value of an option that was not given, and whose default depends on others. */
#define AS_CONFIGURED (-1)

typedef struct options {
    /* the model: the name of a configuration and changes to it, or a folder that `gpt train` wrote */
    const char *config, *model, *position;
    int64_t layers, heads, width, context;
    double dropout;
    bool tied, untied;

    /* the text: a file and its vocabulary, or token files; gpt vocabulary: several texts */
    const char *text, *vocab, *tokens, *val_tokens;
    /* gpt eval: whether the text is that of the model's training, because none was given */
    bool is_trained_text;
    text_list texts;
    int64_t vocab_size;

    /* training */
    int64_t steps, decay_steps, batch, accumulate, stride, warmup, seed, threads;
    double lr, weight_decay, clip;
    int64_t eval_every, eval_batches, sample_every;
    const char *optimizer, *out;
    /* the folder of a run to continue, and whether a trained model in --out may be replaced */
    const char *resume;
    bool overwrite;
    bool tensorboard, reproducible, activation_checkpointing;
    /* the number of last checkpoints that stay */
    int64_t keep;

    /* the command line, which gpt train saves for --resume */
    int argc;
    char **argv;

    /* generation */
    const char *prompt;
    int64_t max_new_tokens, top_k, text_count;
    double temperature, top_p;
    bool greedy, end_of_text, no_cache;
    /* a question instead of a prompt */
    const char *chat;
    double min_p, repetition_penalty;

    /* gpt import: the weights to read, gpt train: the model to begin with; gpt import and export: the names of the
     * weights, and how floats are written */
    const char *from, *layout, *floats;

    /* published models: trained LoRA, examples with answers, and the rank, alpha and layers of new LoRA */
    const char *adapter, *data;
    int64_t lora;
    double lora_alpha;
    text_list lora_layers;

    /* gpt info: list the parameters */
    bool names;

    /* gpt train: the file for a trace of the ops; gpt compare: two such files, and the tolerance */
    const char *ledger, *with;
    double tolerance;
} options;

/* Parses the options of a command from argv[1] on. Returns -1 if the program continues, or else its exit status: 0
 * after --help, 2 after printing an error. */
int options_read(options *o, command which, const char *introduction, int argc, char **argv);

/* Returns whether gpt train trains LoRA alone. */
bool options_train_lora(const options *o);

/* Returns true if all ranks have the same options of a command (parallel.h). Returns false, on all ranks, after rank 0
 * has printed an option that differs. */
bool options_are_shared(const options *o, command which);

#endif
