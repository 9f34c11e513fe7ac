/* module (private): what all modules share. */
#ifndef TG_NN_MODULE_H
#define TG_NN_MODULE_H

#include <tapegrad/nn.h>
#include <tapegrad/op.h>

#include "params/params.h"

#define TG_NAME_SIZE 256

/* "<name>.<part>" into `text`; false, with an error of the params, when it is too long or NULL. */
bool tg_module_name(tg_params *params, const char *name, const char *part, char text[TG_NAME_SIZE]);

/* For a forward: false, with the params' error on the tape, when the tensor could not be made. */
bool tg_module_ready(tg_tape *tape, const char *call, const tg_params *params, const tg_tensor *tensor);

#endif
