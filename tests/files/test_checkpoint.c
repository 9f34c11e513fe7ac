/* Checkpoints: a training that is loaded continues with the bits of one that was not interrupted, inside a pass, for
 * every optimizer; a load or a save that fails changes nothing; folders of checkpoints. */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "data/loader.h"
#include "optim/methods.h"
#include "support.h"
#include "tensor/tensor.h"

static const char path[] = "test_checkpoint.safetensors";

enum { V = 23, C = 4, CONTEXT = 3, TOKENS = 60 };

/* ---- a training ---- */

typedef struct training {
    tg_run *run;
    tg_params *params;
    tg_nn_embedding table;
    tg_nn_linear linear;
    tg_optim *optim;
    tg_tape *tape;
    tg_loader *loader;
    int64_t step;
    double loss;
} training;

static training training_make(tg_optim *(*make)(tg_params *params), uint64_t seed)
{
    int32_t tokens[TOKENS];
    for (int i = 0; i < TOKENS; i++) {
        tokens[i] = (i * i * 7 + 3) % V;
    }
    training m = {.run = tg_run_new(seed)};
    m.params = tg_params_new(m.run, TG_F32);
    tg_nn_embedding_config table = tg_nn_embedding_config_default();
    table.padding_index = 1;
    m.table = tg_nn_embedding_make(m.params, "table", V, C, &table);
    tg_tensor_set_rows_watched(m.table.weight, true, NULL);
    m.linear = tg_nn_linear_make(m.params, "linear", C, V, TG_BIAS);
    tg_params_add_alias(m.params, "alias.weight", "linear.weight");
    m.optim = make(m.params);
    assert_true(tg_optim_add_to_group(m.optim, "no_decay", "*.bias"));
    m.tape = tg_tape_new(m.run, NULL);
    tg_loader_config loader = tg_loader_config_default();
    loader.context = loader.stride = CONTEXT;
    loader.batch_size = 4;
    loader.shuffle = loader.drop_last = true;
    m.loader = tg_loader_new(m.run, tokens, TOKENS, &loader);
    assert_string_equal(tg_loader_error(m.loader)->text, "");
    return m;
}

static void training_free(training *m)
{
    tg_loader_free(m->loader);
    tg_tape_free(m->tape);
    tg_optim_free(m->optim);
    tg_params_free(m->params);
    tg_run_free(m->run);
}

static void train(training *m, int steps)
{
    for (int i = 0; i < steps;) {
        tg_batch batch;
        if (!tg_loader_next(m->loader, &batch)) {
            assert_string_equal(tg_loader_error(m->loader)->text, "");
            continue; /* the next pass */
        }
        tg_tape_reset(m->tape);
        assert_true(tg_optim_set_lr(m->optim, NULL, 0.01 / (double)(1 + m->step)));
        tg_tensor *x = tg_dropout(m->tape, tg_nn_embedding_forward(m->tape, &m->table, batch.inputs), 0.25);
        tg_tensor *loss = tg_cross_entropy(m->tape, tg_nn_linear_forward(m->tape, &m->linear, x), batch.targets, NULL);
        tg_optim_zero_grad(m->optim);
        if (!tg_backward(m->tape, loss, NULL) || !tg_optim_step(m->optim)) {
            fail_msg("%s%s", tg_tape_error(m->tape)->text, optim_error(m->optim)->text);
        }
        m->loss = tg_tensor_value_at(loss, 0);
        m->step++;
        i++;
    }
}

enum { PARTS = 11 };

static void list_parts(training *m, tg_checkpoint_part parts[PARTS])
{
    const tg_checkpoint_part list[PARTS] = {
        tg_checkpoint_params("model", m->params),       tg_checkpoint_optim("optim", m->optim),
        tg_checkpoint_rng("rng", tg_run_rng(m->run)),   tg_checkpoint_loader("data", m->loader),
        tg_checkpoint_integer("step", &m->step),        tg_checkpoint_number("loss", &m->loss),
        tg_checkpoint_expect_text("config", "width 4"), tg_checkpoint_expect_bytes("vocabulary", "\0\1\n\xff", 4),
        tg_checkpoint_expect_integer("tokens", TOKENS), tg_checkpoint_text("author", "Ada"),
        tg_checkpoint_bytes("seal", "\1\2", 2)};
    memcpy(parts, list, sizeof list);
}

static void save(training *m)
{
    tg_checkpoint_part parts[PARTS];
    tg_error error = TG_NO_ERROR;
    list_parts(m, parts);
    if (!tg_checkpoint_save(path, parts, PARTS, &error)) {
        fail_msg("%s", error.text);
    }
}

static bool load(training *m, tg_error *error)
{
    tg_checkpoint_part parts[PARTS];
    list_parts(m, parts);
    return tg_checkpoint_load(path, parts, PARTS, error);
}

/* ---- everything that a checkpoint holds ---- */

static uint64_t add_bytes(uint64_t sum, const void *bytes, size_t size)
{
    const unsigned char *b = bytes;
    for (size_t i = 0; i < size; i++) {
        sum = (sum ^ b[i]) * UINT64_C(1099511628211);
    }
    return sum;
}

static uint64_t add_tensor(uint64_t sum, const tg_tensor *x)
{
    sum = add_bytes(sum, tg_tensor_data(x), (size_t)tg_tensor_count(x) * tg_dtype_size(tg_tensor_dtype(x)));
    for (int64_t row = 0; tg_tensor_rank(x) > 0 && row < tg_tensor_size(x, 0); row++) {
        tg_row_updates updates = tg_tensor_row_updates(x, row);
        bool frozen = tg_tensor_row_is_frozen(x, row);
        sum = add_bytes(sum, &updates.count, sizeof updates.count);
        sum = add_bytes(sum, &updates.last_step, sizeof updates.last_step);
        sum = add_bytes(sum, &frozen, sizeof frozen);
    }
    return sum;
}

