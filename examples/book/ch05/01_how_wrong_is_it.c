/* 01: How wrong is a model that has learned nothing, and how is that measured? The loss of an untrained model: the text
 * that it generates, the probabilities of the target tokens, and their cross-entropy, which training minimizes. */
#include <string.h>

#include "training.h"

/* Prints the probabilities of the targets and returns their logarithms: logits (2,3,V), targets (2,3) -> (6). */
static tg_tensor *target_log_probabilities(tg_tape *t, tg_tensor *logits, tg_tensor *targets)
{
    tg_tensor *ids = tg_reshape(t, targets, TG_SHAPE(2, 3, 1));
    /* (2,3,V) -> (2,3,1) */
    tg_tensor *chosen = tg_gather(t, tg_softmax(t, logits, -1), -1, ids);
    for (int i = 0; i < 2; i++) {
        printf("Text %d: ", i + 1);
        print_tensor(tg_reshape(t, tg_select(t, chosen, 0, i), TG_SHAPE(3)));
    }
    return tg_log(t, tg_reshape(t, chosen, TG_SHAPE(6)));
}

static void print_shapes(const char *first, const tg_tensor *a, const char *second, const tg_tensor *b)
{
    printf("%s ", first);
    print_shape(a);
    printf("%s ", second);
    print_shape(b);
}

/* Writes tokens 0 to 2 of a text to `inputs`, and tokens 1 to 3 to `targets`. */
static void encode_pair(tg_tokenizer *bpe, const char *text, int32_t *inputs, int32_t *targets)
{
    tg_error error = TG_NO_ERROR;
    tg_tokens tokens;
    tg_tokenizer_encode(bpe, text, strlen(text), false, &tokens, &error);
    check(&error);
    memcpy(inputs, tokens.ids, 3 * sizeof *inputs);
    memcpy(targets, tokens.ids + 1, 3 * sizeof *targets);
    tg_tokens_free(&tokens);
}

int main(int argc, char **argv)
{
    const char *book = book_folder(argc, argv, NULL);
    question("How wrong is a model that has learned nothing, and how is that measured?");
    tg_tokenizer *bpe = book_tokenizer(book);
    tg_run *run = tg_run_new(123);
    tg_params *params = tg_params_new(run, TG_F32);
    tg_gpt *model = model_new(params, book, bpe);
    tg_tape *t = book_tape(run);
    tg_evaluation_begin(t);

    cell(15);
    printf("Output text:\n ");
    print_generated(t, model, bpe, "Every effort moves you", 10);

    /* each target is the input's next token */
    int32_t input_ids[6], target_ids[6];
    encode_pair(bpe, "every effort moves you", input_ids, target_ids);
    encode_pair(bpe, "I really like chocolate", input_ids + 3, target_ids + 3);
    tg_tensor *inputs = tg_tensor_new_from_i32(TG_SHAPE(2, 3), input_ids, NULL);
    tg_tensor *targets = tg_tensor_new_from_i32(TG_SHAPE(2, 3), target_ids, NULL);
    /* (2,3) -> (2,3,V) */
    tg_tensor *logits = tg_gpt_forward(t, model, inputs, NULL);
    tg_tensor *probabilities = tg_softmax(t, logits, -1);
    check(tg_tape_error(t));
    cell(21);
    print_shape(probabilities);

    tg_tensor *most_probable = tg_argmax(t, probabilities, -1, TG_KEEP_AXES);
    cell(26);
    printf("Token IDs:\n");
    print_tensor(most_probable);
    cell(28);
    printf("Targets batch 1: ");
    print_decoded(bpe, target_ids, 3);
    printf("Outputs batch 1: ");
    print_decoded(bpe, tg_tensor_data(most_probable), 3);

    cell(32);
    tg_tensor *logs = target_log_probabilities(t, logits, targets);
    cell(34);
    print_tensor(logs);
    tg_tensor *mean = tg_mean_all(t, logs);
    cell(36);
    print_tensor(mean);
    cell(39);
    print_tensor(tg_neg(t, mean));

    cell(43);
    print_shapes("Logits shape:", logits, "Targets shape:", targets);
    tg_tensor *flat = tg_reshape(t, logits, TG_SHAPE(6, -1)), *flat_targets = tg_reshape(t, targets, TG_SHAPE(6));
    cell(45);
    print_shapes("Flattened logits:", flat, "Flattened targets:", flat_targets);
    tg_tensor *loss = tg_cross_entropy(t, flat, flat_targets, NULL);
    cell(47);
    print_tensor(loss);
    /* perplexity: the number of equally probable tokens that have this loss */
    cell(49);
    print_tensor(tg_exp(t, loss));

    check(tg_tape_error(t));
    tg_tape_free(t);
    tg_release(inputs);
    tg_release(targets);
    tg_gpt_free(model);
    tg_params_free(params);
    tg_run_free(run);
    tg_tokenizer_free(bpe);
    return book_end();
}
