/* TensorBoard's files: the bytes are those of Python's writers, and a call that fails leaves no part of a record. */
#include "support.h"

#include <dirent.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "tools/event.h"

#define TIME 1700000000.25

static void add_histogram(tg_text_buffer *out, const char *tag, const double *values, int64_t count)
{
    static tg_histogram histogram;
    tg_tensor *x = tensor_f64(TG_SHAPE(count), values);
    assert_true(tg_histogram_make(&histogram, x));
    tg_event_histogram(out, TIME, 7, tag, &histogram);
    tg_release(x);
}

/* The records of make_tensorboard.py. */
static void test_bytes_are_pythons(void **state)
{
    (void)state;
    tg_text_buffer out = {0};
    tg_event_version(&out, TIME);
    tg_event_scalar(&out, TIME, 0, "loss", 0.5);
    tg_event_scalar(&out, TIME, 300, "loss/train", -1.1);
    tg_event_scalar(&out, TIME, (int64_t)1 << 40,
                    "gr\xc3\xb6\xc3\x9f"
                    "e",
                    0);
    tg_event_scalar(&out, TIME, 1, "inf", INFINITY);
    double many[101];
    for (int i = 0; i < 101; i++) {
        many[i] = (double)(i - 50) * (i - 50) * (i - 50) / 1024;
    }
    add_histogram(&out, "many", many, 101);
    add_histogram(&out, "one", (double[]){0.25}, 1);
    add_histogram(&out, "zero", (double[]){0, 0, 0}, 3);
    add_histogram(&out, "below", (double[]){-3, -0.5}, 2);
    add_histogram(&out, "far", (double[]){-1e30, 2, 1e25, 4}, 4);
    assert_false(out.failed);
    size_t length;
    char *expected = tg_text_read(TG_TEST_GOLDENS "/tensorboard/events", &length, NULL);
    assert_int_equal(out.length, length);
    assert_memory_equal(out.bytes, expected, length);
    tg_text_free(expected);
    tg_free(out.bytes);
}

/* All floats, and all layouts: a transposed view of f32 has the histogram of its values. */
static void test_histograms_of_tensors(void **state)
{
    (void)state;
    static tg_histogram a, b;
    const float values[6] = {1, 2, NAN, -4, INFINITY, 0.5F};
    tg_tensor *x = tensor_f32(TG_SHAPE(2, 3), values);
    tg_tape *tape = tg_tape_new(NULL, NULL);
    tg_tensor *view = tg_transpose(tape, x, 0, 1);
    assert_true(tg_histogram_make(&a, x));
    assert_true(tg_histogram_make(&b, view));
    assert_memory_equal(&a, &b, sizeof a);
    assert_true(a.num == 4 && a.min == -4 && a.max == 2 && a.sum == -0.5 && a.sum_squares == 21.25);
    tg_tape_free(tape);
    tg_release(x);
}

/* ---- folders ---- */

static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/tapegrad-tensorboard-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    char command[100];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

