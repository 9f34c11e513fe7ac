#include "model.h"

model model_make(tg_rng *rng, int64_t vocabulary, int64_t dim, int64_t context, bool with_positions)
{
    tg_params *params = tg_params_new(TG_F32, rng);
    model m = {.params = params, .with_positions = with_positions};
    tg_embedding_config small = tg_embedding_config_default();
    small.std = 0.1; /* so that what training adds is not drowned by where a row began */
    m.token = tg_embedding_make(params, "tok_emb", vocabulary, dim, &small);
    m.position = tg_positional_make(params, "pos_emb", TG_POSITION_LEARNED, context, dim);
    m.say = tg_linear_make(params, "say", dim, 2 * dim, TG_BIAS);
    m.mix = tg_linear_make(params, "mix", 2 * dim, 2 * dim, TG_BIAS);
    m.head = tg_linear_make(params, "head", 2 * dim, vocabulary, TG_NO_BIAS);
    m.averages = tg_params_add_buffer(params, "averages", TG_SHAPE(context, context));
    float *average = m.averages ? tg_data_mut(m.averages) : NULL;
    for (int64_t t = 0; average && t < context; t++) {
        for (int64_t i = 0; i <= t; i++) {
            average[t * context + i] = 1.0f / (float)(t + 1);
        }
    }
    return m;
}

void model_free(model *m)
{
    tg_params_free(m->params);
}

tg_tensor *model_forward(tg_tape *t, const model *m, tg_tensor *ids)
{
    tg_tensor *x = tg_embedding_forward(t, &m->token, ids); /* (B,T,C) */
    if (m->with_positions) {
        x = tg_positional_forward(t, &m->position, x);
    }
    tg_tensor *h = tg_gelu_tanh(t, tg_linear_forward(t, &m->say, x)); /* (B,T,2C) */
    tg_tensor *mean = tg_matmul(t, m->averages, h);                   /* (T,T) x (B,T,2C) */
    return tg_linear_forward(t, &m->head, tg_gelu_tanh(t, tg_linear_forward(t, &m->mix, mean)));
}
