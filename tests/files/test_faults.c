/* Faults of the system: each call that reads, writes, flushes, closes or renames fails once, and the disk is full after
 * every 4 KB. A call then reports the error, frees everything, and leaves the old file as it is; a retry succeeds.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tapegrad_text.h>

#include "base/file.h"
#include "fault_actions.h"

/* ---- the state of the process and the folder ---- */

static int free_descriptor(void)
{
    int file = dup(0);
    assert_true(file >= 0);
    close(file);
    return file;
}

static int files_in_folder(void)
{
    DIR *folder = opendir(FOLDER);
    int count = 0;
    while (readdir(folder)) {
        count++;
    }
    closedir(folder);
    return count;
}

static double checksum(const tg_params *params)
{
    double sum = 0;
    for (int64_t i = 0; i < tg_params_count(params); i++) {
        const tg_tensor *x = tg_params_at(params, i).tensor;
        for (int64_t k = 0; k < tg_tensor_count(x); k++) {
            sum += tg_tensor_value_at(x, k) * (double)(k + 1 + 1000 * i);
        }
    }
    return sum;
}

static tg_params *make_params(uint64_t seed)
{
    tg_run *run = tg_run_new(seed);
    tg_params *params = tg_params_new(run, TG_F32);
    tg_params_add_normal(params, "tok_emb.weight", tg_shape_make(2, (int64_t[]){200, 16}), 0, 1);
    tg_params_add_normal(params, "head.weight", tg_shape_make(2, (int64_t[]){5, 16}), 0, 1);
    tg_params_add_normal(params, "head.bias", tg_shape_make(1, (int64_t[]){5}), 0, 1);
    tg_run_free(run);
    return params;
}

static int set_up(void **state)
{
    world *w = calloc(1, sizeof *w);
    fault_disarm();
    allocator_install(&w->counting);
    w->old = make_params(1);
    w->new = make_params(2);
    w->loaded = make_params(3);
    w->x = tg_tensor_new_full(TG_F64, tg_shape_make(1, (int64_t[]){1000}), 3, NULL);
    static const char text[] = "the cat sat on the mat, the cat saw the dog";
    w->old_bpe = tg_tokenizer_train(text, sizeof text - 1, 258, NULL);
    w->new_bpe = tg_tokenizer_train(text, sizeof text - 1, 262, NULL);
    strcpy(w->folder, "test_faults.XXXXXX");
    assert_non_null(mkdtemp(w->folder));
    assert_int_equal(chdir(w->folder), 0);
    *state = w;
    return 0;
}

static int tear_down(void **state)
{
    world *w = *state;
    fault_disarm();
    for (size_t i = 0; i < action_count; i++) {
        remove(actions[i].path ? actions[i].path : "");
    }
    tg_params_free(w->old);
    tg_params_free(w->new);
    tg_params_free(w->loaded);
    tg_release(w->x);
    tg_tokenizer_free(w->old_bpe);
    tg_tokenizer_free(w->new_bpe);
    bool is_clean = w->counting.live == 0 && chdir("..") == 0 && rmdir(w->folder) == 0;
    allocator_restore();
    free(w);
    return is_clean ? 0 : -1;
}

/* ---- the tests ---- */

static size_t possible_actions(const world *w)
{
    return w->old_bpe ? action_count : action_count - TOKENIZER_ACTIONS;
}

/* The old file, what exists beside it, and what the process holds: all that a call that fails must not change. */
typedef struct snapshot {
    char *bytes;
    size_t length, live;
    int files, descriptor;
    double sum;
} snapshot;

static snapshot take_snapshot(world *w, const action *a)
{
    snapshot s = {NULL, 0, 0, files_in_folder(), free_descriptor(), checksum(w->loaded)};
    s.live = w->counting.live;
    if (a->path) {
        s.bytes = tg_text_read(a->path, &s.length, NULL);
        assert_non_null(s.bytes);
    }
    return s;
}

static void assert_unchanged(world *w, const action *a, snapshot *s, bool replaced)
{
    snapshot now = take_snapshot(w, a);
    assert_int_equal(now.files, s->files);
    assert_int_equal(now.descriptor, s->descriptor);
    assert_int_equal(now.live, s->live + (s->bytes ? 1 : 0));
    assert_true(replaced || now.sum == s->sum);
    if (s->bytes) {
        assert_true(replaced || (now.length == s->length && memcmp(now.bytes, s->bytes, s->length) == 0));
    }
    tg_text_free(now.bytes);
}

static void assert_retry(world *w, const action *a)
{
    tg_error error = TG_NO_ERROR;
    if (!a->run(w, false, &error)) {
        fail_msg("%s", error.text);
    }
}

