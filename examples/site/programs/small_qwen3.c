/* small_qwen3: writes a small Qwen3, which is trained on a text for some seconds, as a folder.
 *
 *     small_qwen3 TEXT FOLDER
 */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <tapegrad.h>
#include <tapegrad_text.h>

static tg_gpt_config config_of(const tg_tokenizer *tokenizer)
{
    tg_gpt_config config = tg_gpt_config_default();
    config.vocabulary = tg_tokenizer_vocabulary(tokenizer);
    config.context = 256;
    config.width = 96;
    config.heads = 4;
    config.key_heads = 2;
    config.head_width = 32;
    config.hidden = 256;
    config.layers = 2;
    config.norm = TG_NORM_RMS;
    config.eps = 1e-6;
    config.query_key_norm = true;
    config.position = TG_POSITION_ROTARY;
    config.feed_forward = TG_FEED_FORWARD_SWIGLU;
    config.out_bias = false;
    config.tied_head = true;
    config.init = TG_GPT_INIT_GPT2;
    return config;
}

static void train(tg_run *run, const tg_gpt *model, tg_params *params, const tg_tokens *tokens)
{
    tg_loader_config windows = tg_loader_config_default();
    windows.context = 64;
    windows.stride = 16;
    windows.batch_size = 16;
    windows.shuffle = true;
    tg_loader *loader = tg_loader_new(run, tokens->ids, tokens->count, &windows);
    tg_adamw_config adamw = tg_adamw_config_default();
    adamw.lr = 2e-3;
    tg_optim *optim = tg_adamw_new(params, &adamw);
    tg_tape *t = tg_tape_new(run, NULL);
    for (int pass = 0; pass < 8; pass++) {
        for (tg_batch b; tg_loader_next(loader, &b);) {
            tg_tape_reset(t);
            tg_optim_zero_grad(optim);
            tg_backward(t, tg_gpt_loss(t, model, b.inputs, b.targets, NULL), NULL);
            tg_optim_step(optim);
        }
    }
    tg_tape_free(t), tg_optim_free(optim), tg_loader_free(loader);
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "small_qwen3 TEXT FOLDER\n");
        return 2;
    }
    tg_error error = TG_NO_ERROR;
    static const char *const special[] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
    const char *text = argv[1];
    tg_tokenizer_train_files_config vocabulary = tg_tokenizer_train_files_config_default();
    vocabulary.special = special;
    vocabulary.special_count = 3;
    tg_tokenizer *tokenizer = tg_tokenizer_train_files(&text, 1, 800, &vocabulary, &error);
    char path[1000], *whole = tg_text_read(text, NULL, &error);
    tg_tokens tokens = {NULL, 0};
    tg_tokenizer_encode(tokenizer, whole, whole ? strlen(whole) : 0, false, &tokens, &error);

    tg_run *run = tg_run_new(123);
    tg_params *params = tg_params_new(run, TG_F32);
    tg_gpt_config config = config_of(tokenizer);
    tg_gpt *model = tg_gpt_new(params, &config);
    train(run, model, params, &tokens);

    tg_gpt_save_config save = tg_gpt_save_config_default();
    save.end_token = tg_tokenizer_find(tokenizer, "<|im_end|>");
    mkdir(argv[2], 0777);
    snprintf(path, sizeof path, "%s/tokenizer.json", argv[2]);
    tg_gpt_save(model, argv[2], &save, &error);
    tg_tokenizer_save(tokenizer, path, TG_VOCABULARY_JSON, &error);
    const tg_error *first = tg_run_error(run)->code != TG_OK ? tg_run_error(run) : &error;
    bool is_good = first->code == TG_OK;
    fprintf(stderr, "%s%s", first->text, is_good ? "" : "\n");
    tg_gpt_free(model), tg_params_free(params), tg_run_free(run);
    tg_tokens_free(&tokens), tg_text_free(whole), tg_tokenizer_free(tokenizer);
    return is_good ? 0 : 1;
}
