/* metrics: how many predictions of a classifier are right, added up over batches; how good the results of a search are;
 * and the correlation of two rankings.
 * Library: tapegrad_tools (pkg-config tapegrad_tools).
 *
 * ```c
 * tg_accuracy accuracy = {0};
 * tg_tensor *confusion = tg_tensor_new(TG_I32, TG_SHAPE(4, 4), &error);
 * tg_tensor *logits = tg_nn_linear_forward(t, &linear, x);             // (N,4), targets (N)
 * tg_accuracy_add(&accuracy, logits, targets, NULL, &error);
 * tg_confusion_add(confusion, logits, targets, NULL, &error);
 * printf("%lld of %lld right\n", (long long)accuracy.correct, (long long)accuracy.count);
 * tg_release(confusion);
 * ```
 *
 * The first two calls take logits (..,C) f32 or f64 and targets (..) i32 of any layout, as tg_cross_entropy does, and
 * record nothing. The prediction is the class with the largest logit, as by tg_argmax: on ties the first, and a NaN
 * counts as the largest.
 *
 * Errors. SHAPE or DTYPE for other tensors; RANGE, with the index, for a target that is neither ignored nor in [0,C);
 * STATE for a NULL. A call that fails adds nothing.
 */
#ifndef TAPEGRAD_METRICS_H
#define TAPEGRAD_METRICS_H

#include <tapegrad/rows.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tg_metric_config {
    /* private: tg_metric_config_default() sets it */
    tg_config_mark mark;
    /* the target that does not count, as in tg_cross_entropy_config; default -100 */
    int32_t ignore_index;
} tg_metric_config;

TG_API tg_metric_config tg_metric_config_default(void);

/* The number of targets that count, and of those that were predicted. Begins as zeros. */
typedef struct tg_accuracy {
    int64_t correct, count;
} tg_accuracy;

/* Adds the number of targets that count, and of those that the logits predict: (logits.argmax(-1) == targets).sum(). */
TG_API bool tg_accuracy_add(tg_accuracy *accuracy, const tg_tensor *logits, const tg_tensor *targets,
                            const tg_metric_config *config, tg_error *error);

/* Adds 1 to matrix[target,prediction] for each target that counts: scikit-learn's confusion_matrix. The caller creates
 * the matrix (C,C) i32 with zeros. RANGE if a count could exceed INT32_MAX; STATE if values of the matrix share memory
 * (tg_expand); MEMORY. */
TG_API bool tg_confusion_add(tg_tensor *matrix, const tg_tensor *logits, const tg_tensor *targets,
                             const tg_metric_config *config, tg_error *error);

/* ---- rankings ---------------------------------------------------------------------------------------------------- */

/* Sums over queries: divided by their number they are means. Begins as zeros. */
typedef struct tg_ranking {
    /* the number of queries */
    int64_t count;
    /* the shares of the relevant rows that were found: recall at k */
    double recall;
    /* 1 / r, where r is the place of the first relevant row, from 1 on; 0 if none was found: mean reciprocal rank */
    double reciprocal_rank;
    /* the normalized discounted cumulative gain at k, for relevances of 0 and 1 (Jarvelin and Kekalainen 2002): the sum
     * of 1 / log2(r + 1) over the places r of the relevant rows, divided by that of the best order */
    double ndcg;
} tg_ranking;

/* Adds the metrics of one query, of which k results were found, the nearest first (tg_tensor_neighbors). Those of row
 * -1 are none. `relevant` has the rows that should have been found, each once. For a smaller k, such as recall at 1,
 * give fewer of the results. The formulas are those of sentence-transformers' InformationRetrievalEvaluator. VALUE
 * unless k and the number of relevant rows are 1 or more. */
TG_API bool tg_ranking_add(tg_ranking *ranking, const tg_row_neighbor *results, int64_t k, const int64_t *relevant,
                           int64_t relevant_count, tg_error *error);

/* Returns Spearman's rank correlation of the values of two tensors of one shape, in [-1,1]: Pearson's correlation of
 * their ranks, where equal values have the mean of their ranks: scipy.stats.spearmanr. NaN after an error: SHAPE for
 * other shapes; VALUE for a NaN, and if all values of a tensor are equal, such as one value; MEMORY. */
TG_API double tg_spearman(const tg_tensor *a, const tg_tensor *b, tg_error *error);

#ifdef __cplusplus
}
#endif

#endif
