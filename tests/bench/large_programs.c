/* Programs of models at the sizes that people train, of checks and second derivatives, and of a table in a file. */
#include <math.h>
#include <stdio.h>

#include <tapegrad.h>
#include <tapegrad/gradcheck.h>

#include "bench/decoder.h"
#include "bench/program.h"

/* ---- steps of GPT-2 small and of a Llama with SmolLM2-135M's sizes, and LoRA ---- */

enum { BATCH = 2, LENGTH = 256 };

static void make_ids(program *p)
{
    const int64_t vocabulary = tg_gpt_get_config(p->gpt)->vocabulary;
    p->ids = program_ids(p, TG_SHAPE(BATCH, LENGTH), vocabulary);
    p->targets = program_ids(p, TG_SHAPE(BATCH, LENGTH), vocabulary);
    p->optim = tg_adamw_new(p->params, NULL);
}

static void make_gpt2(program *p, int64_t context)
{
    tg_error error = {0};
    tg_gpt_config config;
    program_must(tg_gpt_config_from_name("gpt2-small", &config, &error), &error);
    config.context = context;
    p->gpt = tg_gpt_new(p->params, &config);
}

static void make_llama(program *p)
{
    tg_gpt_config config;
    bench_decoder("135m", &config);
    p->gpt = tg_gpt_new(p->params, &config);
}

static void make_gpt2_step(program *p)
{
    make_gpt2(p, LENGTH);
    make_ids(p);
}

static void make_llama_step(program *p)
{
    make_llama(p);
    make_ids(p);
}

static void make_llama_lora(program *p)
{
    tg_lora_config lora = tg_lora_config_default();
    lora.rank = 8;
    lora.alpha = 16;
    make_llama(p);
    program_must(tg_params_set_frozen(p->params, "*", true) && tg_gpt_add_lora(p->gpt, "trf_blocks.*", &lora),
                 tg_run_error(p->run));
    make_ids(p);
}

static void step_model(program *p)
{
    program_train(p, tg_cross_entropy(p->tape, tg_gpt_forward(p->tape, p->gpt, p->ids, NULL), p->targets, NULL));
}

/* ---- one block ---- */

/* The position of a Llama's block has no parameters, and the attention keeps a copy. */
static void make_llama_block_of(program *p, int64_t width, int64_t heads, int64_t key_heads, int64_t hidden)
{
    tg_nn_positional_config rotary = tg_nn_positional_config_default();
    rotary.heads = heads;
    tg_nn_positional position = tg_nn_positional_make(p->params, "rotary", TG_POSITION_ROTARY, LENGTH, width, &rotary);
    tg_nn_transformer_block_config config = tg_nn_transformer_block_config_default();
    config.norm = TG_NORM_RMS;
    config.feed_forward = TG_FEED_FORWARD_SWIGLU;
    config.feed_forward_bias = TG_NO_BIAS;
    config.hidden = hidden;
    config.attention.key_heads = key_heads;
    config.attention.out_bias = false;
    config.attention.positional = &position;
    p->block = tg_nn_transformer_block_make(p->params, "block", width, heads, &config);
}

static void make_llama_block(program *p)
{
    make_llama_block_of(p, 576, 9, 3, 1536);
    p->x = program_normal(p, TG_F32, TG_SHAPE(BATCH, LENGTH, 576));
    p->optim = tg_adamw_new(p->params, NULL);
}

static tg_tensor *block_forward(tg_tape *tape, tg_tensor *const *inputs, int count, void *block)
{
    (void)count;
    return tg_nn_transformer_block_forward(tape, block, inputs[0], NULL);
}

static void step_block(program *p)
{
    tg_tensor *y = block_forward(p->tape, &p->x, 1, &p->block);
    program_train(p, tg_mean_all(p->tape, tg_mul(p->tape, y, y)));
}

/* ---- the next token, a prompt, and several texts ---- */

/* The tokens that fit behind a text; texts begin again after a quarter of them. */
enum { TOKENS = 128 };

static void run_pass(program *p, tg_tensor *ids)
{
    tg_gpt_forward_config config = tg_gpt_forward_config_default();
    config.cache = p->cache;
    tg_tape_reset(p->tape);
    program_must(tg_gpt_last_logits(p->tape, p->gpt, ids, &config), tg_run_error(p->run));
}

static void step_prompt(program *p)
{
    tg_kv_cache_clear(p->cache);
    run_pass(p, p->ids);
}

static void step_token(program *p)
{
    run_pass(p, p->next);
}

