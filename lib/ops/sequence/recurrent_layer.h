/* recurrent_layer (private): a call of a recurrent op, the position at which it is, and its blocks of columns.
 *
 * Blocks are of whole panels (products/panels.h), and as many as the threads, or a multiple. In a matrix "in blocks"
 * each block of columns is a matrix of its own, so that no line of the cache is of two threads.
 */
#ifndef TG_OPS_SEQUENCE_RECURRENT_LAYER_H
#define TG_OPS_SEQUENCE_RECURRENT_LAYER_H

#include "ops/sequence/recurrent_attributes.h"
#include "ops/sequence/recurrent_cells.h"
#include "products/panels.h"

/* The most panels of a block: its sums, of all gates, stay in the second level of the cache. */
enum { BLOCK_PANELS = 8 };

/* The multiplications that are worth the wake-up of a thread. */
enum { STEP_GRAIN = (64 * 64 * 64) };

/* A call, and the position at which it is. */
typedef struct layer {
    const recurrent_cell *cell;
    int64_t T, B, H;
    int64_t panel, panels, blocks; /* columns of a panel; panels, and blocks of them, of H columns */
    bool reverse;
    const real *a, *first_h, *first_c, *weight, *bias;
    const uint8_t *mask;   /* (B,T); NULL: all rows */
    real *states;          /* (T,B,H) */
    real *gates, *kept;    /* saved: (T,B,GH) and (T,B,H) */
    real *matrix;          /* forward: the transpose (H,H) of each gate's weight; backward: W (GH,H); in panels */
    real *b;               /* forward: (B,gates,H), in blocks of the columns H */
    const real *dstates;   /* (T,B,H); NULL: zeros */
    real *da, *db, *dbias; /* (T,B,GH), (T,B,GH) and (GH); da and dbias may be NULL */
    real *dh, *dc;         /* (B,H), in blocks */
    bool overwrite;        /* da */
    int64_t step;          /* 0 .. T - 1 */
} layer;

static inline layer layer_of(const tg_op_call *call, const recurrent_cell *cell)
{
    const recurrent_attributes *at = call->attributes;
    const tg_tensor *states = call->outputs[0];
    layer l = {.cell = cell,
               .T = states->shape[0],
               .B = states->shape[1],
               .H = states->shape[2],
               .panel = KERNEL(tg_panel_columns)(),
               .reverse = at->reverse,
               .a = tg_values(call->inputs[RECURRENT_INPUTS]),
               .first_h = tg_values(call->inputs[RECURRENT_STATE]),
               .first_c = cell == &lstm_cell ? tg_values(call->inputs[RECURRENT_CELL]) : NULL,
               .weight = tg_values(call->inputs[RECURRENT_WEIGHT]),
               .bias = at->bias ? tg_values(call->inputs[at->bias]) : NULL,
               .mask = at->mask ? tg_values(call->inputs[at->mask]) : NULL,
               .states = tg_values(states),
               .gates = call->saved,
               .matrix = call->scratch};
    l.kept = l.gates + cell->gates * states->count;
    l.panels = (l.H + l.panel - 1) / l.panel;
    const int64_t threads = tg_threads(), rounds = (l.panels - 1) / (threads * BLOCK_PANELS) + 1;
    l.blocks = rounds * threads < l.panels ? rounds * threads : l.panels;
    return l;
}

/* ---- blocks ---- */

static inline layer_block layer_block_of(const layer *l, int64_t i)
{
    const int64_t first = l->panels * i / l->blocks * l->panel, end = l->panels * (i + 1) / l->blocks * l->panel;
    return (layer_block){first, (end < l->H ? end : l->H) - first, end - first};
}

/* Returns the address of a row of a block of a matrix (B,H) in blocks. */
static inline real *layer_row_of(const layer *l, layer_block b, real *matrix, int64_t row)
{
    return matrix + b.first * l->B + row * b.width;
}

/* Copies columns of a matrix, with their values for some terms, into panels (see tg_panel_store). */
static inline void store_columns(const layer *l, layer_block b, const real *from, int64_t column_distance,
                                 int64_t term_distance, int64_t terms, real *to)
{
    for (int64_t column = 0; column < b.count; column += l->panel) {
        const int64_t rest = b.count - column, columns = rest < l->panel ? rest : l->panel;
        KERNEL(tg_panel_store)
        (from + column * column_distance, column_distance, term_distance, columns, terms, to + column * terms);
    }
}

/* Copies a matrix (B,H) into blocks. */
static inline void copy_to_blocks(const layer *l, const real *from, real *matrix)
{
    for (int64_t i = 0; i < l->blocks * l->B; i++) {
        const layer_block b = layer_block_of(l, i / l->B);
        memcpy(layer_row_of(l, b, matrix, i % l->B), from + i % l->B * l->H + b.first, (size_t)b.count * sizeof *from);
    }
}

/* Adds a matrix (B,H) in blocks to a gradient, which may be NULL. */
static inline void add_blocks(const layer *l, real *matrix, bool overwrite, real *gradient)
{
    for (int64_t i = 0; gradient && i < l->blocks * l->B; i++) {
        const layer_block b = layer_block_of(l, i / l->B);
        const real *from = layer_row_of(l, b, matrix, i % l->B);
        real *to = gradient + i % l->B * l->H + b.first;
        for (int64_t k = 0; k < b.count; k++) {
            to[k] = accumulated(overwrite, to[k], from[k]);
        }
    }
}

/* ---- steps ---- */

/* Returns the position of a step. */
static inline int64_t layer_position_of(const layer *l, int64_t step)
{
    return l->reverse ? l->T - 1 - step : step;
}

static inline bool keeps(const layer *l, int64_t row)
{
    return l->mask && !l->mask[row * l->T + layer_position_of(l, l->step)];
}

/* Returns the columns of a block of a row, at the current step. */
static inline cell_step step_of(const layer *l, layer_block b, int64_t row)
{
    const int64_t H = l->H, column = b.first, at = layer_position_of(l, l->step) * l->B + row;
    const int64_t gates = at * l->cell->gates * H + column;
    cell_step s = {.n = b.count,
                   .H = H,
                   .a = l->a + gates,
                   .h = l->first_h + row * H + column,
                   .c = l->first_c ? l->first_c + row * H + column : NULL,
                   .gates = l->gates + gates,
                   .kept = l->kept + at * H + column,
                   .y = l->states + at * H + column};
    if (l->step > 0) {
        int64_t last = (layer_position_of(l, l->step - 1) * l->B + row) * H + column;
        s.h = l->states + last;
        s.c = l->first_c ? l->kept + last : NULL;
    }
    return s;
}

/* Returns the smallest number of blocks that is worth a thread. */
static inline int64_t layer_grain_of(const layer *l)
{
    return 1 + STEP_GRAIN * l->blocks / (l->B * l->cell->gates * l->H * l->H + 1);
}

#endif
