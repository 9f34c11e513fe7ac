/* distillation: a small model learns from a larger one (Hinton et al. 2015). With the logits s of the student and z of
 * the teacher at the tokens of answers, and a temperature T, the loss is
 *
 *     T^2 mean over tokens of KL(softmax(z / T) || softmax(s / T))
 *
 * Prints the right answers of the teacher; and those of a student that learns from it, and of the same student that
 * learns from the right answers alone, with their losses on these in the last steps. */
#include "post_training.h"

const char program_name[] = "post_training_distillation";

enum { WIDTH = 32, LAYERS = 2, START = 800, SMALL_WIDTH = 16, SMALL_LAYERS = 1, BATCH = 32, STEPS = 250, SHOWN = 100 };
static const double TEMPERATURE = 2, RATE = 0.003;

/* Returns the logits at the tokens of answers, (N,V). */
static tg_tensor *answer_logits(tg_tape *t, const decoder *d, const chats *c)
{
    tg_tensor *logits = tg_gpt_forward(t, d->model, c->ids, NULL);
    return tg_reshape(t, tg_slice(t, logits, 1, QUESTION - 1, LENGTH, 1), TG_SHAPE(-1, VOCABULARY));
}

static tg_tensor *distillation_loss(tg_tape *t, tg_tensor *logits, tg_tensor *of_teacher)
{
    tg_kl_div_config config = tg_kl_div_config_default();
    config.log_target = true;
    config.reduction = TG_REDUCTION_BATCH_MEAN;
    tg_tensor *log_p = tg_log_softmax(t, tg_div_scalar(t, logits, TEMPERATURE), 1);
    tg_tensor *log_target = tg_log_softmax(t, tg_div_scalar(t, of_teacher, TEMPERATURE), 1);
    return tg_mul_scalar(t, tg_kl_div(t, log_p, log_target, &config), TEMPERATURE * TEMPERATURE);
}

/* Trains a student, which learns from the answers if there is no teacher. */
static void teach(recipe *r, const decoder *student, const decoder *teacher)
{
    tg_tape *t = r->tape;
    sum sums[BATCH];
    answer answers[BATCH];
    train_by_adam(r, student, RATE);
    double last = 0;
    for (int step = 0; step < STEPS; step++) {
        tg_tape_reset(t);
        draw_sums(r, sums, BATCH);
        for (int i = 0; i < BATCH; i++) {
            answers[i] = answer_of(sums[i].a + sums[i].b, 2);
        }
        chats c = chats_make(r, sums, answers, BATCH);
        tg_tensor *logits = answer_logits(t, student, &c);
        tg_tensor *targets = tg_reshape(t, tg_slice(t, c.targets, 1, QUESTION - 1, LENGTH, 1), TG_SHAPE(-1));
        tg_tensor *of_answers = tg_cross_entropy(t, logits, targets, NULL), *loss = of_answers;
        if (teacher) {
            tg_evaluation before = tg_evaluation_begin(t);
            tg_tensor *of_teacher = answer_logits(t, teacher, &c);
            tg_evaluation_end(t, before);
            loss = distillation_loss(t, logits, of_teacher);
        }
        step_down(r, student, loss);
        last += step >= STEPS - SHOWN ? item(r, of_answers) / SHOWN : 0;
    }
    printf("%s: loss %.3f, %d of %d sums right\n", teacher ? "from the teacher" : "from the answers", last,
           count_right(r, student, 2), SUMS);
}

int main(int argc, char **argv)
{
    recipe_options("a small model learns from a larger one", NULL, argc, argv);
    recipe r = recipe_begin(123);
    decoder teacher = decoder_make(&r, VOCABULARY, WIDTH, LAYERS);
    train_on_answers(&r, &teacher, START, 1);
    printf("teacher: %d of %d sums right\n", count_right(&r, &teacher, 2), SUMS);
    decoder student = decoder_make(&r, VOCABULARY, SMALL_WIDTH, SMALL_LAYERS), same = decoder_copy(&r, &student);
    if (!decoder_has_tokens_of(&teacher, &student)) {
        return 1;
    }
    teach(&r, &student, &teacher);
    tg_rng_seed(tg_run_rng(r.run), 123);
    teach(&r, &same, NULL);
    decoder_free(&same);
    decoder_free(&student);
    decoder_free(&teacher);
    return recipe_end(&r);
}