static void begin_again(program *p)
{
    if (tg_kv_cache_length(p->cache) >= tg_tensor_shape(p->ids).size[1] + TOKENS / 4) {
        step_prompt(p);
    }
}

/* What is read once: all weights but those of the embeddings of tokens and positions, and the keys and values. */
static double read_bytes_of(const program *p, int64_t texts, int64_t length)
{
    const tg_gpt_config *c = tg_gpt_get_config(p->gpt);
    const int64_t key_heads = c->key_heads > 0 ? c->key_heads : c->heads;
    const int64_t head_width = c->head_width > 0 ? c->head_width : c->width / c->heads;
    double embeddings = (c->tied_head ? 0 : (double)(c->vocabulary * c->width)) +
                        (c->position == TG_POSITION_LEARNED ? (double)(c->context * c->width) : 0);
    double cached = 2 * (double)(c->layers * key_heads * head_width * length * texts);
    return 4 * ((double)tg_params_value_count(p->params) - embeddings + cached);
}

static void begin_texts(program *p, int64_t texts, int64_t length)
{
    const int64_t vocabulary = tg_gpt_get_config(p->gpt)->vocabulary;
    tg_tape_set_recording(p->tape, false);
    tg_tape_set_training(p->tape, false);
    p->ids = program_ids(p, TG_SHAPE(texts, length), vocabulary);
    p->next = program_ids(p, TG_SHAPE(texts, 1), vocabulary);
    p->cache = tg_gpt_new_cache(p->gpt, texts, length + TOKENS);
    program_must(p->cache, tg_run_error(p->run));
    p->read_bytes = read_bytes_of(p, texts, length);
    p->again = begin_again;
    step_prompt(p);
}

static void make_gpt2_texts(program *p, int64_t texts, int64_t length)
{
    make_gpt2(p, length + TOKENS);
    begin_texts(p, texts, length);
}

static void make_token_1(program *p)
{
    make_gpt2_texts(p, 1, 1);
}

static void make_token_250(program *p)
{
    make_gpt2_texts(p, 1, 250);
}

static void make_token_1000(program *p)
{
    make_gpt2_texts(p, 1, 1000);
}

static void make_8_texts(program *p)
{
    make_gpt2_texts(p, 8, 250);
}

static void make_prompt(program *p)
{
    make_gpt2_texts(p, 1, LENGTH);
    p->read_bytes = 0;
}

static void make_llama_token(program *p)
{
    make_llama(p);
    begin_texts(p, 1, 250);
}

static void make_llama_prompt(program *p)
{
    make_llama(p);
    begin_texts(p, 1, LENGTH);
    p->read_bytes = 0;
}

/* ---- tables ---- */

/* The number of different rows that ids name, if all are as probable. */
static double different(double rows, double ids)
{
    return rows * (1 - exp(-ids / rows));
}

/* The vectors of short and long texts (examples/sentences). */
enum { WORDS = 30522, VECTOR = 1024, PAIRS = 2048, SHORT = 8, LONG = 32 };

static void make_sentences(program *p)
{
    tg_adam_config adam = tg_adam_config_default();
    adam.deferred = true;
    p->bag = tg_nn_embedding_bag_make(p->params, "words", WORDS, VECTOR, NULL);
    p->ids = program_ids(p, TG_SHAPE(PAIRS, SHORT), WORDS);
    p->targets = program_ids(p, TG_SHAPE(PAIRS, LONG), WORDS);
    p->optim = tg_adam_new(p->params, &adam);
    /* each id's row is read, and each different row's gradient, value and moments are read and written */
    const double ids = PAIRS * (SHORT + LONG);
    p->copied_bytes = 4.0 * VECTOR * (ids + 8 * different(WORDS, ids));
}

static void step_sentences(program *p)
{
    tg_tensor *queries = tg_nn_embedding_bag_forward(p->tape, &p->bag, p->ids, NULL, NULL);
    tg_tensor *documents = tg_nn_embedding_bag_forward(p->tape, &p->bag, p->targets, NULL, NULL);
    program_train(p, tg_contrastive_loss(p->tape, queries, documents, NULL, NULL));
}

enum { FILE_ROWS = 200000, FILE_WIDTH = 127, FILE_IDS = 8192 };

