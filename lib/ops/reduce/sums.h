/* sums (private): the loops of sums over the panels of panel.h. An op gives the term of a value as a function. */
#ifndef TG_OPS_REDUCE_SUMS_H
#define TG_OPS_REDUCE_SUMS_H

#include "ops/reduce/panel.h"

/* Returns what is summed for a value: `center` is that of the column, and p the exponent of a norm. */
typedef double tg_term(real x, double center, double p);

static inline double value_term(real x, double center, double p)
{
    (void)center, (void)p;
    return (double)x;
}

/* Processors convert four floats from memory to doubles twice as fast as eight, or as a half of a register. So sums of
 * short terms, which are a few instructions (`is_short`, a constant in each call), read floats four at a time. */

TG_FOR_EACH_OP void four_terms(const real *x, tg_term *term, double p, const double *center, tg_four_lanes *terms)
{
    const tg_four_lanes at = center ? *(const tg_four_lanes *)center : (tg_four_lanes){0};
    *terms = (tg_four_lanes){term(x[0], at[0], p), term(x[1], at[1], p), term(x[2], at[2], p), term(x[3], at[3], p)};
}

TG_FOR_EACH_OP void add_rows(const real *const *rows, int64_t count, int64_t width, bool is_short, tg_term *term,
                             double p, const double *center, double *restrict sum)
{
    if (count == PANEL_ROWS) {
        const real *x0 = rows[0], *x1 = rows[1], *x2 = rows[2], *x3 = rows[3];
        int64_t c = 0;
        for (; is_short && sizeof *x0 == sizeof(float) && c + 4 <= width; c += 4) {
            const double *at = center ? center + c : NULL;
            tg_four_lanes t0, t1, t2, t3;
            four_terms(x0 + c, term, p, at, &t0);
            four_terms(x1 + c, term, p, at, &t1);
            four_terms(x2 + c, term, p, at, &t2);
            four_terms(x3 + c, term, p, at, &t3);
            *(tg_four_lanes *)(sum + c) += (t0 + t1) + (t2 + t3);
        }
        for (; c < width; c++) {
            double at = center ? center[c] : 0;
            sum[c] += (term(x0[c], at, p) + term(x1[c], at, p)) + (term(x2[c], at, p) + term(x3[c], at, p));
        }
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        const real *x = rows[i];
        for (int64_t c = 0; c < width; c++) {
            sum[c] += term(x[c], center ? center[c] : 0, p);
        }
    }
}

TG_FOR_EACH_OP void add_four(const real *x, tg_term *term, double p, double center, double one, double *restrict lane)
{
    for (int k = 0; k < 4; k++) {
        lane[k] = plus(term(x[k], center, p), lane[k], one);
    }
}

/* Adds the whole rows of PANEL_LANES values of a run to the lanes, and returns the number of these values. Every second
 * four floats are at a distance from those before that the compiler does not know, or it would join them; for the same
 * reason the sums, which stay in registers, are variables of their own. */
TG_FOR_EACH_OP int64_t add_by_four(const real *x, int64_t n, tg_term *term, double p, double center, double *lane)
{
    const real *x4 = x + unknown_four;
    const double one = unknown_one;
    double s0[4], s1[4], s2[4], s3[4], s4[4], s5[4], s6[4], s7[4];
    int64_t i = 0;
    memcpy(s0, lane, sizeof s0);
    memcpy(s1, lane + 4, sizeof s1);
    memcpy(s2, lane + 8, sizeof s2);
    memcpy(s3, lane + 12, sizeof s3);
    memcpy(s4, lane + 16, sizeof s4);
    memcpy(s5, lane + 20, sizeof s5);
    memcpy(s6, lane + 24, sizeof s6);
    memcpy(s7, lane + 28, sizeof s7);
    for (; i + PANEL_LANES <= n; i += PANEL_LANES) {
        add_four(x + i, term, p, center, one, s0);
        add_four(x4 + i, term, p, center, one, s1);
        add_four(x + i + 8, term, p, center, one, s2);
        add_four(x4 + i + 8, term, p, center, one, s3);
        add_four(x + i + 16, term, p, center, one, s4);
        add_four(x4 + i + 16, term, p, center, one, s5);
        add_four(x + i + 24, term, p, center, one, s6);
        add_four(x4 + i + 24, term, p, center, one, s7);
    }
    memcpy(lane, s0, sizeof s0);
    memcpy(lane + 4, s1, sizeof s1);
    memcpy(lane + 8, s2, sizeof s2);
    memcpy(lane + 12, s3, sizeof s3);
    memcpy(lane + 16, s4, sizeof s4);
    memcpy(lane + 20, s5, sizeof s5);
    memcpy(lane + 24, s6, sizeof s6);
    memcpy(lane + 28, s7, sizeof s7);
    return i;
}

/* The same for all terms and dtypes. */
TG_FOR_EACH_OP int64_t add_whole_rows(const real *x, int64_t n, bool is_short, tg_term *term, double p, double center,
                                      double *restrict lane)
{
    if (n < PANEL_LANES) {
        return 0;
    }
    if (is_short && sizeof *x == sizeof(float)) {
        return add_by_four(x, n, term, p, center, lane);
    }
    int64_t i = 0;
    for (; i + PANEL_LANES <= n; i += PANEL_LANES) {
        for (int k = 0; k < PANEL_LANES; k++) {
            lane[k] += term(x[i + k], center, p);
        }
    }
    return i;
}

