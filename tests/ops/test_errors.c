/* The errors of masks, reductions and layout ops. test_rows.c has those of arithmetic and functions. */
#include "ops/refused.h"
#include "ops/attention/relative.h"

/* Of a function that does not return a tensor: something for success. */

static const void *split(tg_tape *t, tg_tensor *x, int64_t size, int axis, int64_t capacity)
{
    tg_tensor *parts[9] = {NULL};
    int64_t count = tg_split(t, x, size, axis, parts, capacity);
    assert_null(parts[0]);
    return count == 0 ? NULL : t;
}

static void test_full(void **state)
{
    fixture *f = *state;
    tg_tape *t = f->tape;
    REFUSED(tg_full(t, (tg_dtype)9, TG_SHAPE(2), 1), DTYPE, "full: 9 is not a dtype");
    REFUSED(tg_full(t, TG_F32, TG_SHAPE(2, -1), 1), SHAPE, "full: size -1 of axis 1 in (2,-1) is negative");
    REFUSED((tg_full(t, TG_F32, tg_shape_make(9, (int64_t[9]){6}), 1)), SHAPE, "full: rank 9 is outside [0,8]");
}

static void test_masks(void **state)
{
    fixture *f = *state;
    tg_tape *t = f->tape;
    REFUSED(tg_eq(t, f->x, f->four), SHAPE, NO_BROADCAST("eq"));
    REFUSED(tg_eq(t, f->x, f->doubles), DTYPE, MIXED("eq", "f32", "f64"));
    REFUSED(tg_eq(t, f->x, NULL), STATE, NULL_ARGUMENT("eq", "b"));
    REFUSED(tg_ne(t, f->x, f->four), SHAPE, NO_BROADCAST("ne"));
    REFUSED(tg_ne(t, f->x, f->doubles), DTYPE, MIXED("ne", "f32", "f64"));
    REFUSED(tg_ne(t, NULL, f->x), STATE, NULL_ARGUMENT("ne", "a"));
    REFUSED(tg_lt(t, f->x, f->four), SHAPE, NO_BROADCAST("lt"));
    REFUSED(tg_lt(t, f->x, f->doubles), DTYPE, MIXED("lt", "f32", "f64"));
    REFUSED(tg_lt(t, f->x, NULL), STATE, NULL_ARGUMENT("lt", "b"));
    REFUSED(tg_le(t, f->x, f->four), SHAPE, NO_BROADCAST("le"));
    REFUSED(tg_le(t, f->x, f->doubles), DTYPE, MIXED("le", "f32", "f64"));
    REFUSED(tg_le(t, f->x, NULL), STATE, NULL_ARGUMENT("le", "b"));
    REFUSED(tg_gt(t, f->x, f->four), SHAPE, NO_BROADCAST("gt"));
    REFUSED(tg_gt(t, f->x, f->doubles), DTYPE, MIXED("gt", "f32", "f64"));
    REFUSED(tg_gt(t, f->x, NULL), STATE, NULL_ARGUMENT("gt", "b"));
    REFUSED(tg_ge(t, f->x, f->four), SHAPE, NO_BROADCAST("ge"));
    REFUSED(tg_ge(t, f->x, f->doubles), DTYPE, MIXED("ge", "f32", "f64"));
    REFUSED(tg_ge(t, f->x, NULL), STATE, NULL_ARGUMENT("ge", "b"));
    REFUSED(tg_where(t, f->x, f->x, f->x), DTYPE, "where: argument 'mask' is f32; it must be u8 (tg_cast converts)");
    REFUSED(tg_where(t, f->mask, f->x, f->doubles), DTYPE, MIXED("where", "f32", "f64"));
    REFUSED(tg_where(t, f->mask, f->x, f->ids), DTYPE, NOT_FLOAT("where", "b", "i32"));
    REFUSED(tg_where(t, f->mask, f->x, f->four), SHAPE, NO_BROADCAST("where"));
    REFUSED(tg_where(t, f->mask, f->x, NULL), STATE, NULL_ARGUMENT("where", "b"));
    REFUSED(tg_masked_fill(t, f->x, f->ids, 0), DTYPE,
            "masked_fill: argument 'mask' is i32; it must be u8 (tg_cast converts)");
    REFUSED(tg_masked_fill(t, f->vector, f->mask, 0), SHAPE,
            "masked_fill: a mask of shape (2,3) does not broadcast to (3,)");
    REFUSED(tg_masked_fill(t, f->x, NULL, 0), STATE, NULL_ARGUMENT("masked_fill", "mask"));
    REFUSED(tg_tril(t, f->vector, 0), SHAPE, "tril: argument 'x' has shape (3,); it must have rank 2 or more");
    REFUSED(tg_tril(t, f->ids, 0), DTYPE, NOT_FLOAT("tril", "x", "i32"));
    REFUSED(tg_tril(t, NULL, 0), STATE, NULL_ARGUMENT("tril", "x"));
    REFUSED(tg_triu(t, f->vector, 0), SHAPE, "triu: argument 'x' has shape (3,); it must have rank 2 or more");
    REFUSED(tg_triu(t, f->mask, 0), DTYPE, NOT_FLOAT("triu", "x", "u8"));
    REFUSED(tg_triu(t, NULL, 0), STATE, NULL_ARGUMENT("triu", "x"));
    REFUSED(tg_one_hot(t, f->ids, 5, TG_F32), RANGE, "one_hot: id 8 at [0,1] is outside [0,5)");
    REFUSED(tg_one_hot(t, f->x, 5, TG_F32), DTYPE, NOT_IDS("one_hot", "ids", "f32"));
    REFUSED(tg_one_hot(t, f->ids, 0, TG_F32), VALUE,
            "one_hot: 0 classes for ids of rank 2; classes must be at least 1, and the rank at most 7");
    REFUSED(tg_one_hot(t, f->deep_ids, 9, TG_F32), VALUE,
            "one_hot: 9 classes for ids of rank 8; classes must be at least 1, and the rank at most 7");
    REFUSED(tg_one_hot(t, NULL, 5, TG_F32), STATE, NULL_ARGUMENT("one_hot", "ids"));
}

