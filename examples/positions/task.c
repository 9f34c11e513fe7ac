#include "task.h"

#include <stdio.h>

#include "../common/program.h"

puzzle puzzle_new(void)
{
    return (puzzle){tg_tensor_new(TG_I32, TG_SHAPE(BATCH, LENGTH), NULL),
                    tg_tensor_new(TG_I32, TG_SHAPE(BATCH, LENGTH), NULL)};
}

void puzzle_draw(puzzle *p, tg_rng *rng)
{
    tg_fill_randint(p->tokens, rng, 0, TOKENS, NULL);
    const int32_t *tokens = tg_data(p->tokens);
    int32_t *answers = tg_data_mut(p->answers);
    for (int i = 0; i < BATCH * LENGTH; i++) {
        answers[i] = i % LENGTH >= BACK ? tokens[i - BACK] : -100; /* what cross_entropy ignores */
    }
}

void puzzle_free(puzzle *p)
{
    tg_release(p->tokens);
    tg_release(p->answers);
}

bool model_make(model *m, tg_position kind, bool both_directions)
{
    bool absolute = kind == TG_POSITION_LEARNED || kind == TG_POSITION_SINUSOIDAL;
    bool own = kind == TG_POSITION_SHAW || kind == TG_POSITION_TRANSFORMER_XL;
    tg_positional_config positions = tg_positional_config_default();
    positions.heads = HEADS;
    tg_multi_head_attention_config attention = tg_multi_head_attention_config_default();
    attention.both_directions = both_directions;
    m->rng = tg_rng_new(123);
    m->params = tg_params_new(TG_F32, m->rng);
    m->tokens = tg_embedding_make(m->params, "tokens", TOKENS, WIDTH, NULL);
    m->position =
        tg_positional_make_with(m->params, "position", own ? TG_POSITION_NONE : kind, LENGTH, WIDTH, &positions);
    attention.position = absolute ? NULL : &m->position;
    for (int i = 0; i < BLOCKS; i++) {
        char name[40];
        snprintf(name, sizeof name, "blocks.%d.position", i);
        if (own) {
            m->own_positions[i] = tg_positional_make_with(m->params, name, kind, LENGTH, WIDTH, &positions);
            attention.position = &m->own_positions[i];
        }
        snprintf(name, sizeof name, "blocks.%d", i);
        m->blocks[i] = tg_transformer_block_make(m->params, name, WIDTH, HEADS, 0, &attention);
    }
    m->norm = tg_layernorm_make(m->params, "norm", WIDTH, 1e-5);
    m->head = tg_linear_make(m->params, "head", WIDTH, TOKENS, TG_BIAS);
    return tg_params_error_code(m->params) == TG_OK || complain("%s", tg_params_error(m->params));
}

void model_free(model *m)
{
    tg_params_free(m->params);
    tg_rng_free(m->rng);
}

tg_tensor *model_forward(tg_tape *t, const model *m, tg_tensor *tokens, insight *seen)
{
    tg_tensor *embedded = tg_positional_forward(t, &m->position, tg_embedding_forward(t, &m->tokens, tokens));
    tg_tensor *x = embedded;
    for (int i = 0; i < BLOCKS; i++) {
        x = tg_transformer_block_forward(t, &m->blocks[i], x);
    }
    if (seen) {
        seen->embedded = embedded;
        seen->states = x;
    }
    return tg_linear_forward(t, &m->head, tg_layernorm_forward(t, &m->norm, x));
}
