/* task: a puzzle that only order solves, and a small transformer that may have positions of any kind. */
#ifndef TASK_H
#define TASK_H

#include <tapegrad.h>

enum { TOKENS = 8, LENGTH = 16, BACK = 3, BATCH = 32, WIDTH = 32, HEADS = 4, BLOCKS = 2 };

/* Sequences of random tokens, and at each place the one that stood BACK places before; the first ones do not count. */
typedef struct puzzle {
    tg_tensor *tokens, *answers; /* i32 (BATCH,LENGTH) */
} puzzle;

puzzle puzzle_new(void);
void puzzle_draw(puzzle *p, tg_rng *rng);
void puzzle_free(puzzle *p);

/* A model of its own generator and parameters. `both_directions`: attention sees the whole sequence. */
typedef struct model {
    tg_rng *rng;
    tg_params *params;
    tg_embedding tokens;
    tg_positional position;              /* absolute, or shared by the blocks */
    tg_positional own_positions[BLOCKS]; /* of each block, where the kind asks for it */
    tg_transformer_block blocks[BLOCKS];
    tg_layernorm norm;
    tg_linear head;
} model;

bool model_make(model *m, tg_position kind, bool both_directions);
void model_free(model *m);

/* What a forward passes through: what the blocks are given, and what they make of it, both (B,T,WIDTH). */
typedef struct insight {
    tg_tensor *embedded, *states;
} insight;

/* (B,T) -> (B,T,TOKENS). `seen` may be NULL. */
tg_tensor *model_forward(tg_tape *t, const model *m, tg_tensor *tokens, insight *seen);

#endif
