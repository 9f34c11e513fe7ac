/* A process that trains a table in a file is killed at random moments: each row is that of the step before or after,
 * and none is torn; the next run continues. TG_KILLS sets the number of kills (default 20).
 */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "support.h"

static const char path[] = "test_row_file_kills.rows";

enum { ROWS = 2000, WIDTH = 511, BATCH = 2000 };

/* Every value is 0 at first, and its gradient is 1. So all values of a row are equal, and s counts its steps. */
static void train_until_killed(int began)
{
    tg_row_file *file = tg_row_file_open(path, ROWS, WIDTH, NULL);
    if (!file) {
        _exit(1);
    }
    tg_set_threads(1, NULL);
    tg_tape *t = tg_tape_new(NULL, NULL);
    for (int step = 0;; step++) {
        int32_t ids[BATCH];
        for (int i = 0; i < BATCH; i++) {
            ids[i] = (int32_t)((step * 977 + i * 13) % ROWS);
        }
        tg_tape_reset(t);
        tg_tensor *x = tg_row_file_lookup(t, file, tg_constant_i32(t, TG_SHAPE(BATCH), ids));
        if (!tg_backward(t, tg_sum(t, x, TG_ALL_AXES, TG_DROP_AXES), NULL) || !tg_row_file_step(file, 1, NULL)) {
            _exit(1);
        }
        if (step == 0 && write(began, "", 1) != 1) {
            _exit(1);
        }
    }
}

/* Returns the value of a row after a number of steps. */
static float value_after(int steps)
{
    float x = 0, s = 0;
    for (int i = 0; i < steps; i++) {
        s += 1;
        x -= 1 / (sqrtf(s) + 1e-8F);
    }
    return x;
}

/* Requires that no row is torn. Returns the number of steps of all rows. */
static double check_rows(void)
{
    double all = 0;
    FILE *file = fopen(path, "rb");
    float row[WIDTH + 1];
    fseek(file, 4096, SEEK_SET);
    for (int i = 0; i < ROWS; i++) {
        assert_int_equal(fread(row, sizeof row, 1, file), 1);
        float expected = value_after((int)row[WIDTH]);
        for (int c = 0; c < WIDTH; c++) {
            if (row[c] != expected) {
                fail_msg("row %d after %g steps: value %d is %g, not %g", i, (double)row[WIDTH], c, (double)row[c],
                         (double)expected);
            }
        }
        all += (double)row[WIDTH];
    }
    fclose(file);
    return all;
}

static void test_kills(void **state)
{
    (void)state;
    const char *wanted = getenv("TG_KILLS");
    int kills = wanted ? atoi(wanted) : 20;
    remove(path);
    tg_row_file_free(tg_row_file_new(path, ROWS, WIDTH, NULL, NULL));
    srand(1);
    double last = 0;
    int between = 0;
    for (int i = 0; i < kills; i++) {
        int began[2];
        char byte;
        assert_int_equal(pipe(began), 0);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            train_until_killed(began[1]);
        }
        close(began[1]);
        assert_int_equal(read(began[0], &byte, 1), 1);
        close(began[0]);
        const struct timespec moment = {0, 1000 * (long)(rand() % 30000)};
        nanosleep(&moment, NULL);
        int status = 0;
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        double all = check_rows();
        assert_true(all > last);
        between += fmod(all, BATCH) != fmod(last, BATCH);
        last = all;
    }
    print_message("%d of %d kills tore no row; %d in the middle of a step, %.0f rows were written\n", kills, kills,
                  between, last);
}

static void limit_files(rlim_t bytes)
{
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &(struct rlimit){bytes, RLIM_INFINITY}), 0);
}

/* A file that cannot grow, as on a full disk: nothing is left of a new one, and the generator is as before. A step says
 * which row it could not write; the rows before are new, the others old. */
static void test_full_disk(void **state)
{
    (void)state;
    tg_error error = TG_NO_ERROR;
    tg_rng *rng = tg_rng_new(1);
    tg_row_file_config config = tg_row_file_config_default();
    config.rng = rng;
    remove(path);
    signal(SIGXFSZ, SIG_IGN);
    limit_files(50000);
    assert_null(tg_row_file_new(path, ROWS, WIDTH, &config, &error));
    limit_files(RLIM_INFINITY);
    assert_string_equal(error.text, "row_file_new: write 'test_row_file_kills.rows': File too large");
    assert_int_equal(error.code, TG_ERROR_FILE);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(tg_rng_position(rng), 0);
    tg_rng_free(rng);
    tg_error_clear(&error);

    tg_row_file *file = tg_row_file_new(path, ROWS, WIDTH, NULL, &error);
    tg_tape *t = tg_tape_new(NULL, NULL);
    const int32_t ids[] = {1, 3, 5, 9, 7};
    tg_tensor *x = tg_row_file_lookup(t, file, tg_constant_i32(t, TG_SHAPE(5), ids));
    assert_true(tg_backward(t, tg_sum(t, x, TG_ALL_AXES, TG_DROP_AXES), NULL));
    limit_files(4096 * 4);
    assert_false(tg_row_file_step(file, 1, &error));
    limit_files(RLIM_INFINITY);
    assert_string_equal(error.text, "row_file_step: write 'test_row_file_kills.rows', row 9: File too large");
    assert_int_equal(error.code, TG_ERROR_FILE);
    tg_row_file_free(file);
    tg_tape_free(t);
    assert_true(check_rows() == 3);
}

/* A file that may not be written, and what is no regular file. */
static void test_unusable_paths(void **state)
{
    (void)state;
    tg_error error = TG_NO_ERROR;
    mkfifo("test_row_file_kills.pipe", 0600);
    assert_null(tg_row_file_open("test_row_file_kills.pipe", 4, 4, &error));
    assert_string_equal(error.text, "row_file_open: open 'test_row_file_kills.pipe': it is a pipe, not a regular file");
    remove("test_row_file_kills.pipe");
    tg_error_clear(&error);
    assert_null(tg_row_file_open(".", 4, 4, &error));
    assert_string_equal(error.text, "row_file_open: open '.': Is a directory");
    tg_error_clear(&error);
    assert_int_equal(chmod(path, 0400), 0);
    bool is_root = geteuid() == 0; /* who may write everything, and so is somebody else meanwhile */
    assert_int_equal(is_root ? seteuid(65534) : 0, 0);
    tg_row_file *opened = tg_row_file_open(path, ROWS, WIDTH, &error);
    assert_int_equal(is_root ? seteuid(0) : 0, 0);
    assert_null(opened);
    assert_string_equal(error.text, "row_file_open: open 'test_row_file_kills.rows': Permission denied");
    assert_int_equal(error.code, TG_ERROR_FILE);
    assert_int_equal(chmod(path, 0600), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_kills), cmocka_unit_test(test_full_disk),
                                       cmocka_unit_test(test_unusable_paths)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
