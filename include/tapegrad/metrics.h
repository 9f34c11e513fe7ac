/* metrics: how many predictions of a classifier are right, added up over batches.
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
 * The calls take logits (..,C) f32 or f64 and targets (..) i32 of any layout, as tg_cross_entropy does, and record
 * nothing. The prediction is the class with the largest logit, as by tg_argmax: on ties the first, and a NaN counts as
 * the largest.
 *
 * Errors. SHAPE or DTYPE for other tensors; RANGE, with the index, for a target that is neither ignored nor in [0,C);
 * STATE for a NULL. A call that fails adds nothing.
 */
#ifndef TAPEGRAD_METRICS_H
#define TAPEGRAD_METRICS_H

#include <tapegrad/tensor.h>

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

#ifdef __cplusplus
}
#endif

#endif
