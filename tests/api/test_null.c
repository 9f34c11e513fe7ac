/* Every public function with NULL for each of its pointer arguments, one at a time. No call crashes, and each reports
 * the NULL where its kind of function reports errors. tests/api/make_null_calls generates the table from the headers.
 *
 * The functions for shape rules and kernels, which work only inside of an op, are tested at the end of this file.
 */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"

/* Valid arguments of every type. */
typedef struct world {
    tg_run *run;
    tg_rng *other_rng;
    tg_tape *tape;
    tg_params *params;
    tg_optim *optim;
    tg_loader *loader;
    tg_csv *csv;
    tg_json_document *json;
    tg_words *words;
    tg_subwords *subwords;
    tg_accuracy accuracy;
    tg_ranking ranking;
    tg_profile *profile;
    tg_graph *graph;
    tg_error error;
    tg_tensor *x, *ids, *mask, *table, *result;
    tg_tensor *inputs[2], *outputs[TG_OP_MAX_OUTPUTS];
    tg_shape shape;
    tg_tokenizer *tokenizer;
    tg_text_stream *stream;
    tg_language_model language_model;
    tg_gpt_message message;
    tg_gpt_chat_format chat_format;
    tg_tokens tokens;
    tg_encoding encoding;
    tg_token_file *token_file;
    tg_gpt *gpt;
    tg_gpt_config gpt_config;
    tg_gpt_summary gpt_summary;
    tg_kv_cache *cache;
    tg_ledger *ledger;
    tg_batch batch;
    tg_op op;
    tg_nn_embedding embedding;
    tg_nn_embedding_bag bag;
    tg_nn_linear linear;
    tg_nn_gru gru;
    tg_nn_lstm lstm;
    tg_nn_conv1d conv;
    tg_nn_feed_forward feed_forward;
    tg_nn_layer_norm layer_norm;
    tg_nn_batch_norm batch_norm;
    tg_nn_rms_norm rms_norm;
    tg_nn_norm norm;
    tg_nn_multihead_attention attention;
    tg_nn_positional positional;
    tg_nn_transformer_block block;
    tg_nn_transformer_encoder_layer encoder_layer;
    tg_nn_transformer_decoder_layer decoder_layer;
    tg_position kind;
    tg_checkpoint_part part;
    tg_named_tensor named;
    tg_checkpoint_folder *folder;
    tg_row_file *row_file;
    int64_t step;
    tg_gradcheck_report report;
    tg_gradcheck_kernels kernels;
    tg_ledger_difference difference;
    tg_nan_report nan_report;
    tg_row_neighbor neighbors[8];
    FILE *file, *other_file, *ledger_file;
    tg_tensorboard *log;
    const char *labels[1], *paths[1];
    char path[64], log_folder[32], text[8];
    int axes[4];
    const int32_t *borrowed_ids;
    int32_t numbers[16];
    int64_t sizes[TG_MAX_RANK];
    size_t length;
    uint8_t state[TG_RNG_TORCH_STATE_SIZE], bytes[64];
    char buffer[8192];
} world;

/* The kind of error that a call must leave behind. */
typedef enum reports {
    REPORTS_NOWHERE, /* it returns 0, NULL or false */
    REPORTS_ERROR,
    REPORTS_RUN
} reports;

typedef struct null_call {
    const char *function, *argument;
    bool (*call)(world *w); /* returns whether the call succeeded */
    bool must_fail;
    reports reports;
    const char *called; /* what the message must call the argument */
} null_call;

static tg_tensor *loss(tg_tape *tape, void *context)
{
    (void)context;
    return tg_full(tape, TG_F32, TG_SCALAR, 1);
}

static tg_tensor *next_logits(tg_tape *tape, const tg_generate_pass *pass, void *context)
{
    (void)context;
    return tg_full(tape, TG_F32, TG_SHAPE(tg_tensor_shape(pass->ids).size[0], 8), 0);
}

static tg_tensor *square(tg_tape *tape, tg_tensor *const *inputs, int input_count, void *context)
{
    (void)input_count, (void)context;
    return tg_mul(tape, inputs[0], inputs[0]);
}

static void copy_four(void *context, const void *const *inputs, void *y)
{
    (void)context;
    memcpy(y, inputs[0], 4 * sizeof(float));
}

static void add_nothing(void *context, const void *const *inputs, const void *dy, void *const *gradients)
{
    (void)context, (void)inputs, (void)dy, (void)gradients;
}

static bool has_token(void *context, const char *token)
{
    return !context && *token;
}

