/* Replacing files: modes, symbolic links, long names, and paths that are not regular files. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "support.h"

static const char path[] = "test_file.txt";
static const char link_path[] = "test_file.link";

static void write_text(const char *to, const char *text)
{
    tg_error error = TG_NO_ERROR;
    if (!tg_file_replace("test", to, text, strlen(text), &error)) {
        fail_msg("%s", error.text);
    }
}

static void assert_text(const char *from, const char *expected)
{
    char *text = tg_text_read(from, NULL, NULL);
    assert_string_equal(text, expected);
    tg_text_free(text);
}

static void assert_refused(const char *to, tg_code code, const char *expected)
{
    tg_error error = TG_NO_ERROR;
    assert_false(tg_file_replace("test", to, "new", 3, &error));
    assert_error(&error, code, expected);
}

static mode_t mode_of(const char *name)
{
    struct stat status;
    assert_int_equal(stat(name, &status), 0);
    return status.st_mode & 07777;
}

/* A new file gets what the umask leaves, and an old one keeps its mode. The umask itself does not change. */
static void test_modes(void **state)
{
    (void)state;
    static const mode_t masks[] = {0, 022, 077};
    mode_t before = umask(022);
    for (int i = 0; i < 3; i++) {
        umask(masks[i]);
        write_text(path, "new");
        assert_int_equal(mode_of(path), 0666 & ~masks[i]);
        assert_int_equal(chmod(path, 0741), 0);
        write_text(path, "newer");
        assert_int_equal(mode_of(path), 0741);
        assert_text(path, "newer");
        assert_int_equal(umask(masks[i]), masks[i]);
        remove(path);
    }
    umask(before);
}

/* The file that a link names is replaced; the link remains. */
static void test_links(void **state)
{
    (void)state;
    char target[64];
    mkdir("test_file.folder", 0777);
    write_text("test_file.folder/x", "old");
    assert_int_equal(symlink("test_file.folder/link", link_path), 0);
    assert_int_equal(symlink("x", "test_file.folder/link"), 0);
    write_text(link_path, "new");
    assert_text("test_file.folder/x", "new");
    assert_int_equal(readlink(link_path, target, sizeof target), strlen("test_file.folder/link"));
    assert_int_equal(readlink("test_file.folder/link", target, sizeof target), 1);
    /* a link whose target does not exist yet */
    remove("test_file.folder/x");
    write_text(link_path, "again");
    assert_text("test_file.folder/x", "again");
    remove("test_file.folder/link");
    assert_int_equal(symlink("../test_file.link", "test_file.folder/link"), 0);
    assert_refused(link_path, TG_ERROR_FILE, strerror(ELOOP));
    remove("test_file.folder/link");
    remove("test_file.folder/x");
    remove(link_path);
    assert_int_equal(rmdir("test_file.folder"), 0);
}

static void test_paths_that_are_refused(void **state)
{
    (void)state;
    assert_refused(NULL, TG_ERROR_STATE, "test: the path is NULL");
    assert_refused("", TG_ERROR_VALUE, "test: the path is empty");
    assert_refused("/dev/null", TG_ERROR_FILE,
                   "test: write '/dev/null': it is a device or a socket, not a regular file");
    assert_refused(".", TG_ERROR_FILE, "test: write '.': it is a folder, not a regular file");
    assert_refused("no_folder/x", TG_ERROR_FILE, "test: write 'no_folder/x': No such file or directory");
    assert_int_equal(mkfifo(path, 0666), 0);
    assert_refused(path, TG_ERROR_FILE, "test: write 'test_file.txt': it is a pipe, not a regular file");
    tg_error error = TG_NO_ERROR;
    tg_file file;
    assert_false(tg_file_open(&file, "test", path, &error));
    assert_error(&error, TG_ERROR_FILE, "test: open 'test_file.txt': it is a pipe, not a regular file");
    assert_false(tg_file_open(&file, "test", ".", &error));
    assert_error(&error, TG_ERROR_FILE, "test: open '.': it is a folder, not a regular file");
    remove(path);
}

/* The temporary file fits where the name is as long as a name can be, and one that exists is not touched. */
static void test_names(void **state)
{
    (void)state;
    char name[256], temporary[64];
    memset(name, 'x', 255);
    name[255] = '\0';
    write_text(name, "long");
    assert_text(name, "long");
    remove(name);
    snprintf(temporary, sizeof temporary, ".tapegrad-%lld-0.tmp", (long long)getpid());
    write_text(temporary, "somebody else's");
    write_text(path, "mine");
    assert_text(path, "mine");
    assert_text(temporary, "somebody else's");
    remove(temporary);
    remove(path);
}

/* A reader that has the old file open goes on with the old bytes. */
static void test_readers_keep_the_old_file(void **state)
{
    (void)state;
    char bytes[4] = "";
    tg_file file;
    write_text(path, "old");
    assert_true(tg_file_open(&file, "test", path, NULL));
    write_text(path, "new and longer");
    assert_int_equal(file.size, 3);
    assert_true(tg_file_read(&file, 0, bytes, 3, NULL));
    assert_string_equal(bytes, "old");
    tg_file_close(&file);
    assert_text(path, "new and longer");
    remove(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_modes),
        cmocka_unit_test(test_links),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_paths_that_are_refused),
        cmocka_unit_test(test_readers_keep_the_old_file),
    };
    return cmocka_run_group_tests_name("file", tests, NULL, NULL);
}
