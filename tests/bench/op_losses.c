/* The rows of losses. */
#include "bench/op_row.h"

static tg_tensor *cross_entropy(tg_tape *t, tg_tensor *const *x)
{
    return tg_cross_entropy(t, x[0], x[1], NULL);
}

static tg_tensor *cross_entropy_smooth(tg_tape *t, tg_tensor *const *x)
{
    tg_cross_entropy_config config = tg_cross_entropy_config_default();
    config.label_smoothing = 0.1;
    return tg_cross_entropy(t, x[0], x[1], &config);
}

static tg_tensor *linear_cross_entropy(tg_tape *t, tg_tensor *const *x)
{
    return tg_linear_cross_entropy(t, x[0], x[1], x[2], NULL);
}

static tg_tensor *nll_loss(tg_tape *t, tg_tensor *const *x)
{
    return tg_nll_loss(t, x[0], x[1], NULL);
}

static tg_tensor *binary_cross_entropy(tg_tape *t, tg_tensor *const *x)
{
    return tg_binary_cross_entropy_with_logits(t, x[0], x[1], NULL);
}

static tg_tensor *kl_div(tg_tape *t, tg_tensor *const *x)
{
    return tg_kl_div(t, x[0], x[1], NULL);
}

static tg_tensor *kl_div_of_logs(tg_tape *t, tg_tensor *const *x)
{
    tg_kl_div_config config = tg_kl_div_config_default();
    config.log_target = true;
    return tg_kl_div(t, x[0], x[1], &config);
}

static tg_tensor *smooth_l1_loss(tg_tape *t, tg_tensor *const *x)
{
    return tg_smooth_l1_loss(t, x[0], x[1], NULL);
}

static tg_tensor *huber_loss(tg_tape *t, tg_tensor *const *x)
{
    return tg_huber_loss(t, x[0], x[1], NULL);
}

static tg_tensor *cosine_embedding_loss(tg_tape *t, tg_tensor *const *x)
{
    return tg_cosine_embedding_loss(t, x[0], x[1], x[2], NULL);
}

static tg_tensor *hinge_embedding_loss(tg_tape *t, tg_tensor *const *x)
{
    return tg_hinge_embedding_loss(t, x[0], x[1], NULL);
}

static tg_tensor *margin_ranking_loss(tg_tape *t, tg_tensor *const *x)
{
    return tg_margin_ranking_loss(t, x[0], x[1], x[2], NULL);
}

static tg_tensor *triplet_margin_loss(tg_tape *t, tg_tensor *const *x)
{
    return tg_triplet_margin_loss(t, x[0], x[1], x[2], NULL);
}

static tg_tensor *contrastive_loss(tg_tape *t, tg_tensor *const *x)
{
    return tg_contrastive_loss(t, x[0], x[1], NULL, NULL);
}

static tg_tensor *skip_gram_loss(tg_tape *t, tg_tensor *const *x)
{
    return tg_skip_gram_loss(t, x[0], x[1], x[2], x[3], TG_REDUCTION_SUM);
}

static tg_tensor *cosine_similarity(tg_tape *t, tg_tensor *x, tg_tensor *y, int axis)
{
    return tg_cosine_similarity(t, x, y, axis, 1e-8);
}

static tg_tensor *cosine_similarity_first(tg_tape *t, tg_tensor *const *x)
{
    return cosine_similarity(t, x[0], x[1], 0);
}

static tg_tensor *cosine_similarity_last(tg_tape *t, tg_tensor *const *x)
{
    return cosine_similarity(t, x[0], x[1], -1);
}

const op_row op_losses[] = {
    {"tg_cross_entropy", "", "real R,V; ids<V R", .call = cross_entropy},
    {"tg_cross_entropy", "smoothed", "real R,V; ids<V R", .call = cross_entropy_smooth},
    {"tg_linear_cross_entropy", "", "real R,E; weight V,E; ids<V R", "2,R,E,V", .call = linear_cross_entropy},
    {"tg_nll_loss", "", "real R,V; ids<V R", .call = nll_loss},
    {"tg_binary_cross_entropy_with_logits", "", "real S; probability S", .call = binary_cross_entropy},
    {"tg_kl_div", "", "real S; probability S", .call = kl_div},
    {"tg_kl_div", "log target", "real S; target S", .call = kl_div_of_logs},
    {"tg_mse_loss", "", "real S; target S", .loss = tg_mse_loss},
    {"tg_l1_loss", "", "real S; target S", .loss = tg_l1_loss},
    {"tg_smooth_l1_loss", "", "real S; target S", .call = smooth_l1_loss},
    {"tg_huber_loss", "", "real S; target S", .call = huber_loss},
    {"tg_cosine_embedding_loss", "", "real F,L; real F,L; sign F", .call = cosine_embedding_loss},
    {"tg_hinge_embedding_loss", "", "positive S; sign S", .call = hinge_embedding_loss},
    {"tg_margin_ranking_loss", "", "real S; real S; sign S", .call = margin_ranking_loss},
    {"tg_triplet_margin_loss", "", "real S; real S; real S", .call = triplet_margin_loss},
    {"tg_contrastive_loss", "", "real R,E; real R,E", "2,R,E,R", .call = contrastive_loss},
    {"tg_skip_gram_loss", "", "ids<V R; table V,E; ids<V R,6; table V,E", "4,R,6,E", .call = skip_gram_loss},
    {"tg_cosine_similarity", "first axis", "real S; real S", .call = cosine_similarity_first},
    {"tg_cosine_similarity", "last axis", "real S; real S", .call = cosine_similarity_last},
    {.op = NULL},
};
