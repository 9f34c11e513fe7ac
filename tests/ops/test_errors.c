/* What arithmetic, functions, masks, reductions and layout refuse. */
#include "ops/refused.h"

#include <math.h>

/* Of functions that do not return a tensor: something for success. */

static const void *split(tg_tape *t, tg_tensor *x, int64_t size, int axis, int64_t capacity)
{
    tg_tensor *parts[9] = {NULL};
    int64_t count = tg_split(t, x, size, axis, parts, capacity);
    assert_null(parts[0]);
    return count == -1 ? NULL : t;
}

static const void *item(tg_tape *t, tg_tensor *x)
{
    return isnan(tg_item(t, x)) ? NULL : t;
}

static void test_arithmetic(void **state)
{
    fixture *f = *state;
    tg_tape *t = f->tape;
    REFUSED(tg_add(t, f->x, f->four), SHAPE, NO_BROADCAST("add"));
    REFUSED(tg_add(t, f->x, f->doubles), DTYPE, MIXED("add", "f32", "f64"));
    REFUSED(tg_add(t, f->ids, f->x), DTYPE, NOT_FLOAT("add", 0, "i32"));
    REFUSED(tg_add(t, NULL, f->x), STATE, NULL_INPUT("add", 0));
    REFUSED(tg_add(t, f->x, NULL), STATE, NULL_INPUT("add", 1));
    REFUSED(tg_sub(t, f->x, f->four), SHAPE, NO_BROADCAST("sub"));
    REFUSED(tg_sub(t, f->x, f->mask), DTYPE, NOT_FLOAT("sub", 1, "u8"));
    REFUSED(tg_sub(t, f->x, NULL), STATE, NULL_INPUT("sub", 1));
    REFUSED(tg_mul(t, f->x, f->four), SHAPE, NO_BROADCAST("mul"));
    REFUSED(tg_mul(t, f->doubles, f->x), DTYPE, MIXED("mul", "f64", "f32"));
    REFUSED(tg_mul(t, NULL, NULL), STATE, NULL_INPUT("mul", 0));
    REFUSED(tg_div(t, f->x, f->four), SHAPE, NO_BROADCAST("div"));
    REFUSED(tg_div(t, f->x, f->doubles), DTYPE, MIXED("div", "f32", "f64"));
    REFUSED(tg_div(t, f->x, NULL), STATE, NULL_INPUT("div", 1));
    REFUSED(tg_pow(t, f->x, f->four), SHAPE, NO_BROADCAST("pow"));
    REFUSED(tg_pow(t, f->x, f->ids), DTYPE, NOT_FLOAT("pow", 1, "i32"));
    REFUSED(tg_pow(t, NULL, f->x), STATE, NULL_INPUT("pow", 0));
    REFUSED(tg_maximum(t, f->x, f->four), SHAPE, NO_BROADCAST("maximum"));
    REFUSED(tg_maximum(t, f->x, f->doubles), DTYPE, MIXED("maximum", "f32", "f64"));
    REFUSED(tg_maximum(t, f->x, NULL), STATE, NULL_INPUT("maximum", 1));
    REFUSED(tg_minimum(t, f->x, f->four), SHAPE, NO_BROADCAST("minimum"));
    REFUSED(tg_minimum(t, f->mask, f->mask), DTYPE, NOT_FLOAT("minimum", 0, "u8"));
    REFUSED(tg_minimum(t, NULL, f->x), STATE, NULL_INPUT("minimum", 0));
    REFUSED(tg_scalar_like(t, f->ids, 1), DTYPE, NOT_FLOAT("scalar_like", 0, "i32"));
    REFUSED(tg_scalar_like(t, NULL, 1), STATE, NULL_INPUT("scalar_like", 0));
    REFUSED(tg_add_scalar(t, f->ids, 1), DTYPE, NOT_FLOAT("add_scalar", 0, "i32"));
    REFUSED(tg_add_scalar(t, NULL, 1), STATE, NULL_INPUT("add_scalar", 0));
    REFUSED(tg_mul_scalar(t, f->mask, 1), DTYPE, NOT_FLOAT("mul_scalar", 0, "u8"));
    REFUSED(tg_mul_scalar(t, NULL, 1), STATE, NULL_INPUT("mul_scalar", 0));
    REFUSED(tg_div_scalar(t, f->ids, 1), DTYPE, NOT_FLOAT("div_scalar", 0, "i32"));
    REFUSED(tg_div_scalar(t, NULL, 1), STATE, NULL_INPUT("div_scalar", 0));
    REFUSED(tg_pow_scalar(t, f->ids, 1), DTYPE, NOT_FLOAT("pow_scalar", 0, "i32"));
    REFUSED(tg_pow_scalar(t, NULL, 1), STATE, NULL_INPUT("pow_scalar", 0));
}

