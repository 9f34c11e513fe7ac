/* order: attention without positions does not see the order of the tokens; with them it does. */
#include <stdio.h>

#include <tapegrad.h>

enum { WIDTH = 16, TOKENS = 6 };

/* "The cat sat on the mat", and the same sentence with cat and mat swapped; "the" has one id. */
static const int32_t sentence[TOKENS] = {0, 1, 2, 3, 0, 4}, swapped[TOKENS] = {0, 4, 2, 3, 0, 1};

/* Returns the vector that attention gives the token "sat", at position 2. */
static tg_tensor *state_of_sat(tg_tape *t, const tg_nn_embedding *tokens, const tg_nn_positional *positions,
                               const tg_nn_multihead_attention *attention, const int32_t *ids)
{
    tg_tensor *x = tg_nn_embedding_forward(t, tokens, tg_constant_i32(t, TG_SHAPE(1, TOKENS), ids));
    x = tg_nn_positional_forward(t, positions, x, 0);
    return tg_select(t, tg_nn_multihead_attention_forward(t, attention, x, NULL), 1, 2);
}

int main(void)
{
    static const tg_position kinds[] = {TG_POSITION_NONE, TG_POSITION_LEARNED, TG_POSITION_SINUSOIDAL,
                                        TG_POSITION_ROTARY, TG_POSITION_ALIBI};
    tg_run *run = tg_run_new(123);
    tg_tape *t = tg_tape_new(run, NULL);
    int status = 0;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        tg_params *params = tg_params_new(run, TG_F32);
        tg_tape_reset(t);
        tg_nn_embedding tokens = tg_nn_embedding_make(params, "tok_emb", 5, WIDTH, NULL);
        tg_nn_positional_config options = tg_nn_positional_config_default();
        options.heads = 1;
        tg_nn_positional positions = tg_nn_positional_make(params, "pos_emb", kinds[k], TOKENS, WIDTH, &options);
        tg_nn_multihead_attention_config config = tg_nn_multihead_attention_config_default();
        /* relative kinds act inside of attention */
        bool is_relative = kinds[k] == TG_POSITION_ROTARY || kinds[k] == TG_POSITION_ALIBI;
        config.positional = is_relative ? &positions : NULL;
        tg_nn_multihead_attention attention = tg_nn_multihead_attention_make(params, "att", WIDTH, WIDTH, 1, &config);
        tg_tensor *a = state_of_sat(t, &tokens, &positions, &attention, sentence);
        tg_tensor *b = state_of_sat(t, &tokens, &positions, &attention, swapped);
        tg_tensor *difference = tg_amax(t, tg_abs(t, tg_sub(t, a, b)), TG_ALL_AXES, TG_DROP_AXES);
        if (tg_tape_error(t)->code != TG_OK || tg_params_error(params)->code != TG_OK) {
            fprintf(stderr, "%s%s\n", tg_params_error(params)->text, tg_tape_error(t)->text);
            status = 1;
        } else {
            double most = tg_tensor_item(difference, NULL);
            printf("%-12s %s\n", tg_position_name(kinds[k]),
                   most < 1e-6 ? "the two sentences are the same" : "the two sentences differ");
        }
        tg_params_free(params);
    }
    tg_tape_free(t);
    tg_run_free(run);
    return status;
}
