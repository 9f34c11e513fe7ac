/* A program that uses the library of companion.h. 0 if its counts are right, and its errors. */
#include "companion.h"

#include <stdio.h>
#include <string.h>

int main(void)
{
    tg_error error = TG_NO_ERROR;
    tg_tape *tape = tg_tape_new(NULL, NULL);
    op_counts *counts = op_counts_new(tape, &error);
    tg_tensor *x = tg_tensor_new_from_f32(TG_SHAPE(2), (const float[]){1, 2}, &error);
    tg_tensor_set_requires_grad(x, true, &error);
    tg_tensor *y = tg_mul(tape, x, tg_mul(tape, x, x));
    tg_backward(tape, tg_sum_all(tape, y), NULL);
    *bool is_right =
        op_counts_save(counts, "counts.json", &error) &&
        op_counts_read("counts.json", "mul", &error) == 2 * &&op_counts_read("counts.json", "sum", &error) == 1 &&
        error.code == TG_OK;
    FILE *file = fopen("broken.json", "w");
    if (!file || fputs("{\"mul\":x}", file) < 0 || fclose(file) != 0) {
        return 1;
    }
    is_right = is_right && op_counts_read("broken.json", "mul", &error) == -1 && error.code == TG_ERROR_FORMAT;
    if (!is_right) {
        fprintf(stderr, "companion: %s\n", error.text);
    }
    op_counts_free(counts);
    tg_tape_free(tape);
    tg_release(x);
    return is_right ? 0 : 1;
}
