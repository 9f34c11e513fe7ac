/* Programs of small models, tables and vocabularies. The last group is written from elementary ops: it feels reductions
 * and broadcasting. */
#include <stdlib.h>
#include <string.h>

#include <tapegrad.h>
#include <tapegrad/gradcheck.h>
#include <tapegrad/tokenizer.h>

#include "bench/program.h"

/* ---- language models of layers and modules ---- */

static void make_gpt(program *p, tg_position position, int64_t texts, int64_t context, int64_t width, int layers)
{
    tg_gpt_config config = tg_gpt_config_default();
    config.vocabulary = width == 768 ? 50257 : 1024;
    config.context = context;
    config.width = width;
    config.heads = width == 768 ? 12 : 4;
    config.layers = layers;
    config.dropout = 0.1;
    config.position = position;
    p->gpt = tg_gpt_new(p->params, &config);
    p->optim = tg_adamw_new(p->params, NULL);
    p->ids = program_ids(p, TG_SHAPE(texts, context), config.vocabulary);
    p->targets = program_ids(p, TG_SHAPE(texts, context), config.vocabulary);
}

static void step_gpt(program *p)
{
    program_train(p, tg_cross_entropy(p->tape, tg_gpt_forward(p->tape, p->gpt, p->ids, NULL), p->targets, NULL));
}

static void make_learned(program *p)
{
    make_gpt(p, TG_POSITION_LEARNED, 8, 64, 128, 4);
}

static void make_rotary(program *p)
{
    make_gpt(p, TG_POSITION_ROTARY, 8, 64, 128, 4);
}

static void make_alibi(program *p)
{
    make_gpt(p, TG_POSITION_ALIBI, 8, 64, 128, 4);
}

static void make_t5(program *p)
{
    make_gpt(p, TG_POSITION_T5, 8, 64, 128, 4);
}

static void make_shaw(program *p)
{
    make_gpt(p, TG_POSITION_SHAW, 8, 64, 128, 4);
}

static void make_transformer_xl(program *p)
{
    make_gpt(p, TG_POSITION_TRANSFORMER_XL, 8, 64, 128, 4);
}

static void make_deberta(program *p)
{
    make_gpt(p, TG_POSITION_DEBERTA, 8, 64, 128, 4);
}

static void make_512(program *p)
{
    make_gpt(p, TG_POSITION_LEARNED, 1, 512, 128, 4);
}

static void make_gpt2_64(program *p)
{
    make_gpt(p, TG_POSITION_LEARNED, 1, 64, 768, 12);
}

static void make_gpt2_512(program *p)
{
    make_gpt(p, TG_POSITION_LEARNED, 1, 512, 768, 12);
}

/* Continues 250 tokens by 16. */
static void make_next_token(program *p)
{
    make_gpt(p, TG_POSITION_LEARNED, 1, 512, 768, 12);
}

static void step_next_token(program *p)
{
    int32_t ids[16];
    tg_generate_config config = tg_generate_config_default();
    config.max_new_tokens = 16;
    config.sample.greedy = true;
    program_must(tg_gpt_generate(p->tape, p->gpt, tg_tensor_data(p->ids), 250, ids, &config) == 16,
                 tg_run_error(p->run));
}

enum { WORDS = 2000, WIDTH = 128 };

static void make_recurrent(program *p)
{
    p->tokens = tg_nn_embedding_make(p->params, "tokens", WORDS, WIDTH, NULL);
    p->head = tg_nn_linear_make(p->params, "head", WIDTH, WORDS, TG_BIAS);
    p->ids = program_ids(p, TG_SHAPE(16, 32), WORDS);
    p->targets = program_ids(p, TG_SHAPE(16, 32), WORDS);
}

static void make_lstm(program *p)
{
    make_recurrent(p);
    p->lstm = tg_nn_lstm_make(p->params, "lstm", WIDTH, WIDTH, NULL);
    p->optim = tg_adam_new(p->params, NULL);
}

static void make_gru(program *p)
{
    make_recurrent(p);
    p->gru = tg_nn_gru_make(p->params, "gru", WIDTH, WIDTH, NULL);
    p->optim = tg_adam_new(p->params, NULL);
}

