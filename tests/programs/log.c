/* Logs of runs. All runs of a program log the same entries in the same order; what a run does not have is absent. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../fuzz/fuzz.h"
#include "programs.h"
#include "tensor/tensor.h"

static double *add_entry(run_log *l, entry e)
{
    if (l->count == l->capacity) {
        l->capacity = 2 * l->capacity + 256;
        l->entries = realloc(l->entries, (size_t)l->capacity * sizeof *l->entries);
    }
    int64_t needed = l->number_count + (e.count > 0 ? e.count : 0);
    if (needed > l->number_capacity || !l->numbers) {
        l->number_capacity = 2 * needed + 4096;
        l->numbers = realloc(l->numbers, (size_t)l->number_capacity * sizeof *l->numbers);
    }
    fuzz_require(l->entries && l->numbers, "no memory for a log");
    e.first = l->number_count;
    l->number_count = needed;
    l->entries[l->count++] = e;
    return l->numbers + e.first;
}

void log_tensor(run_log *l, int at, subject what, int index, const tg_tensor *x)
{
    static float floats[MOST_COUNT];
    int64_t count = x ? tg_tensor_count(x) : -1;
    double *numbers = add_entry(l, (entry){at, what, index, count, 0});
    if (count > 0 && tg_tensor_dtype(x) == TG_F64) {
        tg_copy_to_contiguous(x, numbers);
    } else if (count > 0) {
        fuzz_require(count <= MOST_COUNT && tg_tensor_dtype(x) == TG_F32, "a tensor that no log can hold");
        tg_copy_to_contiguous(x, floats);
        for (int64_t i = 0; i < count; i++) {
            numbers[i] = (double)floats[i];
        }
    }
}

void log_number(run_log *l, int at, subject what, int index, double number)
{
    *add_entry(l, (entry){at, what, index, 1, 0}) = number;
}

void log_clear(run_log *l)
{
    l->count = 0;
    l->number_count = 0;
    l->is_cut = false;
    l->broken[0] = '\0';
}

const entry *log_find(const run_log *l, int at, subject what, int index)
{
    for (int i = 0; i < l->count; i++) {
        const entry *e = &l->entries[i];
        if (e->instruction >= at && e->subject == what && e->index == index) {
            return e;
        }
    }
    return NULL;
}

/* ---- differences ---- */

static double largest(const double *numbers, int64_t count)
{
    double most = 0;
    for (int64_t i = 0; i < count; i++) {
        most = fabs(numbers[i]) > most ? fabs(numbers[i]) : most;
    }
    return most;
}

/* Returns the index of the first number that differs, or -1. */
static int64_t differ(const double *a, const double *b, int64_t count, double tolerance)
{
    double scale = tolerance > 0 ? fmax(largest(a, count), largest(b, count)) + 1 : 0;
    for (int64_t i = 0; i < count; i++) {
        bool is_same = memcmp(&a[i], &b[i], sizeof a[i]) == 0 || (isnan(a[i]) && isnan(b[i]));
        if (!is_same && !(tolerance > 0 && fabs(a[i] - b[i]) <= tolerance * scale)) {
            return i;
        }
    }
    return -1;
}

/* Writes what an entry is about. */
static void name_entry(const entry *e, const program *p, char *text, size_t size)
{
    static const char *const subjects[] = {
        "value %", "value, read later, %", "leaf %", "gradient of leaf %", "gradient of %", "moment ", "error code "};
    int at = e->instruction;
    snprintf(text, size, "%s%d after instruction %d (%s)", subjects[e->subject], e->index, at,
             at < p->count ? p->list[at].text : "the end");
}

bool log_differ(const run_log *a, const run_log *b, const program *p, const closeness *c, char *text, size_t size)
{
    char name[200];
    int end = p->count + 1;
    for (int i = p->count - 1; c->until_step && i >= 0; i--) {
        end = p->list[i].kind == STEP ? i : end;
    }
    for (int k = 0; k < a->count && k < b->count; k++) {
        const entry *x = &a->entries[k], *y = &b->entries[k];
        bool is_same = x->instruction == y->instruction && x->subject == y->subject && x->index == y->index;
        name_entry(x, p, name, sizeof name);
        if (!is_same) {
            char other[200];
            name_entry(y, p, other, sizeof other);
            snprintf(text, size, "one has %s, the other %s", name, other);
            return true;
        }
        if (x->instruction >= end) {
            return false;
        }
        bool is_leaf_gradient = x->subject == LEAF_GRADIENT;
        if (x->count < 0 || y->count < 0) {
            const entry *one = x->count < 0 ? y : x;
            const double *numbers = (x->count < 0 ? b : a)->numbers + one->first;
            if (is_leaf_gradient && x->count != y->count && !(c->absent_is_zero && largest(numbers, one->count) == 0)) {
                snprintf(text, size, "one run has no %s", name);
                return true;
            }
            continue;
        }
        int64_t at =
            x->count == y->count ? differ(a->numbers + x->first, b->numbers + y->first, x->count, c->tolerance) : 0;
        if (x->count != y->count) {
            snprintf(text, size, "%s has %lld and %lld numbers", name, (long long)x->count, (long long)y->count);
            return true;
        }
        if (at >= 0) {
            snprintf(text, size, "%s: number %lld of %lld is %.17g and %.17g", name, (long long)at, (long long)x->count,
                     a->numbers[x->first + at], b->numbers[y->first + at]);
            return true;
        }
    }
    bool ends_early = a->is_cut || b->is_cut;
    if (!ends_early && a->count != b->count && end > p->count) {
        const run_log *longer = a->count > b->count ? a : b;
        name_entry(&longer->entries[a->count > b->count ? b->count : a->count], p, name, sizeof name);
        snprintf(text, size, "one run ended before %s", name);
        return true;
    }
    return false;
}
