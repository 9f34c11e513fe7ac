#include "recipe.h"

#include <stdlib.h>

#include "../common/command_line.h"

typedef struct values {
    const char *path;
    bool reproducible;
} values;

static bool is_reproducible;

void recipe_options(const char *description, recipe_file *file, int argc, char **argv)
{
    values given = {file ? file->path : NULL, false};
    const command_line_option options[] = {
        {"reproducible", NULL, VALUE_FLAG, offsetof(values, reproducible), NULL,
         "compute the same bits on every processor and with any number of threads", 1},
        {file ? file->option : NULL, "FILE", VALUE_TEXT, offsetof(values, path), NULL, file ? file->help : NULL, 1}};
    char introduction[200];
    snprintf(introduction, sizeof introduction, "%s: %s\n", program_name, description);
    program_begin();
    int status = command_line_read(options, file ? 2 : 1, 1, introduction, &given, argc, argv);
    if (status >= 0) {
        exit(program_end(status));
    }
    if (file) {
        file->path = given.path;
    }
    is_reproducible = given.reproducible;
}

recipe recipe_begin(uint64_t seed)
{
    recipe r = {.run = tg_run_new(seed), .error = TG_NO_ERROR};
    tg_rng_set_profile(tg_run_rng(r.run), is_reproducible ? TG_RNG_PORTABLE : TG_RNG_AVX2);
    r.params = tg_params_new(r.run, TG_F32);
    tg_tape_config config = tg_tape_config_default();
    config.detect_freed_results = true;
    r.tape = tg_tape_new(r.run, &config);
    r.data = tg_tape_new(r.run, &config);
    tg_tape_set_reproducible(r.tape, is_reproducible);
    tg_tape_set_reproducible(r.data, is_reproducible);
    recipe_check(&r);
    return r;
}

tg_tensor *recipe_randn(recipe *r, tg_shape shape)
{
    tg_tensor *x = tg_full(r->data, TG_F32, shape, 0);
    tg_tensor_fill_normal(x, tg_run_rng(r->run), 0, 1, &r->error);
    recipe_check(r);
    return x;
}

tg_tensor *recipe_randint(recipe *r, tg_shape shape, int64_t low, int64_t high)
{
    tg_tensor *x = tg_full(r->data, TG_I32, shape, 0);
    tg_tensor_fill_randint(x, tg_run_rng(r->run), low, high, &r->error);
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
    check(tg_run_error(r->run));
}

int recipe_end(recipe *r)
{
    recipe_check(r);
    tg_tape_free(r->tape);
    tg_optim_free(r->optim);
    tg_tape_free(r->data);
    tg_params_free(r->params);
    tg_run_free(r->run);
    return program_end(0);
}
