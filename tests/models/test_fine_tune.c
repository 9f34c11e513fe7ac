/* Fine-tuning against PyTorch (tests/goldens/make_fine_tune.py): another head on a frozen GPT, the logits of the last
 * token, LoRA with a warm-up, a cosine and clipping, and its merge. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "folder.h"
#include "support.h"

enum { B = 4, T = 9, V = 31, C = 16, CLASSES = 3, RANK = 4 };

#define ALPHA 6.0

typedef struct fixture {
    const char *dtype;
    double tolerance;
    tg_run *run;
    tg_params *params;
    tg_gpt *model;
    tg_tape *tape;
    tg_tensor *ids, *targets, *labels;
} fixture;

static tg_gpt_config config_of(bool tied)
{
    tg_gpt_config config = tg_gpt_config_default();
    config.vocabulary = V;
    config.context = 12;
    config.width = C;
    config.heads = 2;
    config.layers = 2;
    config.qkv_bias = true;
    config.tied_head = tied;
    return config;
}

static fixture begin_with(tg_dtype dtype, bool tied)
{
    int32_t ids[B * T], targets[B * T];
    for (int i = 0; i < B * T; i++) {
        ids[i] = (i * i * 7 + 3) % V;
        targets[i] = (i * i * i * 5 + 1) % V;
    }
    fixture f = {.dtype = dtype == TG_F64 ? "f64" : "f32", .tolerance = dtype == TG_F64 ? 1e-10 : 1e-5};
    f.run = tg_run_new(123);
    f.params = tg_params_new(f.run, dtype);
    tg_gpt_config config = config_of(tied);
    f.model = tg_gpt_new(f.params, &config);
    assert_non_null(f.model);
    f.tape = tg_tape_new(f.run, NULL);
    f.ids = tensor_i32(TG_SHAPE(B, T), ids);
    f.targets = tensor_i32(TG_SHAPE(B, T), targets);
    f.labels = tensor_i32(TG_SHAPE(B), (const int32_t[]){2, 0, 1, 1});
    return f;
}

static fixture begin(tg_dtype dtype)
{
    return begin_with(dtype, false);
}

static void end(fixture *f)
{
    tg_release(f->ids);
    tg_release(f->targets);
    tg_release(f->labels);
    tg_tape_free(f->tape);
    tg_gpt_free(f->model);
    tg_params_free(f->params);
    tg_run_free(f->run);
}

/* Reads the values of "<dtype>.<part>" to `values`, and returns their number. */
static int64_t read_golden(const char *dtype, const char *part, double *values, int64_t most)
{
    char key[80], *line = NULL;
    size_t size = 0;
    int64_t count = 0;
    FILE *file = fopen(TG_TEST_GOLDENS "/fine_tune.txt", "r");
    assert_non_null(file);
    snprintf(key, sizeof key, "%s.%s ", dtype, part);
    while (getline(&line, &size, file) > 0 && strncmp(line, key, strlen(key)) != 0) {
    }
    if (feof(file)) {
        fail_msg("no golden %s", key);
    }
    for (char *next = line + strlen(key) - 1, *after; count < most; count++, next = after) {
        values[count] = strtod(next, &after);
        if (after == next) {
            break;
        }
    }
    free(line);
    fclose(file);
    return count;
}

/* Compares numbers with a golden: each difference, in parts of the largest value. */
static void assert_numbers(const fixture *f, const char *part, const double *found, int64_t count)
{
    static double expected[B * T * V + 1];
    double largest = 0;
    assert_int_equal(read_golden(f->dtype, part, expected, B * T * V + 1), count);
    for (int64_t i = 0; i < count; i++) {
        largest = fmax(largest, fabs(expected[i]));
    }
    for (int64_t i = 0; i < count; i++) {
        if (!(fabs(found[i] - expected[i]) <= f->tolerance * largest)) {
            fail_msg("%s.%s[%lld] is %.17g, expected %.17g", f->dtype, part, (long long)i, found[i], expected[i]);
        }
    }
}

static void assert_golden(const fixture *f, const char *part, const tg_tensor *x)
{
    static double found[B * T * V];
    for (int64_t i = 0; i < tg_tensor_count(x); i++) {
        found[i] = tg_tensor_value_at(x, i);
    }
    assert_numbers(f, part, found, tg_tensor_count(x));
}

