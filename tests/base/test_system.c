/* The calls of lib/system on every system: paths that are not ASCII, a file that is replaced while it is read, locks,
 * names that exist, and how errors are told; and loops in threads. */
#include "support.h"

#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <string.h>
#if defined __linux__
#include <unistd.h>
#endif

#include "base/file.h"
#include "system/system.h"

/* "größe λ": a folder that this test makes, removes and makes again. */
#define FOLDER "test_system_gr\xc3\xb6\xc3\x9f\x65_\xce\xbb"
#define FILE_A FOLDER "/a_\xd0\x96.txt"
#define FILE_B FOLDER "/b.txt"

static const char *const files[] = {FILE_A,         FILE_B,        FOLDER "/lock", FOLDER "/step-00000007.safetensors",
                                    FOLDER "/last", FOLDER "/best"};

static int set_up(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        tg_system_remove(files[i]);
    }
    errno = 0;
    return tg_system_make_folder(FOLDER) || errno == EEXIST ? 0 : -1;
}

static void write_file(const char *path, const char *text)
{
    tg_error error = TG_NO_ERROR;
    assert_true(tg_file_replace("test", path, text, strlen(text), &error));
}

static void expect_text(const char *path, const char *expected)
{
    tg_error error = TG_NO_ERROR;
    char *text = tg_file_read_text("test", path, NULL, &error);
    assert_non_null(text);
    assert_string_equal(text, expected);
    tg_free(text);
}

static void test_kinds_of_paths(void **state)
{
    (void)state;
    write_file(FILE_A, "abc\r\n\x1a");
    tg_path_status status = tg_system_status(FILE_A);
    assert_int_equal(status.kind, TG_PATH_FILE);
    assert_int_equal(status.size, 6);
    assert_int_equal(tg_system_status(FOLDER).kind, TG_PATH_FOLDER);
    errno = 0;
    assert_int_equal(tg_system_status(FILE_B).kind, TG_PATH_NONE);
    assert_int_equal(errno, ENOENT);
    errno = 0;
    assert_false(tg_system_make_folder(FOLDER));
    assert_int_equal(errno, EEXIST);
    assert_false(tg_system_make_folder(FOLDER "/none/of/these"));
    assert_int_equal(errno, ENOENT);
    assert_false(tg_system_remove(FILE_B));
    assert_int_equal(errno, ENOENT);
    tg_error error = TG_NO_ERROR;
    assert_null(tg_file_read_text("test", FOLDER, NULL, &error));
    assert_error(&error, TG_ERROR_FILE, "it is a folder, not a regular file");
    assert_null(tg_file_read_text("test", FILE_B, NULL, &error));
    assert_error(&error, TG_ERROR_FILE, "No such file or directory");
}

/* No byte of a file is changed, and each can be read by itself. */
static void test_bytes(void **state)
{
    (void)state;
    char bytes[256], found[256];
    for (int i = 0; i < 256; i++) {
        bytes[i] = (char)i;
    }
    int file = tg_system_open(FILE_A, TG_OPEN_NEW);
    assert_true(file >= 0);
    assert_int_equal(tg_system_write(file, bytes, 256), 256);
    assert_true(tg_system_seek(file, 10));
    assert_int_equal(tg_system_write(file, "xy", 2), 2);
    assert_true(tg_system_sync(file) && tg_system_close(file));
    memcpy(bytes + 10, "xy", 2);
    errno = 0;
    assert_int_equal(tg_system_open(FILE_A, TG_OPEN_NEW), -1);
    assert_int_equal(errno, EEXIST);
    file = tg_system_open(FILE_A, TG_OPEN_READ);
    assert_int_equal(tg_system_status_of(file).size, 256);
    assert_int_equal(tg_system_read_at(file, found, 6, 250), 6);
    assert_memory_equal(found, bytes + 250, 6);
    assert_int_equal(tg_system_read_at(file, found, 6, 256), 0);
    tg_system_will_read(file, 6, 250);
    assert_int_equal(tg_system_read_at(file, found, 256, 0), 256);
    assert_memory_equal(found, bytes, 256);
    assert_true(tg_system_close(file));
    assert_true(tg_system_remove(FILE_A));
    file = tg_system_open(FILE_A, TG_OPEN_APPEND);
    assert_int_equal(tg_system_write(file, "abcdef", 6), 6);
    assert_true(tg_system_set_size(file, 3));
    assert_int_equal(tg_system_write(file, "gh", 2), 2);
    assert_true(tg_system_close(file));
    expect_text(FILE_A, "abcgh");
}