static void test_functions(void **state)
{
    fixture *f = *state;
    tg_tape *t = f->tape;
    REFUSED(tg_neg(t, f->ids), DTYPE, NOT_FLOAT("neg", 0, "i32"));
    REFUSED(tg_neg(t, NULL), STATE, NULL_INPUT("neg", 0));
    REFUSED(tg_exp(t, f->ids), DTYPE, NOT_FLOAT("exp", 0, "i32"));
    REFUSED(tg_exp(t, NULL), STATE, NULL_INPUT("exp", 0));
    REFUSED(tg_log(t, f->mask), DTYPE, NOT_FLOAT("log", 0, "u8"));
    REFUSED(tg_log(t, NULL), STATE, NULL_INPUT("log", 0));
    REFUSED(tg_sqrt(t, f->ids), DTYPE, NOT_FLOAT("sqrt", 0, "i32"));
    REFUSED(tg_sqrt(t, NULL), STATE, NULL_INPUT("sqrt", 0));
    REFUSED(tg_tanh(t, f->ids), DTYPE, NOT_FLOAT("tanh", 0, "i32"));
    REFUSED(tg_tanh(t, NULL), STATE, NULL_INPUT("tanh", 0));
    REFUSED(tg_sigmoid(t, f->ids), DTYPE, NOT_FLOAT("sigmoid", 0, "i32"));
    REFUSED(tg_sigmoid(t, NULL), STATE, NULL_INPUT("sigmoid", 0));
    REFUSED(tg_relu(t, f->ids), DTYPE, NOT_FLOAT("relu", 0, "i32"));
    REFUSED(tg_relu(t, NULL), STATE, NULL_INPUT("relu", 0));
    REFUSED(tg_gelu(t, f->ids), DTYPE, NOT_FLOAT("gelu", 0, "i32"));
    REFUSED(tg_gelu(t, NULL), STATE, NULL_INPUT("gelu", 0));
    REFUSED(tg_gelu_tanh(t, f->ids), DTYPE, NOT_FLOAT("gelu_tanh", 0, "i32"));
    REFUSED(tg_gelu_tanh(t, NULL), STATE, NULL_INPUT("gelu_tanh", 0));
    REFUSED(tg_silu(t, f->ids), DTYPE, NOT_FLOAT("silu", 0, "i32"));
    REFUSED(tg_silu(t, NULL), STATE, NULL_INPUT("silu", 0));
    REFUSED(tg_abs(t, f->ids), DTYPE, NOT_FLOAT("abs", 0, "i32"));
    REFUSED(tg_abs(t, NULL), STATE, NULL_INPUT("abs", 0));
    REFUSED(tg_clamp(t, f->x, 1, 0.5), VALUE, "clamp: bounds 1 and 0.5; allowed are low <= high");
    REFUSED(tg_clamp(t, f->x, NAN, 0.5), VALUE, "clamp: bounds nan and 0.5; allowed are low <= high");
    REFUSED(tg_clamp(t, f->x, 0, NAN), VALUE, "clamp: bounds 0 and nan; allowed are low <= high");
    REFUSED(tg_clamp(t, f->ids, 0, 1), DTYPE, NOT_FLOAT("clamp", 0, "i32"));
    REFUSED(tg_clamp(t, NULL, 0, 1), STATE, NULL_INPUT("clamp", 0));
}

