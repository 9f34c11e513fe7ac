/* The memory that gpt info prints (examples/gpt/memory.c) is within a tenth of that of a tape. */
#include "support.h"

#include "../examples/gpt/memory.h"
#include "tape_stats.h"

/* Returns the floats that the tape of a training step has per token. */
static double measured(const tg_gpt_config *config, int64_t batch)
{
    tg_run *run = tg_run_new(1);
    tg_params *params = tg_params_new(run, TG_F32);
    tg_gpt *model = tg_gpt_new(params, config);
    tg_tape *t = tg_tape_new(run, NULL);
    tg_tensor *ids = tg_tensor_new_full(TG_I32, TG_SHAPE(batch, config->context), 1, NULL);
    tg_tensor *loss = tg_cross_entropy(t, tg_gpt_forward(t, model, ids, NULL), ids, NULL);
    assert_true(tg_backward(t, loss, NULL));
    tg_tape_reset(t);
    double bytes = (double)tape_stats_of(t).idle_bytes;
    tg_release(ids);
    tg_tape_free(t);
    tg_gpt_free(model);
    tg_params_free(params);
    tg_run_free(run);
    return bytes / sizeof(float) / (double)(batch * config->context);
}

static void test_models(void **state)
{
    (void)state;
    static const struct {
        int64_t batch, context, width, heads, layers, vocabulary;
        double dropout;
    } models[] = {
        {2, 64, 128, 4, 6, 1000, 0.1}, {2, 64, 128, 4, 6, 1000, 0}, {2, 128, 256, 4, 2, 10000, 0.1},
        {1, 256, 64, 2, 12, 300, 0.1}, {4, 64, 192, 6, 1, 65, 0.2},
    };
    for (size_t i = 0; i < 2 * sizeof models / sizeof models[0]; i++) {
        tg_gpt_config config = tg_gpt_config_default();
        config.context = models[i / 2].context;
        config.width = models[i / 2].width;
        config.heads = models[i / 2].heads;
        config.layers = models[i / 2].layers;
        config.vocabulary = models[i / 2].vocabulary;
        config.dropout = models[i / 2].dropout;
        config.activation_checkpointing = i % 2;
        double estimate = activation_floats(&config), found = measured(&config, models[i / 2].batch);
        if (estimate < 0.9 * found || estimate > 1.1 * found) {
            fail_msg("model %zu%s: an estimate of %.0f floats per token, found %.0f", i / 2,
                     i % 2 ? ", checkpointing" : "", estimate, found);
        }
    }
}

/* The estimate of a step of a published model, with LoRA and without, which has tg_gpt_loss and no dropout. */
static void test_lora(void **state)
{
    (void)state;
    static const struct {
        int64_t batch, context, width, key_heads, hidden, layers, vocabulary, rank;
        const char *patterns;
    } models[] = {
        {2, 64, 128, 2, 384, 4, 1000, 0, NULL},          {2, 64, 128, 2, 384, 4, 1000, 8, "trf_blocks.*"},
        {1, 256, 64, 4, 256, 6, 300, 4, "*.att.*"},      {4, 64, 192, 1, 512, 2, 65, 16, "*.W_query *.W_value"},
        {2, 128, 96, 4, 256, 3, 500, 8, "trf_blocks.*"},
    };
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        tg_gpt_config config = tg_gpt_config_default();
        config.context = models[i].context;
        config.width = models[i].width;
        config.heads = 4;
        config.key_heads = models[i].key_heads;
        config.hidden = models[i].hidden;
        config.layers = models[i].layers;
        config.vocabulary = models[i].vocabulary;
        config.norm = TG_NORM_RMS;
        config.position = TG_POSITION_ROTARY;
        config.feed_forward = TG_FEED_FORWARD_SWIGLU;
        config.out_bias = false;
        config.tied_head = config.query_key_norm = true;
        tg_run *run = tg_run_new(1);
        tg_params *params = tg_params_new(run, TG_F32);
        tg_gpt *model = tg_gpt_new(params, &config);
        int64_t rank = models[i].rank, trained = tg_params_value_count(params),
                tokens = models[i].batch * config.context;
        if (rank > 0) {
            tg_lora_config lora = tg_lora_config_default();
            lora.rank = rank;
            lora.alpha = 1;
            tg_params_set_frozen(params, "*", true);
            assert_true(tg_gpt_add_lora(model, models[i].patterns, &lora));
            int64_t added = tg_params_value_count(params) - trained;
            trained = tg_gpt_count_lora(models[i].patterns, rank, tg_gpt_get_config(model));
            assert_int_equal(trained, added);
        }
        tg_tape *t = tg_tape_new(run, NULL);
        tg_tensor *ids = tg_tensor_new_full(TG_I32, TG_SHAPE(models[i].batch, config.context), 1, NULL);
        assert_true(tg_backward(t, tg_gpt_loss(t, model, ids, ids, NULL), NULL));
        tg_tape_reset(t);
        double found = (double)tape_stats_of(t).idle_bytes / sizeof(float);
        double estimate =
            training_floats(tg_gpt_get_config(model), trained, rank, tokens) - (double)((rank > 0 ? 4 : 3) * trained);
        if (estimate < 0.9 * found || estimate > 1.1 * found) {
            fail_msg("model %zu: an estimate of %.0f floats, found %.0f", i, estimate, found);
        }
        tg_release(ids);
        tg_tape_free(t);
        tg_gpt_free(model);
        tg_params_free(params);
        tg_run_free(run);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_models), cmocka_unit_test(test_lora)};
    return cmocka_run_group_tests_name("memory", tests, NULL, NULL);
}
