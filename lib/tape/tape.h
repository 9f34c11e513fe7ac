/* tape (private): what a tape is made of.
 *
 *     records[]   one per recorded call, in order                        first_tensor, attributes
 *     tensors[]   the inputs, then the outputs, of record 0, of record 1, ...
 *     versions[]  beside tensors[]: the storage's version at the time of the call
 *     attributes  the copied attributes of all records, one after the other
 *     results[]   every tensor that the tape owns, recorded or not, in the order of its making
 *
 * All five only grow until the reset, and then start again at 0 with their memory kept: a step of known shapes
 * allocates nothing. A record holds a reference to each input, but not to inputs that this tape recorded itself:
 * those live until the reset anyway.
 */
#ifndef TG_TAPE_TAPE_H
#define TG_TAPE_TAPE_H

#include <tapegrad/op.h>

#include "tensor/tensor.h"

typedef struct tg_record {
    const tg_op *op;
    void *saved;             /* a block, given back by backward or the reset */
    size_t first_tensor;     /* in tensors[] */
    size_t attributes;       /* in the attribute bytes; SIZE_MAX for none */
    size_t backward_scratch; /* bytes */
    int64_t rows;            /* at most this many rows are named in tg_op_gradient_rows */
    int32_t input_count;
    uint8_t output_count;
    bool f64;
    bool training;
    bool planned; /* the backward that runs now goes through it */
    bool freed;   /* a backward has used it up */
} tg_record;

struct tg_tape {
    tg_error error;
    tg_rng *rng;
    tg_pool *pool;
    bool recycle, recording, training;
    tg_observer *observer; /* called after each forward kernel; NULL for none */
    void *observer_context;
    uint64_t position_before; /* of the generator, before the kernel that is observed */

    tg_record *records;
    size_t record_count, record_capacity;
    tg_tensor **tensors;
    uint64_t *versions;
    size_t tensor_count, tensor_capacity, version_capacity;
    unsigned char *attributes;
    size_t attribute_bytes, attribute_capacity;
    tg_tensor **results;
    size_t result_count, result_capacity;
    size_t *scopes; /* result_count at each open scope's beginning */
    size_t scope_count, scope_capacity;

    /* used by one backward at a time */
    void **input_gradients;
    bool *fresh;
    size_t gradient_capacity, fresh_capacity;
};

static inline tg_tensor **tg_record_inputs(const tg_tape *t, const tg_record *record)
{
    return t->tensors + record->first_tensor;
}

static inline tg_tensor **tg_record_outputs(const tg_tape *t, const tg_record *record)
{
    return t->tensors + record->first_tensor + record->input_count;
}

/* Recorded on this tape, so it lives until the reset. */
static inline bool tg_tape_recorded(const tg_tape *t, const tg_tensor *x)
{
    return x->tape == t && x->node >= 0;
}

static inline bool tg_tape_reserve_results(tg_tape *t, size_t more)
{
    return tg_grow((void **)&t->results, &t->result_capacity, t->result_count, t->result_count + more,
                   sizeof *t->results);
}

/* Makes the tape own x. Room was reserved in results[]. */
static inline void tg_tape_adopt(tg_tape *t, tg_tensor *x)
{
    x->tape = t;
    t->results[t->result_count++] = x;
}

/* A contiguous copy, as a recorded op: contiguous.c. */
tg_tensor *tg_make_contiguous(tg_tape *t, tg_tensor *x);

#endif