static const char *in_folder(const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

/* Returns the number of files of events in the folder, and the path of one. */
static int event_files(char *path, size_t size)
{
    int count = 0;
    DIR *list = opendir(in_folder("run/first"));
    assert_non_null(list);
    for (struct dirent *entry; (entry = readdir(list));) {
        long long seconds, process;
        int number;
        if (entry->d_name[0] != '.') {
            char host[256];
            assert_int_equal(
                sscanf(entry->d_name, "events.out.tfevents.%10lld.%255[^.].%lld.%d", &seconds, host, &process, &number),
                4);
            assert_int_equal(process, getpid());
            snprintf(path, size, "%s/run/first/%s", folder, entry->d_name);
            count++;
        }
    }
    closedir(list);
    return count;
}

static int64_t size_of(const char *path)
{
    struct stat status;
    assert_int_equal(stat(path, &status), 0);
    return status.st_size;
}

static void test_a_run_and_its_continuation(void **state)
{
    (void)state;
    char path[512];
    tg_error error = TG_NO_ERROR;
    tg_tensorboard *log = tg_tensorboard_open(in_folder("run/first"), &error);
    assert_non_null(log);
    assert_int_equal(event_files(path, sizeof path), 1);
    int64_t size = size_of(path);
    assert_true(tg_tensorboard_add_scalar(log, "loss", 1.5, 1, &error));
    assert_int_equal(size_of(path) - size, 16 + 9 + 2 + 2 + 2 + 2 + 4 + 5); /* 16 bytes of the frame; the fields */
    tg_tensorboard *again = tg_tensorboard_open(in_folder("run/first"), &error);
    assert_non_null(again);
    assert_int_equal(event_files(path, sizeof path), 2);
    tg_tensorboard_free(log);
    tg_tensorboard_free(again);
    assert_null(tg_tensorboard_open("/dev/null/run", &error));
    assert_error(&error, TG_ERROR_FILE, "tensorboard_open: create the folder '/dev/null': File exists");
    assert_null(tg_tensorboard_open("", &error));
    assert_error(&error, TG_ERROR_VALUE, "tensorboard_open: the folder is empty");
}

/* The disk is full in the middle of a record. */
static void test_no_part_of_a_record_stays(void **state)
{
    (void)state;
    char path[512];
    tg_error error = TG_NO_ERROR;
    tg_tensorboard *log = tg_tensorboard_open(in_folder("run/first"), &error);
    assert_int_equal(event_files(path, sizeof path), 1);
    int64_t size = size_of(path);
    struct rlimit before, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = (rlim_t)size + 20;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    assert_false(tg_tensorboard_add_scalar(log, "loss", 1.5, 1, &error));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, SIG_DFL);
    assert_error(&error, TG_ERROR_FILE, "tensorboard_add_scalar: write '");
    assert_int_equal(size_of(path), size);
    assert_true(tg_tensorboard_add_scalar(log, "loss", 1.5, 1, &error));
    assert_true(size_of(path) > size + 20);
    tg_tensorboard_free(log);
}

static void assert_text(const char *name, const char *expected)
{
    char *text = tg_text_read(in_folder(name), NULL, NULL);
    assert_non_null(text);
    assert_string_equal(text, expected);
    tg_text_free(text);
}

static void test_projector(void **state)
{
    (void)state;
    tg_error error = TG_NO_ERROR;
    tg_tensorboard *log = tg_tensorboard_open(in_folder("run/first"), &error);
    tg_tensor *table = tensor_f32(TG_SHAPE(3, 2), (float[]){0.1F, -2, 1e-20F, 3, 0, 16777216});
    const char *labels[] = {"\t\"\\b\n", "  ", "\xc3\xa9\x01\xff"};
    assert_true(tg_tensorboard_add_embedding(log, "tok_emb.weight", table, labels, 3, 12, &error));
    assert_text("run/first/00012/tok_emb.weight/tensors.tsv", "0.100000001\t-2\n9.99999968e-21\t3\n0\t16777216\n");
    assert_text("run/first/00012/tok_emb.weight/metadata.tsv", "\\x09\"\\b\\n\n\"  \"\n\xc3\xa9\\x01\\xff\n");
    const char first[] = "embeddings {\ntensor_name: \"tok_emb.weight:00012\"\n"
                         "tensor_path: \"00012/tok_emb.weight/tensors.tsv\"\n"
                         "metadata_path: \"00012/tok_emb.weight/metadata.tsv\"\n}\n";
    assert_text("run/first/projector_config.pbtxt", first);
    /* a second table is added, the first one once */
    assert_true(tg_tensorboard_add_embedding(log, "pos", table, NULL, 0, 0, &error));
    assert_true(tg_tensorboard_add_embedding(log, "tok_emb.weight", table, labels, 3, 12, &error));
    char both[1024];
    snprintf(both, sizeof both,
             "%sembeddings {\ntensor_name: \"pos:00000\"\ntensor_path: \"00000/pos/tensors.tsv\"\n}\n", first);
    assert_text("run/first/projector_config.pbtxt", both);

    /* a table that fails is not in the list */
    *(float *)tg_tensor_data_mut(table) = NAN;
    assert_false(tg_tensorboard_add_embedding(log, "bad", table, NULL, 0, 0, &error));
    assert_error(&error, TG_ERROR_VALUE, "tensorboard_add_embedding: the value nan at [0,0] is not finite");
    assert_text("run/first/projector_config.pbtxt", both);
    tg_release(table);
    tg_tensorboard_free(log);
}

