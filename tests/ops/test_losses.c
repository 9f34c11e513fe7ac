/* Every loss against torch's over the options (make_losses.py). */
#include "ops/goldens.h"
#include "support.h"

#include <math.h>

#define LOSS(name, expression)                                                \
    static tg_tensor *name(tg_tape *t, tg_tensor **in, const double *options) \
    {                                                                         \
        tg_reduction reduction = (tg_reduction)options[0];                    \
        return expression;                                                    \
    }

/* A loss with a config, in which one field is set, besides the reduction, to options[1]. */
#define LOSS_WITH(name, config_name, field, expression)                       \
    static tg_tensor *name(tg_tape *t, tg_tensor **in, const double *options) \
    {                                                                         \
        config_name##_config config = config_name##_config_default();         \
        config.reduction = (tg_reduction)options[0];                          \
        field;                                                                \
        return expression;                                                    \
    }

LOSS(mse, tg_mse_loss(t, in[0], in[1], reduction))
LOSS(l1, tg_l1_loss(t, in[0], in[1], reduction))
LOSS_WITH(smooth_l1, tg_smooth_l1_loss, config.beta = options[1], tg_smooth_l1_loss(t, in[0], in[1], &config))
LOSS_WITH(huber, tg_huber_loss, config.delta = options[1], tg_huber_loss(t, in[0], in[1], &config))
LOSS_WITH(hinge_embedding, tg_hinge_embedding_loss, config.margin = options[1],
          tg_hinge_embedding_loss(t, in[0], tg_detach(t, in[1]), &config))
LOSS_WITH(margin_ranking, tg_margin_ranking_loss, config.margin = options[1],
          tg_margin_ranking_loss(t, in[0], in[1], in[2], &config))
LOSS_WITH(kl_div, tg_kl_div, config.log_target = options[1] != 0, tg_kl_div(t, in[0], in[1], &config))
LOSS_WITH(kl_div_constant, tg_kl_div, config.log_target = options[1] != 0,
          tg_kl_div(t, in[0], tg_detach(t, in[1]), &config))
LOSS_WITH(cosine_embedding, tg_cosine_embedding_loss, config.margin = options[1],
          tg_cosine_embedding_loss(t, in[0], in[1], tg_detach(t, in[2]), &config))
LOSS_WITH(bce, tg_binary_cross_entropy_with_logits, (void)0,
          tg_binary_cross_entropy_with_logits(t, in[0], in[1], &config))
LOSS_WITH(bce_weight, tg_binary_cross_entropy_with_logits, config.weight = tg_detach(t, in[2]),
          tg_binary_cross_entropy_with_logits(t, in[0], in[1], &config))
LOSS_WITH(bce_pos_weight, tg_binary_cross_entropy_with_logits, config.pos_weight = tg_detach(t, in[2]),
          tg_binary_cross_entropy_with_logits(t, in[0], in[1], &config))
LOSS_WITH(cross_entropy, tg_cross_entropy, config.label_smoothing = options[1],
          tg_cross_entropy(t, in[0], in[1], &config))

static tg_tensor *bce_both(tg_tape *t, tg_tensor **in, const double *options)
{
    tg_binary_cross_entropy_with_logits_config config = tg_binary_cross_entropy_with_logits_config_default();
    config.reduction = (tg_reduction)options[0];
    config.weight = tg_detach(t, in[2]);
    config.pos_weight = tg_detach(t, in[3]);
    return tg_binary_cross_entropy_with_logits(t, in[0], in[1], &config);
}

static tg_tensor *cross_entropy_weight(tg_tape *t, tg_tensor **in, const double *options)
{
    tg_cross_entropy_config config = tg_cross_entropy_config_default();
    config.reduction = (tg_reduction)options[0];
    config.label_smoothing = options[1];
    config.weight = tg_detach(t, in[2]);
    return tg_cross_entropy(t, in[0], in[1], &config);
}