static tg_tensor *param(const fixture *f, const char *name)
{
    tg_tensor *x = tg_params_find(f->params, name);
    assert_non_null(x);
    return x;
}

static tg_lora_config lora_of(int64_t rank, double alpha)
{
    tg_lora_config config = tg_lora_config_default();
    config.rank = rank;
    config.alpha = alpha;
    return config;
}

/* Returns the number of values that are trained. */
static double trained_values(const fixture *f)
{
    double count = 0;
    for (int64_t i = 0; i < tg_params_count(f->params); i++) {
        tg_entry entry = tg_params_at(f->params, i);
        count += entry.kind == TG_ENTRY_PARAMETER && tg_tensor_requires_grad(entry.tensor)
                     ? (double)tg_tensor_count(entry.tensor)
                     : 0;
    }
    return count;
}

/* ---- another head ---- */

static void step_of_head(fixture *f, tg_optim *optim, double *loss)
{
    tg_tape_reset(f->tape);
    tg_tensor *y = tg_cross_entropy(f->tape, tg_gpt_last_logits(f->tape, f->model, f->ids, NULL), f->labels, NULL);
    tg_optim_zero_grad(optim);
    assert_true(tg_backward(f->tape, y, NULL));
    *loss = tg_tensor_item(y, NULL);
    assert_true(tg_optim_step(optim));
}

static void run_head(tg_dtype dtype)
{
    fixture f = begin(dtype);
    assert_true(tg_params_set_frozen(f.params, "*", true));
    assert_golden(&f, "head.hidden", tg_gpt_hidden_states(f.tape, f.model, f.ids, NULL));
    assert_true(tg_gpt_replace_head(f.model, CLASSES));
    assert_golden(&f, "head.weight", param(&f, "out_head.weight"));
    assert_golden(&f, "head.bias", param(&f, "out_head.bias"));
    assert_true(tg_params_set_frozen(f.params, "trf_blocks.1.*", false));
    assert_true(tg_params_set_frozen(f.params, "final_norm.*", false));
    assert_numbers(&f, "head.values", (const double[]){trained_values(&f)}, 1);
    assert_golden(&f, "head.logits", tg_gpt_last_logits(f.tape, f.model, f.ids, NULL));
    tg_adamw_config adamw = tg_adamw_config_default();
    adamw.lr = 5e-3;
    adamw.weight_decay = 0.1;
    tg_optim *optim = tg_adamw_new(f.params, &adamw);
    double losses[5];
    for (int i = 0; i < 5; i++) {
        step_of_head(&f, optim, &losses[i]);
    }
    assert_numbers(&f, "head.losses", losses, 5);
    tg_tape_reset(f.tape);
    tg_tensor *all = tg_gpt_forward(f.tape, f.model, f.ids, NULL);
    assert_golden(&f, "head.trained_logits", tg_select(f.tape, all, 1, T - 1));
    assert_golden(&f, "head.trained_weight", param(&f, "out_head.weight"));
    assert_golden(&f, "head.trained_query", param(&f, "trf_blocks.1.att.W_query.weight"));
    assert_golden(&f, "head.frozen_query", param(&f, "trf_blocks.0.att.W_query.weight"));
    assert_int_equal(tg_tensor_grad_kind(param(&f, "trf_blocks.0.att.W_query.weight")), TG_GRAD_NONE);
    tg_optim_free(optim);
    end(&f);
}

static void test_head_is_torchs(void **state)
{
    (void)state;
    run_head(TG_F32);
    run_head(TG_F64);
}