static uint64_t digest(const training *m)
{
    uint64_t sum = UINT64_C(14695981039346656037);
    for (int64_t i = 0; i < tg_params_count(m->params); i++) {
        tg_entry entry = tg_params_at(m->params, i);
        int64_t steps = tg_optim_steps(m->optim, entry.name);
        sum = add_bytes(add_tensor(sum, entry.tensor), &steps, sizeof steps);
    }
    for (int64_t i = 0; tg_optim_state_at(m->optim, i).tensor; i++) {
        sum = add_tensor(sum, tg_optim_state_at(m->optim, i).tensor);
    }
    const char *groups[] = {"default", "no_decay"};
    for (int i = 0; i < 2; i++) {
        double pair[] = {tg_optim_lr(m->optim, groups[i]), tg_optim_weight_decay(m->optim, groups[i])};
        sum = add_bytes(sum, pair, sizeof pair);
    }
    uint8_t state[TG_RNG_TORCH_STATE_SIZE];
    assert_true(tg_rng_save_torch_state(tg_run_rng(m->run), state, NULL));
    sum = add_bytes(sum, state, sizeof state);
    uint64_t position = tg_rng_position(tg_run_rng(m->run));
    sum = add_bytes(sum, &position, sizeof position);
    int64_t next = tg_loader_get_position(m->loader).next;
    sum = add_bytes(sum, &next, sizeof next);
    sum = add_bytes(sum, &m->step, sizeof m->step);
    return add_bytes(sum, &m->loss, sizeof m->loss);
}

/* ---- continuing ---- */

/* Interrupted after each number of steps, most of them inside a pass (a pass has 4 batches). */
static void test_continues_with_the_same_bits(void **state)
{
    (void)state;
    for (size_t k = 0; k < METHODS; k++) {
        for (int interrupted = 0; interrupted < 6; interrupted++) {
            training whole = training_make(methods[k].make, 123);
            train(&whole, interrupted);
            assert_true(tg_tensor_set_rows_frozen(whole.table.weight, 5, 2, true, NULL));
            assert_true(tg_optim_set_weight_decay(whole.optim, "no_decay", 0.5));
            save(&whole);
            uint64_t saved = digest(&whole);
            train(&whole, 9);
            training resumed = training_make(methods[k].make, 7);
            train(&resumed, 2);
            tg_error error = TG_NO_ERROR;
            if (!load(&resumed, &error)) {
                fail_msg("%s", error.text);
            }
            assert_true(digest(&resumed) == saved);
            train(&resumed, 9);
            assert_true(digest(&resumed) == digest(&whole));
            training_free(&resumed);
            training_free(&whole);
        }
    }
}

static void test_single_parts(void **state)
{
    (void)state;
    training m = training_make(make_adamw, 123);
    train(&m, 3);
    save(&m);
    tg_error error = TG_NO_ERROR;
    char *text = tg_checkpoint_read_text(path, "config", &error);
    assert_string_equal(text, "width 4");
    tg_text_free(text);
    int64_t size = 0;
    char *bytes = tg_checkpoint_read_bytes(path, "vocabulary", &size, &error);
    assert_int_equal(size, 4);
    assert_memory_equal(bytes, "\0\1\n\xff", 5);
    tg_text_free(bytes);
    text = tg_checkpoint_read_text(path, "author", &error);
    assert_string_equal(text, "Ada");
    tg_text_free(text);
    bytes = tg_checkpoint_read_bytes(path, "seal", &size, &error);
    assert_true(size == 2 && memcmp(bytes, "\1\2", 2) == 0);
    tg_text_free(bytes);
    /* the params alone, for an evaluation, by either call */
    training other = training_make(make_sgd, 5);
    tg_checkpoint_part model = tg_checkpoint_params("model", other.params);
    assert_true(tg_checkpoint_load(path, &model, 1, &error));
    assert_memory_equal(tg_tensor_data(other.linear.weight), tg_tensor_data(m.linear.weight), V * C * sizeof(float));
    tg_params_load_config config = tg_params_load_config_default();
    config.prefix = "model.";
    assert_true(tg_params_load(other.params, path, &config, &error));
    assert_null(tg_checkpoint_read_text(path, "settings", &error));
    assert_error(&error, TG_ERROR_VALUE, "checkpoint_read_text: the metadata of");
    assert_null(tg_checkpoint_read_bytes(path, "model.linear.weight", &size, &error));
    assert_error(&error, TG_ERROR_VALUE, "has no tensor 'model.linear.weight' of bytes");
    assert_null(tg_checkpoint_read_bytes("nowhere", "vocabulary", NULL, &error));
    assert_error(&error, TG_ERROR_FILE, "checkpoint_read_bytes: open 'nowhere'");
    training_free(&other);
    training_free(&m);
}