static void test_masks(void **state)
{
    fixture *f = *state;
    tg_tape *t = f->tape;
    REFUSED(tg_eq(t, f->x, f->four), SHAPE, NO_BROADCAST("eq"));
    REFUSED(tg_eq(t, f->x, f->doubles), DTYPE, MIXED("eq", "f32", "f64"));
    REFUSED(tg_eq(t, f->x, NULL), STATE, NULL_INPUT("eq", 1));
    REFUSED(tg_ne(t, f->x, f->four), SHAPE, NO_BROADCAST("ne"));
    REFUSED(tg_ne(t, f->x, f->doubles), DTYPE, MIXED("ne", "f32", "f64"));
    REFUSED(tg_ne(t, NULL, f->x), STATE, NULL_INPUT("ne", 0));
    REFUSED(tg_lt(t, f->x, f->four), SHAPE, NO_BROADCAST("lt"));
    REFUSED(tg_lt(t, f->x, f->doubles), DTYPE, MIXED("lt", "f32", "f64"));
    REFUSED(tg_lt(t, f->x, NULL), STATE, NULL_INPUT("lt", 1));
    REFUSED(tg_le(t, f->x, f->four), SHAPE, NO_BROADCAST("le"));
    REFUSED(tg_le(t, f->x, f->doubles), DTYPE, MIXED("le", "f32", "f64"));
    REFUSED(tg_le(t, f->x, NULL), STATE, NULL_INPUT("le", 1));
    REFUSED(tg_gt(t, f->x, f->four), SHAPE, NO_BROADCAST("gt"));
    REFUSED(tg_gt(t, f->x, f->doubles), DTYPE, MIXED("gt", "f32", "f64"));
    REFUSED(tg_gt(t, f->x, NULL), STATE, NULL_INPUT("gt", 1));
    REFUSED(tg_ge(t, f->x, f->four), SHAPE, NO_BROADCAST("ge"));
    REFUSED(tg_ge(t, f->x, f->doubles), DTYPE, MIXED("ge", "f32", "f64"));
    REFUSED(tg_ge(t, f->x, NULL), STATE, NULL_INPUT("ge", 1));
    REFUSED(tg_where(t, f->x, f->x, f->x), DTYPE, "where: input 0 is f32; it must be u8 (tg_cast converts)");
    REFUSED(tg_where(t, f->mask, f->x, f->doubles), DTYPE, MIXED("where", "f32", "f64"));
    REFUSED(tg_where(t, f->mask, f->x, f->ids), DTYPE, NOT_FLOAT("where", 2, "i32"));
    REFUSED(tg_where(t, f->mask, f->x, f->four), SHAPE, NO_BROADCAST("where"));
    REFUSED(tg_where(t, f->mask, f->x, NULL), STATE, NULL_INPUT("where", 2));
    REFUSED(tg_masked_fill(t, f->x, f->ids, 0), DTYPE, "masked_fill: input 1 is i32; it must be u8 (tg_cast converts)");
    REFUSED(tg_masked_fill(t, f->ids, f->mask, 0), DTYPE, NOT_FLOAT("masked_fill", 0, "i32"));
    REFUSED(tg_masked_fill(t, f->vector, f->mask, 0), SHAPE,
            "masked_fill: a mask of shape (2,3) does not broadcast to (3,)");
    REFUSED(tg_masked_fill(t, f->x, NULL, 0), STATE, NULL_INPUT("masked_fill", 1));
    REFUSED(tg_tril(t, f->vector, 0), SHAPE, "tril: the input has shape (3,); it must have rank 2 or more");
    REFUSED(tg_tril(t, f->ids, 0), DTYPE, NOT_FLOAT("tril", 0, "i32"));
    REFUSED(tg_tril(t, NULL, 0), STATE, NULL_INPUT("tril", 0));
    REFUSED(tg_triu(t, f->vector, 0), SHAPE, "triu: the input has shape (3,); it must have rank 2 or more");
    REFUSED(tg_triu(t, f->mask, 0), DTYPE, NOT_FLOAT("triu", 0, "u8"));
    REFUSED(tg_triu(t, NULL, 0), STATE, NULL_INPUT("triu", 0));
    REFUSED(tg_one_hot(t, f->ids, 5, TG_F32), RANGE, "one_hot: id 8 at [0,1] is outside [0,5)");
    REFUSED(tg_one_hot(t, f->x, 5, TG_F32), DTYPE, NOT_IDS("one_hot", 0, "f32"));
    REFUSED(tg_one_hot(t, f->ids, 0, TG_F32), VALUE,
            "one_hot: 0 classes of f32 for ids of rank 2; allowed are 1 and more, and rank 7 at most");
    REFUSED(tg_one_hot(t, f->deep_ids, 9, TG_F32), VALUE,
            "one_hot: 9 classes of f32 for ids of rank 8; allowed are 1 and more, and rank 7 at most");
    REFUSED(tg_one_hot(t, NULL, 5, TG_F32), STATE, NULL_INPUT("one_hot", 0));
}

