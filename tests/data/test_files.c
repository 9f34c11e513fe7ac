/* Files that cannot be read or written: the error names the file and the reason, the old file stays as it was, and no
 * temporary file remains. */
#include "support.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "files.XXXXXX", path[64];
static tg_error error;

static int set_up(void **state)
{
    (void)state;
    strcpy(folder + strlen("files."), "XXXXXX");
    tg_error_clear(&error);
    return mkdtemp(folder) ? 0 : -1;
}

/* Returns the number of entries of the folder. */
static int entries(void)
{
    int count = 0;
    DIR *opened = opendir(folder);
    while (opened && readdir(opened)) {
        count++;
    }
    closedir(opened);
    return count - 2; /* . and .. */
}

static int tear_down(void **state)
{
    (void)state;
    return rmdir(folder);
}

static const char *in_folder(const char *name)
{
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static bool write_ids(const char *to, int32_t first)
{
    const int32_t ids[] = {first, 2, 3};
    return tg_token_file_write(to, 2, ids, 3, &error);
}

static void test_a_folder_is_not_a_text(void **state)
{
    (void)state;
    size_t length = 7;
    assert_null(tg_text_read(folder, &length, &error));
    assert_int_equal(length, 0);
    assert_error(&error, TG_ERROR_FILE, "it is a folder, not a regular file");
    assert_null(tg_tokenizer_open(folder, NULL, &error));
    assert_error(&error, TG_ERROR_FILE, folder);
    assert_null(tg_token_file_open(folder, 2, &error));
    assert_error(&error, TG_ERROR_FILE, folder);
}

static void test_missing(void **state)
{
    (void)state;
    assert_null(tg_text_read(in_folder("missing"), NULL, &error));
    assert_error(&error, TG_ERROR_FILE, strerror(ENOENT));
    assert_null(tg_token_file_open(path, 4, &error));
    assert_error(&error, TG_ERROR_FILE, strerror(ENOENT));
    assert_false(write_ids(in_folder("missing/ids"), 1));
    assert_error(&error, TG_ERROR_FILE, strerror(ENOENT));
    assert_int_equal(entries(), 0);
}

static void test_paths_and_counts(void **state)
{
    (void)state;
    assert_false(write_ids("", 1));
    assert_error(&error, TG_ERROR_VALUE, "the path is empty");
    assert_false(tg_token_file_write(in_folder("ids"), 3, (int32_t[]){1}, 1, &error));
    assert_error(&error, TG_ERROR_VALUE, "3 bytes per id; it must be 2 or 4");
    assert_false(tg_token_file_write(path, 2, (int32_t[]){1}, -1, &error));
    assert_error(&error, TG_ERROR_VALUE, "-1 ids; it must be 0 or more");
    assert_false(tg_token_file_write(path, 2, (int32_t[]){1, 65536}, 2, &error));
    assert_error(&error, TG_ERROR_RANGE, "id 65536 at index 1");
    assert_int_equal(entries(), 0);
    assert_true(tg_token_file_write(path, 2, NULL, 0, &error));
    tg_token_file *file = tg_token_file_open(path, 2, &error);
    assert_non_null(file);
    assert_int_equal(tg_token_file_count(file), 0);
    int32_t id = 7;
    assert_true(tg_token_file_read(file, 0, 0, &id, &error));
    assert_false(tg_token_file_read(file, 0, 1, &id, &error));
    assert_error(&error, TG_ERROR_RANGE, "1 ids from index 0 on; the file has 0");
    assert_false(tg_token_file_read(file, -1, 1, &id, &error));
    assert_error(&error, TG_ERROR_RANGE, "from index -1 on");
    assert_false(tg_token_file_read(file, 0, -1, &id, &error));
    assert_error(&error, TG_ERROR_RANGE, "-1 ids");
    assert_false(tg_token_file_read(file, INT64_MAX, INT64_MAX, &id, &error));
    assert_error(&error, TG_ERROR_RANGE, "the file has 0");
    assert_int_equal(id, 7);
    tg_token_file_free(file);
    assert_int_equal(unlink(path), 0);
}

/* A name without a folder is in the working folder. */
static void test_a_name_alone(void **state)
{
    (void)state;
    char start[4096];
    assert_non_null(getcwd(start, sizeof start));
    assert_int_equal(chdir(folder), 0);
    assert_true(write_ids("ids", 1));
    assert_int_equal(chdir(start), 0);
    assert_int_equal(entries(), 1);
    assert_int_equal(unlink(in_folder("ids")), 0);
}

static void test_a_folder_is_not_replaced(void **state)
{
    (void)state;
    assert_int_equal(mkdir(in_folder("inner"), 0777), 0);
    assert_false(write_ids(path, 1));
    assert_error(&error, TG_ERROR_FILE, "it is a folder, not a regular file");
    assert_int_equal(entries(), 1);
    assert_int_equal(rmdir(path), 0);
}

/* A pipe that nobody writes to is refused without waiting for a writer, by every call that reads a file of data. */
static void test_pipes(void **state)
{
    (void)state;
    assert_int_equal(mkfifo(in_folder("pipe"), 0666), 0);
    alarm(10);
    for (int reader = 0; reader < 4; reader++) {
        static const char *const calls[] = {"text_read", "token_file_open", "csv_open", "text_read"};
        /* the last one has a writer: a pipe is refused in any case */
        int writer = reader == 3 ? open(path, O_RDWR) : -1;
        const void *opened = reader == 1   ? (void *)tg_token_file_open(path, 2, &error)
                             : reader == 2 ? (void *)tg_csv_open(path, NULL, &error)
                                           : (void *)tg_text_read(path, NULL, &error);
        assert_null(opened);
        char message[200];
        snprintf(message, sizeof message, "%s: open '%s': it is a pipe, not a regular file", calls[reader], path);
        assert_error(&error, TG_ERROR_FILE, message);
        assert_true(writer < 0 || close(writer) == 0);
    }
    assert_false(write_ids(path, 1));
    assert_error(&error, TG_ERROR_FILE, "it is a pipe, not a regular file");
    alarm(0);
    assert_int_equal(entries(), 1);
    assert_int_equal(unlink(path), 0);
}

/* A full disk, for which a limit of the size of files stands in. */
static void test_a_write_that_fails_keeps_the_old_file(void **state)
{
    (void)state;
    assert_true(write_ids(in_folder("ids"), 1));
    struct rlimit before, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 2;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    bool is_written = write_ids(path, 9);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, handler);
    assert_false(is_written);
    assert_error(&error, TG_ERROR_FILE, strerror(EFBIG));
    assert_int_equal(entries(), 1);
    tg_token_file *file = tg_token_file_open(path, 2, &error);
    int32_t ids[3];
    assert_true(tg_token_file_read(file, 0, 3, ids, &error));
    assert_int_equal(ids[0], 1);
    tg_token_file_free(file);
    assert_int_equal(unlink(path), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_folder_is_not_a_text, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_missing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_paths_and_counts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_name_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_folder_is_not_replaced, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_pipes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_write_that_fails_keeps_the_old_file, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("files", tests, NULL, NULL);
}
