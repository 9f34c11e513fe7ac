/* recipe: shared by the programs of the cookbook: the command line, the objects that a training needs, and errors. A
 * function that fails ends the program with a message and status 1, so that the programs stay short. */
#ifndef RECIPE_H
#define RECIPE_H

#include "../common/program.h"

/* The objects of a training. */
typedef struct recipe {
    tg_run *run;
    /* f32 */
    tg_params *params;
    /* records the steps, is reset in each of them, and detects a result that is used after its reset */
    tg_tape *tape;
    /* owns what lives longer than a step: it is never reset */
    tg_tape *data;
    /* set by the program; NULL until then */
    tg_optim *optim;
    /* receives the errors of calls without a tape or params */
    tg_error error;
} recipe;

/* A file that a program reads or writes: "--option PATH". */
typedef struct recipe_file {
    /* the option, and its text in --help */
    const char *option, *help;
    /* the value without the option, and then that of the command line */
    const char *path;
} recipe_file;

/* Reads the command line. --help prints the program's name and the description; it and --version end the program, and
 * an argument that is no option ends it with status 2. --reproducible is for the tapes of the recipe. `file` is
 * optional. */
void recipe_options(const char *description, recipe_file *file, int argc, char **argv);

/* Returns new objects, with a generator in the state of torch.manual_seed(seed). */
recipe recipe_begin(uint64_t seed);

/* Return torch.randn(shape), f32, and torch.randint(low, high, shape), i32; the tape `data` owns them. */
tg_tensor *recipe_randn(recipe *r, tg_shape shape);
tg_tensor *recipe_randint(recipe *r, tg_shape shape, int64_t low, int64_t high);

/* Ends the program if one of the objects has an error. */
void recipe_check(const recipe *r);

/* Does the same for the error of another object. */
void check(const tg_error *error);

/* Checks and frees the objects. Returns main's exit status: 0, or 1 after printing an error if not all that was printed
 * could be written. */
int recipe_end(recipe *r);

#endif
