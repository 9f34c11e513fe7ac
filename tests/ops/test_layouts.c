/* Ops on inputs that are not contiguous: results and gradients have the bits of those of contiguous copies, at each
 * level and with any number of threads. Steps, flipped, turned and repeated axes, sizes around those of chunks and
 * tiles, empty ones, NaN, infinities and subnormals; an input that is listed twice, and a second backward. */
#include "ops/calls.h"
#include "settings.h"

#include <math.h>
#include <string.h>

#include "tensor/tensor.h"

static const tg_shape shapes[] = {{2, {9, 1021}}, {3, {2, 33, 70}},  {4, {20, 3, 4, 66}}, {4, {18, 16, 4, 9}},
                                  {2, {1, 300}},  {3, {3, 0, 5}},    {1, {1500}},         {2, {1, 1}},
                                  {2, {300, 16}}, {3, {18, 5, 130}}, {2, {66, 513}}};

typedef enum layout {
    TURNED,
    FIRST_AND_LAST,
    REVERSED_AXES,
    FLIPPED,
    EVERY_SECOND,
    EVERY_THIRD,
    EVERY_SECOND_ROW,
    COLUMN,
    REPEATED,
    REPEATED_ROWS,
    LAYOUTS
} layout;

/* Number i: some are special, and most need all bits. */
static double number(int64_t i)
{
    static const double specials[] = {0, -0.0, NAN, INFINITY, -INFINITY, 1e-40, -1e-45, 3e38};
    return i % 37 < 8 && i % 5 == 0 ? specials[i % 37] : (double)(i * 7919 % 997 - 498) / 499;
}

static tg_tensor *numbers(tg_dtype dtype, tg_shape shape, int64_t first)
{
    tg_tensor *x = tg_tensor_new(dtype, shape, NULL);
    assert_non_null(x);
    for (int64_t i = 0; i < x->count; i++) {
        bool integer = dtype == TG_U8 || dtype == TG_I32;
        double value = integer ? (double)((first + i) * 7919 % 5 - 2) : number(first + i);
        value = dtype == TG_U8 && value < 0 ? 0 : value;
        tg_convert((char *)tg_values(x) + (size_t)i * tg_dtype_size(dtype), dtype, &value, TG_F64, 1);
    }
    return x;
}

static void swap(tg_shape *shape, int a, int b)
{
    int64_t size = shape->size[a];
    shape->size[a] = shape->size[b];
    shape->size[b] = size;
}

/* Returns the shape of the tensor of which a view in this layout has `shape`. */
static tg_shape base_of(layout of, tg_shape shape)
{
    int last = shape.rank - 1, before = last > 0 ? last - 1 : 0;
    switch (of) {
    case TURNED: swap(&shape, before, last); break;
    case FIRST_AND_LAST: swap(&shape, 0, last); break;
    case REVERSED_AXES:
        for (int axis = 0; axis < last - axis; axis++) {
            swap(&shape, axis, last - axis);
        }
        break;
    case FLIPPED: break;
    case EVERY_SECOND: shape.size[last] *= 2; break;
    case EVERY_THIRD: shape.size[last] *= 3; break;
    case EVERY_SECOND_ROW: shape.size[0] *= 2; break;
    case COLUMN: shape.size[shape.rank++] = 3; break;
    case REPEATED: shape.size[last] = 1; break;
    default: shape.size[0] = 1;
    }
    return shape;
}

static tg_tensor *view_of(tg_tape *t, layout of, tg_tensor *x, tg_shape shape)
{
    int last = shape.rank - 1, before = last > 0 ? last - 1 : 0;
    int reversed[TG_MAX_RANK];
    for (int i = 0; i <= last; i++) {
        reversed[i] = last - i;
    }
    switch (of) {
    case TURNED: return tg_transpose(t, x, before, last);
    case FIRST_AND_LAST: return tg_transpose(t, x, 0, last);
    case REVERSED_AXES: return tg_permute(t, x, tg_axes_make(shape.rank, reversed));
    case FLIPPED: return tg_flip(t, x, tg_axes_make(1, (int[]){last}));
    case EVERY_SECOND: return tg_slice(t, x, last, 1, INT64_MAX, 2);
    case EVERY_THIRD: return tg_slice(t, x, last, 2, INT64_MAX, 3);
    case EVERY_SECOND_ROW: return tg_slice(t, x, 0, 0, INT64_MAX, 2);
    case COLUMN: return tg_select(t, x, shape.rank, 1);
    default: return tg_expand(t, x, shape);
    }
}

