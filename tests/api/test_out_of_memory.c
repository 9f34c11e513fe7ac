/* Every public function that allocates, with allocation k failing, for every k, alone or with all later ones. A call
 * that fails reports MEMORY, leaks nothing and changes neither the generator nor the params nor the tape. The same call
 * then succeeds, with the bits of a call that never failed. OpenBLAS's own allocations do not fail.
 *
 * The table at the end has one row per function. tests/nn/test_failed_forwards.c has the forwards of modules. */
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tape_stats.h"

static const char text[] = "the cat sat on the mat and the cat sat on the hat, it's 1899 <|endoftext|> na\xc3\xafve";
static const char bpe_path[] = "out_of_memory.bpe", bin_path[] = "out_of_memory.bin",
                  text_path[] = "out_of_memory.text", ids_path[] = "out_of_memory.ids";
static const char words_path[] = "out_of_memory.txt";
static const char vectors_path[] = "out_of_memory.vectors";

/* The objects of one call. */
typedef struct world {
    tg_run *run;
    tg_params *params;
    tg_tape *tape;
    tg_tensor *x, *permuted; /* (3,4) a leaf, and (4,3) a view of it on the tape */
    tg_tensor *ids, *table;  /* (2,3), and a leaf (5,4) */
    tg_tensor *loss;         /* a scalar that x and the table have a part in */
    tg_nn_embedding embedding;
    tg_nn_positional positional;
    tg_gpt *gpt;
    tg_optim *optim;
    tg_loader *loader;
    tg_tokenizer *tokenizer;
    tg_words *words;
    tg_subwords *subwords; /* of one of them, with the rows of the table */
    tg_token_file *file;
    char *saved; /* the bytes of the params, or NULL */
    int64_t saved_size;
    tg_error error;
    uint64_t bits; /* a hash of what the call has computed */
} world;

static void add_bits(world *w, const void *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        w->bits = (w->bits ^ ((const unsigned char *)bytes)[i]) * UINT64_C(1099511628211);
    }
}

static void add_tensor(world *w, const tg_tensor *x)
{
    for (int64_t i = 0; i < tg_tensor_count(x); i++) {
        double value = tg_tensor_value_at(x, i);
        add_bits(w, &value, sizeof value);
    }
}

static void add_params(world *w, const tg_params *params)
{
    for (int64_t i = 0; i < tg_params_count(params); i++) {
        add_bits(w, tg_params_at(params, i).name, strlen(tg_params_at(params, i).name));
        add_tensor(w, tg_params_at(params, i).tensor);
    }
}

/* ---- data ---- */

static bool finish_tokenizer(world *w, tg_tokenizer *tokenizer)
{
    for (int32_t id = 0; id < tg_tokenizer_vocabulary(tokenizer); id++) {
        size_t length;
        const char *bytes = tg_tokenizer_bytes(tokenizer, id, &length);
        add_bits(w, bytes, length);
    }
    tg_tokenizer_free(tokenizer);
    return tokenizer;
}

static bool train(world *w)
{
    return finish_tokenizer(w, tg_tokenizer_train(text, strlen(text), 290, &w->error));
}

/* The text is in a file. */
static bool train_files(world *w)
{
    return finish_tokenizer(w, tg_tokenizer_train_files((const char *const[]){text_path}, 1, 290, NULL, &w->error));
}

static bool encode_files(world *w)
{
    return tg_tokenizer_encode_files(w->tokenizer, (const char *const[]){text_path}, 1, ids_path, 2, NULL, &w->error) >
           0;
}

static bool open_tokenizer(world *w)
{
    return finish_tokenizer(w, tg_tokenizer_open(bpe_path, NULL, &w->error));
}

static bool save_tokenizer(world *w)
{
    return tg_tokenizer_save(w->tokenizer, bpe_path, TG_VOCABULARY_MERGES, &w->error);
}

static bool encode(world *w)
{
    tg_tokens tokens;
    bool is_done = tg_tokenizer_encode(w->tokenizer, text, strlen(text), true, &tokens, &w->error);
    assert_true(is_done || (!tokens.ids && tokens.count == 0));
    add_bits(w, tokens.ids, (size_t)tokens.count * sizeof *tokens.ids);
    tg_tokens_free(&tokens);
    return is_done;
}

static bool decode(world *w)
{
    size_t length;
    char *decoded = tg_tokenizer_decode(w->tokenizer, (int32_t[]){70, 257, 260, 71}, 4, &length, &w->error);
    add_bits(w, decoded, decoded ? length : 0);
    tg_text_free(decoded);
    return decoded;
}

static bool stream_text(world *w)
{
    tg_text_stream *stream = tg_text_stream_new(w->tokenizer, &w->error);
    size_t length;
    const char *piece = stream ? tg_text_stream_add(stream, 257, &length, &w->error) : NULL;
    add_bits(w, piece, piece ? length : 0);
    tg_text_stream_free(stream);
    return piece;
}

static bool new_words(world *w)
{
    tg_words_config config = tg_words_config_default();
    config.special = (const char *const[]){"[MASK]"};
    config.special_count = 1;
    config.order = TG_WORD_ORDER_BYTES;
    tg_words *words = tg_words_new(text, strlen(text), &config, &w->error);
    for (int32_t id = 0; id < tg_words_vocabulary(words); id++) {
        add_bits(w, tg_words_at(words, id), strlen(tg_words_at(words, id)));
    }
    tg_words_free(words);
    return words;
}

static bool open_words(world *w)
{
    tg_words *words = tg_words_open(words_path, NULL, &w->error);
    tg_words_free(words);
    return words;
}

static bool save_words(world *w)
{
    return tg_words_save(w->words, words_path, &w->error);
}

static bool open_vectors(world *w)
{
    tg_tensor *vectors;
    tg_words *words = tg_words_open_vectors(vectors_path, TG_VECTORS_TEXT, &vectors, &w->error);
    assert_true(words || !vectors);
    tg_words_free(words);
    tg_release(vectors);
    return words;
}

static bool save_vectors(world *w)
{
    return tg_words_save_vectors(w->words, w->table, vectors_path, TG_VECTORS_TEXT, &w->error);
}

static bool encode_words(world *w)
{
    tg_tokens tokens;
    bool is_done = tg_words_encode(w->words, text, strlen(text), &tokens, &w->error);
    assert_true(is_done || (!tokens.ids && tokens.count == 0));
    add_bits(w, tokens.ids, (size_t)tokens.count * sizeof *tokens.ids);
    tg_tokens_free(&tokens);
    return is_done;
}

static bool new_subwords(world *w)
{
    tg_subwords_config config = tg_subwords_config_default();
    config.buckets = 4;
    tg_subwords *subwords = tg_subwords_new(w->words, (const int64_t[]){2}, 1, &config, &w->error);
    add_bits(w, &(int64_t){tg_subwords_rows(subwords)}, sizeof(int64_t));
    tg_subwords_free(subwords);
    return subwords;
}

