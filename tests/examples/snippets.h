/* snippets: the variables and functions that code blocks of headers and guides use without declaring them.
 * tests/examples/snippets puts each block into its own function after this file, and calls it between stage_open and
 * stage_close.
 */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <tapegrad.h>
#include <tapegrad_text.h>
#include <tapegrad_tools.h>

static tg_error error;
static tg_run *run;
static tg_tape *t, *tape;
static tg_params *params;
static tg_optim *optim;
static tg_tensor *a, *b, *c, *x, *y, *ids, *targets, *inputs[2];
static tg_nn_linear linear;
static const char text[] = "the cat sat on the mat and the dog sat on the log, and the cat saw the dog";
static const size_t length = sizeof text - 1;

static tg_tensor *random_tensor(tg_dtype dtype, int64_t rows, int64_t columns)
{
    tg_tensor *made = tg_tensor_new(dtype, TG_SHAPE(rows, columns), &error);
    tg_tensor_fill_normal(made, tg_run_rng(run), 0, 1, &error);
    tg_tensor_set_requires_grad(made, true, &error);
    return made;
}

static void stage_open(void)
{
    run = tg_run_new(1);
    t = tape = tg_tape_new(run, NULL);
    params = tg_params_new(run, TG_F32);
    linear = tg_nn_linear_make(params, "linear", 4, 4, TG_BIAS);
    a = random_tensor(TG_F32, 4, 4);
    b = random_tensor(TG_F32, 4, 4);
    c = random_tensor(TG_F32, 4, 4);
    x = random_tensor(TG_F32, 4, 4);
    y = random_tensor(TG_F32, 4, 4);
    inputs[0] = random_tensor(TG_F64, 3, 4);
    inputs[1] = random_tensor(TG_F64, 4, 3);
    ids = tg_tensor_new_from(TG_I32, TG_SHAPE(2, 3), (const int32_t[]){1, 2, 3, 4, 5, 6}, &error);
    targets = tg_tensor_new(TG_I32, TG_SHAPE(4), &error);
    optim = tg_sgd_new(params, NULL);
}

/* The block has run without an error anywhere. */
static void stage_close(const char *where)
{
    const tg_error *errors[] = {&error, tg_run_error(run)};
    for (int i = 0; i < 2; i++) {
        if (errors[i]->code != TG_OK) {
            fprintf(stderr, "%s: %s\n", where, errors[i]->text);
        }
        assert(errors[i]->code == TG_OK);
    }
    tg_tensor *tensors[] = {a, b, c, x, y, inputs[0], inputs[1], ids, targets};
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) {
        tg_release(tensors[i]);
    }
    tg_optim_free(optim);
    tg_tape_free(t);
    tg_params_free(params);
    tg_run_free(run);
}
