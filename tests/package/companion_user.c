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
    bool is_right = op_counts_save(counts, "counts.json", &error) &&
                    op_counts_read("counts.json", "mul", &error) == 2 &&
                    op_counts_read("counts.json", "sum", &error) == 1 && error.code == TG_OK;
    FILE *file = fopen("broken.json", "w");
    if (!file || fputs("{\"mul\":x}", file) < 0 || fclose(file) != 0) {
        return 1;
    }
    is_right = is_right && op_counts_read("broken.json", "mul", &error) == -1 && error.code == TG_ERROR_FORMAT;
    tg_error_clear(&error);
    op_settings settings;
    char good[] = "{\"only\":[\"mul\",\"sum\"],\"comment\":[1,{}],\"share\":0.5}";
    char quoted[] = "\n{\"share\":\"0.25\"}", three[] = "{\"only\":[\"a\",\"b\",\"c\"]}", more[] = "{} 1";
    is_right = is_right && op_settings_parse(&settings, good, sizeof good - 1, &error) && settings.count == 2 &&
               strcmp(settings.only[1], "sum") == 0 && settings.share == 0.5 &&
               op_settings_parse(&settings, quoted, sizeof quoted - 1, &error) && settings.share == 0.25;
    is_right = is_right && !op_settings_parse(&settings, three, sizeof three - 1, &error) &&
               strstr(error.text, "'c' is one op too many");
    tg_error_clear(&error);
    is_right = is_right && !op_settings_parse(&settings, more, sizeof more - 1, &error);
    tg_error_clear(&error);
    char bytes[20];
    is_right = is_right && op_counts_report(counts, "records.txt", &error) &&
               op_counts_first_bytes("records.txt", bytes, 14, &error) == 14 &&
               memcmp(bytes, "mul of a leaf\n", 14) == 0;
    is_right = is_right && !op_counts_report(counts, "missing/records.txt", &error) &&
               tg_tape_error(tape)->code == TG_ERROR_FILE;
    if (!is_right) {
        fprintf(stderr, "companion: %s\n", error.text);
    }
    op_counts_free(counts);
    tg_tape_free(tape);
    tg_release(x);
    return is_right ? 0 : 1;
}
