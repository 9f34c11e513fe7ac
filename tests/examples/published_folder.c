/* published_folder FAMILY TEXT OUT: writes a small model with random weights as a published folder: config.json,
 * model.safetensors of bf16, and tokenizer.json, trained on the text. FAMILY: gpt2, llama, chat, a llama
 * whose vocabulary has the tokens of ChatML, or narrow, a llama whose table has not enough rows. The others have more
 * rows than ids. */
#include <string.h>

#include <tapegrad.h>
#include <tapegrad_text.h>

#include "../../examples/common/program.h"

const char program_name[] = "published_folder";

static tg_tokenizer *write_vocabulary(const char *text, bool is_chat, const char *folder)
{
    tg_error error = TG_NO_ERROR;
    static const char *const special[] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
    tg_tokenizer_train_files_config config = tg_tokenizer_train_files_config_default();
    config.special = special;
    config.special_count = is_chat ? 3 : 1;
    tg_tokenizer *bpe = tg_tokenizer_train_files(&text, 1, 400, &config, &error);
    if (!bpe || !tg_tokenizer_save(bpe, folder_file(folder, "tokenizer.json"), TG_VOCABULARY_JSON, &error)) {
        complain("%s", error.text);
    }
    return bpe;
}

static tg_gpt_config config_of(bool is_gpt2, int64_t rows)
{
    tg_gpt_config config = tg_gpt_config_default();
    config.vocabulary = rows;
    config.context = 160;
    config.width = 32;
    config.heads = 4;
    config.layers = 2;
    config.init = TG_GPT_INIT_GPT2;
    config.tied_head = true;
    if (!is_gpt2) {
        config.position = TG_POSITION_ROTARY;
        config.norm = TG_NORM_RMS;
        config.key_heads = 2;
        config.hidden = 48;
        config.feed_forward = TG_FEED_FORWARD_SWIGLU;
        config.out_bias = false;
    }
    return config;
}

int main(int argc, char **argv)
{
    if (argc != 4 || !folder_make(argv[3])) {
        return 2;
    }
    tg_error error = TG_NO_ERROR;
    tg_tokenizer *bpe = write_vocabulary(argv[2], strcmp(argv[1], "chat") == 0, argv[3]);
    tg_run *run = tg_run_new(7);
    tg_params *params = tg_params_new(run, TG_F32);
    int64_t rows = tg_tokenizer_vocabulary(bpe) + (strcmp(argv[1], "narrow") == 0 ? -1 : 5);
    tg_gpt_config config = config_of(strcmp(argv[1], "gpt2") == 0, rows);
    tg_gpt *model = tg_gpt_new(params, &config);
    tg_gpt_save_config save = tg_gpt_save_config_default();
    save.floats = TG_SAVE_FLOATS_BF16;
    save.end_token = rows > tg_tokenizer_vocabulary(bpe) ? tg_tokenizer_find(bpe, "<|endoftext|>") : 0;
    bool is_saved = tg_gpt_save(model, argv[3], &save, &error) || complain("%s", error.text);
    tg_gpt_free(model);
    tg_params_free(params);
    tg_run_free(run);
    tg_tokenizer_free(bpe);
    return bpe && is_saved ? 0 : 2;
}
