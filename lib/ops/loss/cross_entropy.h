/* cross_entropy (private): what the losses with ids and with probabilities as targets share. */
#ifndef TG_OPS_LOSS_CROSS_ENTROPY_H
#define TG_OPS_LOSS_CROSS_ENTROPY_H

#include "ops/lane_sums.h"
#include "ops/loss/pointwise.h"

/* ---- ids as targets: tg_cross_entropy, tg_nll_loss and tg_linear_cross_entropy ---- */

typedef struct tg_cross_entropy_attributes {
    tg_cross_entropy_config config;
    bool from_log_probabilities; /* nll_loss: L_s is 0, and so is its gradient */
    bool has_groups;             /* linear_cross_entropy: the input behind the weight (V,C) are groups */
} tg_cross_entropy_attributes;

/* The values that forward saves for backward. */
typedef struct tg_cross_entropy_saved {
    double counted; /* the number of targets that are not ignored, or the sum of their weights */
    tg_softmax_row rows[];
} tg_cross_entropy_saved;

/* The mark of a tg_cross_entropy_config. */
extern const char tg_cross_entropy_mark[];

/* Checks that each target, input 1, is ignored or in [0,classes). `scored` has the classes, and `name` is what it is in
 * the message, which has its shape: a head that is too narrow shows there. */
bool tg_check_targets(tg_op_call *call, int64_t classes, int32_t ignored, const char *name, const tg_tensor *scored);

/* Checks the options and, if it exists, the weight of the classes, the input of this number. */
bool tg_check_cross_entropy(tg_op_call *call, const tg_cross_entropy_config *config, int64_t classes, int weight);

/* tg_linear_cross_entropy, where row s has no logit k != s if groups[k] = groups[s]. The target of row s is s, and the
 * groups (S) are i32. */
tg_tensor *tg_linear_cross_entropy_of_groups(tg_tape *t, tg_tensor *x, tg_tensor *weight, tg_tensor *targets,
                                             tg_tensor *groups);

/* The op for targets that are probabilities. Its attributes begin with a tg_cross_entropy_config. */
extern const tg_op tg_cross_entropy_probabilities_op;

#endif