/* A head is replaced twice, and in a model that was tied. */
static void test_head_again(void **state)
{
    (void)state;
    for (int tied = 0; tied < 2; tied++) {
        fixture f = begin_with(TG_F64, tied);
        tg_error error = TG_NO_ERROR;
        tg_optim *optim = tg_adamw_new(f.params, NULL);
        double before = tg_tensor_value_at(param(&f, "tok_emb.weight"), 7);
        assert_true(tg_gpt_replace_head(f.model, 5));
        int64_t count = tg_params_count(f.params);
        assert_true(tg_gpt_replace_head(f.model, 2));
        assert_int_equal(tg_params_count(f.params), count);
        assert_int_equal(tg_tensor_size(param(&f, "out_head.weight"), 0), 2);
        assert_int_equal(tg_tensor_size(param(&f, "out_head.bias"), 0), 2);
        assert_false(tg_gpt_get_config(f.model)->tied_head);
        assert_true(tg_tensor_value_at(param(&f, "tok_emb.weight"), 7) == before);
        assert_int_equal(tg_tensor_size(tg_gpt_forward(f.tape, f.model, f.ids, NULL), 2), 2);
        tg_tensor *both = tensor_i32(TG_SHAPE(B, T), (const int32_t[B * T]){1});
        assert_true(tg_tensor_item(tg_gpt_loss(f.tape, f.model, f.ids, both, NULL), NULL) > 0);
        tg_release(both);
        /* the vocabulary is that of the tokens, not of the head */
        tg_tape_reset(f.tape);
        assert_true(tg_gpt_resize_vocabulary(f.model, V + 2));
        assert_int_equal(tg_tensor_size(param(&f, "out_head.weight"), 0), 2);
        assert_false(tg_optim_step(optim));
        assert_optim_error(optim, TG_ERROR_STATE,
                           "optim_step: parameters were replaced or removed after the optimizer was created; create a "
                           "new one");
        tg_optim_free(optim);
        int32_t ids[2];
        tg_generate_config generate = tg_generate_config_default();
        generate.max_new_tokens = 2;
        assert_int_equal(tg_gpt_generate(f.tape, f.model, (const int32_t[]){1, 2}, 2, ids, &generate), -1);
        assert_tape_error(f.tape, TG_ERROR_VALUE,
                          "gpt_generate: the head has 2 outputs, which are no ids of the vocabulary of 33");
        assert_false(tg_gpt_save(f.model, ".", NULL, &error));
        assert_error(&error, TG_ERROR_VALUE, "gpt_save: the head was replaced by one of 2 outputs");
        end(&f);
    }
}

static void test_bad_heads(void **state)
{
    (void)state;
    fixture f = begin(TG_F32);
    int64_t count = tg_params_count(f.params);
    assert_false(tg_gpt_replace_head(f.model, 0));
    assert_params_error(f.params, TG_ERROR_SHAPE, "gpt_replace_head: 0 outputs; it must be 1 to 2147483647");
    assert_false(tg_gpt_replace_head(NULL, 2));
    tg_params_add_alias(f.params, "x", "y");
    assert_false(tg_gpt_replace_head(f.model, 2));
    assert_params_error(f.params, TG_ERROR_RANGE, "params_add_alias: no entry 'y' exists");
    clear_params_error(f.params);
    assert_int_equal(tg_params_count(f.params), count);
    assert_int_equal(tg_tensor_size(param(&f, "out_head.weight"), 0), V);
    assert_null(tg_params_find(f.params, "out_head.bias"));
    end(&f);
}

/* ---- LoRA ---- */

static tg_schedule_config schedule_of(void)
{
    tg_schedule_config schedule = tg_schedule_config_default();
    schedule.kind = TG_SCHEDULE_COSINE;
    schedule.total_steps = 6;
    schedule.warmup_steps = 2;
    schedule.initial_lr = 1e-4;
    schedule.lr = 1e-2;
    schedule.minimum_lr = 1e-5;
    return schedule;
}

static void train_lora(fixture *f)
{
    tg_error error = TG_NO_ERROR;
    tg_adamw_config adamw = tg_adamw_config_default();
    adamw.weight_decay = 0.1;
    tg_optim *optim = tg_adamw_new(f->params, &adamw);
    tg_schedule_config schedule = schedule_of();
    double rates[6], losses[6], norms[3];
    for (int step = 0; step < 6; step++) {
        rates[step] = tg_schedule_lr(step, &schedule, &error);
        assert_true(tg_optim_set_lr(optim, NULL, rates[step]));
        tg_tape_reset(f->tape);
        tg_tensor *loss = tg_gpt_loss(f->tape, f->model, f->ids, f->targets, NULL);
        tg_optim_zero_grad(optim);
        assert_true(tg_backward(f->tape, loss, NULL));
        losses[step] = tg_tensor_item(loss, NULL);
        if (step > 2) {
            norms[step - 3] = tg_clip_grad_norm(f->params, 0.25);
        }
        assert_true(tg_optim_step(optim));
    }
    assert_numbers(f, "lora.rates", rates, 6);
    assert_numbers(f, "lora.losses", losses, 6);
    assert_numbers(f, "lora.norms", norms, 3);
    tg_optim_free(optim);
}

