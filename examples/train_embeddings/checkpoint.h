/* checkpoint: saves and continues one of the two trainings. Functions that return false have printed an error. */
#ifndef CHECKPOINT_H
#define CHECKPOINT_H

#include <tapegrad.h>

#include "options.h"

/* What a training consists of. The pointers are borrowed. */
typedef struct training {
    tg_params *params;
    tg_optim *optim;
    tg_run *run;
    tg_loader *loader;
    int64_t step;
    /* one loss per step */
    float *losses;
    /* the token table before training and halfway, or NULL */
    tg_tensor *before, *halfway;
} training;

/* Returns whether --out/`name` has a checkpoint. */
bool checkpoint_exists(const options *o, const char *name);

/* Opens --out/`name`, and loads its last checkpoint with --resume. A trained model in the folder is an error, unless it
 * is continued or replaced. */
tg_checkpoint_folder *checkpoint_open(const options *o, const char *name, training *t);

bool checkpoint_save(tg_checkpoint_folder *folder, const options *o, training *t);

#endif
