/* reduce_any: any and all over some axes, of every dtype, and the sum of i32 and u8 values.
 *
 *   any   y = 1 if a value is not 0, else 0        0 for no values
 *   all   y = 1 if no value is 0, else 0           1 for no values
 *   sum   y = sum x, as i32; a u8 value counts as 0 or 1, as a mask does, and a sum outside of i32's range is clamped
 *
 * No gradient. Follows torch.any, torch.all and torch.sum, whose sum of integers is int64.
 */
#include "ops/reduce/sums.h"

TG_DECLARE_KERNEL(tg_any_forward);
TG_DECLARE_KERNEL(tg_sum_integers_forward);

static inline real is_true(real x)
{
    return x != 0;
}

static inline real is_false(real x)
{
    return x == 0;
}

/* Returns a number that is not 0 if a byte decides. */
static inline uint8_t decides(uint8_t x, bool all)
{
    return all ? x == 0 : x;
}

static inline uint8_t find_in_run(const uint8_t *x, int64_t n, bool all)
{
    uint8_t found = 0;
    for (int64_t i = 0; i < n; i++) {
        found |= decides(x[i], all);
    }
    return found;
}

static inline void find_in_rows(const uint8_t *x, int64_t rows, int64_t stride, int64_t width, bool all,
                                uint8_t *restrict found)
{
    for (; rows >= PANEL_ROWS; rows -= PANEL_ROWS, x += PANEL_ROWS * stride) {
        const uint8_t *x1 = x + stride, *x2 = x1 + stride, *x3 = x2 + stride;
        for (int64_t c = 0; c < width; c++) {
            found[c] |= decides(x[c], all) | decides(x1[c], all) | decides(x2[c], all) | decides(x3[c], all);
        }
    }
    for (; rows > 0; rows--, x += stride) {
        for (int64_t c = 0; c < width; c++) {
            found[c] |= decides(x[c], all);
        }
    }
}

/* The same as visit_any for a mask whose rows or runs are contiguous: its bytes are not converted to numbers. */
static void visit_mask(const tg_panel *p, double *result)
{
    const tg_walk *walk = &p->r->reduced;
    const uint8_t *x = p->r->x;
    bool all = p->r->attributes->all, by_columns = p->r->by_columns;
    uint8_t found[PANEL] = {0};
    for (int64_t c = 0; c < (by_columns ? 1 : p->width); c++) {
        tg_cursor at = tg_walk_begin(walk, p->first);
        for (int64_t done = 0, n; done < p->count; done += n) {
            const uint8_t *from = x + p->offset[c] + at.offset;
            n = tg_walk_run(walk, &at, p->count - done);
            if (by_columns) {
                find_in_rows(from, n, tg_walk_stride(walk), p->width, all, found);
            } else {
                found[c] |= find_in_run(from, n, all);
            }
            tg_walk_advance(walk, &at, n);
        }
    }
    for (int64_t c = 0; c < p->width; c++) {
        result[c] = found[c];
    }
}

/* Finds a value that decides: one that is not 0, or for `all` a 0. */
static void visit_any(const tg_panel *p, tg_columns *columns)
{
    if (p->r->dtype == TG_U8 && (p->r->by_columns ? p->apart : tg_walk_stride(&p->r->reduced)) == 1) {
        visit_mask(p, columns->center);
    } else if (p->r->attributes->all) {
        panel_max(p, is_false, false, columns->center);
    } else {
        panel_max(p, is_true, false, columns->center);
    }
}

static void finish_any(const tg_reduce_call *r, int64_t at, int64_t width, const tg_columns *columns)
{
    uint8_t *y = (uint8_t *)r->y + at;
    for (int64_t c = 0; c < width; c++) {
        y[c] = (columns->center[c] > 0) != r->attributes->all;
    }
}

static const tg_reducer any_reducer = {visit_any, join_max, finish_any};

void KERNEL(tg_any_forward)(const tg_op_call *call)
{
    KERNEL(tg_reduce_forward)(call, &any_reducer);
}

static inline double true_term(real x, double center, double p)
{
    (void)center, (void)p;
    return x != 0;
}

static void visit_integers(const tg_panel *p, tg_columns *columns)
{
    if (p->r->dtype == TG_U8) {
        panel_sum(p, true, true_term, 0, NULL, columns->sum);
    } else {
        panel_sum(p, true, value_term, 0, NULL, columns->sum);
    }
}

static void finish_integers(const tg_reduce_call *r, int64_t at, int64_t width, const tg_columns *columns)
{
    tg_convert((int32_t *)r->y + at, TG_I32, columns->sum, TG_F64, width);
}

static const tg_reducer integers_reducer = {visit_integers, join_sum, finish_integers};

void KERNEL(tg_sum_integers_forward)(const tg_op_call *call)
{
    KERNEL(tg_reduce_forward)(call, &integers_reducer);
}

#ifdef TG_ONCE

static bool any_shape(tg_op_call *call)
{
    return tg_reduce_output(call, TG_U8);
}

static bool sum_shape(tg_op_call *call)
{
    return tg_reduce_output(call, TG_I32);
}

#define ANY_OP(op_name, rule, kernel)                                                           \
    {                                                                                           \
        .name = op_name, .shape = rule, .input_names = {"x"}, TG_KERNELS(kernel, TG_NO_KERNEL), \
        .accepts_layout = tg_any_layout                                                         \
    }

static const tg_op any_op = ANY_OP("any", any_shape, tg_any_forward);
static const tg_op all_op = ANY_OP("all", any_shape, tg_any_forward);
const tg_op tg_sum_integers_op = ANY_OP("sum", sum_shape, tg_sum_integers_forward);

tg_tensor *tg_any(tg_tape *t, tg_tensor *x, tg_axes axes, tg_keep_axes keep)
{
    return tg_reduce(t, &any_op, x, axes, keep, (tg_reduce_attributes){.all = false});
}

tg_tensor *tg_all(tg_tape *t, tg_tensor *x, tg_axes axes, tg_keep_axes keep)
{
    return tg_reduce(t, &all_op, x, axes, keep, (tg_reduce_attributes){.all = true});
}

#endif
