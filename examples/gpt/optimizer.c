/* optimizer: the optimizers of gpt train, by name. */
#include <string.h>

#include "../common/program.h"
#include "commands.h"

/* Of the second moment of Adam: an average over 100 steps. The usual 0.999, an average over 1000 steps, is too slow for
 * short runs. */
#define BETA2 0.99

static tg_optim *make_adamw(tg_params *params)
{
    tg_adamw_config config = tg_adamw_config_default();
    config.beta2 = BETA2;
    return tg_adamw_new(params, &config);
}

static tg_optim *make_adam(tg_params *params)
{
    tg_adam_config config = tg_adam_config_default();
    config.beta2 = BETA2;
    return tg_adam_new(params, &config);
}

static tg_optim *make_sgd(tg_params *params)
{
    tg_sgd_config config = tg_sgd_config_default();
    config.momentum = 0.9;
    return tg_sgd_new(params, &config);
}

static tg_optim *make_adagrad(tg_params *params)
{
    return tg_adagrad_new(params, NULL);
}

static tg_optim *make_rmsprop(tg_params *params)
{
    return tg_rmsprop_new(params, NULL);
}

static tg_optim *make_lion(tg_params *params)
{
    return tg_lion_new(params, NULL);
}

static const struct {
    const char *name;
    tg_optim *(*make)(tg_params *params);
} optimizers[] = {
    {"adamw", make_adamw},     {"adam", make_adam},       {"sgd", make_sgd},
    {"adagrad", make_adagrad}, {"rmsprop", make_rmsprop}, {"lion", make_lion},
};

tg_optim *optimizer_make(const options *o, tg_params *params)
{
    size_t i = 0;
    while (i < sizeof optimizers / sizeof *optimizers && strcmp(optimizers[i].name, o->optimizer) != 0) {
        i++;
    }
    if (i == sizeof optimizers / sizeof *optimizers) {
        complain("--optimizer %s: must be adamw, adam, sgd, adagrad, rmsprop or lion", o->optimizer);
        return NULL;
    }
    tg_optim *optim = optimizers[i].make(params);
    tg_optim_set_weight_decay(optim, NULL, o->weight_decay);
    /* not all models have each kind of vectors, and LoRA has none */
    static const char *const vectors[] = {".bias", ".scale", ".shift"};
    bool has_vectors = false;
    for (int64_t k = 0; k < 3 * tg_params_count(params); k++) {
        const char *name = tg_params_at(params, k / 3).name, *end = strrchr(name, '.');
        if (end && strcmp(end, vectors[k % 3]) == 0) {
            has_vectors = tg_optim_add_to_group(optim, "no decay", name);
        }
    }
    if (has_vectors) {
        tg_optim_set_weight_decay(optim, "no decay", 0);
    }
    if (!optim) {
        complain("%s", tg_params_error(params)->text);
    }
    return optim;
}
