#include "scalar.h"

#include <stdio.h>
#include <stdlib.h>

scalars scalars_new(const trial *t)
{
    return (scalars){.t = t,
                     .unit = t->reference->roundings * eps_of(t->dtype),
                     .smallest = smallest_of(t->dtype),
                     .largest = largest_of(t->dtype)};
}

void scalars_free(scalars *s)
{
    free(s->list);
}

/* ---- numbers ---- */

/* What overflows, or may, is unknown. A NaN stays one. */
static quantity checked(const scalars *s, double value, double terms)
{
    bool is_unknown = !(terms <= s->largest) || (isfinite(value) && fabs(value) > s->largest);
    return (quantity){is_unknown && !isnan(value) ? 0 : value, isnan(value) ? 0 : is_unknown ? INFINITY : terms};
}

static quantity sum(const scalars *s, quantity a, quantity b)
{
    return checked(s, a.value + b.value, a.terms + b.terms);
}

/* 0 times infinity is NaN, and a number that may have been rounded to 0 times infinity is unknown. */
static quantity product(const scalars *s, quantity a, quantity b)
{
    if (isnan(a.value) || isnan(b.value)) {
        return (quantity){NAN, 0};
    }
    if (isinf(a.value) || isinf(b.value)) {
        quantity other = isinf(a.value) ? b : a;
        bool is_certain = isinf(other.value) || (other.value == 0 && other.terms == 0) ||
                          fabs(other.value) > s->unit * other.terms + 1000 * s->smallest;
        return is_certain && isfinite(a.terms + b.terms) ? (quantity){a.value * b.value, 0} : (quantity){0, INFINITY};
    }
    double terms = fabs(a.value * b.value) + a.terms * fabs(b.value) + fabs(a.value) * b.terms +
                   s->unit * a.terms * b.terms + s->smallest / s->unit;
    return checked(s, a.value * b.value, isnan(terms) ? INFINITY : a.value == 0 && a.terms == 0 ? 0 : terms);
}

/* f(x) of a bounded function, whose slope at x is given: `steepest` is the largest, and `range` the distance of the
 * bounds. */
static quantity bounded(const scalars *s, quantity x, double y, double slope, double steepest, double range)
{
    if (isnan(x.value) || isinf(x.terms)) {
        return isnan(x.value) ? (quantity){NAN, 0} : (quantity){0, INFINITY};
    }
    double moved = x.terms * fmin(steepest, slope + s->unit * x.terms);
    return (quantity){y, fabs(y) + fmin(moved, range / s->unit) + s->smallest / s->unit};
}

/* ---- the list ---- */

static int64_t append(scalars *s, scalar next)
{
    if (s->count == s->capacity) {
        s->capacity = s->capacity > 0 ? 2 * s->capacity : 1024;
        s->list = realloc(s->list, (size_t)s->capacity * sizeof *s->list);
        if (!s->list) {
            fprintf(stderr, "reference: memory is exhausted\n");
            exit(2);
        }
    }
    s->list[s->count] = next;
    return s->count++;
}

int64_t scalar_constant(scalars *s, double value)
{
    return append(s, (scalar){.op = SCALAR_LEAF, .x = {value, 0}});
}

int64_t scalar_multiply_add(scalars *s, int64_t a, int64_t b, int64_t c)
{
    quantity x = sum(s, product(s, s->list[a].x, s->list[b].x), s->list[c].x);
    return append(s, (scalar){.op = SCALAR_MULTIPLY_ADD, .a = a, .b = b, .c = c, .x = x});
}

int64_t scalar_add(scalars *s, int64_t a, int64_t b)
{
    return scalar_multiply_add(s, a, scalar_constant(s, 1), b);
}

int64_t scalar_subtract(scalars *s, int64_t a, int64_t b)
{
    return scalar_multiply_add(s, b, scalar_constant(s, -1), a);
}

int64_t scalar_multiply(scalars *s, int64_t a, int64_t b)
{
    return scalar_multiply_add(s, a, b, scalar_constant(s, 0));
}

int64_t scalar_sigmoid(scalars *s, int64_t a)
{
    double y = 1 / (1 + exp(-s->list[a].x.value));
    return append(s, (scalar){.op = SCALAR_SIGMOID, .a = a, .x = bounded(s, s->list[a].x, y, y * (1 - y), 0.25, 1)});
}

int64_t scalar_tanh(scalars *s, int64_t a)
{
    double y = tanh(s->list[a].x.value);
    return append(s, (scalar){.op = SCALAR_TANH, .a = a, .x = bounded(s, s->list[a].x, y, 1 - y * y, 1, 2)});
}

int64_t scalar_load(scalars *s, const input *in)
{
    int64_t first = s->count;
    for (int64_t i = 0; in->is_present && i < in->x.count; i++) {
        scalar_constant(s, in->x.values[i]);
    }
    return in->is_present ? first : -1;
}

void scalar_put(const scalars *s, array *y, int64_t i, int64_t at)
{
    y->values[i] = s->list[at].x.value;
    y->terms[i] = s->list[at].x.terms;
}

/* ---- gradients ---- */

void scalar_seed(scalars *s, const array *dy, int64_t i, int64_t at)
{
    s->list[at].has_gradient = true;
    s->list[at].gradient = sum(s, s->list[at].gradient, (quantity){dy->values[i], fabs(dy->values[i])});
}

static void add_gradient(scalars *s, int64_t at, quantity factor, quantity gradient)
{
    s->list[at].has_gradient = true;
    s->list[at].gradient = sum(s, s->list[at].gradient, product(s, factor, gradient));
}

void scalars_backward(scalars *s)
{
    for (int64_t k = s->count - 1; k >= 0; k--) {
        scalar *of = &s->list[k];
        quantity y = of->x, one = {1, 0}, slope;
        if (!of->has_gradient) {
            continue;
        }
        switch (of->op) {
        case SCALAR_LEAF: break;
        case SCALAR_MULTIPLY_ADD:
            add_gradient(s, of->a, s->list[of->b].x, of->gradient);
            add_gradient(s, of->b, s->list[of->a].x, of->gradient);
            add_gradient(s, of->c, one, of->gradient);
            break;
        case SCALAR_SIGMOID: /* y (1 - y) */
            slope = sum(s, (quantity){1, 1}, (quantity){-y.value, y.terms});
            add_gradient(s, of->a, product(s, y, slope), of->gradient);
            break;
        case SCALAR_TANH: /* 1 - y^2 */
            slope = product(s, y, (quantity){-y.value, y.terms});
            add_gradient(s, of->a, sum(s, (quantity){1, 1}, slope), of->gradient);
            break;
        }
    }
}

void scalar_add_gradient(const scalars *s, input *in, int64_t first)
{
    for (int64_t i = 0; in->is_present && i < in->dx.count; i++) {
        in->dx.values[i] += s->list[first + i].gradient.value;
        in->dx.terms[i] += s->list[first + i].gradient.terms;
    }
}
