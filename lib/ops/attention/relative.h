/* relative (private): scores by distance, for the kinds of relative positions (lib/nn/positions).
 *
 * Query i of T is at position S - T + i, and key j of S at position j. A distance is the position of the query minus
 * that of the key. Scores by distance are in descending order of the distances: index l of L means the distance
 * S - 1 - l. So the score of query i and key j is at l = T - 1 - i + j.
 */
#ifndef TG_OPS_ATTENTION_RELATIVE_H
#define TG_OPS_ATTENTION_RELATIVE_H

#include <tapegrad/ops.h>

/* x (..,T,L), or (..,1,L) for all queries, -> (..,T,S): value (i,j) is x[i][T - 1 - i + j]. If L >= T + S - 1 the
 * result is a view of x whose rows overlap: do not write to it. With a smaller L the missing scores are 0; if causal,
 * L = S is enough. Dai et al. 2019, appendix B. */
tg_tensor *tg_relative_shift(tg_tape *tape, tg_tensor *x, int64_t queries, int64_t keys);

/* tg_relative_shift of the product queries distances^T, of which only the values that the shift keeps are computed:
 * queries (..,T,D), distances (..,L,D) -> (..,T,S). The batch axes of the distances are those of the queries, or 1, or
 * absent. L >= T + S - 1; if causal, L >= S >= T is enough, and the scores of later keys are 0. Dai et al. 2019,
 * section 3.3. */
tg_tensor *tg_relative_scores(tg_tape *tape, tg_tensor *queries, tg_tensor *distances, int64_t keys, bool causal);

/* Spreads scores by clipped distance to the keys: x (..,T,2 k + 1) -> (..,T,S). Value (i,j) is x[i][k + clip(a,-k,k)],
 * where key j is a = j - (S - T + i) positions after query i. Shaw, Uszkoreit and Vaswani 2018. */
tg_tensor *tg_relative_spread(tg_tape *tape, tg_tensor *x, int64_t keys);

/* The transposed operation: x (..,T,S) -> (..,T,2 clip + 1), the sums of the values with the same clipped distance. */
tg_tensor *tg_relative_collect(tg_tape *tape, tg_tensor *x, int64_t clip);

#endif