static void test_reductions(void **state)
{
    fixture *f = *state;
    tg_tape *t = f->tape;
    REFUSED(tg_sum(t, f->x, TG_AXES(2), TG_DROP_AXES), RANGE, NO_AXIS("sum", 2));
    REFUSED(tg_sum(t, f->x, TG_AXES(0, -2), TG_DROP_AXES), RANGE, "sum: axis 0 is named twice");
    REFUSED((tg_sum(t, f->x, (tg_axes){.count = 9}, TG_DROP_AXES)), RANGE, "sum: 9 axes; there are at most 8");
    REFUSED(tg_sum(t, f->ids, TG_ALL_AXES, TG_DROP_AXES), DTYPE, NOT_FLOAT("sum", 0, "i32"));
    REFUSED(tg_sum(t, NULL, TG_ALL_AXES, TG_DROP_AXES), STATE, NULL_INPUT("sum", 0));
    REFUSED(tg_mean(t, f->x, TG_AXES(-3), TG_DROP_AXES), RANGE, NO_AXIS("mean", -3));
    REFUSED(tg_mean(t, f->x, TG_AXES(1, 1), TG_DROP_AXES), RANGE, "mean: axis 1 is named twice");
    REFUSED(tg_mean(t, f->mask, TG_ALL_AXES, TG_DROP_AXES), DTYPE, NOT_FLOAT("mean", 0, "u8"));
    REFUSED(tg_mean(t, NULL, TG_ALL_AXES, TG_DROP_AXES), STATE, NULL_INPUT("mean", 0));
    REFUSED(tg_max(t, f->x, TG_AXES(5), TG_DROP_AXES), RANGE, NO_AXIS("max", 5));
    REFUSED(tg_max(t, f->empty, TG_ALL_AXES, TG_DROP_AXES), SHAPE,
            "max: the maximum over axis 0 of (0,3), which is empty");
    REFUSED(tg_max(t, f->empty, TG_AXES(0), TG_DROP_AXES), SHAPE,
            "max: the maximum over axis 0 of (0,3), which is empty");
    REFUSED(tg_max(t, f->ids, TG_ALL_AXES, TG_DROP_AXES), DTYPE, NOT_FLOAT("max", 0, "i32"));
    REFUSED(tg_max(t, NULL, TG_ALL_AXES, TG_DROP_AXES), STATE, NULL_INPUT("max", 0));
    REFUSED(tg_var(t, f->x, TG_AXES(2), 1, TG_DROP_AXES), RANGE, NO_AXIS("var", 2));
    REFUSED(tg_var(t, f->x, TG_AXES(0, 1, 0), 1, TG_DROP_AXES), RANGE, "var: axis 0 is named twice");
    REFUSED(tg_var(t, f->ids, TG_ALL_AXES, 1, TG_DROP_AXES), DTYPE, NOT_FLOAT("var", 0, "i32"));
    REFUSED(tg_var(t, NULL, TG_ALL_AXES, 1, TG_DROP_AXES), STATE, NULL_INPUT("var", 0));
    REFUSED(tg_argmax(t, f->x, 2, TG_DROP_AXES), RANGE, NO_AXIS("argmax", 2));
    REFUSED(tg_argmax(t, f->empty, 0, TG_DROP_AXES), SHAPE,
            "argmax: axis 0 of (0,3); it must have 1 to 2147483647 values");
    REFUSED(tg_argmax(t, f->ids, 0, TG_DROP_AXES), DTYPE, NOT_FLOAT("argmax", 0, "i32"));
    REFUSED(tg_argmax(t, NULL, 0, TG_DROP_AXES), STATE, NULL_INPUT("argmax", 0));
    REFUSED(tg_topk(t, f->x, 4, 1, NULL), RANGE, "topk: k 4 is outside [0,3], the size of axis 1");
    REFUSED(tg_topk(t, f->x, -1, 1, NULL), RANGE, "topk: k -1 is outside [0,3], the size of axis 1");
    REFUSED(tg_topk(t, f->x, 1, 2, NULL), RANGE, NO_AXIS("topk", 2));
    REFUSED(tg_topk(t, f->ids, 1, 0, NULL), DTYPE, NOT_FLOAT("topk", 0, "i32"));
    REFUSED(tg_topk(t, NULL, 1, 0, NULL), STATE, NULL_INPUT("topk", 0));
}