static void make_row_file(program *p)
{
    static const char path[] = "programs.rows";
    tg_error error = {0};
    tg_row_file_config config = tg_row_file_config_default();
    config.rng = tg_run_rng(p->run);
    remove(path);
    p->file = tg_row_file_new(path, FILE_ROWS, FILE_WIDTH, &config, &error);
    program_must(p->file, &error);
    remove(path); /* it is open */
    p->ids = program_ids(p, TG_SHAPE(FILE_IDS), FILE_ROWS);
    /* rows are read and written, and so are the results and their gradient */
    p->copied_bytes = 4.0 * (2 * (FILE_WIDTH + 1) * different(FILE_ROWS, FILE_IDS) + 4.0 * FILE_IDS * FILE_WIDTH);
}

static void step_row_file(program *p)
{
    tg_error error = {0};
    program_must(tg_tensor_fill_randint(p->ids, tg_run_rng(p->run), 0, FILE_ROWS, &error), &error);
    tg_tensor *x = tg_row_file_lookup(p->tape, p->file, p->ids);
    tg_backward(p->tape, tg_mean_all(p->tape, tg_mul(p->tape, x, x)), NULL);
    program_must(tg_row_file_step(p->file, 0.1, &error), &error);
    tg_tape_reset(p->tape);
}

/* ---- checks of a block in f64, and second derivatives ---- */

static void make_doubles(program *p, tg_shape shape)
{
    tg_error error = {0};
    p->x = program_normal(p, TG_F64, shape);
    program_must(tg_tensor_set_requires_grad(p->x, true, &error), &error);
}

static void begin_doubles(program *p)
{
    tg_params_free(p->params);
    p->params = tg_params_new(p->run, TG_F64);
}

static void make_check_fast(program *p)
{
    begin_doubles(p);
    p->block = tg_nn_transformer_block_make(p->params, "block", 64, 4, NULL);
    make_doubles(p, TG_SHAPE(2, 16, 64));
}

static void make_check_llama(program *p)
{
    begin_doubles(p);
    make_llama_block_of(p, 64, 4, 2, 128);
    make_doubles(p, TG_SHAPE(2, 16, 64));
}

static void step_check_fast(program *p)
{
    tg_error error = {0};
    tg_gradcheck_config config = tg_gradcheck_config_default();
    config.mode = TG_GRADCHECK_FAST;
    program_must(tg_gradcheck_params(p->params, block_forward, &p->block, &p->x, 1, &config, NULL, &error), &error);
}

static void make_hvp(program *p)
{
    tg_gpt_config config = tg_gpt_config_default();
    config.vocabulary = 1024;
    config.context = 64;
    config.width = 128;
    config.heads = config.layers = 4;
    p->gpt = tg_gpt_new(p->params, &config);
    p->ids = program_ids(p, TG_SHAPE(8, 64), config.vocabulary);
    p->targets = program_ids(p, TG_SHAPE(8, 64), config.vocabulary);
}

static tg_tensor *loss_of(tg_tape *tape, void *context)
{
    const program *p = context;
    return tg_cross_entropy(tape, tg_gpt_forward(tape, p->gpt, p->ids, NULL), p->targets, NULL);
}

/* The vector has the values of the parameters. */
static void step_hvp(program *p)
{
    enum { MOST = 128 };
    tg_tensor *leaves[MOST], *products[MOST];
    const int64_t count = tg_params_count(p->params);
    for (int64_t i = 0; i < count && i < MOST; i++) {
        leaves[i] = tg_params_at(p->params, i).tensor;
    }
    program_must(count <= MOST && tg_hvp(p->tape, loss_of, p, leaves, (int)count, leaves, products, NULL),
                 tg_run_error(p->run));
    tg_tape_reset(p->tape);
}

const program_row large_programs[] = {
    {"gpt2_2x256", make_gpt2_step, step_model, 1},
    {"llama_2x256", make_llama_step, step_model, 1},
    {"llama_lora", make_llama_lora, step_model, 1},
    {"llama_block", make_llama_block, step_block, 10},
    {"gpt2_token_1", make_token_1, step_token, 20},
    {"gpt2_token_250", make_token_250, step_token, 20},
    {"gpt2_token_1000", make_token_1000, step_token, 20},
    {"gpt2_8_texts", make_8_texts, step_token, 10},
    {"gpt2_prompt", make_prompt, step_prompt, 3},
    {"llama_token_250", make_llama_token, step_token, 20},
    {"llama_prompt", make_llama_prompt, step_prompt, 3},
    {"sentences", make_sentences, step_sentences, 3},
    {"row_file", make_row_file, step_row_file, 25},
    {"gradcheck_fast", make_check_fast, step_check_fast, 25},
    {"gradcheck_llama", make_check_llama, step_check_fast, 25},
    {"hessian_vector", make_hvp, step_hvp, 7},
    {NULL, NULL, NULL, 0},
};