static void test_reductions(void **state)
{
    fixture *f = *state;
    tg_tape *t = f->tape;
    REFUSED(tg_sum(t, f->x, TG_AXES(2), TG_DROP_AXES), RANGE, NO_AXIS("sum", 2));
    REFUSED(tg_sum(t, f->x, TG_AXES(0, -2), TG_DROP_AXES), RANGE, "sum: axis 0 is listed twice");
    REFUSED((tg_sum(t, f->x, (tg_axes){.count = 9}, TG_DROP_AXES)), RANGE,
            "sum: 9 axes are listed; a tensor has at most 8");
    REFUSED(tg_sum(t, f->x, tg_axes_make(2, NULL), TG_DROP_AXES), STATE, "sum: the array of axes is NULL");
    REFUSED(tg_permute(t, f->x, tg_axes_make(2, NULL)), STATE, "permute: the array of axes is NULL");
    REFUSED(tg_sum(t, NULL, TG_ALL_AXES, TG_DROP_AXES), STATE, NULL_ARGUMENT("sum", "x"));
    REFUSED(tg_mean(t, f->x, TG_AXES(-3), TG_DROP_AXES), RANGE, NO_AXIS("mean", -3));
    REFUSED(tg_mean(t, f->x, TG_AXES(1, 1), TG_DROP_AXES), RANGE, "mean: axis 1 is listed twice");
    REFUSED(tg_mean(t, f->mask, TG_ALL_AXES, TG_DROP_AXES), DTYPE, NOT_FLOAT("mean", "x", "u8"));
    REFUSED(tg_mean(t, NULL, TG_ALL_AXES, TG_DROP_AXES), STATE, NULL_ARGUMENT("mean", "x"));
    REFUSED(tg_amax(t, f->x, TG_AXES(5), TG_DROP_AXES), RANGE, NO_AXIS("amax", 5));
    REFUSED(tg_amax(t, f->empty, TG_ALL_AXES, TG_DROP_AXES), SHAPE,
            "amax: axis 0 of (0,3) is empty, and has no maximum");
    REFUSED(tg_amax(t, f->empty, TG_AXES(0), TG_DROP_AXES), SHAPE,
            "amax: axis 0 of (0,3) is empty, and has no maximum");
    REFUSED(tg_amax(t, f->ids, TG_ALL_AXES, TG_DROP_AXES), DTYPE, NOT_FLOAT("amax", "x", "i32"));
    REFUSED(tg_amax(t, NULL, TG_ALL_AXES, TG_DROP_AXES), STATE, NULL_ARGUMENT("amax", "x"));
    REFUSED(tg_var(t, f->x, TG_AXES(2), 1, TG_DROP_AXES), RANGE, NO_AXIS("var", 2));
    REFUSED(tg_var(t, f->x, TG_AXES(0, 1, 0), 1, TG_DROP_AXES), RANGE, "var: axis 0 is listed twice");
    REFUSED(tg_var(t, f->ids, TG_ALL_AXES, 1, TG_DROP_AXES), DTYPE, NOT_FLOAT("var", "x", "i32"));
    REFUSED(tg_var(t, NULL, TG_ALL_AXES, 1, TG_DROP_AXES), STATE, NULL_ARGUMENT("var", "x"));
    REFUSED(tg_argmax(t, f->x, 2, TG_DROP_AXES), RANGE, NO_AXIS("argmax", 2));
    REFUSED(tg_argmax(t, f->empty, 0, TG_DROP_AXES), SHAPE,
            "argmax: axis 0 of (0,3); its size must be 1 to 2147483647");
    REFUSED(tg_argmax(t, NULL, 0, TG_DROP_AXES), STATE, NULL_ARGUMENT("argmax", "x"));
    REFUSED(tg_topk(t, f->x, 4, 1, TG_LARGEST_FIRST, NULL), RANGE, "topk: k 4 is outside [0,3], the size of axis 1");
    REFUSED(tg_topk(t, f->x, -1, 1, TG_LARGEST_FIRST, NULL), RANGE, "topk: k -1 is outside [0,3], the size of axis 1");
    REFUSED(tg_topk(t, f->x, 1, 2, TG_LARGEST_FIRST, NULL), RANGE, NO_AXIS("topk", 2));
    REFUSED(tg_topk(t, f->ids, 1, 0, TG_LARGEST_FIRST, NULL), DTYPE, NOT_FLOAT("topk", "x", "i32"));
    REFUSED(tg_topk(t, NULL, 1, 0, TG_LARGEST_FIRST, NULL), STATE, NULL_ARGUMENT("topk", "x"));
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
    REFUSED(tg_reshape(t, NULL, TG_SHAPE(6)), STATE, NULL_ARGUMENT("reshape", "x"));
    REFUSED(tg_transpose(t, f->scalar, 0, 0), RANGE, "transpose: axis 0 of a scalar; a scalar has no axes");
    REFUSED(tg_permute(t, f->x, TG_AXES(0)), SHAPE, "permute: 1 axes for rank 2; every axis must be listed once");
    REFUSED(tg_permute(t, f->x, TG_AXES(1, -1)), RANGE, "permute: axis 1 is listed twice");
    REFUSED(tg_permute(t, f->x, TG_AXES(0, 2)), RANGE, NO_AXIS("permute", 2));
    REFUSED(tg_permute(t, NULL, TG_AXES(0, 1)), STATE, NULL_ARGUMENT("permute", "x"));
    REFUSED(tg_slice(t, f->x, 0, 0, 2, 0), VALUE, "slice: step 0; it must be at least 1");
    REFUSED(tg_slice(t, f->x, -3, 0, 2, 1), RANGE, NO_AXIS("slice", -3));
    REFUSED(tg_slice(t, NULL, 0, 0, 2, 1), STATE, NULL_ARGUMENT("slice", "x"));
    REFUSED(tg_select(t, f->x, 1, 3), RANGE, "select: index 3 is outside [-3,3), axis 1");
    REFUSED(tg_select(t, f->x, 1, INT64_MAX), RANGE, "select: index 9223372036854775807 is outside [-3,3), axis 1");
    REFUSED(tg_select(t, f->x, 1, -4), RANGE, "select: index -4 is outside [-3,3), axis 1");
    REFUSED(tg_expand(t, f->x, TG_SHAPE(4, 3)), SHAPE,
            "expand: shape (2,3) to (4,3); only axes of size 1 can get another size, and new axes come first");
    REFUSED(tg_expand(t, f->x, TG_SHAPE(3)), SHAPE,
            "expand: shape (2,3) to (3,); only axes of size 1 can get another size, and new axes come first");
    REFUSED(tg_expand(t, f->x, TG_SHAPE(-1, 2, 3)), SHAPE,
            "expand: shape (2,3) to (-1,2,3); only axes of size 1 can get another size, and new axes come first");
    REFUSED(tg_expand(t, NULL, TG_SHAPE(3)), STATE, NULL_ARGUMENT("expand", "x"));
    REFUSED(tg_unsqueeze(t, f->x, 3), RANGE,
            "unsqueeze: axis 3 for rank 2; it must be in [-3,2], and the result may have at most 8 axes");
    REFUSED(tg_unsqueeze(t, f->deep_ids, 0), RANGE,
            "unsqueeze: axis 0 for rank 8; it must be in [-9,8], and the result may have at most 8 axes");
    REFUSED(tg_unsqueeze(t, NULL, 0), STATE, NULL_ARGUMENT("unsqueeze", "x"));
    REFUSED(tg_squeeze(t, f->x, 1), SHAPE, "squeeze: axis 1 has size 3; it must be 1");
    REFUSED(tg_squeeze(t, f->x, 2), RANGE, NO_AXIS("squeeze", 2));
    REFUSED(tg_squeeze(t, NULL, 0), STATE, NULL_ARGUMENT("squeeze", "x"));
    REFUSED(tg_contiguous(t, NULL), STATE, NULL_ARGUMENT("contiguous", "x"));
    REFUSED(tg_detach(t, NULL), STATE, NULL_ARGUMENT("detach", "x"));
    REFUSED(tg_cast(t, f->x, (tg_dtype)9), DTYPE, "cast: 9 is not a dtype");
    REFUSED(tg_cast(t, NULL, TG_F64), STATE, NULL_ARGUMENT("cast", "x"));
    REFUSED(tg_cat(t, NULL, 2, 0), STATE, "cat: the array of 2 tensors is NULL");
    REFUSED((tg_cat(t, (tg_tensor *[]){f->x}, 0, 0)), VALUE, "cat: 0 tensors; at least 1 is needed");
    REFUSED((tg_cat(t, (tg_tensor *[]){f->x, f->four}, 2, 0)), SHAPE,
            "cat: input 1 has shape (4,), and the inputs before it give (2,3); all sizes except that of axis 0 must be "
            "equal");
    REFUSED((tg_cat(t, (tg_tensor *[]){f->scalar, f->scalar}, 2, 0)), SHAPE,
            "cat: input 0 is a scalar; tg_stack joins scalars");
    REFUSED((tg_cat(t, (tg_tensor *[]){f->x, f->doubles}, 2, 0)), DTYPE, MIXED("cat", "f32", "f64"));
    REFUSED((tg_cat(t, (tg_tensor *[]){f->x, f->ids}, 2, 0)), DTYPE,
            "cat: input 1 is i32; it must be f32 (tg_cast converts)");
    REFUSED((tg_cat(t, (tg_tensor *[]){f->x, f->x}, 2, 2)), RANGE, NO_AXIS("cat", 2));
    REFUSED((tg_cat(t, (tg_tensor *[]){f->x, NULL}, 2, 0)), STATE, "cat: argument 'tensors[1]' is NULL");
    REFUSED((tg_stack(t, (tg_tensor *[]){f->x}, 0, 0)), VALUE, "stack: 0 tensors; at least 1 is needed");
    REFUSED((tg_stack(t, (tg_tensor *[]){f->x, f->four}, 2, 0)), SHAPE,
            "stack: input 1 has shape (4,) and input 0 (2,3); they must be equal");
    REFUSED((tg_stack(t, (tg_tensor *[]){f->x, f->doubles}, 2, 0)), DTYPE, MIXED("stack", "f32", "f64"));
    REFUSED((tg_stack(t, (tg_tensor *[]){f->x, f->ids}, 2, 0)), DTYPE,
            "stack: input 1 is i32; it must be f32 (tg_cast converts)");
    REFUSED((tg_stack(t, (tg_tensor *[]){f->x, f->x}, 2, 3)), RANGE,
            "stack: axis 3 is outside [-3,3), or the result has more than 8 axes");
    REFUSED((tg_stack(t, (tg_tensor *[]){f->x, NULL}, 2, 0)), STATE, "stack: argument 'tensors[1]' is NULL");
    REFUSED(split(t, f->x, 0, 0, 9), VALUE, "split: parts of size 0; it must be at least 1");
    REFUSED(split(t, f->x, 1, 2, 9), RANGE, NO_AXIS("split", 2));
    REFUSED(split(t, f->x, 1, 1, 2), RANGE, "split: 3 parts for an array with a capacity of 2");
    REFUSED(split(t, NULL, 1, 0, 9), STATE, NULL_ARGUMENT("split", "x"));
    REFUSED(tg_gather(t, f->x, 1, f->ids), RANGE, "gather: id 8 at [0,1] is outside [0,3)");
    REFUSED(tg_gather(t, f->vector, 0, f->ids), SHAPE,
            "gather: ids (2,3) for an input (3,); the ranks must be equal, and only on axis 0 may ids be larger "
            "than the input");
    REFUSED(tg_gather(t, f->row, 1, f->ids), SHAPE,
            "gather: ids (2,3) for an input (1,3); the ranks must be equal, and only on axis 1 may ids be larger "
            "than the input");
    REFUSED(tg_gather(t, f->x, 1, f->mask), DTYPE, NOT_IDS("gather", "ids", "u8"));
    REFUSED(tg_gather(t, f->x, 2, f->ids), RANGE, NO_AXIS("gather", 2));
    REFUSED(tg_gather(t, f->x, 1, NULL), STATE, NULL_ARGUMENT("gather", "ids"));
    REFUSED(tg_index_select(t, f->x, 0, f->id_list), RANGE, "index_select: id 5 at [0] is outside [0,2)");
    REFUSED(tg_index_select(t, f->x, 0, f->ids), SHAPE,
            "index_select: argument 'ids' has shape (2,3); it must have rank 1");
    REFUSED(tg_index_select(t, f->scalar, 0, f->id_list), SHAPE,
            "index_select: argument 'x' is a scalar, which has no axis");
    REFUSED(tg_index_select(t, f->x, 0, f->vector), DTYPE, NOT_IDS("index_select", "ids", "f32"));
    REFUSED(tg_index_select(t, f->x, -3, f->id_list), RANGE, NO_AXIS("index_select", -3));
    REFUSED(tg_index_select(t, NULL, 0, f->id_list), STATE, NULL_ARGUMENT("index_select", "x"));
}