static void test_layout(void **state)
{
    fixture *f = *state;
    tg_tape *t = f->tape;
    REFUSED(tg_reshape(t, f->x, TG_SHAPE(4, 2)), SHAPE,
            "reshape: shape (2,3) to (4,2); both must have 6 values, and one size may be -1");
    REFUSED(tg_reshape(t, f->x, TG_SHAPE(-1, -1)), SHAPE,
            "reshape: shape (2,3) to (-1,-1); both must have 6 values, and one size may be -1");
    REFUSED(tg_reshape(t, f->x, TG_SHAPE(4, -1)), SHAPE,
            "reshape: shape (2,3) to (4,-1); both must have 6 values, and one size may be -1");
    REFUSED(tg_reshape(t, f->x, TG_SHAPE(-2, -3)), SHAPE,
            "reshape: shape (2,3) to (-2,-3); both must have 6 values, and one size may be -1");
    REFUSED(tg_reshape(t, f->empty, TG_SHAPE(0, -1)), SHAPE,
            "reshape: shape (0,3) to (0,-1); both must have 0 values, and one size may be -1");
    REFUSED((tg_reshape(t, f->x, tg_shape_make(9, (int64_t[9]){6}))), SHAPE,
            "reshape: shape (2,3) to (6,0,0,0,0,0,0,0); both must have 6 values, and one size may be -1");
    REFUSED(tg_reshape(t, NULL, TG_SHAPE(6)), STATE, NULL_INPUT("reshape", 0));
    REFUSED(tg_transpose(t, f->x, 0, 2), RANGE, NO_AXIS("transpose", 2));
    REFUSED(tg_transpose(t, f->scalar, 0, 0), RANGE, "transpose: axis 0 of a scalar, which has none");
    REFUSED(tg_transpose(t, NULL, 0, 1), STATE, NULL_INPUT("transpose", 0));
    REFUSED(tg_permute(t, f->x, TG_AXES(0)), SHAPE, "permute: 1 axes for rank 2; every axis must be named once");
    REFUSED(tg_permute(t, f->x, TG_AXES(1, -1)), RANGE, "permute: axis 1 is named twice");
    REFUSED(tg_permute(t, f->x, TG_AXES(0, 2)), RANGE, NO_AXIS("permute", 2));
    REFUSED(tg_permute(t, NULL, TG_AXES(0, 1)), STATE, NULL_INPUT("permute", 0));
    REFUSED(tg_slice(t, f->x, 0, 0, 2, 0), VALUE, "slice: step 0; it must be at least 1");
    REFUSED(tg_slice(t, f->x, -3, 0, 2, 1), RANGE, NO_AXIS("slice", -3));
    REFUSED(tg_slice(t, NULL, 0, 0, 2, 1), STATE, NULL_INPUT("slice", 0));
    REFUSED(tg_select(t, f->x, 1, 3), RANGE, "select: index 3 is outside [-3,3), axis 1");
    REFUSED(tg_select(t, f->x, 1, -4), RANGE, "select: index -4 is outside [-3,3), axis 1");
    REFUSED(tg_select(t, f->x, 2, 0), RANGE, NO_AXIS("select", 2));
    REFUSED(tg_select(t, NULL, 0, 0), STATE, NULL_INPUT("select", 0));
    REFUSED(tg_expand(t, f->x, TG_SHAPE(4, 3)), SHAPE,
            "expand: shape (2,3) to (4,3); sizes must be equal, or 1 before, new axes in front");
    REFUSED(tg_expand(t, f->x, TG_SHAPE(3)), SHAPE,
            "expand: shape (2,3) to (3,); sizes must be equal, or 1 before, new axes in front");
    REFUSED(tg_expand(t, f->x, TG_SHAPE(-1, 2, 3)), SHAPE,
            "expand: shape (2,3) to (-1,2,3); sizes must be equal, or 1 before, new axes in front");
    REFUSED(tg_expand(t, NULL, TG_SHAPE(3)), STATE, NULL_INPUT("expand", 0));
    REFUSED(tg_unsqueeze(t, f->x, 3), RANGE, "unsqueeze: axis 3 for rank 2; allowed are [-3,2], and 8 axes in all");
    REFUSED(tg_unsqueeze(t, f->deep_ids, 0), RANGE,
            "unsqueeze: axis 0 for rank 8; allowed are [-9,8], and 8 axes in all");
    REFUSED(tg_unsqueeze(t, NULL, 0), STATE, NULL_INPUT("unsqueeze", 0));
    REFUSED(tg_squeeze(t, f->x, 1), SHAPE, "squeeze: axis 1 has size 3; it must be 1");
    REFUSED(tg_squeeze(t, f->x, 2), RANGE, NO_AXIS("squeeze", 2));
    REFUSED(tg_squeeze(t, NULL, 0), STATE, NULL_INPUT("squeeze", 0));
    REFUSED(tg_contiguous(t, NULL), STATE, NULL_INPUT("contiguous", 0));
    REFUSED(tg_detach(t, NULL), STATE, NULL_INPUT("detach", 0));
    REFUSED(tg_cast(t, f->x, (tg_dtype)9), DTYPE, "cast: 9 is not a dtype");
    REFUSED(tg_cast(t, NULL, TG_F64), STATE, NULL_INPUT("cast", 0));
    REFUSED(tg_cat(t, NULL, 2, 0), VALUE, "cat: 0 tensors; at least 1 is needed");
    REFUSED((tg_cat(t, (tg_tensor *[]){f->x}, 0, 0)), VALUE, "cat: 0 tensors; at least 1 is needed");
    REFUSED((tg_cat(t, (tg_tensor *[]){f->x, f->four}, 2, 0)), SHAPE,
            "cat: input 1 has shape (4,) beside (2,3); all sizes but that of axis 0 must be equal");
    REFUSED((tg_cat(t, (tg_tensor *[]){f->scalar, f->scalar}, 2, 0)), SHAPE,
            "cat: input 0 is a scalar; tg_stack joins scalars");
    REFUSED((tg_cat(t, (tg_tensor *[]){f->x, f->doubles}, 2, 0)), DTYPE, MIXED("cat", "f32", "f64"));
    REFUSED((tg_cat(t, (tg_tensor *[]){f->x, f->ids}, 2, 0)), DTYPE,
            "cat: input 1 is i32; it must be f32 (tg_cast converts)");
    REFUSED((tg_cat(t, (tg_tensor *[]){f->x, f->x}, 2, 2)), RANGE, NO_AXIS("cat", 2));
    REFUSED((tg_cat(t, (tg_tensor *[]){f->x, NULL}, 2, 0)), STATE, NULL_INPUT("cat", 1));
    REFUSED((tg_stack(t, (tg_tensor *[]){f->x}, 0, 0)), VALUE, "stack: 0 tensors; at least 1 is needed");
    CHAIN_REFUSED((tg_stack(t, (tg_tensor *[]){f->x, f->four}, 2, 0)), SHAPE);
    CHAIN_REFUSED((tg_stack(t, (tg_tensor *[]){f->x, f->doubles}, 2, 0)), DTYPE);
    REFUSED((tg_stack(t, (tg_tensor *[]){f->x, f->x}, 2, 3)), RANGE,
            "stack: axis 3 is outside [-3,3), with at most 8 axes");
    CHAIN_REFUSED((tg_stack(t, (tg_tensor *[]){f->x, NULL}, 2, 0)), STATE);
    REFUSED(split(t, f->x, 0, 0, 9), VALUE, "split: parts of size 0; it must be at least 1");
    REFUSED(split(t, f->x, 1, 2, 9), RANGE, NO_AXIS("split", 2));
    REFUSED(split(t, f->x, 1, 1, 2), RANGE, "split: 3 parts; there is room for 2");
    REFUSED(split(t, NULL, 1, 0, 9), STATE, NULL_INPUT("split", 0));
    REFUSED(tg_gather(t, f->x, 1, f->ids), RANGE, "gather: id 8 at [0,1] is outside [0,3)");
    REFUSED(tg_gather(t, f->vector, 0, f->ids), SHAPE,
            "gather: ids (2,3) for an input (3,); the ranks must be equal, and no size larger but that of axis 0");
    REFUSED(tg_gather(t, f->row, 1, f->ids), SHAPE,
            "gather: ids (2,3) for an input (1,3); the ranks must be equal, and no size larger but that of axis 1");
    REFUSED(tg_gather(t, f->x, 1, f->mask), DTYPE, NOT_IDS("gather", 1, "u8"));
    REFUSED(tg_gather(t, f->ids, 1, f->ids), DTYPE, NOT_FLOAT("gather", 0, "i32"));
    REFUSED(tg_gather(t, f->x, 2, f->ids), RANGE, NO_AXIS("gather", 2));
    REFUSED(tg_gather(t, f->x, 1, NULL), STATE, NULL_INPUT("gather", 1));
    REFUSED(tg_index_select(t, f->x, 0, f->id_list), RANGE, "index_select: id 5 at [0] is outside [0,2)");
    REFUSED(tg_index_select(t, f->x, 0, f->ids), SHAPE, "index_select: input 1 has shape (2,3); it must have rank 1");
    REFUSED(tg_index_select(t, f->scalar, 0, f->id_list), SHAPE,
            "index_select: input 0 is a scalar, which has no axis to pick from");
    REFUSED(tg_index_select(t, f->x, 0, f->vector), DTYPE, NOT_IDS("index_select", 1, "f32"));
    REFUSED(tg_index_select(t, f->mask, 0, f->id_list), DTYPE, NOT_FLOAT("index_select", 0, "u8"));
    REFUSED(tg_index_select(t, f->x, -3, f->id_list), RANGE, NO_AXIS("index_select", -3));
    REFUSED(tg_index_select(t, NULL, 0, f->id_list), STATE, NULL_INPUT("index_select", 0));
    REFUSED(tg_copy_into(t, f->x, f->four), STATE,
            "copy_into: the target requires a gradient; switch recording off, or detach it");
    REFUSED(tg_copy_into(t, f->kept, f->x), STATE, "copy_into: the target is the result of a recorded op");
    CHAIN_REFUSED(tg_copy_into(t, f->four, f->x), SHAPE);
    CHAIN_REFUSED(tg_copy_into(t, f->ids, f->mask), DTYPE);
    REFUSED(tg_copy_into(t, NULL, f->x), STATE, NULL_INPUT("copy_into", 0));
    REFUSED(tg_copy_into(t, f->four, NULL), STATE, NULL_INPUT("copy_into", 0));
    REFUSED(item(t, f->x), SHAPE, "item: a tensor of shape (2,3) has 6 values; it must have one");
    REFUSED(item(t, NULL), STATE, NULL_INPUT("item", 0));
}

