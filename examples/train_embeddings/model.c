#include "model.h"

model model_make(tg_run *run, int64_t vocabulary, int64_t dim, int64_t context, bool with_positions)
{
    tg_params *params = tg_params_new(run, TG_F32);
    model m = {.params = params, .with_positions = with_positions};
    tg_nn_embedding_config small = tg_nn_embedding_config_default();
    /* small initial values, so that the changes by training are larger */
    small.std = 0.1;
    m.token = tg_nn_embedding_make(params, "tok_emb", vocabulary, dim, &small);
    m.position = tg_nn_positional_make(params, "pos_emb", TG_POSITION_LEARNED, context, dim, NULL);
    m.hidden = tg_nn_linear_make(params, "hidden", dim, 2 * dim, TG_BIAS);
    m.mix = tg_nn_linear_make(params, "mix", 2 * dim, 2 * dim, TG_BIAS);
    m.head = tg_nn_linear_make(params, "head", 2 * dim, vocabulary, TG_NO_BIAS);
    m.averages = tg_params_add_buffer(params, "averages", TG_SHAPE(context, context));
    float *average = m.averages ? tg_tensor_data_mut(m.averages) : NULL;
    for (int64_t t = 0; average && t < context; t++) {
        for (int64_t i = 0; i <= t; i++) {
            average[t * context + i] = 1.0f / (float)(t + 1);
        }
    }
    return m;
}

int64_t model_parameter_count(const model *m)
{
    return tg_params_value_count(m->params) - (m->with_positions ? 0 : tg_tensor_count(m->position.weight));
}

void model_free(model *m)
{
    tg_params_free(m->params);
}

tg_tensor *model_forward(tg_tape *t, const model *m, tg_tensor *ids)
{
    /* (B,T) -> (B,T,C) */
    tg_tensor *x = tg_nn_embedding_forward(t, &m->token, ids);
    if (m->with_positions) {
        x = tg_nn_positional_forward(t, &m->position, x, 0);
    }
    /* (B,T,C) -> (B,T,2C) */
    tg_tensor *h = tg_gelu_tanh(t, tg_nn_linear_forward(t, &m->hidden, x));
    /* (T,T) x (B,T,2C) -> (B,T,2C) */
    tg_tensor *mean = tg_matmul(t, m->averages, h);
    return tg_nn_linear_forward(t, &m->head, tg_gelu_tanh(t, tg_nn_linear_forward(t, &m->mix, mean)));
}
