/* Families of published models, without Python: what was saved in each is opened again; config.json is read in the
 * forms of transformers 4 and 5; and what a model cannot be is refused, with the file, the key and its value. */
#include <math.h>
#include <string.h>

#include "folder.h"
#include "models/family.h"
#include "support.h"

/* ---- models ---- */

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

static fixture made(const tg_gpt_config *config, tg_dtype dtype)
{
    fixture f = {.run = tg_run_new(3)};
    f.params = tg_params_new(f.run, dtype);
    f.model = tg_gpt_new(f.params, config);
    assert_string_equal(tg_params_error(f.params)->text, "");
    for (int64_t i = 0; i < tg_params_count(f.params); i++) { /* norms that are 1 hide each other */
        tg_tensor *x = tg_params_at(f.params, i).tensor;
        if (tg_tensor_rank(x) == 1) {
            tg_tensor_fill_normal(x, tg_run_rng(f.run), 0.5, 0.2, NULL);
        }
    }
    return f;
}

static fixture opened(tg_dtype dtype, const tg_gpt_open_config *config)
{
    fixture f = {.run = tg_run_new(1)};
    f.params = tg_params_new(f.run, dtype);
    f.model = tg_gpt_open(f.params, folder, config);
    return f;
}

/* A model that has nothing of another family. */
static tg_gpt_config config_of(const char *family)
{
    tg_gpt_config c = tg_gpt_config_default();
    c.vocabulary = 11;
    c.context = 9;
    c.width = 16;
    c.heads = 4;
    c.layers = 3;
    if (strcmp(family, "gpt2") == 0) {
        c.qkv_bias = true;
        return c;
    }
    c.position = TG_POSITION_ROTARY;
    c.norm = TG_NORM_RMS;
    c.eps = 1e-6;
    c.feed_forward = TG_FEED_FORWARD_SWIGLU;
    c.hidden = 10;
    c.key_heads = 2;
    c.out_bias = false;
    for (int i = 0; i < TG_GPT_PERIOD; i++) {
        c.layers_of_period[i].rotary.base = 500;
    }
    if (strcmp(family, "llama") == 0) {
        c.layers_of_period[0].rotary.llama3_factor = 4;
        c.layers_of_period[0].rotary.original_context = 5;
        c.tied_head = true;
    } else if (strcmp(family, "mistral") == 0) {
        c.layers_of_period[0].window = 3;
        c.head_width = 6;
    } else if (strcmp(family, "qwen2") == 0) {
        c.qkv_bias = true;
    } else if (strcmp(family, "qwen3") == 0) {
        c.query_key_norm = true;
    } else {
        c.norm = TG_NORM_RMS_PLUS_ONE;
        c.norm_after = c.query_key_norm = c.tied_head = true;
        c.feed_forward = TG_FEED_FORWARD_GEGLU;
        c.embedding_scale = 4;
        c.attention_scale = 0.5;
        c.period = 2;
        c.layers_of_period[0].window = 2;
        c.layers_of_period[0].rotary.base = 20;
        c.layers_of_period[1].rotary.position_scale = 2;
    }
    return c;
}

static const char *const families[] = {"gpt2", "llama", "mistral", "qwen2", "qwen3", "gemma3_text"};

#define FAMILIES (sizeof families / sizeof *families)

/* Writes the logits of a text, 2 x 9 x 11. */
static void logits_of(const fixture *f, double logits[198])
{
    int32_t ids[18];
    for (int i = 0; i < 18; i++) {
        ids[i] = (i * 7 + i / 5) % 11;
    }
    tg_tape *t = tg_tape_new(f->run, NULL);
    tg_tape_set_training(t, false);
    tg_tensor *x = tensor_i32(TG_SHAPE(2, 9), ids), *y = tg_gpt_forward(t, f->model, x, NULL);
    assert_string_equal(tg_tape_error(t)->text, "");
    for (int i = 0; i < 198; i++) {
        logits[i] = tg_tensor_value_at(y, i);
    }
    tg_release(x);
    tg_tape_free(t);
}

