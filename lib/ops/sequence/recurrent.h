/* recurrent (private): a GRU and an LSTM over all positions of a sequence, in one direction. */
#ifndef TG_OPS_SEQUENCE_RECURRENT_H
#define TG_OPS_SEQUENCE_RECURRENT_H

#include <tapegrad/ops.h>

/* The inputs that a GRU and an LSTM share. H is the width of the state, G the number of gates. */
typedef struct tg_recurrence {
    /* the projected inputs (T,B,GH) with T >= 1, and the state before the first position (B,H) */
    tg_tensor *inputs, *state;
    /* the weight of the state (GH,H) and its bias (GH), which is optional */
    tg_tensor *weight, *bias;
    /* (B,T) u8, optional: a row that is 0 keeps its state at that position */
    tg_tensor *mask;
    /* from the last position to the first */
    bool reverse;
} tg_recurrence;

/* Returns the states after all positions (T,B,H). The gates are r, z, n. */
tg_tensor *tg_gru(tg_tape *tape, const tg_recurrence *recurrence);

/* The same for an LSTM, with the gates i, f, g, o and the cell before the first position (B,H). Writes the cell after
 * the last position to *last_cell. */
tg_tensor *tg_lstm(tg_tape *tape, const tg_recurrence *recurrence, tg_tensor *cell, tg_tensor **last_cell);

#endif
