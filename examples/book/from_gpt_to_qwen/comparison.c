#include "comparison.h"

#include "../ch05/training.h"

enum { EPOCHS = 12 };

/* ---- the models ---- */

tg_gpt_config gpt(void)
{
    tg_gpt_config config = tg_gpt_config_default();
    config.context = 64;
    config.width = 64;
    config.heads = 4;
    config.layers = 2;
    config.init = TG_GPT_INIT_GPT2;
    return config;
}

void use_rms_norm(tg_gpt_config *config)
{
    config->norm = TG_NORM_RMS;
    config->out_bias = false;
    config->feed_forward_bias = TG_NO_BIAS;
}

void use_rotary_positions(tg_gpt_config *config)
{
    config->position = TG_POSITION_ROTARY;
}

/* Three matrices of 8/3 C hidden channels have as many weights as two of 4 C. */
void use_swiglu(tg_gpt_config *config)
{
    config->feed_forward = TG_FEED_FORWARD_SWIGLU;
    config->hidden = 8 * config->width / 3;
}

void use_grouped_queries(tg_gpt_config *config)
{
    config->key_heads = config->heads / 4;
}

void use_query_key_norm(tg_gpt_config *config)
{
    config->query_key_norm = true;
}

void use_windows(tg_gpt_config *config)
{
    config->period = 2;
    config->layers_of_period[0].window = 8;
    config->layers_of_period[1] = config->layers_of_period[0];
    config->layers_of_period[1].window = 0;
}

/* ---- the training ---- */

/* Returns the bytes of the keys and values of a text as long as the context: a layer with a window W keeps at most the
 * last 2 W tokens. */
static int64_t cache_bytes(const tg_gpt_config *c)
{
    int64_t head_width = c->head_width ? c->head_width : c->width / c->heads;
    int64_t key_heads = c->key_heads ? c->key_heads : c->heads, tokens = 0;
    for (int64_t i = 0; i < c->layers; i++) {
        int64_t window = c->layers_of_period[i % c->period].window;
        tokens += window > 0 && 2 * window < c->context ? 2 * window : c->context;
    }
    return 2 * tokens * key_heads * head_width * (int64_t)sizeof(float);
}

static void train(tg_tape *t, const tg_gpt *model, tg_optim *optim, tg_loader *loader)
{
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        for (tg_batch batch; tg_loader_next(loader, &batch);) {
            tg_tape_reset(t);
            tg_tensor *loss = batch_loss(t, model, batch);
            tg_optim_zero_grad(optim);
            tg_backward(t, loss, NULL);
            tg_optim_step(optim);
        }
    }
    check(tg_tape_error(t));
}

static void train_and_print(const char *book, double lr, const char *name, tg_gpt_config config)
{
    tg_tokenizer *bpe = book_tokenizer(book);
    tg_run *run = tg_run_new(123);
    tg_params *params = tg_params_new(run, TG_F32);
    config.vocabulary = tg_tokenizer_vocabulary(bpe);
    tg_gpt *model = tg_gpt_new(params, &config);
    check(tg_params_error(params));
    tg_tape *t = book_tape(run);
    story s = story_new(book, bpe, run);
    tg_adamw_config adamw = tg_adamw_config_default();
    adamw.lr = lr;
    tg_optim *optim = tg_adamw_new(params, &adamw);
    train(t, model, optim, s.train);
    /* not as arguments of one call, whose order is unspecified: each pass draws from the generator */
    double training = mean_loss(t, model, s.train_again, 5);
    double validation = mean_loss(t, model, s.validation, 5);
    printf("%-24s %10lld %13lld %15.3f %17.3f\n", name, (long long)tg_params_value_count(params),
           (long long)cache_bytes(tg_gpt_get_config(model)), training, validation);
    tg_tape_free(t);
    tg_optim_free(optim);
    story_free(&s);
    tg_gpt_free(model);
    tg_params_free(params);
    tg_run_free(run);
    tg_tokenizer_free(bpe);
}

void compare(const char *book, double lr, const char *before_name, tg_gpt_config before, const char *after_name,
             tg_gpt_config after)
{
    printf("%-24s %10s %13s %15s %17s\n", "", "parameters", "cache, bytes", "loss, training", "loss, validation");
    train_and_print(book, lr, before_name, before);
    train_and_print(book, lr, after_name, after);
}