/* Calls without a tape. */
static void test_copies_and_items(void **state)
{
    fixture *f = *state;
    tg_error e = TG_NO_ERROR;
    REFUSED_WITH(!tg_tensor_copy_from(f->four, f->x, &e), &e, SHAPE,
                 "tensor_copy_from: shape (2,3) does not broadcast to (4,)");
    REFUSED_WITH(!tg_tensor_copy_from(f->vector, f->x, &e), &e, SHAPE,
                 "tensor_copy_from: shape (2,3) does not broadcast to (3,)");
    REFUSED_WITH(!tg_tensor_copy_from(f->ids, f->mask, &e), &e, DTYPE,
                 "tensor_copy_from: the tensor is i32 and the source u8; tg_tensor_new_cast converts");
    REFUSED_WITH(!tg_tensor_copy_from(NULL, f->x, &e), &e, STATE, NULL_TENSOR("tensor_copy_from", "target"));
    REFUSED_WITH(!tg_tensor_copy_from(f->four, NULL, &e), &e, STATE, NULL_TENSOR("tensor_copy_from", "source"));
    REFUSED_WITH(isnan(tg_tensor_item(f->x, &e)), &e, SHAPE,
                 "tensor_item: shape (2,3) has 6 values; it must have exactly one");
    REFUSED_WITH(isnan(tg_tensor_item(NULL, &e)), &e, STATE, NULL_TENSOR("tensor_item", "tensor"));
}

