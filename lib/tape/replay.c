/* replay: what the two passes of backward do with a span (activation_checkpoint.c). The first pass reserves memory, and
 * the second one computes the values of the span again.
 *
 * The first pass takes the blocks of a span when it comes to the last planned record, and returns them to the pool
 * behind the first record, as it does with adjoints (plan.c). So the spans share their memory, and the second pass, in
 * the same order, cannot fail.
 *
 * A backward may begin at a result in the middle of a span. It needs no record behind that result: both passes enter a
 * span at its last planned record, and leave out what comes after it.
 */
#include "tape/backward.h"

/* ---- both passes of backward ---- */

/* Returns the span of record k, or NULL. The passes go from the last record to the first. */
static const tg_span *find_span(tg_pass *pass, int32_t k)
{
    const tg_spans *s = &pass->tape->spans;
    while (pass->spans_left > 0 && s->spans[pass->spans_left - 1].first > (size_t)k) {
        pass->spans_left--;
    }
    const tg_span *span = pass->spans_left > 0 ? &s->spans[pass->spans_left - 1] : NULL;
    return span && (size_t)k < span->end ? span : NULL;
}

/* Enters a span at record k, or no span. */
static void enter(tg_pass *pass, const tg_span *span, int32_t k)
{
    pass->span = span;
    pass->replay_end = pass->block_count = 0;
    if (span) {
        const tg_replay_block *blocks = pass->tape->spans.blocks + span->first_block;
        pass->replay_end = (size_t)k < span->replay_end ? (size_t)k + 1 : span->replay_end;
        while (pass->block_count < span->block_count && blocks[pass->block_count].record < pass->replay_end) {
            pass->block_count++;
        }
    }
}

/* ---- the first pass ---- */

/* Checks that the inputs of the calls have the values that the calls read, even if no backward kernel reads them. */
static bool check_inputs(const tg_pass *pass)
{
    tg_tape *t = pass->tape;
    for (size_t k = pass->span->first; k < pass->replay_end; k++) {
        const tg_record *record = &t->records[k];
        for (int i = 0; i < record->input_count; i++) {
            const tg_tensor *x = tg_record_inputs(t, record)[i];
            uint64_t version = t->states[record->first_tensor + (size_t)i].version;
            if (!tg_is_dropped(x) && tg_storage_version(x) != version) {
                return tg_tape_fail(t, TG_ERROR_STATE, pass->call,
                                    "input %d of '%s' was changed in place after it was recorded (version %llu then, "
                                    "%llu now), and activation_checkpoint_end lets backward compute the call again; "
                                    "change a copy, or change it after backward",
                                    i, record->op->name, (unsigned long long)version,
                                    (unsigned long long)tg_storage_version(x));
            }
        }
    }
    return true;
}

/* Returns the first `count` blocks of the span to the pool. */
static void return_blocks(const tg_pass *pass, size_t count)
{
    for (size_t i = count; i-- > 0;) {
        tg_pool_give(pass->tape->pool, pass->tape->spans.blocks[pass->span->first_block + i].memory);
    }
}

static bool take_blocks(const tg_pass *pass)
{
    tg_tape *t = pass->tape;
    for (size_t i = 0; i < pass->block_count; i++) {
        tg_replay_block *block = &t->spans.blocks[pass->span->first_block + i];
        block->memory = block->base_input < 0 ? tg_pool_take(t->pool, block->bytes) : NULL;
        if (block->base_input < 0 && !block->memory) {
            return_blocks(pass, i);
            return tg_tape_fail(t, TG_ERROR_MEMORY, pass->call,
                                "out of memory for the values of an activation checkpoint");
        }
    }
    return true;
}

/* Returns the memory of the span to the pool. */
static void leave(tg_pass *pass)
{
    if (pass->span) {
        return_blocks(pass, pass->block_count);
    }
    pass->span = NULL;
}

void tg_spans_plan_end(tg_pass *pass)
{
    leave(pass);
    pass->spans_left = pass->tape->spans.count; /* for the second pass */
}

