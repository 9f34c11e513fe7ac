/* guard (private): runs the kernels of a tape on guarded memory.
 *
 * Each tensor, gradient and block of memory that a kernel gets is replaced by a copy between two zones, and afterwards
 * the kernel's results are copied back. Detected are a write before or behind a buffer, and a write into what the
 * kernel may only read: inputs, in backward also outputs, their gradients, and the saved memory.
 *
 * The zones, and all memory that has no values yet, are filled with one byte. A kernel that reads them computes other
 * numbers for another byte.
 *
 * The check's tape calls a hook instead of the kernel; other tapes pay one branch per record. The copies are attached
 * to the same tensors, because ops compare addresses. Zones around the blocks of the pool could not name the buffer,
 * and would not cover inputs and the gradients of leaves.
 */
#ifndef TG_GRADCHECK_GUARD_H
#define TG_GRADCHECK_GUARD_H

#include "tape/tape.h"

typedef struct tg_guard {
    unsigned char fill;
    bool out_of_memory; /* a kernel ran unguarded */
    /* an op of which a backward kernel ran without the values of inputs, or of outputs, that it declares to ignore, or
     * NULL */
    const tg_op *ignores_inputs, *ignores_outputs;
    /* an op of which one was to write a new gradient (can_overwrite), or NULL */
    const tg_op *overwrites;
    char text[300]; /* the first mistake; "" if none */
} tg_guard;

/* The two bytes: a NaN in f32 and f64, which spreads from what a kernel reads; and a small number, which changes when
 * something is added to it. */
#define TG_GUARD_NAN 0xff
#define TG_GUARD_NUMBER 0x3f

/* Returns which of two ops a message names: the last one, but none of the library's if the other is not. */
static inline const tg_op *tg_guard_choose(const tg_op *kept, const tg_op *op)
{
    return !kept || kept->levels || !op->levels ? op : kept;
}

/* A tg_kernel_runner, whose context is a tg_guard. */
void tg_guard_run(void *guard, const tg_op_call *call, tg_op_kernel kernel, bool backward, size_t saved,
                  size_t scratch);

#endif
