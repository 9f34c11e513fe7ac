/* tsne: places vectors on a plane so that near ones stay near (van der Maaten and Hinton 2008). All pairs are computed,
 * which takes time for the square of the number of vectors.
 *
 *   p_ij   how near the vectors are: exp(-sharpness_i (1 - cosine)) with sum 1, where sharpness_i gives row i the
 *          entropy log(perplexity); then symmetric, with sum 1
 *   q_ij   how near the places are: 1 / (1 + distance^2), with sum 1
 *   loss   sum p_ij log(p_ij / q_ij); its gradient for place i is 4 sum_j (p_ij - q_ij) (y_i - y_j) / (1 + distance^2)
 */
#include <math.h>
#include <stdlib.h>

#include <tapegrad/op.h>

#include "sentences.h"

/* Numbers of the paper and of its programs: the neighbors that count, the factor of p in the early steps, their number,
 * and that of all steps. A thread takes GRAIN places or more. */
#define PERPLEXITY 30.0
#define EXAGGERATION 12.0
enum { EARLY = 250, STEPS = 1000, HALVINGS = 60, GRAIN = 16 };

typedef struct work {
    int64_t count;
    /* the cosines of the vectors, and p, (count,count) */
    const float *cosines;
    float *p;
    /* (count,2), and of each place the sum of 1 / (1 + distance^2) */
    double *places, *gradient, *sums;
    double factor;
} work;

/* Writes p_ij of rows, each with sum 1. The sharpness is found by bisection; that of the nearest vector is 1 before the
 * division, for any sharpness. */
static void fill_rows(void *context, int64_t begin, int64_t end)
{
    const work *w = context;
    const double entropy = log(fmin(PERPLEXITY, 1 + (double)(w->count - 1) / 3));
    for (int64_t i = begin; i < end; i++) {
        const float *cosines = w->cosines + i * w->count;
        float *p = w->p + i * w->count, nearest = -INFINITY;
        double low = 0, high = INFINITY, sharpness = 1, sum = 0;
        for (int64_t j = 0; j < w->count; j++) {
            nearest = j == i ? nearest : fmaxf(nearest, cosines[j]);
        }
        for (int halving = 0; halving < HALVINGS; halving++) {
            double mean = 0;
            sum = 0;
            for (int64_t j = 0; j < w->count; j++) {
                const double distance = (double)(nearest - cosines[j]), share = j == i ? 0 : exp(-sharpness * distance);
                p[j] = (float)share;
                sum += share;
                mean += share * distance;
            }
            const bool is_wide = log(sum) + sharpness * mean / sum > entropy;
            low = is_wide ? sharpness : low;
            high = is_wide ? high : sharpness;
            sharpness = isinf(high) ? 2 * low : (low + high) / 2;
        }
        for (int64_t j = 0; j < w->count; j++) {
            p[j] /= (float)sum;
        }
    }
}

/* Makes p symmetric, with sum 1. */
static void make_symmetric(const work *w)
{
    for (int64_t i = 0; i < w->count; i++) {
        for (int64_t j = 0; j <= i; j++) {
            float *a = w->p + i * w->count + j, *b = w->p + j * w->count + i;
            *a = *b = (*a + *b) / (2 * (float)w->count);
        }
    }
}

static double nearness(const double *a, const double *b)
{
    const double x = a[0] - b[0], y = a[1] - b[1];
    return 1 / (1 + x * x + y * y);
}

static void add_nearness(void *context, int64_t begin, int64_t end)
{
    const work *w = context;
    for (int64_t i = begin; i < end; i++) {
        w->sums[i] = 0;
        for (int64_t j = 0; j < w->count; j++) {
            w->sums[i] += j == i ? 0 : nearness(w->places + 2 * i, w->places + 2 * j);
        }
    }
}

static void fill_gradient(void *context, int64_t begin, int64_t end)
{
    const work *w = context;
    double all = 0;
    for (int64_t i = 0; i < w->count; i++) {
        all += w->sums[i];
    }
    for (int64_t i = begin; i < end; i++) {
        const double *a = w->places + 2 * i;
        double x = 0, y = 0;
        for (int64_t j = 0; j < w->count; j++) {
            const double *b = w->places + 2 * j, near = nearness(a, b);
            const double force = 4 * (w->factor * (double)w->p[i * w->count + j] - near / all) * near;
            x += force * (a[0] - b[0]);
            y += force * (a[1] - b[1]);
        }
        w->gradient[2 * i] = x;
        w->gradient[2 * i + 1] = y;
    }
}

/* Gradient descent with momentum, and a gain for each value, which rises while the value moves in one direction. */
static void descend(work *w, double *speed, double *gain)
{
    const double rate = (double)w->count / EXAGGERATION; /* Belkina et al. 2019 */
    for (int step = 0; step < STEPS; step++) {
        w->factor = step < EARLY ? EXAGGERATION : 1;
        tg_parallel_for(w->count, GRAIN, add_nearness, w);
        tg_parallel_for(w->count, GRAIN, fill_gradient, w);
        for (int64_t i = 0; i < 2 * w->count; i++) {
            gain[i] = w->gradient[i] * speed[i] < 0 ? gain[i] + 0.2 : fmax(0.01, gain[i] * 0.8);
            speed[i] = (step < EARLY ? 0.5 : 0.8) * speed[i] - rate * gain[i] * w->gradient[i];
            w->places[i] += speed[i];
        }
        progress(step + 1, STEPS, "t-SNE of %lld vectors", (long long)w->count);
    }
    progress_break();
}

bool tsne(tg_tape *t, tg_tensor *units, int64_t seed, double *places)
{
    const int64_t count = tg_tensor_size(units, 0);
    const size_t n = (size_t)count;
    const float *cosines = tg_tensor_data(tg_matmul(t, units, tg_transpose(t, units, 0, 1)));
    float *p = malloc(n * n * sizeof *p);
    double *all = calloc(7 * n, sizeof *all), *speed = all + 3 * n, *gain = all + 5 * n;
    tg_rng *rng = tg_rng_new((uint64_t)seed);
    const bool good = (cosines && p && all && rng) || complain("out of memory for %lld places", (long long)count);
    if (good) {
        work w = {count, cosines, p, places, all, all + 2 * n, 1};
        for (int64_t i = 0; i < 2 * count; i++) {
            places[i] = tg_rng_uniform(rng, -5e-5, 5e-5, NULL);
            gain[i] = 1;
        }
        tg_parallel_for(count, GRAIN, fill_rows, &w);
        make_symmetric(&w);
        descend(&w, speed, gain);
    }
    free(p);
    free(all);
    tg_rng_free(rng);
    return good;
}
