/* The operations that an instruction can call: shapes, layouts, and selections by ids. */
#include <string.h>

#include "programs.h"

static tg_tensor *contiguous(call *c)
{
    return tg_contiguous(c->tape, c->x[0]);
}

static tg_tensor *detach(call *c)
{
    return tg_detach(c->tape, c->x[0]);
}

static tg_tensor *reshape(call *c)
{
    tg_shape shape = tg_tensor_shape(c->x[0]);
    int last = shape.rank - 1;
    if (last > 0 && c->option[0] % 3 == 0) {
        shape.size[last - 1] *= shape.size[last];
        shape.rank--;
    } else if (last > 0 && c->option[0] % 3 == 1) {
        int64_t size = shape.size[0];
        shape.size[0] = shape.size[last];
        shape.size[last] = size;
    } else {
        shape = TG_SHAPE(-1);
    }
    return tg_reshape(c->tape, c->x[0], shape);
}

static tg_tensor *permute(call *c)
{
    tg_axes axes = {.count = tg_tensor_rank(c->x[0])};
    for (int i = 0; i < axes.count; i++) {
        axes.axis[i] = (int)((c->option[0] + (unsigned)i) % (unsigned)axes.count);
    }
    describe(c, ", from axis %d", axes.axis[0]);
    return tg_permute(c->tape, c->x[0], axes);
}

static tg_tensor *slice(call *c)
{
    int axis = draw_axis(c, c->option[0], c->x[0]);
    int64_t size = tg_tensor_size(c->x[0], axis) + 1, begin = (int64_t)c->option[1] % size, step = 1 + c->option[3] % 3;
    int64_t end = c->option[2] % 3 ? INT64_MAX : (int64_t)(c->option[2] / 3) % size;
    describe(c, ", %lld:%lld:%lld", (long long)begin, (long long)end, (long long)step);
    return tg_slice(c->tape, c->x[0], axis, begin, end, step);
}

static tg_tensor *flip(call *c)
{
    return tg_flip(c->tape, c->x[0], draw_axes(c, c->x[0]));
}

static tg_tensor *repeat(call *c)
{
    tg_shape times = {.rank = tg_tensor_rank(c->x[0])};
    for (int i = 0; i < times.rank; i++) {
        times.size[i] = 1 + (c->option[0] >> i) % 2;
    }
    return tg_repeat(c->tape, c->x[0], times);
}

/* Repeats axes of size 1, or a new one in front. */
static tg_tensor *expand(call *c)
{
    tg_shape shape = tg_tensor_shape(c->x[0]), wider = {.rank = shape.rank};
    bool any = false;
    for (int i = 0; i < shape.rank; i++) {
        wider.size[i] = shape.size[i] == 1 ? 3 : -1;
        any |= shape.size[i] == 1;
    }
    if (!any && shape.rank < TG_MAX_RANK) {
        memmove(wider.size + 1, wider.size, (size_t)shape.rank * sizeof *wider.size);
        wider.size[0] = 2;
        wider.rank++;
    }
    return tg_expand(c->tape, c->x[0], wider);
}

static tg_tensor *unsqueeze(call *c)
{
    return tg_unsqueeze(c->tape, c->x[0], draw_axis(c, c->option[0], c->x[0]));
}

static tg_tensor *squeeze(call *c)
{
    return tg_squeeze(c->tape, c->x[0], draw_axis(c, c->option[0], c->x[0]));
}

static tg_tensor *join(call *c)
{
    tg_tensor *const all[] = {c->x[0], c->x[1], c->x[0]};
    int axis = draw_axis(c, c->option[0], c->x[0]), count = 1 + (int)(c->option[1] % 3);
    describe(c, ", %d %s", count, c->option[2] % 2 ? "stacked" : "joined");
    return (c->option[2] % 2 ? tg_stack : tg_cat)(c->tape, all, count, axis);
}

/* Splits x, and joins the parts in the reverse order; the first part is changed. */
static tg_tensor *split(call *c)
{
    tg_tensor *parts[64];
    int axis = draw_axis(c, c->option[0], c->x[0]);
    int count = (int)tg_split(c->tape, c->x[0], 1 + c->option[1] % 3, axis, parts, 64);
    for (int i = 0; i < count / 2; i++) {
        tg_tensor *part = parts[i];
        parts[i] = parts[count - 1 - i];
        parts[count - 1 - i] = part;
    }
    if (count > 0) {
        parts[0] = tg_sigmoid(c->tape, parts[0]);
    }
    return tg_cat(c->tape, parts, count, axis);
}

