/* Params: names, kinds, initial values, errors and memory. */
#include <stdio.h>
#include <string.h>

#include "params/params.h"
#include "support.h"

static void test_entries(void **state)
{
    (void)state;
    tg_params *params = tg_params_new(NULL, TG_F64);
    tg_tensor *weight = tg_params_add(params, "tok_emb.weight", TG_SHAPE(4, 3));
    tg_tensor *mask = tg_params_add_buffer(params, "mask", TG_SHAPE(5));
    tg_tensor *tied = tg_params_add_alias(params, "head.weight", "tok_emb.weight");
    tg_tensor *bias = tg_params_add(params, "head.bias", TG_SHAPE(2));
    assert_ptr_equal(tied, weight);
    assert_true(tg_tensor_requires_grad(weight) && tg_tensor_requires_grad(bias));
    assert_false(tg_tensor_requires_grad(mask));
    assert_int_equal(tg_tensor_dtype(weight), TG_F64);
    for (int64_t i = 0; i < tg_tensor_count(weight); i++) {
        assert_true(tg_tensor_value_at(weight, i) == 0);
    }
    const tg_entry want[] = {{"tok_emb.weight", weight, TG_ENTRY_PARAMETER},
                             {"mask", mask, TG_ENTRY_BUFFER},
                             {"head.weight", weight, TG_ENTRY_ALIAS},
                             {"head.bias", bias, TG_ENTRY_PARAMETER}};
    assert_int_equal(tg_params_count(params), 4);
    /* in the order in which they were added */
    for (int i = 0; i < 4; i++) {
        tg_entry entry = tg_params_at(params, i);
        assert_string_equal(entry.name, want[i].name);
        assert_ptr_equal(entry.tensor, want[i].tensor);
        assert_int_equal(entry.kind, want[i].kind);
        assert_ptr_equal(tg_params_find(params, want[i].name), want[i].tensor);
    }
    assert_true(!tg_params_at(params, 4).tensor && !tg_params_at(params, 4).name);
    assert_true(!tg_params_at(params, -1).tensor && !tg_params_at(params, -1).name);
    assert_null(tg_params_find(params, "tok_emb"));
    assert_null(tg_params_find(params, NULL));
    /* the tied table once, the buffer not */
    assert_int_equal(tg_params_value_count(params), 14);
    assert_int_equal(tg_params_dtype(params), TG_F64);
    tg_params_free(params);
}

/* Two optimizers of parts of a model: each updates its own parameters. */
static void test_parts(void **state)
{
    (void)state;
    tg_params *params = tg_params_new(NULL, TG_F64);
    tg_tensor *table = tg_params_add(params, "emb.weight", TG_SHAPE(2)),
              *head = tg_params_add(params, "head.weight", TG_SHAPE(2));
    tg_params_add_buffer(params, "emb.mask", TG_SHAPE(2));
    tg_tensor *bias = tg_params_add(params, "head.bias", TG_SHAPE(2));
    tg_params_add_alias(params, "emb.tied", "head.weight");
    assert_true(tg_params_set_frozen(params, "head.bias", true));
    tg_params *embedding = tg_params_new_part(params, "emb.*"), *others = tg_params_new_part(params, "head*");
    assert_int_equal(tg_params_count(embedding), 1);
    assert_ptr_equal(tg_params_find(embedding, "emb.weight"), table);
    assert_int_equal(tg_params_count(others), 2);
    assert_false(tg_tensor_requires_grad(bias));
    assert_null(tg_params_new_part(params, "emb"));
    assert_params_error(params, TG_ERROR_RANGE, "params_new_part: no parameter matches 'emb'");
    tg_sgd_config config = tg_sgd_config_default();
    config.lr = 1;
    tg_optim *fast = tg_sgd_new(embedding, &config);
    config.lr = 0.5;
    tg_optim *slow = tg_sgd_new(others, &config);
    tg_tape *t = tg_tape_new(NULL, NULL);
    assert_true(tg_backward(t, tg_sum(t, tg_add(t, table, head), TG_ALL_AXES, TG_DROP_AXES), NULL));
    assert_true(tg_optim_step(fast));
    assert_values(table, (double[]){-1, -1}, 2, 0, 0);
    assert_values(head, (double[]){0, 0}, 2, 0, 0);
    assert_true(tg_optim_step(slow));
    assert_values(table, (double[]){-1, -1}, 2, 0, 0);
    assert_values(head, (double[]){-0.5, -0.5}, 2, 0, 0);
    tg_tape_free(t);
    tg_optim_free(fast);
    tg_optim_free(slow);
    tg_params_free(others);
    tg_params_free(embedding);
    tg_params_free(params);
}

