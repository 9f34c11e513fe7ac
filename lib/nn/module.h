/* module (private): the functions that all modules share. */
#ifndef TG_NN_MODULE_H
#define TG_NN_MODULE_H

#include <tapegrad/nn.h>
#include <tapegrad/op.h>

#include "params/params.h"

#define TG_NAME_SIZE 256

/* Begins a `_make`: checks the params, the config's mark and the name, and saves in *point the state to which a failure
 * returns. False, with the params' error set, after an error. */
bool tg_module_begin(tg_params *params, const char *call, const char *name, const void *config, const char *mark,
                     tg_params_point *point);

/* Ends a `_make`: returns the first member of the module. If the params have an error, is_made is false, and the params
 * return to `point`. */
tg_nn_module tg_module_end(tg_params *params, const tg_params_point *point);

/* Writes "<name>.<part>" to `text`, and returns it; NULL, with the params' error set, if it is too long. */
const char *tg_module_name(tg_params *params, const char *name, const char *part, char text[TG_NAME_SIZE]);

/* The same for an array that lives to the end of the block. */
#define TG_MODULE_NAME(params, name, part) tg_module_name(params, name, part, (char[TG_NAME_SIZE]){""})

/* Add a parameter "<name>.<part>": filled with `value`, drawn from N(mean,std), or uniform in [-bound,bound]. NULL
 * after an error. */
tg_tensor *tg_module_add(tg_params *params, const char *name, const char *part, tg_shape shape, double value);
tg_tensor *tg_module_add_normal(tg_params *params, const char *name, const char *part, tg_shape shape, double mean,
                                double std);
tg_tensor *tg_module_add_uniform(tg_params *params, const char *name, const char *part, tg_shape shape, double bound);

/* Returns the bound of the initial values of a Linear's weight: 1 / sqrt(in), rounded as in PyTorch. */
double tg_linear_bound(int64_t in);

/* Checks that the two matrices of LoRA fit the weight: a caller may have resized one of the three. */
bool tg_lora_check_shapes(const char *call, const tg_nn_linear *linear, tg_error *error);

/* Returns whether a module was made; if not, the tape's error is the reason. The module begins with a tg_nn_module. */
bool tg_module_is_ready(tg_tape *tape, const char *call, const void *module);

/* Returns the error of a made module's params for a call that changes them; NULL, with STATE in their run, for a module
 * that was not made, and while there is an error. */
tg_error *tg_module_error(const char *call, const void *module);

/* Multiplies two sizes of a module. If no tensor can have so many rows, sets the error "<call>: '<name>' has <what>
 * <size>; <factor> times that is more than 2^63 - 1" and returns false. */
bool tg_module_multiply(tg_params *params, const char *call, const char *name, const char *what, int64_t size,
                        int64_t factor, int64_t *product);

/* A table, and the function that draws its new rows, with its parameters a and b; NULL: they are zeros. */
typedef struct tg_new_rows {
    tg_tensor *table;
    bool (*fill)(tg_tensor *rows, tg_rng *rng, double a, double b, tg_error *error);
    double a, b;
} tg_new_rows;

#define TG_MAX_TABLES 3

/* Changes the number of rows of all tables, or of none after an error (tg_tensor_resize_rows), and sets new rows. The
 * params are those of the tables, without an error. */
bool tg_resize_and_draw(const char *call, const tg_new_rows *tables, int count, int64_t rows, const tg_params *params);

#endif
