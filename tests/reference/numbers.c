/* numbers: memory of a trial, the arithmetic of the formulas, dtypes, and indices. */
#include "reference.h"

#include <float.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

/* A block of a trial's memory. They are in a list, newest first, so that those after a point can be freed. */
struct memory_block {
    memory_block *older;
    max_align_t bytes[];
};

void *trial_memory(trial *t, size_t bytes)
{
    memory_block *block = calloc(1, sizeof *block + (bytes > 0 ? bytes : 1));
    if (!block) {
        fprintf(stderr, "reference: memory is exhausted\n");
        exit(2);
    }
    block->older = t->newest_block;
    t->newest_block = block;
    return block->bytes;
}

void trial_free_memory(trial *t, const memory_block *last_kept)
{
    while (t->newest_block != last_kept) {
        memory_block *block = t->newest_block;
        t->newest_block = block->older;
        free(block);
    }
}

double *numbers(trial *t, int64_t count)
{
    return trial_memory(t, (size_t)count * sizeof(double));
}

array array_new(trial *t, tg_shape shape)
{
    int64_t count = count_of(shape);
    return (array){shape, count, numbers(t, count), numbers(t, count)};
}

array *output_of_dtype(trial *t, int k, tg_shape shape, tg_dtype dtype)
{
    output *out = &t->outputs[k];
    t->output_count = k < t->output_count ? t->output_count : k + 1;
    out->dtype = dtype;
    if (!out->y.values || !tg_shape_equal(out->y.shape, shape)) {
        out->y = array_new(t, shape);
    }
    for (int64_t i = 0; i < out->y.count; i++) {
        out->y.values[i] = out->y.terms[i] = 0;
    }
    return &out->y;
}

array *output_new(trial *t, int k, tg_shape shape)
{
    return output_of_dtype(t, k, shape, t->dtype);
}

void add(array *x, int64_t i, double term)
{
    add_terms(x, i, term, fabs(term));
}

void add_terms(array *x, int64_t i, double term, double terms)
{
    x->values[i] += term;
    x->terms[i] += isfinite(term) ? fmin(terms, DBL_MAX) : 0;
}

void put(array *x, int64_t i, double value)
{
    put_terms(x, i, value, fabs(value));
}

void put_terms(array *x, int64_t i, double value, double terms)
{
    x->values[i] = value;
    x->terms[i] = isfinite(value) ? fmin(terms, DBL_MAX) : 0;
}

double positive_part(double x)
{
    return x < 0 ? 0 : x;
}

/* ---- dtypes ---- */

bool is_float(tg_dtype dtype)
{
    return dtype == TG_F32 || dtype == TG_F64;
}

double converted(tg_dtype dtype, double value)
{
    return dtype == TG_F64 ? value : dtype == TG_F32 ? (double)(float)value : trunc(value);
}

double eps_of(tg_dtype dtype)
{
    return dtype == TG_F32 ? FLT_EPSILON : DBL_EPSILON;
}

double smallest_of(tg_dtype dtype)
{
    return dtype == TG_F32 ? FLT_MIN : DBL_MIN;
}

double largest_of(tg_dtype dtype)
{
    return dtype == TG_F32 ? FLT_MAX : DBL_MAX;
}

/* ---- indices ---- */

bool next_index(tg_shape shape, int64_t index[TG_MAX_RANK])
{
    for (int axis = shape.rank - 1; axis >= 0; axis--) {
        if (++index[axis] < shape.size[axis]) {
            return true;
        }
        index[axis] = 0;
    }
    return false;
}

int64_t flat_index(tg_shape shape, const int64_t index[TG_MAX_RANK])
{
    int64_t flat = 0;
    for (int axis = 0; axis < shape.rank; axis++) {
        flat = flat * shape.size[axis] + index[axis];
    }
    return flat;
}

void split_index(tg_shape shape, int64_t flat, int64_t index[TG_MAX_RANK])
{
    for (int axis = shape.rank - 1; axis >= 0; axis--) {
        index[axis] = flat % shape.size[axis];
        flat /= shape.size[axis];
    }
}

int64_t broadcast_index(tg_shape shape, int rank, const int64_t index[TG_MAX_RANK])
{
    int64_t flat = 0;
    for (int axis = 0; axis < shape.rank; axis++) {
        int64_t at = index[axis + rank - shape.rank];
        flat = flat * shape.size[axis] + (shape.size[axis] == 1 ? 0 : at);
    }
    return flat;
}

int64_t count_of(tg_shape shape)
{
    int64_t count = 1;
    for (int axis = 0; axis < shape.rank; axis++) {
        count *= shape.size[axis];
    }
    return count;
}

bool broadcast_shapes(tg_shape a, tg_shape b, tg_shape *result)
{
    *result = a.rank > b.rank ? a : b;
    for (int back = 1; back <= a.rank && back <= b.rank; back++) {
        int64_t size_a = a.size[a.rank - back], size_b = b.size[b.rank - back];
        if (size_a != size_b && size_a != 1 && size_b != 1) {
            return false;
        }
        result->size[result->rank - back] = size_a == 1 ? size_b : size_a;
    }
    return true;
}

bool axes_along(tg_axes axes, int rank, bool is_along[TG_MAX_RANK])
{
    for (int axis = 0; axis < rank; axis++) {
        is_along[axis] = axes.count < 0;
    }
    if (axes.count == 0 || axes.count < -1) {
        return false;
    }
    for (int k = 0; k < axes.count; k++) {
        int axis = k < TG_MAX_RANK && is_axis(axes.axis[k], rank) ? axis_from_front(axes.axis[k], rank) : -1;
        if (axis < 0 || is_along[axis]) {
            return false;
        }
        is_along[axis] = true;
    }
    return true;
}

line *lines_along(trial *t, tg_shape shape, const bool is_along[TG_MAX_RANK], int64_t *count)
{
    tg_shape others = shape;
    int64_t length = 1, index[TG_MAX_RANK];
    for (int axis = 0; axis < shape.rank; axis++) {
        length *= is_along[axis] ? shape.size[axis] : 1;
        others.size[axis] = is_along[axis] ? 1 : shape.size[axis];
    }
    *count = count_of(others);
    line *lines = trial_memory(t, (size_t)*count * sizeof *lines);
    for (int64_t k = 0; k < *count; k++) {
        lines[k].at = trial_memory(t, (size_t)length * sizeof(int64_t));
    }
    for (int64_t i = 0; i < count_of(shape); i++) {
        split_index(shape, i, index);
        for (int axis = 0; axis < shape.rank; axis++) {
            index[axis] = is_along[axis] ? 0 : index[axis];
        }
        line *l = &lines[flat_index(others, index)];
        l->at[l->count++] = i;
    }
    return lines;
}

bool is_axis_of_lines(int axis, int rank)
{
    return is_axis(axis, rank > 0 ? rank : 1);
}

const line *lines_along_axis(trial *t, tg_shape shape, int axis, int64_t *count)
{
    bool is_along[TG_MAX_RANK] = {false};
    is_along[axis_from_front(axis, shape.rank > 0 ? shape.rank : 1)] = true;
    return lines_along(t, shape, is_along, count);
}
