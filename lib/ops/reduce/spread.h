/* spread (private): the loops of the gradients of reductions, over the panels of panel.h.
 *
 * The gradient of x is contiguous, so it is written in long runs: row by row where neighboring outputs are side by
 * side, else output by output. An op gives the gradient of one value as a function of numbers.
 */
#ifndef TG_OPS_REDUCE_SPREAD_H
#define TG_OPS_REDUCE_SPREAD_H

#include "ops/reduce/panel.h"

/* What the gradient of a value needs of its output, for each column. An op sets what it reads; NULL is 0. */
typedef struct tg_slopes {
    const real *scale, *y;
    const double *wide_scale, *center;
} tg_slopes;

/* The same for one output, and the exponent of a norm. */
typedef struct tg_slope_at {
    real scale, y;
    double wide_scale, center, p;
} tg_slope_at;

/* Returns the gradient of a value. */
typedef real tg_slope(real x, const tg_slope_at *o);

TG_FOR_EACH_OP tg_slope_at slope_at(const tg_slopes *s, int64_t c, double p)
{
    return (tg_slope_at){s->scale ? s->scale[c] : 0, s->y ? s->y[c] : 0, s->wide_scale ? s->wide_scale[c] : 0,
                         s->center ? s->center[c] : 0, p};
}

/* Adds the gradients of a row of the panel to dx, or writes them. `x` is NULL if they do not depend on it. */
TG_FOR_EACH_OP void spread_row(const real *x, int64_t n, tg_slope *slope, const tg_slopes *s, double p, bool overwrite,
                               real *restrict dx)
{
    if (overwrite) {
        for (int64_t c = 0; c < n; c++) {
            tg_slope_at o = slope_at(s, c, p);
            dx[c] = slope(x ? x[c] : 0, &o);
        }
    } else {
        for (int64_t c = 0; c < n; c++) {
            tg_slope_at o = slope_at(s, c, p);
            dx[c] += slope(x ? x[c] : 0, &o);
        }
    }
}

/* The same for values of one output. */
TG_FOR_EACH_OP void spread_run(const real *x, int64_t n, tg_slope *slope, const tg_slope_at *o, bool overwrite,
                               real *restrict dx)
{
    if (overwrite) {
        for (int64_t i = 0; i < n; i++) {
            dx[i] = slope(x ? x[i] : 0, o);
        }
    } else {
        for (int64_t i = 0; i < n; i++) {
            dx[i] += slope(x ? x[i] : 0, o);
        }
    }
}

/* The rows of a panel whose columns are side by side in the gradient. */
TG_FOR_EACH_OP void spread_rows(const tg_panel *p, tg_slope *slope, bool reads_x, const tg_slopes *s, double power,
                                bool overwrite, real *gradient)
{
    real buffers[1][PANEL];
    tg_cursor at = tg_walk_begin(&p->r->reduced, p->first);
    for (int64_t done = 0; done < p->count; done++) {
        const real *x = NULL;
        real *dx = gradient + p->gradient_offset[0] + at.other_offset;
        if (reads_x) {
            KERNEL(tg_panel_rows)(p, &at, 1, buffers, &x);
        } else {
            tg_walk_advance(&p->r->reduced, &at, 1);
        }
        spread_row(reads_x ? x : NULL, p->width, slope, s, power, overwrite, dx);
    }
}

/* The values of one column, which are runs in the gradient. */
TG_FOR_EACH_OP void spread_column(const tg_panel *p, int64_t c, tg_cursor at, tg_slope *slope, bool reads_x,
                                  const tg_slope_at *o, bool overwrite, real *gradient)
{
    real buffer[PANEL];
    for (int64_t done = 0, n; done < p->count; done += n) {
        real *dx = gradient + p->gradient_offset[c] + at.other_offset;
        tg_runs runs = {.x = NULL};
        n = tg_walk_run(&p->r->reduced, &at, p->count - done);
        if (!reads_x) {
            tg_walk_advance(&p->r->reduced, &at, n);
        } else if (p->r->is_direct) {
            runs.x = (const real *)p->r->x + p->offset[c] + at.offset;
            tg_walk_advance(&p->r->reduced, &at, n);
        } else {
            n = KERNEL(tg_panel_run)(p, c, &at, n, buffer, &runs);
        }
        spread_run(reads_x ? runs.x : NULL, n, slope, o, overwrite, dx);
    }
}

/* Adds the gradients of a panel. */
TG_FOR_EACH_OP void panel_spread(const tg_panel *p, tg_slope *slope, bool reads_x, const tg_slopes *s, double power)
{
    const bool overwrite = p->r->call->overwrite[0];
    real *gradient = p->r->call->input_gradients[0];
    if (p->r->by_columns) {
        spread_rows(p, slope, reads_x, s, power, overwrite, gradient);
        return;
    }
    const tg_cursor first = tg_walk_begin(&p->r->reduced, p->first);
    const bool is_run = p->r->reduced.rank == 1 && (p->r->is_direct || !reads_x);
    const real *x = (const real *)p->r->x + first.offset;
    real *dx = gradient + first.other_offset;
    for (int64_t c = 0; c < p->width; c++) {
        tg_slope_at o = slope_at(s, c, power);
        if (is_run) {
            spread_run(reads_x ? x + p->offset[c] : NULL, p->count, slope, &o, overwrite, dx + p->gradient_offset[c]);
        } else {
            spread_column(p, c, first, slope, reads_x, &o, overwrite, gradient);
        }
    }
}

#endif