static char *config_json(void)
{
    char *json = tg_text_read(in_folder("config.json"), NULL, NULL);
    assert_non_null(json);
    return json;
}

/* The family of the config is the one that is written, and it is read as the same model; then the opened model is saved
 * as the same files. */
static void test_saved_and_opened(void **state)
{
    (void)state;
    tg_error error = TG_NO_ERROR;
    for (size_t i = 0; i < FAMILIES; i++) {
        tg_gpt_config c = config_of(families[i]);
        fixture f = made(&c, TG_F64);
        double before[198], after[198];
        char type[60];
        logits_of(&f, before);
        assert_true(tg_gpt_save(f.model, folder, NULL, &error));
        char *json = config_json(), *again;
        snprintf(type, sizeof type, "\"model_type\": \"%s\"", families[i]);
        assert_non_null(strstr(json, type));
        fixture g = opened(TG_F64, NULL);
        assert_string_equal(tg_params_error(g.params)->text, "");
        assert_int_equal(tg_rng_position(tg_run_rng(g.run)), 0);
        assert_int_equal(tg_params_count(g.params), tg_params_count(f.params));
        logits_of(&g, after);
        for (int k = 0; k < 198; k++) {
            assert_true(fabs(before[k] - after[k]) < 1e-3); /* of angles in float */
        }
        const tg_gpt_config *own = tg_gpt_get_config(g.model);
        assert_true(own->norm == c.norm && own->qkv_bias == c.qkv_bias && own->tied_head == c.tied_head);
        assert_true(own->layers_of_period[0].window == c.layers_of_period[0].window && own->period == c.period);
        for (int64_t p = 0; p < tg_params_count(f.params); p++) {
            tg_entry mine = tg_params_at(f.params, p);
            const tg_tensor *other = tg_params_find(g.params, mine.name);
            for (int64_t k = 0; k < tg_tensor_count(mine.tensor); k++) {
                assert_true(tg_tensor_value_at(mine.tensor, k) == tg_tensor_value_at(other, k));
            }
        }
        assert_true(tg_gpt_save(g.model, folder, NULL, &error));
        again = config_json();
        assert_string_equal(again, json);
        tg_text_free(json);
        tg_text_free(again);
        fixture_free(&f);
        fixture_free(&g);
    }
}

/* Saves a model of a family, whose config.json is then replaced. */
static void save_model(const char *family, tg_save_floats floats)
{
    tg_error error = TG_NO_ERROR;
    tg_gpt_config c = config_of(family);
    tg_gpt_save_config save = tg_gpt_save_config_default();
    fixture f = made(&c, TG_F32);
    save.floats = floats;
    assert_true(tg_gpt_save(f.model, folder, &save, &error));
    fixture_free(&f);
}

#define SIZES                                                                                \
    "\"vocab_size\":11,\"hidden_size\":16,\"intermediate_size\":10,\"num_hidden_layers\":3," \
    "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"max_position_embeddings\":9"
#define LLAMA "{\"model_type\":\"llama\",\"tie_word_embeddings\":true," SIZES
#define GEMMA "{\"model_type\":\"gemma3_text\",\"head_dim\":4,\"query_pre_attn_scalar\":4,\"sliding_window\":2," SIZES

