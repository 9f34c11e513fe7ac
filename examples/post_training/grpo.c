/* grpo: group relative policy optimization (Shao et al. 2024, DeepSeekMath, equations 3 and 4). The model answers each
 * sum several times. A right answer gets the reward 1, any other 0. The advantage of an answer is its reward less the
 * mean of its group, divided by the group's standard deviation. With r, the probability of a token divided by that with
 * which it was drawn, and q, its probability in the model before the training divided by the present one, the loss is
 *
 *     -mean over answers of mean over tokens of min(r A, clip(r, 1 - e, 1 + e) A) - beta (q - log q - 1)
 *
 * Prints for three seeds the right answers before and after the training, and the mean reward of the first and last
 * steps. --curve FILE draws the rewards. */
#include "post_training.h"

#include "../common/curves.h"

const char program_name[] = "post_training_grpo";

enum { SEEDS = 3, WIDTH = 32, LAYERS = 2, START = 200, GROUPS = 12, GROUP = 8, TEXTS = GROUPS * GROUP };
enum { STEPS = 200, UPDATES = 2, SHOWN = 10 };
static const double CLIP = 0.2, BETA = 0.01, RATE = 0.001;

/* The loss of answers with these log-probabilities (TEXTS,LENGTH): of the present model, of the one that drew the
 * answers, and of the reference. advantages (TEXTS,1); weights (TEXTS,LENGTH) take the mean over tokens and answers. */
static tg_tensor *grpo_loss(tg_tape *t, tg_tensor *log_probs, tg_tensor *drawn, tg_tensor *reference,
                            tg_tensor *advantages, tg_tensor *weights)
{
    tg_tensor *ratio = tg_exp(t, tg_sub(t, log_probs, drawn));
    tg_tensor *clipped = tg_clamp(t, ratio, 1 - CLIP, 1 + CLIP);
    tg_tensor *gain = tg_minimum(t, tg_mul(t, ratio, advantages), tg_mul(t, clipped, advantages));
    tg_tensor *log_q = tg_sub(t, reference, log_probs);
    tg_tensor *divergence = tg_add_scalar(t, tg_sub(t, tg_exp(t, log_q), log_q), -1);
    tg_tensor *each = tg_sub(t, gain, tg_mul_scalar(t, divergence, BETA));
    return tg_neg(t, tg_sum_all(t, tg_mul(t, each, weights)));
}

/* Answers GROUPS sums GROUP times each, and learns from the rewards. Returns their mean. */
static double learn(recipe *r, const decoder *d, const decoder *reference)
{
    tg_tape *t = r->tape;
    sum sums[TEXTS];
    answer answers[TEXTS];
    double drawn[TEXTS][ANSWER], rewards[TEXTS], all_drawn[TEXTS][LENGTH] = {{0}}, weights[TEXTS][LENGTH] = {{0}};
    tg_tape_reset(t);
    draw_sums(r, sums, GROUPS);
    for (int i = TEXTS - 1; i >= 0; i--) {
        sums[i] = sums[i / GROUP];
    }
    answer_sums(r, d, sums, TEXTS, false, answers, drawn[0]);
    double mean = 0;
    for (int i = 0; i < TEXTS; i++) {
        rewards[i] = is_right(sums[i], &answers[i], 2);
        mean += rewards[i] / TEXTS;
        int length = answer_length(&answers[i]);
        for (int k = 0; k < length; k++) {
            all_drawn[i][QUESTION - 1 + k] = drawn[i][k];
            weights[i][QUESTION - 1 + k] = 1.0 / length / TEXTS;
        }
    }
    tg_tensor *advantages = group_advantages(t, tg_constant_f64(t, TG_SHAPE(GROUPS, GROUP), rewards));
    advantages = tg_reshape(t, advantages, TG_SHAPE(TEXTS, 1));
    tg_tensor *w = tg_constant_f64(t, TG_SHAPE(TEXTS, LENGTH), weights[0]);
    tg_tensor *old = tg_constant_f64(t, TG_SHAPE(TEXTS, LENGTH), all_drawn[0]);
    chats c = chats_make(r, sums, answers, TEXTS);
    tg_tensor *of_reference = reference_log_probs(r, reference, d, &c);
    for (int i = 0; i < UPDATES; i++) {
        step_down(r, d, grpo_loss(t, log_probs_of(r, d, &c), old, of_reference, advantages, w));
    }
    return mean;
}

int main(int argc, char **argv)
{
    static const char *const names[SEEDS] = {"seed 1", "seed 2", "seed 3"};
    recipe_file picture = {"curve", "draw the mean rewards of all steps as SVG", NULL};
    recipe_options("sums, learned from rewards", &picture, argc, argv);
    float rewards[SEEDS][STEPS];
    curve curves[SEEDS];
    int status = 0;
    for (int seed = 1; seed <= SEEDS && status == 0; seed++) {
        recipe r = recipe_begin((uint64_t)seed);
        decoder d = decoder_make(&r, VOCABULARY, WIDTH, LAYERS);
        train_on_answers(&r, &d, START, 1);
        decoder reference = decoder_copy(&r, &d);
        train_by_adam(&r, &d, RATE);
        float *own = rewards[seed - 1];
        double first = 0, last = 0;
        printf("seed %d: %d of %d sums right before, ", seed, count_right(&r, &d, 2), SUMS);
        for (int step = 0; step < STEPS; step++) {
            double mean = learn(&r, &d, &reference);
            own[step] = (float)mean;
            first += step < SHOWN ? mean / SHOWN : 0;
            last += step >= STEPS - SHOWN ? mean / SHOWN : 0;
        }
        printf("%d after; reward %.3f in the first steps, %.3f in the last\n", count_right(&r, &d, 2), first, last);
        curves[seed - 1] = (curve){names[seed - 1], own, NULL, STEPS};
        decoder_free(&reference);
        decoder_free(&d);
        status = recipe_end(&r);
    }
    if (status == 0 && picture.path && !curves_svg(picture.path, "reward", curves, SEEDS)) {
        status = 1;
    }
    return status;
}
