/* products: tg_matmul and tg_linear. */
#include "reference.h"

/* ---- sizes ---- */

/* A size of a matrix: now and then wider than the tiles and lanes of a kernel. */
static int64_t draw_width(trial *t)
{
    return draw_chance(t, 4) ? draw_integer(t, 1, 70) : draw_chance(t, 1) ? draw_integer(t, 200, 300) : draw_size(t);
}

/* ---- tg_matmul ---- */

/* Appends the sizes of a matrix to the axes of the batch, or those of a vector, which has no batch. */
static tg_shape operand_shape(tg_shape batch, bool is_vector, int64_t length, int64_t rows, int64_t columns)
{
    if (is_vector) {
        return TG_SHAPE(length);
    }
    batch.size[batch.rank++] = rows;
    batch.size[batch.rank++] = columns;
    return batch;
}

static void draw_matmul(trial *t)
{
    tg_shape batch = TG_SCALAR;
    batch.rank = draw_chance(t, 2) ? TG_MAX_RANK - 2 : (int)draw_integer(t, 0, 3);
    for (int axis = 0; axis < batch.rank; axis++) {
        batch.size[axis] = draw_chance(t, 3) ? 0 : draw_integer(t, 1, batch.rank > 3 ? 2 : 3);
    }
    bool is_alone = batch.rank == 0 || count_of(batch) <= 2;
    int64_t rows = is_alone ? draw_width(t) : draw_integer(t, 0, 9),
            columns = is_alone ? draw_width(t) : draw_integer(t, 0, 9), inner = draw_width(t);
    int64_t other = draw_chance(t, 3) ? draw_size(t) : inner;
    tg_shape a = operand_shape(draw_broadcastable(t, batch), draw_chance(t, 15), inner, rows, inner),
             b = operand_shape(draw_broadcastable(t, batch), draw_chance(t, 15), other, other, columns);
    draw_input(t, "a", draw_chance(t, 1) ? TG_SCALAR : a);
    draw_input(t, "b", draw_chance(t, 1) ? TG_SCALAR : b);
}

/* The shapes of a product: a vector is a matrix of one row on the left, and of one column on the right. */
typedef struct product {
    tg_shape a, b;         /* of the batch */
    tg_shape batch, shape; /* of the result; `shape` without the axes of vectors */
    int64_t rows, columns, inner;
} product;

static bool product_of(const trial *t, product *p)
{
    tg_shape a = t->inputs[0].x.shape, b = t->inputs[1].x.shape;
    if (a.rank == 0 || b.rank == 0) {
        return false;
    }
    bool has_rows = a.rank > 1, has_columns = b.rank > 1;
    p->rows = has_rows ? a.size[a.rank - 2] : 1;
    p->columns = has_columns ? b.size[b.rank - 1] : 1;
    p->inner = a.size[a.rank - 1];
    int64_t other = has_columns ? b.size[b.rank - 2] : b.size[0];
    a.rank = has_rows ? a.rank - 2 : 0;
    b.rank = has_columns ? b.rank - 2 : 0;
    p->a = a;
    p->b = b;
    if (other != p->inner || !broadcast_shapes(a, b, &p->batch)) {
        return false;
    }
    p->shape = p->batch;
    if (has_rows) {
        p->shape.size[p->shape.rank++] = p->rows;
    }
    if (has_columns) {
        p->shape.size[p->shape.rank++] = p->columns;
    }
    return true;
}

static bool is_valid_matmul(const trial *t)
{
    product p;
    return product_of(t, &p);
}

static tg_tensor *call_matmul(trial *t)
{
    return tg_matmul(t->tape, t->inputs[0].tensor, t->inputs[1].tensor);
}

/* Calls `visit` for each product, of one value of a and one of b, that a value of the result is a sum of. */
static void for_each_product(trial *t, void (*visit)(trial *t, int64_t y, int64_t a, int64_t b))
{
    product p;
    product_of(t, &p);
    int64_t index[TG_MAX_RANK];
    for (int64_t i = 0; i < count_of(p.shape); i++) {
        int64_t matrix = i / (p.rows * p.columns), row = i / p.columns % p.rows, column = i % p.columns;
        split_index(p.batch, matrix, index);
        int64_t a = broadcast_index(p.a, p.batch.rank, index), b = broadcast_index(p.b, p.batch.rank, index);
        for (int64_t k = 0; k < p.inner; k++) {
            visit(t, i, (a * p.rows + row) * p.inner + k, (b * p.inner + k) * p.columns + column);
        }
    }
}

