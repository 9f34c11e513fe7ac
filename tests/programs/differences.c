/* Gradients against central differences. For each segment of a program, and some directions d of the leaves, the sum of
 * result times first gradient over all backward passes, f, has the slope (f(x + h d) - f(x - h d)) / 2h, and the
 * gradients that these passes have added give the same slope. Three values of h must agree, else the program has a kink
 * near x, and the direction does not count. */
#include <math.h>
#include <string.h>

#include "programs.h"
#include "tensor/tensor.h"

#include "../fuzz/fuzz.h"

/* A segment: the instructions between two resets. */
typedef struct segment {
    const program *p;
    const run *base;
    int first, end;
    int subset; /* 0: all values of the leaves change; else about half of them */
} segment;

/* Direction number 0 changes all leaves, and number 1 + k leaf k. */
static double direction_of(const segment *g, int direction, int leaf, int64_t i)
{
    bool is_moved = direction == 0 || direction == 1 + leaf;
    if (g->subset > 0 && number_of((uint64_t)(g->subset * 1000 + leaf), (uint64_t)i) < 0) {
        return 0;
    }
    return is_moved ? number_of((uint64_t)(g->first * 1000 + leaf * 7 + direction), (uint64_t)i) : 0;
}

/* Returns f(x + h d). */
static double evaluate(const segment *g, int direction, double h)
{
    static run r;
    static run_log l;
    static const settings forward = {
        .name = "differences", .dtype = TG_F64, .recycles = true, .is_differentiated = true};
    program without = *g->p;
    without.optimizer = 0;
    log_clear(&l);
    run_begin(&r, &without, &forward, &l);
    r.constants = g->base->log;
    tg_rng_copy(tg_run_rng(r.shared_run), g->base->generators[g->first]);
    for (int k = 0; k < (int)tg_params_count(r.params); k++) {
        tg_tensor *x = tg_params_at(r.params, k).tensor;
        const entry *e = log_find(g->base->log, g->first, LEAF, k);
        if (k == LEAF_TABLE) {
            tg_tensor_resize_rows(x, e->count / g->p->width, NULL);
        }
        double *values = tg_tensor_data_mut(x);
        for (int64_t i = 0; i < e->count; i++) {
            values[i] = g->base->log->numbers[e->first + i] + h * direction_of(g, direction, k, i);
        }
    }
    for (int i = g->first + 1; i < g->end && without.list[i].kind != STEP; i++) {
        run_instruction(&r, i);
    }
    double sum = r.projected;
    run_end(&r);
    return sum;
}

/* Returns the slope that the gradients give; *size is the sum of the absolute terms. */
static double slope_of_gradients(const segment *g, int last, int direction, double *size)
{
    const run_log *l = g->base->log;
    double sum = 0;
    *size = 0;
    for (int k = 0; k < (int)tg_params_count(g->base->params); k++) {
        const entry *before = log_find(l, g->first, LEAF_GRADIENT, k), *after = log_find(l, last, LEAF_GRADIENT, k);
        for (int64_t i = 0; i < after->count; i++) {
            double old = before->count > 0 ? l->numbers[before->first + i] : 0;
            double term = (l->numbers[after->first + i] - old) * direction_of(g, direction, k, i);
            sum += term;
            *size += fabs(term);
        }
    }
    return sum;
}

/* Returns whether x is at a kink, as of a value and a constant that is equal to it: whether the slopes on both sides of
 * x are apart. The central difference is then between them, and the gradient is any of the two or also between them; it
 * is wrong by half of what the slopes are apart, so that the limit is that of the comparison. Two kinks may bend in
 * opposite ways, so subsets of the values are moved, too. A direction with a kink is not compared. */
static bool has_kink(const segment *g, int direction, double limit)
{
    enum { SUBSETS = 16 };
    const double h = 3e-6;
    segment part = *g;
    for (part.subset = 0; part.subset < SUBSETS; part.subset++) {
        double bend =
            evaluate(&part, direction, h) - 2 * evaluate(&part, direction, 0) + evaluate(&part, direction, -h);
        if (fabs(bend) / h > limit) {
            return true;
        }
    }
    return false;
}

static bool check_direction(const segment *g, int last, int direction, finding *f)
{
    static const double steps[] = {3e-6, 1e-4, 3e-4};
    double size, slope = slope_of_gradients(g, last, direction, &size), found[3], scale = 1 + size;
    bool is_smooth = true;
    for (int i = 0; i < 3; i++) {
        found[i] = (evaluate(g, direction, steps[i]) - evaluate(g, direction, -steps[i])) / (2 * steps[i]);
        is_smooth &= fabs(found[i] - found[0]) <= 1e-5 * scale;
    }
    if (is_smooth && !(fabs(slope - found[1]) <= 2e-5 * scale) && !has_kink(g, direction, 2e-5 * scale)) {
        f->is_found = true;
        snprintf(f->variants, sizeof f->variants, "gradients and finite differences");
        snprintf(
            f->text, sizeof f->text,
            "segment from instruction %d, direction %d (0: all leaves, 1 + k: leaf k): the gradients give the slope "
            "%.12g, finite differences %.12g, %.12g and %.12g",
            g->first, direction, slope, found[0], found[1], found[2]);
    }
    return !f->is_found;
}

void check_differences(const program *p, const run *base, finding *f)
{
    if (base->log->is_cut || base->log->broken[0]) {
        return;
    }
    int leaves = (int)tg_params_count(base->params);
    for (int first = 0, end; first < p->count; first = end) {
        int last = -1; /* the last backward */
        for (end = first + 1; end < p->count && p->list[end].kind != RESET; end++) {
            last = p->list[end].kind == BACKWARD && p->list[end].expected == TG_OK ? end : last;
        }
        segment g = {p, base, first, end, 0};
        int directions = last < 0 ? 0 : p->is_large ? 1 : 1 + leaves;
        for (int direction = 0; direction < directions; direction++) {
            /* of the many leaves of modules, a few */
            bool is_checked = direction <= LEAVES || (direction + first) % 5 == 0;
            if (is_checked && !check_direction(&g, last, direction, f)) {
                return;
            }
        }
    }
}