static void loop(void *context, int64_t begin, int64_t end)
{
    (void)context, (void)begin, (void)end;
}

static void close_ledger(tg_ledger *ledger)
{
    tg_ledger_close(ledger, NULL);
}

#include "null_calls.inc"

/* ---- the world ---- */

static void make_modules(world *w)
{
    tg_nn_positional_config positions = tg_nn_positional_config_default();
    positions.heads = 2;
    w->params = tg_params_new(w->run, TG_F32);
    w->embedding = tg_nn_embedding_make(w->params, "embedding", 8, 4, NULL);
    w->bag = tg_nn_embedding_bag_make(w->params, "bag", 8, 4, NULL);
    w->linear = tg_nn_linear_make(w->params, "linear", 4, 4, TG_BIAS);
    w->gru = tg_nn_gru_make(w->params, "gru", 4, 4, NULL);
    w->lstm = tg_nn_lstm_make(w->params, "lstm", 4, 4, NULL);
    w->conv = tg_nn_conv1d_make(w->params, "conv", 4, 4, 2, NULL);
    w->feed_forward = tg_nn_feed_forward_make(w->params, "ff", 4, 8, TG_FEED_FORWARD_GELU, NULL);
    w->layer_norm = tg_nn_layer_norm_make(w->params, "ln", 4, NULL);
    w->batch_norm = tg_nn_batch_norm_make(w->params, "batch", 4, NULL);
    w->rms_norm = tg_nn_rms_norm_make(w->params, "rms", 4, NULL);
    w->norm = tg_nn_norm_make(w->params, "norm", 4, TG_NORM_LAYER, 1e-5);
    w->attention = tg_nn_multihead_attention_make(w->params, "att", 4, 4, 2, NULL);
    w->positional = tg_nn_positional_make(w->params, "pos", TG_POSITION_LEARNED, 8, 4, &positions);
    w->block = tg_nn_transformer_block_make(w->params, "block", 4, 2, NULL);
    w->encoder_layer = tg_nn_transformer_encoder_layer_make(w->params, "encoder", 4, 2, NULL);
    w->decoder_layer = tg_nn_transformer_decoder_layer_make(w->params, "decoder", 4, 2, NULL);
    w->gpt_config = tg_gpt_config_default();
    w->gpt_config.vocabulary = w->gpt_config.context = 8;
    w->gpt_config.width = 4;
    w->gpt_config.heads = w->gpt_config.layers = 1;
    w->gpt = tg_gpt_new(w->params, &w->gpt_config);
    w->message = (tg_gpt_message){"user", "Hi"};
    w->language_model = (tg_language_model){next_logits, NULL, 8, 8, false};
    w->optim = tg_sgd_new(w->params, NULL);
    assert_int_equal(tg_params_error(w->params)->code, TG_OK);
}

static void make_data(world *w)
{
    w->tokenizer = tg_tokenizer_train("a a a", 5, 257, NULL); /* NULL in a build without a tokenizer */
    w->stream = tg_text_stream_new(w->tokenizer, NULL);
    snprintf(w->path, sizeof w->path, "%s", "null_calls.tokens");
    assert_true(tg_token_file_write(w->path, 2, w->numbers, 16, NULL));
    w->token_file = tg_token_file_open(w->path, 2, NULL);
    tg_loader_config loader = tg_loader_config_default();
    loader.context = loader.stride = loader.batch_size = 1;
    w->loader = tg_loader_new(w->run, w->numbers, 16, &loader);
    FILE *table = fopen("null_calls.csv", "w");
    assert_true(table && fputs("a,b\n1,2\n", table) >= 0 && fclose(table) == 0);
    w->csv = tg_csv_open("null_calls.csv", NULL, NULL);
    assert_non_null(w->csv);
    FILE *object = fopen("null_calls.json", "w");
    assert_true(object && fputs("{\"text\":[1]}", object) >= 0 && fclose(object) == 0);
    w->json = tg_json_document_open("null_calls.json", NULL);
    assert_non_null(w->json);
    w->words = tg_words_new(w->text, strlen(w->text), NULL, NULL);
    tg_subwords_config subwords = tg_subwords_config_default();
    subwords.buckets = 7;
    w->subwords = tg_subwords_new(w->words, w->sizes, 1, &subwords, NULL);
    assert_non_null(w->subwords);
    w->cache = tg_kv_cache_new(TG_F32, 1, 1, 1, 8, 4, NULL, NULL);
    w->named = (tg_named_tensor){.name = "x", .tensor = w->x};
    w->part = tg_checkpoint_integer("step", &w->step);
    w->folder = tg_checkpoint_folder_open("null_calls.checkpoints", NULL, NULL);
    remove("null_calls.rows");
    w->row_file = tg_row_file_new("null_calls.rows", 3, 4, NULL, NULL);
    memcpy(w->log_folder, "null_calls.XXXXXX", 18);
    assert_non_null(mkdtemp(w->log_folder));
    w->log = tg_tensorboard_open(w->log_folder, NULL);
    w->labels[0] = "label";
    w->paths[0] = w->path;
    w->file = tmpfile();
    w->other_file = tmpfile();
    w->ledger_file = tmpfile();
    assert_true(w->file && w->other_file && w->ledger_file);
}