/* Who has opened a file reads the old one to its end; who opens it later reads the new one. */
static void test_replaced_while_open(void **state)
{
    (void)state;
    char text[4] = "";
    write_file(FILE_A, "old");
    tg_file old;
    tg_error error = TG_NO_ERROR;
    assert_true(tg_file_open(&old, "test", FILE_A, &error));
    write_file(FILE_A, "new one");
    assert_true(tg_file_read(&old, 0, text, 3, &error));
    assert_string_equal(text, "old");
    expect_text(FILE_A, "new one");
    tg_file_close(&old);
    expect_text(FILE_A, "new one");
    write_file(FILE_B, "b");
    assert_true(tg_system_rename(FILE_B, FILE_A));
    expect_text(FILE_A, "b");
    assert_false(tg_system_rename(FILE_B, FILE_A));
    assert_int_equal(errno, ENOENT);
    expect_text(FILE_A, "b");
}

static void note(void *context, const char *name)
{
    int *found = context;
    *found |= strcmp(name, "a_\xd0\x96.txt") == 0 ? 1 : strcmp(name, "b.txt") == 0 ? 2 : name[0] == '.' ? 0 : 4;
}

static void test_names_in_a_folder(void **state)
{
    (void)state;
    int found = 0;
    write_file(FILE_A, "a");
    write_file(FILE_B, "b");
    assert_int_equal(tg_system_visit(FOLDER, note, &found), 0);
    assert_int_equal(found, 3);
    assert_int_equal(tg_system_visit(FOLDER "/none", note, &found), ENOENT);
    assert_true(tg_system_sync_folder(FOLDER) && tg_system_sync_folder(FOLDER "/none"));
}

static void test_locks(void **state)
{
    (void)state;
#if !defined __wasm__ /* it has one process, and no locks */
    int first = tg_system_open(FOLDER "/lock", TG_OPEN_LOCK), second = tg_system_open(FOLDER "/lock", TG_OPEN_LOCK);
    assert_true(first >= 0 && second >= 0);
    assert_true(tg_system_lock(first));
    errno = 0;
    assert_false(tg_system_lock(second));
    assert_int_equal(errno, EWOULDBLOCK);
    tg_system_unlock(first);
    assert_true(tg_system_lock(second));
    assert_false(tg_system_lock(first));
    assert_true(tg_system_close(second)); /* frees the lock */
    assert_true(tg_system_lock(first));
    assert_true(tg_system_close(first));
    tg_error error = TG_NO_ERROR;
    tg_checkpoint_folder *folder = tg_checkpoint_folder_open(FOLDER, NULL, &error);
    assert_non_null(folder);
    assert_null(tg_checkpoint_folder_open(FOLDER, NULL, &error));
    assert_error(&error, TG_ERROR_STATE, "another run writes to '" FOLDER "'");
    tg_checkpoint_folder_free(folder);
#endif
}

/* Checkpoints are written, found, replaced and removed in the folder. */
static void test_checkpoints(void **state)
{
    (void)state;
    tg_error error = TG_NO_ERROR;
    tg_checkpoint_folder *folder = tg_checkpoint_folder_open(FOLDER, NULL, &error);
    assert_non_null(folder);
    for (int i = 0; i < 2; i++) {
        tg_checkpoint_part part = tg_checkpoint_text("note", i ? "second" : "first");
        assert_true(tg_checkpoint_folder_save(folder, 7, true, &part, 1, &error));
        char *path = tg_checkpoint_find(FOLDER, TG_CHECKPOINT_BEST, &error);
        char *text = tg_checkpoint_read_text(path, "note", &error);
        assert_string_equal(text, i ? "second" : "first");
        tg_text_free(text);
        tg_text_free(path);
    }
    assert_true(tg_checkpoint_folder_clear(folder, &error));
    assert_null(tg_checkpoint_find(FOLDER, TG_CHECKPOINT_BEST, &error));
    tg_checkpoint_folder_free(folder);
}

static void test_process(void **state)
{
    (void)state;
    char host[64];
    memset(host, 'x', sizeof host);
    tg_system_host(host, sizeof host);
    assert_non_null(memchr(host, '\0', sizeof host));
    assert_true(tg_system_pid() > 0);
    assert_true(tg_system_processors() >= 1);
}

#if defined __linux__

#define GROUPS "test_system_groups"

/* The limit of a process in the groups that a list names. */
static int limit_of(const char *list)
{
    write_file(GROUPS "/list", list);
    return tg_system_processor_limit(GROUPS "/list", GROUPS);
}

