/* losses: the ops that compute a loss, with torch's names and reductions.
 *
 * The rules of tapegrad/ops.h hold. There are two intentional differences from PyTorch. The classes are on the last
 * axis, and not on axis 1 as in torch.nn.functional.cross_entropy. The prediction and the target must have the same
 * shape: torch broadcasts a prediction (B,1) and a target (B) to (B,B), which is hardly ever meant. VALUE for an
 * invalid number in a config, and for a reduction that does not exist.
 */
#ifndef TAPEGRAD_LOSSES_H
#define TAPEGRAD_LOSSES_H

#include <tapegrad/ops.h>
#include <tapegrad/rows.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a loss returns. */
typedef enum tg_reduction {
    /* the mean of the losses, a scalar */
    TG_REDUCTION_MEAN,
    /* their sum, a scalar */
    TG_REDUCTION_SUM,
    /* each loss */
    TG_REDUCTION_NONE,
    /* their sum divided by the size of axis 0, for tg_kl_div only: torch's "batchmean" */
    TG_REDUCTION_BATCH_MEAN
} tg_reduction;

/* ---- classes ----------------------------------------------------------------------------------------------------- */

typedef struct tg_cross_entropy_config {
    /* private: tg_cross_entropy_config_default() sets it */
    tg_config_mark mark;
    /* the target that does not count; default -100 */
    int32_t ignore_index;
    /* the probability that is spread over all classes, in [0,1], and 0 for tg_nll_loss; default 0 */
    double label_smoothing;
    /* mean, sum or none. The mean is over the targets that count, and NaN if none does. With a weight and targets that
     * are ids, the divisor is the sum of their weights. Default TG_REDUCTION_MEAN */
    tg_reduction reduction;
    /* the weights of the classes (V), of the dtype of the logits, without a gradient; default NULL, all 1 */
    tg_tensor *weight;
} tg_cross_entropy_config;

TG_API tg_cross_entropy_config tg_cross_entropy_config_default(void);

/* The cross-entropy -log(softmax(logits))[target]: logits (..,V) and targets (..) i32 -> a scalar, or (..) with
 * TG_REDUCTION_NONE. Targets (..,V) of the dtype of the logits are probabilities of the classes, and the loss is
 * -sum(target * log(softmax(logits))); ignore_index has no effect then. RANGE, with the index, for a target that is
 * neither ignored nor in [0,V); VALUE for an invalid option; STATE for a weight that requires a gradient. */
TG_API tg_tensor *tg_cross_entropy(tg_tape *tape, tg_tensor *logits, tg_tensor *targets,
                                   const tg_cross_entropy_config *config);

/* The cross-entropy of the logits x weight^T: x (..,C), weight (V,C) and targets (..) i32, the result as above. The
 * logits are the largest tensor of a model with a large vocabulary. They and their gradient do not exist as a whole
 * then: only 2^23 of them at a time, or those of 64 rows, and backward computes them again. Fewer are kept until
 * backward. The result differs by roundings from that of tg_linear and tg_cross_entropy, which a head with a bias
 * needs. Follows torch.nn.functional.linear_cross_entropy. */
TG_API tg_tensor *tg_linear_cross_entropy(tg_tape *tape, tg_tensor *x, tg_tensor *weight, tg_tensor *targets,
                                          const tg_cross_entropy_config *config);

/* The same from log-probabilities (..,V): -log_probs[..,target]. */
TG_API tg_tensor *tg_nll_loss(tg_tape *tape, tg_tensor *log_probs, tg_tensor *targets,
                              const tg_cross_entropy_config *config);

typedef struct tg_binary_cross_entropy_with_logits_config {
    /* private: tg_binary_cross_entropy_with_logits_config_default() sets it */
    tg_config_mark mark;
    /* the factor of each loss, which broadcasts to the logits, without a gradient; default NULL, 1 */
    tg_tensor *weight;
    /* the factor of the term of positive targets, `target log(sigmoid(logits))`, which broadcasts to the logits,
     * without a gradient; default NULL, 1 */
    tg_tensor *pos_weight;
    /* default TG_REDUCTION_MEAN */
    tg_reduction reduction;
} tg_binary_cross_entropy_with_logits_config;

TG_API tg_binary_cross_entropy_with_logits_config tg_binary_cross_entropy_with_logits_config_default(void);

/* -(target log(sigmoid(logits)) + (1 - target) log(1 - sigmoid(logits))), with targets in [0,1]. STATE for a weight
 * that requires a gradient. */
TG_API tg_tensor *tg_binary_cross_entropy_with_logits(tg_tape *tape, tg_tensor *logits, tg_tensor *target,
                                                      const tg_binary_cross_entropy_with_logits_config *config);

typedef struct tg_kl_div_config {
    /* private: tg_kl_div_config_default() sets it */
    tg_config_mark mark;
    /* whether the target holds log-probabilities, and not probabilities; default false */
    bool log_target;
    /* TG_REDUCTION_BATCH_MEAN gives the Kullback-Leibler divergence of a batch of rows; default TG_REDUCTION_MEAN,
     * which divides by the number of all values, as in torch */
    tg_reduction reduction;
} tg_kl_div_config;

