#include "recipe.h"

#include <stdlib.h>

#include "../common/command_line.h"

void recipe_options(const char *description, const char **text, int argc, char **argv)
{
    const command_line_option option = {"text", "FILE", VALUE_TEXT, 0, NULL, "a story to train on", 1};
    char introduction[200];
    snprintf(introduction, sizeof introduction, "%s: %s\n", program_name, description);
    program_begin();
    int status = command_line_read(&option, text ? 1 : 0, 1, introduction, text, argc, argv);
    if (status >= 0) {
        exit(program_end(status));
    }
}

recipe recipe_begin(uint64_t seed)
{
    recipe r = {.rng = tg_rng_new(seed), .error = TG_NO_ERROR};
    r.params = tg_params_new(TG_F32, r.rng);
    r.tape = tg_tape_new(r.rng, NULL);
    r.data = tg_tape_new(r.rng, NULL);
    tg_tape_watch_error(r.tape, tg_params_error(r.params));
    tg_tape_watch_error(r.tape, tg_tape_error(r.data));
    recipe_check(&r);
    return r;
}

tg_tensor *recipe_randn(recipe *r, tg_shape shape)
{
    tg_tensor *x = tg_full(r->data, TG_F32, shape, 0);
    tg_tensor_fill_normal(x, r->rng, 0, 1, &r->error);
    recipe_check(r);
    return x;
}

tg_tensor *recipe_randint(recipe *r, tg_shape shape, int64_t low, int64_t high)
{
    tg_tensor *x = tg_full(r->data, TG_I32, shape, 0);
    tg_tensor_fill_randint(x, r->rng, low, high, &r->error);
    recipe_check(r);
    return x;
}

void check(const tg_error *error)
{
    if (error->code != TG_OK) {
        complain("%s", error->text);
        exit(program_end(1));
    }
}

void recipe_check(const recipe *r)
{
    check(&r->error);
    /* with the errors of the params and of `data` */
    check(tg_tape_error(r->tape));
    if (r->optim) {
        check(tg_optim_error(r->optim));
    }
}

int recipe_end(recipe *r)
{
    recipe_check(r);
    tg_tape_free(r->tape);
    tg_optim_free(r->optim);
    tg_tape_free(r->data);
    tg_params_free(r->params);
    tg_rng_free(r->rng);
    return program_end(0);
}
