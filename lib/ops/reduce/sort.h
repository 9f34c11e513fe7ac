/* sort (private): the first values of a line in their order, for topk and sort.
 *
 * Each value becomes an unsigned integer, its key, whose order is that of the result: NaN has the largest key, and -0
 * that of 0; where the largest value comes first, all bits are inverted. The keys are radix sorted, byte by byte from
 * the lowest; a few are sorted by insertion. Both are stable: on a tie the smaller index is first.
 *
 * If only the first k of many values are needed, the first k of those read so far stand sorted at the beginning of a
 * buffer. Of the next values, those that come before the last of the k are added behind them; most blocks have none,
 * which a loop of vectors finds. The buffer is sorted when it is full, or twice as many values have been read, and its
 * first k entries stay. So no order of the values takes longer than O(n).
 */
#ifndef TG_OPS_REDUCE_SORT_H
#define TG_OPS_REDUCE_SORT_H

#include "ops/kernel_real.h"

#if defined TG_REAL_F32
typedef uint32_t sort_key;
typedef int32_t signed_key;
#else
typedef uint64_t sort_key;
typedef int64_t signed_key;
#endif

/* A value of a line. */
typedef struct sort_entry {
    sort_key key;
    int32_t index;
} sort_entry;

/* Up to SORT_SHORT entries are inserted. Values are compared with the last of the k in blocks of SORT_BLOCK. */
enum { SORT_KEY_BYTES = sizeof(sort_key), SORT_SIGN_BIT = 8 * SORT_KEY_BYTES - 1, SORT_SHORT = 64, SORT_BLOCK = 32 };

/* The bytes of a row of the lines that are read side by side: a line of the processor's cache. */
enum { SORT_ROW_BYTES = 64 };

/* Returns the key of x. `order` is 0 if the smallest value comes first, and ~0 if the largest one does. */
static inline sort_key key_of(real x, sort_key order)
{
    real plain = x + 0; /* -0 becomes 0 */
    sort_key bits;
    memcpy(&bits, &plain, sizeof bits);
    sort_key sign = (sort_key)((signed_key)bits >> SORT_SIGN_BIT);
    bits ^= sign | (sort_key)1 << SORT_SIGN_BIT;
    return (x == x ? bits : ~(sort_key)0) ^ order;
}

/* Returns the number of entries that sort_line needs in each of its two buffers to find the first k of n values. */
static inline int64_t sort_capacity(int64_t n, int64_t k)
{
    return (n - 1) / 2 - SORT_BLOCK <= k ? n : 2 * k + 2 * SORT_BLOCK;
}

/* Sorts the first k of a few entries. */
static inline void insertion_sort(sort_entry *entries, int64_t n, int64_t k)
{
    for (int64_t i = 1; i < n; i++) {
        const sort_entry entry = entries[i];
        int64_t at = i < k ? i : k;
        for (; at > 0 && entry.key < entries[at - 1].key; at--) {
            entries[at] = entries[at - 1];
        }
        entries[at] = entry;
    }
}

/* Sorts the first k of n entries of *a. On return *a and *b may be exchanged. */
static inline void sort_entries(sort_entry **a, sort_entry **b, int64_t n, int64_t k)
{
    uint32_t counts[SORT_KEY_BYTES][256];
    sort_entry *restrict from = *a, *restrict to = *b;
    if (n <= SORT_SHORT) {
        insertion_sort(from, n, k);
        return;
    }
    memset(counts, 0, sizeof counts);
    for (int64_t i = 0; i < n; i++) {
        for (int byte = 0; byte < SORT_KEY_BYTES; byte++) {
            counts[byte][from[i].key >> 8 * byte & 255]++;
        }
    }
    for (int byte = 0; byte < SORT_KEY_BYTES; byte++) {
        uint32_t *next = counts[byte], sum = 0;
        if (next[from[0].key >> 8 * byte & 255] == (uint32_t)n) {
            continue; /* all have the same byte */
        }
        for (int value = 0; value < 256; value++) {
            uint32_t count = next[value];
            next[value] = sum;
            sum += count;
        }
        for (int64_t i = 0; i < n; i++) {
            to[next[from[i].key >> 8 * byte & 255]++] = from[i];
        }
        sort_entry *swapped = from;
        from = to;
        to = swapped;
    }
    *a = from;
    *b = to;
}

/* Returns whether one of SORT_BLOCK values comes before the bound. */
static inline bool any_before(const real *x, sort_key order, sort_key bound)
{
    sort_key any = 0;
    for (int i = 0; i < SORT_BLOCK; i++) {
        any |= key_of(x[i], order) < bound;
    }
    return any;
}

/* Adds those of the values begin .. end - 1 that come before the bound to the `count` entries. Returns the new count.
 * The entry behind the last one is overwritten. */
static inline int64_t add_before(const real *x, int64_t begin, int64_t end, sort_key order, sort_key bound,
                                 sort_entry *entries, int64_t count)
{
    for (int64_t i = begin; i < end; i++) {
        entries[count] = (sort_entry){key_of(x[i], order), (int32_t)i};
        count += entries[count].key < bound;
    }
    return count;
}

/* Returns the first k of n values in their order; a and b are buffers. */
static inline const sort_entry *sort_line(const real *x, int64_t n, int64_t k, sort_key order, sort_entry *a,
                                          sort_entry *b)
{
    const int64_t capacity = sort_capacity(n, k);
    int64_t read = capacity == n ? n : k > 8 ? k : 8;
    for (int64_t i = 0; i < read; i++) {
        a[i] = (sort_entry){key_of(x[i], order), (int32_t)i};
    }
    sort_entries(&a, &b, read, k);
    while (read < n) {
        const sort_key bound = a[k - 1].key;
        const int64_t next = read < n / 2 ? 2 * read : n;
        int64_t count = k;
        for (; read < next && count + SORT_BLOCK < capacity; read += SORT_BLOCK) {
            if (n - read < SORT_BLOCK) {
                count = add_before(x, read, n, order, bound, a, count);
            } else if (any_before(x + read, order, bound)) {
                count = add_before(x, read, read + SORT_BLOCK, order, bound, a, count);
            }
        }
        if (count > k) {
            sort_entries(&a, &b, count, k);
        }
    }
    return a;
}

#endif