static void run_lora(tg_dtype dtype)
{
    fixture f = begin(dtype);
    tg_error error = TG_NO_ERROR;
    tg_lora_config config = lora_of(RANK, ALPHA);
    assert_true(tg_params_set_frozen(f.params, "*", true));
    tg_rng_seed(tg_run_rng(f.run), 7);
    tg_tensor *base = tg_tensor_new_copy(tg_gpt_forward(f.tape, f.model, f.ids, NULL), &error);
    assert_true(tg_gpt_add_lora(f.model, "*", &config));
    assert_numbers(&f, "lora.values", (const double[]){trained_values(&f)}, 1);
    assert_golden(&f, "lora.first_a", param(&f, "trf_blocks.0.att.W_query.lora_A.weight"));
    assert_golden(&f, "lora.head_a", param(&f, "out_head.lora_A.weight"));
    /* B is zero, so nothing has changed, to the last bit */
    tg_tensor *first = tg_gpt_forward(f.tape, f.model, f.ids, NULL);
    for (int64_t i = 0; i < tg_tensor_count(base); i++) {
        assert_true(tg_tensor_value_at(first, i) == tg_tensor_value_at(base, i));
    }
    assert_golden(&f, "lora.base_logits", first);
    tg_release(base);
    train_lora(&f);
    tg_tape_reset(f.tape);
    assert_golden(&f, "lora.logits", tg_gpt_forward(f.tape, f.model, f.ids, NULL));
    assert_golden(&f, "lora.trained_a", param(&f, "trf_blocks.0.ff.layers.0.lora_A.weight"));
    assert_golden(&f, "lora.trained_b", param(&f, "trf_blocks.0.ff.layers.0.lora_B.weight"));
    tg_tape_reset(f.tape);
    assert_true(tg_gpt_merge_lora(f.model));
    assert_golden(&f, "lora.merged", param(&f, "trf_blocks.0.ff.layers.0.weight"));
    assert_golden(&f, "lora.merged_head", param(&f, "out_head.weight"));
    assert_golden(&f, "lora.logits", tg_gpt_forward(f.tape, f.model, f.ids, NULL));
    /* nothing is left of it, and the model is as before in all else */
    for (int64_t i = 0; i < tg_params_count(f.params); i++) {
        assert_null(strstr(tg_params_at(f.params, i).name, "lora"));
        assert_ptr_equal(param(&f, tg_params_at(f.params, i).name), tg_params_at(f.params, i).tensor);
    }
    assert_true(tg_gpt_merge_lora(f.model));
    end(&f);
}

static void test_lora_is_torchs(void **state)
{
    (void)state;
    run_lora(TG_F32);
    run_lora(TG_F64);
}

/* Sets B to numbers, as a training would. */
static void fill_b(const fixture *f)
{
    for (int64_t i = 0; i < tg_params_count(f->params); i++) {
        if (strstr(tg_params_at(f->params, i).name, "lora_B")) {
            assert_true(tg_tensor_fill_normal(tg_params_at(f->params, i).tensor, tg_run_rng(f->run), 0, 0.1, NULL));
        }
    }
}