LOSS_WITH(linear_cross_entropy, tg_cross_entropy, config.label_smoothing = options[1],
          tg_linear_cross_entropy(t, in[0], in[1], in[2], &config))

static tg_tensor *linear_cross_entropy_weight(tg_tape *t, tg_tensor **in, const double *options)
{
    tg_cross_entropy_config config = tg_cross_entropy_config_default();
    config.reduction = (tg_reduction)options[0];
    config.label_smoothing = options[1];
    config.weight = tg_detach(t, in[3]);
    return tg_linear_cross_entropy(t, in[0], in[1], in[2], &config);
}

static tg_tensor *nll_weight(tg_tape *t, tg_tensor **in, const double *options)
{
    tg_cross_entropy_config config = tg_cross_entropy_config_default();
    config.reduction = (tg_reduction)options[0];
    config.weight = tg_detach(t, in[2]);
    return tg_nll_loss(t, in[0], in[1], &config);
}

static tg_tensor *triplet_margin(tg_tape *t, tg_tensor **in, const double *options)
{
    tg_triplet_margin_loss_config config = tg_triplet_margin_loss_config_default();
    config.reduction = (tg_reduction)options[0];
    config.margin = options[1];
    config.p = options[2];
    config.eps = options[3];
    config.swap = options[4] != 0;
    return tg_triplet_margin_loss(t, in[0], in[1], in[2], &config);
}

static tg_tensor *cosine_similarity(tg_tape *t, tg_tensor **in, const double *options)
{
    return tg_cosine_similarity(t, in[0], in[1], (int)options[0], options[1]);
}

static tg_tensor *skip_gram(tg_tape *t, tg_tensor **in, const double *options)
{
    return tg_skip_gram_loss(t, in[0], in[1], in[2], in[3], (tg_reduction)options[0]);
}

static tg_tensor *contrastive(tg_tape *t, tg_tensor **in, const double *options)
{
    tg_contrastive_loss_config config = tg_contrastive_loss_config_default();
    assert_true(config.scale == 20 && config.similarity == TG_SIMILARITY_COSINE && !config.is_symmetric);
    config.scale = options[1];
    config.similarity = (tg_similarity)options[2];
    config.is_symmetric = options[3] != 0;
    bool has_negatives = options[4] != 0;
    config.groups = options[5] != 0 ? in[2 + has_negatives] : NULL;
    return tg_contrastive_loss(t, in[0], in[1], has_negatives ? in[2] : NULL, &config);
}

static const golden_call calls[] = {
    {"mse", mse},
    {"l1", l1},
    {"smooth_l1", smooth_l1},
    {"huber", huber},
    {"hinge_embedding", hinge_embedding},
    {"margin_ranking", margin_ranking},
    {"kl_div", kl_div},
    {"kl_div_constant", kl_div_constant},
    {"cosine_embedding", cosine_embedding},
    {"triplet_margin", triplet_margin},
    {"cosine_similarity", cosine_similarity},
    {"bce", bce},
    {"bce_weight", bce_weight},
    {"bce_pos_weight", bce_pos_weight},
    {"bce_both", bce_both},
    {"cross_entropy_weight", cross_entropy_weight},
    {"cross_entropy_probabilities", cross_entropy},
    {"cross_entropy_probabilities_weight", cross_entropy_weight},
    {"nll_weight", nll_weight},
    {"linear_cross_entropy", linear_cross_entropy},
    {"linear_cross_entropy_weight", linear_cross_entropy_weight},
    {"skip_gram", skip_gram},
    {"contrastive", contrastive},
};

static void test_against_torch(void **state)
{
    (void)state;
    int cases =
        check_goldens_with_options(TG_TEST_GOLDENS "/losses.txt", calls, sizeof calls / sizeof *calls, 5e-13, 4e-6);
    assert_int_equal(cases, 564);
}