static void test_limits_of_control_groups(void **state)
{
    (void)state;
    static const char *const folders[] = {GROUPS,        GROUPS "/a",     GROUPS "/a/b",
                                          GROUPS "/cpu", GROUPS "/cpu/c", GROUPS "/cpu/c/d"};
    static const char *const made[][2] = {
        {GROUPS "/a/cpu.max", "150000 100000\n"},         {GROUPS "/a/b/cpu.max", "max 100000\n"},
        {GROUPS "/cpu/cpu.cfs_quota_us", "-1\n"},         {GROUPS "/cpu/cpu.cfs_period_us", "100000\n"},
        {GROUPS "/cpu/c/cpu.cfs_quota_us", "300000\n"},   {GROUPS "/cpu/c/cpu.cfs_period_us", "100000\n"},
        {GROUPS "/cpu/c/d/cpu.cfs_quota_us", "400001\n"}, {GROUPS "/cpu/c/d/cpu.cfs_period_us", "100000\n"},
    };
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        assert_true(tg_system_make_folder(folders[i]) || errno == EEXIST);
    }
    tg_system_remove(GROUPS "/cpu.max"); /* of a test that did not end */
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
        write_file(made[i][0], made[i][1]);
    }
    assert_int_equal(limit_of("0::/\n"), INT_MAX);
    assert_int_equal(limit_of("0::/a\n"), 2); /* rounded up */
    assert_int_equal(limit_of("0::/a/b\n"), 2);
    assert_int_equal(limit_of("0::/not/there\n"), INT_MAX);
    assert_int_equal(limit_of("4:cpu,cpuacct:/c\n"), 3);
    assert_int_equal(limit_of("4:cpuacct,cpu:/c/d"), 3);
    assert_int_equal(limit_of("7:memory:/c\n4:cpu:/\n"), INT_MAX);
    assert_int_equal(limit_of("4:cpuset:/c\n"), INT_MAX);
    assert_int_equal(limit_of("4:cpu:/c/d\n0::/a\n"), 2);
    assert_int_equal(limit_of("0::/a\n4:cpu:/c\n"), 2);
    write_file(GROUPS "/cpu.max", "100000 100000\n"); /* of a container, whose list has names of the host */
    assert_int_equal(limit_of("0::/not/there\n"), 1);
    static const char *const bad[] = {"", "0 0", "5 0", "-5 100", "x", "1000000000000 1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        write_file(GROUPS "/cpu.max", bad[i]);
        assert_int_equal(limit_of("0::/\n"), INT_MAX);
    }
    char line[6000];
    for (int length = 240; length < 260; length++) { /* of the name of a list */
        snprintf(line, sizeof line, "1:cpu,%*s:/c\n", length, "x");
        assert_int_equal(limit_of(line), 4 + length <= 253 ? 3 : INT_MAX);
    }
    write_file(GROUPS "/cpu.max", "700000 100000");
    for (int length = 4070; length < 4110; length++) { /* of a path: the end of a longer line is a line of its own */
        snprintf(line, sizeof line, "0::/%*s/a\n", length, "x");
        assert_int_equal(limit_of(line), 7);
    }
    tg_system_remove(GROUPS "/cpu.max");
    assert_int_equal(limit_of(""), INT_MAX);
    assert_int_equal(limit_of("a\n0:\n:::\n1:cpu\n"), INT_MAX);
    assert_int_equal(tg_system_processor_limit(GROUPS "/none", GROUPS), INT_MAX);
    tg_system_remove(GROUPS "/list");
    tg_system_remove(GROUPS "/cpu.max");
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
        assert_true(tg_system_remove(made[i][0]));
    }
    for (size_t i = sizeof folders / sizeof *folders; i-- > 0;) {
        assert_int_equal(rmdir(folders[i]), 0);
    }
}

#endif

static void add(void *context, int64_t begin, int64_t end)
{
    _Atomic int64_t *sum = context;
    for (int64_t i = begin; i < end; i++) {
        *sum += i;
    }
}

static void test_threads(void **state)
{
    (void)state;
    int before = tg_threads();
    assert_true(tg_set_threads(4, NULL));
    for (int i = 0; i < 100; i++) {
        _Atomic int64_t sum = 0;
        tg_parallel_for(1000, 10, add, &sum);
        assert_int_equal(sum, 499500);
    }
    assert_true(tg_set_threads(before, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_kinds_of_paths, set_up),
        cmocka_unit_test_setup(test_bytes, set_up),
        cmocka_unit_test_setup(test_replaced_while_open, set_up),
        cmocka_unit_test_setup(test_names_in_a_folder, set_up),
        cmocka_unit_test_setup(test_locks, set_up),
        cmocka_unit_test_setup(test_checkpoints, set_up),
        cmocka_unit_test_setup(test_process, set_up),
#if defined __linux__
        cmocka_unit_test(test_limits_of_control_groups),
#endif
        cmocka_unit_test_setup(test_threads, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
