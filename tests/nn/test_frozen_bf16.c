/* Frozen weights of bf16 in modules: LoRA beside them trains as beside the same weights in f32; what memory they take;
 * merging; a module that is given a table of bf16; a causal model with a tied head. */
#include "support.h"

#include <math.h>
#include <string.h>

#include "tensor/tensor.h"

static const char path[] = "test_frozen_bf16.safetensors";

enum { ROWS = 60, WIDTH = 24, IDS = 12 };

/* An embedding, a layer and a head that is tied to the embedding. */
typedef struct model {
    tg_run *run;
    tg_params *params;
    tg_nn_embedding table;
    tg_nn_linear layer;
} model;

static model model_new(uint64_t seed)
{
    model m = {.run = tg_run_new(seed)};
    m.params = tg_params_new(m.run, TG_F32);
    m.table = tg_nn_embedding_make(m.params, "emb", ROWS, WIDTH, NULL);
    m.layer = tg_nn_linear_make(m.params, "layer", WIDTH, WIDTH, TG_BIAS);
    tg_params_add_alias(m.params, "head.weight", "emb.weight");
    assert_int_equal(tg_params_error(m.params)->code, TG_OK);
    return m;
}

static void model_free(model *m)
{
    tg_params_free(m->params);
    tg_run_free(m->run);
}

static tg_tensor *loss_of(tg_tape *t, const model *m, tg_tensor *ids, tg_tensor *targets)
{
    tg_tensor *x = tg_nn_linear_forward(t, &m->layer, tg_nn_embedding_forward(t, &m->table, ids));
    return tg_linear_cross_entropy(t, tg_relu(t, x), m->table.weight, targets, NULL);
}

/* Loads the frozen weights, adds LoRA, and trains it. Returns the losses. */
static void train(model *m, bool keeps_bf16, double losses[5])
{
    tg_error error = TG_NO_ERROR;
    tg_params_load_config load = tg_params_load_config_default();
    tg_lora_config lora = tg_lora_config_default();
    lora.rank = 3;
    lora.alpha = 6;
    load.keep_bf16 = keeps_bf16;
    assert_true(tg_params_set_frozen(m->params, "*", true));
    assert_true(tg_params_load(m->params, path, &load, &error));
    assert_true(tg_nn_linear_add_lora(m->params, &m->layer, &lora));
    tg_tensor *ids = tg_tensor_new_arange(TG_I32, 0, IDS, 1, NULL);
    tg_tensor *targets = tg_tensor_new_arange(TG_I32, 1, IDS + 1, 1, NULL);
    tg_tape *t = tg_tape_new(m->run, NULL);
    tg_adam_config config = tg_adam_config_default();
    config.lr = 0.05;
    tg_optim *adam = tg_adam_new(m->params, &config);
    assert_non_null(adam);
    for (int i = 0; i < 5; i++) {
        tg_tape_reset(t);
        tg_tensor *loss = loss_of(t, m, ids, targets);
        losses[i] = tg_tensor_item(loss, &error);
        assert_true(tg_backward(t, loss, NULL) && tg_optim_step(adam));
        tg_optim_zero_grad(adam);
    }
    tg_optim_free(adam);
    tg_tape_free(t);
    tg_release(ids);
    tg_release(targets);
}