/* The adapter alone is a file, another model reads it, and a save for transformers is merged. */
static void test_lora_in_files(void **state)
{
    (void)state;
    fixture f = begin(TG_F32), g = begin(TG_F32);
    tg_error error = TG_NO_ERROR;
    tg_lora_config config = lora_of(2, 3);
    assert_true(tg_gpt_add_lora(f.model, "trf_blocks.*", &config));
    assert_null(tg_params_find(f.params, "out_head.lora_A.weight"));
    fill_b(&f);
    tg_params *part = tg_params_new_part(f.params, "*.lora_*");
    assert_int_equal(tg_params_count(part), 2 * 6 * 2);
    assert_true(tg_params_save(part, in_folder("adapter_model.safetensors"), NULL, &error));
    tg_params_free(part);
    tg_tensor *expected = tg_gpt_forward(f.tape, f.model, f.ids, NULL);

    assert_true(tg_gpt_add_lora(g.model, "trf_blocks.*", &config));
    part = tg_params_new_part(g.params, "*.lora_*");
    assert_true(tg_params_load(part, in_folder("adapter_model.safetensors"), NULL, &error));
    tg_params_free(part);
    tg_tensor *found = tg_gpt_forward(g.tape, g.model, g.ids, NULL);
    for (int64_t i = 0; i < tg_tensor_count(found); i++) {
        assert_true(tg_tensor_value_at(found, i) == tg_tensor_value_at(expected, i));
    }
    assert_true(tg_gpt_save(g.model, folder, NULL, &error));
    assert_non_null(tg_params_find(g.params, "trf_blocks.1.ff.layers.2.lora_B.weight"));
    tg_params *read = tg_params_new(f.run, TG_F32);
    tg_gpt_open_config open = tg_gpt_open_config_default();
    open.heads = 2;
    tg_gpt *opened = tg_gpt_open(read, folder, &open);
    assert_string_equal(tg_params_error(read)->text, "");
    tg_evaluation_begin(f.tape);
    found = tg_gpt_forward(f.tape, opened, f.ids, NULL);
    for (int64_t i = 0; i < tg_tensor_count(found); i++) {
        assert_true(fabs(tg_tensor_value_at(found, i) - tg_tensor_value_at(expected, i)) < 1e-5);
    }
    tg_gpt_free(opened);
    tg_params_free(read);
    end(&f);
    end(&g);
}

/* One step of AdamW on the loss of all tokens. */
static double step_of_lora(fixture *f, tg_optim *optim)
{
    tg_tape_reset(f->tape);
    tg_tensor *loss = tg_gpt_loss(f->tape, f->model, f->ids, f->targets, NULL);
    tg_optim_zero_grad(optim);
    assert_true(tg_backward(f->tape, loss, NULL));
    assert_true(tg_optim_step(optim));
    double value = tg_tensor_item(loss, NULL);
    tg_tape_reset(f->tape);
    return value;
}

/* A training with LoRA continues from a checkpoint with the same bits; then its texts are the same with the cache,
 * without it, and merged. */
static void test_lora_continues(void **state)
{
    (void)state;
    fixture f = begin(TG_F64), g = begin(TG_F64);
    fixture *both[] = {&f, &g};
    tg_optim *optims[2];
    tg_error error = TG_NO_ERROR;
    tg_lora_config config = lora_of(2, 3);
    for (int i = 0; i < 2; i++) {
        assert_true(tg_params_set_frozen(both[i]->params, "*", true));
        assert_true(tg_gpt_add_lora(both[i]->model, "*", &config));
        optims[i] = tg_adamw_new(both[i]->params, NULL);
    }
    step_of_lora(&f, optims[0]);
    step_of_lora(&f, optims[0]);
    const tg_checkpoint_part saved[] = {tg_checkpoint_params("model", f.params),
                                        tg_checkpoint_optim("optim", optims[0])};
    const tg_checkpoint_part read[] = {tg_checkpoint_params("model", g.params),
                                       tg_checkpoint_optim("optim", optims[1])};
    assert_true(tg_checkpoint_save("lora.safetensors", saved, 2, &error));
    assert_true(tg_checkpoint_load("lora.safetensors", read, 2, &error));
    remove("lora.safetensors");
    for (int i = 0; i < 3; i++) {
        assert_true(step_of_lora(&f, optims[0]) == step_of_lora(&g, optims[1]));
    }
    const int32_t prompt[] = {3, 1, 4};
    int32_t ids[3][6];
    tg_generate_config generate = tg_generate_config_default();
    generate.max_new_tokens = 6;
    for (int i = 0; i < 3; i++) {
        generate.use_cache = i != 1;
        assert_true(i < 2 || tg_gpt_merge_lora(f.model));
        assert_int_equal(tg_gpt_generate(f.tape, f.model, prompt, 3, ids[i], &generate), 6);
    }
    assert_memory_equal(ids[0], ids[1], sizeof ids[0]);
    assert_memory_equal(ids[0], ids[2], sizeof ids[0]);
    for (int i = 0; i < 2; i++) {
        tg_optim_free(optims[i]);
        end(both[i]);
    }
}