TG_API tg_kl_div_config tg_kl_div_config_default(void);

/* target (log(target) - log_probs), and 0 for a target of 0. */
TG_API tg_tensor *tg_kl_div(tg_tape *tape, tg_tensor *log_probs, tg_tensor *target, const tg_kl_div_config *config);

/* ---- distances --------------------------------------------------------------------------------------------------- */

/* (prediction - target)^2 */
TG_API tg_tensor *tg_mse_loss(tg_tape *tape, tg_tensor *prediction, tg_tensor *target, tg_reduction reduction);

/* |prediction - target|. The gradient at 0 is 0. */
TG_API tg_tensor *tg_l1_loss(tg_tape *tape, tg_tensor *prediction, tg_tensor *target, tg_reduction reduction);

typedef struct tg_smooth_l1_loss_config {
    /* private: tg_smooth_l1_loss_config_default() sets it */
    tg_config_mark mark;
    /* the distance at which the loss becomes linear, at least 0, and 0 for tg_l1_loss; default 1 */
    double beta;
    /* default TG_REDUCTION_MEAN */
    tg_reduction reduction;
} tg_smooth_l1_loss_config;

TG_API tg_smooth_l1_loss_config tg_smooth_l1_loss_config_default(void);

/* d^2 / (2 beta) for a distance d = |prediction - target| below beta, else d - beta / 2. */
TG_API tg_tensor *tg_smooth_l1_loss(tg_tape *tape, tg_tensor *prediction, tg_tensor *target,
                                    const tg_smooth_l1_loss_config *config);

typedef struct tg_huber_loss_config {
    /* private: tg_huber_loss_config_default() sets it */
    tg_config_mark mark;
    /* the distance at which the loss becomes linear, above 0; default 1 */
    double delta;
    /* default TG_REDUCTION_MEAN */
    tg_reduction reduction;
} tg_huber_loss_config;

TG_API tg_huber_loss_config tg_huber_loss_config_default(void);

/* d^2 / 2 for a distance d = |prediction - target| of at most delta, else delta (d - delta / 2). */
TG_API tg_tensor *tg_huber_loss(tg_tape *tape, tg_tensor *prediction, tg_tensor *target,
                                const tg_huber_loss_config *config);

/* ---- similarity and ranking -------------------------------------------------------------------------------------- */
/* A target of 1 or -1 has the dtype of the inputs, and no gradient unless the comment names one. */

typedef struct tg_cosine_embedding_loss_config {
    /* private: tg_cosine_embedding_loss_config_default() sets it */
    tg_config_mark mark;
    /* the cosine up to which different rows have no loss; default 0 */
    double margin;
    /* default TG_REDUCTION_MEAN */
    tg_reduction reduction;
} tg_cosine_embedding_loss_config;

TG_API tg_cosine_embedding_loss_config tg_cosine_embedding_loss_config_default(void);

/* With c = cos(a, b) of two rows: 1 - c for a target of 1, max(0, c - margin) for -1, and 0 for any other target.
 * a (..,D), b (..,D) and target (..). STATE for a target that requires a gradient. */
TG_API tg_tensor *tg_cosine_embedding_loss(tg_tape *tape, tg_tensor *a, tg_tensor *b, tg_tensor *target,
                                           const tg_cosine_embedding_loss_config *config);

typedef struct tg_hinge_embedding_loss_config {
    /* private: tg_hinge_embedding_loss_config_default() sets it */
    tg_config_mark mark;
    /* the distance from which on different pairs have no loss; default 1 */
    double margin;
    /* default TG_REDUCTION_MEAN */
    tg_reduction reduction;
} tg_hinge_embedding_loss_config;

TG_API tg_hinge_embedding_loss_config tg_hinge_embedding_loss_config_default(void);

/* For a distance x: x for a target of 1, max(0, margin - x) for a target of -1, and the sum of both for any other
 * target. STATE for a target that requires a gradient. */
TG_API tg_tensor *tg_hinge_embedding_loss(tg_tape *tape, tg_tensor *x, tg_tensor *target,
                                          const tg_hinge_embedding_loss_config *config);

typedef struct tg_margin_ranking_loss_config {
    /* private: tg_margin_ranking_loss_config_default() sets it */
    tg_config_mark mark;
    /* the difference from which on a pair in the right order has no loss; default 0 */
    double margin;
    /* default TG_REDUCTION_MEAN */
    tg_reduction reduction;
} tg_margin_ranking_loss_config;

TG_API tg_margin_ranking_loss_config tg_margin_ranking_loss_config_default(void);

/* max(0, -target (a - b) + margin): a target of 1 asks for a > b, and -1 for a < b. The target can have a gradient. */
TG_API tg_tensor *tg_margin_ranking_loss(tg_tape *tape, tg_tensor *a, tg_tensor *b, tg_tensor *target,
                                         const tg_margin_ranking_loss_config *config);