static bool scalar_shape(tg_op_call *call)
{
    return tg_op_output(call, 0, TG_F32, TG_SCALAR);
}

static void world_open(world *w)
{
    memset(w, 0, sizeof *w);
    w->op = (tg_op){.name = "op", .shape = scalar_shape};
    w->kernels = (tg_gradcheck_kernels){copy_four, add_nothing, NULL, tg_shape_make(2, (int64_t[]){2, 2})};
    w->run = tg_run_new(1);
    w->other_rng = tg_rng_new(2);
    w->tape = tg_tape_new(w->run, NULL);
    w->shape = tg_shape_make(2, (int64_t[]){2, 2});
    w->sizes[0] = w->sizes[1] = 2;
    w->x = leaf(tg_tensor_new(TG_F32, w->shape, NULL));
    w->table = leaf(tg_tensor_new(TG_F32, tg_shape_make(2, (int64_t[]){8, 4}), NULL));
    w->ids = tg_tensor_new(TG_I32, w->shape, NULL);
    w->mask = tg_tensor_new(TG_U8, w->shape, NULL);
    w->inputs[0] = w->inputs[1] = w->x;
    w->result = tg_sum(w->tape, tg_mul(w->tape, w->x, w->x), TG_ALL_AXES, TG_DROP_AXES);
    memcpy(w->text, "a a a", 6);
    tg_rng_save_torch_state(tg_run_rng(w->run), w->state, NULL);
    make_modules(w);
    make_data(w);
    w->profile = tg_profile_new(w->tape);
    w->graph = tg_graph_new(w->tape, NULL);
    w->ledger = tg_ledger_open(w->tape, w->ledger_file);
    assert_int_equal(tg_tape_error(w->tape)->code, TG_OK);
}

static void world_close(world *w)
{
    tg_profile_free(w->profile);
    tg_graph_free(w->graph);
    tg_ledger_close(w->ledger, NULL);
    tg_checkpoint_folder_free(w->folder);
    tg_row_file_free(w->row_file);
    tg_kv_cache_free(w->cache);
    tg_gpt_free(w->gpt);
    tg_optim_free(w->optim);
    tg_loader_free(w->loader);
    tg_csv_free(w->csv);
    tg_json_document_free(w->json);
    tg_words_free(w->words);
    tg_subwords_free(w->subwords);
    tg_token_file_free(w->token_file);
    tg_tokens_free(&w->tokens);
    tg_text_stream_free(w->stream);
    tg_encoding_free(&w->encoding);
    tg_tokenizer_free(w->tokenizer);
    tg_tape_free(w->tape);
    tg_params_free(w->params);
    tg_release(w->x);
    tg_release(w->table);
    tg_release(w->ids);
    tg_release(w->mask);
    tg_run_free(w->run);
    tg_rng_free(w->other_rng);
    fclose(w->file);
    fclose(w->other_file);
    fclose(w->ledger_file);
    remove(w->path);
    remove("null_calls.checkpoints/step-00000001.safetensors");
    remove("null_calls.checkpoints/lock");
    remove("null_calls.checkpoints");
    tg_tensorboard_free(w->log);
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", w->log_folder);
    assert_int_equal(system(command), 0);
    remove("null_calls.csv");
    remove("null_calls.json");
}

/* ---- the tests ---- */

/* Returns whether a text has a word, or some words. */
static bool has_words(const char *text, const char *words)
{
    size_t length = strlen(words);
    for (const char *at = text; (at = strstr(at, words)) != NULL; at++) {
        bool begins = at == text || !(isalnum((unsigned char)at[-1]) || at[-1] == '_');
        if (begins && !isalnum((unsigned char)at[length]) && at[length] != '_') {
            return true;
        }
    }
    return false;
}

static const tg_error *error_of(const world *w, reports where)
{
    return where == REPORTS_RUN ? tg_run_error(w->run) : &w->error;
}

