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

/* Gives tables a new number of rows, all or none (tg_resize_rows); new rows of table i are drawn from the
 * params' generator by fill[i](rows, rng, a[i], b[i]). */
typedef struct tg_new_rows {
    tg_tensor *table;
    bool (*fill)(tg_tensor *rows, tg_rng *rng, double a, double b, tg_error *error);
    double a, b;
} tg_new_rows;

bool tg_resize_and_draw(const tg_new_rows *tables, int count, int64_t rows, tg_rng *rng, tg_error *error);

#endif
