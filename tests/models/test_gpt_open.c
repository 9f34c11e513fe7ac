/* tg_gpt_open and tg_gpt_save: models that transformers has written (tests/goldens/make_hugging_face.py) have its
 * logits; a folder that was saved is opened again; and a config.json of what a tg_gpt cannot be is refused. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "folder.h"
#include "support.h"

static const char *golden(const char *name)
{
    static char text[4096];
    snprintf(text, sizeof text, "%s/hugging_face/%s", TG_TEST_GOLDENS, name);
    return text;
}

/* Copies model.safetensors of a golden to the folder. */
static void copy_model(const char *name)
{
    char path[300];
    size_t length;
    snprintf(path, sizeof path, "%s/model.safetensors", name);
    char *bytes = tg_text_read(golden(path), &length, NULL);
    assert_non_null(bytes);
    write_bytes("model.safetensors", bytes, length);
    tg_text_free(bytes);
}

/* Compares the logits with those of transformers. */
static void assert_logits(tg_run *run, const tg_gpt *model, const char *name)
{
    char path[300];
    snprintf(path, sizeof path, "%s/logits.npy", name);
    tg_tape *t = tg_tape_new(run, NULL);
    tg_tape_set_training(t, false);
    tg_tensor *ids = tg_tensor_new_from_npy(golden("ids.npy"), NULL);
    tg_tensor *expected = tg_tensor_new_from_npy(golden(path), NULL);
    tg_tensor *logits = tg_gpt_forward(t, model, ids, NULL);
    assert_string_equal(tg_tape_error(t)->text, "");
    for (int64_t i = 0; i < tg_tensor_count(expected); i++) {
        assert_float_equal(tg_tensor_value_at(logits, i), tg_tensor_value_at(expected, i), 2e-5);
    }
    tg_release(ids);
    tg_release(expected);
    tg_tape_free(t);
}

static void test_models_of_transformers(void **state)
{
    (void)state;
    static const char *const names[] = {"tied", "published", "sharded"};
    for (size_t i = 0; i < 6; i++) {
        tg_run *run = tg_run_new(1);
        tg_params *params = tg_params_new(run, i < 3 ? TG_F32 : TG_F64);
        tg_gpt_open_config config = tg_gpt_open_config_default();
        config.heads = 4;
        tg_gpt *model = tg_gpt_open(params, golden(names[i % 3]), &config);
        assert_string_equal(tg_params_error(params)->text, "");
        assert_int_equal(tg_rng_position(tg_run_rng(run)), 0);
        const tg_gpt_config *c = tg_gpt_get_config(model);
        assert_true(c->vocabulary == 31 && c->context == 12 && c->width == 16 && c->layers == 2 && c->heads == 4);
        assert_true(c->qkv_bias && c->tied_head == (i % 3 < 2) && c->dropout == 0.1);
        assert_logits(run, model, names[i % 3]);
        tg_gpt_free(model);
        tg_params_free(params);
        tg_run_free(run);
    }
}

/* The heads and the dropout of a folder are read, and what was saved is opened with the same values. */
static void test_saved_model(void **state)
{
    (void)state;
    tg_error error = TG_NO_ERROR;
    tg_run *run = tg_run_new(1);
    for (int k = 0; k < 4; k++) {
        tg_params *params = tg_params_new(run, TG_F32), *again = tg_params_new(run, TG_F32);
        tg_gpt_config config = tg_gpt_config_default();
        config.vocabulary = 9;
        config.context = 5;
        config.width = 12;
        config.heads = 3;
        config.layers = 2;
        config.dropout = 0.25;
        config.tied_head = k % 2;
        config.qkv_bias = k / 2;
        tg_gpt *model = tg_gpt_new(params, &config);
        assert_true(tg_gpt_save(model, folder, NULL, &error));
        tg_gpt *opened = tg_gpt_open(again, folder, NULL);
        assert_string_equal(tg_params_error(again)->text, "");
        const tg_gpt_config *c = tg_gpt_get_config(opened);
        assert_true(c->heads == 3 && c->dropout == 0.25 && c->tied_head == (k % 2) && c->qkv_bias);
        for (int64_t i = 0; i < tg_params_count(again); i++) {
            tg_entry entry = tg_params_at(again, i);
            const tg_tensor *from = tg_params_find(params, entry.name);
            for (int64_t j = 0; j < tg_tensor_count(entry.tensor); j++) {
                assert_true(tg_tensor_value_at(entry.tensor, j) == (from ? tg_tensor_value_at(from, j) : 0));
            }
        }
        tg_gpt_free(opened);
        tg_gpt_free(model);
        tg_params_free(again);
        tg_params_free(params);
    }
    tg_run_free(run);
}