/* A copy into a tensor that backward reads is allowed, and backward reports it. */
static void test_copies_into_what_backward_reads(void **state)
{
    (void)state;
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_tensor *x = leaf(tensor_f64(TG_SHAPE(2, 2), (double[]){1, 2, 3, 4}));
    tg_tensor *row = tensor_f64(TG_SHAPE(2), (double[]){5, 6});
    tg_tensor *square = tg_sum(t, tg_mul(t, x, x), TG_ALL_AXES, TG_DROP_AXES);
    assert_true(tg_tensor_copy_from(x, row, NULL));
    assert_values(x, (double[]){5, 6, 5, 6}, 4, 0, 0);
    assert_false(tg_backward(t, square, NULL));
    assert_tape_error(t, TG_ERROR_STATE, "input 0 of 'mul' was changed in place");
    tg_tensor *y = tg_exp(t, x);
    assert_true(tg_tensor_copy_from(y, row, NULL));
    assert_false(backward_from(t, y, x));
    assert_tape_error(t, TG_ERROR_STATE, "output 0 of 'exp' was changed in place");
    assert_int_equal(tg_tensor_grad_kind(x), TG_GRAD_NONE);
    tg_release(row);
    tg_release(x);
    tg_tape_free(t);
}

/* An op without a tape returns NULL, and changes nothing. */
static void test_no_tape(void **state)
{
    fixture *f = *state;
    tg_tensor *pair[] = {f->x, f->x};
    assert_null(tg_add(NULL, f->x, f->x));
    assert_null(tg_add_scalar(NULL, f->x, 1));
    assert_null(tg_clamp(NULL, f->x, 1, 0));
    assert_null(tg_sum(NULL, f->x, TG_AXES(9), TG_DROP_AXES));
    assert_null(tg_topk(NULL, f->x, 1, 0, TG_LARGEST_FIRST, NULL));
    assert_null(tg_reshape(NULL, f->x, TG_SHAPE(6)));
    assert_null(tg_stack(NULL, pair, 2, 0));
    assert_null(tg_cat(NULL, pair, 0, 0));
    assert_null(split(NULL, f->x, 1, 0, 9));
    assert_null(tg_full(NULL, TG_F32, TG_SCALAR, 1));
    assert_null(tg_detach(NULL, f->x));
    assert_null(tg_gather(NULL, f->x, 0, f->ids));
    check_unchanged(f, __LINE__);
}

/* Views may have more values than memory can hold; results of that size are refused, and so are their gradients. */
static void test_counts_beyond_memory(void **state)
{
    (void)state;
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_tensor *x = leaf(tg_tensor_new_full(TG_F32, TG_SHAPE(1, 1), 1, NULL));
    const int64_t half = INT64_C(1) << 30, huge = INT64_C(1) << 61;
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
    assert_false(backward_from(t, y, tg_expand(t, one, TG_SHAPE(1, huge))));
    assert_tape_error(t, TG_ERROR_MEMORY, "backward: out of memory");
    tg_release(one);
    tg_release(x);
    tg_tape_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts_beyond_memory),
        cmocka_unit_test(test_copies_into_what_backward_reads),
        cmocka_unit_test_setup_teardown(test_full, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_masks, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_reductions, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_layout, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_copies_and_items, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_tape, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("errors", tests, NULL, NULL);
}
