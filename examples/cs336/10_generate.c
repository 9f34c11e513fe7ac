/* 10: What does the model write? Continues a prompt with the model of 09_train: each token is drawn from the most
 * probable ones that together reach a probability of 0.9, at a temperature of 0.8, until the text ends. */
#include "cs336.h"

#include <stdlib.h>
#include <string.h>

#include <tapegrad_text.h>

#include "../common/terminal.h"
#include "small.h"

const char program_name[] = "cs336_10_generate";

/* The logits after the last of the ids; the model keeps no keys, so each pass has the whole text. */
static tg_tensor *next_logits(tg_tape *t, const tg_generate_pass *pass, void *context)
{
    return tg_select(t, model_forward(t, context, pass->ids), 1, -1);
}

int main(int argc, char **argv)
{
    options o = options_read(GENERATE, "continues a prompt with the model of cs336_09_train", argc, argv);
    recipe r = recipe_begin(336);
    tg_tokenizer *bpe = tg_tokenizer_open(folder_file(o.out, SMALL_VOCABULARY), NULL, &r.error);
    tg_tokens prompt;
    tg_tokenizer_encode(bpe, o.prompt, strlen(o.prompt), true, &prompt, &r.error);
    recipe_check(&r);
    model m = small_model(tg_tokenizer_vocabulary(bpe));
    model_make(&m, r.params, tg_run_rng(r.run), &r.error);
    const tg_checkpoint_part part = tg_checkpoint_params("model", r.params);
    tg_checkpoint_load(folder_file(o.out, SMALL_MODEL), &part, 1, &r.error);
    recipe_check(&r);

    const int32_t end = tg_tokenizer_end_of_text(bpe);
    tg_language_model language_model = {next_logits, &m, .vocabulary = m.vocabulary, .context_length = m.context};
    tg_generate_config config = tg_generate_config_default();
    config.sample.greedy = false;
    config.sample.temperature = 0.8;
    config.sample.top_p = 0.9;
    config.end_tokens = &end;
    config.end_token_count = 1;
    config.use_cache = false;
    int32_t ids[50];
    int64_t count = 0;
    tg_generate(r.tape, &language_model, prompt.ids, &prompt.count, 1, ids, &count, &config);
    recipe_check(&r);
    size_t length;
    char *text = tg_tokenizer_decode(bpe, ids, count, &length, &r.error);
    recipe_check(&r);
    print_text(stdout, o.prompt, strlen(o.prompt));
    print_text(stdout, text, length);
    putchar('\n');
    tg_text_free(text);
    tg_tokens_free(&prompt);
    tg_tokenizer_free(bpe);
    return recipe_end(&r);
}