/* Compares what a summary says with the model that is opened, and returns it. */
static tg_gpt_summary assert_summary(const char *path, const tg_gpt_open_config *config, const char *family)
{
    tg_error error = TG_NO_ERROR;
    tg_gpt_summary s;
    assert_true(tg_gpt_read_summary(path, &s, config, &error));
    assert_string_equal(s.family, family);
    tg_run *run = tg_run_new(1);
    tg_params *params = tg_params_new(run, TG_F32);
    tg_gpt *model = tg_gpt_open(params, path, config);
    assert_string_equal(tg_params_error(params)->text, "");
    const tg_gpt_config *c = tg_gpt_get_config(model);
    assert_true(s.config.vocabulary == c->vocabulary && s.config.context == c->context && s.config.width == c->width &&
                s.config.layers == c->layers && s.config.heads == c->heads && s.config.key_heads == c->key_heads &&
                s.config.hidden == c->hidden && s.config.tied_head == c->tied_head &&
                s.config.activation_checkpointing == c->activation_checkpointing);
    int64_t bytes = 0;
    for (int64_t i = 0; i < tg_params_count(params); i++) {
        tg_entry entry = tg_params_at(params, i);
        bytes += entry.kind == TG_ENTRY_ALIAS
                     ? 0
                     : tg_tensor_count(entry.tensor) * (int64_t)tg_dtype_size(tg_tensor_dtype(entry.tensor));
    }
    assert_int_equal(s.values, tg_params_value_count(params));
    assert_int_equal(s.bytes, bytes);
    tg_gpt_free(model);
    tg_params_free(params);
    tg_run_free(run);
    return s;
}

static void test_summary(void **state)
{
    (void)state;
    static const char *const names[] = {"tied", "published", "sharded"};
    tg_error error = TG_NO_ERROR;
    tg_gpt_open_config open = tg_gpt_open_config_default();
    open.heads = 4;
    for (int i = 0; i < 3; i++) {
        assert_summary(golden(names[i]), &open, "gpt2");
    }
    /* matrices in bf16, and norms that are converted */
    tg_run *run = tg_run_new(1);
    tg_params *params = tg_params_new(run, TG_F32);
    tg_gpt_config config = tg_gpt_config_default();
    config.vocabulary = 9;
    config.context = 5;
    config.width = 12;
    config.heads = 3;
    config.key_heads = 1;
    config.layers = 2;
    config.norm = TG_NORM_RMS;
    config.query_key_norm = true;
    config.position = TG_POSITION_ROTARY;
    config.feed_forward = TG_FEED_FORWARD_SWIGLU;
    config.out_bias = false;
    tg_gpt *model = tg_gpt_new(params, &config);
    tg_gpt_save_config save = tg_gpt_save_config_default();
    save.floats = TG_SAVE_FLOATS_BF16;
    assert_true(tg_gpt_save(model, folder, &save, &error));
    open = tg_gpt_open_config_default();
    for (int way = 0; way < 4; way++) {
        open.keep_bf16 = way % 2;
        open.activation_checkpointing = way / 2;
        tg_gpt_summary s = assert_summary(folder, &open, "qwen3");
        assert_int_equal(s.bytes, way % 2 ? 2 * s.values + 2 * (12 + 2 * (2 * 12 + 2 * 4)) : 4 * s.values);
    }
    /* nothing is written after an error, and the errors are those of tg_gpt_open */
    tg_gpt_summary s = {.values = -7};
    open.heads = 4;
    assert_false(tg_gpt_read_summary(folder, &s, &open, &error));
    assert_error(&error, TG_ERROR_VALUE, "has 3 heads; heads 4 were given");
    tg_error_clear(&error);
    assert_false(tg_gpt_read_summary("nowhere", &s, NULL, &error));
    assert_error(&error, TG_ERROR_FILE, "gpt_read_summary: open 'nowhere");
    tg_error_clear(&error);
    assert_false(tg_gpt_read_summary(folder, NULL, NULL, &error));
    assert_error(&error, TG_ERROR_STATE, "gpt_read_summary: the summary is NULL");
    tg_error_clear(&error);
    assert_false(tg_gpt_read_summary(NULL, &s, NULL, &error));
    assert_error(&error, TG_ERROR_STATE, "gpt_read_summary: the path is NULL");
    assert_true(s.values == -7);
    tg_gpt_free(model);
    tg_params_free(params);
    tg_run_free(run);
}

