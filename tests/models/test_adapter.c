/* tg_gpt_save_adapter and tg_gpt_open_adapter: LoRA that was written is read into another model; folders of peft are
 * compared with peft itself by tests/published. What a model cannot read is refused, and nothing changes. */
#include <string.h>

#include "folder.h"
#include "support.h"

typedef struct fixture {
    tg_run *run;
    tg_params *params;
    tg_gpt *model;
} fixture;

static void fixture_free(fixture *f)
{
    tg_gpt_free(f->model);
    tg_params_free(f->params);
    tg_run_free(f->run);
}

/* A Llama, or a GPT-2. */
static fixture made(bool is_llama, uint64_t seed)
{
    tg_gpt_config c = tg_gpt_config_default();
    c.vocabulary = 9;
    c.context = 8;
    c.width = 8;
    c.heads = c.layers = 2;
    if (is_llama) {
        c.position = TG_POSITION_ROTARY;
        c.norm = TG_NORM_RMS;
        c.feed_forward = TG_FEED_FORWARD_SWIGLU;
        c.hidden = 12;
        c.key_heads = 1;
        c.out_bias = false;
    }
    fixture f = {.run = tg_run_new(seed)};
    f.params = tg_params_new(f.run, TG_F32);
    f.model = tg_gpt_new(f.params, &c);
    return f;
}

/* Adds LoRA whose matrices are not zeros. */
static void add_lora(fixture *f, const char *pattern, int64_t rank, double alpha)
{
    tg_lora_config lora = tg_lora_config_default();
    lora.rank = rank;
    lora.alpha = alpha;
    assert_true(tg_gpt_add_lora(f->model, pattern, &lora));
    for (int64_t i = 0; i < tg_params_count(f->params); i++) {
        tg_entry entry = tg_params_at(f->params, i);
        if (strstr(entry.name, "lora_B")) {
            tg_tensor_fill_normal(entry.tensor, tg_run_rng(f->run), 0, 1, NULL);
        }
    }
}

static void logits_of(const fixture *f, double logits[36])
{
    tg_tape *t = tg_tape_new(f->run, NULL);
    tg_tape_set_training(t, false);
    tg_tensor *ids = tensor_i32(TG_SHAPE(1, 4), (int32_t[]){1, 8, 2, 5}), *y = tg_gpt_forward(t, f->model, ids, NULL);
    assert_string_equal(tg_tape_error(t)->text, "");
    for (int i = 0; i < 36; i++) {
        logits[i] = tg_tensor_value_at(y, i);
    }
    tg_release(ids);
    tg_tape_free(t);
}

static void test_written_and_read(void **state)
{
    (void)state;
    static const struct {
        bool is_llama;
        const char *pattern, *module;
    } cases[] = {
        {true, "*", "\"lm_head\""},
        {true, "*.ff.fc*", "\"model.layers.1.mlp.down_proj\""},
        {true, "trf_blocks.0.att.W_key", "[\"model.layers.0.self_attn.k_proj\"]"},
        {false, "*.ff.*", "\"transformer.h.0.mlp.c_proj\""},
        {false, "*.out_proj", "\"fan_in_fan_out\": true"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tg_error error = TG_NO_ERROR;
        fixture f = made(cases[i].is_llama, 1), g = made(cases[i].is_llama, 1);
        double before[36], after[36], plain[36];
        logits_of(&f, plain);
        add_lora(&f, cases[i].pattern, 3, 5);
        logits_of(&f, before);
        assert_true(tg_gpt_save_adapter(f.model, folder, &error));
        char *json = tg_text_read(in_folder("adapter_config.json"), NULL, NULL);
        assert_non_null(strstr(json, cases[i].module));
        assert_non_null(strstr(json, "\"r\": 3,\n  \"lora_alpha\": 5.0"));
        tg_text_free(json);
        uint64_t drawn = tg_rng_position(tg_run_rng(g.run));
        assert_true(tg_gpt_open_adapter(g.model, folder));
        assert_int_equal(tg_rng_position(tg_run_rng(g.run)), drawn);
        assert_int_equal(tg_params_count(g.params), tg_params_count(f.params));
        logits_of(&g, after);
        assert_memory_equal(before, after, sizeof before);
        assert_true(memcmp(before, plain, sizeof before) != 0);
        /* a second one is refused, and the first one stays */
        assert_false(tg_gpt_open_adapter(g.model, folder));
        assert_params_error(g.params, TG_ERROR_VALUE, "has LoRA already");
        logits_of(&g, after);
        assert_memory_equal(before, after, sizeof before);
        assert_true(tg_gpt_merge_lora(g.model));
        fixture_free(&f);
        fixture_free(&g);
    }
}

static void assert_not_read(fixture *f, tg_code code, const char *part)
{
    int64_t count = tg_params_count(f->params);
    assert_false(tg_gpt_open_adapter(f->model, folder));
    assert_params_error(f->params, code, part);
    assert_int_equal(tg_params_count(f->params), count);
    assert_true(tg_gpt_merge_lora(f->model)); /* no layer refers to what was removed */
    assert_int_equal(tg_params_count(f->params), count);
}

static void test_refused_settings(void **state)
{
    (void)state;
    static const struct {
        const char *json, *message;
    } cases[] = {
        {"{\"peft_type\":\"IA3\"}", "adapter_config.json': peft_type is \"IA3\"; it must be \"LORA\""},
        {"{\"task_type\":\"SEQ_CLS\"}", "task_type is \"SEQ_CLS\"; it must be \"CAUSAL_LM\" or null"},
        {"{\"use_dora\":true}", "use_dora is true; it must be false"},
        {"{\"use_rslora\":true}", "use_rslora is true; it must be false"},
        {"{\"bias\":\"all\"}", "bias is \"all\"; it must be \"none\""},
        {"{\"rank_pattern\":{\"q_proj\":2}}", "rank_pattern is {\"q_proj\":2}; it must be {} or null"},
        {"{\"alpha_pattern\":{\"q_proj\":2}}", "alpha_pattern is {\"q_proj\":2}; it must be"},
        {"{\"init_lora_weights\":\"pissa\"}", "init_lora_weights is \"pissa\"; it must be"},
        {"{\"modules_to_save\":[\"lm_head\"]}", "modules_to_save is [\"lm_head\"]; this setting is not known for LoRA"},
        {"{\"r\":0}", "r is 0 and lora_alpha 8; r must be at least 1, and lora_alpha above 0"},
        {"{\"r\":3,\"lora_alpha\":-1}", "r is 3 and lora_alpha -1; r must be at least 1"},
        {"{\"r\":2}", "lora_A.weight' is (3,8); in this llama it must be (2,8)"},
        {"{\"r\":9000}", "adapter_config.json': rank 9000 is above 8"},
    };
    tg_error error = TG_NO_ERROR;
    fixture f = made(true, 1), g = made(true, 2);
    add_lora(&f, "*.W_query", 3, 5);
    assert_true(tg_gpt_save_adapter(f.model, folder, &error));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_text("adapter_config.json", cases[i].json);
        assert_not_read(&g, strstr(cases[i].json, "\"r\":2") ? TG_ERROR_SHAPE : TG_ERROR_VALUE, cases[i].message);
    }
    write_text("adapter_config.json", "{");
    assert_not_read(&g, TG_ERROR_FORMAT, "adapter_config.json', byte 1: expected");
    fixture_free(&f);
    fixture_free(&g);
}