static void predict(program *p, tg_tensor *hidden)
{
    program_train(p, tg_cross_entropy(p->tape, tg_nn_linear_forward(p->tape, &p->head, hidden), p->targets, NULL));
}

static void step_lstm(program *p)
{
    tg_tensor *x = tg_nn_embedding_forward(p->tape, &p->tokens, p->ids);
    predict(p, tg_nn_lstm_forward(p->tape, &p->lstm, x, NULL, NULL, NULL));
}

static void step_gru(program *p)
{
    tg_tensor *x = tg_nn_embedding_forward(p->tape, &p->tokens, p->ids);
    predict(p, tg_nn_gru_forward(p->tape, &p->gru, x, NULL, NULL));
}

/* ---- tables ---- */

static void make_table(program *p)
{
    p->weight[0] = tg_params_add_normal(p->params, "table", TG_SHAPE(50257, 256), 0, 1);
    p->ids = program_ids(p, TG_SHAPE(1024), 50257);
}

static void make_table_sgd(program *p)
{
    make_table(p);
    p->optim = tg_sgd_new(p->params, NULL);
}

static void make_table_sparse_adam(program *p)
{
    make_table(p);
    p->optim = tg_sparse_adam_new(p->params, NULL);
}

static void make_table_deferred(program *p)
{
    tg_adamw_config config = tg_adamw_config_default();
    config.deferred = true;
    make_table(p);
    p->optim = tg_adamw_new(p->params, &config);
}

static void step_table(program *p)
{
    program_must(tg_tensor_fill_randint(p->ids, tg_run_rng(p->run), 0, 50257, NULL), tg_run_error(p->run));
    program_train(p, tg_mean_all(p->tape, tg_embedding(p->tape, p->ids, p->weight[0], NULL)));
}

static void make_word2vec(program *p)
{
    p->weight[0] = tg_params_add_normal(p->params, "table", TG_SHAPE(20000, 128), 0, 0.1);
    p->weight[1] = tg_params_add_normal(p->params, "contexts", TG_SHAPE(20000, 128), 0, 0.1);
    p->ids = program_ids(p, TG_SHAPE(1024), 20000);
    p->targets = program_ids(p, TG_SHAPE(1024, 6), 20000);
    p->optim = tg_sgd_new(p->params, NULL);
}

static void step_word2vec(program *p)
{
    program_train(p, tg_skip_gram_loss(p->tape, p->ids, p->weight[0], p->targets, p->weight[1], TG_REDUCTION_MEAN));
}

/* ---- a gradient check, a tokenizer ---- */

static void make_check(program *p)
{
    tg_error error = {0};
    tg_params_free(p->params);
    p->params = tg_params_new(p->run, TG_F64);
    p->block = tg_nn_transformer_block_make(p->params, "block", 16, 2, NULL);
    p->x = program_normal(p, TG_F64, TG_SHAPE(1, 6, 16));
    program_must(tg_tensor_set_requires_grad(p->x, true, &error), &error);
}

static tg_tensor *block_forward(tg_tape *tape, tg_tensor *const *inputs, int count, void *block)
{
    (void)count;
    return tg_nn_transformer_block_forward(tape, block, inputs[0], NULL);
}

static void step_check(program *p)
{
    tg_error error = {0};
    program_must(tg_gradcheck_params(p->params, block_forward, &p->block, &p->x, 1, NULL, NULL, &error), &error);
}

/* A text of words of 1 to 8 letters, of which few are frequent. */
static void make_text(program *p)
{
    enum { LENGTH = 200000 };
    p->text = malloc(LENGTH + 1);
    program_must(p->text, &(tg_error){.text = "out of memory"});
    uint32_t state = 1;
    for (int i = 0; i < LENGTH; i++) {
        state = state * 1664525u + 1013904223u;
        uint32_t draw = state >> 24;
        p->text[i] = draw < 50 ? ' ' : (char)('a' + draw * draw % 26);
    }
    p->text[LENGTH] = '\0';
}

