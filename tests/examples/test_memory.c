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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_models)};
    return cmocka_run_group_tests_name("memory", tests, NULL, NULL);
}
