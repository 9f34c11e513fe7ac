#include "rows/rows.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const test_row *const parts[] = {elementwise_rows, move_rows, samples};

const test_row *row_at(int index)
{
    for (size_t part = 0; part < sizeof parts / sizeof *parts; part++) {
        for (const test_row *row = parts[part]; row->op; row++) {
            if (index-- == 0) {
                return row;
            }
        }
    }
    return NULL;
}

int row_count(void)
{
    static int count;
    while (count == 0 || row_at(count)) {
        count++;
    }
    return count;
}

const test_row *row_of(const char *op)
{
    for (int i = 0; i < row_count(); i++) {
        if (strcmp(row_at(i)->op, op) == 0) {
            return row_at(i);
        }
    }
    return NULL;
}

int row_input_count(const test_row *row)
{
    int count = 0;
    while (count < ROW_INPUTS && row->inputs[count] != ABSENT) {
        count++;
    }
    return count;
}

const char *const *row_shapes(const test_row *row)
{
    static const char *const of_one[ROW_SHAPES] = {"2,3", "7", "2,1,3", "1", "-", "0,3", "1,2,1,2,1,3"};
    static const char *const of_two[ROW_SHAPES] = {"2,3 2,3", "2,3 3", "2,1,3 4,1", "1 1", "- 2", "0,3 3"};
    return row->shapes[0] ? row->shapes : row_input_count(row) == 1 ? of_one : of_two;
}

tg_tensor *row_call(const test_row *row, tg_tape *t, tg_tensor *const *x, const double *number)
{
    return row->call           ? row->call(t, x)
           : row->with_options ? row->with_options(t, x, number)
           : row->of_one       ? row->of_one(t, x[0])
           : row->of_two       ? row->of_two(t, x[0], x[1])
           : row->with_number  ? row->with_number(t, x[0], number[0])
                               : row->with_numbers(t, x[0], number[0], number[1]);
}

const char *row_options(const test_row *row, bool edges, int k, double number[FORMULA_NUMBERS])
{
    const char *text = k >= ROW_OPTIONS ? NULL : edges ? row->edges[k] : row->options[k];
    text = !text && !edges && k == 0 ? "" : text;
    memset(number, 0, FORMULA_NUMBERS * sizeof *number);
    const char *at = text;
    for (int i = 0; at && *at; i++) {
        char *end;
        assert(i < FORMULA_NUMBERS);
        number[i] = strtod(at, &end);
        assert(end != at);
        at = end + strspn(end, " ");
    }
    return text;
}

/* ---- samples ---- */

enum { MOST_SAMPLES = 600 };
static sample list[MOST_SAMPLES];

int sample_count(void)
{
    static int count;
    for (int i = count > 0 ? row_count() : 0; i < row_count(); i++) {
        const test_row *row = row_at(i);
        sample s = {.row = row, .shapes = row_shapes(row)};
        const char *options;
        for (int k = 0; !row->has_no_gradient && (options = row_options(row, false, k, s.number)) != NULL; k++) {
            snprintf(s.variant, sizeof s.variant, "%s%s%s", row->variant, *row->variant && *options ? ", " : "",
                     options);
            assert(count < MOST_SAMPLES);
            list[count++] = s;
        }
    }
    return count;
}

const sample *sample_at(int index)
{
    return index < sample_count() ? &list[index] : NULL;
}

tg_tensor *sample_call(const sample *s, tg_tape *t, tg_tensor *const *x)
{
    return row_call(s->row, t, x, s->number);
}
