/* pairs: what a step trains on.
 *
 * A negative is drawn with a probability proportional to count^0.75 (Mikolov et al. 2013), by the alias method (Walker
 * 1977, Vose 1991): one random number chooses a word and decides whether it stays or is replaced by its other word. So
 * a negative costs the same for any vocabulary.
 */
#include <math.h>
#include <stdlib.h>

#include "word_vectors.h"

#define ONE ((uint64_t)1 << 31)

/* Fills the table of the alias method. A word whose share is below the mean stays with its share, and otherwise is
 * replaced by one above the mean, whose share becomes less by what was missing. */
static void fill_table(pairs *p, double *share, int32_t *list)
{
    const int32_t count = p->corpus->vocabulary;
    double sum = 0;
    for (int32_t i = 0; i < count; i++) {
        share[i] = pow((double)p->corpus->counts[i], 0.75);
        sum += share[i];
    }
    /* the list has words below the mean at its front, and the others at its end */
    int32_t below = 0, above = count;
    for (int32_t i = 0; i < count; i++) {
        share[i] *= count / sum;
        list[share[i] < 1 ? below++ : --above] = i;
        p->stays[i] = (uint32_t)ONE;
        p->other[i] = i;
    }
    while (below > 0 && above < count) {
        int32_t small = list[--below], large = list[above];
        p->stays[small] = (uint32_t)(share[small] * (double)ONE);
        p->other[small] = large;
        share[large] -= 1 - share[small];
        if (share[large] < 1) {
            list[below++] = large;
            above++;
        }
    }
}

bool pairs_make(pairs *p, const corpus *c, const options *o, tg_rng *rng)
{
    *p = (pairs){.corpus = c, .window = o->window, .negatives = o->negatives, .rng = rng};
    const size_t count = (size_t)c->vocabulary;
    p->stays = malloc(count * sizeof *p->stays);
    p->other = malloc(count * sizeof *p->other);
    p->random = tg_tensor_new(TG_I32, TG_SHAPE(o->batch, o->negatives), NULL);
    double *share = malloc(count * sizeof *share);
    int32_t *list = malloc(count * sizeof *list);
    bool good = p->stays && p->other && p->random && share && list;
    if (good) {
        fill_table(p, share, list);
        pairs_begin(p);
    }
    free(share);
    free(list);
    return good;
}

void pairs_free(pairs *p)
{
    free(p->stays);
    free(p->other);
    tg_release(p->random);
}

int64_t pairs_of_pass(const pairs *p)
{
    int64_t n = p->corpus->count, total = 0;
    for (int64_t distance = 1; distance <= p->window && distance < n; distance++) {
        total += 2 * (n - distance);
    }
    return total;
}

void pairs_begin(pairs *p)
{
    p->center = 0;
    p->distance = -p->window;
}

/* Writes the pairs without negatives. Returns their number. */
static int64_t next_contexts(pairs *p, int64_t most, int32_t *centers, int32_t *targets)
{
    const int64_t n = p->corpus->count, stride = 1 + p->negatives;
    const int32_t *ids = p->corpus->ids;
    int64_t made = 0;
    while (made < most && p->center < n) {
        int64_t context = p->center + p->distance;
        if (p->distance != 0 && context >= 0 && context < n) {
            centers[made] = ids[p->center];
            targets[made * stride] = ids[context];
            made++;
        }
        if (++p->distance > p->window) {
            p->center++;
            p->distance = -p->window;
        }
    }
    return made;
}

int64_t pairs_next(pairs *p, int64_t most, int32_t *centers, int32_t *targets, tg_error *error)
{
    const int64_t made = next_contexts(p, most, centers, targets), stride = 1 + p->negatives;
    if (!tg_tensor_fill_randint(p->random, p->rng, 0, INT32_MAX, error)) {
        return -1;
    }
    const int32_t *random = tg_tensor_data(p->random);
    const uint64_t words = (uint64_t)p->corpus->vocabulary;
    for (int64_t i = 0; i < made; i++) {
        for (int64_t k = 1; k < stride; k++) {
            const uint64_t scaled = (uint64_t)*random++ * words, word = scaled / ONE;
            targets[i * stride + k] = scaled % ONE < p->stays[word] ? (int32_t)word : p->other[word];
        }
    }
    return made;
}