/* A Linear outside of a GPT. */
static void test_lora_of_a_layer(void **state)
{
    (void)state;
    tg_error error = TG_NO_ERROR;
    tg_run *run = tg_run_new(1);
    tg_params *params = tg_params_new(run, TG_F64);
    tg_nn_linear linear = tg_nn_linear_make(params, "part.fc", 3, 2, TG_BIAS);
    tg_lora_config config = lora_of(1, 2);
    assert_true(tg_nn_linear_add_lora(params, &linear, &config));
    assert_ptr_equal(linear.lora_a, tg_params_find(params, "part.fc.lora_A.weight"));
    assert_true(linear.lora_scale == 2);
    tg_tensor_fill(linear.weight, 1, &error);
    tg_tensor_fill(linear.bias, 0, &error);
    memcpy(tg_tensor_data_mut(linear.lora_a), (const double[]){1, 0, -1}, 3 * sizeof(double));
    memcpy(tg_tensor_data_mut(linear.lora_b), (const double[]){0.5, 3}, 2 * sizeof(double));
    tg_tape *t = tg_tape_new(run, NULL);
    tg_tensor *x = tensor_f64(TG_SHAPE(1, 3), (const double[]){5, 7, 2});
    assert_values(tg_nn_linear_forward(t, &linear, x), (const double[]){14 + 2 * 0.5 * 3, 14 + 2 * 3 * 3}, 2, 0, 0);
    tg_tape_reset(t);
    assert_true(tg_nn_linear_merge_lora(params, &linear));
    assert_values(linear.weight, (const double[]){2, 1, 0, 7, 1, -5}, 6, 0, 0);
    assert_null(linear.lora_a);
    assert_int_equal(tg_params_count(params), 2);
    assert_values(tg_nn_linear_forward(t, &linear, x), (const double[]){17, 32}, 2, 0, 0);
    tg_release(x);
    tg_tape_free(t);
    tg_params_free(params);
    tg_run_free(run);
}

/* A layer that matches several patterns gets LoRA once, and the draws are in the order of the params. */
static void test_lora_of_several_patterns(void **state)
{
    (void)state;
    static const char *const patterns[] = {"*.W_query *.ff.*", "  *.ff.layers.2   *.ff.* *.W_query "};
    tg_params *parts[2];
    fixture both[2];
    for (int i = 0; i < 2; i++) {
        both[i] = begin(TG_F32);
        tg_lora_config config = lora_of(2, 4);
        assert_true(tg_gpt_add_lora(both[i].model, patterns[i], &config));
        parts[i] = tg_params_new_part(both[i].params, "*.lora_*");
        const tg_gpt_config *c = tg_gpt_get_config(both[i].model);
        assert_int_equal(tg_gpt_count_lora(patterns[i], 2, c), tg_params_value_count(parts[i]));
        assert_int_equal(tg_gpt_count_lora("*", 3, c), 3 * tg_gpt_count_lora("trf_blocks.* out_head", 1, c));
        assert_true(tg_gpt_count_lora("*.q_proj", 2, c) == 0 && tg_gpt_count_lora("*", 0, c) == 0);
        assert_int_equal(tg_gpt_count_lora("*", INT64_MAX / 100, c), 0); /* more than 2^63 - 1 values */
        assert_int_equal(tg_params_count(parts[i]), 2 * 3 * 2);
    }
    for (int64_t k = 0; k < tg_params_count(parts[0]); k++) {
        tg_entry one = tg_params_at(parts[0], k), other = tg_params_at(parts[1], k);
        assert_string_equal(one.name, other.name);
        assert_true(strstr(one.name, ".W_query.lora_") || strstr(one.name, ".ff.layers."));
        assert_memory_equal(tg_tensor_data(one.tensor), tg_tensor_data(other.tensor),
                            (size_t)tg_tensor_count(one.tensor) * sizeof(float));
    }
    for (int i = 0; i < 2; i++) {
        tg_params_free(parts[i]);
        end(&both[i]);
    }
}