/* ---- the ops, of two floats, a mask and another mask; all have one shape ---- */

typedef struct operands {
    tg_tensor *a, *b, *mask, *other_mask, *ids;
} operands;

typedef tg_tensor *op_call(tg_tape *t, const operands *x);

static tg_tensor *add(tg_tape *t, const operands *x)
{
    return tg_add(t, x->a, x->b);
}

static tg_tensor *add_same(tg_tape *t, const operands *x)
{
    return tg_add(t, x->a, x->a);
}

static tg_tensor *sub(tg_tape *t, const operands *x)
{
    return tg_sub(t, x->a, x->b);
}

static tg_tensor *mul(tg_tape *t, const operands *x)
{
    return tg_mul(t, x->a, x->b);
}

static tg_tensor *square(tg_tape *t, const operands *x)
{
    return tg_mul(t, x->a, x->a);
}

static tg_tensor *divide(tg_tape *t, const operands *x)
{
    return tg_div(t, x->a, x->b);
}

/* The first row, or column, of b is broadcast. */
static tg_tensor *add_row(tg_tape *t, const operands *x)
{
    tg_tensor *row = x->b;
    for (int axis = 0; axis < x->b->rank - 1; axis++) {
        row = tg_slice(t, row, axis, 0, 1, 1);
    }
    return tg_add(t, x->a, row);
}

static tg_tensor *mul_column(tg_tape *t, const operands *x)
{
    return tg_mul(t, tg_slice(t, x->b, -1, 0, 1, 1), x->a);
}

static tg_tensor *where_row_column(tg_tape *t, const operands *x)
{
    return tg_where(t, tg_slice(t, x->mask, 0, 0, 1, 1), x->a, tg_slice(t, x->b, -1, 0, 1, 1));
}

static tg_tensor *tanh_of(tg_tape *t, const operands *x)
{
    return tg_tanh(t, x->a);
}

/* One number is the second input, or the first. */
static tg_tensor *with_number(tg_tape *t, const operands *x)
{
    tg_tensor *one = tg_full(t, tg_tensor_dtype(x->a), TG_SCALAR, 1.5);
    return tg_sub(t, tg_sub(t, one, x->a), tg_mul(t, x->b, one));
}

static tg_tensor *relu(tg_tape *t, const operands *x)
{
    return tg_relu(t, x->a);
}

static tg_tensor *clamp_tensor(tg_tape *t, const operands *x)
{
    return tg_clamp_tensor(t, x->a, x->b, x->a);
}

static tg_tensor *where(tg_tape *t, const operands *x)
{
    return tg_where(t, x->mask, x->a, x->b);
}

static tg_tensor *masked_fill(tg_tape *t, const operands *x)
{
    return tg_masked_fill(t, x->a, x->mask, 7);
}

static tg_tensor *greater(tg_tape *t, const operands *x)
{
    return tg_gt(t, x->a, x->b);
}

static tg_tensor *logical_and(tg_tape *t, const operands *x)
{
    return tg_logical_and(t, x->mask, x->other_mask);
}

static tg_tensor *logical_or(tg_tape *t, const operands *x)
{
    return tg_logical_or(t, x->mask, x->other_mask);
}

static tg_tensor *logical_not(tg_tape *t, const operands *x)
{
    return tg_logical_not(t, x->mask);
}

static tg_tensor *equal_ids(tg_tape *t, const operands *x)
{
    return tg_eq(t, x->ids, x->mask);
}