/* Opens the folder, which fails with this text; nothing is added or drawn. */
static void assert_refused(tg_code code, const char *part)
{
    tg_run *run = tg_run_new(1);
    tg_params *params = tg_params_new(run, TG_F32);
    tg_params_add(params, "own", TG_SHAPE(2));
    assert_null(tg_gpt_open(params, folder, NULL));
    assert_params_error(params, code, part);
    assert_int_equal(tg_params_count(params), 1);
    assert_int_equal(tg_rng_position(tg_run_rng(run)), 0);
    tg_params_free(params);
    tg_run_free(run);
}

/* The settings of the golden, and one more. */
#define CONFIG(setting) "{\"n_head\":4,\"vocab_size\":31,\"n_positions\":12,\"n_embd\":16,\"n_layer\":2" setting "}"

static void test_other_configs(void **state)
{
    (void)state;
    static const struct {
        const char *json, *message;
    } cases[] = {
        {CONFIG(",\"model_type\":\"gpt_neo\""), "model_type is \"gpt_neo\"; it must be \"gpt2\", \"llama\", "
                                                "\"mistral\", \"qwen2\", \"qwen3\", \"gemma3_text\""},
        {CONFIG(",\"architectures\":[\"GPT2ForSequenceClassification\"],\"model_type\":\"gpt2\""),
         "architectures is \"GPT2ForSequenceClassification\"; it must be \"GPT2LMHeadModel\" or \"GPT2Model\""},
        {CONFIG(",\"architectures\":[\"BertModel\"]"), "architectures is \"BertModel\"; it must be"},
        {CONFIG(",\"activation_function\":\"relu\""),
         "activation_function is \"relu\"; it must be \"gelu_new\" or \"gelu_pytorch_tanh\""},
        {CONFIG(",\"activation_function\":\"gelu\""), "activation_function is \"gelu\"; it must be"},
        {CONFIG(",\"layer_norm_epsilon\":0"), "config.json': layer_norm_epsilon is 0; it must be above 0"},
        {CONFIG(",\"layer_norm_epsilon\":1e999"), "layer_norm_epsilon is infinite; it must be a finite number"},
        {CONFIG(",\"scale_attn_weights\":false"), "scale_attn_weights is false; it must be true"},
        {CONFIG(",\"scale_attn_by_inverse_layer_idx\":true"), "scale_attn_by_inverse_layer_idx is true; it must be"},
        {CONFIG(",\"add_cross_attention\":true"), "add_cross_attention is true; it must be false"},
        {CONFIG(",\"quantization_config\":{\"bits\":4}"), "quantization_config is {\"bits\":4}; it must be null"},
        {CONFIG(",\"attn_pdrop\":0"), "embd_pdrop is 0.1, attn_pdrop 0 and resid_pdrop 0.1; it must be one"},
        {CONFIG(",\"attn_pdrop\":1,\"embd_pdrop\":1,\"resid_pdrop\":1"),
         "embd_pdrop is 1; it must be at least 0 and below 1"},
        {CONFIG(",\"tie_word_embeddings\":false"), "model.safetensors' has no tensor 'lm_head.weight'"},
        {CONFIG(",\"n_layer\":3"), "config.json' has 3 layers, but '"},
        {CONFIG(",\"n_layer\":1"), "'transformer.h.1.attn.c_attn.bias' is no tensor of this gpt2"},
        {CONFIG(",\"n_layer\":1000000"), "config.json': n_layer is 1000000; it must be from 1 to 1000"},
        {CONFIG(",\"n_head\":6"), "n_head is 6; it must divide n_embd, 16"},
        {CONFIG(",\"n_head\":0"), "n_head is 0; it must be from 1 to"},
        {CONFIG(",\"n_embd\":0"), "n_embd is 0; it must be from 1 to"},
        {CONFIG(",\"vocab_size\":2147483648"), "vocab_size is 2147483648; it must be from 1 to 2147483647"},
        {CONFIG(",\"n_positions\":0"), "n_positions is 0; it must be from 1 to 9223372036854775807"},
        {CONFIG(",\"rescale\":[1, 2]"), "rescale is [1, 2]; this setting is not known for gpt2, and may change"},
    };
    copy_model("tied");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_text("config.json", cases[i].json);
        assert_refused(TG_ERROR_VALUE, cases[i].message);
    }
}

