/* rows_list: prints the rows with an expression for PyTorch as lines of JSON, for tests/goldens/make_rows.py. */
#include <stdio.h>

#include "rows/rows.h"

static void print_list(const char *key, const char *const *options, int most)
{
    printf(", \"%s\": [", key);
    for (int k = 0; k < most && options[k]; k++) {
        printf("%s\"%s\"", k ? ", " : "", options[k]);
    }
    printf("]");
}

int main(void)
{
    static const char *const inputs[] = {
        [REAL] = "real", [POSITIVE] = "positive", [NONZERO] = "nonzero", [DISTINCT] = "distinct",
        [IDS] = "ids",   [TARGETS] = "targets",   [MASK] = "mask"};
    for (int i = 0; i < row_count(); i++) {
        const test_row *row = row_at(i);
        if (row->torch) {
            printf("{\"op\": \"%s\", \"variant\": \"%s\", \"torch\": \"%s\", \"inputs\": [", row->op, row->variant,
                   row->torch);
            for (int k = 0; k < row_input_count(row); k++) {
                printf("%s\"%s\"", k ? ", " : "", inputs[row->inputs[k]]);
            }
            printf("]");
            print_list("options", row->options, ROW_OPTIONS);
            print_list("edges", row->edges, ROW_OPTIONS);
            print_list("shapes", row_shapes(row), ROW_SHAPES);
            printf(", \"moves\": %s}\n", row->movement ? "true" : "false");
        }
    }
    return 0;
}
