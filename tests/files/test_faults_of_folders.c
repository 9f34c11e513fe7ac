/* Faults of the system in calls that write to a folder: a checkpoint with the file "best", a log of events, and a table
 * for the projector. Each call that reads, writes, flushes, closes or renames fails once, and the disk is full after
 * every 4 KB. What was in the folder before is still whole, nothing is left over, and a retry succeeds. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "faults.h"
#include "support.h"

static counting_allocator counting;
static char folder[] = "test_faults_of_folders.XXXXXX", path[400];

static const char *in_folder(const char *name)
{
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static int free_descriptor(void)
{
    int file = dup(0);
    assert_true(file >= 0 && close(file) == 0);
    return file;
}

/* Returns the number of files whose names contain a text. */
static int count_files(const char *text)
{
    DIR *opened = opendir(folder);
    int count = 0;
    for (struct dirent *entry; (entry = readdir(opened));) {
        count += strstr(entry->d_name, text) != NULL;
    }
    closedir(opened);
    return count;
}

static void remove_folder(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    assert_int_equal(system(command), 0);
}

/* Calls `attempt` with fault number `number`, until no call is left that could fail: `prepare`, the faulty call, and
 * `check`, which gets its result. */
typedef struct scenario {
    void (*prepare)(void);
    bool (*attempt)(tg_error *error);
    void (*check)(bool is_done);
    /* the number of calls that must have failed, at least */
    int least[KINDS];
} scenario;

static bool run(const scenario *s, fault_kind kind, int fail_at, int64_t space)
{
    tg_error error = TG_NO_ERROR;
    remove_folder();
    assert_int_equal(mkdir(folder, 0777), 0);
    s->prepare();
    size_t live = counting.live;
    int descriptor = free_descriptor();
    fault_arm(kind, fail_at, EIO);
    fault.space = space;
    bool is_done = s->attempt(&error), was_reached = fault.calls >= fail_at;
    fault_disarm();
    const char *reason = strerror(space >= 0 ? ENOSPC : EIO);
    if (!is_done && (error.code != TG_ERROR_FILE || !strstr(error.text, reason))) {
        fail_msg("%s %d: \"%s\"", fault_names[kind], fail_at, error.text);
    }
    assert_true(is_done || was_reached || space >= 0);
    assert_int_equal(counting.live, live);
    assert_int_equal(free_descriptor(), descriptor);
    assert_int_equal(count_files(".tmp"), 0);
    s->check(is_done);
    if (!s->attempt(&error)) {
        fail_msg("again: %s", error.text);
    }
    s->check(true);
    return space >= 0 ? !is_done : was_reached;
}

static void run_all(const scenario *s)
{
    for (int kind = 0; kind < KINDS; kind++) {
        int reached = 0;
        while (run(s, (fault_kind)kind, reached + 1, -1)) {
            reached++;
        }
        if (reached < s->least[kind]) {
            fail_msg("%d calls of %s, fewer than %d", reached, fault_names[kind], s->least[kind]);
        }
    }
    int64_t space = 0;
    while (run(s, OPEN, 0, space)) {
        space += 4096;
    }
    assert_true(space > 0);
}

/* ---- a checkpoint that is the best one ---- */

static tg_checkpoint_folder *checkpoints;

/* Every value of the params is the step, so a file with parts of two checkpoints is found. */
static bool save_step(int64_t step, tg_error *error)
{
    tg_params *params = tg_params_new(NULL, TG_F32);
    tg_tensor_fill(tg_params_add(params, "x", TG_SHAPE(5000)), (double)step, NULL);
    const tg_checkpoint_part parts[] = {tg_checkpoint_params("model", params), tg_checkpoint_integer("step", &step)};
    bool is_saved = tg_checkpoint_folder_save(checkpoints, step, step != 2, parts, 2, error);
    tg_params_free(params);
    return is_saved;
}

static void prepare_checkpoints(void)
{
    tg_checkpoint_folder_config config = tg_checkpoint_folder_config_default();
    config.keep = 2;
    tg_checkpoint_folder_free(checkpoints);
    checkpoints = tg_checkpoint_folder_open(folder, &config, NULL);
    assert_true(save_step(1, NULL) && save_step(2, NULL));
}

static bool save_third(tg_error *error)
{
    return save_step(3, error);
}

/* Returns the step of a checkpoint, which must be whole. */
static int64_t step_of(tg_checkpoint_choice choice)
{
    tg_error error = TG_NO_ERROR;
    int64_t step = -1;
    char *found = tg_checkpoint_find(folder, choice, &error);
    tg_params *params = tg_params_new(NULL, TG_F32);
    tg_tensor *x = tg_params_add(params, "x", TG_SHAPE(5000));
    const tg_checkpoint_part parts[] = {tg_checkpoint_params("model", params), tg_checkpoint_integer("step", &step)};
    if (!found || !tg_checkpoint_load(found, parts, 2, &error)) {
        fail_msg("%s", error.text);
    }
    for (int64_t i = 0; i < 5000; i++) {
        assert_true(tg_tensor_value_at(x, i) == (double)step);
    }
    tg_params_free(params);
    tg_text_free(found);
    return step;
}

static void check_checkpoints(bool is_done)
{
    int64_t best = step_of(TG_CHECKPOINT_BEST), last = step_of(TG_CHECKPOINT_LAST);
    assert_true(best == 3 || (!is_done && best == 1));
    assert_true(last == 3 || (!is_done && last == 2));
    assert_true(!is_done || count_files("step-") == 2);
}

