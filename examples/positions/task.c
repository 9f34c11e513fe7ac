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
    tg_tensor_fill_randint(p->tokens, rng, 0, TOKENS, NULL);
    const int32_t *tokens = tg_tensor_data(p->tokens);
    int32_t *answers = tg_tensor_data_mut(p->answers);
    for (int i = 0; i < BATCH * LENGTH; i++) {
        /* cross_entropy ignores -100 */
        answers[i] = i % LENGTH >= BACK ? tokens[i - BACK] : -100;
    }
}

void puzzle_free(puzzle *p)
{
    tg_release(p->tokens);
    tg_release(p->answers);
}

bool model_make(model *m, tg_position kind, bool is_causal)
{
    bool absolute = kind == TG_POSITION_LEARNED || kind == TG_POSITION_SINUSOIDAL;
    bool own = kind == TG_POSITION_SHAW || kind == TG_POSITION_TRANSFORMER_XL || kind == TG_POSITION_DEBERTA;
    tg_nn_positional_config positions = tg_nn_positional_config_default();
    positions.heads = HEADS;
    tg_nn_transformer_block_config block = tg_nn_transformer_block_config_default();
    block.attention.is_causal = is_causal;
    m->run = tg_run_new(123);
    m->params = tg_params_new(m->run, TG_F32);
    m->tokens = tg_nn_embedding_make(m->params, "tokens", TOKENS, WIDTH, NULL);
    m->position =
        tg_nn_positional_make(m->params, "position", own ? TG_POSITION_NONE : kind, LENGTH, WIDTH, &positions);
    block.attention.positional = absolute ? NULL : &m->position;
    tg_nn_positional own_position;
    for (int i = 0; i < BLOCKS; i++) {
        char name[40];
        snprintf(name, sizeof name, "blocks.%d.position", i);
        if (own) {
            own_position = tg_nn_positional_make(m->params, name, kind, LENGTH, WIDTH, &positions);
            block.attention.positional = &own_position;
            /* DeBERTa's blocks share the vectors of the first one */
            positions.distances = positions.distances ? positions.distances : own_position.weight;
        }
        snprintf(name, sizeof name, "blocks.%d", i);
        m->blocks[i] = tg_nn_transformer_block_make(m->params, name, WIDTH, HEADS, &block);
    }
    m->norm = tg_nn_layer_norm_make(m->params, "norm", WIDTH, NULL);
    m->head = tg_nn_linear_make(m->params, "head", WIDTH, TOKENS, TG_BIAS);
    return tg_params_error(m->params)->code == TG_OK || complain("%s", tg_params_error(m->params)->text);
}

void model_free(model *m)
{
    tg_params_free(m->params);
    tg_run_free(m->run);
}

tg_tensor *model_forward(tg_tape *t, const model *m, tg_tensor *tokens, insight *seen)
{
    /* (B,T) -> (B,T,WIDTH) */
    tg_tensor *embedded = tg_nn_positional_forward(t, &m->position, tg_nn_embedding_forward(t, &m->tokens, tokens), 0);
    tg_tensor *x = embedded;
    for (int i = 0; i < BLOCKS; i++) {
        x = tg_nn_transformer_block_forward(t, &m->blocks[i], x, NULL);
    }
    if (seen) {
        seen->embedded = embedded;
        seen->states = x;
    }
    return tg_nn_linear_forward(t, &m->head, tg_nn_layer_norm_forward(t, &m->norm, x));
}
