/* b: an embedding is a table, and a lookup reads rows of it. */
#include "station.h"

#include <string.h>

enum { ROWS = 6, WIDTH = 3 };

static bool has_same_bits(const tg_tensor *a, const tg_tensor *b)
{
    return memcmp(tg_tensor_data(a), tg_tensor_data(b), sizeof(float) * (size_t)tg_tensor_count(a)) == 0;
}

static bool lookup(const request *r, tg_tape *t, tg_params *params, tg_error *error)
{
    int32_t typed[MOST_IDS];
    int count = read_ids(r, typed, error);
    if (count == 0) {
        return false;
    }
    /* shown: lookup */
    tg_nn_embedding embedding = tg_nn_embedding_make(params, "embedding", ROWS, WIDTH, NULL);
    tg_tensor *ids = tg_constant_i32(t, TG_SHAPE(count), typed);
    tg_tensor *rows = tg_nn_embedding_forward(t, &embedding, ids);
    /* end */
    if (!lookup_is_good(t, ROWS, error)) {
        return false;
    }
    /* shown: one_hot */
    tg_tensor *one_hot = tg_one_hot(t, ids, ROWS, TG_F32);
    tg_tensor *product = tg_matmul(t, one_hot, embedding.weight);
    /* end */
    if (!tape_is_good(t, error)) {
        return false;
    }
    json_key("table");
    json_tensor(embedding.weight, 4);
    json_key("values");
    json_tensor(embedding.weight, -1);
    json_key("bits");
    json_bits(embedding.weight);
    json_key("ids");
    json_tensor(ids, 0);
    json_key("rows");
    json_tensor(rows, 4);
    json_key("one_hot");
    json_open('[');
    for (int i = 0; i < count; i++) {
        json_open('[');
        for (int k = 0; k < ROWS; k++) {
            json_int((int64_t)tg_tensor_value_at(one_hot, i * ROWS + k));
        }
        json_close(']');
    }
    json_close(']');
    json_key("product");
    json_tensor(product, 4);
    json_key("same_bits");
    json_bool(has_same_bits(rows, product));
    json_key("ids_shape");
    json_shape(tg_tensor_shape(ids));
    json_key("table_shape");
    json_shape(tg_tensor_shape(embedding.weight));
    json_key("rows_shape");
    json_shape(tg_tensor_shape(rows));
    json_key("one_hot_shape");
    json_shape(tg_tensor_shape(one_hot));
    json_key("numbers_read");
    json_int(tg_tensor_count(rows));
    json_key("multiplications");
    json_int(tg_tensor_count(one_hot) * WIDTH);
    return true;
}

/* A batch of 8 windows of 4 ids of the story: (8,4) -> (8,4,256). */
static bool batch(tg_tape *t, tg_params *params, tg_run *run, tg_error *error)
{
    size_t length;
    const char *story = lighthouse_text(&length);
    tg_tokenizer *bpe = lighthouse_tokenizer(error);
    tg_tokens tokens;
    if (!bpe || !tg_tokenizer_encode(bpe, story, length, false, &tokens, error)) {
        return false;
    }
    /* shown: batch */
    tg_loader_config windows = tg_loader_config_default();
    windows.context = 4;
    windows.stride = 4;
    windows.batch_size = 8;
    tg_loader *loader = tg_loader_new(run, tokens.ids, tokens.count, &windows);
    tg_nn_embedding embedding = tg_nn_embedding_make(params, "tok_emb", tg_tokenizer_vocabulary(bpe), 256, NULL);
    tg_batch b;
    tg_loader_next(loader, &b);
    tg_tensor *rows = tg_nn_embedding_forward(t, &embedding, b.inputs);
    /* end */
    bool good = tape_is_good(t, error);
    if (good) {
        json_key("ids");
        json_tensor(b.inputs, 0);
        json_key("tokens");
        json_open('[');
        for (int64_t i = 0; i < tg_tensor_count(b.inputs); i++) {
            json_token(bpe, (int32_t)tg_tensor_value_at(b.inputs, i));
        }
        json_close(']');
        json_key("ids_shape");
        json_shape(tg_tensor_shape(b.inputs));
        json_key("table_shape");
        json_shape(tg_tensor_shape(embedding.weight));
        json_key("rows_shape");
        json_shape(tg_tensor_shape(rows));
        json_key("ids_count");
        json_int(tg_tensor_count(b.inputs));
        json_key("numbers");
        json_int(tg_tensor_count(rows));
        json_key("table_numbers");
        json_int(tg_tensor_count(embedding.weight));
        json_key("bits");
        json_bits(rows);
    }
    tg_tape_reset(t);
    tg_loader_free(loader);
    tg_tokens_free(&tokens);
    return good;
}

bool station_table(const request *r, tg_error *error)
{
    tg_run *run = tg_run_new(123);
    tg_params *params = tg_params_new(run, TG_F32);
    tg_tape *t = station_tape(run);
    bool good = strcmp(r->name, "lookup") == 0  ? lookup(r, t, params, error)
                : strcmp(r->name, "batch") == 0 ? batch(t, params, run, error)
                                                : refuse(error, "b.%s: unknown request", r->name);
    tg_tape_free(t);
    tg_params_free(params);
    tg_run_free(run);
    return good;
}