/* The largest distance of two tensors, by the largest value of the second. */
static double distance(const tg_tensor *x, const tg_tensor *y)
{
    double far = 0, most = 0;
    assert_int_equal(tg_tensor_count(x), tg_tensor_count(y));
    for (int64_t i = 0; i < tg_tensor_count(x); i++) {
        far = fmax(far, fabs(tg_tensor_value_at(x, i) - tg_tensor_value_at(y, i)));
        most = fmax(most, fabs(tg_tensor_value_at(y, i)));
    }
    return far / most;
}

/* 2^17 classes, so that a chunk has 64 rows: the results of 150 rows are those of a linear layer and a cross-entropy.
 * The second backward adds to the gradients of the first. */
static void test_chunks(void **state)
{
    (void)state;
    enum { ROWS = 150, CLASSES = 1 << 17 };
    tg_run *run = tg_run_new(5);
    tg_tape *t = tg_tape_new(run, NULL);
    int32_t id[ROWS];
    for (int i = 0; i < ROWS; i++) {
        id[i] = i == 70 ? -100 : i * 7919 % CLASSES;
    }
    tg_tensor *x[2], *weight[2], *losses[2], *ids = tg_tensor_new_from(TG_I32, TG_SHAPE(ROWS), id, NULL);
    for (int i = 0; i < 2; i++) {
        tg_rng_seed(tg_run_rng(run), 6);
        x[i] = leaf(tg_tensor_new(TG_F32, TG_SHAPE(ROWS, 2), NULL));
        weight[i] = leaf(tg_tensor_new(TG_F32, TG_SHAPE(CLASSES, 2), NULL));
        assert_true(tg_tensor_fill_normal(x[i], tg_run_rng(run), 0, 2, NULL) &&
                    tg_tensor_fill_normal(weight[i], tg_run_rng(run), 0, 2, NULL));
        for (int repeat = 0; repeat < 2; repeat++) {
            losses[i] = i == 0 ? tg_linear_cross_entropy(t, x[i], weight[i], ids, NULL)
                               : tg_cross_entropy(t, tg_linear(t, x[i], weight[i], NULL), ids, NULL);
            assert_true(tg_backward(t, losses[i], NULL));
        }
    }
    assert_true(distance(losses[0], losses[1]) < 1e-6);
    assert_true(distance(tg_tensor_grad(x[0]), tg_tensor_grad(x[1])) < 1e-6);
    assert_true(distance(tg_tensor_grad(weight[0]), tg_tensor_grad(weight[1])) < 1e-6);
    for (int i = 0; i < 2; i++) {
        tg_release(x[i]);
        tg_release(weight[i]);
    }
    tg_release(ids);
    tg_tape_free(t);
    tg_run_free(run);
}

/* As many pairs as need chunks: the results are those of the plain chain of ops, in which the similarities of pairs of
 * a group are -inf. */