/* An op without a tape has nobody to tell, and returns NULL. */
static void test_no_tape(void **state)
{
    fixture *f = *state;
    tg_tensor *pair[] = {f->x, f->x};
    assert_null(tg_add(NULL, f->x, f->x));
    assert_null(tg_add_scalar(NULL, f->x, 1));
    assert_null(tg_clamp(NULL, f->x, 1, 0));
    assert_null(tg_sum(NULL, f->x, TG_AXES(9), TG_DROP_AXES));
    assert_null(tg_topk(NULL, f->x, 1, 0, NULL));
    assert_null(tg_reshape(NULL, f->x, TG_SHAPE(6)));
    assert_null(tg_stack(NULL, pair, 2, 0));
    assert_null(tg_cat(NULL, pair, 0, 0));
    assert_null(split(NULL, f->x, 1, 0, 9));
    assert_null(item(NULL, f->scalar));
    assert_null(tg_copy_into(NULL, f->four, f->four));
    assert_null(tg_detach(NULL, f->x));
    assert_null(tg_gather(NULL, f->x, 0, f->ids));
    check_unchanged(f, __LINE__);
}

/* Views may count more values than there is memory for; results of that size are refused, and so are their gradients. */
static void test_counts_beyond_memory(void **state)
{
    (void)state;
    tg_tape *t = tg_tape_new(NULL);
    tg_tensor *x = leaf(tg_tensor_new_full(TG_F32, TG_SHAPE(1, 1), 1, NULL));
    const int64_t half = INT64_C(1) << 31, huge = INT64_C(1) << 62;
    assert_null(tg_relu(t, tg_expand(t, x, TG_SHAPE(1, huge))));
    assert_tape_error(t, TG_ERROR_MEMORY, "relu: out of memory");
    assert_null(tg_add(t, tg_expand(t, x, TG_SHAPE(half, 1)), tg_expand(t, x, TG_SHAPE(1, half))));
    assert_tape_error(t, TG_ERROR_MEMORY, "add: out of memory");
    assert_null(tg_relative_spread(t, x, huge));
    assert_tape_error(t, TG_ERROR_MEMORY, "relative_spread: out of memory");
    assert_null(tg_relative_shift(t, x, 1, huge));
    assert_tape_error(t, TG_ERROR_MEMORY, "relative_shift: out of memory");
    assert_null(tg_relative_scores(t, x, x, INT64_MAX, false));
    assert_tape_error(t, TG_ERROR_SHAPE, "S = 9223372036854775807 keys");
    tg_tensor *y = tg_expand(t, x, TG_SHAPE(1, huge)), *one = tg_tensor_new_full(TG_F32, TG_SHAPE(1, 1), 1, NULL);
    assert_false(tg_backward_seed(t, y, tg_expand(t, one, TG_SHAPE(1, huge))));
    assert_tape_error(t, TG_ERROR_MEMORY, "backward: out of memory");
    tg_release(one);
    tg_release(x);
    tg_tape_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts_beyond_memory),
        cmocka_unit_test_setup_teardown(test_arithmetic, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_functions, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_masks, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_reductions, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_layout, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_tape, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("errors", tests, NULL, NULL);
}
