/* backward (private): what the two passes of backward share. plan.c has the first pass, backward.c the second. */
#ifndef TG_TAPE_BACKWARD_H
#define TG_TAPE_BACKWARD_H

#include "tape/tape.h"

/* What happens to the gradient of one input of a record. A leaf adds to its gradient, and a result to its adjoint,
 * which is in a block. */
typedef enum tg_input_plan {
    TG_PLAN_NONE, /* it needs none */
    /* of a leaf */
    TG_PLAN_ROWS,  /* adds rows, unless the gradient is dense by then */
    TG_PLAN_DENSE, /* adds to the dense gradient, which this may create */
    /* of a result */
    TG_PLAN_ADD, /* adds to the adjoint */
    TG_PLAN_NEW  /* the first contribution: goes to a new block */
} tg_input_plan;

/* One backward. */
typedef struct tg_pass {
    const char *call; /* the first word of its errors */
    tg_tape *tape;
    tg_tensor *result;
    /* the tensors whose gradients are computed, to which tg_find_paths has found the paths; NULL: all leaves */
    tg_tensor *const *targets;
    int target_count;
    void *first;   /* a block, for the adjoint of the result */
    void *scratch; /* a block for the kernels */
    /* the span that has its memory now, or NULL, how many of its records and blocks are needed, and the number of spans
     * up to it (replay.c) */
    const tg_span *span;
    size_t replay_end, block_count;
    size_t spans_left;
} tg_pass;

/* The first pass. Those up to `target_count` are set, and it sets the rest. Returns false, with the error set and
 * nothing changed, if backward is not possible. */
bool tg_plan_backward(tg_pass *pass);

/* Both passes. */
bool tg_run_backward(tg_pass *pass, const tg_backward_config *config);

/* Check that the memory of a record was not freed by an earlier backward, and that no value that backward reads was
 * changed since. On failure they set the error of the call. */
bool tg_check_unfreed(tg_tape *t, const char *call, const tg_record *record);
bool tg_check_versions(tg_tape *t, const char *call, const tg_record *record);

/* ---- the gradients of some tensors (paths.c) ---- */

/* Finds the records through which the gradients of the targets go (tg_record.on_path). */
void tg_find_paths(tg_tape *t, tg_tensor *const *outputs, int output_count, tg_tensor *const *targets,
                   int target_count);

/* Returns whether an output depends on the target x, after that. */
bool tg_has_path(const tg_tape *t, tg_tensor *const *outputs, int output_count, const tg_tensor *x);

/* Returns the index of x, or -1. */
static inline int tg_find_tensor(tg_tensor *const *list, int count, const tg_tensor *x)
{
    for (int i = 0; i < count; i++) {
        if (list[i] == x) {
            return i;
        }
    }
    return -1;
}

/* Returns whether the pass computes a gradient of x, the input of a record that it visits. */
static inline bool tg_is_wanted(const tg_pass *pass, const tg_tensor *x)
{
    return !pass->targets || (x->node >= 0 && pass->tape->records[x->node].on_path) ||
           tg_find_tensor(pass->targets, pass->target_count, x) >= 0;
}

/* Sets the call of a record, except its gradients. Set field by field: zeroing the unused outputs would take as long as
 * a small kernel. */
static inline void tg_call_again(const tg_pass *pass, const tg_record *record, tg_op_call *call)
{
    tg_tape *t = pass->tape;
    call->op = record->op;
    call->tape = t;
    call->input_count = record->input_count;
    call->output_count = record->output_count;
    call->inputs = tg_record_inputs(t, record);
    call->attributes = record->attributes == SIZE_MAX ? NULL : t->attributes + record->attributes;
    call->saved = record->saved;
    call->scratch = pass->scratch;
    call->rng = t->rng;
    call->training = record->training;
    call->is_repeated = true;
    call->declaration = NULL;
    for (int i = 0; i < record->output_count; i++) {
        call->outputs[i] = tg_record_outputs(t, record)[i];
    }
}

#endif
