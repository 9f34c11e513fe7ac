/* programs: whole training programs, by which a special case for speed is judged (tests/bench/special_cases.md).
 *
 *     programs                the names
 *     programs NAME [STEPS]   runs two steps, then STEPS more, and prints the seconds of these
 *
 * They use the public headers alone, so that one executable runs with the library before a change and after it
 * (tests/bench/compare_programs). The last group is written from elementary ops: it feels reductions and broadcasting.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <tapegrad.h>
#include <tapegrad/gradcheck.h>
#include <tapegrad/tokenizer.h>

/* What a program needs; `model` is its own, the rest is shared. */
typedef struct program {
    tg_run *run;
    tg_params *params;
    tg_tape *tape;
    tg_optim *optim;
    tg_tensor *ids, *targets, *x, *weight[4];
    tg_gpt *gpt;
    tg_nn_embedding tokens;
    tg_nn_lstm lstm;
    tg_nn_gru gru;
    tg_nn_linear head;
    tg_nn_transformer_block block;
    tg_tokenizer *tokenizer;
    char *text;
} program;

static void must(bool good, const tg_error *error)
{
    if (!good) {
        fprintf(stderr, "programs: %s\n", error->text);
        exit(1);
    }
}

static tg_tensor *ids_of(program *p, tg_shape shape, int64_t below)
{
    tg_error error = {0};
    tg_tensor *ids = tg_tensor_new(TG_I32, shape, &error);
    must(ids && tg_tensor_fill_randint(ids, tg_run_rng(p->run), 0, below, &error), &error);
    return ids;
}

static tg_tensor *normal_of(program *p, tg_dtype dtype, tg_shape shape)
{
    tg_error error = {0};
    tg_tensor *x = tg_tensor_new(dtype, shape, &error);
    must(x && tg_tensor_fill_normal(x, tg_run_rng(p->run), 0, 1, &error), &error);
    return x;
}

/* The rest of a step. */
static void train(program *p, tg_tensor *loss)
{
    tg_optim_zero_grad(p->optim);
    tg_backward(p->tape, loss, NULL);
    must(tg_optim_step(p->optim), tg_run_error(p->run));
    tg_tape_reset(p->tape);
}

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
    p->ids = ids_of(p, TG_SHAPE(texts, context), config.vocabulary);
    p->targets = ids_of(p, TG_SHAPE(texts, context), config.vocabulary);
}

static void step_gpt(program *p)
{
    train(p, tg_cross_entropy(p->tape, tg_gpt_forward(p->tape, p->gpt, p->ids, NULL), p->targets, NULL));
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
    must(tg_gpt_generate(p->tape, p->gpt, tg_tensor_data(p->ids), 250, ids, &config) == 16, tg_run_error(p->run));
}

enum { WORDS = 2000, WIDTH = 128 };

static void make_recurrent(program *p)
{
    p->tokens = tg_nn_embedding_make(p->params, "tokens", WORDS, WIDTH, NULL);
    p->head = tg_nn_linear_make(p->params, "head", WIDTH, WORDS, TG_BIAS);
    p->ids = ids_of(p, TG_SHAPE(16, 32), WORDS);
    p->targets = ids_of(p, TG_SHAPE(16, 32), WORDS);
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
    train(p, tg_cross_entropy(p->tape, tg_nn_linear_forward(p->tape, &p->head, hidden), p->targets, NULL));
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
    p->ids = ids_of(p, TG_SHAPE(1024), 50257);
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
    must(tg_tensor_fill_randint(p->ids, tg_run_rng(p->run), 0, 50257, NULL), tg_run_error(p->run));
    train(p, tg_mean_all(p->tape, tg_embedding(p->tape, p->ids, p->weight[0], NULL)));
}

static void make_word2vec(program *p)
{
    p->weight[0] = tg_params_add_normal(p->params, "table", TG_SHAPE(20000, 128), 0, 0.1);
    p->weight[1] = tg_params_add_normal(p->params, "contexts", TG_SHAPE(20000, 128), 0, 0.1);
    p->ids = ids_of(p, TG_SHAPE(1024), 20000);
    p->targets = ids_of(p, TG_SHAPE(1024, 6), 20000);
    p->optim = tg_sgd_new(p->params, NULL);
}

static void step_word2vec(program *p)
{
    train(p, tg_skip_gram_loss(p->tape, p->ids, p->weight[0], p->targets, p->weight[1], TG_REDUCTION_MEAN));
}

/* ---- a gradient check, a tokenizer ---- */

static void make_check(program *p)
{
    tg_error error = {0};
    tg_params_free(p->params);
    p->params = tg_params_new(p->run, TG_F64);
    p->block = tg_nn_transformer_block_make(p->params, "block", 16, 2, NULL);
    p->x = normal_of(p, TG_F64, TG_SHAPE(1, 6, 16));
    must(tg_tensor_set_requires_grad(p->x, true, &error), &error);
}

static tg_tensor *block_forward(tg_tape *tape, tg_tensor *const *inputs, int count, void *block)
{
    (void)count;
    return tg_nn_transformer_block_forward(tape, block, inputs[0], NULL);
}