static void add_product(trial *t, int64_t y, int64_t a, int64_t b)
{
    add(&t->outputs[0].y, y, t->inputs[0].x.values[a] * t->inputs[1].x.values[b]);
}

static void add_gradients_of_product(trial *t, int64_t y, int64_t a, int64_t b)
{
    double dy = t->outputs[0].dy.values[y];
    add(&t->inputs[0].dx, a, dy * t->inputs[1].x.values[b]);
    add(&t->inputs[1].dx, b, dy * t->inputs[0].x.values[a]);
}

static void matmul_forward(trial *t)
{
    product p;
    product_of(t, &p);
    output_new(t, 0, p.shape);
    for_each_product(t, add_product);
}

static void matmul_backward(trial *t)
{
    for_each_product(t, add_gradients_of_product);
}

/* ---- tg_linear ---- */

static void draw_linear(trial *t)
{
    tg_shape x = draw_shape(t, draw_chance(t, 2) ? 0 : 1, TG_MAX_RANK);
    int64_t in = x.rank > 0 ? x.size[x.rank - 1] : 1, out = draw_size(t);
    if (draw_chance(t, 8)) { /* more rows, and wider ones */
        x = TG_SHAPE(draw_width(t), draw_width(t));
        in = x.size[1];
        out = draw_width(t);
    }
    tg_shape weight = TG_SHAPE(out, draw_chance(t, 2) ? draw_size(t) : in),
             bias = TG_SHAPE(draw_chance(t, 2) ? draw_size(t) : out);
    weight.rank -= draw_chance(t, 1);
    bias.rank -= draw_chance(t, 1);
    draw_input(t, "x", x);
    draw_input(t, "weight", weight);
    if (draw_chance(t, 60)) {
        draw_input(t, "bias", bias);
    } else {
        draw_absent(t, "bias");
    }
}

static bool is_valid_linear(const trial *t)
{
    tg_shape x = t->inputs[0].x.shape, weight = t->inputs[1].x.shape, bias = t->inputs[2].x.shape;
    bool matches_bias = !t->inputs[2].is_present || (bias.rank == 1 && bias.size[0] == weight.size[0]);
    return x.rank >= 1 && weight.rank == 2 && x.size[x.rank - 1] == weight.size[1] && matches_bias;
}

static tg_tensor *call_linear(trial *t)
{
    return tg_linear(t->tape, t->inputs[0].tensor, t->inputs[1].tensor, t->inputs[2].tensor);
}

static void linear_forward(trial *t)
{
    const input *x = &t->inputs[0], *weight = &t->inputs[1], *bias = &t->inputs[2];
    int64_t out = weight->x.shape.size[0], in = weight->x.shape.size[1];
    tg_shape shape = x->x.shape;
    shape.size[shape.rank - 1] = out;
    array *y = output_new(t, 0, shape);
    for (int64_t i = 0; i < y->count; i++) {
        if (bias->is_present) {
            add(y, i, bias->x.values[i % out]);
        }
        for (int64_t k = 0; k < in; k++) {
            add(y, i, x->x.values[i / out * in + k] * weight->x.values[i % out * in + k]);
        }
    }
}

static void linear_backward(trial *t)
{
    input *x = &t->inputs[0], *weight = &t->inputs[1], *bias = &t->inputs[2];
    int64_t out = weight->x.shape.size[0], in = weight->x.shape.size[1];
    const array *dy = &t->outputs[0].dy;
    for (int64_t i = 0; i < dy->count; i++) {
        if (bias->is_present) {
            add(&bias->dx, i % out, dy->values[i]);
        }
        for (int64_t k = 0; k < in; k++) {
            add(&x->dx, i / out * in + k, dy->values[i] * weight->x.values[i % out * in + k]);
            add(&weight->dx, i % out * in + k, dy->values[i] * x->x.values[i / out * in + k]);
        }
    }
}

static const reference references[] = {
    {
        .op = "tg_matmul",
        .draw = draw_matmul,
        .is_valid = is_valid_matmul,
        .call = call_matmul,
        .forward = matmul_forward,
        .backward = matmul_backward,
        .roundings = 128,
        .gradient_roundings = 128,
    },
    {
        .op = "tg_linear",
        .draw = draw_linear,
        .is_valid = is_valid_linear,
        .call = call_linear,
        .forward = linear_forward,
        .backward = linear_backward,
        .roundings = 128,
        .gradient_roundings = 128,
    },
};

reference_family products = {"products", references, sizeof references / sizeof *references, 40000, NULL};
