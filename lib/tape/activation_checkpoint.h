/* activation_checkpoint (private): spans of records whose values backward computes again.
 *
 *     spans[]       the closed spans that dropped values, in order
 *     blocks[]      the memory that their replays write, in the order of the records
 *     generators[]  the states of the generator from which replays draw, in the order of the records
 *
 * All three grow until the reset, like the arrays of a tape (tape.h).
 */
#ifndef TG_TAPE_ACTIVATION_CHECKPOINT_H
#define TG_TAPE_ACTIVATION_CHECKPOINT_H

#include "base/random.h"
#include "tensor/tensor.h"

/* What a replay writes: an output, or the bytes that a record saved. */
typedef struct tg_replay_block {
    size_t record;
    int32_t base_input; /* of a view that was dropped: the input that it views, instead of memory; else -1 */
    int16_t output;     /* its number; -1: the saved bytes */
    bool is_dropped;    /* if not, the output keeps its values, and those that the replay writes are not used */
    size_t bytes;
    void *memory; /* of the backward in progress: a block of the pool */
} tg_replay_block;

/* Records number first .. end - 1. Those from replay_end on have nothing to compute again. */
typedef struct tg_span {
    size_t first, replay_end, end;
    size_t first_block, block_count;
    size_t first_generator;
} tg_span;

typedef struct tg_generator_state {
    size_t record; /* whose kernel begins to draw from this state */
    tg_rng rng;
} tg_generator_state;

typedef struct tg_spans {
    tg_span *spans;
    size_t count, capacity;
    tg_replay_block *blocks;
    size_t block_count, block_capacity;
    tg_generator_state *generators;
    size_t generator_count, generator_capacity;

    size_t open;           /* the outermost open span: 1 + its index in the scopes of the tape; 0: none is open */
    size_t open_generator; /* the first of its states in generators[] */
    uint64_t position;     /* of the generator after the last recorded kernel */
    bool lost_generator;   /* whether memory for a state was exhausted */
} tg_spans;

struct tg_pass;

void tg_spans_free(tg_tape *t);

/* Removes the spans that end after record number `records`. */
void tg_spans_truncate(tg_tape *t, size_t records);

/* Called before each kernel in an open span: keeps the state of the generator if a replay would have another one. */
void tg_spans_watch(tg_tape *t);

/* Returns whether a replay reads x, an input of record k, and does not compute it. */
bool tg_spans_read(const tg_tape *t, const tg_tensor *x, size_t k);

/* ---- the passes of backward (replay.c) ---- */

/* Called before the first pass plans record k. If k is in another span than the record before, reserves the memory of
 * that span, and returns that of the span behind it. False with the error set. */
bool tg_spans_plan(struct tg_pass *pass, int32_t k);
void tg_spans_plan_end(struct tg_pass *pass);

/* The same for the second pass: computes the values of the span, and drops those of the span behind it. */
void tg_spans_replay(struct tg_pass *pass, int32_t k);
void tg_spans_replay_end(struct tg_pass *pass);

#endif
