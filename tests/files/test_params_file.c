/* tg_params_save and tg_params_load: what is saved is loaded, with the options; a load that fails changes nothing; and
 * training continues after a load. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"
#include "tensor/tensor.h"

static const char path[] = "test_params_file.safetensors";

static const char *golden(const char *name)
{
    static char text[4096];
    snprintf(text, sizeof text, "%s/io/%s", TG_TEST_GOLDENS, name);
    return text;
}

/* tok.weight (rows,3) with the alias head.weight, the buffer mask (2,2), and bias (3). Values are drawn. */
static tg_params *make_params(tg_dtype dtype, uint64_t seed, int64_t rows)
{
    tg_run *run = tg_run_new(seed);
    tg_params *params = tg_params_new(run, dtype);
    tg_params_add_normal(params, "tok.weight", TG_SHAPE(rows, 3), 0, 1);
    tg_params_add_alias(params, "head.weight", "tok.weight");
    tg_tensor_fill_normal(tg_params_add_buffer(params, "mask", TG_SHAPE(2, 2)), tg_run_rng(run), 0, 1, NULL);
    tg_params_add_normal(params, "bias", TG_SHAPE(3), 0, 1);
    assert_int_equal(tg_params_error(params)->code, TG_OK);
    tg_run_free(run);
    return params;
}

static void save(const tg_params *params, const tg_params_save_config *config)
{
    tg_error error = TG_NO_ERROR;
    if (!tg_params_save(params, path, config, &error)) {
        fail_msg("%s", error.text);
    }
}

static void load(tg_params *params, const char *from, const tg_params_load_config *config)
{
    tg_error error = TG_NO_ERROR;
    if (!tg_params_load(params, from, config, &error)) {
        fail_msg("%s", error.text);
    }
}

static void assert_refused(tg_params *params, const char *from, const tg_params_load_config *config, tg_code code,
                           const char *text)
{
    tg_error error = TG_NO_ERROR;
    double before[8][64];
    int64_t count = tg_params_count(params);
    for (int64_t i = 0; i < count; i++) {
        for (int64_t k = 0; k < tg_tensor_count(tg_params_at(params, i).tensor); k++) {
            before[i][k] = tg_tensor_value_at(tg_params_at(params, i).tensor, k);
        }
    }
    assert_false(tg_params_load(params, from, config, &error));
    assert_error(&error, code, text);
    for (int64_t i = 0; i < count; i++) {
        for (int64_t k = 0; k < tg_tensor_count(tg_params_at(params, i).tensor); k++) {
            assert_true(before[i][k] == tg_tensor_value_at(tg_params_at(params, i).tensor, k));
        }
    }
}

static void assert_same(const tg_params *a, const tg_params *b)
{
    for (int64_t i = 0; i < tg_params_count(a); i++) {
        const tg_tensor *x = tg_params_at(a, i).tensor, *y = tg_params_at(b, i).tensor;
        assert_int_equal(tg_tensor_count(x), tg_tensor_count(y));
        for (int64_t k = 0; k < tg_tensor_count(x); k++) {
            assert_true(tg_tensor_value_at(x, k) == tg_tensor_value_at(y, k));
        }
    }
}

static void test_saved_is_loaded(void **state)
{
    (void)state;
    for (int dtype = TG_F32; dtype <= TG_F64; dtype++) {
        tg_params *saved = make_params((tg_dtype)dtype, 1, 4), *loaded = make_params((tg_dtype)dtype, 2, 4);
        tg_tensor *table = tg_params_find(loaded, "tok.weight");
        save(saved, NULL);
        load(loaded, path, NULL);
        assert_same(saved, loaded);
        assert_ptr_equal(table, tg_params_find(loaded, "head.weight"));
        /* and again over itself */
        save(loaded, NULL);
        load(loaded, path, NULL);
        assert_same(saved, loaded);
        tg_params_free(saved);
        tg_params_free(loaded);
    }
    remove(path);
}