static void step_bpe_training(program *p)
{
    tg_error error = {0};
    tg_tokenizer *tokenizer = tg_tokenizer_train(p->text, strlen(p->text), 400, &error);
    program_must(tokenizer, &error);
    tg_tokenizer_free(tokenizer);
}

static void make_bpe_encoding(program *p)
{
    tg_error error = {0};
    make_text(p);
    p->tokenizer = tg_tokenizer_train(p->text, strlen(p->text), 400, &error);
    program_must(p->tokenizer, &error);
}

static void step_bpe_encoding(program *p)
{
    tg_error error = {0};
    tg_tokens tokens = {0};
    program_must(tg_tokenizer_encode(p->tokenizer, p->text, strlen(p->text), false, &tokens, &error), &error);
    tg_tokens_free(&tokens);
}

/* ---- programs from elementary ops ---- */

/* The mean of each text's vectors, without its padding: mul by a mask, sum over the middle axis, div by the counts. */
static void make_bag(program *p)
{
    tg_error error = {0};
    p->tokens = tg_nn_embedding_make(p->params, "tokens", WORDS, 64, NULL);
    p->head = tg_nn_linear_make(p->params, "head", 64, 4, TG_BIAS);
    p->ids = program_ids(p, TG_SHAPE(64, 40), WORDS);
    p->targets = program_ids(p, TG_SHAPE(64), 4);
    p->x = tg_tensor_new(TG_F32, TG_SHAPE(64, 40, 1), &error);
    program_must(p->x && tg_tensor_fill_bernoulli(p->x, tg_run_rng(p->run), 0.7, &error), &error);
    p->optim = tg_adam_new(p->params, NULL);
}

static void step_bag(program *p)
{
    tg_tape *t = p->tape;
    tg_tensor *x = tg_mul(t, tg_nn_embedding_forward(t, &p->tokens, p->ids), p->x);
    tg_tensor *sum = tg_sum(t, x, TG_AXES(1), TG_DROP_AXES);
    tg_tensor *mean = tg_div(t, sum, tg_sum(t, p->x, TG_AXES(1), TG_DROP_AXES));
    predict(p, mean);
}

/* Vectors of unit length, similarities, and for each row the log of its softmax at the diagonal. */
static void make_contrast(program *p)
{
    p->weight[0] = tg_params_add_normal(p->params, "a", TG_SHAPE(256, 64), 0, 1);
    p->weight[1] = tg_params_add_normal(p->params, "b", TG_SHAPE(256, 64), 0, 1);
    p->optim = tg_adam_new(p->params, NULL);
}

static tg_tensor *unit(tg_tape *t, tg_tensor *x)
{
    return tg_div(t, x, tg_norm(t, x, 2, TG_AXES(-1), TG_KEEP_AXES));
}

static void step_contrast(program *p)
{
    tg_tape *t = p->tape;
    tg_tensor *a = unit(t, p->weight[0]), *b = unit(t, p->weight[1]);
    tg_tensor *logits = tg_mul_scalar(t, tg_matmul(t, a, tg_transpose(t, b, 0, 1)), 20);
    tg_tensor *same = tg_mul_scalar(t, tg_sum(t, tg_mul(t, a, b), TG_AXES(-1), TG_DROP_AXES), 20);
    program_train(p, tg_mean_all(t, tg_sub(t, tg_logsumexp(t, logits, TG_AXES(-1), TG_DROP_AXES), same)));
}

/* One layer of attention and its norm. */
static void make_attention(program *p)
{
    static const char *const names[] = {"q", "k", "v", "out"};
    for (int i = 0; i < 4; i++) {
        p->weight[i] = tg_params_add_normal(p->params, names[i], TG_SHAPE(64, 64), 0, 0.1);
    }
    p->x = program_normal(p, TG_F32, TG_SHAPE(8, 64, 64));
    p->optim = tg_adam_new(p->params, NULL);
}

