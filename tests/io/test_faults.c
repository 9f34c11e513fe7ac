/* Faults of the system: each call that reads, writes, flushes, closes or renames fails once, and the disk is full after
 * every 4 KB. A call then reports the error, frees everything, and leaves the old file as it is; a retry succeeds.
 *
 * The linker replaces the system's functions by those below (--wrap).
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "support.h"

/* ---- the functions that fail ---- */

typedef enum kind { OPEN, READ, PREAD, WRITE, FSYNC, FCHMOD, CLOSE, RENAME, KINDS } kind;
static const char *const kind_names[KINDS] = {"open", "read", "pread", "write", "fsync", "fchmod", "close", "rename"};

static struct {
    kind kind;     /* of the calls that fail */
    int calls;     /* of this kind so far */
    int fail_at;   /* the number of the call that fails, from 1; 0: none */
    int error;     /* its errno */
    int64_t space; /* bytes until the disk is full; -1: any number */
    bool is_slow;  /* one byte per read and write */
} fault;

static bool fails(kind called)
{
    if (called == fault.kind && ++fault.calls == fault.fail_at) {
        errno = fault.error;
        return true;
    }
    return false;
}

/* glibc has other names where file offsets are of 64 bits. */
#ifdef __GLIBC__
#define WRAP(name) __wrap_##name##64
#define REAL(name) __real_##name##64
#else
#define WRAP(name) __wrap_##name
#define REAL(name) __real_##name
#endif

int REAL(open)(const char *path, int flags, ...);
ssize_t __real_read(int file, void *out, size_t length);
ssize_t REAL(pread)(int file, void *out, size_t length, off_t offset);
ssize_t __real_write(int file, const void *bytes, size_t length);
int __real_fsync(int file);
int __real_fchmod(int file, mode_t mode);
int __real_close(int file);
int __real_rename(const char *from, const char *to);
int WRAP(open)(const char *path, int flags, ...);
ssize_t __wrap_read(int file, void *out, size_t length);
ssize_t WRAP(pread)(int file, void *out, size_t length, off_t offset);
ssize_t __wrap_write(int file, const void *bytes, size_t length);
int __wrap_fsync(int file);
int __wrap_fchmod(int file, mode_t mode);
int __wrap_close(int file);
int __wrap_rename(const char *from, const char *to);

int WRAP(open)(const char *path, int flags, ...)
{
    return fails(OPEN) ? -1 : REAL(open)(path, flags, 0666);
}

ssize_t __wrap_read(int file, void *out, size_t length)
{
    return fails(READ) ? -1 : __real_read(file, out, fault.is_slow && length > 0 ? 1 : length);
}

ssize_t WRAP(pread)(int file, void *out, size_t length, off_t offset)
{
    return fails(PREAD) ? -1 : REAL(pread)(file, out, fault.is_slow && length > 0 ? 1 : length, offset);
}

ssize_t __wrap_write(int file, const void *bytes, size_t length)
{
    if (fails(WRITE)) {
        return -1;
    }
    length = fault.is_slow && length > 0 ? 1 : length;
    if (fault.space >= 0) {
        if (fault.space == 0) {
            errno = ENOSPC;
            return -1;
        }
        length = length < (size_t)fault.space ? length : (size_t)fault.space;
        fault.space -= (int64_t)length;
    }
    return __real_write(file, bytes, length);
}

int __wrap_fsync(int file)
{
    return fails(FSYNC) ? -1 : __real_fsync(file);
}

int __wrap_fchmod(int file, mode_t mode)
{
    return fails(FCHMOD) ? -1 : __real_fchmod(file, mode);
}

/* A close that fails has closed the file, as in Linux. */
int __wrap_close(int file)
{
    int result = __real_close(file);
    return fails(CLOSE) ? -1 : result;
}

int __wrap_rename(const char *from, const char *to)
{
    return fails(RENAME) ? -1 : __real_rename(from, to);
}

static void disarm(void)
{
    fault.fail_at = 0;
    fault.space = -1;
    fault.is_slow = false;
    fault.calls = 0;
}

/* ---- what is called ---- */

/* The folder of a test is new, and the current one. */
#define FOLDER "./"

typedef struct world {
    counting_allocator counting;
    tg_params *old, *new, *loaded;
    tg_tensor *x;
    char folder[32];
} world;

/* A call that writes `path`, or only reads it. */
typedef struct action {
    const char *path;
    bool writes;
    bool (*run)(world *w, bool is_old, tg_error *error);
    /* the number of calls of each kind that this test must reach, at least */
    int least[KINDS];
} action;