static void step_check(program *p)
{
    tg_error error = {0};
    must(tg_gradcheck_params(p->params, block_forward, &p->block, &p->x, 1, NULL, NULL, &error), &error);
}

/* A text of words of 1 to 8 letters, of which few are frequent. */
static void make_text(program *p)
{
    enum { LENGTH = 200000 };
    p->text = malloc(LENGTH + 1);
    must(p->text, &(tg_error){.text = "out of memory"});
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
    must(tokenizer, &error);
    tg_tokenizer_free(tokenizer);
}

static void make_bpe_encoding(program *p)
{
    tg_error error = {0};
    make_text(p);
    p->tokenizer = tg_tokenizer_train(p->text, strlen(p->text), 400, &error);
    must(p->tokenizer, &error);
}

static void step_bpe_encoding(program *p)
{
    tg_error error = {0};
    tg_tokens tokens = {0};
    must(tg_tokenizer_encode(p->tokenizer, p->text, strlen(p->text), false, &tokens, &error), &error);
    tg_tokens_free(&tokens);
}

/* ---- programs from elementary ops ---- */

/* The mean of each text's vectors, without its padding: mul by a mask, sum over the middle axis, div by the counts. */
static void make_bag(program *p)
{
    tg_error error = {0};
    p->tokens = tg_nn_embedding_make(p->params, "tokens", WORDS, 64, NULL);
    p->head = tg_nn_linear_make(p->params, "head", 64, 4, TG_BIAS);
    p->ids = ids_of(p, TG_SHAPE(64, 40), WORDS);
    p->targets = ids_of(p, TG_SHAPE(64), 4);
    p->x = tg_tensor_new(TG_F32, TG_SHAPE(64, 40, 1), &error);
    must(p->x && tg_tensor_fill_bernoulli(p->x, tg_run_rng(p->run), 0.7, &error), &error);
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
    train(p, tg_mean_all(t, tg_sub(t, tg_logsumexp(t, logits, TG_AXES(-1), TG_DROP_AXES), same)));
}

/* One layer of attention and its norm. */
static void make_attention(program *p)
{
    static const char *const names[] = {"q", "k", "v", "out"};
    for (int i = 0; i < 4; i++) {
        p->weight[i] = tg_params_add_normal(p->params, names[i], TG_SHAPE(64, 64), 0, 0.1);
    }
    p->x = normal_of(p, TG_F32, TG_SHAPE(8, 64, 64));
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
    train(p, tg_mean_all(t, tg_mul(t, y, y)));
}

/* A cell over 16 positions. */
static void make_cell(program *p)
{
    p->weight[0] = tg_params_add_normal(p->params, "input", TG_SHAPE(256, 64), 0, 0.1);
    p->weight[1] = tg_params_add_normal(p->params, "hidden", TG_SHAPE(256, 64), 0, 0.1);
    p->weight[2] = tg_params_add(p->params, "bias", TG_SHAPE(256));
    p->x = normal_of(p, TG_F32, TG_SHAPE(16, 16, 64));
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
    train(p, tg_mean_all(t, tg_mul(t, h, h)));
}

/* ---- the list ---- */

/* `steps` take about half a second. */
static const struct {
    const char *name;
    void (*make)(program *p), (*step)(program *p);
    int steps;
} list[] = {
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
};

/* Callgrind counts from here ... */
static __attribute__((noinline)) void begin(void)
{
    __asm__ volatile("");
}

/* ... to here. Not the same text, of which the compiler would make one function. */
static __attribute__((noinline)) void end(void)
{
    __asm__ volatile("" ::: "memory");
}

static void run(int i, int steps)
{
    tg_set_threads(1, NULL);
    program p = {.run = tg_run_new(123)};
    p.params = tg_params_new(p.run, TG_F32);
    p.tape = tg_tape_new(p.run, NULL);
    must(p.tape, &(tg_error){.text = "out of memory"});
    list[i].make(&p);
    must(!tg_run_error(p.run)->code, tg_run_error(p.run));
    for (int warm = 0; warm < 2; warm++) {
        list[i].step(&p);
    }
    clock_t before = clock();
    begin();
    for (int step = 0; step < steps; step++) {
        list[i].step(&p);
    }
    end();
    printf("%.6f\n", (double)(clock() - before) / CLOCKS_PER_SEC);
    tg_optim_free(p.optim);
    tg_tape_free(p.tape);
    tg_gpt_free(p.gpt);
    tg_tokenizer_free(p.tokenizer);
    free(p.text);
    tg_release(p.ids);
    tg_release(p.targets);
    tg_release(p.x);
    tg_params_free(p.params);
    tg_run_free(p.run);
}

int main(int argc, char **argv)
{
    for (int i = 0; i < (int)(sizeof list / sizeof list[0]); i++) {
        if (argc < 2) {
            puts(list[i].name);
        } else if (strcmp(argv[1], list[i].name) == 0) {
            run(i, argc > 2 ? atoi(argv[2]) : list[i].steps);
            return 0;
        }
    }
    if (argc > 1) {
        fprintf(stderr, "programs: %s is no name; without arguments the names are printed\n", argv[1]);
    }
    return argc > 1 ? 2 : 0;
}