/* Tensors that do not have the sizes of config.json. */
static void test_other_sizes(void **state)
{
    (void)state;
    static const struct {
        const char *json, *message;
    } cases[] = {
        {CONFIG(",\"vocab_size\":32"), "'transformer.wte.weight' is (31,16); in this gpt2 it must be (32,16)"},
        {CONFIG(",\"n_positions\":1024"), "'transformer.wpe.weight' is (12,16); in this gpt2 it must be (1024,16)"},
        {CONFIG(",\"n_inner\":32"), "'transformer.h.0.mlp.c_fc.weight' is (16,64); in this gpt2 it must be (16,32)"},
        {CONFIG(",\"n_inner\":9223372036854775807"), "it must be (16,9223372036854775807)"},
        /* the sizes of GPT2Config */
        {"{}", "has 12 layers, but"},
    };
    copy_model("tied");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_text("config.json", cases[i].json);
        assert_refused(i < 4 ? TG_ERROR_SHAPE : TG_ERROR_VALUE, cases[i].message);
    }
}

/* An index whose files are not those of the model, and which disagree with it. */
static void test_refused_indexes(void **state)
{
    (void)state;
    static const struct {
        tg_code code;
        const char *json, *message;
    } cases[] = {
        {TG_ERROR_SHAPE, "{\"weight_map\":{\"transformer.wte.weight\":\"model.safetensors\"}}",
         "/model.safetensors': 'transformer.wte.weight' is (31,16); in this gpt2 it must be (32,16)"},
        {TG_ERROR_FORMAT, "{\"weight_map\":{\"lm_head.weight\":\"model.safetensors\"}}",
         "index.json', byte 15: 'lm_head.weight' is not in '"},
        {TG_ERROR_FORMAT, "{\"weight_map\":{\"lm_head.weight\":\"../model.safetensors\"}}",
         "'../model.safetensors' is not the name of a file in the same folder"},
        {TG_ERROR_FORMAT, "{\"weight_map\":[]}", "expected '{', found '['"},
        {TG_ERROR_FORMAT, "{}", "index.json', byte 0: the index has no 'weight_map'"},
        {TG_ERROR_FILE, "{\"weight_map\":{\"lm_head.weight\":\"other.safetensors\"}}", "/other.safetensors'"},
    };
    copy_model("tied");
    write_text("config.json", CONFIG(",\"vocab_size\":32"));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_text("model.safetensors.index.json", cases[i].json);
        assert_refused(cases[i].code, cases[i].message);
    }
    assert_int_equal(remove(in_folder("model.safetensors.index.json")), 0);
}

