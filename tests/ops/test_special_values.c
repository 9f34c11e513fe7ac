/* Bounds, losses and reductions at NaN, infinities, zeros and kinks, and products of empty matrices: values
 * and gradients are torch's (make_special_values.py). */
#include "ops/goldens.h"
#include "support.h"

#define CALL(name, expression)                                                \
    static tg_tensor *name(tg_tape *t, tg_tensor **in, const double *options) \
    {                                                                         \
        (void)options;                                                        \
        return expression;                                                    \
    }

/* A loss of each value, with a config in which one field is set. */
#define LOSS(name, config_name, field, expression)                            \
    static tg_tensor *name(tg_tape *t, tg_tensor **in, const double *options) \
    {                                                                         \
        config_name##_config config = config_name##_config_default();         \
        config.reduction = TG_REDUCTION_NONE;                                 \
        (void)options;                                                        \
        field;                                                                \
        return expression;                                                    \
    }

CALL(clamp_low, tg_clamp_tensor(t, in[0], in[1], NULL))
CALL(clamp_high, tg_clamp_tensor(t, in[0], NULL, in[1]))
CALL(clamp_both, tg_clamp_tensor(t, in[0], in[1], in[2]))
CALL(mse, tg_mse_loss(t, in[0], in[1], TG_REDUCTION_NONE))
CALL(l1, tg_l1_loss(t, in[0], in[1], TG_REDUCTION_NONE))
CALL(cosine_similarity, tg_cosine_similarity(t, in[0], in[1], 1, 1e-8))
CALL(var, tg_var(t, in[0], TG_AXES(1), (int)options[0], TG_DROP_AXES))
CALL(std, tg_std(t, in[0], TG_AXES(1), (int)options[0], TG_DROP_AXES))
CALL(amax, tg_amax(t, in[0], TG_AXES(1), TG_DROP_AXES))
CALL(logsumexp, tg_logsumexp(t, in[0], TG_AXES(1), TG_DROP_AXES))
CALL(softmax, tg_softmax(t, in[0], 1))
CALL(log_softmax, tg_log_softmax(t, in[0], 1))
CALL(norm, tg_norm(t, in[0], options[0], TG_AXES(1), TG_DROP_AXES))
CALL(linear, tg_linear(t, in[0], in[1], NULL))
CALL(linear_bias, tg_linear(t, in[0], in[1], in[2]))
LOSS(smooth_l1, tg_smooth_l1_loss, config.beta = options[0], tg_smooth_l1_loss(t, in[0], in[1], &config))
LOSS(huber, tg_huber_loss, config.delta = options[0], tg_huber_loss(t, in[0], in[1], &config))
LOSS(kl_div, tg_kl_div, config.log_target = options[0] != 0, tg_kl_div(t, in[0], in[1], &config))
LOSS(hinge_embedding, tg_hinge_embedding_loss, config.margin = options[0],
     tg_hinge_embedding_loss(t, in[0], tg_detach(t, in[1]), &config))
LOSS(margin_ranking, tg_margin_ranking_loss, config.margin = options[0],
     tg_margin_ranking_loss(t, in[0], in[1], in[2], &config))
LOSS(cosine_embedding, tg_cosine_embedding_loss, (void)0,
     tg_cosine_embedding_loss(t, in[0], in[1], tg_detach(t, in[2]), &config))
LOSS(bce, tg_binary_cross_entropy_with_logits, (void)0, tg_binary_cross_entropy_with_logits(t, in[0], in[1], &config))
LOSS(bce_pos_weight, tg_binary_cross_entropy_with_logits, config.pos_weight = tg_detach(t, in[2]),
     tg_binary_cross_entropy_with_logits(t, in[0], in[1], &config))

static tg_tensor *triplet_margin(tg_tape *t, tg_tensor **in, const double *options)
{
    tg_triplet_margin_loss_config config = tg_triplet_margin_loss_config_default();
    config.reduction = TG_REDUCTION_NONE;
    config.p = options[0];
    config.swap = options[1] != 0;
    config.eps = 0;
    return tg_triplet_margin_loss(t, in[0], in[1], in[2], &config);
}

static const golden_call calls[] = {
    {"clamp_low", clamp_low},
    {"clamp_high", clamp_high},
    {"clamp_both", clamp_both},
    {"mse", mse},
    {"l1", l1},
    {"smooth_l1", smooth_l1},
    {"huber", huber},
    {"kl_div", kl_div},
    {"hinge_embedding", hinge_embedding},
    {"margin_ranking", margin_ranking},
    {"bce", bce},
    {"bce_pos_weight", bce_pos_weight},
    {"cosine_similarity", cosine_similarity},
    {"cosine_embedding", cosine_embedding},
    {"triplet_margin", triplet_margin},
    {"var", var},
    {"std", std},
    {"amax", amax},
    {"logsumexp", logsumexp},
    {"softmax", softmax},
    {"log_softmax", log_softmax},
    {"norm", norm},
    {"linear", linear},
    {"linear_bias", linear_bias},
};

static void test_against_torch(void **state)
{
    (void)state;
    int cases = check_goldens_with_options(TG_TEST_GOLDENS "/special_values.txt", calls, sizeof calls / sizeof *calls,
                                           1e-12, 5e-6);
    assert_int_equal(cases, 83);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_torch),
    };
    return cmocka_run_group_tests_name("special values", tests, NULL, NULL);
}
