/* declare (private): what a shape rule declares of a call.
 *
 * A kernel gets a plain struct, tg_op_call, and sees no declarations: they are behind an opaque pointer. The library's
 * ops use the same interface as a user's.
 */
#ifndef TG_TAPE_DECLARE_H
#define TG_TAPE_DECLARE_H

#include "tape/tape.h"

typedef struct tg_declared_output {
    tg_dtype dtype;
    tg_shape shape;
    tg_tensor *viewed; /* the tensor of which the output is a view; NULL: it has its own storage */
    int64_t offset;
    int64_t strides[TG_MAX_RANK];
} tg_declared_output;

struct tg_op_declaration {
    tg_declared_output outputs[TG_OP_MAX_OUTPUTS];
    size_t saved, scratch, backward_scratch;
    int64_t rows;
    bool only_views; /* whether every output is a view */
};

#endif
