/* methods: shared by the tests: every optimizer, with options that give it all of its moments. */
#ifndef TG_TESTS_METHODS_H
#define TG_TESTS_METHODS_H

#include <tapegrad.h>

typedef struct method {
    const char *name;
    tg_optim *(*make)(tg_params *params);
    /* refuses dense gradients */
    bool is_sparse;
} method;

static inline tg_optim *make_sgd(tg_params *params)
{
    tg_sgd_config config = tg_sgd_config_default();
    config.momentum = 0.9;
    return tg_sgd_new(params, &config);
}

static inline tg_optim *make_plain_sgd(tg_params *params)
{
    return tg_sgd_new(params, NULL);
}

static inline tg_optim *make_adam(tg_params *params)
{
    tg_adam_config config = tg_adam_config_default();
    config.amsgrad = true;
    return tg_adam_new(params, &config);
}

static inline tg_optim *make_adamw(tg_params *params)
{
    return tg_adamw_new(params, NULL);
}

static inline tg_optim *make_sparse_adam(tg_params *params)
{
    return tg_sparse_adam_new(params, NULL);
}

static inline tg_optim *make_adagrad(tg_params *params)
{
    return tg_adagrad_new(params, NULL);
}

static inline tg_optim *make_adagrad_by_rows(tg_params *params)
{
    tg_adagrad_config config = tg_adagrad_config_default();
    config.by_rows = true;
    return tg_adagrad_new(params, &config);
}

static inline tg_optim *make_rmsprop(tg_params *params)
{
    tg_rmsprop_config config = tg_rmsprop_config_default();
    config.momentum = 0.5;
    config.centered = true;
    return tg_rmsprop_new(params, &config);
}

static inline tg_optim *make_lion(tg_params *params)
{
    return tg_lion_new(params, NULL);
}

static const method methods[] = {
    {"sgd", make_sgd, false},
    {"plain sgd", make_plain_sgd, false},
    {"adam", make_adam, false},
    {"adamw", make_adamw, false},
    {"sparse adam", make_sparse_adam, true},
    {"adagrad", make_adagrad, false},
    {"adagrad by rows", make_adagrad_by_rows, false},
    {"rmsprop", make_rmsprop, false},
    {"lion", make_lion, false},
};

#define METHODS (sizeof methods / sizeof *methods)

#endif