/* Lets call `fail_at` of a kind fail. Returns whether such a call was made. */
static bool run_with_fault(world *w, const action *a, fault_kind failing, int fail_at)
{
    tg_error error = TG_NO_ERROR;
    assert_true(a->run(w, true, NULL));
    snapshot before = take_snapshot(w, a);
    fault_arm(failing, fail_at, EIO);
    bool is_done = a->run(w, false, &error);
    bool was_reached = fault.calls >= fail_at;
    fault_disarm();
    bool is_folder = failing == FSYNC && fail_at == 2;
    if (!is_done) {
        if (error.code != TG_ERROR_FILE || !strstr(error.text, strerror(EIO))) {
            fail_msg("%s %d: \"%s\"", fault_names[failing], fail_at, error.text);
        }
        assert_true(!is_folder || strstr(error.text, "is replaced by the new file, but its folder"));
        assert_unchanged(w, a, &before, is_folder);
    } else if (was_reached && failing != CLOSE) {
        /* the folder cannot be opened for its fsync: the file is written in any case */
        assert_true(failing == OPEN && a->writes && fail_at == a->writes + 1);
    }
    assert_true(is_done || was_reached);
    /* a close that fails after writing is an error; one after reading is none */
    assert_true(failing != CLOSE || !was_reached || is_done == !(a->writes && fail_at == a->writes));
    tg_text_free(before.bytes);
    assert_retry(w, a);
    return was_reached;
}

static void test_each_call_fails_once(void **state)
{
    world *w = *state;
    for (size_t i = 0; i < possible_actions(w); i++) {
        for (int failing = 0; failing < KINDS; failing++) {
            int reached = 0;
            while (run_with_fault(w, &actions[i], (fault_kind)failing, reached + 1)) {
                reached++;
            }
            if (reached < actions[i].least[failing]) {
                fail_msg("action %zu has %d calls of %s, fewer than %d", i, reached, fault_names[failing],
                         actions[i].least[failing]);
            }
        }
    }
}

/* A signal interrupts each call once, and the call is repeated. */
static void test_interrupted_calls(void **state)
{
    world *w = *state;
    static const fault_kind kinds[] = {PREAD, WRITE, FSYNC};
    for (size_t i = 0; i < possible_actions(w); i++) {
        for (int k = 0; k < 3; k++) {
            for (int fail_at = 1;; fail_at++) {
                assert_true(actions[i].run(w, true, NULL));
                fault_arm(kinds[k], fail_at, EINTR);
                assert_retry(w, &actions[i]);
                bool was_reached = fault.calls >= fail_at;
                fault_disarm();
                if (!was_reached) {
                    break;
                }
            }
        }
    }
}

/* Reads and writes of one byte each give the same files and values. */
static void test_short_counts(void **state)
{
    world *w = *state;
    size_t length, slow_length;
    assert_true(save_params(w, false, NULL));
    char *bytes = tg_text_read(FOLDER "model.safetensors", &length, NULL);
    fault.is_slow = true;
    assert_true(save_params(w, false, NULL));
    char *slow = tg_text_read(FOLDER "model.safetensors", &slow_length, NULL);
    assert_int_equal(length, slow_length);
    assert_memory_equal(bytes, slow, length);
    assert_true(load_params(w, false, NULL));
    assert_true(checksum(w->loaded) == checksum(w->new));
    tg_text_free(bytes);
    tg_text_free(slow);
}

static void test_full_disk(void **state)
{
    world *w = *state;
    for (size_t i = 0; i < possible_actions(w); i++) {
        for (int64_t space = 0; actions[i].writes; space += 4096) {
            tg_error error = TG_NO_ERROR;
            assert_true(actions[i].run(w, true, NULL));
            snapshot before = take_snapshot(w, &actions[i]);
            fault.space = space;
            bool is_done = actions[i].run(w, false, &error);
            fault_disarm();
            if (!is_done) {
                assert_error(&error, TG_ERROR_FILE, strerror(ENOSPC));
                assert_unchanged(w, &actions[i], &before, false);
            }
            tg_text_free(before.bytes);
            assert_retry(w, &actions[i]);
            if (is_done) {
                break;
            }
        }
    }
}

/* A file that becomes shorter after it was opened. */
static void test_shrinking_file(void **state)
{
    world *w = *state;
    tg_error error = TG_NO_ERROR;
    assert_true(save_npy(w, true, NULL));
    tg_file file;
    char byte[4];
    assert_true(tg_file_open(&file, "test", FOLDER "x.npy", &error));
    assert_int_equal(truncate(FOLDER "x.npy", 3), 0);
    assert_false(tg_file_read(&file, 0, byte, 4, &error));
    assert_error(&error, TG_ERROR_FORMAT, "test: './x.npy' ends at byte 3; it had 8128 bytes when it was opened");
    tg_file_close(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_each_call_fails_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_interrupted_calls, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_short_counts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_full_disk, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_shrinking_file, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("faults", tests, NULL, NULL);
}
