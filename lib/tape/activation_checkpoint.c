/* activation_checkpoint: spans of records that give back the memory of their values, and compute them again in backward
 * (Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost"; torch.utils.checkpoint).
 *
 * A record has all that its forward kernel needs: the op, the inputs and the attributes. So a replay (replay.c) runs
 * the kernels of a span once more, in order, and calls no function of the program. The end of a span drops the values
 * of its results and what its records saved, and lists in blocks[] what a replay has to write.
 *
 * Random numbers. generators[] has the state of the generator before the first kernel of a span, and before each kernel
 * that found another state than the recorded kernels before it had left: something else drew, which is not repeated.
 *
 * torch.utils.checkpoint calls a function of the program again instead. That would need a tape inside the tape and
 * errors in the middle of backward, and whatever else the function does would be done twice. Here the plan reserves the
 * memory of a span as it reserves that of adjoints, so a replay cannot fail. An op whose kernel has another effect,
 * such as max_norm, leaves it out in a replay (tg_op_call.is_repeated).
 */
#include "base/alloc.h"
#include "tape/backward.h"

void tg_spans_free(tg_tape *t)
{
    tg_free(t->spans.spans);
    tg_free(t->spans.blocks);
    tg_free(t->spans.generators);
}

void tg_spans_truncate(tg_tape *t, size_t records)
{
    tg_spans *s = &t->spans;
    while (s->count > 0 && s->spans[s->count - 1].end > records) {
        const tg_span *last = &s->spans[--s->count];
        s->block_count = last->first_block;
        s->generator_count = last->first_generator;
    }
}

/* ---- the generator ---- */

void tg_spans_watch(tg_tape *t)
{
    tg_spans *s = &t->spans;
    if (!t->rng) {
        return;
    }
    size_t before = s->generator_count;
    /* removes the states of kernels that were not recorded, or whose record was removed after an error */
    while (s->generator_count > s->open_generator && s->generators[s->generator_count - 1].record >= t->record_count) {
        s->generator_count--;
    }
    bool is_known = s->generator_count == before && before > s->open_generator;
    if (is_known && s->position == t->rng->position && s->generators[before - 1].rng.seed == t->rng->seed) {
        return;
    }
    if (!tg_grow(&s->generators, &s->generator_capacity, s->generator_count, s->generator_count + 1,
                 sizeof *s->generators)) {
        s->lost_generator = true;
        return;
    }
    tg_generator_state *state = &s->generators[s->generator_count++];
    state->record = t->record_count;
    tg_rng_copy(&state->rng, t->rng);
    s->position = t->rng->position;
}

/* ---- begin and end ---- */

bool tg_activation_checkpoint_begin(tg_tape *t)
{
    if (!tg_tape_begin_scope(t, "activation_checkpoint_begin", true)) {
        return false;
    }
    if (!t->spans.open) {
        t->spans.open = t->scope_count;
        t->spans.open_generator = t->spans.generator_count;
        t->spans.lost_generator = false;
    }
    return true;
}

/* Returns whether the end of a span may drop output i of a record, if no other tensor needs its storage. Values that
 * were changed in place stay, because a replay would not change them; and so do integers, because shape rules read
 * them. */
static bool may_drop(const tg_tape *t, const tg_record *record, int i, const tg_tensor *result)
{
    const tg_tensor *y = tg_record_outputs(t, record)[i];
    uint64_t version = t->states[record->first_tensor + (size_t)(record->input_count + i)].version;
    return y != result && tg_dtype_is_float(y->dtype) && tg_tensor_references(y) == 1 && !tg_is_dropped(y) &&
           tg_storage_version(y) == version;
}

/* Counts, for each storage, the results from record number `first` on that may be dropped. */
static void count_users(const tg_tape *t, size_t first, const tg_tensor *result)
{
    for (int pass = 0; pass < 2; pass++) {
        for (size_t k = first; k < t->record_count; k++) {
            const tg_record *record = &t->records[k];
            for (int i = 0; i < record->output_count; i++) {
                tg_tensor *y = tg_record_outputs(t, record)[i];
                int *users = tg_block_users(y->storage);
                *users = pass == 0 ? 0 : *users + may_drop(t, record, i, result);
            }
        }
    }
}

/* Returns the input of which y is a view, or -1. */
static int base_input_of(const tg_tape *t, const tg_record *record, const tg_tensor *y)
{
    for (int i = 0; !tg_is_dropped(y) && i < record->input_count; i++) {
        if (tg_record_inputs(t, record)[i]->storage == y->storage) {
            return i;
        }
    }
    return -1;
}

