/* Every config of the library: zeroed, filled in without its default function, with one field alone, and made for
 * another call. Each call refuses it with VALUE, names the default function, and changes nothing. The same for configs
 * inside of other configs. Compiled as C and as C++ (test_configs_cpp.cpp). tests/lint/api fails if a config is missing
 * here.
 */
#include <stdio.h>
#include <string.h>

#include "support.h"

typedef struct world {
    tg_run *run;
    tg_tape *tape;
    tg_params *params;
    tg_tensor *x, *ids, *table;
    tg_nn_multihead_attention attention;
    tg_nn_transformer_decoder_layer decoder_layer;
    tg_gpt *gpt;
    tg_error error; /* of the last call */
} world;

static const int64_t sizes[] = {4, 4};

static void keep(world *w, const tg_error *error)
{
    w->error = *error;
}

static void keep_tape(world *w)
{
    keep(w, tg_tape_error(w->tape));
    clear_tape_error(w->tape);
}

static void keep_params(world *w)
{
    keep(w, tg_params_error(w->params));
    clear_params_error(w->params);
}

/* ---- one call per config, which keeps its error ---- */

#define USE(name) static void use_##name(world *w, const void *config)
#define GIVEN(name) ((const tg_##name##_config *)config)

#define USE_METHOD(name)                                        \
    USE(name)                                                   \
    {                                                           \
        tg_optim_free(tg_##name##_new(w->params, GIVEN(name))); \
        keep_params(w);                                         \
    }

USE_METHOD(sgd)
USE_METHOD(adam)
USE_METHOD(adamw)
USE_METHOD(sparse_adam)
USE_METHOD(adagrad)
USE_METHOD(rmsprop)
USE_METHOD(lion)
USE_METHOD(muon)

/* Each module is made in params of its own, so that a config that is valid adds nothing to those of the world. */
#define USE_MODULE(name, ...)                                                \
    USE(name)                                                                \
    {                                                                        \
        tg_params *params = tg_params_new(w->run, TG_F32);                   \
        tg_##name made = tg_##name##_make(params, __VA_ARGS__, GIVEN(name)); \
        keep(w, tg_params_error(params));                                    \
        assert_int_equal(made.module.is_made, w->error.code == TG_OK);       \
        assert_true(w->error.code == TG_OK || tg_params_count(params) == 0); \
        tg_params_free(params);                                              \
    }

USE_MODULE(nn_embedding, "new", 4, 4)
USE_MODULE(nn_embedding_bag, "new", 4, 4)
USE_MODULE(nn_conv1d, "new", 4, 4, 2)
USE_MODULE(nn_layer_norm, "new", 4)
USE_MODULE(nn_batch_norm, "new", 4)
USE_MODULE(nn_rms_norm, "new", 4)
USE_MODULE(nn_feed_forward, "new", 4, 8, TG_FEED_FORWARD_SWIGLU)
USE_MODULE(nn_positional, "new", TG_POSITION_ROTARY, 4, 4)
USE_MODULE(nn_multihead_attention, "new", 4, 4, 2)
USE_MODULE(nn_transformer_block, "new", 4, 2)

USE(kv_cache)
{
    tg_error_clear(&w->error);
    tg_kv_cache_free(tg_kv_cache_new(TG_F32, 2, 1, 2, 4, 4, GIVEN(kv_cache), &w->error));
}

USE(tape)
{
    tg_tape *tape = tg_tape_new(w->run, GIVEN(tape));
    keep(w, tg_tape_error(tape));
    tg_tape_free(tape);
}

USE(graph)
{
    tg_graph_free(tg_graph_new(w->tape, GIVEN(graph)));
    keep_tape(w);
}

USE(backward)
{
    tg_backward(w->tape, tg_sum(w->tape, w->x, TG_ALL_AXES, TG_DROP_AXES), GIVEN(backward));
    keep_tape(w);
}

USE(grad)
{
    tg_tensor *y = tg_sum(w->tape, w->x, TG_ALL_AXES, TG_DROP_AXES), *gradient;
    tg_grad(w->tape, &y, 1, &w->x, 1, &gradient, GIVEN(grad));
    keep_tape(w);
}

static tg_tensor *sum_of_squares(tg_tape *tape, void *context)
{
    tg_tensor *x = (tg_tensor *)context;
    return tg_sum(tape, tg_mul(tape, x, x), TG_ALL_AXES, TG_DROP_AXES);
}

USE(hvp)
{
    tg_tensor *product;
    tg_hvp(w->tape, sum_of_squares, w->x, &w->x, 1, &w->x, &product, GIVEN(hvp));
    keep_tape(w);
}

USE(tensor_print)
{
    FILE *file = tmpfile();
    tg_error_clear(&w->error);
    tg_tensor_print(w->x, file, GIVEN(tensor_print), &w->error);
    assert_true((ftell(file) == 0) == (w->error.code != TG_OK));
    fclose(file);
}

USE(embedding)
{
    tg_embedding(w->tape, w->ids, w->table, GIVEN(embedding));
    keep_tape(w);
}

USE(embedding_bag)
{
    tg_embedding_bag(w->tape, w->ids, w->table, GIVEN(embedding_bag));
    keep_tape(w);
}

USE(scaled_dot_product_attention)
{
    tg_scaled_dot_product_attention(w->tape, w->x, w->x, w->x, GIVEN(scaled_dot_product_attention));
    keep_tape(w);
}

USE(rotary)
{
    tg_rotary(w->tape, w->x, 0, GIVEN(rotary));
    keep_tape(w);
}

USE(cross_entropy)
{
    tg_cross_entropy(w->tape, w->x, w->ids, GIVEN(cross_entropy));
    keep_tape(w);
}

USE(nll_loss)
{
    tg_nll_loss(w->tape, w->x, w->ids, GIVEN(cross_entropy));
    keep_tape(w);
}

/* Losses of two or three tensors. */
#define USE_LOSS(name, ...)                           \
    USE(name)                                         \
    {                                                 \
        tg_##name(w->tape, __VA_ARGS__, GIVEN(name)); \
        keep_tape(w);                                 \
    }

USE_LOSS(smooth_l1_loss, w->x, w->x)
USE_LOSS(huber_loss, w->x, w->x)
USE_LOSS(kl_div, w->x, w->x)
USE_LOSS(hinge_embedding_loss, w->x, w->x)
USE_LOSS(binary_cross_entropy_with_logits, w->x, w->x)
USE_LOSS(cosine_embedding_loss, w->x, w->x, w->x)
USE_LOSS(margin_ranking_loss, w->x, w->x, w->x)
USE_LOSS(triplet_margin_loss, w->x, w->x, w->x)
USE_LOSS(contrastive_loss, w->x, w->x, NULL)

USE(nn_recurrent)
{
    tg_params *params = tg_params_new(w->run, TG_F32);
    tg_nn_gru made = tg_nn_gru_make(params, "new", 4, 4, GIVEN(nn_recurrent));
    keep(w, tg_params_error(params));
    assert_int_equal(made.module.is_made, w->error.code == TG_OK);
    tg_params_free(params);
}

USE(nn_recurrent_forward)
{
    tg_run *run = tg_run_new(2);
    tg_params *params = tg_params_new(run, TG_F64);
    tg_nn_gru made = tg_nn_gru_make(params, "new", 4, 4, NULL);
    tg_nn_gru_forward(w->tape, &made, tg_unsqueeze(w->tape, w->x, 0), NULL, GIVEN(nn_recurrent_forward));
    keep_tape(w);
    tg_tape_reset(w->tape);
    tg_params_free(params);
    tg_run_free(run);
}

USE(conv1d)
{
    tg_tensor *x = tg_unsqueeze(w->tape, w->x, 0);
    tg_conv1d(w->tape, x, x, NULL, GIVEN(conv1d));
    keep_tape(w);
}

USE(pool1d)
{
    tg_max_pool1d(w->tape, w->x, 2, GIVEN(pool1d));
    keep_tape(w);
}

USE(nn_multihead_attention_forward)
{
    tg_nn_multihead_attention_forward(w->tape, &w->attention, w->x, GIVEN(nn_multihead_attention_forward));
    keep_tape(w);
}

USE(nn_transformer_layer)
{
    tg_params *params = tg_params_new(w->run, TG_F32);
    bool is_made = tg_nn_transformer_decoder_layer_make(params, "a", 4, 2, GIVEN(nn_transformer_layer)).module.is_made;
    clear_params_error(params);
    assert_int_equal(
        tg_nn_transformer_encoder_layer_make(params, "b", 4, 2, GIVEN(nn_transformer_layer)).module.is_made, is_made);
    keep(w, tg_params_error(params));
    tg_params_free(params);
}

USE(nn_transformer_decoder_layer_forward)
{
    tg_nn_transformer_decoder_layer_forward(w->tape, &w->decoder_layer, w->x, w->x,
                                            GIVEN(nn_transformer_decoder_layer_forward));
    keep_tape(w);
}

USE(schedule)
{
    tg_error_clear(&w->error);
    tg_schedule_lr(1, GIVEN(schedule), &w->error);
}

USE(gpt)
{
    tg_gpt_free(tg_gpt_new(w->params, GIVEN(gpt)));
    keep_params(w);
}

USE(gpt_forward)
{
    tg_gpt_forward(w->tape, w->gpt, tg_unsqueeze(w->tape, w->ids, 0), GIVEN(gpt_forward));
    keep_tape(w);
}

USE(sample)
{
    tg_error_clear(&w->error);
    tg_sample(w->x, tg_run_rng(w->run), GIVEN(sample), &w->error);
}

USE(generate)
{
    const int32_t prompt = 1;
    int32_t ids[50];
    tg_gpt_generate(w->tape, w->gpt, &prompt, 1, ids, GIVEN(generate));
    keep_tape(w);
}

USE(gpt_open)
{
    tg_gpt_free(tg_gpt_open(w->params, "/nowhere", GIVEN(gpt_open)));
    keep_params(w);
}

USE(gpt_chat)
{
    tg_error_clear(&w->error);
    const tg_gpt_message message = {"user", "Hi"};
    tg_text_free(tg_gpt_chat(&message, 1, GIVEN(gpt_chat), &w->error));
}

USE(gpt_save)
{
    tg_error_clear(&w->error);
    tg_gpt_save(w->gpt, "/nowhere", GIVEN(gpt_save), &w->error);
}

USE(lora)
{
    tg_gpt_add_lora(w->gpt, "*", GIVEN(lora));
    keep_params(w);
}

USE(loader)
{
    const int32_t ids[4] = {0, 1, 2, 3};
    tg_loader *loader = tg_loader_new(w->run, ids, 4, GIVEN(loader));
    keep(w, tg_loader_error(loader));
    tg_run_clear_error(w->run);
    tg_loader_free(loader);
}

USE(tokenizer_open)
{
    tg_error_clear(&w->error);
    tg_tokenizer_free(tg_tokenizer_open("/nowhere/vocab.bpe", GIVEN(tokenizer_open), &w->error));
}

static const char *const no_texts[] = {"/nowhere/text.txt"};

USE(tokenizer_train_files)
{
    tg_error_clear(&w->error);
    tg_tokenizer_free(tg_tokenizer_train_files(no_texts, 1, 257, GIVEN(tokenizer_train_files), &w->error));
}

USE(tokenizer_encode)
{
    tg_encoding encoding;
    tg_error_clear(&w->error);
    tg_tokenizer *z = tg_tokenizer_train("a", 1, 257, NULL);
    tg_tokenizer_encode_text(z, "a", 1, &encoding, GIVEN(tokenizer_encode), &w->error);
    tg_encoding_free(&encoding);
    tg_tokenizer_free(z);
}

USE(tokenizer_encode_files)
{
    tg_error_clear(&w->error);
    tg_tokenizer *z = tg_tokenizer_train("a", 1, 257, NULL);
    tg_tokenizer_encode_files(z, no_texts, 1, "/nowhere/ids.bin", 2, GIVEN(tokenizer_encode_files), &w->error);
    tg_tokenizer_free(z);
}

/* Two programs use these files at the same time. */
#ifdef __cplusplus
static const char saved[] = "test_configs_cpp.safetensors", checkpoints[] = "test_configs_cpp.checkpoints";
#else
static const char saved[] = "test_configs.safetensors", checkpoints[] = "test_configs.checkpoints";
#endif

USE(params_save)
{
    tg_error_clear(&w->error);
    remove(saved);
    bool is_saved = tg_params_save(w->params, saved, GIVEN(params_save), &w->error);
    assert_int_equal(remove(saved) == 0, is_saved);
}

USE(params_load)
{
    tg_error_clear(&w->error);
    assert_true(tg_params_save(w->params, saved, NULL, NULL));
    tg_params_load(w->params, saved, GIVEN(params_load), &w->error);
    remove(saved);
}

USE(checkpoint_folder)
{
    tg_error_clear(&w->error);
    char lock[64];
    snprintf(lock, sizeof lock, "%s/lock", checkpoints);
    remove(lock);
    remove(checkpoints);
    tg_checkpoint_folder *folder = tg_checkpoint_folder_open(checkpoints, GIVEN(checkpoint_folder), &w->error);
    bool is_open = folder;
    tg_checkpoint_folder_free(folder);
    assert_int_equal(remove(lock) == 0, is_open);
    assert_int_equal(remove(checkpoints) == 0, is_open);
}

USE(row_file)
{
    tg_error_clear(&w->error);
    remove("test_configs.rows");
    tg_row_file *file = tg_row_file_new("test_configs.rows", 2, 3, GIVEN(row_file), &w->error);
    bool is_new = file;
    tg_row_file_free(file);
    assert_int_equal(remove("test_configs.rows") == 0, is_new);
}

USE(csv)
{
    tg_error_clear(&w->error);
    tg_csv_free(tg_csv_open("no file", GIVEN(csv), &w->error));
}

USE(words)
{
    tg_error_clear(&w->error);
    tg_words_free(tg_words_new("a b", 3, GIVEN(words), &w->error));
}

USE(subwords)
{
    tg_error_clear(&w->error);
    tg_words *words = tg_words_new("a b", 3, NULL, NULL);
    tg_subwords_free(tg_subwords_new(words, (const int64_t[]){1, 1, 1}, 3, GIVEN(subwords), &w->error));
    tg_words_free(words);
}

USE(metric)
{
    tg_error_clear(&w->error);
    tg_accuracy accuracy = {0, 0};
    tg_accuracy_add(&accuracy, w->x, w->ids, GIVEN(metric), &w->error);
    assert_true(accuracy.count == (w->error.code == TG_OK ? 4 : 0));
}

static tg_tensor *square(tg_tape *tape, tg_tensor *const *inputs, int input_count, void *context)
{
    (void)input_count;
    ++*(int *)context;
    return tg_mul(tape, inputs[0], inputs[0]);
}

USE(gradcheck)
{
    int calls = 0;
    tg_error_clear(&w->error);
    tg_gradcheck(square, &calls, &w->x, 1, GIVEN(gradcheck), NULL, &w->error);
}

/* ---- the list ---- */

typedef union any_config {
    tg_config_mark mark;
    unsigned char bytes[4096];
    double aligned;
} any_config;

typedef struct config_entry {
    const char *default_name;
    void (*use)(world *w, const void *config);
    void (*make_default)(any_config *config);
    size_t size;
    size_t inner;            /* the offset of a config inside of it, or 0 */
    const char *refused_for; /* the default function that the error names */
} config_entry;

#define DEFAULT(name)                                           \
    static void default_##name(any_config *config)              \
    {                                                           \
        tg_##name##_config made = tg_##name##_config_default(); \
        memset(config, 0, sizeof *config);                      \
        memcpy(config, &made, sizeof made);                     \
    }
/* clang-format off */
#define EACH_CONFIG(X) \
    X(sgd) X(adam) X(adamw) X(sparse_adam) X(adagrad) X(rmsprop) X(lion) X(muon) X(schedule) X(nn_embedding) \
    X(nn_embedding_bag) X(nn_layer_norm) X(nn_batch_norm) X(nn_rms_norm) X(nn_feed_forward) X(kv_cache) \
    X(nn_positional) \
    X(nn_multihead_attention) \
    X(nn_multihead_attention_forward) X(nn_transformer_block) X(nn_transformer_layer) \
    X(nn_transformer_decoder_layer_forward) X(tape) X(graph) X(backward) X(grad) X(hvp) X(tensor_print) X(embedding) \
    X(embedding_bag) X(scaled_dot_product_attention) X(rotary) X(cross_entropy) X(gpt) \
    X(gpt_forward) X(sample) X(generate) X(gpt_open) X(gpt_save) X(gpt_chat) X(lora) \
    X(loader) X(tokenizer_open) X(tokenizer_train_files) X(tokenizer_encode) X(tokenizer_encode_files) \
    X(gradcheck) X(params_save) X(params_load) X(checkpoint_folder) X(row_file) \
    X(csv) X(words) X(subwords) X(metric) \
    X(nn_recurrent) X(nn_recurrent_forward) X(conv1d) X(pool1d) X(nn_conv1d) \
    X(smooth_l1_loss) X(huber_loss) X(kl_div) X(hinge_embedding_loss) \
    X(binary_cross_entropy_with_logits) X(cosine_embedding_loss) X(margin_ranking_loss) X(triplet_margin_loss) \
    X(contrastive_loss)
/* clang-format on */
EACH_CONFIG(DEFAULT)

#define ENTRY(name)                                             \
    {"tg_" #name "_config_default", use_##name, default_##name, \
     sizeof(tg_##name##_config),    0,          "tg_" #name "_config_default"},
#define INNER(outer, field, name)          \
    {"tg_" #outer "_config_default",       \
     use_##outer,                          \
     default_##outer,                      \
     sizeof(tg_##outer##_config),          \
     offsetof(tg_##outer##_config, field), \
     "tg_" #name "_config_default"},

static const config_entry entries[] = {
    EACH_CONFIG(ENTRY){"tg_cross_entropy_config_default", use_nll_loss, default_cross_entropy,
                       sizeof(tg_cross_entropy_config), 0, "tg_cross_entropy_config_default"},
    INNER(nn_conv1d, conv, conv1d) INNER(nn_positional, rotary, rotary)
        INNER(nn_transformer_block, attention, nn_multihead_attention) INNER(generate, sample, sample)};

#define ENTRIES (sizeof entries / sizeof *entries)

/* ---- the tests ---- */

static void world_open(world *w)
{
    tg_gpt_config gpt = tg_gpt_config_default();
    w->run = tg_run_new(1);
    w->tape = tg_tape_new(w->run, NULL);
    w->params = tg_params_new(w->run, TG_F32);
    w->x = leaf(tg_tensor_new(TG_F64, tg_shape_make(2, sizes), NULL));
    w->table = leaf(tg_tensor_new_full(TG_F64, tg_shape_make(2, sizes), 7, NULL));
    w->ids = tg_tensor_new(TG_I32, tg_shape_make(1, sizes), NULL);
    w->attention = tg_nn_multihead_attention_make(w->params, "attention", 4, 4, 2, NULL);
    w->decoder_layer = tg_nn_transformer_decoder_layer_make(w->params, "decoder", 4, 2, NULL);
    gpt.vocabulary = gpt.context = gpt.width = 4;
    gpt.heads = gpt.layers = 1;
    w->gpt = tg_gpt_new(w->params, &gpt);
    tg_error_clear(&w->error);
    assert_int_equal(tg_params_error(w->params)->code, TG_OK);
}

static void world_close(world *w)
{
    tg_gpt_free(w->gpt);
    tg_tape_free(w->tape);
    tg_params_free(w->params);
    tg_release(w->x);
    tg_release(w->table);
    tg_release(w->ids);
    tg_run_free(w->run);
}

static void assert_refused(const config_entry *e, const any_config *config, const char *how)
{
    world w;
    world_open(&w);
    int64_t entries_before = tg_params_count(w.params);
    uint64_t position = tg_rng_position(tg_run_rng(w.run));
    e->use(&w, config->bytes);
    char expected[128];
    snprintf(expected, sizeof expected, " %s()", e->refused_for);
    if (w.error.code != TG_ERROR_VALUE || !strstr(w.error.text, expected)) {
        fail_msg("%s, %s: %d \"%s\"", e->default_name, how, (int)w.error.code, w.error.text);
    }
    assert_int_equal(tg_params_count(w.params), entries_before);
    assert_int_equal(tg_rng_position(tg_run_rng(w.run)), position);
    assert_int_equal(tg_tensor_grad_kind(w.x), TG_GRAD_NONE);
    for (int64_t i = 0; i < 16; i++) {
        assert_true(tg_tensor_value_at(w.x, i) == 0 && tg_tensor_value_at(w.table, i) == 7);
    }
    world_close(&w);
}

/* A config, or the one inside of it, with other bytes from its mark on. */
static any_config changed(const config_entry *e, const void *bytes, size_t size)
{
    any_config config;
    e->make_default(&config);
    memcpy(config.bytes + e->inner, bytes, size);
    return config;
}

static void test_configs_that_no_default_made(void **state)
{
    (void)state;
    for (size_t i = 0; i < ENTRIES; i++) {
        const config_entry *e = &entries[i];
        unsigned char fill[sizeof(any_config)] = {0};
        size_t size = e->size - e->inner;
        any_config config = changed(e, fill, e->inner ? sizeof(tg_config_mark) : size);
        assert_refused(e, &config, "zeroed");
        memset(fill + sizeof(tg_config_mark), 1, sizeof fill - sizeof(tg_config_mark));
        config = changed(e, fill, e->inner ? sizeof(tg_config_mark) : size);
        assert_refused(e, &config, "filled in without a mark");
        memset(fill, 0xa5, sizeof fill);
        config = changed(e, fill, e->inner ? sizeof(tg_config_mark) : size);
        assert_refused(e, &config, "uninitialized");
    }
}

static void test_configs_of_other_calls(void **state)
{
    (void)state;
    for (size_t i = 0; i < ENTRIES; i++) {
        for (size_t k = 0; k < ENTRIES; k++) {
            any_config other;
            entries[k].make_default(&other);
            if (strcmp(entries[i].refused_for, entries[k].default_name) != 0) {
                any_config config = changed(&entries[i], &other.mark, sizeof other.mark);
                assert_refused(&entries[i], &config, entries[k].default_name);
            }
        }
    }
}

/* A config that only sets one field, (tg_adam_config){.lr = 0.01}. make_config_literals writes one for each field. */
typedef struct config_literal {
    const char *default_name, *field;
    void (*make)(any_config *config);
} config_literal;

/* g++ -Wextra warns a program, too: the other fields, and with them the mark, are missing. */
#ifdef __cplusplus
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#pragma GCC diagnostic ignored "-Wpedantic"
#endif
#include "config_literals.inc"
#ifdef __cplusplus
#pragma GCC diagnostic pop
#endif

static void test_configs_with_one_field(void **state)
{
    (void)state;
    size_t found = 0;
    for (size_t i = 0; i < sizeof config_literals / sizeof *config_literals; i++) {
        const config_literal *literal = &config_literals[i];
        for (size_t k = 0; k < ENTRIES; k++) {
            any_config config;
            memset(&config, 0, sizeof config);
            if (entries[k].inner == 0 && strcmp(entries[k].default_name, literal->default_name) == 0) {
                literal->make(&config);
                assert_refused(&entries[k], &config, literal->field);
                found += strcmp(entries[k].default_name, entries[k].refused_for) == 0 && entries[k].use != use_nll_loss;
            }
        }
    }
    /* each literal has its call */
    assert_int_equal(found, sizeof config_literals / sizeof *config_literals);
}

/* A list in a config: the field with its address, and the one with its number of elements. */
typedef struct list_entry {
    void (*use)(world *w, const void *config);
    void (*make_default)(any_config *config);
    const char *list_field, *count_field;
    size_t list_offset, count_offset, count_size;
} list_entry;

/* clang-format off */
#define LIST(name, list, count)                                                          \
    {use_##name, default_##name, #list, #count, offsetof(tg_##name##_config, list),      \
     offsetof(tg_##name##_config, count), sizeof(((tg_##name##_config *)NULL)->count)}
/* clang-format on */

static const list_entry lists[] = {
    LIST(kv_cache, windows, window_count),          LIST(sample, text, text_count),
    LIST(generate, end_tokens, end_token_count),    LIST(words, special, special_count),
    LIST(tokenizer_open, special, special_count),   LIST(tokenizer_train_files, special, special_count),
    LIST(params_save, metadata, metadata_count),    LIST(gradcheck, rows_without_gradient, row_count),
    LIST(gradcheck, input_names, input_name_count), LIST(grad, output_gradients, output_gradient_count),
};

static void assert_list_refused(const list_entry *e, const void *list, int64_t count, const char *text)
{
    world w;
    any_config config;
    int small = (int)count;
    world_open(&w);
    e->make_default(&config);
    memcpy(config.bytes + e->list_offset, &list, sizeof list);
    memcpy(config.bytes + e->count_offset, e->count_size == sizeof small ? (void *)&small : (void *)&count,
           e->count_size);
    e->use(&w, config.bytes);
    if (w.error.code != TG_ERROR_VALUE || !strstr(w.error.text, text)) {
        fail_msg("%s: %d \"%s\"", text, (int)w.error.code, w.error.text);
    }
    world_close(&w);
}

/* A list without its number of elements, a number without a list, and a negative number. */
static void test_lists_without_their_numbers(void **state)
{
    (void)state;
    static const char *const strings[] = {"a", "b"};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        char text[128];
        snprintf(text, sizeof text, ": %s is 0, but %s is not NULL", lists[i].count_field, lists[i].list_field);
        assert_list_refused(&lists[i], strings, 0, text);
        snprintf(text, sizeof text, ": %s is 1, but %s is NULL", lists[i].count_field, lists[i].list_field);
        assert_list_refused(&lists[i], NULL, 1, text);
        snprintf(text, sizeof text, ": %s is -1; it must be at least 0", lists[i].count_field);
        assert_list_refused(&lists[i], strings, -1, text);
    }
}

/* The default of each config has a mark that its call knows: an error, for a size that must be set, is another one. */
static void test_defaults_are_accepted(void **state)
{
    (void)state;
    for (size_t i = 0; i < ENTRIES; i++) {
        world w;
        any_config config;
        world_open(&w);
        entries[i].make_default(&config);
        entries[i].use(&w, config.bytes);
        assert_null(strstr(w.error.text, "_config_default"));
        world_close(&w);
    }
}

static void test_sizes_without_a_default_are_named(void **state)
{
    (void)state;
    world w;
    world_open(&w);
    tg_gpt_config gpt = tg_gpt_config_default();
    int64_t *gpt_sizes[] = {&gpt.vocabulary, &gpt.context, &gpt.width, &gpt.heads, &gpt.layers};
    const char *gpt_names[] = {"vocabulary 0", "context 0", "width 0", "heads 0", "layers 0"};
    for (int i = 0; i < 5; i++) {
        use_gpt(&w, &gpt);
        assert_error(&w.error, TG_ERROR_VALUE, gpt_names[i]);
        *gpt_sizes[i] = 2;
    }
    tg_loader_config loader = tg_loader_config_default();
    int64_t *loader_sizes[] = {&loader.context, &loader.stride, &loader.batch_size};
    const char *loader_names[] = {"context 0", "stride 0", "batch_size 0"};
    for (int i = 0; i < 3; i++) {
        use_loader(&w, &loader);
        assert_error(&w.error, TG_ERROR_VALUE, loader_names[i]);
        *loader_sizes[i] = 1;
    }
    use_loader(&w, &loader);
    assert_int_equal(w.error.code, TG_OK);
    tg_nn_positional_config positions = tg_nn_positional_config_default();
    use_nn_positional(&w, &positions);
    assert_error(&w.error, TG_ERROR_VALUE, "heads 0");
    tg_schedule_config schedule = tg_schedule_config_default();
    schedule.kind = TG_SCHEDULE_COSINE;
    use_schedule(&w, &schedule);
    assert_error(&w.error, TG_ERROR_VALUE, "total_steps 0");
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_configs_that_no_default_made), cmocka_unit_test(test_configs_of_other_calls),
        cmocka_unit_test(test_configs_with_one_field),       cmocka_unit_test(test_lists_without_their_numbers),
        cmocka_unit_test(test_defaults_are_accepted),        cmocka_unit_test(test_sizes_without_a_default_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