#if SIZE_MAX == UINT32_MAX
/* 2^32 + 1 bytes: a size of 32 bits cuts that to 1. The file has a hole, and takes no space (tests/ci/i386). */
static void test_bytes_beyond_memory(void **state)
{
    (void)state;
    static const char large[] = "test_checkpoint_large.safetensors",
                      header[] = "{\"b\":{\"dtype\":\"U8\",\"shape\":[4294967297],\"data_offsets\":[0,4294967297]}}";
    const unsigned char length[8] = {sizeof header - 1};
    FILE *file = fopen(large, "wb");
    assert_true(file && fwrite(length, 1, 8, file) == 8 && fputs(header, file) >= 0 && fclose(file) == 0);
    assert_int_equal(truncate(large, (off_t)(8 + sizeof header - 1 + 4294967297)), 0);
    tg_error error = TG_NO_ERROR;
    int64_t size = 7;
    assert_null(tg_checkpoint_read_bytes(large, "b", &size, &error));
    assert_error(&error, TG_ERROR_MEMORY, "checkpoint_read_bytes: out of memory for 4294967297 bytes");
    assert_int_equal(size, 7);
    assert_int_equal(remove(large), 0);
}
#endif

/* ---- errors ---- */

static void assert_refused(training *m, const tg_checkpoint_part *parts, int64_t count, tg_code code, const char *text)
{
    tg_error error = TG_NO_ERROR;
    uint64_t before = digest(m);
    assert_false(tg_checkpoint_load(path, parts, count, &error));
    assert_error(&error, code, text);
    assert_true(digest(m) == before);
}

