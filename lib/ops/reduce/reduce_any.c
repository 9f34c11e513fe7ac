/* reduce_any: any and all over some axes, of every dtype, and the sum of i32 and u8 values.
 *
 *   any   y = 1 if a value is not 0, else 0        0 for no values
 *   all   y = 1 if no value is 0, else 0           1 for no values
 *   sum   y = sum x, as i32; a u8 value counts as 0 or 1, as a mask does, and a sum outside of i32's range is clamped
 *
 * No gradient. Follows torch.any, torch.all and torch.sum, whose sum of integers is int64.
 */
#include "ops/elementwise/integers.h"
#include "ops/reduce/reduce.h"

TG_DECLARE_KERNEL(tg_any_forward);
TG_DECLARE_KERNEL(tg_sum_integers_forward);

typedef struct any_loop {
    reduction r;
    const tg_tensor *x;
    void *out;
} any_loop;

/* Writes the sum of the values of an output, or the number of values that are not 0. */
static double count_values(const any_loop *l, const tg_cursor *kept, bool true_values)
{
    const tg_walk *walk = &l->r.reduced;
    tg_cursor inner = tg_walk_begin(walk, 0);
    double sum = 0;
    for (int64_t i = 0; i < walk->count; i++) {
        double value = tg_any_value(l->x, kept->offset + inner.offset);
        sum += true_values ? value != 0 : value;
        tg_walk_advance(walk, &inner, 1);
    }
    return sum;
}

static void any_outputs(void *context, int64_t begin, int64_t end)
{
    const any_loop *l = context;
    tg_cursor kept = tg_walk_begin(&l->r.kept, begin);
    for (int64_t at = begin; at < end; at++) {
        double found = count_values(l, &kept, true), needed = l->r.attributes->all ? (double)l->r.reduced.count : 1;
        ((uint8_t *)l->out)[at] = found >= needed;
        tg_walk_advance(&l->r.kept, &kept, 1);
    }
}

static void sum_outputs(void *context, int64_t begin, int64_t end)
{
    const any_loop *l = context;
    tg_cursor kept = tg_walk_begin(&l->r.kept, begin);
    for (int64_t at = begin; at < end; at++) {
        double sum = count_values(l, &kept, l->x->dtype == TG_U8);
        tg_convert((int32_t *)l->out + at, TG_I32, &sum, TG_F64, 1);
        tg_walk_advance(&l->r.kept, &kept, 1);
    }
}

static void over_all(const tg_op_call *call, loop_body *body)
{
    any_loop l = {reduction_of(call), call->inputs[0], tg_values(call->outputs[0])};
    int64_t grain = TG_GRAIN / (l.r.reduced.count + 1);
    tg_parallel_for(l.r.kept.count, grain < 1 ? 1 : grain, body, &l);
}

void KERNEL(tg_any_forward)(const tg_op_call *call)
{
    over_all(call, any_outputs);
}

void KERNEL(tg_sum_integers_forward)(const tg_op_call *call)
{
    over_all(call, sum_outputs);
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