static void test_lora(void **state)
{
    (void)state;
    tg_error error = TG_NO_ERROR;
    model saved = model_new(1), bf16 = model_new(2), f32 = model_new(2);
    tg_params_save_config narrow = tg_params_save_config_default();
    narrow.floats = TG_SAVE_FLOATS_BF16;
    assert_true(tg_params_save(saved.params, path, &narrow, &error));
    double losses[2][5];
    train(&bf16, true, losses[0]);
    train(&f32, false, losses[1]);
    assert_int_equal(tg_tensor_dtype(bf16.table.weight), TG_BF16);
    assert_int_equal(tg_tensor_dtype(bf16.layer.weight), TG_BF16);
    assert_int_equal(tg_tensor_dtype(f32.table.weight), TG_F32);
    assert_memory_equal(losses[0], losses[1], sizeof losses[0]);
    assert_true(losses[0][4] < losses[0][0] - 0.01);
    for (int64_t i = 0; i < tg_params_count(f32.params); i++) {
        const tg_tensor *x = tg_params_at(bf16.params, i).tensor, *y = tg_params_at(f32.params, i).tensor;
        for (int64_t k = 0; k < tg_tensor_count(x); k++) {
            assert_true(tg_tensor_value_at(x, k) == tg_tensor_value_at(y, k));
        }
    }
    /* a merged weight is that of f32, rounded once more */
    assert_true(tg_nn_linear_merge_lora(bf16.params, &bf16.layer) && tg_nn_linear_merge_lora(f32.params, &f32.layer));
    tg_tensor *merged = tg_tensor_new_cast(f32.layer.weight, TG_BF16, NULL);
    int64_t differences = 0;
    for (int64_t k = 0; k < WIDTH * WIDTH; k++) {
        double x = tg_tensor_value_at(bf16.layer.weight, k), y = tg_tensor_value_at(merged, k);
        assert_true(fabs(x - y) <= 0x1p-7 * fabs(y));
        differences += x != y;
    }
    assert_true(differences <= 2);
    tg_release(merged);
    model_free(&saved);
    model_free(&bf16);
    model_free(&f32);
    remove(path);
}

/* 2 bytes per value, and nothing for an optimizer. */
static void test_memory(void **state)
{
    (void)state;
    enum { SIDE = 1000 };
    metered_allocator meter = {0};
    allocator_measure(&meter);
    tg_run *run = tg_run_new(1);
    tg_params *params = tg_params_new(run, TG_F32);
    tg_tensor *weight = tg_tensor_new(TG_BF16, TG_SHAPE(SIDE, SIDE), NULL);
    tg_params_add_existing(params, "weight", weight);
    tg_release(weight);
    tg_params_add(params, "bias", TG_SHAPE(SIDE));
    tg_optim *adam = tg_adam_new(params, NULL);
    tg_tensor *x = leaf(tg_tensor_new(TG_F32, TG_SHAPE(2, SIDE), NULL));
    tg_tape *t = tg_tape_new(run, NULL);
    tg_tensor *y = tg_linear(t, x, weight, tg_params_find(params, "bias"));
    assert_true(tg_backward(t, tg_sum(t, y, TG_ALL_AXES, TG_DROP_AXES), NULL) && tg_optim_step(adam));
    assert_in_range(meter.most, 2 * SIDE * SIDE, 2 * SIDE * SIDE + 400000);
    tg_tape_free(t);
    tg_optim_free(adam);
    tg_params_free(params);
    tg_run_free(run);
    tg_release(x);
    assert_int_equal(meter.now, 0);
    allocator_restore();
}

/* A pretrained table of bf16 is frozen. */
static void test_given_table(void **state)
{
    (void)state;
    model m = model_new(3);
    tg_nn_embedding_config config = tg_nn_embedding_config_default();
    config.from = tg_tensor_new_cast(m.table.weight, TG_BF16, NULL);
    assert_false(tg_nn_embedding_make(m.params, "given", ROWS, WIDTH, &config).module.is_made);
    assert_params_error(
        m.params, TG_ERROR_DTYPE,
        "nn_embedding_make: 'given' is given a table of bf16, which is never trained; set config.frozen");
    config.frozen = true;
    tg_nn_embedding given = tg_nn_embedding_make(m.params, "given", ROWS, WIDTH, &config);
    assert_ptr_equal(given.weight, config.from);
    assert_false(tg_tensor_requires_grad(given.weight));
    tg_release(config.from);
    model_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lora),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_given_table),
    };
    return cmocka_run_group_tests_name("frozen_bf16", tests, NULL, NULL);
}