static void test_bad_lora(void **state)
{
    (void)state;
    fixture f = begin(TG_F32);
    int64_t count = tg_params_count(f.params);
    uint64_t position = tg_rng_position(tg_run_rng(f.run));
    const struct {
        const char *pattern;
        int64_t rank;
        double alpha;
        tg_code code;
        const char *text;
    } bad[] = {
        {"*", 0, 1, TG_ERROR_VALUE, "gpt_add_lora: rank 0; it must be set to at least 1"},
        {"*", -3, 1, TG_ERROR_VALUE, "gpt_add_lora: rank -3; it must be set to at least 1"},
        {"*", 17, 1, TG_ERROR_VALUE,
         "gpt_add_lora: rank 17 is above 16, the larger size of the weight (16,16) of 'trf_blocks.0.att.W_query'"},
        {"*", 2, 0, TG_ERROR_VALUE, "gpt_add_lora: alpha 0; it must be set, finite and above 0"},
        {"*", 2, INFINITY, TG_ERROR_VALUE, "gpt_add_lora: alpha inf; it must be set, finite and above 0"},
        {"trf_blocks.2.*", 2, 1, TG_ERROR_RANGE, "gpt_add_lora: no layer matches 'trf_blocks.2.*'; the layers are"},
        {"", 2, 1, TG_ERROR_RANGE, "gpt_add_lora: no layer matches ''"},
        {NULL, 2, 1, TG_ERROR_STATE, "gpt_add_lora: the patterns are NULL"},
        {"  ", 2, 1, TG_ERROR_RANGE, "gpt_add_lora: no layer matches ''"},
        {"*.W_query *.q_proj", 2, 1, TG_ERROR_RANGE, "gpt_add_lora: no layer matches '*.q_proj'; the layers are"},
        {"*.q_proj *.W_query", 2, 1, TG_ERROR_RANGE, "gpt_add_lora: no layer matches '*.q_proj'; the layers are"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        tg_lora_config config = lora_of(bad[i].rank, bad[i].alpha);
        assert_false(tg_gpt_add_lora(f.model, bad[i].pattern, &config));
        assert_params_error(f.params, bad[i].code, bad[i].text);
        assert_int_equal(tg_params_count(f.params), count);
        assert_true(tg_rng_position(tg_run_rng(f.run)) == position);
    }
    /* the last layer that matches has it already, so the others get none */
    tg_lora_config config = lora_of(2, 1);
    assert_true(tg_gpt_add_lora(f.model, "*.1.ff.layers.2", &config));
    count = tg_params_count(f.params);
    assert_false(tg_gpt_add_lora(f.model, "*.ff.*", &config));
    assert_params_error(f.params, TG_ERROR_VALUE, "gpt_add_lora: 'trf_blocks.1.ff.layers.2' has LoRA already");
    assert_int_equal(tg_params_count(f.params), count);
    assert_non_null(tg_gpt_forward(f.tape, f.model, f.ids, NULL));
    tg_params *others = tg_params_new(f.run, TG_F32);
    tg_nn_linear linear = tg_nn_linear_make(others, "fc", 3, 2, TG_BIAS);
    assert_false(tg_nn_linear_add_lora(f.params, &linear, &config));
    assert_params_error(f.params, TG_ERROR_VALUE, "nn_linear_add_lora: the params do not have the weight of the layer");
    assert_false(tg_nn_linear_add_lora(f.params, NULL, &config));
    assert_params_error(f.params, TG_ERROR_STATE, "nn_linear_add_lora: the module is NULL, or was not made");
    config.rank = 4;
    assert_false(tg_nn_linear_add_lora(others, &linear, &config));
    assert_params_error(others, TG_ERROR_VALUE, "nn_linear_add_lora: rank 4 is above 3, the larger size of the weight");
    config.rank = 3; /* more than its outputs */
    assert_true(tg_nn_linear_add_lora(others, &linear, &config));
    assert_false(tg_nn_linear_merge_lora(f.params, &linear));
    assert_params_error(f.params, TG_ERROR_STATE,
                        "nn_linear_merge_lora: the params do not have the matrices of the layer");
    tg_params_free(others);
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_head_is_torchs),
        cmocka_unit_test(test_head_again),
        cmocka_unit_test(test_bad_heads),
        cmocka_unit_test(test_lora_is_torchs),
        cmocka_unit_test(test_lora_in_files),
        cmocka_unit_test(test_lora_of_a_layer),
        cmocka_unit_test(test_lora_continues),
        cmocka_unit_test(test_bad_lora),
        cmocka_unit_test(test_lora_of_several_patterns),
    };
    return cmocka_run_group_tests(tests, folder_begin, folder_end);
}
