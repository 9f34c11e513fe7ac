/* The rows of shapes and layouts. A view copies nothing, so a product reads it; tg_contiguous makes the copy that other
 * ops need. (In torch a leaf whose view is the last result gets the upstream gradient itself as its own.) */
#include "bench/op_row.h"

static tg_tensor *product(tg_tape *t, tg_tensor *view)
{
    return tg_mul_scalar(t, view, 1.5);
}

static tg_tensor *reshape(tg_tape *t, tg_tensor *const *x)
{
    return product(t, tg_reshape(t, x[0], TG_SHAPE(-1)));
}

static tg_tensor *reshape_transposed(tg_tape *t, tg_tensor *const *x)
{
    return tg_reshape(t, tg_transpose(t, x[0], 0, -1), TG_SHAPE(-1));
}

static tg_tensor *transpose(tg_tape *t, tg_tensor *const *x)
{
    return product(t, tg_transpose(t, x[0], 0, -1));
}

static tg_tensor *transpose_copy(tg_tape *t, tg_tensor *const *x)
{
    return tg_contiguous(t, tg_transpose(t, x[0], 0, -1));
}

static tg_tensor *permute(tg_tape *t, tg_tensor *const *x)
{
    return product(t, tg_permute(t, x[0], TG_AXES(0, 2, 1, 3)));
}

static tg_tensor *permute_copy(tg_tape *t, tg_tensor *const *x)
{
    return tg_contiguous(t, tg_permute(t, x[0], TG_AXES(0, 2, 1, 3)));
}

static tg_tensor *slice(tg_tape *t, tg_tensor *const *x)
{
    return product(t, tg_slice(t, x[0], -1, 0, INT64_MAX, 2));
}

static tg_tensor *slice_copy(tg_tape *t, tg_tensor *const *x)
{
    return tg_contiguous(t, tg_slice(t, x[0], -1, 0, INT64_MAX, 2));
}

static tg_tensor *slice_rows(tg_tape *t, tg_tensor *const *x)
{
    return tg_contiguous(t, tg_slice(t, x[0], 0, 1, INT64_MAX, 1));
}

static tg_tensor *flip(tg_tape *t, tg_tensor *const *x)
{
    return tg_contiguous(t, tg_flip(t, x[0], TG_AXES(-1)));
}

static tg_tensor *flip_first(tg_tape *t, tg_tensor *const *x)
{
    return tg_contiguous(t, tg_flip(t, x[0], TG_AXES(0)));
}

static tg_tensor *repeat(tg_tape *t, tg_tensor *const *x)
{
    return tg_repeat(t, x[0], TG_SHAPE(2, 2));
}

static tg_tensor *select(tg_tape *t, tg_tensor *const *x)
{
    return product(t, tg_select(t, x[0], 0, 1));
}

static tg_tensor *select_column(tg_tape *t, tg_tensor *const *x)
{
    return tg_contiguous(t, tg_select(t, x[0], -1, 1));
}

/* To the shape of another input. */
static tg_tensor *expand(tg_tape *t, tg_tensor *const *x)
{
    return product(t, tg_expand(t, x[0], tg_tensor_shape(x[1])));
}

static tg_tensor *expand_copy(tg_tape *t, tg_tensor *const *x)
{
    return tg_contiguous(t, tg_expand(t, x[0], tg_tensor_shape(x[1])));
}

static tg_tensor *unsqueeze(tg_tape *t, tg_tensor *const *x)
{
    return product(t, tg_unsqueeze(t, x[0], 1));
}

static tg_tensor *squeeze(tg_tape *t, tg_tensor *const *x)
{
    return product(t, tg_squeeze(t, x[0], -1));
}

static tg_tensor *cast(tg_tape *t, tg_tensor *const *x)
{
    return tg_cast(t, x[0], tg_tensor_dtype(x[0]) == TG_F32 ? TG_F64 : TG_F32);
}

static tg_tensor *cast_mask(tg_tape *t, tg_tensor *const *x)
{
    return tg_cast(t, x[0], TG_F32);
}

static tg_tensor *cat_first(tg_tape *t, tg_tensor *const *x)
{
    return tg_cat(t, x, 2, 0);
}

static tg_tensor *cat_last(tg_tape *t, tg_tensor *const *x)
{
    return tg_cat(t, x, 2, -1);
}

static tg_tensor *stack_first(tg_tape *t, tg_tensor *const *x)
{
    return tg_stack(t, x, 2, 0);
}

static tg_tensor *stack_last(tg_tape *t, tg_tensor *const *x)
{
    return tg_stack(t, x, 2, -1);
}

static tg_tensor *split_along(tg_tape *t, tg_tensor *x, int axis)
{
    tg_tensor *parts[2];
    tg_split(t, x, tg_tensor_size(x, axis) / 2, axis, parts, 2);
    return tg_add(t, parts[0], parts[1]);
}

const op_row op_layouts[] = {
    {"tg_reshape", "and a product", "real S", .call = reshape},
    {"tg_reshape", "transposed", "real S", .call = reshape_transposed},
    {"tg_transpose", "and a product", "real S", .call = transpose},
    {"tg_permute", "and a product", "real A,Q,H,D", .call = permute},
    {"tg_contiguous", "", "real S", .unary = tg_contiguous},
    {"tg_contiguous", "transposed", "real S", .call = transpose_copy},
    {"tg_contiguous", "permuted", "real A,Q,H,D", .call = permute_copy},
    {"tg_slice", "and a product", "real S", .call = slice},
    {"tg_contiguous", "every second column", "real S", .call = slice_copy},
    {"tg_contiguous", "all rows but one", "real S", .call = slice_rows},
    {"tg_flip", "last axis", "real S", .call = flip},
    {"tg_flip", "first axis", "real S", .call = flip_first},
    {"tg_repeat", "", "real 512,3072", .call = repeat},
    {"tg_select", "and a product", "real S", .call = select},
    {"tg_select", "column", "real S", .call = select_column},
    {"tg_expand", "and a product", "real P,1; model S", .call = expand},
    {"tg_contiguous", "expanded column", "real P,1; model S", .call = expand_copy},
    {"tg_contiguous", "expanded row", "real L; model S", .call = expand_copy},
    {"tg_unsqueeze", "and a product", "real S", .call = unsqueeze},
    {"tg_squeeze", "and a product", "real S,1", .call = squeeze},
    {"tg_detach", "", "real S", .unary = tg_detach},
    {"tg_cast", "", "real S", .call = cast},
    {"tg_cast", "mask", "mask S", .call = cast_mask},
    {"tg_cat", "first axis", "real S; real S", .call = cat_first},
    {"tg_cat", "last axis", "real S; real S", .call = cat_last},
    {"tg_stack", "first axis", "real S; real S", .call = stack_first},
    {"tg_stack", "last axis", "real S; real S", .call = stack_last},
    {"tg_split", "rows, and their sum", "real 2,S", .along = split_along, .axis = 0},
    {"tg_split", "columns, and their sum", "real S,2", .along = split_along, .axis = -1},
    {.op = NULL},
};