static void test_every_pointer_may_be_null(void **state)
{
    (void)state;
    int wrong = 0;
    for (size_t i = 0; i < sizeof null_calls / sizeof *null_calls; i++) {
        const null_call *c = &null_calls[i];
        world w;
        world_open(&w);
        bool is_success = c->call(&w);
        const tg_error *error = error_of(&w, c->reports);
        if (c->must_fail && is_success) {
            print_error("%s succeeds with %s NULL\n", c->function, c->argument);
            wrong++;
        } else if (c->reports != REPORTS_NOWHERE && (error->code != TG_ERROR_STATE || !strstr(error->text, "NULL") ||
                                                     !has_words(error->text, c->called))) {
            print_error("%s does not report that %s is NULL, but: %d \"%s\"\n", c->function, c->argument,
                        (int)error->code, error->text);
            wrong++;
        }
        world_close(&w);
    }
    assert_int_equal(wrong, 0);
}

static void test_all_pointers_may_be_null_at_once(void **state)
{
    (void)state;
    assert_null(tg_tape_error(NULL)->text[0] ? NULL : "text");
    assert_int_equal(tg_tape_error(NULL)->code, TG_ERROR_MEMORY);
    assert_int_equal(tg_params_error(NULL)->code, TG_ERROR_MEMORY);
    assert_int_equal(tg_loader_error(NULL)->code, TG_ERROR_MEMORY);
    assert_int_equal(tg_run_error(NULL)->code, TG_ERROR_MEMORY);
    assert_null(tg_apply(NULL, NULL, NULL, 1, NULL, 1, NULL));
    assert_null(tg_cat(NULL, NULL, 2, 0));
    assert_false(tg_gradcheck(NULL, NULL, NULL, 1, NULL, NULL, NULL));
    assert_int_equal(tg_gpt_generate(NULL, NULL, NULL, 1, NULL, NULL), -1);
    assert_false(tg_gpt_generate_batch(NULL, NULL, NULL, NULL, 1, NULL, NULL, NULL));
}

/* ---- inside of an op ---- */

static const char *const no_text = NULL;

static bool shape_with_nulls(tg_op_call *call)
{
    tg_shape shape = tg_shape_make(1, (int64_t[]){2});
    return tg_op_output(call, 0, TG_F32, shape) && !tg_op_output_view(call, 1, 0, shape, NULL, 0);
}

static bool shape_that_fails(tg_op_call *call)
{
    return tg_op_fail(call, TG_ERROR_VALUE, no_text);
}

static void backward_with_nulls(const tg_op_call *call)
{
    int32_t id = 0, slot = 0;
    assert_null(tg_op_grad_rows(call, 0, NULL, 1, &slot));
    assert_null(tg_op_grad_rows(call, 0, &id, 1, NULL));
}

static bool shape_of_a_scalar(tg_op_call *call)
{
    return tg_op_output(call, 0, TG_F32, TG_SCALAR) && tg_op_reserve_rows(call, 1);
}

static void forward_nothing(const tg_op_call *call)
{
    *(float *)tg_tensor_data_mut(call->outputs[0]) = 0;
}

static void test_calls_inside_an_op(void **state)
{
    (void)state;
    world w;
    world_open(&w);
    tg_op op = {.name = "nulls", .shape = shape_with_nulls, .f32 = {forward_nothing, NULL}};
    assert_null(tg_apply(w.tape, &op, w.inputs, 1, NULL, 0, NULL));
    assert_tape_error(w.tape, TG_ERROR_STATE, "NULL");
    op.shape = shape_that_fails;
    assert_null(tg_apply(w.tape, &op, w.inputs, 1, NULL, 0, NULL));
    assert_tape_error(w.tape, TG_ERROR_VALUE, "nulls");
    tg_op rows = {
        .name = "rows", .shape = shape_of_a_scalar, .f32 = {forward_nothing, backward_with_nulls}, .row_inputs = 1};
    tg_tensor *y = tg_apply(w.tape, &rows, &w.table, 1, NULL, 0, NULL);
    assert_true(tg_backward(w.tape, y, NULL));
    assert_false(tg_tape_fail(w.tape, TG_ERROR_VALUE, no_text, no_text));
    assert_int_equal(tg_tape_error(w.tape)->code, TG_ERROR_VALUE);
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_pointer_may_be_null),
        cmocka_unit_test(test_all_pointers_may_be_null_at_once),
        cmocka_unit_test(test_calls_inside_an_op),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