/* Memory that runs out at any allocation is an error, and leaks nothing. */
static void test_parts_without_memory(void **state)
{
    (void)state;
    counting_allocator memory;
    allocator_install(&memory);
    tg_params *params = tg_params_new(NULL, TG_F64), *part = NULL;
    tg_params_add(params, "emb.weight", TG_SHAPE(2));
    size_t live = memory.live;
    for (size_t k = 1; !part; k++) {
        allocator_arm(&memory, k, false);
        part = tg_params_new_part(params, "*");
        if (!part) {
            assert_params_error(params, TG_ERROR_MEMORY, "out of memory");
            assert_int_equal(memory.live, live);
        }
    }
    tg_params_free(part);
    tg_params_free(params);
    assert_int_equal(memory.live, 0);
    allocator_restore();
}

/* The names are copies: the caller's text may change. */
static void test_names_are_copied(void **state)
{
    (void)state;
    tg_params *params = tg_params_new(NULL, TG_F32);
    char name[300] = "first.weight";
    assert_non_null(tg_params_add(params, name, TG_SHAPE(1)));
    memset(name, 'n', 255);
    assert_non_null(tg_params_add(params, name, TG_SHAPE(1)));
    assert_string_equal(tg_params_at(params, 0).name, "first.weight");
    name[255] = 'n';
    assert_null(tg_params_add(params, name, TG_SHAPE(1)));
    assert_params_error(params, TG_ERROR_VALUE, "a name of 256 characters; it must have 1 to 255");
    tg_params_free(params);
}

/* The same draws as the fills of tapegrad/tensor.h, in the order of adding. */
static void test_draws(void **state)
{
    (void)state;
    tg_run *run = tg_run_new(123);
    tg_rng *same = tg_rng_new(123);
    tg_params *params = tg_params_new(run, TG_F32);
    assert_ptr_equal(tg_params_rng(params), tg_run_rng(run));
    tg_tensor *a = tg_params_add_normal(params, "a", TG_SHAPE(6, 3), 0, 1);
    tg_tensor *b = tg_params_add_uniform(params, "b", TG_SHAPE(3), -0.5, 0.25);
    /* torch.manual_seed(123); torch.nn.Embedding(6, 3).weight[0] */
    const float first_row[] = {0.3374F, -0.1778F, -0.1690F};
    for (int i = 0; i < 3; i++) {
        assert_true(tg_tensor_value_at(a, i) - (double)first_row[i] < 5.1e-5 &&
                    tg_tensor_value_at(a, i) - (double)first_row[i] > -5.1e-5);
    }
    tg_tensor *c = tg_tensor_new(TG_F32, TG_SHAPE(6, 3), NULL), *d = tg_tensor_new(TG_F32, TG_SHAPE(3), NULL);
    assert_true(tg_tensor_fill_normal(c, same, 0, 1, NULL) && tg_tensor_fill_uniform(d, same, -0.5, 0.25, NULL));
    assert_memory_equal(tg_tensor_data(a), tg_tensor_data(c), 18 * sizeof(float));
    assert_memory_equal(tg_tensor_data(b), tg_tensor_data(d), 3 * sizeof(float));
    uint64_t position = tg_rng_position(tg_run_rng(run));
    assert_null(tg_params_add_normal(params, "a", TG_SHAPE(20), 0, 1));
    assert_params_error(params, TG_ERROR_VALUE, "params: the name 'a' is in use");
    assert_null(tg_params_add_normal(params, "e", TG_SHAPE(20), 0, -1));
    assert_params_error(params, TG_ERROR_VALUE, "standard deviation -1");
    assert_null(tg_params_find(params, "e"));
    assert_int_equal(tg_params_count(params), 2);
    /* failures draw nothing */
    assert_int_equal(tg_rng_position(tg_run_rng(run)), position);
    tg_params_free(params);
    params = tg_params_new(NULL, TG_F32);
    assert_null(tg_params_add_uniform(params, "b", TG_SHAPE(3), 0, 1));
    assert_params_error(params, TG_ERROR_STATE, "params: 'b' needs a generator; give a run to tg_params_new");
    assert_int_equal(tg_params_count(params), 0);
    tg_params_free(params);
    tg_release(c);
    tg_release(d);
    tg_run_free(run);
    tg_rng_free(same);
}