static void test_chunks_of_pairs(void **state)
{
    (void)state;
    enum { PAIRS = 1500, NEGATIVES = 5 * PAIRS };
    tg_run *run = tg_run_new(7);
    tg_tape *t = tg_tape_new(run, NULL);
    int32_t group[PAIRS], spread[2 * PAIRS] = {0};
    for (int i = 0; i < PAIRS; i++) {
        group[i] = spread[2 * i] = i * i % 211;
    }
    tg_contrastive_loss_config config = tg_contrastive_loss_config_default();
    config.similarity = TG_SIMILARITY_DOT;
    config.scale = 1;
    config.groups = tg_slice(t, tg_constant_i32(t, TG_SHAPE(2 * PAIRS), spread), 0, 0, 2 * PAIRS, 2);
    tg_tensor *x[2][3], *losses[2];
    for (int i = 0; i < 2; i++) {
        tg_rng_seed(tg_run_rng(run), 8);
        for (int k = 0; k < 3; k++) {
            x[i][k] = leaf(tg_tensor_new(TG_F32, TG_SHAPE(k < 2 ? PAIRS : NEGATIVES, 3), NULL));
            assert_true(tg_tensor_fill_normal(x[i][k], tg_run_rng(run), 0, 1, NULL));
        }
        if (i == 0) {
            losses[i] = tg_contrastive_loss(t, x[i][0], x[i][1], x[i][2], &config);
        } else {
            tg_tensor *scores = tg_linear(t, x[i][0], tg_cat(t, &x[i][1], 2, 0), NULL);
            tg_tensor *mask = tg_tensor_new(TG_U8, TG_SHAPE(PAIRS, PAIRS + NEGATIVES), NULL);
            uint8_t *hidden = tg_tensor_data_mut(mask);
            for (int b = 0; b < PAIRS; b++) {
                for (int k = 0; k < PAIRS; k++) {
                    hidden[b * (PAIRS + NEGATIVES) + k] = b != k && group[b] == group[k];
                }
            }
            tg_tensor *targets = tg_tensor_new_arange(TG_I32, 0, PAIRS, 1, NULL);
            losses[i] = tg_cross_entropy(t, tg_masked_fill(t, scores, mask, -(double)INFINITY), targets, NULL);
            tg_release(mask);
            tg_release(targets);
        }
        assert_true(tg_backward(t, losses[i], NULL));
    }
    assert_true(distance(losses[0], losses[1]) < 1e-6);
    for (int k = 0; k < 3; k++) {
        assert_true(distance(tg_tensor_grad(x[0][k]), tg_tensor_grad(x[1][k])) < 1e-6);
        tg_release(x[0][k]);
        tg_release(x[1][k]);
    }
    tg_tape_free(t);
    tg_run_free(run);
}

/* The sum of a loss has the same bits for any number of threads. */
static void test_threads_change_no_bits(void **state)
{
    (void)state;
    tg_rng *rng = tg_rng_new(3);
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_tensor *x = leaf(tg_tensor_new(TG_F32, TG_SHAPE(100000), NULL)),
              *y = tg_tensor_new(TG_F32, TG_SHAPE(100000), NULL);
    assert_true(tg_tensor_fill_normal(x, rng, 0, 1, NULL) && tg_tensor_fill_normal(y, rng, 0, 1, NULL));
    double losses[3];
    for (int threads = 1; threads <= 3; threads++) {
        assert_true(tg_set_threads(threads, NULL));
        losses[threads - 1] = tg_tensor_item(tg_l1_loss(t, x, y, TG_REDUCTION_SUM), NULL);
    }
    assert_true(losses[0] == losses[1] && losses[0] == losses[2] && losses[0] > 1e5);
    tg_set_threads(1, NULL);
    tg_release(x);
    tg_release(y);
    tg_tape_free(t);
    tg_rng_free(rng);
}

/* A target of 0 has no derivative: NaN, as in torch, and only there: log 0.5 + 1 - 0.25 = 0.0569. */
static void test_kl_div_has_no_gradient_of_a_target_of_0(void **state)
{
    (void)state;
    tg_tensor *x = tensor_f64(TG_SHAPE(3), (double[]){0.25, 0.25, 0.25});
    tg_tensor *target = leaf(tensor_f64(TG_SHAPE(3), (double[]){0.5, 0.5, 0}));
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_kl_div_config config = tg_kl_div_config_default();
    config.reduction = TG_REDUCTION_SUM;
    assert_true(tg_backward(t, tg_kl_div(t, x, target, &config), NULL));
    for (int i = 0; i < 2; i++) {
        assert_true(fabs(tg_tensor_value_at(tg_tensor_grad(target), i) - (log(0.5) + 0.75)) < 1e-12);
    }
    assert_true(isnan(tg_tensor_value_at(tg_tensor_grad(target), 2)));
    tg_tape_free(t);
    tg_release(x);
    tg_release(target);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_torch),
        cmocka_unit_test(test_chunks),
        cmocka_unit_test(test_chunks_of_pairs),
        cmocka_unit_test(test_threads_change_no_bits),
        cmocka_unit_test(test_kl_div_has_no_gradient_of_a_target_of_0),
    };
    return cmocka_run_group_tests_name("losses", tests, NULL, NULL);
}