/* Old and new keys mean the same. */
static void test_forms_of_keys(void **state)
{
    (void)state;
    static const struct {
        const char *family, *old, *new;
    } cases[] = {
        {"llama",
         LLAMA
         ",\"torch_dtype\":\"bfloat16\",\"rope_theta\":500.0,\"rope_scaling\":{\"factor\":4.0,\"type\":\"llama3\","
         "\"low_freq_factor\":1.0,\"high_freq_factor\":4.0,\"original_max_position_embeddings\":5}}",
         LLAMA ",\"dtype\":\"bfloat16\",\"rope_parameters\":{\"rope_type\":\"llama3\",\"rope_theta\":500,\"factor\":4,"
               "\"low_freq_factor\":1,\"high_freq_factor\":4,\"original_max_position_embeddings\":5}}"},
        {"llama", LLAMA ",\"rope_theta\":500.0,\"rope_scaling\":{\"factor\":2.0,\"type\":\"linear\"}}",
         LLAMA ",\"rope_parameters\":{\"rope_type\":\"linear\",\"rope_theta\":500,\"factor\":2}}"},
        {"gemma3_text",
         GEMMA ",\"rope_theta\":500,\"rope_local_base_freq\":20.0,\"sliding_window_pattern\":2,\"rope_scaling\":null}",
         GEMMA ",\"rope_parameters\":{\"sliding_attention\":{\"rope_type\":\"default\",\"rope_theta\":20},"
               "\"full_attention\":{\"rope_type\":\"default\",\"rope_theta\":500}},"
               "\"layer_types\":[\"sliding_attention\",\"full_attention\",\"sliding_attention\"]}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double logits[2][198];
        save_model(cases[i].family, TG_SAVE_FLOATS_KEEP);
        for (int k = 0; k < 2; k++) {
            write_text("config.json", k == 0 ? cases[i].old : cases[i].new);
            fixture f = opened(TG_F32, NULL);
            assert_string_equal(tg_params_error(f.params)->text, "");
            logits_of(&f, logits[k]);
            fixture_free(&f);
        }
        assert_memory_equal(logits[0], logits[1], sizeof logits[0]);
    }
}

/* What decides the numbers is not passed over: each of these changes them. */
static void test_settings_that_count(void **state)
{
    (void)state;
    static const struct {
        const char *family, *one, *other;
    } cases[] = {
        {"llama", LLAMA "}", LLAMA ",\"rope_theta\":500}"},
        {"llama", LLAMA "}", LLAMA ",\"rms_norm_eps\":0.5}"},
        {"llama", LLAMA ",\"rope_theta\":9}",
         LLAMA ",\"rope_theta\":9,\"rope_scaling\":{\"type\":\"linear\",\"factor\":1.5}}"},
        {"gemma3_text", GEMMA "}", GEMMA ",\"query_pre_attn_scalar\":5}"},
        {"gemma3_text", GEMMA "}", GEMMA ",\"sliding_window\":3}"},
        {"gemma3_text", GEMMA "}", GEMMA ",\"sliding_window_pattern\":3}"},
        {"gemma3_text", GEMMA "}", GEMMA ",\"rope_local_base_freq\":30}"},
        {"gemma3_text", GEMMA ",\"sliding_window_pattern\":2}",
         GEMMA ",\"sliding_window_pattern\":2,\"rope_theta\":30}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double logits[2][198], most = 0;
        save_model(cases[i].family, TG_SAVE_FLOATS_KEEP);
        for (int k = 0; k < 2; k++) {
            write_text("config.json", k == 0 ? cases[i].one : cases[i].other);
            fixture f = opened(TG_F32, NULL);
            assert_string_equal(tg_params_error(f.params)->text, "");
            logits_of(&f, logits[k]);
            fixture_free(&f);
        }
        for (int k = 0; k < 198; k++) {
            double difference = logits[0][k] - logits[1][k];
            most = difference > most ? difference : most;
        }
        assert_true(most > 1e-4);
    }
}

static void assert_refused(tg_code code, const char *part)
{
    fixture f = {.run = tg_run_new(1)};
    f.params = tg_params_new(f.run, TG_F32);
    tg_params_add(f.params, "own", TG_SHAPE(2));
    assert_null(tg_gpt_open(f.params, folder, NULL));
    assert_params_error(f.params, code, part);
    assert_int_equal(tg_params_count(f.params), 1);
    assert_int_equal(tg_rng_position(tg_run_rng(f.run)), 0);
    fixture_free(&f);
}

static void test_refused_settings(void **state)
{
    (void)state;
    static const struct {
        const char *family, *json, *message;
    } cases[] = {
        {"llama", "{\"model_type\":\"gemma2\"}",
         "config.json': model_type is \"gemma2\"; it must be \"gpt2\", \"llama\""},
        {"llama", "{\"model_type\":\"olmo2\"}", "model_type is \"olmo2\"; it must be"},
        {"llama", "{\"model_type\":\"smollm3\"}", "model_type is \"smollm3\"; it must be"},
        {"llama", "{\"model_type\":\"gpt_neox\"}", "model_type is \"gpt_neox\"; it must be"},
        {"llama", "{\"model_type\":\"qwen3_moe\"}", "model_type is \"qwen3_moe\"; it must be"},
        {"llama", LLAMA ",\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":4}}",
         "rope_type is \"yarn\"; it must be \"default\", \"linear\" or \"llama3\""},
        {"llama", LLAMA ",\"rope_scaling\":{\"rope_type\":\"dynamic\",\"factor\":4}}", "rope_type is \"dynamic\"; it"},
        {"llama", LLAMA ",\"rope_scaling\":{\"type\":\"longrope\"}}", "type is \"longrope\"; it must be"},
        {"llama", LLAMA ",\"rope_scaling\":{\"type\":\"linear\"}}", "factor is 0; with this rope_type it must be"},
        {"llama", LLAMA ",\"rope_scaling\":{\"type\":\"llama3\",\"factor\":2}}", "low_freq_factor is 0 and high_freq"},
        {"llama", LLAMA ",\"rope_scaling\":{\"beta_fast\":32}}",
         "beta_fast is 32; this setting is not known for llama, and may change the numbers"},
        {"llama", LLAMA ",\"rope_theta\":1}", "rope_theta is 1; it must be above 1"},
        {"llama", LLAMA ",\"partial_rotary_factor\":0.5}", "partial_rotary_factor is 0.5; it must be 1.0 or 1"},
        {"llama", LLAMA ",\"hidden_act\":\"gelu\"}", "hidden_act is \"gelu\"; it must be \"silu\" or \"swish\""},
        {"llama", LLAMA ",\"attention_dropout\":0.1}", "attention_dropout is 0.1; it must be 0.0 or 0"},
        {"llama", LLAMA ",\"residual_multiplier\":0.2}", "residual_multiplier is 0.2; this setting is not known for"},
        {"llama", LLAMA ",\"quantization_config\":{\"bits\":4}}",
         "quantization_config is {\"bits\":4}; it must be null"},
        {"llama", LLAMA ",\"eos_token_id\":[1,2,3,4,5,6,7,8,9]}", "eos_token_id is a list of 9 ids or more"},
        {"llama", LLAMA ",\"eos_token_id\":1.5}", "eos_token_id is no id; it must be a whole number"},
        {"llama", LLAMA ",\"num_key_value_heads\":3}",
         "config.json': num_key_value_heads is 3; it must divide num_attention_heads, 4"},
        {"llama", LLAMA ",\"num_attention_heads\":3}",
         "config.json': num_attention_heads is 3; it must divide hidden_size, 16"},
        {"llama", LLAMA ",\"head_dim\":3}", "config.json': head_dim is 3; it must be even"},
        {"llama", LLAMA ",\"attention_bias\":true}", "has no tensor 'model.layers.0.self_attn.q_proj.bias'"},
        {"llama", LLAMA ",\"tie_word_embeddings\":false}", "has no tensor 'lm_head.weight', which this llama has"},
        {"llama", LLAMA ",\"num_hidden_layers\":2}", "'model.layers.2.input_layernorm.weight' is no tensor of this"},
        {"llama", LLAMA ",\"num_hidden_layers\":4}", "config.json' has 4 layers, but '"},
        {"llama", LLAMA ",\"layer_types\":[]}", "layer_types is []; this setting is not known for llama"},
        {"gemma3_text", GEMMA ",\"final_logit_softcapping\":30.0}", "final_logit_softcapping is 30.0; it must be null"},
        {"gemma3_text", GEMMA ",\"use_bidirectional_attention\":true}", "use_bidirectional_attention is true; it must"},
        {"gemma3_text", GEMMA ",\"query_pre_attn_scalar\":1000000001}",
         "query_pre_attn_scalar is 1000000001; it must be null, or from 1 to 1000000000"},
        {"gemma3_text", GEMMA ",\"layer_types\":[]}", "layer_types is an empty list; it must be one of all layers, or"},
        {"gemma3_text", GEMMA ",\"rope_local_base_freq\":0}", "rope_theta is 0; it must be above 1"},
        {"gemma3_text", GEMMA ",\"layer_types\":[\"full_attention\"]}", "layer_types has 1 layers; the model has 3"},
        {"gemma3_text", GEMMA ",\"layer_types\":[\"chunked_attention\"]}",
         "layer_types is \"chunked_attention\"; it must be \"full_attention\" or \"sliding_attention\""},
        {"gemma3_text",
         GEMMA ",\"sliding_window\":null,\"layer_types\":[\"sliding_attention\",\"full_attention\","
               "\"full_attention\"]}",
         "layer_types has sliding_attention, but no sliding_window is set"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (i == 0 || cases[i].family != cases[i - 1].family) {
            save_model(cases[i].family, TG_SAVE_FLOATS_KEEP);
        }
        write_text("config.json", cases[i].json);
        assert_refused(TG_ERROR_VALUE, cases[i].message);
    }
}

/* Tensors of another shape or dtype, and the types of more layers than repeat. */
static void test_refused_tensors(void **state)
{
    (void)state;
    tg_error error = TG_NO_ERROR;
    save_model("llama", TG_SAVE_FLOATS_KEEP);
    write_text("config.json", LLAMA ",\"vocab_size\":12}");
    assert_refused(TG_ERROR_SHAPE, "'model.embed_tokens.weight' is (11,16); in this llama it must be (12,16)");
    write_text("config.json", LLAMA ",\"num_key_value_heads\":4}");
    assert_refused(TG_ERROR_SHAPE,
                   "'model.layers.0.self_attn.k_proj.weight' is (8,16); in this llama it must be (16,16)");
    tg_tensor *ids = tensor_i32(TG_SHAPE(11, 16), (int32_t[176]){0}),
              *norm = tg_tensor_new(TG_F32, TG_SHAPE(16), &error);
    const tg_named_tensor tensors[] = {{.name = "model.embed_tokens.weight", .tensor = ids},
                                       {.name = "model.layers.2.input_layernorm.weight", .tensor = norm}};
    assert_true(tg_safetensors_save(in_folder("model.safetensors"), tensors, 2, &error));
    write_text("config.json", LLAMA "}");
    assert_refused(TG_ERROR_DTYPE, "'model.embed_tokens.weight' is I32; it must be F32, F16, BF16 or F64");
    tg_release(ids);
    tg_release(norm);

    /* 17 layers, of which the last alone has a window */
    tg_gpt_config c = config_of("qwen3");
    char json[2000] = "{\"model_type\":\"qwen3\",\"head_dim\":4,\"use_sliding_window\":true,\"sliding_window\":3," SIZES
                      ",\"num_hidden_layers\":18,\"layer_types\":[";
    for (int i = 0; i < 18; i++) {
        snprintf(json + strlen(json), sizeof json - strlen(json), "%s\"%s_attention\"", i ? "," : "",
                 i == 16 ? "sliding" : "full");
    }
    strcat(json, "]}");
    c.layers = 18;
    fixture f = made(&c, TG_F32);
    assert_true(tg_gpt_save(f.model, folder, NULL, &error));
    fixture_free(&f);
    write_text("config.json", json);
    assert_refused(TG_ERROR_VALUE, "the types of the layers do not repeat after 1 to 16 of them");
}

/* Biases that a family has and the model not are zeros; what no family has is refused. */
static void test_other_models(void **state)
{
    (void)state;
    tg_error error = TG_NO_ERROR;
    tg_gpt_config c = config_of("gpt2");
    c.qkv_bias = c.out_bias = false;
    c.feed_forward_bias = TG_NO_BIAS;
    fixture f = made(&c, TG_F32);
    double before[198], after[198];
    logits_of(&f, before);
    assert_true(tg_gpt_save(f.model, folder, NULL, &error));
    fixture g = opened(TG_F32, NULL);
    assert_true(tg_gpt_get_config(g.model)->out_bias);
    assert_int_equal(tg_gpt_get_config(g.model)->feed_forward_bias, TG_BIAS);
    logits_of(&g, after);
    assert_memory_equal(before, after, sizeof before);
    fixture_free(&f);
    fixture_free(&g);

    c = config_of("llama");
    c.embedding_scale = 2;
    f = made(&c, TG_F32);
    assert_false(tg_gpt_save(f.model, folder, NULL, &error));
    assert_error(&error, TG_ERROR_VALUE,
                 "gpt_save: no family of published models has such a model: no model of the type llama has this "
                 "embedding_scale; tg_params_save writes every model");
    fixture_free(&f);
}

/* A family whose own table renames a row of the shared settings, and takes another one away. */
static void test_own_rows_replace(void **state)
{
    (void)state;
    static const tg_setting rows[] = {
        {"rms_norm_eps", .kind = TG_SETTING_HARMLESS},
        {"norm_epsilon", TG_SETTING_NUMBER, .at = TG_SETTING_AT(eps)},
        {"tie_word_embeddings", .kind = TG_SETTING_HARMLESS},
        {"embedding_dropout", TG_SETTING_NUMBER, .at = TG_SETTING_AT(dropout[0])},
        {"attention_dropout", TG_SETTING_NUMBER, .at = TG_SETTING_AT(dropout[1])},
        {.kind = TG_SETTING_END},
    };
    tg_family newt = tg_llama_family;
    newt.more_settings = rows;
    tg_error error = TG_NO_ERROR;
    tg_settings s;
    char problem[TG_GPT_PROBLEM] = "";
    tg_gpt_config c = config_of("llama"), again;
    c.eps = 0.25;
    c.tied_head = false;
    fixture f = made(&c, TG_F32); /* which completes the config */
    c = *tg_gpt_get_config(f.model);
    fixture_free(&f);
    assert_true(tg_settings_from_config(&newt, &c, false, &s, problem));
    assert_true(s.eps == 0.25);
    assert_true(tg_config_json_write("test", in_folder("config.json"), &newt, &s, "float32", &error));
    char *json = config_json();
    assert_non_null(strstr(json, "\"norm_epsilon\": 0.25"));
    assert_null(strstr(json, "rms_norm_eps"));
    assert_null(strstr(json, "tie_word_embeddings"));
    tg_text_free(json);
    /* what no key says is refused */
    c.tied_head = true;
    assert_false(tg_settings_from_config(&newt, &c, false, &s, problem));
    assert_string_equal(problem, "no model of the type llama has this tied_head");
    /* an error has the keys of the family */
    s.dropout[1] = 0.5;
    assert_false(tg_settings_to_config(&newt, &s, &again, problem));
    assert_string_equal(problem, "embedding_dropout is 0, attention_dropout 0.5 and a dropout without a key 0; it must "
                                 "be one probability in [0,1), the same for all three");
}

/* The ids that end a text stay, unless others are given. */
static void test_end_tokens(void **state)
{
    (void)state;
    tg_error error = TG_NO_ERROR;
    int64_t count;
    save_model("llama", TG_SAVE_FLOATS_KEEP);
    write_text("config.json", LLAMA ",\"eos_token_id\":[3,4],\"bos_token_id\":1,\"pad_token_id\":-1}");
    fixture f = opened(TG_F32, NULL);
    const int32_t *ids = tg_gpt_end_tokens(f.model, &count);
    assert_true(count == 2 && ids[0] == 3 && ids[1] == 4);
    assert_true(tg_gpt_save(f.model, folder, NULL, &error));
    char *json = config_json();
    assert_non_null(strstr(json, "\"eos_token_id\": [3, 4]"));
    assert_non_null(strstr(json, "\"bos_token_id\": 1"));
    assert_non_null(strstr(json, "\"pad_token_id\": null"));
    tg_text_free(json);
    tg_gpt_save_config save = tg_gpt_save_config_default();
    save.end_token = 7;
    assert_true(tg_gpt_save(f.model, folder, &save, &error));
    json = config_json();
    assert_non_null(strstr(json, "\"eos_token_id\": 7"));
    assert_non_null(strstr(json, "\"bos_token_id\": 7"));
    tg_text_free(json);
    assert_null(tg_gpt_end_tokens(NULL, &count));
    assert_int_equal(count, 0);
    fixture_free(&f);
}

/* A model that was opened trains with spans if asked. */
static void test_opened_with_checkpointing(void **state)
{
    (void)state;
    save_model("llama", TG_SAVE_FLOATS_KEEP);
    for (int i = 0; i < 2; i++) {
        tg_gpt_open_config config = tg_gpt_open_config_default();
        config.activation_checkpointing = i == 1;
        fixture f = opened(TG_F32, &config);
        assert_non_null(f.model);
        assert_int_equal(tg_gpt_get_config(f.model)->activation_checkpointing, i == 1);
        fixture_free(&f);
    }
}

/* Matrices in BF16 stay so if asked, with the same numbers and without a gradient. */
static void test_kept_bf16(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) { /* tied and not */
        double logits[2][198];
        save_model(k ? "qwen3" : "llama", TG_SAVE_FLOATS_BF16);
        for (int keeps = 0; keeps < 2; keeps++) {
            tg_gpt_open_config config = tg_gpt_open_config_default();
            config.keep_bf16 = keeps;
            fixture f = opened(TG_F32, &config);
            assert_string_equal(tg_params_error(f.params)->text, "");
            const tg_tensor *table = tg_params_find(f.params, "tok_emb.weight");
            const tg_tensor *up = tg_params_find(f.params, "trf_blocks.1.ff.fc2.weight");
            assert_int_equal(tg_tensor_dtype(table), keeps ? TG_BF16 : TG_F32);
            assert_int_equal(tg_tensor_dtype(up), keeps ? TG_BF16 : TG_F32);
            assert_int_equal(tg_tensor_requires_grad(up), !keeps);
            assert_int_equal(tg_tensor_dtype(tg_params_find(f.params, "final_norm.scale")), TG_F32);
            logits_of(&f, logits[keeps]);
            if (keeps) {
                tg_error error = TG_NO_ERROR;
                assert_true(tg_gpt_save(f.model, folder, NULL, &error));
                char *json = config_json();
                assert_non_null(strstr(json, "\"dtype\": \"bfloat16\""));
                tg_text_free(json);
            }
            fixture_free(&f);
        }
        for (int i = 0; i < 198; i++) {
            assert_float_equal(logits[0][i], logits[1][i], 1e-5);
        }
    }
}