static void test_existing(void **state)
{
    (void)state;
    tg_params *params = tg_params_new(NULL, TG_F32);
    tg_tensor *x = tg_tensor_new(TG_F32, TG_SHAPE(2, 2), NULL), *ids = tg_tensor_new(TG_I32, TG_SHAPE(2), NULL);
    assert_ptr_equal(tg_params_add_existing(params, "x", x), x);
    assert_true(tg_tensor_requires_grad(x));
    assert_null(tg_params_add_existing(params, "ids", ids));
    assert_params_error(params, TG_ERROR_DTYPE, "params: the tensor for 'ids' is i32; these params are f32");
    assert_null(tg_params_add_existing(params, "none", NULL));
    assert_params_error(params, TG_ERROR_STATE, "params: the tensor for 'none' is NULL");
    assert_null(tg_params_add_existing(params, "y", x));
    assert_params_error(params, TG_ERROR_STATE, "params: the tensor for 'y' has the name 'x' already");
    tg_params_free(params);
    /* still the caller's */
    assert_true(tg_tensor_value_at(x, 3) == 0);
    tg_release(x);
    tg_release(ids);
}

static void test_frozen(void **state)
{
    (void)state;
    tg_params *params = tg_params_new(NULL, TG_F32);
    tg_tensor *w = tg_params_add(params, "w", TG_SHAPE(2));
    assert_non_null(tg_params_add_buffer(params, "mask", TG_SHAPE(2)));
    assert_non_null(tg_params_add_alias(params, "tied", "w"));
    assert_non_null(tg_params_add_alias(params, "same_mask", "mask"));
    assert_true(tg_params_set_frozen(params, "w", true));
    assert_false(tg_tensor_requires_grad(w));
    assert_true(tg_params_set_frozen(params, "tied", false));
    assert_true(tg_tensor_requires_grad(w));
    assert_false(tg_params_set_frozen(params, "mask", false));
    assert_params_error(params, TG_ERROR_STATE,
                        "params_set_frozen: 'mask' matches only buffers, which are never trained");
    assert_false(tg_params_set_frozen(params, "same_mask", false));
    assert_params_error(params, TG_ERROR_STATE, "params_set_frozen: 'same_mask' matches only buffers");
    assert_false(tg_tensor_requires_grad(tg_params_find(params, "mask")));
    assert_false(tg_params_set_frozen(params, "nobody", true));
    assert_params_error(params, TG_ERROR_RANGE, "params_set_frozen: no parameter matches 'nobody'");
    assert_false(tg_params_set_frozen(params, NULL, true));
    assert_params_error(params, TG_ERROR_STATE, "the pattern is NULL");
    tg_params_free(params);
}

