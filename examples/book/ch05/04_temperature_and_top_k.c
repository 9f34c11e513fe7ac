/* 04: How is the next token chosen, if not always the most probable one? Choosing the next token. The most probable
 * token is always the same one. Sampling from the probabilities gives variety, the temperature sets how much, and top-k
 * excludes improbable tokens. The vocabulary here is nine words. */
#include "../book.h"

#include <math.h>

#define WORDS 9

static const char *const words[WORDS] = {"closer", "every", "effort", "forward", "inches",
                                         "moves",  "pizza", "toward", "you"};

/* Samples 1000 tokens with seed 123 and prints the counts. */
static void print_draws(const tg_tensor *logits, double temperature, tg_rng *rng)
{
    tg_sample_config config = tg_sample_config_default();
    config.greedy = false;
    config.temperature = temperature;
    tg_error error = TG_NO_ERROR;
    int counts[WORDS] = {0};
    tg_rng_seed(rng, 123);
    for (int i = 0; i < 1000; i++) {
        int32_t id = tg_sample(logits, rng, &config, &error);
        check(&error);
        counts[id]++;
    }
    for (int i = 0; i < WORDS; i++) {
        printf("%d x %s\n", counts[i], words[i]);
    }
}

int main(int argc, char **argv)
{
    book_begin(argc, argv);
    question("How is the next token chosen, if not always the most probable one?");
    const float values[WORDS] = {4.51f, 0.89f, -1.90f, 6.75f, 1.63f, -1.62f, -1.89f, 6.28f, 1.79f};
    tg_run *run = tg_run_new(123);
    tg_tape *t = book_tape(run);
    tg_tensor *logits = tg_tensor_new_from_f32(TG_SHAPE(WORDS), values, NULL);
    tg_error error = TG_NO_ERROR;
    tg_sample_config config = tg_sample_config_default();

    int32_t most_probable = tg_sample(logits, NULL, &config, &error);
    config.greedy = false;
    int32_t drawn = tg_sample(logits, tg_run_rng(run), &config, &error);
    check(&error);
    cell(91);
    printf("%s\n", words[most_probable]);
    cell(92);
    printf("%s\n", words[drawn]);

    cell(94);
    print_draws(logits, 1, tg_run_rng(run));
    /* low temperature: nearly always the most probable token */
    cell(100);
    print_draws(logits, 0.1, tg_run_rng(run));
    /* high temperature: improbable tokens, too */
    cell(102);
    print_draws(logits, 5, tg_run_rng(run));

    tg_tensor *positions, *top = tg_topk(t, logits, 3, 0, TG_LARGEST_FIRST, &positions);
    check(tg_tape_error(t));
    cell(108);
    print_named("Top logits:", top);
    print_named("Top positions:", positions);
    tg_tensor *smaller = tg_lt(t, logits, tg_select(t, top, 0, 2));
    tg_tensor *kept = tg_masked_fill(t, logits, smaller, -INFINITY);
    cell(109);
    print_tensor(kept);
    cell(111);
    print_tensor(tg_softmax(t, kept, 0));

    check(tg_tape_error(t));
    tg_tape_free(t);
    tg_release(logits);
    tg_run_free(run);
    return book_end();
}
