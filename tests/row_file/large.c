/* large: trains a table in a file, or in memory, with Zipf ids, for tests/ci/row_file.
 *
 *   large file|memory PATH ROWS WIDTH STEPS IDS
 *
 * A file that does not exist is created. Prints the steps per second, the bytes that a step reads and writes, those of
 * its rows, and the most memory that the process has used.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <tapegrad.h>

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Returns a number of a file of /proc/self: that after `name`. */
static double number_in(const char *path, const char *name)
{
    char word[64];
    double number = NAN;
    FILE *file = fopen(path, "r");
    while (file && fscanf(file, "%63s", word) == 1) {
        if (strcmp(word, name) == 0 && fscanf(file, "%lf", &number) == 1) {
            break;
        }
    }
    if (file) {
        fclose(file);
    }
    return number;
}

/* Rank k has the probability 1 / k; the ranks are scattered over the table. Returns the number of different ids. */
static int64_t draw_ids(tg_rng *rng, int64_t rows, int64_t count, int32_t *ids, uint8_t *seen)
{
    int64_t different = 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t rank = (int64_t)pow((double)rows, tg_rng_uniform(rng, 0, 1, NULL));
        ids[i] = (int32_t)((uint64_t)rank * 2654435761U % (uint64_t)rows);
        different += !seen[ids[i]];
        seen[ids[i]] = 1;
    }
    for (int64_t i = 0; i < count; i++) {
        seen[ids[i]] = 0;
    }
    return different;
}

int main(int count, char **arguments)
{
    if (count != 7) {
        return 2;
    }
    bool in_memory = strcmp(arguments[1], "memory") == 0;
    const char *path = arguments[2];
    int64_t rows = atoll(arguments[3]), width = atoll(arguments[4]), steps = atoll(arguments[5]),
            n = atoll(arguments[6]);
    tg_error error = TG_NO_ERROR;
    tg_run *run = tg_run_new(1);
    tg_tape *t = tg_tape_new(run, NULL);
    tg_params *params = tg_params_new(run, TG_F32);
    tg_row_file *file = NULL;
    tg_nn_embedding embedding;
    tg_optim *optim = NULL;
    if (in_memory) {
        embedding = tg_nn_embedding_make(params, "table", rows, width, NULL);
        tg_adagrad_config config = tg_adagrad_config_default();
        config.by_rows = true;
        config.lr = 0.1;
        config.eps = 1e-8;
        optim = tg_adagrad_new(params, &config);
    } else {
        file = tg_row_file_open(path, rows, width, &error);
        if (!file) {
            tg_error_clear(&error);
            tg_row_file_config config = tg_row_file_config_default();
            config.rng = tg_run_rng(run);
            double begin = seconds();
            file = tg_row_file_new(path, rows, width, &config, &error);
            printf("created in %.1f s\n", seconds() - begin);
        }
    }
    int32_t *ids = malloc((size_t)n * sizeof *ids);
    uint8_t *seen = calloc((size_t)rows, 1);
    if (error.code != TG_OK || tg_run_error(run)->code != TG_OK || !ids || !seen) {
        fprintf(stderr, "%s%s\n", error.text, tg_run_error(run)->text);
        return 1;
    }
    tg_rng *rng = tg_rng_new(5);
    double different = 0, all = 0;
    const char *io = "/proc/self/io", *names[] = {"rchar:", "wchar:", "read_bytes:", "write_bytes:"};
    double before[4];
    for (int i = 0; i < 4; i++) {
        before[i] = number_in(io, names[i]);
    }
    for (int64_t step = 0; step < steps; step++) {
        different += (double)draw_ids(rng, rows, n, ids, seen);
        double begin = seconds();
        tg_tape_reset(t);
        tg_tensor *id = tg_constant_i32(t, TG_SHAPE(n), ids);
        tg_tensor *x = in_memory ? tg_nn_embedding_forward(t, &embedding, id) : tg_row_file_lookup(t, file, id);
        tg_tensor *loss = tg_mean(t, tg_pow_scalar(t, x, 2), TG_ALL_AXES, TG_DROP_AXES);
        if (in_memory) {
            tg_optim_zero_grad(optim);
        }
        if (!tg_backward(t, loss, NULL) || !(in_memory ? tg_optim_step(optim) : tg_row_file_step(file, 0.1, &error))) {
            fprintf(stderr, "%s%s\n", error.text, tg_run_error(run)->text);
            return 1;
        }
        all += seconds() - begin;
    }
    double per = 1.0 / (double)steps, bytes = different * per * 4 * (double)(width + 1);
    printf("%s: %.1f steps per second, %.0f rows per step, which have %.0f bytes\n", arguments[1], (double)steps / all,
           different * per, bytes);
    for (int i = 0; i < 4; i++) {
        double value = (number_in(io, names[i]) - before[i]) * per;
        printf("%s %.0f per step, %.2f of the rows'\n", names[i], value, value / bytes);
    }
    printf("memory: %.0f MB\n", number_in("/proc/self/status", "VmHWM:") / 1024);
    tg_row_file_free(file);
    tg_optim_free(optim);
    tg_params_free(params);
    tg_tape_free(t);
    tg_rng_free(rng);
    tg_run_free(run);
    free(ids);
    free(seen);
    return 0;
}
