/* GPT: parameters, logits and gradients against PyTorch (tests/goldens/make_gpt.py); tied heads; named configurations;
 * errors. The cache is tested in test_kv_cache.c, and memory in test_gpt_memory.c. */
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "models/gpt.h"
#include "tensor/tensor.h"

#define V 31
#define CONTEXT 12
#define LENGTH 9

static tg_gpt_config small(void)
{
    tg_gpt_config config = tg_gpt_config_default();
    config.vocabulary = V;
    config.context = CONTEXT;
    config.width = 16;
    config.heads = 2;
    config.layers = 2;
    return config;
}

typedef struct fixture {
    tg_run *run;
    tg_params *params;
    tg_gpt *model;
    tg_tape *tape;
    tg_tensor *ids, *targets;
} fixture;

/* The model, and the ids and targets of make_gpt.py. */
static fixture fixture_make(const tg_gpt_config *config, tg_dtype dtype)
{
    int32_t ids[2 * LENGTH], targets[2 * LENGTH];
    for (int i = 0; i < 2 * LENGTH; i++) {
        ids[i] = (i * i * 7 + 3) % V;
        targets[i] = (i * i * i * 5 + 1) % V;
    }
    fixture f = {.run = tg_run_new(123)};
    f.params = tg_params_new(f.run, dtype);
    f.model = tg_gpt_new(f.params, config);
    assert_string_equal(tg_params_error(f.params)->text, "");
    f.tape = tg_tape_new(f.run, NULL);
    f.ids = tensor_i32(TG_SHAPE(2, LENGTH), ids);
    f.targets = tensor_i32(TG_SHAPE(2, LENGTH), targets);
    return f;
}

static void fixture_free(fixture *f)
{
    tg_release(f->ids);
    tg_release(f->targets);
    tg_tape_free(f->tape);
    tg_gpt_free(f->model);
    tg_params_free(f->params);
    tg_run_free(f->run);
}

/* ---- goldens ---- */

/* The files of make_gpt.py. */
typedef struct golden_file {
    const char *name;
    tg_dtype dtype;
    int64_t width, heads;
    bool qkv_bias;
    double dropout;
    bool tied;
    tg_gpt_init init;
} golden_file;

static const golden_file files[] = {
    {"plain", TG_F32, 16, 2, false, 0, false, TG_GPT_INIT_MODULES},
    {"dropout", TG_F32, 16, 2, true, 0.1, false, TG_GPT_INIT_MODULES},
    {"tied", TG_F32, 9, 3, true, 0, true, TG_GPT_INIT_MODULES},
    {"plain_f64", TG_F64, 9, 3, false, 0, false, TG_GPT_INIT_MODULES},
    {"tied_f64", TG_F64, 9, 3, true, 0.1, true, TG_GPT_INIT_MODULES},
    {"gpt2_init", TG_F32, 9, 3, true, 0, true, TG_GPT_INIT_GPT2},
    {"gpt2_init_untied", TG_F32, 16, 2, false, 0, false, TG_GPT_INIT_GPT2},
};

#define FILES (sizeof files / sizeof files[0])

static tg_gpt_config config_of(const golden_file *of)
{
    tg_gpt_config config = small();
    config.width = of->width;
    config.heads = of->heads;
    config.qkv_bias = of->qkv_bias;
    config.dropout = of->dropout;
    config.tied_head = of->tied;
    config.init = of->init;
    return config;
}

typedef struct golden {
    char name[100];
    tg_shape shape;
    /* of the file's dtype */
    tg_tensor *values;
} golden;