static void step_attention(program *p)
{
    tg_tape *t = p->tape;
    tg_tensor *centered = tg_sub(t, p->x, tg_mean(t, p->x, TG_AXES(-1), TG_KEEP_AXES));
    tg_tensor *variance = tg_mean(t, tg_mul(t, centered, centered), TG_AXES(-1), TG_KEEP_AXES);
    tg_tensor *x = tg_div(t, centered, tg_sqrt(t, tg_add_scalar(t, variance, 1e-5)));
    tg_tensor *q = tg_matmul(t, x, p->weight[0]), *k = tg_matmul(t, x, p->weight[1]);
    tg_tensor *scores = tg_mul_scalar(t, tg_matmul(t, q, tg_transpose(t, k, 1, 2)), 0.125);
    tg_tensor *e = tg_exp(t, tg_sub(t, scores, tg_amax(t, scores, TG_AXES(-1), TG_KEEP_AXES)));
    tg_tensor *weights = tg_div(t, e, tg_sum(t, e, TG_AXES(-1), TG_KEEP_AXES));
    tg_tensor *y = tg_matmul(t, tg_matmul(t, weights, tg_matmul(t, x, p->weight[2])), p->weight[3]);
    program_train(p, tg_mean_all(t, tg_mul(t, y, y)));
}

/* A cell over 16 positions. */
static void make_cell(program *p)
{
    p->weight[0] = tg_params_add_normal(p->params, "input", TG_SHAPE(256, 64), 0, 0.1);
    p->weight[1] = tg_params_add_normal(p->params, "hidden", TG_SHAPE(256, 64), 0, 0.1);
    p->weight[2] = tg_params_add(p->params, "bias", TG_SHAPE(256));
    p->x = program_normal(p, TG_F32, TG_SHAPE(16, 16, 64));
    p->optim = tg_adam_new(p->params, NULL);
}

static void step_cell(program *p)
{
    tg_tape *t = p->tape;
    tg_tensor *h = tg_full(t, TG_F32, TG_SHAPE(16, 64), 0), *c = h;
    for (int i = 0; i < 16; i++) {
        tg_tensor *parts[4], *x = tg_select(t, p->x, 1, i);
        tg_tensor *z = tg_add(t, tg_linear(t, x, p->weight[0], p->weight[2]), tg_linear(t, h, p->weight[1], NULL));
        tg_split(t, z, 64, 1, parts, 4);
        c = tg_add(t, tg_mul(t, tg_sigmoid(t, parts[0]), tg_tanh(t, parts[1])), tg_mul(t, tg_sigmoid(t, parts[2]), c));
        h = tg_mul(t, tg_sigmoid(t, parts[3]), tg_tanh(t, c));
    }
    program_train(p, tg_mean_all(t, tg_mul(t, h, h)));
}

/* ---- the list ---- */

const program_row small_programs[] = {
    {"gpt", make_learned, step_gpt, 10},
    {"gpt_rotary", make_rotary, step_gpt, 10},
    {"gpt_alibi", make_alibi, step_gpt, 10},
    {"gpt_t5", make_t5, step_gpt, 10},
    {"gpt_shaw", make_shaw, step_gpt, 10},
    {"gpt_transformer_xl", make_transformer_xl, step_gpt, 10},
    {"gpt_deberta", make_deberta, step_gpt, 10},
    {"gpt_512", make_512, step_gpt, 10},
    {"gpt2_64", make_gpt2_64, step_gpt, 2},
    {"gpt2_512", make_gpt2_512, step_gpt, 1},
    {"gpt2_next_token", make_next_token, step_next_token, 1},
    {"lstm", make_lstm, step_lstm, 20},
    {"gru", make_gru, step_gru, 20},
    {"word2vec", make_word2vec, step_word2vec, 200},
    {"table_sgd", make_table_sgd, step_table, 500},
    {"table_sparse_adam", make_table_sparse_adam, step_table, 300},
    {"table_deferred_adamw", make_table_deferred, step_table, 200},
    {"gradcheck", make_check, step_check, 1},
    {"bpe_training", make_text, step_bpe_training, 4},
    {"bpe_encoding", make_bpe_encoding, step_bpe_encoding, 10},
    {"bag_by_ops", make_bag, step_bag, 200},
    {"contrast_by_ops", make_contrast, step_contrast, 200},
    {"attention_by_ops", make_attention, step_attention, 100},
    {"lstm_by_ops", make_cell, step_cell, 50},
    {NULL, NULL, NULL, 0},
};
