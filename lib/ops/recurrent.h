/* recurrent (private): one step of a GRU and of an LSTM. */
#ifndef TG_OPS_RECURRENT_H
#define TG_OPS_RECURRENT_H

#include <tapegrad/ops.h>

/* A step of a GRU: gi (B,3H) is the projected input, gh (B,3H) the projected state, and h (B,H) the state. Returns the
 * next state (B,H). A row that is 0 in the mask (B) u8, which is optional, keeps its state. */
tg_tensor *tg_gru_step(tg_tape *tape, tg_tensor *gi, tg_tensor *gh, tg_tensor *h, tg_tensor *mask);

/* A step of an LSTM: gi and gh (B,4H), the state h and the cell c (B,H). Returns the next state and writes the next
 * cell to *next_c. */
tg_tensor *tg_lstm_step(tg_tape *tape, tg_tensor *gi, tg_tensor *gh, tg_tensor *h, tg_tensor *c, tg_tensor *mask,
                        tg_tensor **next_c);

#endif