static bool encode_subwords(world *w)
{
    tg_tokens rows;
    bool is_done = tg_subwords_encode(w->subwords, "cats", &rows, &w->error);
    assert_true(is_done || (!rows.ids && rows.count == 0));
    add_bits(w, rows.ids, (size_t)rows.count * sizeof *rows.ids);
    tg_tokens_free(&rows);
    return is_done;
}

static bool subwords_vector(world *w)
{
    float vector[4] = {0};
    bool is_done = tg_subwords_vector(w->subwords, w->table, "cats", vector, &w->error);
    add_bits(w, vector, sizeof vector);
    return is_done;
}

static bool decode_words(world *w)
{
    size_t length;
    char *decoded = tg_words_decode(w->words, (int32_t[]){1, 0, 2}, 3, &length, &w->error);
    add_bits(w, decoded, decoded ? length : 0);
    tg_text_free(decoded);
    return decoded;
}

static bool read_text(world *w)
{
    size_t length;
    char *read = tg_text_read(bin_path, &length, &w->error);
    add_bits(w, read, read ? length : 0);
    tg_text_free(read);
    return read;
}

static bool open_token_file(world *w)
{
    tg_token_file *file = tg_token_file_open(bin_path, 2, &w->error);
    tg_token_file_free(file);
    return file;
}

static bool write_token_file(world *w)
{
    return tg_token_file_write(bin_path, 2, (int32_t[]){5, 4, 3, 2, 1, 0, 1, 2, 3}, 9, &w->error);
}

static bool finish_loader(world *w, tg_loader *loader)
{
    bool is_made = tg_loader_error(loader)->code == TG_OK;
    add_bits(w, &is_made, 1);
    tg_loader_free(loader);
    if (!is_made) {
        w->error.code = TG_ERROR_MEMORY;
    }
    return is_made;
}

static tg_loader_config loader_config(void)
{
    tg_loader_config config = tg_loader_config_default();
    config.context = config.stride = 2;
    config.batch_size = 2;
    config.shuffle = true;
    return config;
}

static bool new_loader(world *w)
{
    tg_loader_config config = loader_config();
    return finish_loader(w, tg_loader_new(w->run, (int32_t[]){1, 2, 3, 4, 5, 6, 7}, 7, &config));
}

static bool new_loader_from_file(world *w)
{
    tg_loader_config config = loader_config();
    return finish_loader(w, tg_loader_new_from_file(w->run, w->file, &config));
}

static bool new_loader_from_tensors(world *w)
{
    tg_loader_config config = tg_loader_config_default();
    config.batch_size = 2;
    config.shuffle = true;
    config.rows = (int64_t[]){2, 0};
    config.row_count = 2;
    return finish_loader(w, tg_loader_new_from_tensors(w->run, (tg_tensor *[]){w->x, w->x}, 2, &config));
}

static bool new_loader_from_lists(world *w)
{
    tg_loader_config config = tg_loader_config_default();
    config.batch_size = 2;
    config.shuffle = true;
    config.pad_id = 9;
    return finish_loader(w, tg_loader_new_from_lists(w->run, (int32_t[]){1, 2, 3}, (int64_t[]){1, 2}, 2, &config));
}

/* A batch that is retained needs other tensors. */
static bool next_batch(world *w)
{
    tg_batch batch;
    if (!tg_loader_next(w->loader, &batch)) {
        assert_null(batch.inputs);
        return false;
    }
    add_tensor(w, batch.inputs);
    add_tensor(w, batch.targets);
    return true;
}

/* ---- tensors ---- */

static bool finish_tensor(world *w, tg_tensor *x)
{
    add_tensor(w, x);
    tg_release(x);
    return x;
}

static bool new_tensor(world *w)
{
    return finish_tensor(w, tg_tensor_new(TG_F32, TG_SHAPE(2, 3), &w->error));
}

static bool new_full(world *w)
{
    return finish_tensor(w, tg_tensor_new_full(TG_F64, TG_SHAPE(2, 3), 7, &w->error));
}

static bool new_from(world *w)
{
    return finish_tensor(w, tg_tensor_new_from(TG_F32, TG_SHAPE(2), (float[]){1, 2}, &w->error));
}

static bool new_arange(world *w)
{
    return finish_tensor(w, tg_tensor_new_arange(TG_I32, 0, 9, 2, &w->error));
}

static bool new_copy(world *w)
{
    return finish_tensor(w, tg_tensor_new_copy(w->permuted, &w->error));
}

static bool search(world *w)
{
    tg_row_neighbor near[8];
    bool is_done = tg_tensor_neighbors(w->permuted, w->permuted, TG_SIMILARITY_COSINE, NULL, 2, near, &w->error);
    for (int i = 0; is_done && i < 8; i++) {
        add_bits(w, &near[i].row, sizeof near[i].row);
    }
    return is_done;
}

static bool correlate(world *w)
{
    double correlation = tg_spearman(w->x, w->x, &w->error);
    bool is_done = correlation == correlation;
    add_bits(w, is_done ? "yes" : "no", 2);
    return is_done;
}

static bool new_cast(world *w)
{
    return finish_tensor(w, tg_tensor_new_cast(w->permuted, TG_F64, &w->error));
}

static bool new_dense_grad(world *w)
{
    return finish_tensor(w, tg_tensor_new_dense_grad(w->x, &w->error));
}

static bool finish_fill(world *w, bool is_filled)
{
    add_tensor(w, w->permuted);
    return is_filled;
}

static bool fill_uniform(world *w)
{
    return finish_fill(w, tg_tensor_fill_uniform(w->permuted, tg_run_rng(w->run), 0, 1, &w->error));
}

static bool fill_normal(world *w)
{
    return finish_fill(w, tg_tensor_fill_normal(w->permuted, tg_run_rng(w->run), 0, 1, &w->error));
}

static bool fill_bernoulli(world *w)
{
    return finish_fill(w, tg_tensor_fill_bernoulli(w->permuted, tg_run_rng(w->run), 0.5, &w->error));
}

static bool fill_randint(world *w)
{
    return finish_fill(w, tg_tensor_fill_randint(w->permuted, tg_run_rng(w->run), 0, 9, &w->error));
}

static bool init_xavier(world *w)
{
    return finish_fill(w, tg_init_xavier_uniform(w->permuted, tg_run_rng(w->run), 1, &w->error));
}

static bool init_xavier_normal(world *w)
{
    return finish_fill(w, tg_init_xavier_normal(w->permuted, tg_run_rng(w->run), 1, &w->error));
}

static bool init_kaiming(world *w)
{
    return finish_fill(w, tg_init_kaiming_uniform(w->permuted, tg_run_rng(w->run), 0, TG_FAN_IN, &w->error));
}

static bool init_kaiming_normal(world *w)
{
    return finish_fill(w, tg_init_kaiming_normal(w->permuted, tg_run_rng(w->run), 0, TG_FAN_IN, &w->error));
}

static bool init_trunc_normal(world *w)
{
    bool is_filled = tg_init_trunc_normal(w->x, tg_run_rng(w->run), 0, 1, -2, 2, &w->error);
    add_tensor(w, w->x);
    return is_filled;
}