/* The bytes in memory are those of the file. They restore every value, and bytes that were cut change none. */
static void test_bytes(void **state)
{
    (void)state;
    tg_error error = TG_NO_ERROR;
    tg_params_save_config half = tg_params_save_config_default();
    half.floats = TG_SAVE_FLOATS_F16;
    tg_params *saved = make_params(TG_F32, 1, 4), *loaded = make_params(TG_F32, 2, 4),
              *same = make_params(TG_F32, 2, 4);
    char *bytes = NULL, file[4096];
    int64_t size = -1;
    for (int i = 0; i < 2; i++) {
        const tg_params_save_config *config = i == 0 ? &half : NULL;
        tg_text_free(bytes);
        bytes = tg_params_save_bytes(saved, &size, config, &error);
        assert_string_equal(error.text, "");
        save(saved, config);
        FILE *stream = fopen(path, "rb");
        assert_int_equal(fread(file, 1, sizeof file, stream), size);
        fclose(stream);
        assert_memory_equal(bytes, file, (size_t)size);
        assert_int_equal(bytes[size], 0);
    }
    for (int64_t cut = 0; cut < size; cut++) {
        assert_false(tg_params_load_bytes(loaded, bytes, cut, NULL, &error));
        assert_error(&error, TG_ERROR_FORMAT, "params_load_bytes: 'bytes'");
        assert_same(loaded, same);
    }
    assert_true(tg_params_load_bytes(loaded, bytes, size, NULL, &error));
    assert_same(loaded, saved);
    tg_params *other = make_params(TG_F32, 3, 5);
    assert_false(tg_params_load_bytes(other, bytes, size, NULL, &error));
    assert_error(&error, TG_ERROR_SHAPE,
                 "params_load_bytes: 'bytes' does not fit: 0 missing, 0 unexpected, 1 mismatched");
    assert_false(tg_params_load_bytes(other, bytes, -1, NULL, &error));
    assert_error(&error, TG_ERROR_VALUE, "params_load_bytes: -1 bytes; it must be 0 or more");
    assert_false(tg_params_load_bytes(other, NULL, 0, NULL, &error));
    assert_error(&error, TG_ERROR_STATE, "params_load_bytes: the bytes are NULL");
    assert_null(tg_params_save_bytes(saved, NULL, NULL, &error));
    assert_error(&error, TG_ERROR_STATE, "params_save_bytes: the size is NULL");
    half.floats = (tg_save_floats)9;
    assert_null(tg_params_save_bytes(saved, &size, &half, &error));
    assert_error(&error, TG_ERROR_VALUE, "params_save_bytes: floats is 9");
    tg_text_free(bytes);
    tg_params_free(saved);
    tg_params_free(loaded);
    tg_params_free(same);
    tg_params_free(other);
}

/* save_model has written head.weight, the name that the params know as an alias, and no tok_emb.weight. */
static void test_tied_weights_of_the_reference(void **state)
{
    (void)state;
    tg_params *params = tg_params_new(NULL, TG_F32);
    tg_tensor *table = tg_params_add(params, "tok_emb.weight", TG_SHAPE(4, 3));
    tg_params_add_alias(params, "head.weight", "tok_emb.weight");
    load(params, golden("tied.safetensors"), NULL);
    for (int64_t k = 0; k < 12; k++) {
        assert_true(tg_tensor_value_at(table, k) == ((double)(k * 7 % 23) - 11) / 2);
    }
    tg_params_free(params);
}

static void test_sharded_model(void **state)
{
    (void)state;
    tg_params *params = tg_params_new(NULL, TG_F32);
    tg_tensor *c = tg_params_add(params, "c", TG_SHAPE(4));
    tg_params_add(params, "a", TG_SHAPE(2, 3));
    tg_params_add(params, "b", TG_SHAPE(3));
    load(params, golden("sharded.safetensors.index.json"), NULL);
    assert_true(tg_tensor_value_at(c, 1) == -2);
    tg_params_free(params);
}

/* ---- what does not fit ---- */

