/* 01: How can a model be fine-tuned with 2 percent of its parameters? LoRA, appendix E: two thin matrices beside each
 * Linear of the classifier of chapter 6, and all else frozen.
 *
 *     appendix_e_01_lora --book DIR --weights model.safetensors [--steps 650]
 *
 * With the book, but without weights, it prints the model and trains nothing.
 */
#include "../fine_tuning.h"

#include <math.h>

/* Returns the largest difference of two tensors of one shape. */
static double difference(const tg_tensor *a, const tg_tensor *b)
{
    double largest = 0;
    for (int64_t i = 0; i < tg_tensor_count(a); i++) {
        largest = fmax(largest, fabs(tg_tensor_value_at(a, i) - tg_tensor_value_at(b, i)));
    }
    return largest;
}

/* Returns the logits of two messages that are not trained on, as a copy. */
static tg_tensor *test_logits(tg_tape *t, const tg_gpt *model, tg_loader *loader)
{
    tg_tape_reset(t);
    tg_batch batch = next_batch(loader);
    tg_evaluation before = tg_evaluation_begin(t);
    tg_tensor *two = tg_slice(t, batch.inputs, 0, 0, 2, 1);
    tg_tensor *logits = tg_tensor_new_copy(tg_gpt_last_logits(t, model, two, NULL), NULL);
    tg_evaluation_end(t, before);
    check(tg_tape_error(t));
    tg_loader_reset(loader);
    tg_tape_reset(t);
    return logits;
}

int main(int argc, char **argv)
{
    options o = begin(argc, argv, "How can a model be fine-tuned with 2 percent of its parameters?", 650);
    tg_error error = TG_NO_ERROR;
    messages m = messages_open(&o);
    messages_balance(&m);
    messages_shuffle(&m);
    tg_tokenizer *bpe = tokenizer_of(&o, "Win a free lamp, call now to claim your prize. The keeper is late today.");
    tg_run *run = tg_run_new(123);
    spam_data d = spam_data_new(&m, bpe, run);
    spam_data_print(&d, 14, 16);

    tg_params *params = tg_params_new(run, TG_F32);
    tg_gpt *model = gpt_to_tune(params, &o, bpe, d.length);
    tg_gpt_replace_head(model, 2);
    check(&error);
    tg_tape *t = book_tape(run);
    tg_tensor *before = test_logits(t, model, d.test);
    cell(37);
    printf("Total trainable parameters before: ");
    print_grouped(trained_values(params));
    tg_params_set_frozen(params, "*", true);
    printf("\nTotal trainable parameters after: ");
    print_grouped(trained_values(params));
    tg_lora_config lora = tg_lora_config_default();
    lora.rank = 16;
    lora.alpha = 16;
    tg_gpt_add_lora(model, "*", &lora);
    check(&error);
    cell(38);
    printf("Total trainable LoRA parameters: ");
    print_grouped(trained_values(params));
    printf("\n");
    cell(40);
    print_layers(params);
    /* B is 0 */
    tg_tensor *after = test_logits(t, model, d.test);
    cell(42);
    printf("Largest change of the logits by untrained LoRA: %g\n", difference(before, after));
    if (o.weights || !o.book) {
        train_classifier(t, model, params, &d, o.weights ? o.steps : o.steps < 60 ? o.steps : 60);
        tg_tensor *trained = test_logits(t, model, d.test);
        tg_gpt_merge_lora(model);
        check(&error);
        tg_tensor *merged = test_logits(t, model, d.test);
        printf("Merging changes the logits by less than 1e-4: %s\n", difference(trained, merged) < 1e-4 ? "yes" : "no");
        tg_release(trained);
        tg_release(merged);
    } else {
        printf("The training needs --weights FILE; --help says where to get it.\n");
    }

    tg_release(before);
    tg_release(after);
    tg_tape_free(t);
    tg_gpt_free(model);
    tg_params_free(params);
    spam_data_free(&d);
    tg_run_free(run);
    tg_tokenizer_free(bpe);
    messages_free(&m);
    return book_end();
}