static bool print(world *w)
{
    char printed[512] = "";
    FILE *file = fmemopen(printed, sizeof printed, "w");
    bool is_printed = tg_tensor_print(w->x, file, NULL, &w->error);
    fclose(file);
    add_bits(w, printed, strlen(printed));
    return is_printed;
}

static bool freeze_rows(world *w)
{
    bool is_frozen = tg_tensor_set_rows_frozen(w->table, 1, 2, true, &w->error);
    assert_int_equal(tg_tensor_row_is_frozen(w->table, 2), is_frozen);
    return is_frozen;
}

static bool watch_rows(world *w)
{
    bool is_watched = tg_tensor_set_rows_watched(w->table, true, &w->error);
    assert_int_equal(tg_tensor_rows_never_updated(w->table, NULL, 0, NULL), is_watched ? 5 : -1);
    return is_watched;
}

static bool set_shard(world *w)
{
    bool is_shard = tg_tensor_set_shard(w->table, 3, 20, &w->error);
    assert_int_equal(tg_tensor_resize_rows(w->table, 5, NULL), !is_shard);
    return is_shard;
}

static bool resize_rows(world *w)
{
    bool is_resized = tg_tensor_resize_rows(w->embedding.weight, 9, &w->error);
    assert_int_equal(tg_tensor_size(w->embedding.weight, 0), is_resized ? 9 : 5);
    add_tensor(w, w->embedding.weight);
    return is_resized;
}

/* ---- the tape ---- */

static bool new_rng(world *w)
{
    tg_rng *rng = tg_rng_new(1);
    w->error.code = rng ? TG_OK : TG_ERROR_MEMORY; /* it reports nothing else */
    tg_rng_free(rng);
    return rng;
}

static bool new_tape(world *w)
{
    tg_tape *tape = tg_tape_new(w->run, NULL);
    w->error.code = tape ? TG_OK : TG_ERROR_MEMORY;
    tg_tape_free(tape);
    return tape;
}

static bool begin_scope(world *w)
{
    return tg_scope_begin(w->tape);
}

static bool begin_span(world *w)
{
    return tg_activation_checkpoint_begin(w->tape);
}

static bool apply(world *w)
{
    tg_tensor *y = tg_matmul(w->tape, w->x, w->permuted);
    add_tensor(w, y);
    return y;
}

static bool contrast(world *w)
{
    tg_contrastive_loss_config config = tg_contrastive_loss_config_default();
    config.is_symmetric = true;
    tg_tensor *y = tg_contrastive_loss(w->tape, w->x, w->x, w->x, &config);
    add_tensor(w, y);
    return y;
}

static bool drop(world *w)
{
    tg_tensor *y = tg_dropout(w->tape, w->permuted, 0.5);
    add_tensor(w, y);
    return y;
}

static bool run_backward(world *w)
{
    bool is_done = tg_backward(w->tape, w->loss, NULL);
    assert_int_equal(tg_tensor_grad_kind(w->x), is_done ? TG_GRAD_DENSE : TG_GRAD_NONE);
    assert_int_equal(tg_tensor_grad_kind(w->table), is_done ? TG_GRAD_ROWS : TG_GRAD_NONE);
    add_tensor(w, tg_tensor_grad(w->x));
    return is_done;
}

static bool retain_grad(world *w)
{
    return tg_retain_grad(w->tape, w->loss);
}

static tg_tensor *square(tg_tape *tape, tg_tensor *const *inputs, int input_count, void *context)
{
    (void)input_count, (void)context;
    return tg_mul(tape, inputs[0], inputs[0]);
}

static bool gradcheck_params(world *w)
{
    tg_gradcheck_report report = {0};
    tg_gradcheck_config config = tg_gradcheck_config_default();
    config.dtype = TG_F32;
    config.eps = 1e-2;
    config.atol = config.rtol = 1e-2;
    tg_tensor *x = w->x;
    bool passed = tg_gradcheck_params(w->params, square, NULL, &x, 1, &config, &report, &w->error);
    if (passed) {
        add_bits(w, &report.max_absolute_error, sizeof report.max_absolute_error);
    }
    return passed;
}

static bool gradcheck(world *w)
{
    tg_gradcheck_report report = {0};
    tg_tensor *x = tg_tensor_new_cast(w->x, TG_F64, &w->error);
    bool passed = x && tg_tensor_set_requires_grad(x, true, &w->error) &&
                  tg_gradcheck(square, NULL, &x, 1, NULL, &report, &w->error);
    tg_release(x);
    if (passed) {
        add_bits(w, &report.max_absolute_error, sizeof report.max_absolute_error);
    }
    return passed;
}

static bool ledger(world *w)
{
    char lines[512] = "";
    FILE *file = fmemopen(lines, sizeof lines, "w");
    tg_ledger *opened = tg_ledger_open(w->tape, file);
    tg_ledger_close(opened, &w->error);
    fclose(file);
    add_bits(w, lines, opened ? strlen(lines) : 0);
    return opened;
}

static void add_all(void *sum, const void *const *inputs, void *y)
{
    (void)sum;
    double *result = y;
    *result = 0;
    for (int i = 0; i < 12; i++) {
        *result += ((const double *)inputs[0])[i];
    }
}

static void add_all_backward(void *sum, const void *const *inputs, const void *dy, void *const *gradients)
{
    (void)sum, (void)inputs;
    for (int i = 0; i < 12; i++) {
        ((double *)gradients[0])[i] += *(const double *)dy;
    }
}

static bool gradcheck_arrays(world *w)
{
    tg_gradcheck_report report = {0};
    tg_gradcheck_kernels kernels = {add_all, add_all_backward, NULL, TG_SCALAR};
    tg_tensor *x = tg_tensor_new_cast(w->x, TG_F64, &w->error);
    bool passed = x && tg_tensor_set_requires_grad(x, true, &w->error) &&
                  tg_gradcheck_arrays(&kernels, &x, 1, NULL, &report, &w->error);
    tg_release(x);
    if (passed) {
        add_bits(w, &report.max_absolute_error, sizeof report.max_absolute_error);
    }
    return passed;
}

/* The graph of a tape that has recorded the loss. */
static bool graph(world *w)
{
    char lines[4096] = "";
    FILE *file = fmemopen(lines, sizeof lines, "w");
    tg_graph *opened = tg_graph_new(w->tape, NULL);
    bool is_written = opened && tg_graph_write_text(opened, file, &w->error);
    tg_graph_free(opened);
    fclose(file);
    add_bits(w, lines, strlen(lines));
    return is_written;
}

/* ---- params and modules ---- */

static bool new_params(world *w)
{
    tg_params *params = tg_params_new(w->run, TG_F32);
    w->error.code = params ? TG_OK : TG_ERROR_MEMORY;
    tg_params_free(params);
    return params;
}

/* A function that adds to the params: the statement, and whether it has succeeded. */
#define ADDS(name, statement, success) \
    static bool name(world *w)         \
    {                                  \
        statement;                     \
        add_params(w, w->params);      \
        return success;                \
    }