static tg_tensor *cast(tg_tape *t, const operands *x)
{
    return tg_cast(t, x->a, tg_tensor_dtype(x->a) == TG_F32 ? TG_F64 : TG_F32);
}

static tg_tensor *cast_mask(tg_tape *t, const operands *x)
{
    return tg_cast(t, x->mask, TG_F32);
}

static tg_tensor *cat_first(tg_tape *t, const operands *x)
{
    return tg_cat(t, (tg_tensor *[]){x->a, x->b, x->a}, 3, 0);
}

static tg_tensor *cat_last(tg_tape *t, const operands *x)
{
    return tg_cat(t, (tg_tensor *[]){x->a, x->b, x->a}, 3, -1);
}

static tg_tensor *cat_masks(tg_tape *t, const operands *x)
{
    return tg_cat(t, (tg_tensor *[]){x->mask, x->other_mask}, 2, -1);
}

static tg_tensor *stack_last(tg_tape *t, const operands *x)
{
    return tg_stack(t, (tg_tensor *[]){x->a, x->b}, 2, -1);
}

static tg_tensor *tril(tg_tape *t, const operands *x)
{
    return x->a->rank < 2 ? tg_neg(t, x->a) : tg_tril(t, x->a, 1);
}

/* Rows of a: that of the largest value of each column. */
static tg_tensor *embedding(tg_tape *t, const operands *x)
{
    return x->a->rank != 2 ? tg_neg(t, x->a) : tg_embedding(t, tg_argmax(t, x->a, 0, TG_DROP_AXES), x->a, NULL);
}

/* The same by index_select, and those rows of a mask. */
static tg_tensor *index_select(tg_tape *t, const operands *x)
{
    return x->a->rank != 2 ? tg_neg(t, x->a) : tg_index_select(t, x->a, -2, tg_argmax(t, x->a, 0, TG_DROP_AXES));
}

static tg_tensor *index_select_masks(tg_tape *t, const operands *x)
{
    return x->a->rank != 2 ? tg_neg(t, x->a) : tg_index_select(t, x->mask, 0, tg_argmax(t, x->a, 0, TG_DROP_AXES));
}

static const struct named_op {
    const char *name;
    op_call *call;
} ops[] = {{"add", add},
           {"add of one tensor", add_same},
           {"sub", sub},
           {"mul", mul},
           {"square", square},
           {"div", divide},
           {"add of a row", add_row},
           {"mul of a column", mul_column},
           {"where of a row and a column", where_row_column},
           {"tanh", tanh_of},
           {"sub and mul of a number", with_number},
           {"relu", relu},
           {"clamp_tensor", clamp_tensor},
           {"where", where},
           {"masked_fill", masked_fill},
           {"gt", greater},
           {"logical_and", logical_and},
           {"logical_or", logical_or},
           {"logical_not", logical_not},
           {"eq of ids", equal_ids},
           {"cast", cast},
           {"cast of a mask", cast_mask},
           {"cat, first axis", cat_first},
           {"cat, last axis", cat_last},
           {"cat of masks", cat_masks},
           {"stack", stack_last},
           {"tril", tril},
           {"embedding", embedding},
           {"index_select", index_select},
           {"index_select of masks", index_select_masks}};

/* ---- both ways ---- */

/* Whether two tensors have the same bits; a NaN may be any other. */
static bool same_bits(const tg_tensor *a, const tg_tensor *b, int64_t *at)
{
    if (!a || !b) {
        return a == b;
    }
    size_t size = tg_dtype_size(tg_dtype_of(a));
    for (*at = 0; *at < a->count; ++*at) {
        const char *p = (const char *)tg_values(a) + (size_t)*at * size,
                   *q = (const char *)tg_values(b) + (p - (char *)tg_values(a));
        double u, v;
        tg_convert(&u, TG_F64, p, tg_dtype_of(a), 1);
        tg_convert(&v, TG_F64, q, tg_dtype_of(b), 1);
        if (memcmp(p, q, size) != 0 && !(isnan(u) && isnan(v))) {
            return false;
        }
    }
    return tg_same_shape(a, b) && tg_dtype_of(a) == tg_dtype_of(b);
}

