/* dpo: direct preference optimization (Rafailov et al. 2023, equation 7). The model has learned to answer sums with
 * two digits, 12, and half of the time with the last one alone, 2. From now on two digits are preferred. With the
 * probabilities p of answers, and p0 of the model before the training, the margin of a pair of answers and the loss are
 *
 *     m = beta (log p(12) / p0(12) - log p(2) / p0(2)),    -mean log sigmoid(m)
 *
 * Prints the loss of a step and its mean margin; the mean margin of pairs of other sums, and how many of these are
 * above 0; and the right answers of both kinds before and after the training. */
#include "post_training.h"

const char program_name[] = "post_training_dpo";

enum { WIDTH = 32, LAYERS = 2, START = 500, PAIRS = 32, HELD_OUT = 45, STEPS = 60, SHOWN = 15 };
static const double BETA = 0.1, RATE = 0.0003;

/* Returns the margins of pairs (N). Pair i is the rows i and N + i of the chats. */
static tg_tensor *margins_of(recipe *r, const decoder *d, const decoder *reference, const sum *sums, int64_t count)
{
    tg_tape *t = r->tape;
    sum twice[2 * HELD_OUT];
    answer answers[2 * HELD_OUT];
    for (int64_t i = 0; i < 2 * count; i++) {
        twice[i] = sums[i % count];
        answers[i] = answer_of(twice[i].a + twice[i].b, i < count ? 2 : 1);
    }
    chats c = chats_make(r, twice, answers, 2 * count);
    tg_tensor *log_p0 = tg_sum(t, reference_log_probs(r, reference, d, &c), TG_AXES(1), TG_DROP_AXES);
    tg_tensor *log_p = tg_sum(t, log_probs_of(r, d, &c), TG_AXES(1), TG_DROP_AXES);
    tg_tensor *rewards = tg_reshape(t, tg_mul_scalar(t, tg_sub(t, log_p, log_p0), BETA), TG_SHAPE(2, count));
    return tg_sub(t, tg_select(t, rewards, 0, 0), tg_select(t, rewards, 0, 1));
}

/* Prints the margins of the sums that are held out. */
static void print_held_out(recipe *r, const decoder *d, const decoder *reference, const sum *sums)
{
    tg_evaluation before = tg_evaluation_begin(r->tape);
    tg_tensor *margins = margins_of(r, d, reference, sums, HELD_OUT);
    double mean = item(r, tg_mean_all(r->tape, margins));
    tg_evaluation_end(r->tape, before);
    int right = 0;
    for (int i = 0; i < HELD_OUT; i++) {
        right += tg_tensor_value_at(margins, i) > 0;
    }
    printf("; held out: margin %.3f, %d of %d above 0\n", mean, right, HELD_OUT);
}

static void print_right(recipe *r, const decoder *d, const char *when)
{
    int two_digits = count_right(r, d, 2), one = count_right(r, d, 1);
    printf("%s: of %d sums %d right with two digits, %d with one\n", when, SUMS, two_digits, one);
}

int main(int argc, char **argv)
{
    recipe_options("prefers one kind of answers to another", NULL, argc, argv);
    recipe r = recipe_begin(123);
    tg_tape *t = r.tape;
    decoder d = decoder_make(&r, VOCABULARY, WIDTH, LAYERS);
    train_on_answers(&r, &d, START, 0.5);
    decoder reference = decoder_copy(&r, &d);
    train_by_adam(&r, &d, RATE);
    print_right(&r, &d, "before");

    /* the model learns from sums a + b with a >= b, and the others are held out */
    sum sums[PAIRS], held_out[HELD_OUT];
    for (int i = 0, a = 0; a < 10; a++) {
        for (int b = a + 1; b < 10; b++) {
            held_out[i++] = (sum){a, b};
        }
    }
    for (int step = 1; step <= STEPS; step++) {
        tg_tape_reset(t);
        draw_sums(&r, sums, PAIRS);
        for (int i = 0; i < PAIRS; i++) {
            sums[i] = sums[i].a < sums[i].b ? (sum){sums[i].b, sums[i].a} : sums[i];
        }
        tg_tensor *margins = margins_of(&r, &d, &reference, sums, PAIRS);
        tg_tensor *loss = tg_neg(t, tg_mean_all(t, tg_log_sigmoid(t, margins)));
        step_down(&r, &d, loss);
        if (step % SHOWN == 0) {
            printf("step %d: loss %.3f, margin %.3f", step, item(&r, loss), item(&r, tg_mean_all(t, margins)));
            print_held_out(&r, &d, &reference, held_out);
        }
    }
    print_right(&r, &d, "after");
    decoder_free(&reference);
    decoder_free(&d);
    return recipe_end(&r);
}
