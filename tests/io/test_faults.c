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

#include "base/file.h"
#include "faults.h"
#include "support.h"

/* ---- what is called ---- */

/* The folder of a test is new, and the current one. */
#define FOLDER "./"

typedef struct world {
    counting_allocator counting;
    tg_params *old, *new, *loaded;
    tg_tensor *x;
    tg_tokenizer *old_bpe, *new_bpe; /* NULL in a build without the tokenizer */
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

static bool save_list(world *w, bool is_old, tg_error *error)
{
    const tg_named_tensor tensors[] = {{"x", w->x, NULL}, {"y", tg_params_at(w->new, 0).tensor, "F16"}};
    return tg_safetensors_save(FOLDER "list.safetensors", tensors, is_old ? 1 : 2, error);
}

static bool list_tensors(world *w, bool is_old, tg_error *error)
{
    if (is_old) {
        return save_list(w, true, error);
    }
    tg_safetensors_list *list = tg_safetensors_list_new(FOLDER "list.safetensors", error);
    tg_safetensors_list_free(list);
    return list != NULL;
}

/* Saves or loads a checkpoint of params, their optimizer, a generator and a number. */
static bool use_checkpoint(tg_params *params, bool saves, tg_error *error)
{
    static int64_t step = 5;
    tg_adam_config config = tg_adam_config_default();
    config.amsgrad = true;
    tg_rng *rng = tg_rng_new(4);
    tg_optim *optim = tg_adam_new(params, &config);
    const tg_checkpoint_part parts[] = {{.name = "model", .params = params},
                                        {.name = "optim", .optim = optim},
                                        {.name = "rng", .rng = rng},
                                        {.name = "text", .text = "a text"},
                                        {.name = "step", .integer = &step}};
    bool is_done = saves ? tg_checkpoint_save(FOLDER "checkpoint", parts, 5, error)
                         : tg_checkpoint_load(FOLDER "checkpoint", parts, 5, error);
    tg_optim_free(optim);
    tg_rng_free(rng);
    return is_done;
}

static bool save_checkpoint(world *w, bool is_old, tg_error *error)
{
    return use_checkpoint(is_old ? w->old : w->new, true, error);
}

static bool load_checkpoint(world *w, bool is_old, tg_error *error)
{
    return is_old ? save_checkpoint(w, true, error) : use_checkpoint(w->loaded, false, error);
}

static bool read_checkpoint_text(world *w, bool is_old, tg_error *error)
{
    if (is_old) {
        return save_checkpoint(w, true, error);
    }
    char *text = tg_checkpoint_read_text(FOLDER "checkpoint", "text", error);
    tg_text_free(text);
    return text != NULL;
}

static bool save_vocabulary(world *w, bool is_old, const char *path, tg_vocabulary_format format, tg_error *error)
{
    return !w->old_bpe || tg_tokenizer_save(is_old ? w->old_bpe : w->new_bpe, path, format, error);
}

static bool open_vocabulary(world *w, const char *path, const char *ids, tg_error *error)
{
    tg_tokenizer_open_config config = tg_tokenizer_open_config_default();
    config.ids = ids;
    tg_tokenizer *bpe = w->old_bpe ? tg_tokenizer_open(path, &config, error) : NULL;
    tg_tokenizer_free(bpe);
    return bpe || !w->old_bpe;
}

static bool save_merges(world *w, bool is_old, tg_error *error)
{
    return save_vocabulary(w, is_old, FOLDER "vocab.bpe", TG_VOCABULARY_MERGES, error);
}

static bool save_json(world *w, bool is_old, tg_error *error)
{
    return save_vocabulary(w, is_old, FOLDER "tokenizer.json", TG_VOCABULARY_JSON, error);
}

static bool save_ranks(world *w, bool is_old, tg_error *error)
{
    return save_vocabulary(w, is_old, FOLDER "vocab.tiktoken", TG_VOCABULARY_RANKS, error);
}

static bool open_merges(world *w, bool is_old, tg_error *error)
{
    return is_old ? save_merges(w, true, error) : open_vocabulary(w, FOLDER "vocab.bpe", NULL, error);
}

static bool open_json(world *w, bool is_old, tg_error *error)
{
    return is_old ? save_json(w, true, error) : open_vocabulary(w, FOLDER "tokenizer.json", NULL, error);
}

static bool open_ranks(world *w, bool is_old, tg_error *error)
{
    return is_old ? save_ranks(w, true, error) : open_vocabulary(w, FOLDER "vocab.tiktoken", NULL, error);
}

static bool open_merges_and_ids(world *w, bool is_old, tg_error *error)
{
    return is_old || open_vocabulary(w, TG_TEST_GOLDENS "/data/vocabulary/vocab.bpe",
                                     TG_TEST_GOLDENS "/data/vocabulary/encoder.json", error);
}

static bool read_tokens(world *w, bool is_old, tg_error *error)
{
    int32_t ids[4];
    if (is_old) {
        return write_tokens(w, true, error);
    }
    tg_token_file *file = tg_token_file_open(FOLDER "ids", 2, error);
    bool is_read = file && tg_token_file_read(file, 0, 4, ids, error);
    tg_token_file_free(file);
    return is_read;
}

static bool open_csv(world *w, bool is_old, tg_error *error)
{
    (void)w;
    if (is_old) {
        return tg_file_replace("test", FOLDER "table.csv", "a,b\n1,2\n", 8, error);
    }
    tg_csv *csv = tg_csv_open(FOLDER "table.csv", NULL, error);
    tg_csv_free(csv);
    return csv != NULL;
}

/* What writing a file takes at least. */
#define ONE_FILE(writes)                                                                     \
    {                                                                                        \
        [OPEN] = 2, [WRITE] = (writes), [FSYNC] = 2, [FCHMOD] = 1, [CLOSE] = 2, [RENAME] = 1 \
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
    {FOLDER "list.safetensors", true, save_list, ONE_FILE(3)},
    {FOLDER "list.safetensors", false, list_tensors, {[OPEN] = 1, [PREAD] = 2}},
    {FOLDER "checkpoint", true, save_checkpoint, ONE_FILE(14)},
    {FOLDER "checkpoint", false, load_checkpoint, {[OPEN] = 1, [PREAD] = 15}},
    {FOLDER "checkpoint", false, read_checkpoint_text, {[OPEN] = 1, [PREAD] = 2}},
    {FOLDER "ids", false, read_tokens, {[OPEN] = 1, [PREAD] = 1}},
    {FOLDER "table.csv", false, open_csv, {[OPEN] = 1, [READ] = 2}},
    /* from here on those that need the tokenizer */
    {FOLDER "vocab.bpe", true, save_merges, ONE_FILE(1)},
    {FOLDER "tokenizer.json", true, save_json, ONE_FILE(1)},
    {FOLDER "vocab.tiktoken", true, save_ranks, ONE_FILE(1)},
    {FOLDER "vocab.bpe", false, open_merges, {[OPEN] = 1, [PREAD] = 1}},
    {FOLDER "tokenizer.json", false, open_json, {[OPEN] = 1, [PREAD] = 1}},
    {FOLDER "vocab.tiktoken", false, open_ranks, {[OPEN] = 1, [PREAD] = 1}},
    {NULL, false, open_merges_and_ids, {[OPEN] = 2, [PREAD] = 2}},
};
#define ACTIONS (sizeof actions / sizeof *actions)
#define TOKENIZER_ACTIONS 7

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
    for (size_t i = 0; i < ACTIONS; i++) {
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

static size_t action_count(const world *w)
{
    return w->old_bpe ? ACTIONS : ACTIONS - TOKENIZER_ACTIONS;
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
    for (size_t i = 0; i < action_count(w); i++) {
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
    static const fault_kind kinds[] = {READ, PREAD, WRITE, FSYNC};
    for (size_t i = 0; i < action_count(w); i++) {
        for (int k = 0; k < 4; k++) {
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
    for (size_t i = 0; i < action_count(w); i++) {
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
