/* draw: random numbers, sizes, axes and values. The generator is splitmix64 (Steele, Lea and Flood 2014), so that the
 * tests do not depend on tg_rng. */
#include "trial.h"

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

/* The sizes beside the thresholds of the kernels (tests/reference/thresholds). */
static const int64_t long_sizes[] = {
#include "thresholds.inc"
};
enum { LONG_SIZES = sizeof long_sizes / sizeof *long_sizes, BETWEEN = 9, BETWEEN_LARGE = 1000 };

void draw_room(trial *t)
{
    bool is_large = t->turn % BETWEEN_LARGE == BETWEEN_LARGE / 2;
    t->room = is_large ? 40000 : t->turn % BETWEEN == 0 ? 2200 : 0;
}

/* Draws one of them, or 0 if the room is too small. The first of a call is the next one of the list. In a large call
 * it is one of the upper half, and the second is as large as the room. */
static int64_t draw_long_size(trial *t)
{
    bool is_large = t->turn % BETWEEN != 0;
    int64_t k = t->long_values > 0 ? draw_integer(t, 0, LONG_SIZES - 1) : t->turn / BETWEEN % LONG_SIZES;
    k = !is_large ? k : t->long_values > 0 ? LONG_SIZES - 1 : LONG_SIZES / 2 + k / 2;
    while (is_large && k > 0 && long_sizes[k] > t->room) {
        k--;
    }
    if (long_sizes[k] > t->room) {
        return 0;
    }
    t->long_values = long_sizes[k] * (t->long_values > 0 ? t->long_values : 1);
    t->room /= long_sizes[k];
    return long_sizes[k];
}

int64_t draw_size(trial *t)
{
    int64_t size = t->room > 1 && draw_chance(t, 30) ? draw_long_size(t) : 0;
    if (size > 0) {
        return size;
    }
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
    int64_t count = 1, sizes[TG_MAX_RANK] = {0};
    if (t->room > 1 && max_rank > 0) { /* one long axis, which is another one after each list of sizes, or two */
        int from_end = (int)(t->turn / BETWEEN / LONG_SIZES % (max_rank < 3 ? max_rank : 3)), other;
        rank = rank > from_end ? rank : from_end + 1;
        sizes[rank - 1 - from_end] = draw_long_size(t);
        other = (int)draw_integer(t, rank > 3 ? rank - 3 : 0, rank - 1);
        sizes[other] = sizes[other] > 0 ? sizes[other] : draw_long_size(t);
        count = t->long_values > 0 ? t->long_values : 1;
    }
    tg_shape shape = TG_SCALAR;
    shape.rank = rank;
    for (int axis = rank - 1; axis >= 0; axis--) {
        int64_t size = sizes[axis] > 0 ? sizes[axis] : draw_size(t);
        if (sizes[axis] == 0 && count * size > 600) {
            size = t->long_values > 0 && draw_chance(t, 75) ? 1 : draw_integer(t, 1, 2);
        }
        shape.size[axis] = size;
        count *= size > 0 && sizes[axis] == 0 ? size : 1;
    }
    return shape;
}

tg_shape draw_broadcastable(trial *t, tg_shape shape)
{
    tg_shape other = TG_SCALAR;
    t->whole = shape;
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