typedef struct tg_triplet_margin_loss_config {
    /* private: tg_triplet_margin_loss_config_default() sets it */
    tg_config_mark mark;
    /* the difference of the two distances from which on a triplet has no loss, above 0; default 1 */
    double margin;
    /* the p of the distance, above 0 or INFINITY; default 2 */
    double p;
    /* what is added to each difference to keep the gradient finite; default 1e-6 */
    double eps;
    /* whether the distance from the positive to the negative is used if it is smaller than that from the anchor to the
     * negative (Balntas et al. 2016); default false */
    bool swap;
    /* default TG_REDUCTION_MEAN */
    tg_reduction reduction;
} tg_triplet_margin_loss_config;

TG_API tg_triplet_margin_loss_config tg_triplet_margin_loss_config_default(void);

/* max(0, d(anchor, positive) - d(anchor, negative) + margin) with d(a, b) = |a - b + eps|_p, for rows (..,D) -> a
 * scalar, or (..) with TG_REDUCTION_NONE. */
TG_API tg_tensor *tg_triplet_margin_loss(tg_tape *tape, tg_tensor *anchor, tg_tensor *positive, tg_tensor *negative,
                                         const tg_triplet_margin_loss_config *config);

typedef struct tg_contrastive_loss_config {
    /* private: tg_contrastive_loss_config_default() sets it */
    tg_config_mark mark;
    /* the factor of the similarities, finite and above 0: the inverse of a temperature; default 20 */
    double scale;
    /* with TG_SIMILARITY_DOT, a scale of 1 is usual; default TG_SIMILARITY_COSINE */
    tg_similarity similarity;
    /* whether the loss is the mean of this one and of that in which each positive has to find its anchor among all
     * anchors; default false */
    bool is_symmetric;
    /* the groups of the pairs (B) i32: pairs with the same number, such as those with equal texts, are no negatives of
     * each other; default NULL, all pairs differ */
    tg_tensor *groups;
} tg_contrastive_loss_config;

TG_API tg_contrastive_loss_config tg_contrastive_loss_config_default(void);

/* InfoNCE, the contrastive loss of pairs (van den Oord et al. 2018, Henderson et al. 2017). Each anchor has to find its
 * positive among all positives of the batch, and, if they are given, all hard negatives. anchors (B,C), positives (B,C)
 * and negatives (N,C) or NULL -> a scalar:
 *
 *     mean_b (log sum_k exp(s[b,k]) - s[b,b])        s[b,k] = scale similarity(anchors[b], candidates[k])
 *
 * The candidates are the positives, then the negatives. N is a multiple of B, and negatives b, B + b, ... belong to
 * pair b. They are candidates of each anchor, of those in the group of b, too. A vector whose norm is below 1e-12 is
 * divided by that instead, as in torch.nn.functional.normalize. The similarities (B,B+N) do not exist as a whole if
 * there are many: see tg_linear_cross_entropy.
 *
 * Follows sentence-transformers' MultipleNegativesRankingLoss with directions ("query_to_doc",), and, if it is
 * symmetric, ("query_to_doc", "doc_to_query") with partition_mode "per_direction". SHAPE unless B >= 1 and C >= 1;
 * VALUE for groups that leave several pairs without any negative, because all are equal; STATE for a result without
 * values. */
TG_API tg_tensor *tg_contrastive_loss(tg_tape *tape, tg_tensor *anchors, tg_tensor *positives, tg_tensor *negatives,
                                      const tg_contrastive_loss_config *config);

/* word2vec's loss (Mikolov et al. 2013): the skip-gram model with negative sampling. centers (B) i32 are rows of
 * `table` (V,C), and targets (B,K) i32, K >= 1, rows of `contexts` (U,C) -> a scalar, or (B) with TG_REDUCTION_NONE:
 *
 *     l[b] = -log s(x[b,0]) - sum_{k>0} log s(-x[b,k])        x[b,k] = table[centers[b]] . contexts[targets[b,k]]
 *
 * with s(x) = 1 / (1 + exp(-x)). The first target is a word of the center's context, the others are negatives. As in
 * word2vec, a negative equal to the first target is left out. With g[b,k] = s(x[b,k]) - [k = 0], the gradient of
 * table[centers[b]] is sum_k g[b,k] contexts[targets[b,k]], and that of contexts[targets[b,k]] is
 * g[b,k] table[centers[b]]. Both tables get gradients by rows, if they are leaves. It is fastest if pairs with the same
 * center follow each other. word2vec's step is one of SGD on the sum (TG_REDUCTION_SUM). RANGE, with the index, for an
 * id outside of its table. */
TG_API tg_tensor *tg_skip_gram_loss(tg_tape *tape, tg_tensor *centers, tg_tensor *table, tg_tensor *targets,
                                    tg_tensor *contexts, tg_reduction reduction);

/* The cosine similarity sum(a b) / (max(|a|, eps) max(|b|, eps)) along an axis, which is removed. The inputs broadcast.
 * torch's eps is 1e-8. VALUE for an eps that is negative or not finite. */
TG_API tg_tensor *tg_cosine_similarity(tg_tape *tape, tg_tensor *a, tg_tensor *b, int axis, double eps);

#ifdef __cplusplus
}
#endif

#endif