bool tg_spans_plan(tg_pass *pass, int32_t k)
{
    const tg_span *span = find_span(pass, k);
    if (span == pass->span) {
        return true;
    }
    leave(pass);
    enter(pass, span, k);
    if (span && (!check_inputs(pass) || !take_blocks(pass))) {
        pass->span = NULL;
        return false;
    }
    return true;
}

/* ---- the second pass ---- */

/* Gives the block to the record. Returns the storage that an output had before. */
static tg_storage *attach(const tg_tape *t, tg_record *record, const tg_replay_block *block)
{
    if (block->memory) {
        tg_unpoison(block->memory, block->bytes);
    }
    if (block->output < 0) {
        record->saved = block->memory;
        return NULL;
    }
    tg_tensor *y = tg_record_outputs(t, record)[block->output];
    tg_storage *before = y->storage;
    if (block->base_input >= 0) {
        y->storage = tg_record_inputs(t, record)[block->base_input]->storage;
    } else {
        tg_storage_begin(block->memory);
        y->storage = block->memory;
    }
    return before;
}

/* Runs the forward kernel of record k. Those of its blocks are blocks[0 .. count). */
static void run_again(const tg_pass *pass, size_t k, const tg_replay_block *blocks, size_t count, tg_rng *rng)
{
    tg_tape *t = pass->tape;
    tg_record *record = &t->records[k];
    tg_storage *before[TG_OP_MAX_OUTPUTS + 1];
    tg_op_call call;
    for (size_t i = 0; i < count; i++) {
        before[i] = attach(t, record, &blocks[i]);
    }
    tg_call_again(pass, record, &call);
    call.rng = t->rng ? rng : NULL;
    tg_watch_before(t, &call, false);
    tg_run_kernel(t, &call, record->kernels->forward, false, record->reproducible, record->saved_bytes,
                  record->scratch);
    tg_watch_after(t, &call, false);
    for (size_t i = 0; i < count; i++) {
        if (before[i] && before[i] != t->no_values) {
            call.outputs[blocks[i].output]->storage = before[i];
        }
    }
}

static void replay(const tg_pass *pass)
{
    const tg_spans *s = &pass->tape->spans;
    const tg_span *span = pass->span;
    const tg_replay_block *blocks = s->blocks + span->first_block, *end = blocks + pass->block_count;
    const tg_generator_state *state = s->generators + span->first_generator;
    tg_rng rng;
    for (size_t k = span->first; k < pass->replay_end; k++) {
        size_t count = 0;
        while (blocks + count < end && blocks[count].record == k) {
            count++;
        }
        if (state < s->generators + s->generator_count && state->record == k) {
            rng = (state++)->rng;
        }
        run_again(pass, k, blocks, count, &rng);
        blocks += count;
    }
}

/* Drops the values that a replay has computed. The plan has returned their blocks. */
static void drop_again(const tg_pass *pass)
{
    const tg_tape *t = pass->tape;
    for (size_t i = 0; i < pass->block_count; i++) {
        const tg_replay_block *block = &t->spans.blocks[pass->span->first_block + i];
        tg_record *record = &t->records[block->record];
        tg_tensor *y = block->output < 0 ? NULL : tg_record_outputs(t, record)[block->output];
        if (!y) {
            record->saved = NULL;
        } else if (block->base_input >= 0 || y->storage == block->memory) {
            y->storage = t->no_values;
        }
        if (block->memory) {
            tg_poison(block->memory, block->bytes);
        }
    }
}

void tg_spans_replay_end(tg_pass *pass)
{
    if (pass->span) {
        drop_again(pass);
    }
}

void tg_spans_replay(tg_pass *pass, int32_t k)
{
    const tg_span *span = find_span(pass, k);
    if (span != pass->span) {
        tg_spans_replay_end(pass);
        enter(pass, span, k);
        if (span) {
            replay(pass);
        }
    }
}