/* Adapters of other models, and models that have no folder. */
static void test_refused_models(void **state)
{
    (void)state;
    tg_error error = TG_NO_ERROR;
    fixture f = made(true, 1), g = made(false, 1);
    assert_false(tg_gpt_save_adapter(f.model, folder, &error));
    assert_error(&error, TG_ERROR_VALUE, "gpt_save_adapter: the model has no LoRA");
    add_lora(&f, "*.W_query", 3, 5);
    assert_true(tg_gpt_save_adapter(f.model, folder, &error));
    assert_not_read(&g, TG_ERROR_VALUE,
                    "'base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight' is no tensor of this gpt2");
    /* peft's LoRA of c_attn, the default of target_modules for a GPT-2 */
    tg_params *fused = tg_params_new(g.run, TG_F32);
    tg_params_add(fused, "base_model.model.transformer.h.0.attn.c_attn.lora_A.weight", TG_SHAPE(3, 8));
    assert_true(tg_params_save(fused, in_folder("adapter_model.safetensors"), NULL, &error));
    assert_not_read(&g, TG_ERROR_VALUE,
                    "h.0.attn.c_attn.lora_A.weight' is no tensor of this gpt2, where it would be three layers; "
                    "target_modules must name others");
    tg_params_free(fused);
    add_lora(&f, "*.W_value", 3, 6);
    assert_false(tg_gpt_save_adapter(f.model, folder, &error));
    assert_error(&error, TG_ERROR_VALUE,
                 "'trf_blocks.0.att.W_value' has LoRA of rank 3 and alpha 6, and another layer of 3 and 5; all must");
    add_lora(&g, "*.W_query", 3, 5);
    assert_false(tg_gpt_save_adapter(g.model, folder, &error));
    assert_error(&error, TG_ERROR_VALUE,
                 "'trf_blocks.0.att.W_query' has LoRA, but is a part of a tensor of a gpt2; peft has none of parts");
    assert_false(tg_gpt_save_adapter(f.model, "nowhere", &error));
    assert_true(error.code != TG_OK);
    tg_error_clear(&error);
    assert_false(tg_gpt_open_adapter(f.model, "nowhere"));
    assert_params_error(f.params, TG_ERROR_FILE, "nowhere/adapter_config.json");
    assert_false(tg_gpt_open_adapter(f.model, NULL));
    assert_params_error(f.params, TG_ERROR_STATE, "gpt_open_adapter: the folder is NULL");
    assert_false(tg_gpt_open_adapter(NULL, folder));
    assert_false(tg_gpt_save_adapter(NULL, folder, &error));
    assert_error(&error, TG_ERROR_STATE, "gpt_save_adapter: the model is NULL");
    fixture_free(&f);
    fixture_free(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_written_and_read),
        cmocka_unit_test(test_refused_settings),
        cmocka_unit_test(test_refused_models),
    };
    return cmocka_run_group_tests(tests, folder_begin, folder_end);
}