static void test_missing_and_unexpected(void **state)
{
    (void)state;
    tg_params *saved = make_params(TG_F32, 1, 4), *other = tg_params_new(NULL, TG_F32);
    tg_tensor *bias = tg_params_add(other, "bias", TG_SHAPE(3)), *more = tg_params_add(other, "more", TG_SCALAR);
    save(saved, NULL);
    tg_load_report report;
    tg_params_load_config config = tg_params_load_config_default();
    config.report = &report;
    assert_refused(other, path, NULL, TG_ERROR_VALUE,
                   "params_load: 'test_params_file.safetensors' does not fit: 1 missing, 2 unexpected, 0 mismatched; "
                   "missing: more; unexpected: mask; unexpected: tok.weight");
    assert_refused(other, path, &config, TG_ERROR_VALUE, "1 missing, 2 unexpected");
    assert_int_equal(report.loaded, 1);
    config.strict = false;
    load(other, path, &config);
    assert_int_equal(report.missing, 1);
    assert_int_equal(report.unexpected, 2);
    assert_int_equal(report.mismatched, 0);
    assert_string_equal(report.text, "missing: more\nunexpected: mask\nunexpected: tok.weight");
    assert_true(tg_tensor_value_at(bias, 2) == tg_tensor_value_at(tg_params_find(saved, "bias"), 2));
    assert_true(tg_tensor_item(more, NULL) == 0);
    assert_refused(other, "test_params_file.none", &config, TG_ERROR_FILE, "No such file or directory");
    assert_true(report.loaded == 0 && report.missing == 0 && report.text[0] == '\0');
    tg_params_free(saved);
    tg_params_free(other);
    remove(path);
}

static void test_other_shapes_and_dtypes(void **state)
{
    (void)state;
    tg_params *saved = make_params(TG_F32, 1, 4), *other = make_params(TG_F32, 2, 3);
    tg_params_load_config config = tg_params_load_config_default();
    config.strict = false;
    save(saved, NULL);
    assert_refused(
        other, path, &config, TG_ERROR_SHAPE,
        "0 missing, 0 unexpected, 1 mismatched; mismatched: tok.weight is F32 (4,3) in the file and f32 (3,3) "
        "here");
    /* the file must not have more rows than the table */
    config.grown_rows = true;
    assert_refused(other, path, &config, TG_ERROR_SHAPE, "F32 (4,3) in the file and f32 (3,3) here");
    tg_params_free(other);
    other = make_params(TG_F64, 2, 4);
    assert_refused(other, path, NULL, TG_ERROR_DTYPE, "3 mismatched; mismatched: tok.weight is F32 (4,3) in the file");
    config = tg_params_load_config_default();
    config.convert_floats = true;
    load(other, path, &config);
    assert_same(saved, other);
    save(other, NULL);
    tg_params *narrow = make_params(TG_F32, 3, 4);
    assert_refused(narrow, path, NULL, TG_ERROR_DTYPE, "tok.weight is F64 (4,3) in the file and f32 (4,3) here");
    load(narrow, path, &config);
    assert_same(saved, narrow);
    tg_params_free(saved);
    tg_params_free(other);
    tg_params_free(narrow);
    remove(path);
}

static void test_grown_rows(void **state)
{
    (void)state;
    tg_params *saved = make_params(TG_F32, 1, 4), *grown = make_params(TG_F32, 2, 6),
              *before = make_params(TG_F32, 2, 6);
    tg_params_load_config config = tg_params_load_config_default();
    save(saved, NULL);
    assert_refused(grown, path, &config, TG_ERROR_SHAPE, "tok.weight is F32 (4,3) in the file and f32 (6,3) here");
    config.grown_rows = true;
    load(grown, path, &config);
    const tg_tensor *table = tg_params_find(grown, "tok.weight");
    for (int64_t k = 0; k < 18; k++) {
        const tg_tensor *from = tg_params_find(k < 12 ? saved : before, "tok.weight");
        assert_true(tg_tensor_value_at(table, k) == tg_tensor_value_at(from, k));
    }
    tg_params_free(saved);
    tg_params_free(grown);
    tg_params_free(before);
    remove(path);
}