ADDS(add_parameter, tg_tensor *x = tg_params_add(w->params, "new", TG_SHAPE(2, 2)), x)
ADDS(add_normal, tg_tensor *x = tg_params_add_normal(w->params, "new", TG_SHAPE(2, 2), 0, 1), x)
ADDS(add_uniform, tg_tensor *x = tg_params_add_uniform(w->params, "new", TG_SHAPE(2, 2), 0, 1), x)
ADDS(add_buffer, tg_tensor *x = tg_params_add_buffer(w->params, "new", TG_SHAPE(2, 2)), x)
ADDS(make_embedding, tg_nn_embedding m = tg_nn_embedding_make(w->params, "new", 3, 4, NULL), m.module.is_made)
ADDS(make_bag, tg_nn_embedding_bag m = tg_nn_embedding_bag_make(w->params, "new", 3, 4, NULL), m.module.is_made)
ADDS(make_linear, tg_nn_linear m = tg_nn_linear_make(w->params, "new", 3, 4, TG_BIAS), m.module.is_made)
ADDS(make_layer_norm, tg_nn_layer_norm m = tg_nn_layer_norm_make(w->params, "new", 4, NULL), m.module.is_made)
ADDS(make_batch_norm, tg_nn_batch_norm m = tg_nn_batch_norm_make(w->params, "new", 4, NULL), m.module.is_made)
ADDS(make_rms_norm, tg_nn_rms_norm m = tg_nn_rms_norm_make(w->params, "new", 4, NULL), m.module.is_made)
ADDS(make_norm, tg_nn_norm m = tg_nn_norm_make(w->params, "new", 4, TG_NORM_LAYER, 1e-5), m.module.is_made)
ADDS(make_feed_forward,
     tg_nn_feed_forward m = tg_nn_feed_forward_make(w->params, "new", 4, 8, TG_FEED_FORWARD_SWIGLU, NULL),
     m.module.is_made)
ADDS(make_attention, tg_nn_multihead_attention m = tg_nn_multihead_attention_make(w->params, "new", 4, 4, 2, NULL),
     m.module.is_made)
ADDS(make_block, tg_nn_transformer_block m = tg_nn_transformer_block_make(w->params, "new", 4, 2, NULL),
     m.module.is_made)

ADDS(make_encoder_layer,
     tg_nn_transformer_encoder_layer m = tg_nn_transformer_encoder_layer_make(w->params, "new", 4, 2, NULL),
     m.module.is_made)
ADDS(make_decoder_layer,
     tg_nn_transformer_decoder_layer m = tg_nn_transformer_decoder_layer_make(w->params, "new", 4, 2, NULL),
     m.module.is_made)

/* In new params, because those of the world have room for another name. */
static bool add_names(world *w, bool with_alias)
{
    tg_params *params = tg_params_new(w->run, TG_F32);
    tg_params_add_existing(params, "new", w->x);
    if (with_alias) {
        tg_params_add_alias(params, "again", "new");
    }
    w->error.code = tg_params_error(params)->code;
    bool is_added = w->error.code == TG_OK;
    assert_true(!is_added || tg_params_count(params) == 1 + with_alias);
    add_params(w, params);
    tg_params_free(params);
    return is_added;
}

static bool add_existing(world *w)
{
    return add_names(w, false);
}

static bool add_alias(world *w)
{
    return add_names(w, true);
}

/* DeBERTa's positions have the most parameters. */
static bool make_positions(world *w)
{
    tg_nn_positional_config config = tg_nn_positional_config_default();
    config.heads = 2;
    tg_nn_positional m = tg_nn_positional_make(w->params, "new", TG_POSITION_DEBERTA, 6, 4, &config);
    add_params(w, w->params);
    return m.module.is_made;
}

static bool resize_embedding(world *w)
{
    bool is_resized = tg_nn_embedding_resize(&w->embedding, 9);
    assert_int_equal(tg_tensor_size(w->embedding.weight, 0), is_resized ? 9 : 5);
    add_params(w, w->params);
    return is_resized;
}

static bool extend_positions(world *w)
{
    bool is_extended = tg_nn_positional_extend(&w->positional, 9);
    assert_int_equal(tg_tensor_size(w->positional.weight, 0), is_extended ? 9 : 6);
    add_params(w, w->params);
    return is_extended;
}

/* ---- models ---- */

static tg_gpt_config gpt_config(tg_position kind)
{
    tg_gpt_config config = tg_gpt_config_default();
    config.vocabulary = 5;
    config.context = 6;
    config.width = 4;
    config.heads = 2;
    config.layers = 2;
    config.dropout = 0.1;
    config.position = kind;
    return config;
}

static bool new_gpt(world *w)
{
    tg_params *params = tg_params_new(w->run, TG_F32);
    tg_gpt_config config = gpt_config(TG_POSITION_TRANSFORMER_XL);
    tg_gpt *model = tg_gpt_new(params, &config);
    w->error.code = tg_params_error(params)->code;
    assert_true(model || tg_params_count(params) == 0);
    add_params(w, params);
    tg_gpt_free(model);
    tg_params_free(params);
    return model;
}

static bool open_gpt(world *w)
{
    tg_params *params = tg_params_new(w->run, TG_F32);
    tg_gpt_open_config config = tg_gpt_open_config_default();
    config.heads = 4;
    tg_gpt *model = tg_gpt_open(params, TG_TEST_GOLDENS "/hugging_face/tied", &config);
    w->error.code = tg_params_error(params)->code;
    assert_true(model || tg_params_count(params) == 0);
    add_params(w, params);
    tg_gpt_free(model);
    tg_params_free(params);
    return model;
}

static bool read_summary(world *w)
{
    tg_gpt_summary summary = {.values = 0};
    tg_gpt_open_config config = tg_gpt_open_config_default();
    config.heads = 4;
    bool is_read = tg_gpt_read_summary(TG_TEST_GOLDENS "/hugging_face/tied", &summary, &config, &w->error);
    assert_true(is_read || summary.values == 0);
    return is_read;
}

/* A folder with a config.json, and an adapter for it. */
static char folder_of_model[] = "out_of_memory.XXXXXX";

static void prepare_folder(world *w)
{
    tg_gpt_config config = gpt_config(TG_POSITION_ROTARY);
    config.norm = TG_NORM_RMS;
    config.feed_forward = TG_FEED_FORWARD_SWIGLU;
    config.width = 8;
    config.out_bias = false;
    tg_run *run = tg_run_new(1);
    tg_params *params = tg_params_new(run, TG_F32);
    tg_gpt *model = tg_gpt_new(params, &config);
    tg_lora_config lora = tg_lora_config_default();
    lora.rank = 1;
    lora.alpha = 2;
    assert_true(strstr(folder_of_model, "XXXXXX") ? mkdtemp(folder_of_model) != NULL : true);
    assert_true(tg_gpt_save(model, folder_of_model, NULL, &w->error) && tg_gpt_add_lora(model, "*", &lora) &&
                tg_gpt_save_adapter(model, folder_of_model, &w->error));
    tg_gpt_free(model);
    tg_params_free(params);
    tg_run_free(run);
}