static bool save_params(world *w, bool is_old, tg_error *error)
{
    return tg_params_save(is_old ? w->old : w->new, FOLDER "model.safetensors", NULL, error);
}

static bool save_params_as_f16(world *w, bool is_old, tg_error *error)
{
    tg_params_save_config config = tg_params_save_config_default();
    config.floats = TG_SAVE_FLOATS_F16;
    return tg_params_save(is_old ? w->old : w->new, FOLDER "half.safetensors", &config, error);
}

static bool load_params(world *w, bool is_old, tg_error *error)
{
    return is_old ? save_params(w, true, error) : tg_params_load(w->loaded, FOLDER "model.safetensors", NULL, error);
}

static bool load_params_from_f16(world *w, bool is_old, tg_error *error)
{
    return is_old ? save_params_as_f16(w, true, error)
                  : tg_params_load(w->loaded, FOLDER "half.safetensors", NULL, error);
}

static bool save_npy(world *w, bool is_old, tg_error *error)
{
    return tg_tensor_save_npy(is_old ? w->x : tg_params_at(w->new, 0).tensor, FOLDER "x.npy", error);
}

static bool load_npy(world *w, bool is_old, tg_error *error)
{
    if (is_old) {
        return save_npy(w, true, error);
    }
    tg_tensor *x = tg_tensor_new_from_npy(FOLDER "x.npy", error);
    tg_release(x);
    return x != NULL;
}

static bool load_npz(world *w, bool is_old, tg_error *error)
{
    (void)w;
    tg_tensor *x = is_old ? NULL : tg_tensor_new_from_npz(TG_TEST_GOLDENS "/io/arrays.npz", "i8_be_f", error);
    tg_release(x);
    return x != NULL || is_old;
}

static bool load_shards(world *w, bool is_old, tg_error *error)
{
    (void)w;
    tg_tensor *x =
        is_old ? NULL
               : tg_tensor_new_from_safetensors(TG_TEST_GOLDENS "/io/sharded.safetensors.index.json", "c", error);
    tg_release(x);
    return x != NULL || is_old;
}

static bool write_tokens(world *w, bool is_old, tg_error *error)
{
    (void)w;
    const int32_t ids[] = {1, 2, 3, 4};
    return tg_token_file_write(FOLDER "ids", 2, ids, is_old ? 4 : 3, error);
}

static bool read_text(world *w, bool is_old, tg_error *error)
{
    if (is_old) {
        return write_tokens(w, true, error);
    }
    char *text = tg_text_read(FOLDER "ids", NULL, error);
    tg_text_free(text);
    return text != NULL;
}

static const action actions[] = {
    {FOLDER "model.safetensors",
     true,
     save_params,
     {[OPEN] = 1, [WRITE] = 4, [FSYNC] = 2, [FCHMOD] = 1, [CLOSE] = 1, [RENAME] = 1}},
    {FOLDER "half.safetensors",
     true,
     save_params_as_f16,
     {[OPEN] = 1, [WRITE] = 4, [FSYNC] = 2, [CLOSE] = 1, [RENAME] = 1}},
    {FOLDER "model.safetensors", false, load_params, {[OPEN] = 1, [PREAD] = 5}},
    {FOLDER "half.safetensors", false, load_params_from_f16, {[OPEN] = 1, [PREAD] = 5}},
    {FOLDER "x.npy", true, save_npy, {[OPEN] = 1, [WRITE] = 2, [FSYNC] = 2, [FCHMOD] = 1, [CLOSE] = 1, [RENAME] = 1}},
    {FOLDER "x.npy", false, load_npy, {[OPEN] = 1, [PREAD] = 3}},
    {NULL, false, load_npz, {[OPEN] = 1, [PREAD] = 6}},
    {NULL, false, load_shards, {[OPEN] = 3, [PREAD] = 6}},
    {FOLDER "ids", true, write_tokens, {[OPEN] = 1, [WRITE] = 1, [FSYNC] = 2, [FCHMOD] = 1, [CLOSE] = 1, [RENAME] = 1}},
    {FOLDER "ids", false, read_text, {[OPEN] = 1, [READ] = 2}},
};
#define ACTIONS (sizeof actions / sizeof *actions)

/* ---- the state of the process and the folder ---- */

static int free_descriptor(void)
{
    int file = dup(0);
    assert_true(file >= 0);
    __real_close(file);
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
    tg_rng *rng = tg_rng_new(seed);
    tg_params *params = tg_params_new(TG_F32, rng);
    tg_params_add_normal(params, "tok_emb.weight", tg_shape_make(2, (int64_t[]){200, 16}), 0, 1);
    tg_params_add_normal(params, "head.weight", tg_shape_make(2, (int64_t[]){5, 16}), 0, 1);
    tg_params_add_normal(params, "head.bias", tg_shape_make(1, (int64_t[]){5}), 0, 1);
    tg_rng_free(rng);
    return params;
}