/* Reads the next tensor and releases the last one; false at the end. */
static bool read_golden(FILE *file, tg_dtype dtype, golden *g)
{
    int64_t length, rank;
    tg_release(g->values);
    g->values = NULL;
    if (read_little_endian(&length, 8, 1, file) != 1) {
        return false;
    }
    assert_in_range(length, 1, sizeof g->name - 1);
    assert_int_equal(fread(g->name, 1, (size_t)length, file), length);
    g->name[length] = '\0';
    assert_int_equal(read_little_endian(&rank, 8, 1, file), 1);
    assert_in_range(rank, 0, 2 + 1);
    g->shape.rank = (int)rank;
    assert_int_equal(read_little_endian(g->shape.size, 8, (size_t)rank, file), rank);
    g->values = tg_tensor_new(dtype, g->shape, NULL);
    assert_non_null(g->values);
    size_t count = (size_t)tg_tensor_count(g->values);
    assert_int_equal(read_little_endian(tg_tensor_data_mut(g->values), tg_dtype_size(dtype), count, file), count);
    return true;
}

static FILE *open_goldens(const char *name)
{
    char path[1000];
    snprintf(path, sizeof path, TG_TEST_GOLDENS "/gpt/%s.bin", name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    return file;
}

/* The largest difference, in parts of the largest golden value. */
static double distance(const tg_tensor *x, const golden *g)
{
    double largest = 0, worst = 0;
    assert_non_null(x);
    assert_true(tg_shape_equal(tg_tensor_shape(x), g->shape));
    for (int64_t i = 0; i < tg_tensor_count(x); i++) {
        double expected = tg_tensor_value_at(g->values, i);
        largest = fmax(largest, fabs(expected));
        worst = fmax(worst, fabs(tg_tensor_value_at(x, i) - expected));
    }
    return worst / largest;
}

/* Asserts the bits of torch's numbers, which glibc's logarithms and cosines gave; another libm may differ by 1 ulp. */
static void assert_starts_as(const tg_tensor *found, const tg_tensor *expected)
{
#if defined __GLIBC__
    const double ulps = 0;
#else
    const double ulps = 1;
#endif
    double ulp = tg_tensor_dtype(found) == TG_F64 ? 0x1p-52 : 0x1p-23;
    for (int64_t i = 0; i < tg_tensor_count(expected); i++) {
        double value = tg_tensor_value_at(expected, i);
        if (!(fabs(tg_tensor_value_at(found, i) - value) <= ulps * ulp * fabs(value))) {
            fail_msg("value %lld is %.17g, not %.17g", (long long)i, tg_tensor_value_at(found, i), value);
        }
    }
}

/* Names, order, shapes and bits of what seed 123 draws. */
static void test_starts_as_torchs(void **state)
{
    (void)state;
    for (size_t i = 0; i < FILES; i++) {
        tg_gpt_config config = config_of(&files[i]);
        fixture f = fixture_make(&config, files[i].dtype);
        FILE *file = open_goldens(files[i].name);
        golden g = {.values = NULL};
        for (int64_t k = 0; k < tg_params_count(f.params); k++) {
            tg_entry entry = tg_params_at(f.params, k);
            if (entry.kind == TG_ENTRY_ALIAS) {
                /* not a parameter of torch's */
                assert_true(files[i].tied);
                assert_string_equal(entry.name, "out_head.weight");
                continue;
            }
            assert_int_equal(entry.kind, TG_ENTRY_PARAMETER);
            assert_true(read_golden(file, files[i].dtype, &g));
            assert_string_equal(entry.name, g.name);
            assert_true(tg_shape_equal(tg_tensor_shape(entry.tensor), g.shape));
            assert_starts_as(entry.tensor, g.values);
        }
        assert_true(read_golden(file, files[i].dtype, &g));
        assert_string_equal(g.name, "logits");
        tg_release(g.values);
        fclose(file);
        fixture_free(&f);
    }
}

static void check_gradient(const tg_tensor *parameter, const golden *g, double allowed)
{
    tg_tensor *dense = tg_tensor_new_dense_grad(parameter, NULL);
    double found = distance(dense, g);
    if (strstr(g->name, "W_key.bias")) {
        /* it shifts all scores of a row alike: zero, except for rounding. The gradients of W_key.weight reach 0.05 */
        double zero = allowed * 1e-3;
        for (int64_t k = 0; k < tg_tensor_count(dense); k++) {
            assert_true(fabs(tg_tensor_value_at(dense, k)) < zero && fabs(tg_tensor_value_at(g->values, k)) < zero);
        }
    } else if (!(found < allowed)) {
        fail_msg("%s: %g of the largest entry", g->name, found);
    }
    tg_release(dense);
}

/* Parameters from the file, by name; then logits, loss and every gradient. */
static void check_run(const golden_file *of, tg_attention_path path, tg_dtype dtype)
{
    bool both_f64 = dtype == TG_F64 && of->dtype == TG_F64;
    tg_gpt_config config = config_of(of);
    config.path = path;
    fixture f = fixture_make(&config, dtype);
    int64_t parameters = 0, gradients = 0;
    for (int64_t i = 0; i < tg_params_count(f.params); i++) {
        /* a parameter that is missing in the file would keep this value, and change the logits */
        tg_tensor_fill(tg_params_at(f.params, i).tensor, 0.5, NULL);
        parameters += tg_params_at(f.params, i).kind == TG_ENTRY_PARAMETER;
    }
    FILE *file = open_goldens(of->name);
    golden g = {.values = NULL};
    tg_tensor *logits = NULL, *loss = NULL;
    while (read_golden(file, of->dtype, &g)) {
        if (strcmp(g.name, "logits") == 0) {
            tg_rng_seed(tg_run_rng(f.run), 7);
            logits = tg_gpt_forward(f.tape, f.model, f.ids, NULL);
            assert_true(distance(logits, &g) < (both_f64 ? 1e-13 : 1e-5));
        } else if (strcmp(g.name, "loss") == 0) {
            loss = tg_cross_entropy(f.tape, logits, f.targets, NULL);
            assert_true(distance(loss, &g) < (both_f64 ? 1e-13 : 1e-5));
            assert_true(tg_backward(f.tape, loss, NULL));
        } else if (strncmp(g.name, "grad ", 5) == 0) {
            check_gradient(tg_params_find(f.params, g.name + 5), &g, both_f64 ? 1e-11 : 1e-4);
            gradients++;
        } else {
            tg_tensor *cast = tg_tensor_new_cast(g.values, dtype, NULL);
            assert_true(tg_tensor_copy_from(tg_params_find(f.params, g.name), cast, NULL));
            tg_release(cast);
        }
    }
    assert_int_equal(gradients, parameters);
    fclose(file);
    fixture_free(&f);
}

static void test_runs_as_torchs(void **state)
{
    (void)state;
    const tg_attention_path paths[] = {TG_ATTENTION_FUSED, TG_ATTENTION_ELEMENTARY};
    for (size_t i = 0; i < FILES; i++) {
        for (int p = 0; p < 2; p++) {
            check_run(&files[i], paths[p], TG_F32);
            check_run(&files[i], paths[p], TG_F64);
        }
    }
}

/* ---- GPT-2's initial values ---- */

static double first_loss(tg_gpt_init init)
{
    tg_gpt_config config;
    assert_true(tg_gpt_config_from_name("tiny", &config, NULL));
    config.init = init;
    fixture f = fixture_make(&config, TG_F32);
    tg_tensor *ids = tg_tensor_new(TG_I32, TG_SHAPE(2, 64), NULL),
              *targets = tg_tensor_new(TG_I32, TG_SHAPE(2, 64), NULL);
    for (int i = 0; i < 128; i++) {
        ((int32_t *)tg_tensor_data_mut(ids))[i] = i * i % 509;
        ((int32_t *)tg_tensor_data_mut(targets))[i] = (i * 77 + 5) % 512;
    }
    tg_tensor *loss = tg_cross_entropy(f.tape, tg_gpt_forward(f.tape, f.model, ids, NULL), targets, NULL);
    double value = tg_tensor_value_at(loss, 0);
    tg_release(ids);
    tg_release(targets);
    fixture_free(&f);
    return value;
}

/* A model that knows nothing gives each of V tokens the probability 1/V. A tied head over a table of N(0,1) begins far
 * above that. */
static void test_gpt2_init_begins_at_ln_v(void **state)
{
    (void)state;
    assert_true(fabs(first_loss(TG_GPT_INIT_GPT2) - log(512)) < 0.05);
    assert_true(first_loss(TG_GPT_INIT_MODULES) > 10);
}

/* The loss without logits: the value and the gradients of the loss from logits. A failure leaves nothing. */
static void test_loss(void **state)
{
    (void)state;
    for (int tied = 0; tied < 2; tied++) {
        tg_gpt_config config = small();
        config.tied_head = tied;
        config.dropout = 0.1;
        fixture f[] = {fixture_make(&config, TG_F64), fixture_make(&config, TG_F64)};
        tg_tensor *losses[] = {
            tg_gpt_loss(f[0].tape, f[0].model, f[0].ids, f[0].targets, NULL),
            tg_cross_entropy(f[1].tape, tg_gpt_forward(f[1].tape, f[1].model, f[1].ids, NULL), f[1].targets, NULL)};
        assert_true(fabs(tg_tensor_item(losses[0], NULL) - tg_tensor_item(losses[1], NULL)) < 1e-12);
        for (int i = 0; i < 2; i++) {
            assert_true(tg_backward(f[i].tape, losses[i], NULL));
        }
        for (int64_t i = 0; i < tg_params_count(f[0].params); i++) {
            const tg_tensor *own = tg_tensor_grad(tg_params_at(f[0].params, i).tensor);
            const tg_tensor *usual = tg_tensor_grad(tg_params_at(f[1].params, i).tensor);
            for (int64_t k = 0; k < tg_tensor_count(own); k++) {
                assert_true(fabs(tg_tensor_value_at(own, k) - tg_tensor_value_at(usual, k)) < 1e-12);
            }
        }
        tg_tape_reset(f[0].tape);
        ((int32_t *)tg_tensor_data_mut(f[0].targets))[4] = V;
        uint32_t next = tg_rng_u32(tg_run_rng(f[1].run));
        assert_null(tg_gpt_loss(f[0].tape, f[0].model, f[0].ids, f[0].targets, NULL));
        assert_tape_error(f[0].tape, TG_ERROR_RANGE, "linear_cross_entropy: target 31 at [0,4] is outside [0,31)");
        assert_int_equal(tg_rng_u32(tg_run_rng(f[0].run)), next);
        fixture_free(&f[0]);
        fixture_free(&f[1]);
    }
}

/* ---- tied heads ---- */

/* The tied table's gradient is the sum of what an untied model, with equal weights, gives to its two. */
static void test_tied_head(void **state)
{
    (void)state;
    tg_gpt_config config = small(), usual = small();
    config.tied_head = true;
    fixture tied = fixture_make(&config, TG_F64), untied = fixture_make(&usual, TG_F64);
    assert_int_equal(tg_params_value_count(untied.params) - tg_params_value_count(tied.params), V * 16);
    tg_tensor *table = tg_params_find(tied.params, "tok_emb.weight");
    assert_ptr_equal(tg_params_find(tied.params, "out_head.weight"), table);
    assert_int_equal(tg_params_count(tied.params), tg_params_count(untied.params));
    tg_entry last = tg_params_at(tied.params, tg_params_count(tied.params) - 1);
    assert_string_equal(last.name, "out_head.weight");
    assert_int_equal(last.kind, TG_ENTRY_ALIAS);
    for (int64_t i = 0; i < tg_params_count(untied.params); i++) {
        tg_entry entry = tg_params_at(untied.params, i);
        tg_tensor_copy_from(entry.tensor, tg_params_find(tied.params, entry.name), NULL);
    }
    fixture *both[] = {&tied, &untied};
    for (int i = 0; i < 2; i++) {
        tg_tape *t = both[i]->tape;
        tg_tensor *logits = tg_gpt_forward(t, both[i]->model, both[i]->ids, NULL);
        assert_true(tg_backward(t, tg_cross_entropy(t, logits, both[i]->targets, NULL), NULL));
    }
    tg_tensor *sum = tg_tensor_new_dense_grad(table, NULL);
    tg_tensor *rows = tg_tensor_new_dense_grad(tg_params_find(untied.params, "tok_emb.weight"), NULL);
    tg_tensor *head = tg_tensor_new_dense_grad(tg_params_find(untied.params, "out_head.weight"), NULL);
    for (int64_t i = 0; i < tg_tensor_count(sum); i++) {
        double parts = tg_tensor_value_at(rows, i) + tg_tensor_value_at(head, i);
        assert_true(fabs(tg_tensor_value_at(sum, i) - parts) < 1e-14);
    }
    tg_release(sum);
    tg_release(rows);
    tg_release(head);
    fixture_free(&tied);
    fixture_free(&untied);
}

/* ---- evaluation ---- */

static void test_evaluation_draws_nothing(void **state)
{
    (void)state;
    /* with dropout */
    tg_gpt_config config = config_of(&files[1]);
    fixture f = fixture_make(&config, TG_F32);
    uint64_t position = tg_rng_position(tg_run_rng(f.run));
    tg_tape_set_training(f.tape, false);
    assert_non_null(tg_gpt_forward(f.tape, f.model, f.ids, NULL));
    assert_true(tg_rng_position(tg_run_rng(f.run)) == position);
    tg_tape_set_training(f.tape, true);
    tg_gpt_forward(f.tape, f.model, f.ids, NULL);
    /* two outputs per value: the embeddings, and in each layer the weights and two shortcuts */
    assert_int_equal(tg_rng_position(tg_run_rng(f.run)) - position, 2 * (288 + 2 * (2 * 2 * 81 + 2 * 288)));
    fixture_free(&f);
}

/* ---- named models ---- */

/* Sizes of GPT-2: Radford et al. 2019, table 2, with the heads of the published weights. The numbers of parameters,
 * with a head of its own and without the bias of queries, keys and values, are those the course gives in chapter 4. */
static void test_named(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int64_t vocabulary, context, width, heads, layers, parameters;
    } cases[] = {{"gpt2-small", 50257, 1024, 768, 12, 12, 163009536},
                 {"gpt2-medium", 50257, 1024, 1024, 16, 24, 406212608},
                 {"gpt2-large", 50257, 1024, 1280, 20, 36, 838220800},
                 {"gpt2-xl", 50257, 1024, 1600, 25, 48, 1637792000},
                 {"tiny", 512, 128, 128, 4, 4, 0}};
    tg_gpt_config c;
    tg_error error = TG_NO_ERROR;
    for (int i = 0; i < 5; i++) {
        assert_true(tg_gpt_config_from_name(cases[i].name, &c, &error));
        assert_string_equal(error.text, "");
        assert_true(c.vocabulary == cases[i].vocabulary && c.context == cases[i].context && c.width == cases[i].width);
        assert_true(c.heads == cases[i].heads && c.layers == cases[i].layers && !c.qkv_bias);
        assert_true(c.path == TG_ATTENTION_FUSED && c.position == TG_POSITION_LEARNED);
        bool tiny = i == 4;
        assert_true(c.tied_head == tiny && c.dropout == (tiny ? 0 : 0.1));
        assert_true(c.init == (tiny ? TG_GPT_INIT_GPT2 : TG_GPT_INIT_MODULES));
        /* a block: 4 + 2 4 matrices of width x width, biases of 1, 4 and 1 widths, and two norms of 2 */
        int64_t block = 12 * c.width * c.width + 10 * c.width;
        int64_t count = (2 * c.vocabulary + c.context + 2) * c.width + c.layers * block;
        if (!tiny) {
            assert_int_equal(count, cases[i].parameters);
            continue;
        }
        tg_run *run = tg_run_new(1);
        tg_params *params = tg_params_new(run, TG_F32);
        tg_gpt *model = tg_gpt_new(params, &c);
        assert_int_equal(tg_params_value_count(params), count - c.vocabulary * c.width);
        const tg_gpt_config *own = tg_gpt_get_config(model);
        assert_true(own->context == c.context && own->layers == c.layers && own->tied_head);
        assert_int_equal(tg_gpt_dtype(model), TG_F32);
        tg_gpt_free(model);
        tg_params_free(params);
        tg_run_free(run);
    }
    c.width = 77;
    const char *others[] = {"gpt3", "GPT2-small", ""};
    for (int i = 0; i < 3; i++) {
        char text[120];
        snprintf(text, sizeof text,
                 "gpt_config_from_name: '%s'; it must be gpt2-small, gpt2-medium, gpt2-large, gpt2-xl or tiny",
                 others[i]);
        assert_false(tg_gpt_config_from_name(others[i], &c, &error));
        for (int k = 0; k < 5; k++) {
            /* the message lists the names */
            assert_non_null(strstr(error.text, cases[k].name));
        }
        assert_error(&error, TG_ERROR_VALUE, text);
    }
    assert_false(tg_gpt_config_from_name(NULL, &c, &error));
    assert_error(&error, TG_ERROR_STATE, "gpt_config_from_name: the name is NULL");
    assert_false(tg_gpt_config_from_name("tiny", NULL, &error));
    assert_error(&error, TG_ERROR_STATE, "gpt_config_from_name: the config is NULL");
    assert_false(tg_gpt_config_from_name("gpt3", &c, NULL));
    assert_int_equal(c.width, 77);
}

