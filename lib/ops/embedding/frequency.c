/* frequency: the number of times that a call names each id, counted in a sorted copy of the ids.
 *
 * An array with one counter per row of the table would be simpler. But a kernel must not allocate memory, and its cost
 * must depend on the batch, not on the table. Heap sort works in place and in O(n log n).
 */
#include "ops/embedding/embedding.h"
#include "ops/kernel_real.h"

/* Returns the number of ids below `bound`, by binary search. */
static int64_t count_below(const int32_t *sorted, int64_t count, int64_t bound)
{
    int64_t low = 0;
    while (low < count) {
        int64_t middle = low + (count - low) / 2;
        if (sorted[middle] < bound) {
            low = middle + 1;
        } else {
            count = middle;
        }
    }
    return low;
}

void KERNEL(tg_frequency_scales)(const int32_t *ids, int64_t count, int32_t *sorted, real *scales)
{
    memcpy(sorted, ids, (size_t)count * sizeof *ids);
    tg_sort_ids(sorted, count);
    for (int64_t i = 0; i < count; i++) {
        int64_t first = count_below(sorted, count, ids[i]), end = count_below(sorted, count, (int64_t)ids[i] + 1);
        scales[i] = (real)(1.0 / (double)(end - first));
    }
}

#ifdef TG_ONCE

static bool is_larger(const void *context, const void *a, const void *b)
{
    (void)context;
    return *(const int32_t *)a > *(const int32_t *)b;
}

void tg_sort_ids(int32_t *ids, int64_t count)
{
    for (int64_t i = count / 2 - 1; i >= 0; i--) {
        tg_heap_down(ids, sizeof *ids, (size_t)count, (size_t)i, is_larger, NULL);
    }
    for (int64_t last = count - 1; last > 0; last--) {
        int32_t largest = ids[0];
        ids[0] = ids[last];
        ids[last] = largest;
        tg_heap_down(ids, sizeof *ids, (size_t)last, 0, is_larger, NULL);
    }
}

#endif
