/* task: a task that needs the order of tokens, and a small transformer with any kind of positions. */
#ifndef TASK_H
#define TASK_H

#include <tapegrad.h>

enum { TOKENS = 8, LENGTH = 16, BACK = 3, BATCH = 32, WIDTH = 32, HEADS = 4, BLOCKS = 2 };

/* A batch of random tokens, and the answers: at each position the token BACK positions before. The first BACK positions
 * of a sequence have no answer. */
typedef struct puzzle {
    /* i32 (BATCH,LENGTH) */
    tg_tensor *tokens, *answers;
} puzzle;

puzzle puzzle_new(void);
void puzzle_draw(puzzle *p, tg_rng *rng);
void puzzle_free(puzzle *p);

/* A model with its own generator and parameters. */
typedef struct model {
    tg_run *run;
    tg_params *params;
    tg_nn_embedding tokens;
    /* absolute positions, or relative ones that all blocks share; Shaw, Transformer-XL and DeBERTa have parameters in
     * each block instead */
    tg_nn_positional position;
    tg_nn_transformer_block blocks[BLOCKS];
    tg_nn_layer_norm norm;
    tg_nn_linear head;
} model;

/* Creates a model with initial values of seed 123. With `is_causal`, a position attends only to itself and to earlier
 * ones. Returns false after printing an error. */
bool model_make(model *m, tg_position kind, bool is_causal);
void model_free(model *m);

/* Intermediate results of a forward pass: the input of the blocks, and their output, both (B,T,WIDTH). */
typedef struct insight {
    tg_tensor *embedded, *states;
} insight;

/* Returns the logits: tokens (B,T) -> (B,T,TOKENS). Stores the intermediate results unless the last argument is
 * NULL. */
tg_tensor *model_forward(tg_tape *t, const model *m, tg_tensor *tokens, insight *seen);

#endif