/* ---- what is refused ---- */

/* Nothing is added and nothing drawn. */
static void assert_not_made(const tg_gpt_config *config, const char *text)
{
    tg_run *run = tg_run_new(1);
    tg_params *params = tg_params_new(run, TG_F32);
    assert_null(tg_gpt_new(params, config));
    assert_string_equal(tg_params_error(params)->text, text);
    assert_params_error(params, TG_ERROR_VALUE, text);
    assert_int_equal(tg_params_count(params), 0);
    assert_true(tg_rng_position(tg_run_rng(run)) == 0);
    tg_params_free(params);
    tg_run_free(run);
}

static void test_refuses_configurations(void **state)
{
    (void)state;
#define SIZE "; it must be set, from 1 to "
    const struct {
        int64_t vocabulary, context, width, heads, layers;
        double dropout;
        tg_position position;
        tg_attention_path path;
        const char *text;
    } cases[] = {
        {V, 12, 16, 3, 2, 0, 0, 0, "gpt_new: heads 3 do not divide width 16"},
        {0, 12, 16, 2, 2, 0, 0, 0, "gpt_new: vocabulary 0" SIZE "2147483647"},
        {INT64_C(1) << 31, 12, 16, 2, 2, 0, 0, 0, "gpt_new: vocabulary 2147483648" SIZE "2147483647"},
        {V, 0, 16, 2, 2, 0, 0, 0, "gpt_new: context 0" SIZE "9223372036854775807"},
        {V, 12, -16, 2, 2, 0, 0, 0, "gpt_new: width -16" SIZE "9223372036854775807"},
        {V, 12, 0, 2, 2, 0, 0, 0, "gpt_new: width 0" SIZE "9223372036854775807"},
        {V, 12, 16, 0, 2, 0, 0, 0, "gpt_new: heads 0" SIZE "9223372036854775807"},
        {V, 12, 16, 2, 0, 0, 0, 0, "gpt_new: layers 0" SIZE "100000"},
        {V, 12, 16, 2, 100001, 0, 0, 0, "gpt_new: layers 100001" SIZE "100000"},
        {V, 12, 16, 2, 2, 1, 0, 0, "gpt_new: dropout 1 is outside [0,1)"},
        {V, 12, 16, 2, 2, -0.25, 0, 0, "gpt_new: dropout -0.25 is outside [0,1)"},
        {V, 12, 16, 2, 2, (double)NAN, 0, 0, "gpt_new: dropout nan is outside [0,1)"},
        {V, 12, 9, 3, 2, 0, TG_POSITION_ROTARY, 0,
         "nn_positional_make: 'trf_blocks.0.att.position' has rotary heads of width 3; it must be even"},
        {V, 12, 16, 2, 2, 0, (tg_position)99, 0, "gpt_new: position 99 does not exist; it must be 0 to 10"},
        {V, 12, 16, 2, 2, 0, 0, (tg_attention_path)2, "gpt_new: path 2 does not exist; it must be 0 to 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tg_gpt_config config = tg_gpt_config_default();
        config.vocabulary = cases[i].vocabulary;
        config.context = cases[i].context;
        config.width = cases[i].width;
        config.heads = cases[i].heads;
        config.layers = cases[i].layers;
        config.dropout = cases[i].dropout;
        config.position = cases[i].position;
        config.path = cases[i].path;
        assert_not_made(&config, cases[i].text);
    }
    tg_gpt_config config = small();
    config.init = (tg_gpt_init)2;
    assert_not_made(&config, "gpt_new: init 2 does not exist; it must be 0 to 1");
    /* the default config has no sizes */
    assert_not_made(NULL, "gpt_new: vocabulary 0" SIZE "2147483647");
    tg_gpt_config bare = {.vocabulary = V, .context = 12, .width = 16, .heads = 2, .layers = 2};
    assert_not_made(&bare, "gpt_new: the config does not come from tg_gpt_config_default(); call it, then set fields");
    assert_null(tg_gpt_new(NULL, NULL));
    assert_null(tg_gpt_get_config(NULL));
}

/* The call fails with just this text, and draws nothing. */
static void assert_refused(fixture *f, const tg_gpt *model, tg_tensor *ids, tg_code code, const char *text)
{
    uint64_t position = tg_rng_position(tg_run_rng(f->run));
    assert_null(tg_gpt_forward(f->tape, model, ids, NULL));
    assert_string_equal(tg_tape_error(f->tape)->text, text);
    assert_tape_error(f->tape, code, text);
    assert_true(tg_rng_position(tg_run_rng(f->run)) == position);
}

static void test_refuses_inputs(void **state)
{
    (void)state;
    /* with dropout */
    tg_gpt_config config = config_of(&files[1]);
    fixture f = fixture_make(&config, TG_F32);
    tg_tensor *longer = tg_tensor_new(TG_I32, TG_SHAPE(1, 13), NULL);
    tg_tensor *wrong = tensor_i32(TG_SHAPE(1, 3), (int32_t[]){0, V, 1});
    tg_tensor *negative = tensor_i32(TG_SHAPE(2, 2), (int32_t[]){0, 1, 2, -1});
    tg_tensor *flat = tensor_i32(TG_SHAPE(3), (int32_t[]){0, 1, 2});
    assert_refused(&f, f.model, longer, TG_ERROR_RANGE, "gpt_forward: 13 positions from 0 on; the context is 12");
    assert_refused(&f, f.model, wrong, TG_ERROR_RANGE, "embedding: id 31 at [0,1] is outside [0,31)");
    assert_refused(&f, f.model, negative, TG_ERROR_RANGE, "embedding: id -1 at [1,1] is outside [0,31)");
    assert_refused(&f, f.model, NULL, TG_ERROR_STATE, "gpt_forward: argument 'ids' is NULL");
    assert_refused(&f, NULL, f.ids, TG_ERROR_STATE, "gpt_forward: the model is NULL");
    assert_refused(&f, f.model, flat, TG_ERROR_SHAPE, "gpt_forward: the ids are i32 (3,); they must be i32 (B,T)");
    assert_refused(&f, f.model, tg_params_find(f.params, "pos_emb.weight"), TG_ERROR_DTYPE,
                   "gpt_forward: the ids are f32 (12,16); they must be i32 (B,T)");
    tg_release(longer);
    tg_release(wrong);
    tg_release(negative);
    tg_release(flat);
    fixture_free(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_starts_as_torchs),
        cmocka_unit_test(test_runs_as_torchs),
        cmocka_unit_test(test_gpt2_init_begins_at_ln_v),
        cmocka_unit_test(test_tied_head),
        cmocka_unit_test(test_loss),
        cmocka_unit_test(test_evaluation_draws_nothing),
        cmocka_unit_test(test_named),
        cmocka_unit_test(test_refuses_configurations),
        cmocka_unit_test(test_refuses_inputs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