/* Texts that are packed into one row have the logits of each alone; padding before a text changes nothing. */
static void test_packed_texts(void **state)
{
    (void)state;
    for (size_t i = 0; i < FAMILIES; i++) {
        tg_gpt_config c = config_of(families[i]);
        fixture f = made(&c, TG_F64);
        tg_tape *t = tg_tape_new(f.run, NULL);
        tg_tape_set_training(t, false);
        tg_tensor *alone[2] = {tensor_i32(TG_SHAPE(1, 4), (int32_t[]){3, 1, 4, 1}),
                               tensor_i32(TG_SHAPE(1, 5), (int32_t[]){5, 9, 2, 6, 5})};
        tg_tensor *packed = tensor_i32(TG_SHAPE(1, 9), (int32_t[]){3, 1, 4, 1, 5, 9, 2, 6, 5});
        tg_tensor *positions = tensor_i32(TG_SHAPE(1, 9), (int32_t[]){0, 1, 2, 3, 0, 1, 2, 3, 4});
        tg_tensor *first_keys = tensor_i32(TG_SHAPE(1, 9), (int32_t[]){0, 0, 0, 0, 4, 4, 4, 4, 4});
        tg_tensor *targets = tensor_i32(TG_SHAPE(1, 9), (int32_t[]){1, 4, 1, -100, 9, 2, 6, 5, -100});
        tg_tensor *goals[2] = {tensor_i32(TG_SHAPE(1, 4), (int32_t[]){1, 4, 1, -100}),
                               tensor_i32(TG_SHAPE(1, 5), (int32_t[]){9, 2, 6, 5, -100})};
        tg_gpt_forward_config config = tg_gpt_forward_config_default();
        config.positions = positions;
        config.first_keys = first_keys;
        tg_tensor *all = tg_gpt_forward(t, f.model, packed, &config);
        double sum = 0;
        for (int k = 0, at = 0; k < 2; k++) {
            tg_tensor *one = tg_gpt_forward(t, f.model, alone[k], NULL);
            for (int64_t j = 0; j < tg_tensor_count(one); j++, at++) {
                assert_true(fabs(tg_tensor_value_at(all, at) - tg_tensor_value_at(one, j)) < 1e-10);
            }
            sum += (k ? 4 : 3) * tg_tensor_item(tg_gpt_loss(t, f.model, alone[k], goals[k], NULL), NULL);
        }
        double loss = tg_tensor_item(tg_gpt_loss(t, f.model, packed, targets, &config), NULL);
        assert_string_equal(tg_tape_error(t)->text, "");
        assert_true(fabs(loss - sum / 7) < 1e-10);
        tg_release(alone[0]);
        tg_release(alone[1]);
        tg_release(goals[0]);
        tg_release(goals[1]);
        tg_release(packed);
        tg_release(positions);
        tg_release(first_keys);
        tg_release(targets);
        tg_tape_free(t);
        fixture_free(&f);
    }
}