/* Lists in blocks[] what record k gives back, and which other blocks its replay writes. Returns whether it gives
 * anything back. */
static bool list_record(tg_tape *t, size_t k, const tg_tensor *result)
{
    tg_spans *s = &t->spans;
    const tg_record *record = &t->records[k];
    bool any = record->saved != NULL;
    if (record->saved) {
        s->blocks[s->block_count++] = (tg_replay_block){
            .record = k, .output = -1, .is_dropped = true, .base_input = -1, .bytes = tg_block_bytes(record->saved)};
    }
    for (int i = 0; i < record->output_count; i++) {
        tg_tensor *y = tg_record_outputs(t, record)[i];
        int base = base_input_of(t, record, y);
        bool drop = may_drop(t, record, i, result) && *tg_block_users(y->storage) == tg_storage_references(y);
        if (drop || base < 0) {
            s->blocks[s->block_count++] = (tg_replay_block){.record = k,
                                                            .output = (int16_t)i,
                                                            .is_dropped = drop,
                                                            .base_input = base,
                                                            .bytes = TG_STORAGE_HEAD + tg_bytes_of(y)};
        }
        any |= drop;
    }
    return any;
}

/* Returns whether the values of the records from number `first` on may be dropped. After a backward in the span, some
 * of its records cannot run again. */
static bool may_drop_span(const tg_tape *t, size_t first)
{
    for (size_t k = first; k < t->record_count; k++) {
        if (t->records[k].freed) {
            return false;
        }
    }
    return first < t->record_count && !tg_tape_keeps_results(t);
}

/* Drops the values of the span that begins with record number `first`. Returns false when memory is exhausted. */
static bool drop_span(tg_tape *t, size_t first, const tg_tensor *result)
{
    tg_spans *s = &t->spans;
    size_t most = s->block_count + t->record_count - first + t->tensor_count - t->records[first].first_tensor;
    if (s->lost_generator || !tg_grow(&s->blocks, &s->block_capacity, s->block_count, most, sizeof *s->blocks) ||
        !tg_grow(&s->spans, &s->capacity, s->count, s->count + 1, sizeof *s->spans)) {
        return false;
    }
    tg_span span = {.first = first,
                    .replay_end = first,
                    .end = t->record_count,
                    .first_block = s->block_count,
                    .first_generator = s->open_generator};
    count_users(t, first, result);
    for (size_t k = first; k < t->record_count; k++) {
        if (list_record(t, k, result)) {
            span.replay_end = k + 1;
            span.block_count = s->block_count - span.first_block;
        }
    }
    s->block_count = span.first_block + span.block_count;
    for (size_t i = span.first_block; i < s->block_count; i++) {
        tg_record *record = &t->records[s->blocks[i].record];
        if (s->blocks[i].output < 0) {
            tg_pool_give(t->pool, record->saved);
            record->saved = NULL;
        } else if (s->blocks[i].is_dropped) {
            tg_drop_values(t, tg_record_outputs(t, record)[s->blocks[i].output]);
        }
    }
    s->spans[s->count++] = span;
    return true;
}

tg_tensor *tg_activation_checkpoint_end(tg_tape *t, tg_tensor *result)
{
    static const char call[] = "activation_checkpoint_end";
    bool is_valid = tg_tape_expect_tensor(t, call, "result", result);
    const tg_scope *scope = t ? tg_tape_end_scope(t, call, true) : NULL;
    if (!scope) {
        return NULL;
    }
    if (t->spans.open == t->scope_count + 1) {
        size_t closed = t->spans.count;
        if (is_valid && may_drop_span(t, scope->records) && !drop_span(t, scope->records, result)) {
            is_valid = tg_tape_fail(t, TG_ERROR_MEMORY, call, "out of memory");
        }
        if (t->spans.count == closed) {
            t->spans.generator_count = t->spans.open_generator;
        }
        t->spans.open = 0;
    }
    return is_valid ? result : NULL;
}

bool tg_spans_read(const tg_tape *t, const tg_tensor *x, size_t k)
{
    const tg_spans *s = &t->spans;
    for (size_t i = 0; i < s->count; i++) {
        if (k >= s->spans[i].first && k < s->spans[i].replay_end) {
            return (size_t)x->node < s->spans[i].first;
        }
    }
    return s->open && k >= t->scopes[s->open - 1].records && (size_t)x->node < t->scopes[s->open - 1].records;
}
