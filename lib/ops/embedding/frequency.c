/* frequency: the number of times that a call names each id, counted in a sorted copy of the ids.
 *
 * An array with one counter per row of the table would be simpler. But a kernel must not allocate memory, and its cost
 * must depend on the batch, not on the table. Heap sort works in place and in O(n log n).
 */
#include "ops/embedding/embedding.h"
#include "ops/kernel.h"

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

/* Moves heap[top] down until neither child is larger. */
static void sift_down(int32_t *heap, int64_t count, int64_t top)
{
    int32_t moved = heap[top];
    int64_t child;
    while ((child = 2 * top + 1) < count) {
        child += child + 1 < count && heap[child + 1] > heap[child];
        if (heap[child] <= moved) {
            break;
        }
        heap[top] = heap[child];
        top = child;
    }
    heap[top] = moved;
}

void tg_sort_ids(int32_t *ids, int64_t count)
{
    for (int64_t i = count / 2 - 1; i >= 0; i--) {
        sift_down(ids, count, i);
    }
    for (int64_t last = count - 1; last > 0; last--) {
        int32_t largest = ids[0];
        ids[0] = ids[last];
        ids[last] = largest;
        sift_down(ids, last, 0);
    }
}

#endif