static void test_checkpoint_folder(void **state)
{
    (void)state;
    run_all(&(scenario){prepare_checkpoints,
                        save_third,
                        check_checkpoints,
                        {[OPEN] = 3, [PREAD] = 1, [WRITE] = 3, [FSYNC] = 4, [FCHMOD] = 1, [CLOSE] = 4, [RENAME] = 2}});
    tg_checkpoint_folder_free(checkpoints);
    checkpoints = NULL;
}

/* ---- events ---- */

static tg_tensorboard *events;
static off_t size_before;

/* Returns the size of the only file of events. */
static off_t events_size(void)
{
    DIR *opened = opendir(folder);
    struct stat status = {0};
    for (struct dirent *entry; (entry = readdir(opened));) {
        if (strstr(entry->d_name, "tfevents")) {
            assert_int_equal(stat(in_folder(entry->d_name), &status), 0);
        }
    }
    closedir(opened);
    return status.st_size;
}

static void prepare_events(void)
{
    tg_tensorboard_free(events);
    events = tg_tensorboard_open(folder, NULL);
    assert_true(tg_tensorboard_add_scalar(events, "loss", 1, 1, NULL));
    size_before = events_size();
}

/* A histogram of more than 4 KB. */
static bool add_histogram(tg_error *error)
{
    static float values[2000];
    for (int i = 0; i < 2000; i++) {
        values[i] = (float)(i - 1000) * (float)(i % 97);
    }
    tg_tensor *x = tg_tensor_new_from(TG_F32, TG_SHAPE(2000), values, NULL);
    bool is_added = tg_tensorboard_add_histogram(events, "x", x, 2, error);
    tg_release(x);
    return is_added;
}

/* A torn record is removed. The retry after a success adds a second one. */
static void check_events(bool is_done)
{
    off_t size = events_size();
    assert_true(is_done ? size > size_before : size == size_before);
}

static void test_events(void **state)
{
    (void)state;
    run_all(&(scenario){prepare_events, add_histogram, check_events, {[WRITE] = 1}});
    tg_tensorboard_free(events);
    events = NULL;
}

static void prepare_nothing(void)
{
}

static bool open_events(tg_error *error)
{
    tg_tensorboard *log = tg_tensorboard_open(folder, error);
    tg_tensorboard_free(log);
    return log != NULL;
}

/* A log that cannot be opened leaves no file. */
static void check_opened(bool is_done)
{
    assert_true(count_files("events") > 0 || !is_done);
    assert_true(is_done || count_files("events") == 0);
}

static void test_opening_events(void **state)
{
    (void)state;
    run_all(&(scenario){prepare_nothing, open_events, check_opened, {[OPEN] = 1, [WRITE] = 1, [CLOSE] = 1}});
}

/* ---- the projector ---- */

static tg_tensorboard *projector;

static bool add_table(const char *tag, tg_error *error)
{
    static const char *const labels[] = {"a", "b", "c"};
    tg_tensor *table = tg_tensor_new_full(TG_F32, TG_SHAPE(3, 1500), 0.123, NULL);
    bool is_added = tg_tensorboard_add_embedding(projector, tag, table, labels, 3, 1, error);
    tg_release(table);
    return is_added;
}

static void prepare_projector(void)
{
    tg_tensorboard_free(projector);
    projector = tg_tensorboard_open(folder, NULL);
    assert_true(add_table("first", NULL));
}

static bool add_second(tg_error *error)
{
    return add_table("second", error);
}

static void assert_same(const char *name, const char *other)
{
    size_t length, other_length;
    char *text = tg_text_read(in_folder(name), &length, NULL);
    char *other_text = tg_text_read(in_folder(other), &other_length, NULL);
    assert_non_null(text);
    assert_non_null(other_text);
    assert_int_equal(length, other_length);
    assert_memory_equal(text, other_text, length);
    tg_text_free(text);
    tg_text_free(other_text);
}

/* The configuration names a table only if its files are whole. */
static void check_projector(bool is_done)
{
    char *config = tg_text_read(in_folder("projector_config.pbtxt"), NULL, NULL);
    assert_non_null(strstr(config, "tensor_name: \"first:00001\""));
    bool has_second = strstr(config, "tensor_name: \"second:00001\"");
    assert_true(has_second || !is_done);
    if (has_second) {
        assert_same("00001/first/tensors.tsv", "00001/second/tensors.tsv");
        assert_same("00001/first/metadata.tsv", "00001/second/metadata.tsv");
    }
    tg_text_free(config);
}

static void test_projector(void **state)
{
    (void)state;
    run_all(&(scenario){prepare_projector,
                        add_second,
                        check_projector,
                        {[OPEN] = 3, [PREAD] = 2, [WRITE] = 3, [FSYNC] = 6, [FCHMOD] = 1, [CLOSE] = 6, [RENAME] = 3}});
    tg_tensorboard_free(projector);
    projector = NULL;
}

static int set_up(void **state)
{
    (void)state;
    allocator_install(&counting);
    return mkdtemp(folder) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    remove_folder();
    allocator_restore();
    return counting.live == 0 ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_checkpoint_folder),
        cmocka_unit_test(test_events),
        cmocka_unit_test(test_opening_events),
        cmocka_unit_test(test_projector),
    };
    return cmocka_run_group_tests_name("faults_of_folders", tests, set_up, tear_down);
}
