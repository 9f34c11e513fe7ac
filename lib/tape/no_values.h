/* no_values (private): results that have no values any more, and the guard that refuses to read them. */
#ifndef TG_TAPE_NO_VALUES_H
#define TG_TAPE_NO_VALUES_H

#include "tensor/tensor.h"

struct tg_tape;

/* Creates the guard of a new tape, and the storage of its results without values (tg_tape.no_values). Returns false
 * when memory is exhausted. */
bool tg_no_values_begin(struct tg_tape *t);
void tg_no_values_end(struct tg_tape *t);

/* Begins the next generation of results, after a reset has freed those of this one. */
void tg_no_values_reset(struct tg_tape *t);

/* Writes what a freed result is: which op computed it in which generation, the number of resets plus one, and whether a
 * reset or the end of a scope has freed it. Returns `text`. */
#define TG_FREED_TEXT 260
const char *tg_freed_text(const tg_tensor *x, char text[TG_FREED_TEXT]);

/* Returns the values of a result to the pool. */
void tg_drop_values(struct tg_tape *t, tg_tensor *x);

/* Frees a result of `op` except its header, so that a later use of it is detected. Values that no other tensor shares
 * become NaN, -1 (i32) or 255 (u8). */
void tg_free_result(struct tg_tape *t, tg_tensor *x, const char *op);

/* The refuse of that guard. */
bool tg_no_values_refuse(const tg_value_guard *guard, const char *call, const char *name, const tg_tensor *x,
                         tg_error *error);

/* Returns whether x, which is not freed, is a result whose values the tape has dropped. */
static inline bool tg_is_dropped(const tg_tensor *x)
{
    return x->storage->guard && x->storage->guard->refuse == tg_no_values_refuse;
}

#endif
