/* multinomial: categories that are drawn by their weights, row after row (base/multinomial.c). A function outside of an
 * op, because it can fail while it draws, and nothing is recorded. */
#include <tapegrad/ops.h>

#include "tape/tape.h"

static const char call[] = "multinomial";

/* The most categories, as in torch: a float distinguishes so many. */
enum { MOST_CATEGORIES = 1 << 24 };

static bool check_multinomial(tg_tape *t, const tg_tensor *weights, int64_t draws, bool replacement)
{
    if (!tg_tape_expect_values(t, call, "weights", weights)) {
        return false;
    }
    if (!tg_dtype_is_float(weights->dtype)) {
        return tg_tape_fail(t, TG_ERROR_DTYPE, call, "the weights are %s; they must be f32 or f64 (tg_cast converts)",
                            tg_dtype_name(tg_dtype_of(weights)));
    }
    if (weights->rank < 1 || weights->rank > 2 || weights->shape[weights->rank - 1] > MOST_CATEGORIES) {
        return tg_tape_fail(t, TG_ERROR_SHAPE, call,
                            "the weights have shape %s; it must be (V) or (B,V), with at most %lld categories",
                            tg_shape_text_of(weights).text, (long long)MOST_CATEGORIES);
    }
    if (draws < 1) {
        return tg_tape_fail(t, TG_ERROR_VALUE, call, "%lld draws; it must be at least 1", (long long)draws);
    }
    const int64_t categories = weights->shape[weights->rank - 1];
    if (weights->count == 0 && !replacement && draws > categories) { /* no row says so */
        return tg_tape_fail(t, TG_ERROR_VALUE, call, "%lld draws without replacement from %lld categories",
                            (long long)draws, (long long)categories);
    }
    return t->rng || tg_tape_fail(t, TG_ERROR_STATE, call, "the tape has no generator; it needs a run (tg_run_new)");
}

/* Draws into ids, (V) -> (draws) or (B,V) -> (B,draws). `copy` has space for weights that are not contiguous, and
 * `drawn` for the ids. */
static bool draw_multinomial(tg_tape *t, const tg_tensor *weights, int64_t draws, bool replacement, void *copy,
                             int64_t *drawn, tg_tensor *ids)
{
    int64_t categories = weights->shape[weights->rank - 1], rows = weights->rank == 2 ? weights->shape[0] : 1;
    bool single = weights->dtype == TG_F32;
    const void *values = weights->contiguous ? tg_values(weights) : copy;
    if (!weights->contiguous) {
        tg_copy_to_contiguous(weights, copy);
    }
    bool is_drawn = weights->rank == 2 ? tg_rng_multinomial_rows(t->rng, drawn, draws, values, single, rows, categories,
                                                                 replacement, t->error)
                    : single ? tg_rng_multinomial_f32(t->rng, drawn, draws, values, categories, replacement, t->error)
                             : tg_rng_multinomial_f64(t->rng, drawn, draws, values, categories, replacement, t->error);
    for (int64_t i = 0; is_drawn && i < ids->count; i++) {
        ((int32_t *)tg_values(ids))[i] = (int32_t)drawn[i];
    }
    return is_drawn;
}

tg_tensor *tg_multinomial(tg_tape *t, tg_tensor *weights, int64_t draws, bool replacement)
{
    if (!check_multinomial(t, weights, draws, replacement)) {
        return NULL;
    }
    tg_shape shape = tg_shape_of(weights);
    shape.size[shape.rank - 1] = draws;
    tg_tape_point point;
    tg_tape_save_point(t, false, &point);
    tg_tensor *ids = tg_tape_new_tensor(t, call, TG_I32, shape);
    if (!ids) {
        return NULL;
    }
    /* one more than needed, because no bytes would be NULL */
    void *copy = tg_alloc(weights->contiguous ? 1 : (uint64_t)weights->count + 1, tg_size_of(weights->dtype));
    int64_t *drawn = tg_alloc((uint64_t)ids->count + 1, sizeof *drawn);
    bool is_drawn = copy && drawn ? draw_multinomial(t, weights, draws, replacement, copy, drawn, ids)
                                  : tg_tape_fail(t, TG_ERROR_MEMORY, call, "out of memory");
    tg_free(copy);
    tg_free(drawn);
    return tg_tape_end(t, &point, is_drawn ? ids : NULL);
}