static void test_frozen_by_pattern(void **state)
{
    (void)state;
    tg_params *params = tg_params_new(NULL, TG_F32);
    tg_tensor *x[] = {tg_params_add(params, "h.0.weight", TG_SHAPE(2)), tg_params_add(params, "h.0.bias", TG_SHAPE(2)),
                      tg_params_add_buffer(params, "h.0.mask", TG_SHAPE(2)),
                      tg_params_add(params, "head.weight", TG_SHAPE(2))};
    static const struct {
        const char *pattern;
        bool frozen, trained[4];
    } cases[] = {
        {"h.*", true, {false, false, false, true}},
        {"*.bias", false, {false, true, false, true}},
        {"*", false, {true, true, false, true}},
        {"*.weight", true, {false, true, false, false}},
        {"head.weight", false, {false, true, false, true}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_true(tg_params_set_frozen(params, cases[i].pattern, cases[i].frozen));
        for (int k = 0; k < 4; k++) {
            assert_int_equal(tg_tensor_requires_grad(x[k]), cases[i].trained[k]);
        }
    }
    assert_false(tg_params_set_frozen(params, "h.1.*", true));
    assert_params_error(params, TG_ERROR_RANGE, "params_set_frozen: no parameter matches 'h.1.*'");
    tg_params_free(params);
}

/* Params of f32 may have frozen parameters of bf16, which are never trained. */
static void test_bf16(void **state)
{
    (void)state;
    tg_params *params = tg_params_new(NULL, TG_F32), *doubles = tg_params_new(NULL, TG_F64);
    tg_tensor *x = tg_tensor_new(TG_BF16, TG_SHAPE(4, 3), NULL), *ids = tg_tensor_new(TG_I32, TG_SHAPE(2), NULL);
    assert_ptr_equal(tg_params_add_existing(params, "emb.weight", x), x);
    tg_params_add_alias(params, "head.weight", "emb.weight");
    tg_tensor *bias = tg_params_add(params, "head.bias", TG_SHAPE(4));
    assert_false(tg_tensor_requires_grad(x));
    assert_int_equal(tg_params_at(params, 0).kind, TG_ENTRY_PARAMETER);
    assert_int_equal(tg_params_value_count(params), 16);
    assert_true(tg_params_set_frozen(params, "*", true));
    assert_false(tg_params_set_frozen(params, "*", false));
    assert_params_error(params, TG_ERROR_DTYPE,
                        "params_set_frozen: 'emb.weight' is bf16; a trained parameter must be f32");
    assert_false(tg_params_set_frozen(params, "head.weight", false));
    assert_params_error(params, TG_ERROR_DTYPE, "params_set_frozen: 'head.weight' is bf16");
    assert_false(tg_tensor_requires_grad(bias) || tg_tensor_requires_grad(x));
    assert_true(tg_params_set_frozen(params, "*.bias", false));
    assert_true(tg_tensor_requires_grad(bias));
    tg_params *part = tg_params_new_part(params, "*");
    assert_int_equal(tg_params_count(part), 2);
    assert_false(tg_tensor_requires_grad(x));
    tg_params_free(part);
    assert_null(tg_params_add_existing(doubles, "w", x));
    assert_params_error(doubles, TG_ERROR_DTYPE, "params: the tensor for 'w' is bf16; these params are f64");
    assert_null(tg_params_add_existing(params, "w", ids));
    assert_params_error(params, TG_ERROR_DTYPE, "the tensor for 'w' is i32; these params are f32, and may have bf16");
    tg_params *none = tg_params_new(NULL, TG_BF16);
    assert_params_error(none, TG_ERROR_DTYPE, "params_new: dtype bf16; it must be f32 or f64");
    tg_params_free(none);
    tg_params_free(params);
    tg_params_free(doubles);
    tg_release(x);
    tg_release(ids);
}

static void test_errors(void **state)
{
    (void)state;
    tg_params *params = tg_params_new(NULL, TG_F32);
    assert_non_null(tg_params_add(params, "w", TG_SHAPE(2)));
    assert_null(tg_params_add(params, "", TG_SHAPE(2)));
    /* the first error stays, and later calls do nothing */
    assert_null(tg_params_add(params, "w", TG_SHAPE(3)));
    assert_null(tg_params_add(params, "v", TG_SHAPE(3)));
    assert_int_equal(tg_params_count(params), 1);
    assert_params_error(params, TG_ERROR_VALUE, "params: a name of 0 characters; it must have 1 to 255");
    assert_int_equal(tg_params_error(params)->code, TG_OK);
    assert_string_equal(tg_params_error(params)->text, "");
    assert_null(tg_params_add(params, NULL, TG_SHAPE(2)));
    assert_params_error(params, TG_ERROR_STATE, "the name is NULL");
    assert_null(tg_params_add(params, "w", TG_SHAPE(2)));
    assert_params_error(params, TG_ERROR_VALUE, "params: the name 'w' is in use");
    assert_null(tg_params_add_buffer(params, "b", TG_SHAPE(2, -1)));
    assert_params_error(params, TG_ERROR_SHAPE, "-1");
    assert_null(tg_params_add_alias(params, "w2", "nobody"));
    assert_params_error(params, TG_ERROR_RANGE, "no entry 'nobody' exists");
    assert_null(tg_params_add_alias(params, "w2", NULL));
    assert_params_error(params, TG_ERROR_STATE, "the name is NULL");
    assert_null(tg_params_add_alias(params, "w", "w"));
    assert_params_error(params, TG_ERROR_VALUE, "params: the name 'w' is in use");
    assert_int_equal(tg_params_count(params), 1);
    tg_params_free(params);
}

/* A name with nothing between its dots, beside them, or before the first one, which only a misspelled module has. */
static void test_names_with_empty_parts(void **state)
{
    (void)state;
    tg_params *params = tg_params_new(NULL, TG_F32);
    tg_tensor *x = tg_tensor_new(TG_F32, TG_SHAPE(2), NULL);
    static const char *const names[] = {".weight", "head.", "head..weight", ".", "..", "a.b..c"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char expected[80];
        snprintf(expected, sizeof expected, "params: the name '%s' has an empty part", names[i]);
        assert_null(tg_params_add(params, names[i], TG_SHAPE(2)));
        assert_params_error(params, TG_ERROR_VALUE, expected);
        assert_null(tg_params_add_buffer(params, names[i], TG_SHAPE(2)));
        assert_params_error(params, TG_ERROR_VALUE, expected);
        assert_null(tg_params_add_existing(params, names[i], x));
        assert_params_error(params, TG_ERROR_VALUE, expected);
    }
    assert_false(tg_nn_layer_norm_make(params, "", 4, NULL).module.is_made);
    assert_params_error(params, TG_ERROR_VALUE, "params: the name '.weight' has an empty part");
    assert_false(tg_nn_layer_norm_make(params, "head.", 4, NULL).module.is_made);
    assert_params_error(params, TG_ERROR_VALUE, "params: the name 'head..weight' has an empty part");
    assert_int_equal(tg_params_count(params), 0);
    assert_non_null(tg_params_add(params, "w", TG_SHAPE(2)));
    assert_null(tg_params_add_alias(params, "w.", "w"));
    assert_params_error(params, TG_ERROR_VALUE, "params: the name 'w.' has an empty part");
    assert_non_null(tg_params_add(params, "h.0.w", TG_SHAPE(2)));
    /* a name that does not exist is no error */
    assert_null(tg_params_find(params, "h.1.w"));
    assert_int_equal(tg_params_error(params)->code, TG_OK);
    tg_release(x);
    tg_params_free(params);
}

/* A dtype in which nothing is trained: an object with the error, which refuses additions. */
static void test_wrong_dtype(void **state)
{
    (void)state;
    const struct {
        tg_dtype dtype;
        const char *part;
    } wrong[] = {{TG_I32, "params_new: dtype i32; it must be f32 or f64"},
                 {TG_U8, "params_new: dtype u8; it must be"},
                 {(tg_dtype)17, "params_new: dtype unknown; it must be"}};
    for (int i = 0; i < 3; i++) {
        tg_params *params = tg_params_new(NULL, wrong[i].dtype);
        assert_non_null(params);
        assert_int_equal(tg_params_error(params)->code, TG_ERROR_DTYPE);
        assert_null(tg_params_add(params, "w", TG_SHAPE(2)));
        assert_null(tg_adam_new(params, NULL));
        assert_int_equal(tg_params_count(params), 0);
        assert_int_equal(tg_params_value_count(params), 0);
        assert_params_error(params, TG_ERROR_DTYPE, wrong[i].part);
        tg_params_free(params);
    }
}

/* Params with an error refuse every call until it is cleared, draw nothing, and answer getters. */
static void test_refuses_until_cleared(void **state)
{
    (void)state;
    tg_run *run = tg_run_new(1);
    tg_params *params = tg_params_new(run, TG_F32);
    tg_tensor *x = tg_tensor_new(TG_F32, TG_SHAPE(2), NULL), *w = tg_params_add(params, "w", TG_SHAPE(2));
    assert_null(tg_params_add(params, "", TG_SHAPE(1)));
    assert_null(tg_params_add(params, "a", TG_SHAPE(1)));
    assert_null(tg_params_add_normal(params, "b", TG_SHAPE(1), 0, 1));
    assert_null(tg_params_add_uniform(params, "c", TG_SHAPE(1), 0, 1));
    assert_null(tg_params_add_existing(params, "d", x));
    assert_null(tg_params_add_buffer(params, "e", TG_SHAPE(1)));
    assert_null(tg_params_add_alias(params, "f", "w"));
    assert_false(tg_params_set_frozen(params, "w", true));
    assert_false(tg_nn_linear_make(params, "fc", 2, 2, TG_BIAS).module.is_made);
    assert_null(tg_sgd_new(params, NULL));
    assert_true(tg_tensor_requires_grad(w) && !tg_tensor_requires_grad(x));
    assert_int_equal(tg_params_count(params), 1);
    assert_ptr_equal(tg_params_find(params, "w"), w);
    assert_int_equal(tg_rng_position(tg_run_rng(run)), 0);
    assert_params_error(params, TG_ERROR_VALUE, "params: a name of 0 characters");
    assert_non_null(tg_params_add(params, "a", TG_SHAPE(1)));
    assert_non_null(tg_params_add_normal(params, "b", TG_SHAPE(1), 0, 1));
    assert_true(tg_params_set_frozen(params, "w", true));
    tg_optim *optim = tg_sgd_new(params, NULL);
    assert_non_null(optim);
    tg_optim_free(optim);
    tg_params_free(params);
    tg_release(x);
    tg_run_free(run);
}

static void test_null(void **state)
{
    (void)state;
    tg_params_free(NULL);
    clear_params_error(NULL);
    assert_int_equal(tg_params_error(NULL)->code, TG_ERROR_MEMORY);
    assert_non_null(strstr(tg_params_error(NULL)->text, "NULL"));
    tg_tensor *x = tg_tensor_new(TG_F32, TG_SHAPE(1), NULL);
    assert_null(tg_params_add(NULL, "w", TG_SHAPE(1)));
    assert_null(tg_params_add_normal(NULL, "w", TG_SHAPE(1), 0, 1));
    assert_null(tg_params_add_uniform(NULL, "w", TG_SHAPE(1), 0, 1));
    assert_null(tg_params_add_existing(NULL, "w", x));
    assert_null(tg_params_add_buffer(NULL, "w", TG_SHAPE(1)));
    assert_null(tg_params_add_alias(NULL, "w", "v"));
    assert_false(tg_params_set_frozen(NULL, "w", true));
    assert_int_equal(tg_params_count(NULL), 0);
    assert_true(!tg_params_at(NULL, 0).tensor && !tg_params_at(NULL, 0).name);
    assert_null(tg_params_find(NULL, "w"));
    assert_int_equal(tg_params_value_count(NULL), 0);
    assert_null(tg_params_rng(NULL));
    tg_release(x);
}

static void test_zero_grad(void **state)
{
    (void)state;
    tg_params *params = tg_params_new(NULL, TG_F64);
    tg_tensor *w = tg_params_add(params, "w", TG_SHAPE(2));
    tg_tape *tape = tg_tape_new(NULL, NULL);
    assert_true(tg_backward(tape, tg_sum(tape, tg_mul(tape, w, w), TG_ALL_AXES, TG_DROP_AXES), NULL));
    assert_int_equal(tg_tensor_grad_kind(w), TG_GRAD_DENSE);
    for (int64_t i = 0; i < tg_params_count(params); i++) {
        tg_tensor_zero_grad(tg_params_at(params, i).tensor);
    }
    assert_int_equal(tg_tensor_grad_kind(w), TG_GRAD_NONE);
    tg_tape_free(tape);
    tg_params_free(params);
}

/* Every kind of addition, while allocation k fails: an error, nothing drawn, nothing lost; and then it succeeds. */
static void test_out_of_memory(void **state)
{
    (void)state;
    counting_allocator counting;
    allocator_install(&counting);
    allocator_arm(&counting, 1, false);
    assert_null(tg_params_new(NULL, TG_F32));
    for (int kind = 0; kind < 5; kind++) {
        allocator_arm(&counting, 0, false);
        tg_run *run = tg_run_new(1);
        tg_tensor *x = tg_tensor_new(TG_F32, TG_SHAPE(3), NULL);
        bool added = false;
        size_t k = 1;
        for (; !added; k++) {
            allocator_arm(&counting, 0, false);
            tg_params *params = tg_params_new(run, TG_F32);
            size_t live = counting.live;
            /* a second name needs a first */
            if (kind == 4) {
                assert_non_null(tg_params_add_existing(params, "x", x));
                live = counting.live;
            }
            allocator_arm(&counting, k, false);
            tg_tensor *tensor = kind == 0   ? tg_params_add(params, "w", TG_SHAPE(3))
                                : kind == 1 ? tg_params_add_normal(params, "w", TG_SHAPE(3), 0, 1)
                                : kind == 2 ? tg_params_add_buffer(params, "w", TG_SHAPE(3))
                                : kind == 3 ? tg_params_add_existing(params, "w", x)
                                            : tg_params_add_alias(params, "w", "x");
            added = tensor != NULL;
            if (!added) {
                assert_int_equal(tg_rng_position(tg_run_rng(run)), 0);
                assert_null(tg_params_find(params, "w"));
                assert_params_error(params, TG_ERROR_MEMORY, "out of memory");
                allocator_arm(&counting, 0, false);
                /* the list and its two tables may have grown */
                size_t spare = counting.live - live;
                assert_true(spare <= 3);
                assert_non_null(kind == 4 ? tg_params_add_alias(params, "w", "x")
                                          : tg_params_add(params, "w", TG_SHAPE(3)));
            }
            tg_params_free(params);
        }
        /* something did fail, except that an alias finds room beside the first name */
        assert_true(k > 2 || kind == 4);
        tg_release(x);
        tg_run_free(run);
        assert_int_equal(counting.live, 0);
    }
    allocator_restore();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_entries),
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_parts_without_memory),
        cmocka_unit_test(test_names_are_copied),
        cmocka_unit_test(test_draws),
        cmocka_unit_test(test_existing),
        cmocka_unit_test(test_frozen),
        cmocka_unit_test(test_frozen_by_pattern),
        cmocka_unit_test(test_bf16),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_names_with_empty_parts),
        cmocka_unit_test(test_wrong_dtype),
        cmocka_unit_test(test_refuses_until_cleared),
        cmocka_unit_test(test_null),
        cmocka_unit_test(test_zero_grad),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