static void test_accepted_configs(void **state)
{
    (void)state;
    static const char *const cases[] = {
        CONFIG(""),
        CONFIG(",\"n_inner\":null,\"activation_function\":\"gelu_pytorch_tanh\",\"model_type\":\"gpt2\""),
        CONFIG(",\"n_inner\":64,\"layer_norm_epsilon\":0.00001,\"task_specific_params\":{\"a\":[1,null]},\"use_cache\":"
               "true,"
               "\"unknown\":null,\"n_ctx\":12,\"bos_token_id\":-1,\"eos_token_id\":[1,2]"),
        "\t" CONFIG(",\"scale_attn_weights\":true,\"add_cross_attention\":false,\"n_head\":4") "\n",
    };
    copy_model("tied");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tg_run *run = tg_run_new(1);
        tg_params *params = tg_params_new(run, TG_F32);
        write_text("config.json", cases[i]);
        tg_gpt *model = tg_gpt_open(params, folder, NULL);
        assert_string_equal(tg_params_error(params)->text, "");
        assert_logits(run, model, "tied");
        tg_gpt_free(model);
        tg_params_free(params);
        tg_run_free(run);
    }
}

/* Files like those of a stranger. Each beginning of a config.json is refused, too. */
static void test_hostile_configs(void **state)
{
    (void)state;
    static const struct {
        const char *json, *message;
    } cases[] = {
        {"[]", "byte 0: expected '{', found '['"},
        {CONFIG(",\"n_head\":\"4\""), "expected a whole number, found '\"'"},
        {CONFIG(",\"n_head\":-4"), "expected a whole number, found '-'"},
        {CONFIG(",\"n_head\":9223372036854775808"), "the number is larger than 2^63 - 1"},
        {CONFIG(",\"layer_norm_epsilon\":\"1e-5\""), "expected a number, found '\"'"},
        {CONFIG(",\"layer_norm_epsilon\":1e"), "expected a digit"},
        {CONFIG(",\"attn_pdrop\":0.0000000000000000000000000000000000000000000000000000000000000000001"),
         "a number of 69 characters; it must have at most 60"},
        {CONFIG(",\"tie_word_embeddings\":1"), "expected true or false, found '1'"},
        {CONFIG(",\"model_type\":null"), "expected '\"', found 'n'"},
        {CONFIG("") "x", "expected the end, found 'x'"},
        {CONFIG(",\"a\xff\":1"), "byte 0xff is not UTF-8"},
        {CONFIG(",\"a\\u0000\":1"), "a string contains a NUL"},
    };
    copy_model("tied");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_text("config.json", cases[i].json);
        assert_refused(TG_ERROR_FORMAT, cases[i].message);
    }
    static const char whole[] = CONFIG(",\"model_type\":\"gpt2\",\"n_inner\":null,\"tie_word_embeddings\":true");
    for (size_t length = 0; length < sizeof whole - 1; length++) {
        write_bytes("config.json", whole, length);
        assert_refused(TG_ERROR_FORMAT, "config.json', byte ");
    }
    char *deep = malloc(100000);
    memset(deep, '[', 100000);
    memcpy(deep, "{\"a\":", 5);
    write_bytes("config.json", deep, 100000);
    assert_refused(TG_ERROR_FORMAT, "objects and arrays inside of each other");
    free(deep);
}

