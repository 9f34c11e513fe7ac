/* layout: a call of an op that has the layout of another tensor. */
#include "layout.h"

#include "rows/rows.h"

static bool shape_of(const layout *l, const layout_options *o, tg_shape x, tg_shape *y)
{
    return l->row ? l->row->movement->shape(o->row_options, x, y) : l->shape(o, x, y);
}

static int64_t source_of(const layout *l, const layout_options *o, tg_shape x, const int64_t *index)
{
    int64_t from[TG_MAX_RANK];
    if (!l->row) {
        return l->source(o, x, index);
    }
    l->row->movement->source(o->row_options, x, index, from);
    return flat_index(x, from);
}

void layout_draw(trial *t)
{
    const layout *l = t->reference->data;
    tg_shape shape = draw_shape(t, draw_chance(t, 95) ? l->min_rank : 0, TG_MAX_RANK);
    input *x = l->has_floats && !draw_chance(t, 2) ? draw_input(t, "x", shape) : draw_any(t, "x", shape);
    if (l->draw) {
        l->draw(t, OPTIONS(t, layout_options), x->x.shape);
    }
}

bool layout_is_valid(const trial *t)
{
    const layout *l = t->reference->data;
    const input *x = &t->inputs[0];
    tg_shape shape;
    return shape_of(l, OPTIONS(t, const layout_options), x->x.shape, &shape) && (is_float(x->dtype) || !l->has_floats);
}

tg_tensor *layout_call(trial *t)
{
    const layout *l = t->reference->data;
    const layout_options *o = OPTIONS(t, layout_options);
    return l->row ? row_call(l->row, t->tape, &t->inputs[0].tensor, o->row_options)
                  : l->call(t->tape, t->inputs[0].tensor, o);
}

void layout_forward(trial *t)
{
    const layout *l = t->reference->data;
    const layout_options *o = OPTIONS(t, layout_options);
    const input *x = &t->inputs[0];
    tg_shape shape;
    shape_of(l, o, x->x.shape, &shape);
    array *y = output_of_dtype(t, 0, shape, x->dtype);
    int64_t index[TG_MAX_RANK];
    for (int64_t i = 0; i < y->count; i++) {
        split_index(shape, i, index);
        int64_t from = source_of(l, o, x->x.shape, index);
        put(y, i, from == NOTHING ? 0 : x->x.values[from]);
    }
}

void layout_backward(trial *t)
{
    const layout *l = t->reference->data;
    const array *dy = &t->outputs[0].dy;
    input *x = &t->inputs[0];
    int64_t index[TG_MAX_RANK];
    for (int64_t i = 0; i < dy->count; i++) {
        split_index(dy->shape, i, index);
        int64_t from = source_of(l, OPTIONS(t, layout_options), x->x.shape, index);
        if (from != NOTHING) {
            add(&x->dx, from, dy->values[i]);
        }
    }
}