/* A long list of names is cut, in the error and in the report. */
static void test_many_missing_names(void **state)
{
    (void)state;
    tg_params *saved = make_params(TG_F32, 1, 4), *other = tg_params_new(NULL, TG_F32);
    for (int i = 0; i < 1000; i++) {
        char name[32];
        snprintf(name, sizeof name, "a.rather.long.name.%d", i);
        tg_params_add(other, name, TG_SCALAR);
    }
    tg_load_report report;
    tg_params_load_config config = tg_params_load_config_default();
    config.report = &report;
    save(saved, NULL);
    tg_error error = TG_NO_ERROR;
    assert_false(tg_params_load(other, path, &config, &error));
    assert_error(&error, TG_ERROR_VALUE, "1000 missing, 3 unexpected, 0 mismatched; missing: a.rather.long.name.0;");
    assert_int_equal(report.missing, 1000);
    assert_int_equal(strlen(report.text), TG_LOAD_REPORT_TEXT - 1);
    tg_params_free(saved);
    tg_params_free(other);
    remove(path);
}

/* ---- options ---- */

static void test_prefix_and_metadata(void **state)
{
    (void)state;
    tg_params *saved = make_params(TG_F32, 1, 4), *loaded = make_params(TG_F32, 2, 4);
    tg_params_save_config config = tg_params_save_config_default();
    const tg_metadata texts[] = {{"step", "12"}, {"format", "tapegrad"}};
    config.prefix = "model.";
    config.metadata = texts;
    config.metadata_count = 2;
    save(saved, &config);
    char *text = tg_text_read(path, NULL, NULL);
    assert_non_null(strstr(text + 8, "{\"__metadata__\":{\"step\":\"12\",\"format\":\"tapegrad\",\"model.head.weight\":"
                                     "\"model.tok.weight\"},\"model.bias\":{\"dtype\":\"F32\""));
    assert_null(strstr(text + 8, "head.weight\":{"));
    tg_text_free(text);
    /* the documented way to read it */
    text = tg_checkpoint_read_text(path, "step", NULL);
    assert_string_equal(text, "12");
    tg_text_free(text);
    assert_refused(loaded, path, NULL, TG_ERROR_VALUE, "3 missing, 3 unexpected");
    tg_params_load_config load_config = tg_params_load_config_default();
    load_config.prefix = "model.";
    load(loaded, path, &load_config);
    assert_same(saved, loaded);
    /* nothing in the file begins with this prefix, so nothing is unexpected */
    load_config.prefix = "mode1.";
    assert_refused(loaded, path, &load_config, TG_ERROR_VALUE, "3 missing, 0 unexpected");
    tg_params_free(saved);
    tg_params_free(loaded);
    remove(path);
}

/* The dtypes of tok.weight, mask and bias. */
static void expect_dtypes(const tg_params *params, tg_dtype table, tg_dtype others)
{
    assert_int_equal(tg_tensor_dtype(tg_params_find(params, "tok.weight")), table);
    assert_int_equal(tg_tensor_dtype(tg_params_find(params, "mask")), others);
    assert_int_equal(tg_tensor_dtype(tg_params_find(params, "bias")), others);
}