static int remove_folder(void **state)
{
    static const char *const names[] = {"model.safetensors", "config.json", "adapter_model.safetensors",
                                        "adapter_config.json"};
    (void)state;
    for (int i = 0; i < 4; i++) {
        char path[60];
        snprintf(path, sizeof path, "%s/%s", folder_of_model, names[i]);
        remove(path);
    }
    return strstr(folder_of_model, "XXXXXX") ? 0 : rmdir(folder_of_model);
}

static bool open_folder(world *w)
{
    tg_params *params = tg_params_new(w->run, TG_F32);
    tg_gpt *model = tg_gpt_open(params, folder_of_model, NULL);
    assert_true(model || tg_params_count(params) == 0);
    int64_t count = tg_params_count(params);
    bool is_done = model && tg_gpt_open_adapter(model, folder_of_model);
    assert_true(is_done || tg_params_count(params) == count);
    if (is_done) {
        is_done = tg_gpt_save_adapter(model, folder_of_model, &w->error);
        add_params(w, params);
    }
    if (tg_params_error(params)->code != TG_OK) {
        w->error.code = tg_params_error(params)->code;
    }
    tg_gpt_free(model);
    tg_params_free(params);
    return is_done;
}

static bool chat(world *w)
{
    tg_gpt_chat_config config = tg_gpt_chat_config_default();
    const tg_gpt_message messages[] = {{"system", "Be brief."}, {"user", "How are you today, and how is the weather?"}};
    config.format = TG_GPT_CHAT_LLAMA3;
    char *made = tg_gpt_chat(messages, 2, &config, &w->error);
    tg_text_free(made);
    return made;
}

static bool save_gpt(world *w)
{
    return tg_gpt_save(w->gpt, ".", NULL, &w->error);
}

static bool resize_vocabulary(world *w)
{
    bool is_resized = tg_gpt_resize_vocabulary(w->gpt, 8);
    assert_int_equal(tg_gpt_get_config(w->gpt)->vocabulary, is_resized ? 8 : 5);
    add_params(w, w->params);
    return is_resized;
}

static bool extend_context(world *w)
{
    bool is_extended = tg_gpt_extend_context(w->gpt, 8);
    assert_int_equal(tg_gpt_get_config(w->gpt)->context, is_extended ? 8 : 6);
    add_params(w, w->params);
    return is_extended;
}

static bool replace_head(world *w)
{
    bool is_replaced = tg_gpt_replace_head(w->gpt, 3);
    add_params(w, w->params);
    return is_replaced;
}

static bool add_lora(world *w)
{
    tg_lora_config config = tg_lora_config_default();
    config.rank = 1;
    config.alpha = 2;
    bool is_added = tg_gpt_add_lora(w->gpt, "*", &config);
    add_params(w, w->params);
    return is_added;
}

static bool merge_lora(world *w)
{
    bool is_merged = tg_gpt_merge_lora(w->gpt);
    add_params(w, w->params);
    return is_merged;
}

static void prepare_lora(world *w)
{
    tg_tape_reset(w->tape);
    assert_true(add_lora(w));
}

static bool lora_of_a_layer(world *w)
{
    tg_run *run = tg_run_new(1); /* so that a failed call does not draw from the world's generator */
    tg_params *params = run ? tg_params_new(run, TG_F32) : NULL;
    tg_nn_linear linear = tg_nn_linear_make(params, "fc", 3, 2, TG_BIAS);
    tg_lora_config config = tg_lora_config_default();
    config.rank = 2;
    config.alpha = 2;
    bool is_done = tg_nn_linear_add_lora(params, &linear, &config) && tg_nn_linear_merge_lora(params, &linear);
    w->error.code = tg_params_error(params)->code;
    tg_params_free(params);
    tg_run_free(run);
    return is_done;
}

static bool hidden_states(world *w)
{
    tg_tensor *hidden = tg_gpt_hidden_states(w->tape, w->gpt, w->ids, NULL);
    add_tensor(w, hidden);
    return hidden;
}

static bool last_logits(world *w)
{
    tg_tensor *logits = tg_gpt_last_logits(w->tape, w->gpt, w->ids, NULL);
    add_tensor(w, logits);
    return logits;
}

static bool forward(world *w)
{
    tg_tensor *logits = tg_gpt_forward(w->tape, w->gpt, w->ids, NULL);
    add_tensor(w, logits);
    return logits;
}

static bool generate_with(world *w, bool use_cache)
{
    tg_generate_config config = tg_generate_config_default();
    config.max_new_tokens = 6;
    config.use_cache = use_cache;
    config.sample.greedy = false;
    config.sample.top_k = 3;
    config.sample.top_p = 0.9;
    int32_t ids[6] = {-1, -1, -1, -1, -1, -1};
    int64_t count = tg_gpt_generate(w->tape, w->gpt, (int32_t[]){1, 2, 3}, 3, ids, &config);
    assert_true(count == 6 || ids[0] == -1);
    add_bits(w, ids, sizeof ids);
    return count == 6;
}

static bool generate_batch(world *w)
{
    tg_generate_config config = tg_generate_config_default();
    config.max_new_tokens = 3;
    config.sample.greedy = false;
    int32_t ids[6] = {-1, -1, -1, -1, -1, -1};
    int64_t counts[2] = {-1, -1};
    bool is_made =
        tg_gpt_generate_batch(w->tape, w->gpt, (int32_t[]){1, 2, 3}, (int64_t[]){1, 2}, 2, ids, counts, &config);
    assert_true(is_made || (ids[0] == -1 && counts[0] == -1));
    add_bits(w, ids, sizeof ids);
    return is_made;
}

static tg_tensor *next_logits(tg_tape *tape, const tg_generate_pass *pass, void *context)
{
    return tg_gpt_last_logits(tape, context, pass->ids, NULL);
}

static bool generate_from_any(world *w)
{
    const tg_gpt_config *gpt = tg_gpt_get_config(w->gpt);
    tg_language_model any = {next_logits, w->gpt, gpt->vocabulary, gpt->context, true};
    tg_generate_config config = tg_generate_config_default();
    config.max_new_tokens = 3;
    config.use_cache = false;
    config.sample.repetition_penalty = 1.3;
    int32_t ids[6] = {-1, -1, -1, -1, -1, -1};
    int64_t counts[2] = {-1, -1};
    bool is_made = tg_generate(w->tape, &any, (int32_t[]){1, 2, 3}, (int64_t[]){1, 2}, 2, ids, counts, &config);
    assert_true(is_made || (ids[0] == -1 && counts[0] == -1));
    add_bits(w, ids, sizeof ids);
    return is_made;
}

static bool generate(world *w)
{
    return generate_with(w, true);
}

static bool generate_without_cache(world *w)
{
    return generate_with(w, false);
}

static bool sample(world *w)
{
    tg_sample_config config = tg_sample_config_default();
    config.greedy = false;
    config.top_k = 3;
    config.top_p = 0.9;
    int32_t id = tg_sample(tg_params_find(w->params, "logits"), tg_run_rng(w->run), &config, &w->error);
    add_bits(w, &id, sizeof id);
    return id >= 0;
}