/* Every other part fits, so the error is found after all that comes before it was prepared. */
static void test_refuses_parts_that_differ(void **state)
{
    (void)state;
    training saved = training_make(make_adamw, 123);
    train(&saved, 3);
    save(&saved);
    training m = training_make(make_adamw, 5), sgd = training_make(make_sgd, 5);
    train(&m, 1);
    tg_checkpoint_part parts[PARTS];
    list_parts(&m, parts);
    const struct {
        int part;
        tg_checkpoint_part other;
        const char *text;
    } cases[] = {
        {6, tg_checkpoint_expect_text("config", "width 8"), "'config' is \"width 4\" in the file and \"width 8\" here"},
        {6, tg_checkpoint_expect_text("settings", ""), "'settings' is \"(missing)\" in the file"},
        {7, tg_checkpoint_expect_bytes("vocabulary", "\0\1\nx", 4), "byte 3 of 'vocabulary' differs"},
        {7, tg_checkpoint_expect_bytes("vocabulary", "\0\1", 2),
         "'vocabulary' is U8 (4,) in the file and u8 (2,) here"},
        {7, tg_checkpoint_expect_bytes("vocabulary", NULL, 0), "'vocabulary' is U8 (4,) in the file and u8 (0,) here"},
        {8, tg_checkpoint_expect_integer("tokens", 61), "'tokens' is 60 in the file and 61 here"},
        {8, tg_checkpoint_expect_integer("tokens", 59), "'tokens' is 60 in the file and 59 here"},
        {8, tg_checkpoint_expect_integer("token", 60), "the metadata has no 'token'"},
        {6, tg_checkpoint_expect_integer("config", 4),
         "'config' is \"width 4\" in the metadata; it must be an integer"},
        {4, tg_checkpoint_integer("steps", &m.step), "the metadata has no 'steps'"},
        {5, tg_checkpoint_number("best", &m.loss), "the tensor 'best' is missing"},
        {5, tg_checkpoint_number("optim.group.default", &m.loss), "is F64 (2,) in the file and f64 () here"},
        {2, tg_checkpoint_rng("generator", tg_run_rng(m.run)), "the tensor 'generator' is missing"},
        {3, tg_checkpoint_loader("loader", m.loader), "the metadata has no 'loader.context'"},
        {1, tg_checkpoint_optim("optim", sgd.optim), "the tensor 'optim.momentum_buffer.table.weight' is missing"},
        {0, tg_checkpoint_params("gpt", m.params), "missing"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tg_checkpoint_part usual = parts[cases[i].part];
        parts[cases[i].part] = cases[i].other;
        assert_refused(&m, parts, PARTS, TG_ERROR_VALUE, cases[i].text);
        parts[cases[i].part] = usual;
    }
    /* a text and bytes that a load skips: others, and none in the file */
    parts[9] = tg_checkpoint_text("reader", "Bob");
    parts[10] = tg_checkpoint_bytes("seal", "\3", 1);
    assert_true(tg_checkpoint_load(path, parts, PARTS, NULL));
    assert_true(digest(&m) == digest(&saved));
    tg_checkpoint_part integer = tg_checkpoint_integer("config", &m.step);
    assert_refused(&m, &integer, 1, TG_ERROR_VALUE,
                   "'config' is \"width 4\" in the metadata; it must be an integer of 64 bits");
    training_free(&sgd);
    training_free(&m);
    training_free(&saved);
}

static void test_refuses_another_optimizer_or_loader(void **state)
{
    (void)state;
    training saved = training_make(make_adam, 123);
    train(&saved, 3);
    save(&saved);
    /* adam without amsgrad has fewer states */
    training m = training_make(make_adamw, 5);
    tg_checkpoint_part parts[PARTS];
    list_parts(&m, parts);
    assert_refused(&m, parts, PARTS, TG_ERROR_VALUE,
                   "'optim' has 14 tensors in the file and 11 here; it was saved by another optimizer");
    assert_true(tg_optim_add_to_group(m.optim, "head", "linear.weight"));
    assert_refused(&m, &parts[1], 1, TG_ERROR_VALUE, "optim.group.head' is missing");
    int32_t tokens[TOKENS] = {0};
    tg_loader_config config = m.loader->config;
    config.batch_size = 2;
    tg_loader *small = tg_loader_new(m.run, tokens, TOKENS, &config);
    config.batch_size = 4;
    tg_loader *longer = tg_loader_new(m.run, tokens, TOKENS - 9, &config);
    tg_checkpoint_part data = tg_checkpoint_loader("data", small);
    assert_refused(&m, &data, 1, TG_ERROR_VALUE, "'data.batch_size' is 4 in the file and 2 here");
    data = tg_checkpoint_loader("data", longer);
    assert_refused(&m, &data, 1, TG_ERROR_VALUE, "'data.windows' is 19 in the file and 16 here");
    tg_loader_free(small);
    tg_loader_free(longer);
    training_free(&m);
    training_free(&saved);
}

/* A loader of tensors continues in the middle of a pass, and refuses other rows and a loader of windows. */
static void test_loaders_of_tensors(void **state)
{
    (void)state;
    tg_tensor *x = tg_tensor_new_arange(TG_I32, 0, 20, 1, NULL);
    tg_run *run = tg_run_new(1), *other = tg_run_new(2);
    tg_loader_config config = tg_loader_config_default();
    config.batch_size = 3;
    config.shuffle = true;
    tg_loader *saved = tg_loader_new_from_tensors(run, &x, 1, &config);
    tg_loader *loaded = tg_loader_new_from_tensors(other, &x, 1, &config);
    config.rows = (int64_t[]){1, 2, 3};
    config.row_count = 3;
    tg_loader *subset = tg_loader_new_from_tensors(other, &x, 1, &config);
    config = tg_loader_config_default();
    config.batch_size = 3;
    config.shuffle = true;
    config.context = config.stride = 1;
    tg_loader *windows = tg_loader_new(other, (int32_t[21]){0}, 21, &config);
    tg_batch here, there;
    assert_true(tg_loader_next(saved, &here) && tg_loader_next(saved, &here));
    tg_checkpoint_part part = tg_checkpoint_loader("data", saved);
    assert_true(tg_checkpoint_save(path, &part, 1, NULL));
    part = tg_checkpoint_loader("data", loaded);
    assert_true(tg_checkpoint_load(path, &part, 1, NULL));
    for (int i = 0; i < 5; i++) {
        assert_true(tg_loader_next(saved, &here) && tg_loader_next(loaded, &there));
        assert_int_equal(tg_tensor_count(here.inputs), tg_tensor_count(there.inputs));
        assert_memory_equal(tg_tensor_data(here.inputs), tg_tensor_data(there.inputs),
                            (size_t)tg_tensor_count(here.inputs) * sizeof(int32_t));
    }
    assert_false(tg_loader_next(saved, &here) || tg_loader_next(loaded, &there));
    tg_error error = TG_NO_ERROR;
    part = tg_checkpoint_loader("data", subset);
    assert_false(tg_checkpoint_load(path, &part, 1, &error));
    assert_error(&error, TG_ERROR_VALUE, "'data.windows' is 20 in the file and 3 here");
    part = tg_checkpoint_loader("data", windows);
    assert_false(tg_checkpoint_load(path, &part, 1, &error));
    assert_error(&error, TG_ERROR_VALUE, "'data.context' is 0 in the file and 1 here");
    tg_loader_free(saved);
    tg_loader_free(loaded);
    tg_loader_free(subset);
    tg_loader_free(windows);
    tg_run_free(run);
    tg_run_free(other);
    tg_release(x);
    remove(path);
}

static void test_refuses_lists(void **state)
{
    (void)state;
    training m = training_make(make_adamw, 5);
    tg_error error = TG_NO_ERROR;
    char long_name[300];
    memset(long_name, 'n', sizeof long_name);
    long_name[299] = '\0';
    const struct {
        tg_checkpoint_part parts[2];
        int64_t count;
        const char *text;
    } cases[] = {
        {{tg_checkpoint_rng("a", tg_run_rng(m.run))}, 0, "0 parts; at least 1 is needed"},
        {{{.name = NULL}}, 1, "part 0 is not the result of a function such as tg_checkpoint_params()"},
        {{tg_checkpoint_rng(NULL, tg_run_rng(m.run))}, 1, "the name of part 0 has 0 characters; it must have 1 to 255"},
        {{tg_checkpoint_rng("", tg_run_rng(m.run))}, 1, "the name of part 0 has 0 characters; it must have 1 to 255"},
        {{tg_checkpoint_rng(long_name, tg_run_rng(m.run))}, 1, "the name of part 0 has 299 characters"},
        {{tg_checkpoint_rng("a", tg_run_rng(m.run)), tg_checkpoint_integer("a", &m.step)},
         2,
         "parts 0 and 1 are both named 'a'"},
        {{tg_checkpoint_expect_bytes("a", "b", -1)}, 1, "part 'a' has -1 bytes"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_false(tg_checkpoint_save(path, cases[i].parts, cases[i].count, &error));
        assert_error(&error, TG_ERROR_VALUE, cases[i].text);
        assert_false(tg_checkpoint_load(path, cases[i].parts, cases[i].count, &error));
        assert_error(&error, TG_ERROR_VALUE, cases[i].text);
    }
    const struct {
        tg_checkpoint_part part;
        const char *text;
    } nulls[] = {{tg_checkpoint_params("a", NULL), "the tg_params of part 'a' is NULL"},
                 {tg_checkpoint_optim("a", NULL), "the tg_optim of part 'a' is NULL"},
                 {tg_checkpoint_rng("a", NULL), "the tg_rng of part 'a' is NULL"},
                 {tg_checkpoint_loader("a", NULL), "the tg_loader of part 'a' is NULL"},
                 {tg_checkpoint_integer("a", NULL), "the integer of part 'a' is NULL"},
                 {tg_checkpoint_number("a", NULL), "the number of part 'a' is NULL"},
                 {tg_checkpoint_text("a", NULL), "the text of part 'a' is NULL"},
                 {tg_checkpoint_bytes("a", NULL, 1), "the array of bytes of part 'a' is NULL"},
                 {tg_checkpoint_expect_text("a", NULL), "the text of part 'a' is NULL"},
                 {tg_checkpoint_expect_bytes("a", NULL, 1), "the array of bytes of part 'a' is NULL"}};
    for (size_t i = 0; i < sizeof nulls / sizeof nulls[0]; i++) {
        assert_false(tg_checkpoint_save(path, &nulls[i].part, 1, &error));
        assert_error(&error, TG_ERROR_STATE, nulls[i].text);
        assert_false(tg_checkpoint_load(path, &nulls[i].part, 1, &error));
        assert_error(&error, TG_ERROR_STATE, nulls[i].text);
    }
    assert_false(tg_checkpoint_save(NULL, cases[0].parts, 1, &error));
    assert_error(&error, TG_ERROR_STATE, "checkpoint_save: the path is NULL");
    assert_false(tg_checkpoint_load(path, NULL, 1, &error));
    assert_error(&error, TG_ERROR_STATE, "checkpoint_load: the array of parts is NULL");
    training_free(&m);
}

/* Objects with an error, and a table that the moments do not follow yet. */
static void test_refuses_states(void **state)
{
    (void)state;
    training m = training_make(make_adamw, 5);
    tg_error error = TG_NO_ERROR;
    train(&m, 1);
    tg_optim_zero_grad(m.optim);
    if (!tg_nn_embedding_resize(&m.table, V + 2)) {
        fail_msg("%s", error.text);
    }
    tg_checkpoint_part part = tg_checkpoint_optim("optim", m.optim);
    assert_false(tg_checkpoint_save(path, &part, 1, &error));
    assert_error(&error, TG_ERROR_STATE, "checkpoint_save: 'table.weight' was resized");
    train(&m, 1);
    assert_true(tg_checkpoint_save(path, &part, 1, &error));
    assert_false(tg_optim_set_lr(m.optim, "none", 1));
    assert_false(tg_checkpoint_load(path, &part, 1, &error));
    assert_error(&error, TG_ERROR_RANGE, "optim_set_lr: no group 'none' exists");
    training_free(&m);
}

/* ---- without memory ---- */

static void test_without_memory(void **state)
{
    (void)state;
    training saved = training_make(make_adamw, 123);
    train(&saved, 3);
    save(&saved);
    uint64_t expected = digest(&saved);
    training_free(&saved);
    for (int loads = 0; loads < 2; loads++) {
        bool finished = false;
        for (size_t k = 1; !finished; k++) {
            counting_allocator counting;
            allocator_install(&counting);
            training m = training_make(make_adamw, 5);
            tg_checkpoint_part parts[PARTS];
            tg_error error = TG_NO_ERROR;
            list_parts(&m, parts);
            train(&m, 1);
            uint64_t before = digest(&m);
            allocator_arm(&counting, k, false);
            finished = loads ? tg_checkpoint_load(path, parts, PARTS, &error)
                             : tg_checkpoint_save("test_checkpoint_2.safetensors", parts, PARTS, &error);
            allocator_arm(&counting, 0, false);
            if (!finished) {
                assert_int_equal(error.code, TG_ERROR_MEMORY);
                assert_true(digest(&m) == before);
                tg_error_clear(&error);
                assert_true(!loads || load(&m, &error));
            }
            assert_true(digest(&m) == (loads ? expected : before));
            training_free(&m);
            assert_int_equal(counting.live, 0);
            allocator_restore();
            assert_true(finished || k < 1000);
        }
    }
}

/* Numbers of a file that no training has: each is written into a file that a load then refuses. */
static void test_refuses_numbers(void **state)
{
    (void)state;
    static const struct {
        double step, lr;
        const char *error;
    } cases[] = {{3, 0.5, NULL},
                 {2.5, 0.5, "'optim.step.w' is 2.5; it must be a whole number from 0 to 2^53"},
                 {1e-300, 0.5, "'optim.step.w' is 1e-300"},
                 {-1, 0.5, "'optim.step.w' is -1"},
                 {1e300, 0.5, "'optim.step.w' is 1e+300"},
                 {NAN, 0.5, "'optim.step.w' is "},
                 {3, INFINITY, "'optim.group.default' is (inf, 0); both must be finite and at least 0"},
                 {3, NAN, "both must be finite"},
                 {3, -0.5, "'optim.group.default' is (-0.5, 0)"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tg_error error = TG_NO_ERROR;
        tg_params *file = tg_params_new(NULL, TG_F64), *params = tg_params_new(NULL, TG_F32);
        tg_tensor_fill(tg_params_add(file, "optim.step.w", TG_SCALAR), cases[i].step, NULL);
        ((double *)tg_tensor_data_mut(tg_params_add(file, "optim.group.default", TG_SHAPE(2))))[0] = cases[i].lr;
        assert_true(tg_params_save(file, path, NULL, &error));
        tg_params_add(params, "w", TG_SHAPE(2));
        tg_optim *optim = tg_sgd_new(params, NULL);
        const tg_checkpoint_part part = tg_checkpoint_optim("optim", optim);
        assert_int_equal(tg_checkpoint_load(path, &part, 1, &error), !cases[i].error);
        if (cases[i].error) {
            assert_error(&error, TG_ERROR_VALUE, cases[i].error);
        }
        tg_optim_free(optim);
        tg_params_free(params);
        tg_params_free(file);
    }
    /* the counts of a table's rows */
    tg_error error = TG_NO_ERROR;
    tg_params *file = tg_params_new(NULL, TG_F64), *params = tg_params_new(NULL, TG_F64);
    tg_params_add(file, "model.w", TG_SHAPE(1, 2));
    ((double *)tg_tensor_data_mut(tg_params_add(file, "model_row_updates.w", TG_SHAPE(1, 2))))[1] = 0.25;
    assert_true(tg_params_save(file, path, NULL, &error));
    tg_params_add(params, "w", TG_SHAPE(1, 2));
    const tg_checkpoint_part part = tg_checkpoint_params("model", params);
    assert_false(tg_checkpoint_load(path, &part, 1, &error));
    assert_error(&error, TG_ERROR_VALUE,
                 "row 0 of 'model_row_updates.w' has the counts 0 and 0.25; both must be whole");
    tg_params_free(params);
    tg_params_free(file);
    remove(path);
}

/* ---- folders ---- */

static void assert_found(tg_checkpoint_choice choice, const char *name)
{
    tg_error error = TG_NO_ERROR;
    char *found = tg_checkpoint_find("test_checkpoints", choice, &error);
    if (!found) {
        fail_msg("%s", error.text);
    }
    assert_string_equal(found, name);
    tg_text_free(found);
}

static void save_step(tg_checkpoint_folder *folder, int64_t step, bool is_best)
{
    tg_error error = TG_NO_ERROR;
    tg_checkpoint_part part = tg_checkpoint_integer("step", &step);
    if (!tg_checkpoint_folder_save(folder, step, is_best, &part, 1, &error)) {
        fail_msg("%s", error.text);
    }
}

static bool exists(const char *name)
{
    struct stat status;
    return stat(name, &status) == 0;
}

static void test_folder(void **state)
{
    (void)state;
    tg_error error = TG_NO_ERROR;
    assert_int_equal(system("rm -rf test_checkpoints"), 0);
    tg_checkpoint_folder_config config = tg_checkpoint_folder_config_default();
    config.keep = 2;
    tg_checkpoint_folder *folder = tg_checkpoint_folder_open("test_checkpoints", &config, &error);
    assert_non_null(folder);
    assert_null(tg_checkpoint_find("test_checkpoints", TG_CHECKPOINT_LAST, &error));
    assert_error(&error, TG_ERROR_FILE, "checkpoint_find: 'test_checkpoints' has no checkpoint");
    save_step(folder, 5, false);
    assert_found(TG_CHECKPOINT_BEST, "test_checkpoints/step-00000005.safetensors");
    save_step(folder, 10, true);
    save_step(folder, 15, false);
    save_step(folder, 100, false);
    save_step(folder, 20, false);
    assert_found(TG_CHECKPOINT_LAST, "test_checkpoints/step-00000020.safetensors");
    assert_found(TG_CHECKPOINT_BEST, "test_checkpoints/step-00000010.safetensors");
    assert_false(exists("test_checkpoints/step-00000005.safetensors"));
    assert_true(exists("test_checkpoints/step-00000010.safetensors"));
    assert_false(exists("test_checkpoints/step-00000015.safetensors"));
    assert_true(exists("test_checkpoints/step-00000020.safetensors"));
    assert_true(exists("test_checkpoints/step-00000100.safetensors"));
    save_step(folder, 100, true);
    assert_found(TG_CHECKPOINT_BEST, "test_checkpoints/step-00000100.safetensors");
    assert_false(exists("test_checkpoints/step-00000010.safetensors"));
    assert_true(tg_checkpoint_folder_clear(folder, &error));
    assert_null(tg_checkpoint_find("test_checkpoints", TG_CHECKPOINT_BEST, &error));
    assert_error(&error, TG_ERROR_FILE, "has no checkpoint");
    tg_checkpoint_folder_free(folder);
}

/* Each allocation of a clear fails in turn. A clear that reports no error has removed all files; after an error another
 * one removes them. */
static void test_clears_without_memory(void **state)
{
    (void)state;
    bool was_reached = true;
    for (size_t k = 1; was_reached; k++) {
        tg_error error = TG_NO_ERROR;
        assert_int_equal(system("rm -rf test_checkpoints"), 0);
        tg_checkpoint_folder *folder = tg_checkpoint_folder_open("test_checkpoints", NULL, &error);
        save_step(folder, 5, true);
        save_step(folder, 10, false);
        counting_allocator counting;
        allocator_install(&counting);
        allocator_arm(&counting, k, false);
        bool is_clear = tg_checkpoint_folder_clear(folder, &error);
        was_reached = counting.calls >= k;
        assert_int_equal(counting.live, 0);
        allocator_restore();
        assert_int_equal(is_clear, !was_reached);
        if (!is_clear) {
            assert_error(&error, TG_ERROR_MEMORY, "checkpoint_folder_clear: out of memory");
            assert_true(tg_checkpoint_folder_clear(folder, &error));
        }
        assert_false(exists("test_checkpoints/best"));
        assert_false(exists("test_checkpoints/last"));
        assert_null(tg_checkpoint_find("test_checkpoints", TG_CHECKPOINT_BEST, &error));
        assert_error(&error, TG_ERROR_FILE, "has no checkpoint");
        tg_checkpoint_folder_free(folder);
    }
}

/* Requires that the folder has the checkpoints of these steps, and no others. */
static void assert_steps(int count, const int *steps)
{
    int found = 0;
    DIR *opened = opendir("test_checkpoints");
    assert_non_null(opened);
    for (struct dirent *entry; (entry = readdir(opened));) {
        found += strncmp(entry->d_name, "step-", 5) == 0;
    }
    closedir(opened);
    for (int i = 0; i < count; i++) {
        char name[64];
        snprintf(name, sizeof name, "test_checkpoints/step-%08d.safetensors", steps[i]);
        if (!exists(name)) {
            fail_msg("%s is gone", name);
        }
    }
    assert_int_equal(found, count);
}

static tg_checkpoint_folder *open_folder(int64_t keep)
{
    tg_checkpoint_folder_config config = tg_checkpoint_folder_config_default();
    config.keep = keep;
    tg_checkpoint_folder *folder = tg_checkpoint_folder_open("test_checkpoints", &config, NULL);
    assert_non_null(folder);
    return folder;
}

/* A run goes back to an earlier step, and then starts again. What it wrote last exists, and is the last one. */
static void test_folder_goes_back(void **state)
{
    (void)state;
    assert_int_equal(system("rm -rf test_checkpoints"), 0);
    tg_checkpoint_folder *folder = open_folder(3);
    for (int step = 100; step <= 500; step += 100) {
        save_step(folder, step, step == 200);
    }
    assert_steps(4, (int[]){200, 300, 400, 500});
    save_step(folder, 150, false);
    assert_found(TG_CHECKPOINT_LAST, "test_checkpoints/step-00000150.safetensors");
    assert_found(TG_CHECKPOINT_BEST, "test_checkpoints/step-00000200.safetensors");
    assert_steps(4, (int[]){150, 200, 400, 500});
    tg_checkpoint_folder_free(folder);
    /* the order survives a restart; a best one below all others stays */
    folder = open_folder(3);
    save_step(folder, 0, true);
    assert_found(TG_CHECKPOINT_LAST, "test_checkpoints/step-00000000.safetensors");
    assert_found(TG_CHECKPOINT_BEST, "test_checkpoints/step-00000000.safetensors");
    assert_steps(3, (int[]){0, 150, 500});
    for (int step = 10; step <= 40; step += 10) {
        save_step(folder, step, false);
        assert_found(TG_CHECKPOINT_BEST, "test_checkpoints/step-00000000.safetensors");
    }
    assert_steps(4, (int[]){0, 20, 30, 40});
    /* a step that is written again is the last one, and not the best one any more */
    save_step(folder, 0, false);
    assert_found(TG_CHECKPOINT_LAST, "test_checkpoints/step-00000000.safetensors");
    assert_found(TG_CHECKPOINT_BEST, "test_checkpoints/step-00000000.safetensors");
    save_step(folder, 50, false);
    assert_found(TG_CHECKPOINT_BEST, "test_checkpoints/step-00000050.safetensors");
    assert_steps(3, (int[]){0, 40, 50});
    tg_checkpoint_folder_free(folder);
    folder = open_folder(1);
    save_step(folder, 7, false);
    assert_steps(1, (int[]){7});
    tg_checkpoint_folder_free(folder);
}

/* A folder that an earlier version wrote, or from which somebody removed files. */
static void test_folder_without_its_files(void **state)
{
    (void)state;
    tg_error error = TG_NO_ERROR;
    assert_int_equal(system("rm -rf test_checkpoints"), 0);
    tg_checkpoint_folder *folder = open_folder(3);
    save_step(folder, 30, false);
    save_step(folder, 20, true);
    assert_int_equal(remove("test_checkpoints/last"), 0);
    assert_found(TG_CHECKPOINT_LAST, "test_checkpoints/step-00000030.safetensors");
    save_step(folder, 10, false);
    assert_found(TG_CHECKPOINT_LAST, "test_checkpoints/step-00000010.safetensors");
    assert_int_equal(remove("test_checkpoints/step-00000010.safetensors"), 0);
    assert_found(TG_CHECKPOINT_LAST, "test_checkpoints/step-00000030.safetensors");
    assert_int_equal(remove("test_checkpoints/step-00000020.safetensors"), 0);
    assert_null(tg_checkpoint_find("test_checkpoints", TG_CHECKPOINT_BEST, &error));
    assert_error(&error, TG_ERROR_FILE, "the best checkpoint, 'test_checkpoints/step-00000020.safetensors': No such");
    save_step(folder, 40, true);
    assert_found(TG_CHECKPOINT_BEST, "test_checkpoints/step-00000040.safetensors");
    tg_checkpoint_folder_free(folder);
}

/* Runs a function in a forked process, and requires that it returns true there. */
static void in_child(bool (*function)(void *context), void *context)
{
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        _exit(function(context) ? 0 : 1);
    }
    assert_true(waitpid(child, &status, 0) == child && status == 0);
}

static bool child_saves(void *context)
{
    int64_t step = 1;
    const tg_checkpoint_part part = tg_checkpoint_integer("step", &step);
    tg_error saved = TG_NO_ERROR, cleared = TG_NO_ERROR;
    return !tg_checkpoint_folder_save(context, 1, false, &part, 1, &saved) && saved.code == TG_ERROR_STATE &&
           strstr(saved.text, "a fork of it cannot write to the folder") &&
           !tg_checkpoint_folder_clear(context, &cleared) && cleared.code == TG_ERROR_STATE;
}

static bool child_frees(void *context)
{
    tg_checkpoint_folder_free(context);
    return true;
}

/* The lock is of the process that opened the folder: a child that lives longer does not hold it, and one that frees its
 * copy does not release it. */
static void test_folder_after_a_fork(void **state)
{
    (void)state;
    tg_error error = TG_NO_ERROR;
    int ends[2];
    assert_int_equal(system("rm -rf test_checkpoints"), 0);
    tg_checkpoint_folder *folder = open_folder(3);
    in_child(child_saves, folder);
    in_child(child_frees, folder);
    assert_null(tg_checkpoint_folder_open("test_checkpoints", NULL, &error));
    assert_error(&error, TG_ERROR_STATE, "another run writes to 'test_checkpoints'");
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        char end;
        close(ends[1]);
        _exit(read(ends[0], &end, 1) == 0 ? 0 : 1);
    }
    tg_checkpoint_folder_free(folder);
    folder = tg_checkpoint_folder_open("test_checkpoints", NULL, &error);
    assert_string_equal(error.text, "");
    int status = -1;
    close(ends[0]);
    close(ends[1]);
    assert_true(waitpid(child, &status, 0) == child && status == 0);
    tg_checkpoint_folder_free(folder);
}

static void test_folder_is_locked(void **state)
{
    (void)state;
    tg_error error = TG_NO_ERROR;
    tg_checkpoint_folder *folder = tg_checkpoint_folder_open("test_checkpoints", NULL, &error);
    assert_non_null(folder);
    FILE *leftover = fopen("test_checkpoints/.tapegrad-1-0.tmp", "w");
    fclose(leftover);
    assert_null(tg_checkpoint_folder_open("test_checkpoints", NULL, &error));
    assert_error(&error, TG_ERROR_STATE, "checkpoint_folder_open: another run writes to 'test_checkpoints'");
    assert_true(exists("test_checkpoints/.tapegrad-1-0.tmp"));
    tg_checkpoint_folder_free(folder);
    folder = tg_checkpoint_folder_open("test_checkpoints", NULL, &error);
    assert_non_null(folder);
    assert_false(exists("test_checkpoints/.tapegrad-1-0.tmp"));
    tg_checkpoint_folder_free(folder);
}

static void test_folder_errors(void **state)
{
    (void)state;
    tg_error error = TG_NO_ERROR;
    int64_t number = 1;
    tg_checkpoint_part part = tg_checkpoint_integer("step", &number);
    assert_null(tg_checkpoint_folder_open("nowhere/here", NULL, &error));
    assert_error(&error, TG_ERROR_FILE, "checkpoint_folder_open: create 'nowhere/here': No such file");
    assert_null(tg_checkpoint_folder_open(path, NULL, &error));
    assert_error(&error, TG_ERROR_FILE, "Not a directory");
    tg_checkpoint_folder_config config = tg_checkpoint_folder_config_default();
    config.keep = 0;
    assert_null(tg_checkpoint_folder_open("test_checkpoints", &config, &error));
    assert_error(&error, TG_ERROR_VALUE, "keep 0; it must be 1 to 99999999");
    tg_checkpoint_folder *folder = tg_checkpoint_folder_open("test_checkpoints", NULL, &error);
    const int64_t steps[] = {-1, 100000000};
    for (int i = 0; i < 2; i++) {
        assert_false(tg_checkpoint_folder_save(folder, steps[i], false, &part, 1, &error));
        assert_error(&error, TG_ERROR_RANGE, "is outside [0,99999999]");
    }
    const char *texts[] = {"", "step-00000001", "step-0000001x.safetensors\n", "step-00000001.safetensors\n\n"};
    for (int i = 0; i < 4; i++) {
        FILE *best = fopen("test_checkpoints/best", "w");
        fputs(texts[i], best);
        fclose(best);
        assert_null(tg_checkpoint_find("test_checkpoints", TG_CHECKPOINT_BEST, &error));
        assert_error(&error, TG_ERROR_FORMAT, "'test_checkpoints/best' does not name a checkpoint");
    }
    FILE *last = fopen("test_checkpoints/last", "w");
    fputs("step-00000001.safetensors\nstep-2.safetensors\n", last);
    fclose(last);
    assert_null(tg_checkpoint_find("test_checkpoints", TG_CHECKPOINT_LAST, &error));
    assert_error(&error, TG_ERROR_FORMAT, "'test_checkpoints/last' does not name");
    assert_int_equal(remove("test_checkpoints/best"), 0);
    assert_false(tg_checkpoint_folder_save(folder, 3, false, &part, 1, &error));
    assert_error(&error, TG_ERROR_FORMAT, "checkpoint_folder_save: 'test_checkpoints/last' does not name");
    assert_steps(0, NULL);
    assert_null(tg_checkpoint_find("test_checkpoints", (tg_checkpoint_choice)2, &error));
    assert_error(&error, TG_ERROR_VALUE, "choice 2 does not exist");
    tg_checkpoint_folder_free(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_continues_with_the_same_bits),
        cmocka_unit_test(test_single_parts),
#if SIZE_MAX == UINT32_MAX
        cmocka_unit_test(test_bytes_beyond_memory),
#endif
        cmocka_unit_test(test_refuses_parts_that_differ),
        cmocka_unit_test(test_refuses_another_optimizer_or_loader),
        cmocka_unit_test(test_loaders_of_tensors),
        cmocka_unit_test(test_refuses_lists),
        cmocka_unit_test(test_refuses_numbers),
        cmocka_unit_test(test_refuses_states),
        cmocka_unit_test(test_without_memory),
        cmocka_unit_test(test_folder),
        cmocka_unit_test(test_clears_without_memory),
        cmocka_unit_test(test_folder_goes_back),
        cmocka_unit_test(test_folder_without_its_files),
        cmocka_unit_test(test_folder_after_a_fork),
        cmocka_unit_test(test_folder_is_locked),
        cmocka_unit_test(test_folder_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
