/* A process that saves checkpoints is killed at random moments. Each time the folder has whole checkpoints only, the
 * best one is among them, and the next run leaves no temporary file. TG_KILLS sets the number of kills (default 50).
 */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "support.h"

static const char folder_path[] = "test_kills";

enum { VALUES = 30000 };

/* Every value is the step, so a file with parts of two checkpoints is found. */
static tg_params *params_of_step(int64_t step)
{
    tg_params *params = tg_params_new(NULL, TG_F32);
    assert_true(tg_tensor_fill(tg_params_add(params, "x", TG_SHAPE(VALUES)), (double)step, NULL));
    return params;
}

/* Saves one checkpoint after the other, until it is killed. */
static void save_until_killed(int64_t step)
{
    tg_checkpoint_folder *folder = tg_checkpoint_folder_open(folder_path, NULL, NULL);
    if (!folder) {
        _exit(1);
    }
    for (;; step++) {
        tg_params *params = params_of_step(step);
        tg_checkpoint_part parts[] = {tg_checkpoint_params("model", params), tg_checkpoint_integer("step", &step)};
        if (!tg_checkpoint_folder_save(folder, step, step % 3 == 0, parts, 2, NULL)) {
            _exit(1);
        }
        tg_params_free(params);
    }
}

/* Requires that a checkpoint is whole. Returns its step. */
static int64_t check(const char *path)
{
    tg_error error = TG_NO_ERROR;
    tg_params *params = params_of_step(-1);
    int64_t step = -1;
    tg_checkpoint_part parts[] = {tg_checkpoint_params("model", params), tg_checkpoint_integer("step", &step)};
    if (!tg_checkpoint_load(path, parts, 2, &error)) {
        fail_msg("%s", error.text);
    }
    const float *x = tg_tensor_data(tg_params_find(params, "x"));
    for (int i = 0; i < VALUES; i++) {
        assert_true(x[i] == (float)step);
    }
    tg_params_free(params);
    return step;
}

/* Checks every checkpoint of the folder. Returns the last step, or 0. */
static int64_t check_folder(bool may_have_leftovers)
{
    int64_t last = 0;
    DIR *open = opendir(folder_path);
    assert_non_null(open);
    for (struct dirent *entry; (entry = readdir(open));) {
        char path[400];
        snprintf(path, sizeof path, "%s/%s", folder_path, entry->d_name);
        if (strncmp(entry->d_name, "step-", 5) == 0) {
            int64_t step = check(path);
            last = step > last ? step : last;
        } else if (!may_have_leftovers && strstr(entry->d_name, ".tmp")) {
            fail_msg("%s is left", path);
        }
    }
    closedir(open);
    return last;
}

static void test_kills(void **state)
{
    (void)state;
    const char *wanted = getenv("TG_KILLS");
    int kills = wanted ? atoi(wanted) : 50;
    assert_int_equal(system("rm -rf test_kills && mkdir test_kills"), 0);
    srand(1);
    int64_t last = 0;
    for (int i = 0; i < kills; i++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            save_until_killed(last + 1);
        }
        const struct timespec moment = {0, 1000 * (1000 + (long)(rand() % 40000))};
        nanosleep(&moment, NULL);
        int status = 0;
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        int64_t found = check_folder(true);
        assert_true(found >= last);
        last = found;
        tg_error error = TG_NO_ERROR;
        char *best = last > 0 ? tg_checkpoint_find(folder_path, TG_CHECKPOINT_BEST, &error) : NULL;
        assert_true(best || last == 0);
        if (best) {
            check(best);
        }
        tg_text_free(best);
        /* the next run */
        tg_checkpoint_folder_free(tg_checkpoint_folder_open(folder_path, NULL, NULL));
        check_folder(false);
    }
    assert_true(last > kills / 10);
    print_message("%d of %d kills left whole checkpoints and nothing else; %lld were saved\n", kills, kills,
                  (long long)last);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_kills)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