static bool multinomial(world *w)
{
    tg_tensor *ids = tg_multinomial(w->tape, tg_params_find(w->params, "logits"), 2, true);
    add_tensor(w, ids);
    return ids;
}

static bool save_as(world *w, const tg_params_save_config *config)
{
    int64_t size = 0;
    char *bytes = tg_params_save_bytes(w->params, &size, config, &w->error);
    add_bits(w, bytes, bytes ? (size_t)size : 0);
    tg_text_free(bytes);
    return bytes;
}

static bool save_bytes(world *w)
{
    return save_as(w, NULL);
}

/* The values are converted in a buffer. */
static bool save_halves(world *w)
{
    tg_params_save_config config = tg_params_save_config_default();
    config.floats = TG_SAVE_FLOATS_F16;
    return save_as(w, &config);
}

static bool load_bytes(world *w)
{
    return tg_params_load_bytes(w->params, w->saved, w->saved_size, NULL, &w->error);
}

static bool new_cache(world *w)
{
    tg_kv_cache *cache = tg_kv_cache_new(TG_F32, 2, 1, 2, 6, 4, NULL, &w->error);
    tg_kv_cache_free(cache);
    return cache;
}

static bool new_gpt_cache(world *w)
{
    tg_kv_cache *cache = tg_gpt_new_cache(w->gpt, 2, 3);
    tg_kv_cache_free(cache);
    return cache;
}

/* ---- optimizers ---- */

static bool finish_optim(world *w, tg_optim *optim)
{
    for (int64_t i = 0; tg_optim_state_at(optim, i).tensor; i++) {
        add_tensor(w, tg_optim_state_at(optim, i).tensor);
    }
    tg_optim_free(optim);
    return optim;
}

