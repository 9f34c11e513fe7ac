/* What the programs of post-training share (examples/post_training/post_training.c): advantages, tokens of a reference,
 * targets, and the log-probabilities of answers that are drawn. */
#include "support.h"

#include <math.h>
#include <unistd.h>

#include "../examples/post_training/post_training.h"

const char program_name[] = "test_post_training";

static recipe r;
static decoder d;

static int set_up(void **state)
{
    (void)state;
    r = recipe_begin(1);
    d = decoder_make(&r, VOCABULARY, 8, 1);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    decoder_free(&d);
    return recipe_end(&r);
}

/* Groups whose rewards are all 0 or all 1 teach nothing, and their gradient is 0, not NaN. */
static void test_advantages_of_groups_without_spread(void **state)
{
    (void)state;
    double rewards[3][4] = {{0, 0, 0, 0}, {1, 1, 1, 1}, {1, 0, 0, 0}};
    tg_tensor *advantages = group_advantages(r.tape, tg_constant_f64(r.tape, TG_SHAPE(3, 4), rewards[0]));
    for (int i = 0; i < 8; i++) {
        assert_true(tg_tensor_value_at(advantages, i) == 0);
    }
    /* the mean is 1/4, and the sum of squares 9/16 + 3/16 is divided by 3 */
    for (int i = 8; i < 12; i++) {
        double expected = (i == 8 ? 0.75 : -0.25) / (0.5 + 1e-4);
        assert_true(fabs(tg_tensor_value_at(advantages, i) - expected) < 1e-15);
    }
    sum sums[8] = {{1, 2}, {3, 4}, {5, 6}, {7, 8}, {9, 0}, {1, 1}, {2, 2}, {3, 3}};
    answer answers[8];
    answer_sums(&r, &d, sums, 8, false, answers, NULL);
    chats c = chats_make(&r, sums, answers, 8);
    tg_tensor *none = tg_reshape(r.tape, tg_slice(r.tape, advantages, 0, 0, 2, 1), TG_SHAPE(8, 1));
    tg_tensor *ratio = tg_exp(r.tape, log_probs_of(&r, &d, &c));
    assert_true(tg_backward(r.tape, tg_sum_all(r.tape, tg_mul(r.tape, ratio, none)), NULL));
    for (int64_t i = 0; i < tg_params_count(d.params); i++) {
        tg_tensor *x = tg_params_at(d.params, i).tensor, *gradient = tg_tensor_new_dense_grad(x, &r.error);
        for (int64_t k = 0; k < tg_tensor_count(gradient); k++) {
            assert_true(tg_tensor_value_at(gradient, k) == 0);
        }
        tg_release(gradient);
    }
}

static void test_reference_of_another_vocabulary(void **state)
{
    (void)state;
    decoder same = decoder_copy(&r, &d), other = decoder_make(&r, VOCABULARY + 1, 8, 1);
    char printed[200] = "";
    FILE *file = tmpfile();
    int before = dup(2);
    assert_true(dup2(fileno(file), 2) == 2);
    bool accepts_same = decoder_has_tokens_of(&same, &d), accepts_other = decoder_has_tokens_of(&other, &d);
    dup2(before, 2);
    close(before);
    rewind(file);
    assert_non_null(fgets(printed, sizeof printed, file));
    fclose(file);
    assert_true(accepts_same && !accepts_other);
    assert_string_equal(printed, "test_post_training: the reference model has a vocabulary of 17; it must be that of "
                                 "the model, 16\n");
    decoder_free(&other);
    decoder_free(&same);
}

/* Targets are the tokens of the answer up to END, each at the token before it. */
static void test_targets_are_answers(void **state)
{
    (void)state;
    static const int32_t question[] = {BEGIN, USER, NEWLINE, 7, PLUS, 8, END, NEWLINE, BEGIN, ASSISTANT, NEWLINE};
    sum sums[] = {{7, 8}, {7, 8}, {7, 8}};
    answer answers[] = {answer_of(15, 2), answer_of(15, 1), {{1, 5, 5}}};
    assert_true(is_right(sums[0], &answers[0], 2) && !is_right(sums[0], &answers[0], 1));
    assert_true(is_right(sums[0], &answers[1], 1) && !is_right(sums[0], &answers[1], 2));
    assert_true(!is_right(sums[0], &answers[2], 2) && answer_of(7, 2).ids[0] == 0);
    static const int lengths[] = {3, 2, 3};
    chats c = chats_make(&r, sums, answers, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(answer_length(&answers[i]), lengths[i]);
        for (int k = 0; k < LENGTH; k++) {
            int32_t id = k < QUESTION ? question[k] : answers[i].ids[k - QUESTION], target = NO_TARGET;
            if (k >= QUESTION - 1 && k < QUESTION - 1 + lengths[i]) {
                target = answers[i].ids[k - (QUESTION - 1)];
            }
            assert_true(tg_tensor_value_at(c.ids, i * LENGTH + k) == id);
            assert_true(tg_tensor_value_at(c.targets, i * LENGTH + k) == target);
        }
    }
}

/* With them the first ratio of GRPO is 1. */
static void test_drawn_log_probabilities(void **state)
{
    (void)state;
    sum sums[MOST];
    answer answers[MOST];
    double drawn[MOST][ANSWER];
    draw_sums(&r, sums, MOST);
    answer_sums(&r, &d, sums, MOST, false, answers, drawn[0]);
    chats c = chats_make(&r, sums, answers, MOST);
    tg_tensor *log_probs = log_probs_of(&r, &d, &c);
    for (int i = 0; i < MOST; i++) {
        for (int k = 0; k < answer_length(&answers[i]); k++) {
            double expected = tg_tensor_value_at(log_probs, i * LENGTH + QUESTION - 1 + k);
            assert_true(expected < 0 && fabs(drawn[i][k] - expected) < 1e-12);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_advantages_of_groups_without_spread, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_reference_of_another_vocabulary, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_targets_are_answers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_drawn_log_probabilities, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