static void test_errors(void **state)
{
    (void)state;
    tg_error error = TG_NO_ERROR;
    tg_tensorboard *log = tg_tensorboard_open(in_folder("run/first"), &error);
    tg_tensor *x = tensor_f32(TG_SHAPE(2), (float[]){NAN, INFINITY}), *ids = tensor_i32(TG_SHAPE(1), (int32_t[]){1});
    tg_tensor *table = tensor_f32(TG_SHAPE(2, 1), (float[]){1, 2});
    assert_false(tg_tensorboard_add_scalar(log, "", 1, 1, &error));
    assert_error(&error, TG_ERROR_VALUE, "tensorboard_add_scalar: the tag is empty");
    assert_false(tg_tensorboard_add_scalar(log, "a\xff", 1, 1, &error));
    assert_error(&error, TG_ERROR_VALUE, "tensorboard_add_scalar: the tag is not UTF-8");
    assert_false(tg_tensorboard_add_scalar(log, "a", 1, -1, &error));
    assert_error(&error, TG_ERROR_VALUE, "tensorboard_add_scalar: step -1; it must be at least 0");
    assert_false(tg_tensorboard_add_histogram(log, "a", x, 1, &error));
    assert_error(&error, TG_ERROR_VALUE, "tensorboard_add_histogram: no value of 'a' is within +-1e20");
    assert_false(tg_tensorboard_add_histogram(log, "a", ids, 1, &error));
    assert_error(&error, TG_ERROR_DTYPE, "tensorboard_add_histogram: the tensor is i32; it must be f32 or f64");
    assert_false(tg_tensorboard_add_embedding(log, "a/b", table, NULL, 0, 1, &error));
    assert_error(&error, TG_ERROR_VALUE, "the tag 'a/b' is not a name");
    assert_false(tg_tensorboard_add_embedding(log, "..", table, NULL, 0, 1, &error));
    assert_error(&error, TG_ERROR_VALUE, "the tag '..' is not a name");
    assert_false(tg_tensorboard_add_embedding(log, "a", x, NULL, 0, 1, &error));
    assert_error(&error, TG_ERROR_SHAPE, "the table has rank 1 and 2 rows");
    assert_false(tg_tensorboard_add_embedding(log, "a", table, (const char *[]){"x"}, 1, 1, &error));
    assert_error(&error, TG_ERROR_SHAPE, "the table has rank 2 and 2 rows, for 1 labels");
    assert_false(tg_tensorboard_add_embedding(log, "a", table, (const char *[]){"x", NULL}, 2, 1, &error));
    assert_error(&error, TG_ERROR_STATE, "label 1 is NULL");
    tg_release(x);
    tg_release(ids);
    tg_release(table);
    tg_tensorboard_free(log);
}

/* Every allocation fails once: MEMORY, nothing leaks, and the file has complete records only. */
static void test_out_of_memory(void **state)
{
    (void)state;
    tg_tensor *table = tensor_f32(TG_SHAPE(2, 1), (float[]){1, 2});
    counting_allocator counting;
    allocator_install(&counting);
    bool finished = false;
    for (size_t k = 1; !finished; k++) {
        allocator_arm(&counting, k, false);
        tg_error error = TG_NO_ERROR;
        tg_tensorboard *log = tg_tensorboard_open(in_folder("run/first"), &error);
        finished = log && tg_tensorboard_add_scalar(log, "loss", 1, 1, &error) &&
                   tg_tensorboard_add_histogram(log, "table", table, 1, &error) &&
                   tg_tensorboard_add_embedding(log, "table", table, (const char *[]){"a", "b"}, 2, 1, &error);
        assert_int_equal(error.code, finished ? TG_OK : TG_ERROR_MEMORY);
        tg_tensorboard_free(log);
        assert_int_equal(counting.live, 0);
    }
    allocator_restore();
    assert_text("run/first/00001/table/tensors.tsv", "1\n2\n");
    assert_text("run/first/00001/table/metadata.tsv", "a\nb\n");
    assert_text("run/first/projector_config.pbtxt", "embeddings {\ntensor_name: \"table:00001\"\n"
                                                    "tensor_path: \"00001/table/tensors.tsv\"\n"
                                                    "metadata_path: \"00001/table/metadata.tsv\"\n}\n");
    tg_release(table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes_are_pythons),
        cmocka_unit_test(test_histograms_of_tensors),
        cmocka_unit_test_setup_teardown(test_a_run_and_its_continuation, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_no_part_of_a_record_stays, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_projector, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_errors, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_out_of_memory, make_folder, remove_folder),
    };
    return cmocka_run_group_tests_name("tensorboard", tests, NULL, NULL);
}