#define OPTIM(name)                                               \
    static bool new_##name(world *w)                              \
    {                                                             \
        return finish_optim(w, tg_##name##_new(w->params, NULL)); \
    }

OPTIM(sgd)
OPTIM(adam)
OPTIM(adamw)
OPTIM(sparse_adam)
OPTIM(adagrad)
OPTIM(rmsprop)
OPTIM(lion)

/* Matrices alone. */
static bool new_muon(world *w)
{
    tg_params *part = tg_params_new_part(w->params, "*embedding.weight");
    tg_optim *optim = part ? tg_muon_new(part, NULL) : NULL;
    bool is_made = finish_optim(w, optim);
    tg_params_free(part);
    return is_made;
}

static bool add_to_group(world *w)
{
    bool is_added = tg_optim_add_to_group(w->optim, "tables", "embedding.*");
    assert_true(tg_optim_lr(w->optim, "tables") == (is_added ? 1e-3 : 0));
    return is_added;
}

/* As many groups as the first allocation has space for. */
static void prepare_group(world *w)
{
    char name[] = "group 0";
    for (; tg_optim_lr(w->optim, "group 6") == 0; name[6]++) {
        assert_true(tg_optim_add_to_group(w->optim, name, "embedding.*"));
    }
}

/* The moments follow a resized table. */
static bool step(world *w)
{
    bool is_done = tg_optim_step(w->optim);
    add_params(w, w->params);
    return is_done;
}

static void prepare_step(world *w)
{
    tg_tape_reset(w->tape);
    assert_true(tg_tensor_resize_rows(w->embedding.weight, 9, NULL));
    tg_tensor *x = tg_nn_embedding_forward(w->tape, &w->embedding, w->ids);
    assert_true(tg_backward(w->tape, tg_sum(w->tape, x, TG_ALL_AXES, TG_DROP_AXES), NULL));
}

static void prepare_gradient(world *w)
{
    assert_true(tg_backward(w->tape, w->loss, NULL));
}

/* More values than a reduction has in one block: their blocks have scratch, and the backward pass of the variance has
 * some of its own. */
static void prepare_blocks(world *w)
{
    tg_tensor *x = tg_params_add_uniform(w->params, "blocks", TG_SHAPE(20000), 0, 1);
    assert_non_null(x);
    w->loss = tg_var(w->tape, x, TG_ALL_AXES, 1, TG_DROP_AXES);
    assert_non_null(w->loss);
}

static bool sum_blocks(world *w)
{
    tg_tensor *y = tg_sum(w->tape, tg_params_find(w->params, "blocks"), TG_ALL_AXES, TG_DROP_AXES);
    add_tensor(w, y);
    return y;
}

static bool differentiate_blocks(world *w)
{
    bool is_done = tg_backward(w->tape, w->loss, NULL);
    add_tensor(w, tg_tensor_grad(tg_params_find(w->params, "blocks")));
    return is_done;
}

static void prepare_weights(world *w)
{
    assert_true(tg_tensor_fill_uniform(tg_params_find(w->params, "logits"), tg_run_rng(w->run), 0, 1, NULL));
}

static void prepare_bytes(world *w)
{
    w->saved = tg_params_save_bytes(w->params, &w->saved_size, NULL, NULL);
    assert_non_null(w->saved);
}

static void prepare_resize(world *w)
{
    tg_tape_reset(w->tape);
}

/* The batch is recorded, so the loader may not write to its tensors again. */
static void prepare_batch(world *w)
{
    tg_batch batch;
    assert_true(tg_loader_next(w->loader, &batch));
    assert_non_null(tg_embedding(w->tape, batch.inputs, tg_params_find(w->params, "tok_emb.weight"), NULL));
    assert_non_null(tg_embedding(w->tape, batch.targets, tg_params_find(w->params, "tok_emb.weight"), NULL));
}

/* ---- the sweep ---- */

typedef struct sweep {
    const char *function;
    bool (*call)(world *w);
    void (*prepare)(world *w); /* runs before the call, and does not fail */
} sweep;

static const sweep sweeps[] = {
    {"tg_tokenizer_train", train, NULL},
    {"tg_tokenizer_train_files", train_files, NULL},
    {"tg_tokenizer_encode_files", encode_files, NULL},
    {"tg_tokenizer_open", open_tokenizer, NULL},
    {"tg_tokenizer_save", save_tokenizer, NULL},
    {"tg_tokenizer_encode", encode, NULL},
    {"tg_tokenizer_decode", decode, NULL},
    {"tg_text_stream_add", stream_text, NULL},
    {"tg_words_new", new_words, NULL},
    {"tg_words_open", open_words, NULL},
    {"tg_words_save", save_words, NULL},
    {"tg_words_open_vectors", open_vectors, NULL},
    {"tg_words_save_vectors", save_vectors, NULL},
    {"tg_words_encode", encode_words, NULL},
    {"tg_subwords_new", new_subwords, NULL},
    {"tg_subwords_encode", encode_subwords, NULL},
    {"tg_subwords_vector", subwords_vector, NULL},
    {"tg_words_decode", decode_words, NULL},
    {"tg_text_read", read_text, NULL},
    {"tg_token_file_open", open_token_file, NULL},
    {"tg_token_file_write", write_token_file, NULL},
    {"tg_loader_new", new_loader, NULL},
    {"tg_loader_new_from_file", new_loader_from_file, NULL},
    {"tg_loader_new_from_tensors", new_loader_from_tensors, NULL},
    {"tg_loader_new_from_lists", new_loader_from_lists, NULL},
    {"tg_loader_next", next_batch, NULL},
    {"tg_loader_next", next_batch, prepare_batch},
    {"tg_tensor_new", new_tensor, NULL},
    {"tg_tensor_new_full", new_full, NULL},
    {"tg_tensor_new_from", new_from, NULL},
    {"tg_tensor_new_arange", new_arange, NULL},
    {"tg_tensor_new_copy", new_copy, NULL},
    {"tg_tensor_neighbors", search, NULL},
    {"tg_spearman", correlate, NULL},
    {"tg_tensor_new_cast", new_cast, NULL},
    {"tg_tensor_new_dense_grad", new_dense_grad, prepare_gradient},
    {"tg_tensor_fill_uniform", fill_uniform, NULL},
    {"tg_tensor_fill_normal", fill_normal, NULL},
    {"tg_tensor_fill_bernoulli", fill_bernoulli, NULL},
    {"tg_tensor_fill_randint", fill_randint, NULL},
    {"tg_init_xavier_uniform", init_xavier, NULL},
    {"tg_init_xavier_normal", init_xavier_normal, NULL},
    {"tg_init_kaiming_uniform", init_kaiming, NULL},
    {"tg_init_kaiming_normal", init_kaiming_normal, NULL},
    {"tg_init_trunc_normal", init_trunc_normal, NULL},
    {"tg_tensor_print", print, NULL},
    {"tg_tensor_set_rows_frozen", freeze_rows, NULL},
    {"tg_tensor_set_rows_watched", watch_rows, NULL},
    {"tg_tensor_set_shard", set_shard, NULL},
    {"tg_tensor_resize_rows", resize_rows, prepare_resize},
    {"tg_rng_new", new_rng, NULL},
    {"tg_tape_new", new_tape, NULL},
    {"tg_scope_begin", begin_scope, NULL},
    {"tg_activation_checkpoint_begin", begin_span, NULL},
    {"tg_matmul", apply, NULL},
    {"tg_contrastive_loss", contrast, NULL},
    {"tg_dropout", drop, NULL},
    {"tg_sum", sum_blocks, prepare_blocks},
    {"tg_var", differentiate_blocks, prepare_blocks},
    {"tg_backward", run_backward, NULL},
    {"tg_retain_grad", retain_grad, NULL},
    {"tg_gradcheck", gradcheck, NULL},
    {"tg_gradcheck_params", gradcheck_params, NULL},
    {"tg_gradcheck_arrays", gradcheck_arrays, NULL},
    {"tg_ledger_open", ledger, NULL},
    {"tg_graph_new", graph, NULL},
    {"tg_params_new", new_params, NULL},
    {"tg_params_add", add_parameter, NULL},
    {"tg_params_add_normal", add_normal, NULL},
    {"tg_params_add_uniform", add_uniform, NULL},
    {"tg_params_add_existing", add_existing, prepare_resize},
    {"tg_params_add_buffer", add_buffer, NULL},
    {"tg_params_add_alias", add_alias, NULL},
    {"tg_nn_embedding_make", make_embedding, NULL},
    {"tg_nn_embedding_bag_make", make_bag, NULL},
    {"tg_nn_positional_make", make_positions, NULL},
    {"tg_nn_linear_make", make_linear, NULL},
    {"tg_nn_layer_norm_make", make_layer_norm, NULL},
    {"tg_nn_batch_norm_make", make_batch_norm, NULL},
    {"tg_nn_rms_norm_make", make_rms_norm, NULL},
    {"tg_nn_norm_make", make_norm, NULL},
    {"tg_nn_feed_forward_make", make_feed_forward, NULL},
    {"tg_nn_multihead_attention_make", make_attention, NULL},
    {"tg_nn_transformer_block_make", make_block, NULL},
    {"tg_nn_transformer_encoder_layer_make", make_encoder_layer, NULL},
    {"tg_nn_transformer_decoder_layer_make", make_decoder_layer, NULL},
    {"tg_nn_embedding_resize", resize_embedding, prepare_resize},
    {"tg_nn_positional_extend", extend_positions, prepare_resize},
    {"tg_gpt_new", new_gpt, NULL},
    {"tg_gpt_open", open_gpt, NULL},
    {"tg_gpt_open", open_folder, prepare_folder},
    {"tg_gpt_read_summary", read_summary, NULL},
    {"tg_gpt_chat", chat, NULL},
    {"tg_gpt_save", save_gpt, NULL},
    {"tg_gpt_resize_vocabulary", resize_vocabulary, prepare_resize},
    {"tg_gpt_extend_context", extend_context, prepare_resize},
    {"tg_gpt_forward", forward, NULL},
    {"tg_gpt_hidden_states", hidden_states, NULL},
    {"tg_gpt_last_logits", last_logits, NULL},
    {"tg_gpt_replace_head", replace_head, prepare_resize},
    {"tg_gpt_add_lora", add_lora, prepare_resize},
    {"tg_gpt_merge_lora", merge_lora, prepare_lora},
    {"tg_nn_linear_add_lora", lora_of_a_layer, NULL},
    {"tg_nn_linear_merge_lora", lora_of_a_layer, NULL},
    {"tg_gpt_generate", generate, NULL},
    {"tg_gpt_generate", generate_without_cache, NULL},
    {"tg_gpt_generate_batch", generate_batch, NULL},
    {"tg_generate", generate_from_any, NULL},
    {"tg_sample", sample, NULL},
    {"tg_multinomial", multinomial, prepare_weights},
    {"tg_params_save_bytes", save_bytes, NULL},
    {"tg_params_save_bytes", save_halves, NULL},
    {"tg_params_load_bytes", load_bytes, prepare_bytes},
    {"tg_kv_cache_new", new_cache, NULL},
    {"tg_gpt_new_cache", new_gpt_cache, NULL},
    {"tg_sgd_new", new_sgd, NULL},
    {"tg_adam_new", new_adam, NULL},
    {"tg_adamw_new", new_adamw, NULL},
    {"tg_sparse_adam_new", new_sparse_adam, NULL},
    {"tg_adagrad_new", new_adagrad, NULL},
    {"tg_rmsprop_new", new_rmsprop, NULL},
    {"tg_lion_new", new_lion, NULL},
    {"tg_muon_new", new_muon, NULL},
    {"tg_optim_add_to_group", add_to_group, prepare_group},
    {"tg_optim_step", step, prepare_step},
};

static counting_allocator counting;

static world world_new(void)
{
    world w = {.run = tg_run_new(1), .bits = UINT64_C(14695981039346656037)};
    w.params = tg_params_new(w.run, TG_F32);
    w.tape = tg_tape_new(w.run, NULL);
    w.x = leaf(tensor_f32(TG_SHAPE(3, 4), (float[12]){1, 2, -1, 0.5F, 3}));
    w.table = leaf(tensor_f32(TG_SHAPE(5, 4), (float[20]){1, 2, 3, 4, 5, 6, 7, -8, 9, 10}));
    w.ids = tensor_i32(TG_SHAPE(2, 3), (int32_t[]){1, 2, 0, 4, 3, 1});
    w.embedding = tg_nn_embedding_make(w.params, "embedding", 5, 4, NULL);
    w.positional = tg_nn_positional_make(w.params, "positional", TG_POSITION_LEARNED, 6, 4, NULL);
    tg_params_add_normal(w.params, "logits", TG_SHAPE(7), 0, 1);
    tg_gpt_config model = gpt_config(TG_POSITION_LEARNED);
    w.gpt = tg_gpt_new(w.params, &model);
    w.optim = tg_adam_new(w.params, NULL);
    tg_loader_config batches = loader_config();
    batches.batch_size = 1;
    w.loader = tg_loader_new(w.run, (int32_t[]){1, 2, 3, 4, 0, 1, 2}, 7, &batches);
    w.file = tg_token_file_open(bin_path, 2, NULL);
    w.tokenizer = tg_tokenizer_train(text, strlen(text), 280, NULL);
    w.words = tg_words_new(text, strlen(text), NULL, NULL);
    tg_subwords_config subwords = tg_subwords_config_default();
    subwords.buckets = 4;
    w.subwords = tg_subwords_new(w.words, (const int64_t[]){2}, 1, &subwords, NULL);
    w.permuted = tg_transpose(w.tape, w.x, 0, 1);
    w.loss = tg_sum(w.tape, tg_matmul(w.tape, tg_embedding(w.tape, w.ids, w.table, NULL), w.permuted), TG_ALL_AXES,
                    TG_DROP_AXES);
    assert_non_null(w.loss);
    assert_true(w.gpt && w.optim && w.file && tg_params_error(w.params)->code == TG_OK);
    return w;
}

static void world_free(world *w)
{
    tg_tokenizer_free(w->tokenizer);
    tg_words_free(w->words);
    tg_subwords_free(w->subwords);
    tg_text_free(w->saved);
    tg_token_file_free(w->file);
    tg_loader_free(w->loader);
    tg_optim_free(w->optim);
    tg_gpt_free(w->gpt);
    tg_release(w->ids);
    tg_release(w->table);
    tg_release(w->x);
    tg_tape_free(w->tape);
    tg_params_free(w->params);
    tg_run_free(w->run);
    assert_int_equal(counting.live, 0);
}

/* A hash of the generator, the params, the tensors and the tape. */
static uint64_t state_of(world *w)
{
    uint64_t kept = w->bits;
    w->bits = 0;
    uint8_t state[TG_RNG_TORCH_STATE_SIZE];
    tg_rng_save_torch_state(tg_run_rng(w->run), state, NULL);
    add_bits(w, state, sizeof state);
    add_params(w, w->params);
    add_tensor(w, w->x);
    add_tensor(w, w->table);
    tape_stats stats = tape_stats_of(w->tape);
    add_bits(w, &stats.records, sizeof stats.records);
    add_bits(w, &stats.results, sizeof stats.results);
    uint64_t found = w->bits;
    w->bits = kept;
    return found;
}

/* Returns the error that the call has set: its own, or that of an object. */
static tg_code code_of(const world *w)
{
    const tg_error *errors[] = {&w->error, tg_tape_error(w->tape), tg_params_error(w->params), optim_error(w->optim),
                                tg_loader_error(w->loader)};
    tg_code code = TG_OK;
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        code = code == TG_OK ? errors[i]->code : code;
    }
    return code;
}