static void test_refused_positions(void **state)
{
    (void)state;
    tg_gpt_config c = config_of("llama");
    fixture f = made(&c, TG_F32);
    tg_tape *t = tg_tape_new(f.run, NULL);
    tg_tensor *ids = tensor_i32(TG_SHAPE(1, 3), (int32_t[]){1, 2, 3});
    static const int32_t wrong[] = {0, 9, 1};
    tg_tensor *beyond = tensor_i32(TG_SHAPE(1, 3), wrong), *flat = tensor_i32(TG_SHAPE(3), wrong);
    tg_gpt_forward_config config = tg_gpt_forward_config_default();
    config.positions = beyond;
    assert_null(tg_gpt_forward(t, f.model, ids, &config));
    assert_tape_error(t, TG_ERROR_RANGE, "gpt_forward: position 9 at [0,1] is outside of the context, [0,9)");
    config.positions = flat;
    assert_null(tg_gpt_loss(t, f.model, ids, ids, &config));
    assert_tape_error(t, TG_ERROR_SHAPE, "gpt_forward: the positions are i32 (3,); they must be i32 in the shape of");
    config.positions = NULL;
    config.cache = tg_gpt_new_cache(f.model, 1, 9);
    assert_null(tg_gpt_loss(t, f.model, ids, ids, &config));
    assert_tape_error(t, TG_ERROR_STATE, "gpt_loss: a cache is given; it must be NULL");
    tg_kv_cache_free(config.cache);
    assert_null(tg_gpt_new_cache(f.model, 0, 9));
    assert_params_error(f.params, TG_ERROR_VALUE, "kv_cache_new: batch 0");
    tg_release(ids);
    tg_release(beyond);
    tg_release(flat);
    tg_tape_free(t);
    fixture_free(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_saved_and_opened),    cmocka_unit_test(test_forms_of_keys),
        cmocka_unit_test(test_settings_that_count), cmocka_unit_test(test_refused_settings),
        cmocka_unit_test(test_refused_tensors),     cmocka_unit_test(test_other_models),
        cmocka_unit_test(test_own_rows_replace),    cmocka_unit_test(test_end_tokens),
        cmocka_unit_test(test_kept_bf16),           cmocka_unit_test(test_opened_with_checkpointing),
        cmocka_unit_test(test_packed_texts),        cmocka_unit_test(test_refused_positions),
    };
    return cmocka_run_group_tests(tests, folder_begin, folder_end);
}