/* Frozen matrices stay bf16 if the option asks for it, and are saved and loaded again as such. */
static void test_keep_bf16(void **state)
{
    (void)state;
    tg_params *saved = make_params(TG_F32, 1, 4), *wide = make_params(TG_F32, 2, 4);
    tg_params_save_config narrow = tg_params_save_config_default();
    tg_params_load_config keep = tg_params_load_config_default();
    narrow.floats = TG_SAVE_FLOATS_BF16;
    keep.keep_bf16 = true;
    save(saved, &narrow);
    load(wide, path, NULL);
    for (int i = 0; i < 2; i++) { /* trained parameters are converted, and frozen ones are kept */
        tg_params *loaded = make_params(TG_F32, 3, 4);
        tg_tensor *table = tg_params_find(loaded, "tok.weight");
        assert_true(tg_params_set_frozen(loaded, "*", i));
        uint64_t version = tg_storage_version(table);
        load(loaded, path, &keep);
        expect_dtypes(loaded, i ? TG_BF16 : TG_F32, TG_F32);
        assert_same(loaded, wide);
        assert_ptr_equal(table, tg_params_find(loaded, "head.weight"));
        assert_true(tg_storage_version(table) > version);
        assert_int_equal(tg_tensor_requires_grad(table), !i);
        tg_params_free(loaded);
    }
    tg_params *loaded = make_params(TG_F32, 3, 4), *again = make_params(TG_F32, 4, 4);
    tg_tensor *table = tg_params_find(loaded, "tok.weight");
    assert_true(tg_params_set_frozen(loaded, "*", true) && tg_params_set_frozen(again, "*", true));
    /* a view of the values would keep the old ones */
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_reshape(t, table, TG_SHAPE(12));
    assert_refused(loaded, path, &keep, TG_ERROR_STATE, "params_load: another tensor shares the table's values");
    tg_tape_reset(t);
    load(loaded, path, &keep);
    /* a call that was recorded before the load needs the old values */
    save(loaded, NULL);
    char *text = tg_text_read(path, NULL, NULL);
    assert_non_null(strstr(text + 8, "\"tok.weight\":{\"dtype\":\"BF16\",\"shape\":[4,3]"));
    assert_non_null(strstr(text + 8, "\"bias\":{\"dtype\":\"F32\""));
    tg_text_free(text);
    tg_tensor *x = leaf(tg_tensor_new(TG_F32, TG_SHAPE(2, 3), NULL));
    tg_tensor *y = tg_sum(t, tg_linear(t, x, tg_params_find(again, "tok.weight"), NULL), TG_ALL_AXES, TG_DROP_AXES);
    load(again, path, &keep);
    expect_dtypes(again, TG_BF16, TG_F32);
    assert_same(again, wide);
    assert_false(tg_backward(t, y, NULL));
    assert_tape_error(t, TG_ERROR_STATE, "linear");
    tg_tape_free(t);
    tg_release(x);
    /* over itself, with and without the option; and from a file of f32 only with a conversion */
    load(again, path, &keep);
    load(again, path, NULL);
    assert_same(again, wide);
    save(saved, NULL);
    assert_refused(again, path, &keep, TG_ERROR_DTYPE, "tok.weight is F32 (4,3) in the file and bf16 (4,3) here");
    keep.convert_floats = true;
    load(again, path, &keep);
    expect_dtypes(again, TG_BF16, TG_F32);
    for (int64_t k = 0; k < 12; k++) {
        assert_true(tg_tensor_value_at(tg_params_find(again, "tok.weight"), k) ==
                    tg_tensor_value_at(tg_params_find(wide, "tok.weight"), k));
    }
    tg_params_free(saved);
    tg_params_free(wide);
    tg_params_free(loaded);
    tg_params_free(again);
    remove(path);
}

/* A checkpoint has the weights of bf16, and none of an optimizer's state for them. */
static void test_checkpoint_of_bf16(void **state)
{
    (void)state;
    tg_params *params[2];
    tg_optim *adam[2];
    tg_error error = TG_NO_ERROR;
    for (int i = 0; i < 2; i++) {
        tg_params *drawn = make_params(TG_F32, 1 + (uint64_t)i, 4);
        tg_tensor *table = tg_tensor_new_cast(tg_params_find(drawn, "tok.weight"), TG_BF16, NULL);
        params[i] = tg_params_new(NULL, TG_F32);
        tg_params_add_existing(params[i], "tok.weight", table);
        tg_params_add_existing(params[i], "bias", tg_params_find(drawn, "bias"));
        adam[i] = tg_adam_new(params[i], NULL);
        const tg_checkpoint_part parts[] = {tg_checkpoint_params("model", params[i]),
                                            tg_checkpoint_optim("optim", adam[i])};
        assert_true((i == 0 ? tg_checkpoint_save : tg_checkpoint_load)(path, parts, 2, &error));
        tg_release(table);
        tg_params_free(drawn);
    }
    assert_same(params[0], params[1]);
    assert_int_equal(tg_tensor_dtype(tg_params_find(params[1], "tok.weight")), TG_BF16);
    assert_string_equal(tg_optim_state_at(adam[1], 0).name, "bias");
    char *text = tg_text_read(path, NULL, NULL);
    assert_non_null(strstr(text + 8, "\"model.tok.weight\":{\"dtype\":\"BF16\""));
    tg_text_free(text);
    for (int i = 0; i < 2; i++) {
        tg_optim_free(adam[i]);
        tg_params_free(params[i]);
    }
    remove(path);
}