static tg_tensor *gather(call *c)
{
    int axis = draw_axis(c, c->option[0], c->x[0]);
    tg_tensor *ids = constant_ids(c, tg_tensor_shape(c->x[0]), c->option[1], tg_tensor_size(c->x[0], axis));
    return tg_gather(c->tape, c->x[0], axis, ids);
}

static tg_tensor *index_select(call *c)
{
    int axis = draw_axis(c, c->option[0], c->x[0]);
    tg_tensor *ids = constant_ids(c, TG_SHAPE(c->option[2] % 6), c->option[1], tg_tensor_size(c->x[0], axis));
    return tg_index_select(c->tape, c->x[0], axis, ids);
}

static tg_tensor *scatter_add(call *c)
{
    int axis = draw_axis(c, c->option[0], c->x[0]);
    tg_tensor *ids = constant_ids(c, tg_tensor_shape(c->x[1]), c->option[1], tg_tensor_size(c->x[0], axis));
    return tg_scatter_add(c->tape, c->x[0], axis, ids, c->x[1]);
}

static tg_tensor *index_add(call *c)
{
    int axis = draw_axis(c, c->option[0], c->x[0]);
    int64_t count = tg_tensor_size(c->x[1], axis);
    tg_tensor *ids = constant_ids(c, TG_SHAPE(count), c->option[1], tg_tensor_size(c->x[0], axis));
    return tg_index_add(c->tape, c->x[0], axis, ids, c->x[1]);
}

/* A view of x whose values are also values of x, and which mostly broadcasts with it. */
static tg_tensor *view(call *c)
{
    tg_tensor *x = c->x[0];
    int axis = c->option[3] % 2 ? -1 : draw_axis(c, c->option[0], x);
    switch (c->option[1] % 5) {
    case 0: describe(c, " first"); return tg_slice(c->tape, x, axis, 0, 1, 1);
    case 1:
        describe(c, " first, expanded");
        return tg_expand(c->tape, tg_slice(c->tape, x, axis, 0, 1, 1), tg_tensor_shape(x));
    case 2: describe(c, " flipped"); return tg_flip(c->tape, x, TG_AXES(axis));
    case 3: describe(c, " transposed"); return tg_transpose(c->tape, x, axis, draw_axis(c, c->option[2], x));
    default: describe(c, " whole"); return tg_slice(c->tape, x, axis, 0, INT64_MAX, 1);
    }
}

const operation shapes[] = {
    {.name = "view", .inputs = 1, .weight = 2, .call = view},
    {.name = "contiguous", .inputs = 1, .weight = 2, .call = contiguous},
    {.name = "detach", .inputs = 1, .weight = 1, .call = detach},
    {.name = "reshape", .inputs = 1, .weight = 3, .call = reshape},
    {.name = "permute", .inputs = 1, .weight = 2, .call = permute},
    {.name = "slice", .inputs = 1, .weight = 4, .call = slice},
    {.name = "flip", .inputs = 1, .weight = 2, .call = flip},
    {.name = "repeat", .inputs = 1, .weight = 1, .call = repeat},
    {.name = "expand", .inputs = 1, .weight = 2, .call = expand},
    {.name = "unsqueeze", .inputs = 1, .weight = 1, .call = unsqueeze},
    {.name = "squeeze", .inputs = 1, .weight = 1, .call = squeeze},
    {.name = "join", .inputs = 2, .weight = 3, .call = join},
    {.name = "split", .inputs = 1, .weight = 2, .call = split},
    {.name = "gather", .inputs = 1, .weight = 2, .call = gather},
    {.name = "index_select", .inputs = 1, .weight = 3, .call = index_select, .usual = {LEAF_TABLE}},
    {.name = "scatter_add", .inputs = 2, .weight = 1, .call = scatter_add},
    {.name = "index_add", .inputs = 2, .weight = 1, .call = index_add},
    {.name = NULL},
};