static int set_up(void **state)
{
    world *w = calloc(1, sizeof *w);
    disarm();
    allocator_install(&w->counting);
    w->old = make_params(1);
    w->new = make_params(2);
    w->loaded = make_params(3);
    w->x = tg_tensor_new_full(TG_F64, tg_shape_make(1, (int64_t[]){1000}), 3, NULL);
    strcpy(w->folder, "test_faults.XXXXXX");
    assert_non_null(mkdtemp(w->folder));
    assert_int_equal(chdir(w->folder), 0);
    *state = w;
    return 0;
}

static int tear_down(void **state)
{
    world *w = *state;
    disarm();
    for (size_t i = 0; i < ACTIONS; i++) {
        remove(actions[i].path ? actions[i].path : "");
    }
    tg_params_free(w->old);
    tg_params_free(w->new);
    tg_params_free(w->loaded);
    tg_release(w->x);
    bool is_clean = w->counting.live == 0 && chdir("..") == 0 && rmdir(w->folder) == 0;
    allocator_restore();
    free(w);
    return is_clean ? 0 : -1;
}

/* ---- the tests ---- */

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
static bool run_with_fault(world *w, const action *a, kind failing, int fail_at)
{
    tg_error error = TG_NO_ERROR;
    assert_true(a->run(w, true, NULL));
    snapshot before = take_snapshot(w, a);
    fault.kind = failing;
    fault.error = EIO;
    fault.fail_at = fail_at;
    fault.calls = 0;
    bool is_done = a->run(w, false, &error);
    bool was_reached = fault.calls >= fail_at;
    disarm();
    bool is_folder = failing == FSYNC && fail_at == 2;
    if (!is_done) {
        if (error.code != TG_ERROR_FILE || !strstr(error.text, strerror(EIO))) {
            fail_msg("%s %d: \"%s\"", kind_names[failing], fail_at, error.text);
        }
        assert_true(!is_folder || strstr(error.text, "is replaced by the new file, but its folder"));
        assert_unchanged(w, a, &before, is_folder);
    } else if (was_reached && failing != CLOSE) {
        /* the folder cannot be opened for its fsync: the file is written in any case */
        assert_true(failing == OPEN && a->writes && fail_at == 2);
    }
    assert_true(is_done || was_reached);
    /* a close that fails after writing is an error; one after reading is none */
    assert_true(failing != CLOSE || !was_reached || is_done == !(a->writes && fail_at == 1));
    tg_text_free(before.bytes);
    assert_retry(w, a);
    return was_reached;
}

static void test_each_call_fails_once(void **state)
{
    world *w = *state;
    for (size_t i = 0; i < ACTIONS; i++) {
        for (int failing = 0; failing < KINDS; failing++) {
            int reached = 0;
            while (run_with_fault(w, &actions[i], (kind)failing, reached + 1)) {
                reached++;
            }
            if (reached < actions[i].least[failing]) {
                fail_msg("action %zu has %d calls of %s, fewer than %d", i, reached, kind_names[failing],
                         actions[i].least[failing]);
            }
        }
    }
}

/* A signal interrupts each call once, and the call is repeated. */
static void test_interrupted_calls(void **state)
{
    world *w = *state;
    static const kind kinds[] = {READ, PREAD, WRITE, FSYNC};
    for (size_t i = 0; i < ACTIONS; i++) {
        for (int k = 0; k < 4; k++) {
            for (int fail_at = 1;; fail_at++) {
                assert_true(actions[i].run(w, true, NULL));
                fault.kind = kinds[k];
                fault.error = EINTR;
                fault.fail_at = fail_at;
                fault.calls = 0;
                assert_retry(w, &actions[i]);
                bool was_reached = fault.calls >= fail_at;
                disarm();
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
    for (size_t i = 0; i < ACTIONS; i++) {
        for (int64_t space = 0; actions[i].writes; space += 4096) {
            tg_error error = TG_NO_ERROR;
            assert_true(actions[i].run(w, true, NULL));
            snapshot before = take_snapshot(w, &actions[i]);
            fault.space = space;
            bool is_done = actions[i].run(w, false, &error);
            disarm();
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
    assert_error(&error, TG_ERROR_FORMAT, "test: './x.npy' ends at byte 3; 1 more bytes were expected");
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
