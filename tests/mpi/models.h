/* models: shared by the tests over MPI: small models with gradients of every kind, every optimizer, and a loader. */
#ifndef TG_TESTS_MPI_MODELS_H
#define TG_TESTS_MPI_MODELS_H

#include "ranks.h"

#define V 61
#define T 6

/* The table of the first two has a gradient by rows, the tied one a dense gradient; all others are dense. */
typedef enum model_kind { EMBEDDING, GPT, GPT_TIED, MODELS } model_kind;

typedef struct model {
    tg_params *params;
    tg_nn_embedding token;
    tg_nn_positional position;
    tg_nn_linear hidden, head;
    tg_gpt *gpt;
} model;

static inline model model_make(model_kind kind, tg_dtype dtype, double dropout, tg_run *run)
{
    model m = {.params = tg_params_new(run, dtype)};
    if (kind == EMBEDDING) {
        m.token = tg_nn_embedding_make(m.params, "tok_emb", V, 8, NULL);
        m.position = tg_nn_positional_make(m.params, "pos_emb", TG_POSITION_LEARNED, T, 8, NULL);
        m.hidden = tg_nn_linear_make(m.params, "hidden", 8, 16, TG_BIAS);
        m.head = tg_nn_linear_make(m.params, "head", 16, V, TG_BIAS);
    } else {
        tg_gpt_config config = tg_gpt_config_default();
        config.vocabulary = V;
        config.context = T;
        config.width = 12;
        config.heads = config.layers = 2;
        config.dropout = dropout;
        config.tied_head = kind == GPT_TIED;
        m.gpt = tg_gpt_new(m.params, &config);
    }
    assert_string_equal(tg_params_error(m.params)->text, "");
    return m;
}

static inline tg_tensor *forward(tg_tape *t, const model *m, tg_tensor *ids)
{
    if (m->gpt) {
        return tg_gpt_forward(t, m->gpt, ids, NULL);
    }
    tg_tensor *x = tg_nn_positional_forward(t, &m->position, tg_nn_embedding_forward(t, &m->token, ids), 0);
    return tg_nn_linear_forward(t, &m->head, tg_gelu_tanh(t, tg_nn_linear_forward(t, &m->hidden, x)));
}

/* The optimizers; the last two defer steps, which a tied table does not allow. */
#define METHODS 9
#define DENSE_METHODS 7

static inline tg_optim *optim_make(int method, tg_params *params)
{
    tg_sgd_config sgd = tg_sgd_config_default();
    sgd.lr = 0.1;
    sgd.momentum = 0.9;
    /* RMSprop's default, 0.01, is too large for the GPT: it amplifies the differences of roundings */
    tg_rmsprop_config rmsprop = tg_rmsprop_config_default();
    rmsprop.lr = 1e-3;
    tg_adamw_config adamw = tg_adamw_config_default();
    sgd.deferred = adamw.deferred = method >= DENSE_METHODS;
    switch (method) {
    case 0: return tg_sgd_new(params, &sgd);
    case 1: return tg_adam_new(params, NULL);
    case 2: return tg_adamw_new(params, NULL);
    case 3: return tg_sparse_adam_new(params, NULL);
    case 4: return tg_adagrad_new(params, NULL);
    case 5: return tg_rmsprop_new(params, &rmsprop);
    case 6: return tg_lion_new(params, NULL);
    case 7: return tg_sgd_new(params, &sgd);
    case 8: return tg_adamw_new(params, &adamw);
    default: return NULL;
    }
}

static inline void model_free(model *m)
{
    tg_gpt_free(m->gpt);
    tg_params_free(m->params);
}

/* Returns a loader of this process's part of batches of `batch_size` windows of T ids. */
static inline tg_loader *loader_make(tg_run *run, int64_t batch_size, int parts, int part)
{
    int32_t ids[400];
    for (int i = 0; i < 400; i++) {
        ids[i] = (i * i * 7 + i / 3) % V;
    }
    tg_loader_config config = tg_loader_config_default();
    config.context = T;
    config.stride = 3;
    config.batch_size = batch_size;
    config.shuffle = config.drop_last = true;
    config.parts = parts;
    config.part = part;
    tg_loader *loader = tg_loader_new(run, ids, 400, &config);
    assert_string_equal(tg_loader_error(loader)->text, "");
    return loader;
}

/* Sets the next batch, of this pass or the next one. */
static inline void next_batch(tg_loader *loader, tg_batch *batch)
{
    while (!tg_loader_next(loader, batch)) {
        assert_string_equal(tg_loader_error(loader)->text, "");
    }
}

/* Asserts that two models have the same values, bit for bit. */
static inline void assert_same_values(const tg_params *a, const tg_params *b)
{
    for (int64_t i = 0; i < tg_params_count(a); i++) {
        const tg_tensor *x = tg_params_at(a, i).tensor, *y = tg_params_at(b, i).tensor;
        size_t size = tg_dtype_size(tg_tensor_dtype(x));
        assert_memory_equal(tg_tensor_data(x), tg_tensor_data(y), (size_t)tg_tensor_count(x) * size);
    }
}

#endif