/* No allocation that fails leaves a change, or memory. */
static void test_keep_bf16_without_memory(void **state)
{
    (void)state;
    counting_allocator counting;
    allocator_install(&counting);
    tg_params *saved = make_params(TG_F32, 1, 4), *loaded = make_params(TG_F32, 2, 4);
    tg_params_save_config narrow = tg_params_save_config_default();
    tg_params_load_config keep = tg_params_load_config_default();
    tg_error error = TG_NO_ERROR;
    narrow.floats = TG_SAVE_FLOATS_BF16;
    keep.keep_bf16 = true;
    save(saved, &narrow);
    assert_true(tg_params_set_frozen(loaded, "*", true));
    size_t live = counting.live, failures = 0;
    for (bool is_loaded = false; !is_loaded; failures++) {
        allocator_arm(&counting, failures + 1, false);
        is_loaded = tg_params_load(loaded, path, &keep, &error);
        allocator_arm(&counting, 0, false);
        assert_int_equal(counting.live, live);
        expect_dtypes(loaded, is_loaded ? TG_BF16 : TG_F32, TG_F32);
        if (!is_loaded) {
            assert_error(&error, TG_ERROR_MEMORY, "");
        }
    }
    assert_true(failures > 5);
    tg_params_free(saved);
    tg_params_free(loaded);
    assert_int_equal(counting.live, 0);
    allocator_restore();
    remove(path);
}

static void test_sixteen_bits(void **state)
{
    (void)state;
    for (int floats = TG_SAVE_FLOATS_F16; floats <= TG_SAVE_FLOATS_BF16; floats++) {
        tg_params *saved = make_params(TG_F32, 1, 4), *loaded = make_params(TG_F32, 2, 4);
        tg_params_save_config config = tg_params_save_config_default();
        config.floats = (tg_save_floats)floats;
        save(saved, &config);
        load(loaded, path, NULL);
        double bound = floats == TG_SAVE_FLOATS_F16 ? 0x1p-11 : 0x1p-8, largest = 0;
        for (int64_t k = 0; k < 12; k++) {
            double x = tg_tensor_value_at(tg_params_find(saved, "tok.weight"), k);
            double error = (tg_tensor_value_at(tg_params_find(loaded, "tok.weight"), k) - x) / x;
            error = error < 0 ? -error : error;
            largest = error > largest ? error : largest;
        }
        assert_true(largest <= bound && largest > bound / 8);
        tg_params_free(saved);
        tg_params_free(loaded);
    }
    remove(path);
}

