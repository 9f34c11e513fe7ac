/* tensorboard FOLDER: logs scalars, histograms and tables to the folder, and saves the tensors of them as NPY files.
 * The script beside this file compiles it, and reads the folder with the package tensorboard. */
#include <math.h>
#include <stdio.h>

#include <tapegrad.h>
#include <tapegrad_tools.h>

int main(int argc, char **argv)
{
    static const char *const labels[] = {"cat", "a\ttab", "a\nline", " ", "größe", "\\", "", "last"};
    tg_error error = TG_NO_ERROR;
    tg_tensorboard *log = tg_tensorboard_open(argc == 2 ? argv[1] : NULL, &error);
    tg_rng *rng = tg_rng_new(1);
    bool is_good = log != NULL;
    for (int64_t step = 0; is_good && step < 100; step++) {
        double value = step == 50 ? (double)NAN : step == 51 ? (double)INFINITY : exp(-0.05 * (double)step);
        is_good = tg_tensorboard_add_scalar(log, "loss/train", value, step, &error) &&
                  tg_tensorboard_add_scalar(log, "größe", -value * 1e30, 3 * step, &error);
    }
    for (int64_t step = 0; is_good && step < 3; step++) {
        char path[32];
        snprintf(path, sizeof path, "histogram_%d.npy", (int)step);
        tg_tensor *x = tg_tensor_new(step == 1 ? TG_F64 : TG_F32, TG_SHAPE(50, 20), &error);
        is_good = tg_tensor_fill_normal(x, rng, (double)step, pow(10, (double)(4 * step - 4)), &error) &&
                  tg_tensorboard_add_histogram(log, "weights", x, step, &error) && tg_tensor_save_npy(x, path, &error);
        tg_release(x);
    }
    tg_tensor *table = tg_tensor_new(TG_F32, TG_SHAPE(8, 5), &error);
    is_good = is_good && tg_tensor_fill_normal(table, rng, 0, 1, &error) &&
              tg_tensor_save_npy(table, "table.npy", &error) &&
              tg_tensorboard_add_embedding(log, "labeled", table, labels, 8, 7, &error) &&
              tg_tensorboard_add_embedding(log, "plain", table, NULL, 0, 7, &error);
    fprintf(stderr, "%s", error.text);
    tg_release(table);
    tg_rng_free(rng);
    tg_tensorboard_free(log);
    return is_good ? 0 : 1;
}
