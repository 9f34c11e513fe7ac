/* 02: How does a model that continues texts become one that tells spam from the rest? The classifier of chapter 6: a
 * GPT with another head. All but the last block, the last norm and the head are frozen, and the logits of the last
 * token are the classes, because only that token has seen the whole text.
 *
 *     ch06_02_classifier --book DIR --weights model.safetensors [--steps 650]
 *
 * takes the book's five passes. With the book, but without weights, it prints the model and trains nothing.
 */
#include "../fine_tuning.h"

#include <string.h>

int main(int argc, char **argv)
{
    options o =
        begin(argc, argv, "How does a model that continues texts become one that tells spam from the rest?", 650);
    tg_error error = TG_NO_ERROR;
    messages m = messages_open(&o);
    messages_balance(&m);
    messages_shuffle(&m);
    tg_tokenizer *bpe = tokenizer_of(&o, "Win a free lamp, call now to claim your prize. The keeper is late today.");
    tg_run *run = tg_run_new(123);
    spam_data d = spam_data_new(&m, bpe, run);
    tg_params *params = tg_params_new(run, TG_F32);
    tg_gpt *model = gpt_to_tune(params, &o, bpe, d.length);
    cell(53);
    print_layers(params);

    const char *text = "Do you have time";
    tg_tokens tokens;
    tg_tokenizer_encode(bpe, text, strlen(text), false, &tokens, &error);
    tg_tensor *inputs = tg_tensor_new_from_i32(TG_SHAPE(1, tokens.count), tokens.ids, &error);
    check(&error);
    cell(62);
    print_named("Inputs:", inputs);
    printf("Inputs dimensions: ");
    print_shape(inputs);

    tg_params_set_frozen(params, "*", true);
    tg_gpt_replace_head(model, 2);
    check(&error);
    char last_block[40];
    snprintf(last_block, sizeof last_block, "trf_blocks.%lld.*", (long long)tg_gpt_get_config(model)->layers - 1);
    tg_params_set_frozen(params, last_block, false);
    tg_params_set_frozen(params, "final_norm.*", false);
    check(tg_params_error(params));
    tg_tape *t = book_tape(run);
    /* (1,T) -> (1,2) */
    tg_tensor *logits = tg_gpt_last_logits(t, model, inputs, NULL);
    check(tg_tape_error(t));
    cell(66);
    print_named("Last output token:", logits);
    if (o.weights || !o.book) {
        train_classifier(t, model, params, &d, o.weights ? o.steps : o.steps < 60 ? o.steps : 60);
    } else {
        printf("The training needs --weights FILE; --help says where to get it.\n");
    }

    tg_release(inputs);
    tg_tokens_free(&tokens);
    tg_tape_free(t);
    tg_gpt_free(model);
    tg_params_free(params);
    spam_data_free(&d);
    tg_run_free(run);
    tg_tokenizer_free(bpe);
    messages_free(&m);
    return book_end();
}