/* Adds fewer than PANEL_LANES values to the lanes. */
TG_FOR_EACH_OP void add_rest(const real *x, int64_t n, tg_term *term, double p, double center, double *restrict lane)
{
    int64_t done = 0;
    for (; done + 8 <= n; done += 8) {
        for (int k = 0; k < 8; k++) {
            lane[done + k] += term(x[done + k], center, p);
        }
    }
    for (; done < n; done++) {
        lane[done] += term(x[done], center, p);
    }
}

TG_FOR_EACH_OP void add_runs(const tg_runs *runs, bool is_short, tg_term *term, double p, double center,
                             double *restrict lane)
{
    for (int64_t run = 0; run < runs->count; run++) {
        const real *x = runs->x + run * runs->apart;
        const int64_t i = add_whole_rows(x, runs->n, is_short, term, p, center, lane);
        add_rest(x + i, runs->n - i, term, p, center, lane);
    }
}

/* Returns the sum of 32 lanes, in a fixed tree. */
static inline double join_lanes(const double *lane)
{
    const tg_four_lanes *l = (const tg_four_lanes *)lane;
    const tg_four_lanes sum = ((l[0] + l[4]) + (l[2] + l[6])) + ((l[1] + l[5]) + (l[3] + l[7]));
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

/* Returns the sum of the terms of one run. The lanes of whole rows stay in registers, for which the compiler must know
 * that there are such rows and nothing else: without the two conditions rows of 192 take 1.1 times as long. */
TG_FOR_EACH_OP double sum_of_run(const real *x, int64_t n, bool is_short, tg_term *term, double p, double center)
{
    double lanes[PANEL_LANES] = {0};
    int64_t i = 0;
    if (n >= PANEL_LANES) {
        i = add_whole_rows(x, n, is_short, term, p, center, lanes);
        if (i == n) {
            return join_lanes(lanes);
        }
    }
    add_rest(x + i, n - i, term, p, center, lanes);
    return join_lanes(lanes);
}

/* panel_sum for rows that are added side by side. */
TG_FOR_EACH_OP void sum_lines(const tg_panel *p, bool is_short, tg_term *term, double power, const double *center,
                              double *sum)
{
    real buffers[PANEL_ROWS][PANEL];
    const real *rows[PANEL_ROWS];
    double sides[PANEL] = {0}, centers[PANEL];
    int64_t all = p->r->lines * p->width;
    for (int64_t i = 0; center && i < all; i++) {
        centers[i] = i < p->width ? center[i] : centers[i - p->width];
    }
    tg_cursor at = tg_walk_begin(&p->r->reduced, p->first);
    for (int64_t done = 0, n, width; done < p->count; done += n * (width / p->width)) {
        n = KERNEL(tg_panel_lines)(p, &at, p->count - done, buffers, rows, &width);
        add_rows(rows, n, width, is_short, term, power, center ? centers : NULL, sides);
    }
    memcpy(sum, sides, (size_t)p->width * sizeof *sum);
    for (int64_t line = p->width; line < all; line += p->width) {
        for (int64_t c = 0; c < p->width; c++) {
            sum[c] += sides[line + c];
        }
    }
}

/* Sums the terms of each column. `center` is NULL if the terms have none. */
TG_FOR_EACH_OP void panel_sum(const tg_panel *p, bool is_short, tg_term *term, double power, const double *center,
                              double *sum)
{
    if (p->r->lines > 1) {
        sum_lines(p, is_short, term, power, center, sum);
        return;
    }
    if (p->r->by_columns) {
        real buffers[PANEL_ROWS][PANEL];
        const real *rows[PANEL_ROWS];
        tg_cursor at = tg_walk_begin(&p->r->reduced, p->first);
        memset(sum, 0, (size_t)p->width * sizeof *sum);
        for (int64_t done = 0, n; done < p->count; done += n) {
            n = KERNEL(tg_panel_rows)(p, &at, p->count - done, buffers, rows);
            add_rows(rows, n, p->width, is_short, term, power, center, sum);
        }
        return;
    }
    const tg_cursor first = tg_walk_begin(&p->r->reduced, p->first);
    const bool is_run = is_one_run(p->r);
    for (int64_t c = 0; is_run && c < p->width; c++) {
        const real *x = (const real *)p->r->x + p->offset[c] + first.offset;
        sum[c] = sum_of_run(x, p->count, is_short, term, power, center ? center[c] : 0);
    }
    for (int64_t c = 0; !is_run && c < p->width; c++) {
        real buffer[PANEL];
        tg_runs runs;
        double lanes[PANEL_LANES] = {0};
        tg_cursor at = first;
        for (int64_t done = 0; done < p->count;) {
            done += next_runs(p, c, &at, p->count - done, buffer, &runs);
            add_runs(&runs, is_short, term, power, center ? center[c] : 0, lanes);
        }
        sum[c] = join_lanes(lanes);
    }
}

#endif