static void test_invalid_options(void **state)
{
    (void)state;
    tg_error error = TG_NO_ERROR;
    tg_params *params = make_params(TG_F32, 1, 4);
    tg_params_save_config config = tg_params_save_config_default();
    config.floats = (tg_save_floats)3;
    assert_false(tg_params_save(params, path, &config, &error));
    assert_error(&error, TG_ERROR_VALUE, "params_save: floats is 3");
    config = tg_params_save_config_default();
    config.metadata_count = 1;
    assert_false(tg_params_save(params, path, &config, &error));
    assert_error(&error, TG_ERROR_VALUE, "params_save: metadata_count is 1, but metadata is NULL");
    config.metadata = &(tg_metadata){"key", NULL};
    assert_false(tg_params_save(params, path, &config, &error));
    assert_error(&error, TG_ERROR_STATE, "params_save: the value of metadata 0 is NULL");
    config.metadata_count = -1;
    assert_false(tg_params_save(params, path, &config, &error));
    assert_error(&error, TG_ERROR_VALUE, "params_save: metadata_count is -1");
    assert_false(tg_params_save(params, "", NULL, &error));
    assert_error(&error, TG_ERROR_VALUE, "params_save: the path is empty");
    tg_params_load_config load_config = tg_params_load_config_default();
    const int64_t limits[] = {0, -1, 100000001};
    for (int i = 0; i < 3; i++) {
        load_config.max_header = limits[i];
        assert_false(tg_params_load(params, path, &load_config, &error));
        assert_non_null(strstr(error.text, "; it must be 1 to 100000000"));
        assert_error(&error, TG_ERROR_VALUE, "params_load: max_header is");
    }
    /* a text in the metadata that the header cannot hold */
    const size_t most = 100000000;
    char *text = malloc(most + 1);
    memset(text, 'x', most);
    text[most] = '\0';
    config = tg_params_save_config_default();
    config.metadata = &(tg_metadata){"text", text};
    config.metadata_count = 1;
    assert_false(tg_params_save(params, path, &config, &error));
    assert_non_null(strstr(error.text, "params_save: the names and metadata need 1000"));
    assert_error(&error, TG_ERROR_VALUE, " bytes; a header has at most 100000000");
    free(text);
    save(params, NULL);
    load_config.max_header = 50;
    assert_refused(params, path, &load_config, TG_ERROR_FORMAT, "at most 50 are read");
    remove(path);
    assert_refused(params, path, NULL, TG_ERROR_FILE,
                   "params_load: open 'test_params_file.safetensors': No such file or directory");
    tg_params_add(params, "bias", TG_SCALAR);
    assert_false(tg_params_save(params, path, NULL, &error));
    assert_error(&error, TG_ERROR_VALUE, "params: the name 'bias' is in use");
    assert_false(tg_params_load(params, path, NULL, &error));
    assert_error(&error, TG_ERROR_VALUE, "params: the name 'bias' is in use");
    tg_params_free(params);
}

/* ---- after a load ---- */

static void step(tg_params *params, tg_optim *optim, tg_tape *t)
{
    tg_tape_reset(t);
    tg_optim_zero_grad(optim);
    tg_tensor *table = tg_params_find(params, "tok.weight"), *bias = tg_params_find(params, "bias");
    tg_tensor *y = tg_add(t, tg_mul(t, table, table), bias);
    assert_true(tg_backward(t, tg_sum(t, y, TG_ALL_AXES, TG_DROP_AXES), NULL));
    assert_true(tg_optim_step(optim));
}

/* Three steps, a load of the values after the first, and two steps have the bits of three steps with plain SGD. */
static void test_optimizers_go_on(void **state)
{
    (void)state;
    tg_params *straight = make_params(TG_F32, 1, 4), *back = make_params(TG_F32, 1, 4);
    tg_optim *a = tg_sgd_new(straight, NULL), *b = tg_sgd_new(back, NULL);
    tg_tape *t = tg_tape_new(NULL, NULL);
    for (int i = 0; i < 3; i++) {
        step(straight, a, t);
        step(back, b, t);
        if (i == 0) {
            save(back, NULL);
        }
    }
    load(back, path, NULL);
    for (int i = 0; i < 2; i++) {
        step(back, b, t);
    }
    assert_same(straight, back);
    tg_tape_free(t);
    tg_optim_free(a);
    tg_optim_free(b);
    tg_params_free(straight);
    tg_params_free(back);
    remove(path);
}

/* A backward that needs the values before the load is an error. */
static void test_versions_rise(void **state)
{
    (void)state;
    tg_params *params = make_params(TG_F32, 1, 4);
    tg_tensor *bias = tg_params_find(params, "bias");
    tg_tape *t = tg_tape_new(NULL, NULL);
    uint64_t version = tg_storage_version(bias);
    tg_tensor *loss = tg_sum(t, tg_mul(t, bias, bias), TG_ALL_AXES, TG_DROP_AXES);
    save(params, NULL);
    load(params, path, NULL);
    assert_true(tg_storage_version(bias) > version);
    assert_false(tg_backward(t, loss, NULL));
    assert_tape_error(t, TG_ERROR_STATE, "was changed in place after it was recorded");
    tg_tape_free(t);
    tg_params_free(params);
    remove(path);
}