static void assert_same(const char *what, const struct named_op *op, size_t shape, int layouts, const tg_tensor *a,
                        const tg_tensor *b)
{
    int64_t at = 0;
    if (!same_bits(a, b, &at)) {
        fail_msg("%s of %s, shape %zu, layouts %d: value %lld differs", what, op->name, shape, layouts, (long long)at);
    }
}

/* The leaves: all but a and b have no gradient. */
typedef struct leaves {
    tg_tensor *x[5];
} leaves;

static leaves leaves_of(tg_dtype dtype, const layout *of, tg_shape shape)
{
    static const tg_dtype integers[] = {TG_U8, TG_U8, TG_I32};
    leaves l;
    for (int i = 0; i < 5; i++) {
        l.x[i] = numbers(i < 2 ? dtype : integers[i - 2], base_of(of[i], shape), 100 * i);
    }
    leaf(l.x[0]);
    leaf(l.x[1]);
    return l;
}

/* Returns the result on views, or on contiguous copies of them. */
static tg_tensor *call(tg_tape *t, const struct named_op *op, const leaves *l, const layout *of, tg_shape shape,
                       bool copies)
{
    tg_tensor *x[5];
    for (int i = 0; i < 5; i++) {
        x[i] = view_of(t, of[i], l->x[i], shape);
        assert_true(x[i] && tg_shape_equal(tg_tensor_shape(x[i]), shape));
        x[i] = copies ? tg_contiguous(t, x[i]) : x[i];
    }
    return op->call(t, &(operands){x[0], x[1], x[2], x[3], x[4]});
}

static void check_op(const struct named_op *op, size_t which, int first)
{
    const tg_shape shape = shapes[which];
    layout of[5];
    for (int i = 0; i < 5; i++) {
        of[i] = (layout)((first + 3 * i) % LAYOUTS);
    }
    tg_dtype dtype = first % 2 ? TG_F64 : TG_F32;
    tg_tape *t = tg_tape_new(NULL, NULL);
    leaves on_views = leaves_of(dtype, of, shape), on_copies = leaves_of(dtype, of, shape);
    for (int pass = 1; pass <= 2; pass++) { /* the second gradient is added */
        tg_tensor *y = call(t, op, &on_views, of, shape, false), *expected = call(t, op, &on_copies, of, shape, true);
        assert_non_null(y);
        assert_non_null(expected);
        assert_same("the result", op, which, first, y, expected);
        if (tg_tensor_requires_grad(y)) {
            tg_tensor *dy = numbers(tg_tensor_dtype(y), tg_tensor_shape(y), 1000 + pass);
            assert_true(backward_from(t, y, dy) && backward_from(t, expected, dy));
            assert_same("the gradient of a", op, which, first, tg_tensor_grad(on_views.x[0]),
                        tg_tensor_grad(on_copies.x[0]));
            assert_same("the gradient of b", op, which, first, tg_tensor_grad(on_views.x[1]),
                        tg_tensor_grad(on_copies.x[1]));
            tg_release(dy);
        }
    }
    tg_tape_free(t);
    for (int i = 0; i < 5; i++) {
        tg_release(on_views.x[i]);
        tg_release(on_copies.x[i]);
    }
}

static void check_ops(void *context, bool first)
{
    (void)context;
    for (size_t k = 0; k < sizeof ops / sizeof *ops; k++) {
        for (size_t which = 0; which < sizeof shapes / sizeof *shapes; which++) {
            for (int of = 0; of < LAYOUTS; of++) {
                /* all combinations in one setting but for the largest shape, and a part of them in the others */
                bool is_small = shapes[which].size[0] < 66;
                if ((first && is_small) || (k + which + (size_t)of) % 11 == 0) {
                    check_op(&ops[k], which, of);
                }
            }
        }
    }
}

static void test_layouts(void **state)
{
    (void)state;
    over_settings(check_ops, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_layouts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
