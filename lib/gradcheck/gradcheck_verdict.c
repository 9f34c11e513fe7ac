/* gradcheck_verdict: says of each input how many of its values have a right gradient, in which rows the wrong ones are,
 * and what all wrong entries have in common.
 */
#include <math.h>
#include <stdio.h>

#include "base/alloc.h"
#include "gradcheck/gradcheck.h"

enum { MOST_INDICES = 6 };

/* Returns the worst verdict of a value: of its entries for all values of the output. */
static tg_gradcheck_verdict verdict_of(const tg_check *c, const tg_variable *v, int64_t j)
{
    tg_gradcheck_verdict worst = TG_GRADCHECK_RIGHT;
    for (int64_t i = 0; i < c->rows && worst != TG_GRADCHECK_WRONG; i++) {
        tg_gradcheck_verdict verdict = v->verdicts[j * c->rows + i];
        worst = verdict == TG_GRADCHECK_RIGHT ? worst : verdict;
    }
    return worst;
}

static bool are_near(const tg_check *c, double a, double b)
{
    return fabs(a - b) <= c->config.atol + c->config.rtol * fabs(b);
}

/* Returns the index that value j of a matrix has in its transpose, or -1. */
static int64_t transposed(const tg_variable *v, int64_t j)
{
    const int64_t rows = v->shape.size[0], columns = v->shape.size[1];
    return v->shape.rank != 2 || rows == 1 || columns == 1 ? -1 : j % rows * columns + j / rows;
}

/* Writes what is true of all wrong entries, or nothing. */
static void describe_pattern(const tg_check *c, const tg_variable *v, char *text, size_t size)
{
    bool zero = true, factor = true, turned = true;
    double ratio = NAN;
    for (int64_t at = 0; at < c->rows * v->count; at++) {
        if (v->verdicts[at] != TG_GRADCHECK_WRONG) {
            continue;
        }
        const int64_t j = at / c->rows, i = at % c->rows, other = transposed(v, j);
        const double a = v->jacobian[i * v->count + j], n = v->numeric[at];
        ratio = isnan(ratio) ? a / n : ratio;
        zero &= a == 0;
        factor &= isfinite(ratio) && are_near(c, a, ratio * n);
        turned &= other >= 0 && are_near(c, a, v->numeric[other * c->rows + i]);
    }
    if (zero) {
        snprintf(text, size, "; analytic is 0 in all of them");
    } else if (factor) {
        snprintf(text, size, "; analytic / numeric = %.4g in all of them: %s", ratio,
                 fabs(ratio + 1) < 1e-3 ? "the sign" : "a factor");
    } else if (turned) {
        snprintf(text, size, "; analytic is the transpose of numeric in all of them");
    }
}

/* Adds the indices on an axis at which values are wrong: ", rows 5, 9". Returns false without a text if all are. */
static bool add_indices(const tg_check *c, const tg_variable *v, int axis, const char *word, tg_text_buffer *out)
{
    const int64_t size = v->shape.size[axis];
    int64_t below = 1, at[MOST_INDICES], found = 0;
    for (int i = axis + 1; i < v->shape.rank; i++) {
        below *= v->shape.size[i];
    }
    for (int64_t i = 0; i < size; i++) {
        bool any = false;
        for (int64_t j = 0; j < v->count && !any; j++) {
            any = j / below % size == i && verdict_of(c, v, j) == TG_GRADCHECK_WRONG;
        }
        if (any && found < MOST_INDICES) {
            at[found] = i;
        }
        found += any;
    }
    if (found == size) {
        return false;
    }
    tg_text_add_format(out, ", %s%s", word, found > 1 ? "s" : "");
    for (int64_t i = 0; i < found && i < MOST_INDICES; i++) {
        tg_text_add_format(out, i == 0 ? " %lld" : ", %lld", (long long)at[i]);
    }
    tg_text_add(out, found > MOST_INDICES ? ", ..." : "");
    return true;
}

/* Writes the line of input k. */
static void describe(const tg_check *c, int k, tg_text_buffer *out)
{
    const tg_variable *v = &c->variables[k];
    const int rank = v->shape.rank;
    char name[TG_CHECK_NAME], pattern[100] = "";
    int64_t wrong = 0, kinks = 0, compared = 0, entries = 0;
    for (int64_t j = 0; j < v->count; j++) {
        tg_gradcheck_verdict verdict = verdict_of(c, v, j);
        compared += !tg_check_without_gradient(c, k, j);
        kinks += verdict == TG_GRADCHECK_KINK;
        wrong += verdict == TG_GRADCHECK_WRONG;
    }
    for (int64_t at = 0; at < c->rows * v->count; at++) {
        entries += v->verdicts[at] == TG_GRADCHECK_WRONG;
    }
    tg_text_add_format(out, "%s: %lld of %lld %s", tg_check_name(c, k, name),
                       (long long)(wrong > 0 ? wrong : compared - kinks), (long long)compared,
                       wrong > 0 ? "wrong" : "right");
    if (kinks > 0) {
        tg_text_add_format(out, ", %lld at a kink", (long long)kinks);
    }
    if (wrong > 0 && wrong < compared && !add_indices(c, v, 0, rank > 1 ? "row" : "value", out) && rank > 1) {
        add_indices(c, v, rank - 1, "column", out);
    }
    if (wrong > 0) {
        describe_pattern(c, v, pattern, sizeof pattern);
        tg_text_add_format(out, " (%lld of %lld entries)%s", (long long)entries, (long long)(c->rows * compared),
                           pattern);
    }
}

void tg_check_describe_inputs(const tg_check *c, int input, char *line, size_t size)
{
    tg_text_buffer out = {0};
    for (int k = 0; k < c->input_count; k++) {
        if (!c->variables[k].checked || !c->variables[k].verdicts) {
            continue;
        }
        tg_text_add(&out, out.length > 0 ? "\n" : "");
        size_t begin = out.length;
        describe(c, k, &out);
        if (k == input && !out.failed) {
            snprintf(line, size, "; %.*s", (int)(out.length - begin), out.bytes + begin);
        }
    }
    if (out.length > 0 && !out.failed) {
        snprintf(c->report->verdict, sizeof c->report->verdict, "%.*s", (int)out.length, out.bytes);
    }
    tg_free(out.bytes);
}