/* A tensor that shares the values of a parameter gets the new ones, too. */
static void test_shared_values(void **state)
{
    (void)state;
    tg_params *saved = make_params(TG_F32, 1, 4), *loaded = make_params(TG_F32, 2, 4);
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_tensor *view = tg_detach(t, tg_params_find(loaded, "bias"));
    uint64_t version = tg_storage_version(view);
    save(saved, NULL);
    load(loaded, path, NULL);
    assert_same(saved, loaded);
    for (int64_t k = 0; k < 3; k++) {
        assert_true(tg_tensor_value_at(view, k) == tg_tensor_value_at(tg_params_find(saved, "bias"), k));
    }
    assert_true(tg_storage_version(view) > version);
    tg_tape_free(t);
    tg_params_free(saved);
    tg_params_free(loaded);
    remove(path);
}

/* Every allocation of a save and of a load fails once. The load changes nothing, and a retry succeeds. */
static void test_memory(void **state)
{
    (void)state;
    counting_allocator counting;
    allocator_install(&counting);
    tg_params *saved = make_params(TG_F32, 1, 4), *loaded = make_params(TG_F32, 2, 6);
    tg_params_save_config save_config = tg_params_save_config_default();
    tg_params_load_config config = tg_params_load_config_default();
    save_config.floats = TG_SAVE_FLOATS_BF16;
    save_config.metadata = &(tg_metadata){"key", "value"};
    save_config.metadata_count = 1;
    config.grown_rows = true;
    size_t live = counting.live;
    double bias = tg_tensor_value_at(tg_params_find(loaded, "bias"), 0);
    tg_error error = TG_NO_ERROR;
    for (int call = 0; call < 2; call++) {
        bool is_done = false;
        size_t failures = 0;
        for (size_t k = 1; !is_done; k++) {
            if (call == 1) {
                save(saved, &save_config);
            }
            allocator_arm(&counting, k, false);
            is_done = call == 0 ? tg_params_save(saved, path, &save_config, &error)
                                : tg_params_load(loaded, path, &config, &error);
            allocator_arm(&counting, 0, false);
            if (!is_done) {
                assert_error(&error, TG_ERROR_MEMORY, call == 0 ? "params_save" : "params_load");
                failures++;
                assert_int_equal(counting.live, live);
            }
            assert_int_equal(remove(path) == 0, call == 1 || is_done);
            assert_true(is_done || tg_tensor_value_at(tg_params_find(loaded, "bias"), 0) == bias);
        }
        assert_true(failures > 8);
    }
    assert_int_equal(counting.live, live);
    tg_params_free(saved);
    tg_params_free(loaded);
    assert_int_equal(counting.live, 0);
    allocator_restore();
    remove(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_saved_is_loaded),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_tied_weights_of_the_reference),
        cmocka_unit_test(test_sharded_model),
        cmocka_unit_test(test_missing_and_unexpected),
        cmocka_unit_test(test_other_shapes_and_dtypes),
        cmocka_unit_test(test_grown_rows),
        cmocka_unit_test(test_many_missing_names),
        cmocka_unit_test(test_prefix_and_metadata),
        cmocka_unit_test(test_keep_bf16),
        cmocka_unit_test(test_checkpoint_of_bf16),
        cmocka_unit_test(test_keep_bf16_without_memory),
        cmocka_unit_test(test_sixteen_bits),
        cmocka_unit_test(test_invalid_options),
        cmocka_unit_test(test_optimizers_go_on),
        cmocka_unit_test(test_versions_rise),
        cmocka_unit_test(test_shared_values),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests_name("params_file", tests, NULL, NULL);
}