static void clear_errors(world *w)
{
    tg_error_clear(&w->error);
    clear_tape_error(w->tape);
    clear_params_error(w->params);
    clear_optim_error(w->optim);
    clear_loader_error(w->loader);
}

/* Runs the call with allocation k failing. Returns whether it failed, and adds the bits of its result. */
static bool fails_at(const sweep *s, size_t k, bool later, uint64_t *bits)
{
    world w = world_new();
    if (s->prepare) {
        s->prepare(&w);
    }
    uint64_t before = state_of(&w), unused = w.bits;
    allocator_arm(&counting, k, later);
    bool is_done = s->call(&w);
    bool was_reached = k > 0 && counting.calls >= k;
    allocator_arm(&counting, 0, false);
    if (!is_done) {
        if (!was_reached || code_of(&w) != TG_ERROR_MEMORY) {
            fail_msg("%s, allocation %zu: code %d, \"%s%s%s\"", s->function, k, (int)code_of(&w), w.error.text,
                     tg_tape_error(w.tape)->text, tg_params_error(w.params)->text);
        }
        if (state_of(&w) != before) {
            fail_msg("%s, allocation %zu: the failed call has changed something", s->function, k);
        }
        clear_errors(&w);
        w.bits = unused;
        if (!s->call(&w)) {
            fail_msg("%s, allocation %zu: the second call fails, too", s->function, k);
        }
    }
    *bits = w.bits;
    world_free(&w);
    return was_reached;
}

static void test_sweeps(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof sweeps / sizeof *sweeps; i++) {
        uint64_t expected, bits;
        fails_at(&sweeps[i], 0, false, &expected);
        for (int later = 0; later < 2; later++) {
            size_t k = 1;
            while (fails_at(&sweeps[i], k, later, &bits)) {
                if (bits != expected) {
                    fail_msg("%s, allocation %zu: the second call gives other bits", sweeps[i].function, k);
                }
                k++;
            }
            if (k == 1) {
                fail_msg("%s allocates nothing", sweeps[i].function);
            }
        }
    }
}

int main(void)
{
    tg_tokenizer *tokenizer = tg_tokenizer_train(text, strlen(text), 280, NULL);
    if (!tg_tokenizer_save(tokenizer, bpe_path, TG_VOCABULARY_MERGES, NULL)) {
        return 1;
    }
    tg_tokenizer_free(tokenizer);
    if (!tg_token_file_write(bin_path, 2, (int32_t[]){5, 4, 3, 2, 1, 0, 1, 2, 3}, 9, NULL)) {
        return 1;
    }
    FILE *file = fopen(text_path, "wb");
    if (!file || fputs(text, file) < 0 || fclose(file) != 0) {
        return 1;
    }
    tg_words *words = tg_words_new(text, strlen(text), NULL, NULL);
    if (!tg_words_save(words, words_path, NULL)) {
        return 1;
    }
    tg_words_free(words);
    file = fopen(vectors_path, "wb");
    if (!file || fputs("2 2\na 1 2\nb 3 4\n", file) < 0 || fclose(file) != 0) {
        return 1;
    }
    allocator_install(&counting);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sweeps)};
    int failed = cmocka_run_group_tests_name("out_of_memory", tests, NULL, remove_folder);
    allocator_restore();
    remove(bpe_path);
    remove(bin_path);
    remove(text_path);
    remove(ids_path);
    remove(words_path);
    remove(vectors_path);
    remove("model.safetensors");
    remove("config.json");
    return failed;
}
