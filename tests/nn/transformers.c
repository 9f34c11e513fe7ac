#include "transformers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WHOLE = 1500, ROWS = 5 };

double filled(double salt, int64_t i)
{
    return 0.3 * sin(0.7 * (double)i + salt);
}

void put(tg_tensor *x, int64_t i, double value)
{
    if (tg_tensor_dtype(x) == TG_F32) {
        ((float *)tg_tensor_data_mut(x))[i] = (float)value;
    } else {
        ((double *)tg_tensor_data_mut(x))[i] = value;
    }
}

void fill_part(tg_tensor *x, int64_t first, int64_t count, double salt, double factor, double plus)
{
    for (int64_t i = 0; i < count; i++) {
        put(x, first + i, factor * filled(salt, i) + plus);
    }
}

/* ---- the values of a line ---- */

typedef struct comparison {
    char *next; /* the rest of the line */
    double largest, worst;
} comparison;

static void compare_value(comparison *c, double value)
{
    double expected = strtod(c->next, &c->next);
    c->largest = fmax(c->largest, fabs(expected));
    c->worst = fmax(c->worst, fabs(value - expected));
}

static void compare_row(comparison *c, const tg_tensor *x, int64_t first, int64_t columns)
{
    for (int64_t i = 0; i < columns; i++) {
        compare_value(c, tg_tensor_value_at(x, first + i));
    }
}

/* Compares five of the rows, and the product of each row with `filled`. */
static void compare_large(comparison *c, const tg_tensor *x, int64_t first, int64_t rows, int64_t columns)
{
    for (int64_t k = 0; k < ROWS; k++) {
        int64_t row = rows * k / (ROWS - 1) - 1;
        compare_row(c, x, first + (row > 0 ? row : 0) * columns, columns);
    }
    for (int64_t row = 0; row < rows; row++) {
        double sum = 0;
        for (int64_t i = row * columns; i < (row + 1) * columns; i++) {
            sum += tg_tensor_value_at(x, first + i) * filled(0.5, i);
        }
        compare_value(c, sum);
    }
}

void compare_golden(const char *file, const char *name, const char *what, const tg_tensor *x, int64_t first,
                    int64_t count, double allowed)
{
    char path[300], key[120], *line = NULL;
    size_t size = 0;
    snprintf(path, sizeof path, "%s/%s", TG_TEST_GOLDENS, file);
    snprintf(key, sizeof key, "%s %s ", name, what);
    FILE *goldens = fopen(path, "r");
    assert_non_null(goldens);
    while (getline(&line, &size, goldens) > 0 && strncmp(line, key, strlen(key)) != 0) {
    }
    if (feof(goldens)) {
        fail_msg("no golden %s", key);
    }
    int64_t columns = tg_tensor_size(x, tg_tensor_rank(x) - 1);
    comparison c = {.next = line + strlen(key)};
    if (count > WHOLE) {
        compare_large(&c, x, first, count / columns, columns);
    } else {
        compare_row(&c, x, first, count);
    }
    assert_true(*c.next == '\n');
    if (!(c.worst <= allowed * (c.largest > 1e-14 ? c.largest : 1))) {
        fail_msg("%s, %s: differs by %g of the largest value, %g", name, what, c.worst / c.largest, c.largest);
    }
    free(line);
    fclose(goldens);
}

void compare_golden_gradient(const char *file, const char *name, const char *what, const tg_tensor *x, int64_t first,
                             int64_t count, double allowed)
{
    tg_tensor *gradient = tg_tensor_new_dense_grad(x, NULL);
    compare_golden(file, name, what, gradient, first, count < 0 ? tg_tensor_count(x) : count, allowed);
    tg_release(gradient);
}
