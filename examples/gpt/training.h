/* training: everything that a training run consists of, and its checkpoints. Functions that return false have printed
 * an error. */
#ifndef TRAINING_H
#define TRAINING_H

#include "corpus.h"

#include <tapegrad_tools.h>
#include "history.h"
#include "model.h"

typedef struct training {
    const options *o;
    corpus c;
    model m;
    /* what is trained, and in the checkpoints: all parameters of the model, or those of its LoRA */
    tg_params *trained;
    tg_tape *t, *quiet;
    /* streams for samples, and for the dropout of a rank above 0 */
    tg_run *sampling, *dropout;
    tg_loader *windows;
    tg_optim *optim;
    tg_schedule_config schedule;
    history h;
    tg_checkpoint_folder *checkpoints;
    /* the vocabulary's file, and the command line, as they are in a checkpoint */
    char *vocabulary, *arguments;
    size_t vocabulary_size, arguments_size;
    /* the checkpoint from which the run continues, or NULL, and the values of options that make it longer */
    const char *resumed;
    char path[PATH_BYTES];
    char decay_steps[24], steps[24];
    /* seconds spent in steps, the tokens of these on all ranks, and the first one */
    double busy, tokens;
    int64_t first_step;
    /* whether a checkpoint or the log could not be written */
    bool is_unsaved;
    /* the file of the ledger, or NULL */
    FILE *file;
    tg_ledger *ledger;
    /* of --tensorboard, or NULL */
    tg_tensorboard *log;
} training;

/* Saves a checkpoint. It is the best one if the last validation was made after the last step and is the best of all. */
bool training_save(training *r);

/* Loads the checkpoint of --resume, if the run continues another. */
bool training_continue(training *r);

/* Sets r->arguments to the command line. */
bool training_join_arguments(training *r);

/* Reads the command line with which a checkpoint was trained. The program frees `arguments` (tg_text_free) and `argv`
 * (free) after its last use of the options. Returns false with the error set: VALUE if gpt train has not written it. */
bool training_arguments(const char *path, char **arguments, char ***argv, int *argc, tg_error *error);

/* Reads the command line of the run that --resume continues, and parses it to `o`, with the --steps that were given
 * with --resume at its end. The program frees `arguments` and `argv` as above. Returns the value of options_read. */
int training_read_arguments(const options *given, training *r, options *o, char **arguments, char ***argv);

#endif
