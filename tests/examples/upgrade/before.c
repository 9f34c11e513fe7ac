/* A program of version 0.2, which examples/upgrade/from_0_2 converts to after.c; it is not meant to be run. */
#include <tapegrad.h>

typedef struct model {
    tg_rng *rng, *unrelated;
    tg_params *params;
    tg_optim *optim;
} model;

static tg_loader *windows(const int32_t *ids, int64_t count, tg_rng *rng)
{
    return tg_loader_new(ids, count, rng, NULL);
}

static model make(tg_rng *rng)
{
    model m = {.rng = rng, .unrelated = tg_rng_new(0)};
    m.params = tg_params_new(TG_F32, m.rng);
    m.optim = tg_adam_new(m.params, NULL);
    tg_nn_linear_config no_bias = tg_nn_linear_config_default();
    no_bias.bias = false;
    tg_nn_linear_make(m.params, "hidden", 2, 3, NULL);
    tg_nn_linear_make(m.params, "head", 3, 4, &no_bias);
    return m;
}

int main(void)
{
    tg_error error = TG_NO_ERROR;
    tg_rng *rng = tg_rng_new(1), *dropout = tg_rng_new(2), *saved = tg_rng_new(3);
    model m = make(rng);
    tg_tape *t = tg_tape_new(dropout, NULL), *quiet = tg_tape_new(NULL, NULL);
    tg_loader *loader = windows((int32_t[]){1, 2, 3}, 3, rng);
    tg_tape_watch_error(t, tg_params_error(m.params));
    tg_tape_watch_error(t, tg_optim_error(m.optim));
    tg_rng_copy(saved, dropout);
    int64_t rows[4];
    tg_random_split(rng, (int64_t[]){2, 2}, 2, rows, 4, &error);
    tg_gpt *gpt = tg_gpt_new(m.params, NULL);
    if (!rng || !tg_gpt_merge_lora(gpt, &error) || tg_optim_error(m.optim)->code != TG_OK) {
        tg_tape_clear_error(t);
    }
    tg_optim_free(m.optim);
    tg_gpt_free(gpt);
    tg_loader_free(loader);
    tg_tape_free(quiet);
    tg_tape_free(t);
    tg_params_free(m.params);
    tg_rng_free(m.unrelated);
    tg_rng_free(saved);
    tg_rng_free(dropout);
    tg_rng_free(rng);
    return 0;
}
