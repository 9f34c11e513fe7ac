/* draw: random numbers, sizes, axes and values. The generator is splitmix64 (Steele, Lea and Flood 2014), so that the
 * tests do not depend on tg_rng. */
#include "reference.h"

uint64_t draw_bits(trial *t)
{
    uint64_t z = t->random += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

int64_t draw_integer(trial *t, int64_t low, int64_t high)
{
    return low + (int64_t)(draw_bits(t) % ((uint64_t)high - (uint64_t)low + 1));
}

double draw_uniform(trial *t, double low, double high)
{
    return low + (high - low) * ((double)(draw_bits(t) >> 11) / 9007199254740992.0);
}

bool draw_chance(trial *t, int percent)
{
    return draw_integer(t, 0, 99) < percent;
}

int64_t draw_one_of(trial *t, int count, const int64_t *list)
{
    return list[draw_integer(t, 0, count - 1)];
}

double draw_double_of(trial *t, int count, const double *list)
{
    return list[draw_integer(t, 0, count - 1)];
}

int64_t draw_size(trial *t)
{
    int64_t percent = draw_integer(t, 0, 99);
    return percent < 4    ? 0
           : percent < 25 ? 1
           : percent < 85 ? draw_integer(t, 2, 5)
           : percent < 96 ? draw_integer(t, 6, 17)
                          : draw_integer(t, 18, 40);
}

tg_shape draw_shape(trial *t, int min_rank, int max_rank)
{
    int usual = max_rank < 5 ? max_rank : 5;
    int rank = (int)draw_integer(t, min_rank, usual > min_rank ? usual : min_rank);
    if (max_rank == TG_MAX_RANK && draw_chance(t, 2)) {
        rank = TG_MAX_RANK;
    }
    tg_shape shape = TG_SCALAR;
    shape.rank = rank;
    int64_t count = 1;
    for (int axis = rank - 1; axis >= 0; axis--) {
        int64_t size = draw_size(t);
        size = count * size > 600 ? draw_integer(t, 1, 2) : size;
        shape.size[axis] = size;
        count *= size > 0 ? size : 1;
    }
    return shape;
}

tg_shape draw_long_shape(trial *t, int min_rank, int max_rank)
{
    tg_shape shape = draw_shape(t, min_rank, max_rank);
    if (shape.rank > 0 && draw_chance(t, 15)) {
        int axis = (int)draw_integer(t, 0, shape.rank - 1);
        for (int other = 0; other < shape.rank; other++) {
            shape.size[other] = shape.size[other] > 3 || shape.rank > 3 ? 1 + (other & 1) : shape.size[other];
        }
        shape.size[axis] = draw_integer(t, 41, draw_chance(t, 30) ? 300 : 80);
    }
    return shape;
}

tg_shape draw_broadcastable(trial *t, tg_shape shape)
{
    tg_shape other = TG_SCALAR;
    int dropped = draw_chance(t, 30) ? (int)draw_integer(t, 0, shape.rank) : 0;
    other.rank = shape.rank - dropped;
    for (int axis = 0; axis < other.rank; axis++) {
        int64_t size = shape.size[axis + dropped];
        other.size[axis] = draw_chance(t, 25) ? 1 : draw_chance(t, 1) ? draw_size(t) : size;
    }
    return other;
}

int draw_axis(trial *t, int rank)
{
    if (draw_chance(t, 3)) {
        return (int)DRAW_ONE_OF(t, rank, -rank - 1, 8, -9, INT32_MAX, INT32_MIN);
    }
    return rank == 0 ? (int)draw_integer(t, -1, 0) : (int)draw_integer(t, -rank, rank - 1);
}

tg_axes draw_axes(trial *t, int rank)
{
    tg_axes axes = {draw_chance(t, 3) ? (int)DRAW_ONE_OF(t, 0, -2, INT32_MIN) : -1, {0}};
    for (int axis = 0; axis < rank && axis < TG_MAX_RANK && draw_chance(t, 90); axis++) {
        if (draw_chance(t, 60)) {
            axes.count = axes.count < 0 ? 0 : axes.count;
            axes.axis[axes.count++] = draw_chance(t, 50) ? axis : axis - rank;
        }
    }
    for (int k = 1; k < axes.count; k++) {
        int other = (int)draw_integer(t, 0, k), axis = axes.axis[k];
        axes.axis[k] = axes.axis[other];
        axes.axis[other] = axis;
    }
    if (rank == 0 && draw_chance(t, 30)) { /* the axis of a scalar, which some ops accept */
        axes = (tg_axes){1, {(int)draw_integer(t, -1, 0)}};
    } else if (axes.count > 0 && draw_chance(t, 4)) { /* out of range, or an axis twice */
        axes.axis[draw_integer(t, 0, axes.count - 1)] = draw_axis(t, rank);
    } else if (draw_chance(t, 1)) {
        axes.count = (int)DRAW_ONE_OF(t, TG_MAX_RANK + 1, INT32_MAX);
    }
    note(t, "    axes = %d:", axes.count);
    for (int k = 0; k < axes.count && k < TG_MAX_RANK; k++) {
        note(t, " %d", axes.axis[k]);
    }
    note(t, "\n");
    return axes;
}

double draw_value(trial *t)
{
    switch (t->flavor) {
    case TIES: return DRAW_DOUBLE_OF(t, -2, -1, -0.5, -0.0, 0, 0.5, 1, 2, 3);
    case WIDE: return (draw_chance(t, 50) ? 1 : -1) * pow(10, draw_uniform(t, -6, 6));
    case SPECIAL:
        if (draw_chance(t, 30)) {
            return DRAW_DOUBLE_OF(t, -INFINITY, INFINITY, NAN, -0.0, 0, -1e30, 1e30, 1e-30, -1e-41, 88, -104);
        }
        break;
    case SMOOTH: break;
    }
    return draw_uniform(t, -2, 2);
}