/* A head that is tied may be in the file, if it is the token table. */
static void test_tied_head_in_the_file(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        copy_model("tied");
        tg_error error = TG_NO_ERROR;
        const char *path = in_folder("model.safetensors");
        tg_safetensors_list *list = tg_safetensors_list_new(path, &error);
        tg_named_tensor all[64];
        for (int64_t i = 0; i < list->count; i++) {
            all[i] = (tg_named_tensor){.name = list->items[i].name};
            all[i].tensor = tg_tensor_new_from_safetensors(path, list->items[i].name, &error);
        }
        tg_tensor *head = tg_tensor_new_from_safetensors(path, "transformer.wte.weight", &error);
        if (k == 1) {
            ((float *)tg_tensor_data(head))[tg_tensor_count(head) - 1] += 1;
        }
        all[list->count] = (tg_named_tensor){.name = "lm_head.weight", .tensor = head};
        assert_true(tg_safetensors_save(path, all, list->count + 1, &error));
        for (int64_t i = 0; i <= list->count; i++) {
            tg_release((tg_tensor *)all[i].tensor);
        }
        tg_safetensors_list_free(list);
        write_text("config.json", CONFIG(""));
        if (k == 1) {
            assert_refused(TG_ERROR_VALUE, "tie_word_embeddings is true; the tensors 'lm_head.weight' and "
                                           "'transformer.wte.weight' differ");
            continue;
        }
        tg_run *run = tg_run_new(1);
        tg_params *params = tg_params_new(run, TG_F32);
        tg_gpt *model = tg_gpt_open(params, folder, NULL);
        assert_string_equal(tg_params_error(params)->text, "");
        assert_true(tg_gpt_get_config(model)->tied_head);
        assert_logits(run, model, "tied");
        tg_gpt_free(model);
        tg_params_free(params);
        tg_run_free(run);
    }
}

static void test_bad_arguments(void **state)
{
    (void)state;
    tg_error error = TG_NO_ERROR;
    tg_run *run = tg_run_new(1);
    tg_params *params = tg_params_new(run, TG_F32);
    tg_gpt_open_config config = tg_gpt_open_config_default();
    config.names = (tg_gpt_names)2;
    assert_null(tg_gpt_open(params, folder, &config));
    assert_params_error(params, TG_ERROR_VALUE, "gpt_open: names 2; they must be a tg_gpt_names");
    config = tg_gpt_open_config_default();
    config.heads = 0;
    assert_null(tg_gpt_open(params, folder, &config));
    assert_params_error(params, TG_ERROR_VALUE, "gpt_open: heads 0; they must be at least 1, or TG_HEADS_OF_FILE");
    assert_null(tg_gpt_open(params, "nowhere", NULL));
    assert_params_error(params, TG_ERROR_FILE, "open 'nowhere'");

    tg_gpt_config rotary = tg_gpt_config_default();
    rotary.vocabulary = rotary.context = rotary.width = 4;
    rotary.heads = rotary.layers = 1;
    tg_gpt *model = tg_gpt_new(params, &rotary);
    tg_gpt_save_config save = tg_gpt_save_config_default();
    save.end_token = 4;
    assert_false(tg_gpt_save(model, folder, &save, &error));
    assert_error(&error, TG_ERROR_RANGE, "gpt_save: end_token 4 is outside [-1,4)");
    assert_false(tg_gpt_save(model, "nowhere", NULL, &error));
    assert_error(&error, TG_ERROR_FILE, "'nowhere/model.safetensors");
    tg_gpt_free(model);
    tg_params_free(params);
    params = tg_params_new(run, TG_F32);
    rotary.position = TG_POSITION_ROTARY;
    model = tg_gpt_new(params, &rotary);
    assert_false(tg_gpt_save(model, folder, NULL, &error));
    assert_error(&error, TG_ERROR_VALUE,
                 "gpt_save: no family of published models has such a model: no model of the type "
                 "gpt2 has this position; tg_params_save writes every model");
    tg_gpt_free(model);
    tg_params_free(params);
    tg_run_free(run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_models_of_transformers),
        cmocka_unit_test(test_saved_model),
        cmocka_unit_test(test_summary),
        cmocka_unit_test(test_other_configs),
        cmocka_unit_test(test_accepted_configs),
        cmocka_unit_test(test_hostile_configs),
        cmocka_unit_test(test_tied_head_in_the_file),
        cmocka_unit_test(test_other_sizes),
        cmocka_unit_test(test_refused_indexes),
        cmocka_unit_test(test_bad_arguments),
    };
    return cmocka_run_group_tests(tests, folder_begin, folder_end);
}
