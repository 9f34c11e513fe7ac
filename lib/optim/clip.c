/* clip: scales and clamps gradients before a step.
 *
 *   norm = sqrt(sum of g^2 over all parameters),  g = g min(1, max_norm / (norm + 1e-6))
 *
 * Follows torch/nn/utils/clip_grad.py. Squares are summed in double for both dtypes, so the norm of float gradients is
 * slightly more exact than PyTorch's. Each gradient is cut into a fixed number of chunks, and their sums are added in
 * order, so the bits do not depend on the number of threads. Rows that a gradient by rows does not list are zeros and
 * are not visited.
 */
#include <tapegrad/optim.h>

#include "base/parallel.h"
#include "base/real.h"
#include "params/params.h"
#include "tensor/gradient.h"

#define CLIP_CHUNKS 64
#define CLIP_LANES 8 /* the number of independent sums, so that the loop can run in vector registers */

typedef struct span {
    void *values;
    int64_t count;
    double factor, limit;
    double sums[CLIP_CHUNKS];
} span;

typedef void span_body(void *context, int64_t begin, int64_t end);
#define DECLARE(name) span_body TG_EACH_LEVEL(avx2, name##_f32), TG_EACH_LEVEL(avx2, name##_f64)
DECLARE(tg_square_sums);
DECLARE(tg_scale_values);

static int64_t chunk_begin(const span *s, int64_t chunk)
{
    return s->count / CLIP_CHUNKS * chunk + s->count % CLIP_CHUNKS * chunk / CLIP_CHUNKS;
}

void KERNEL(tg_square_sums)(void *context, int64_t begin, int64_t end)
{
    span *s = context;
    for (int64_t chunk = begin; chunk < end; chunk++) {
        const real *values = s->values;
        const int64_t stop = chunk_begin(s, chunk + 1);
        int64_t i = chunk_begin(s, chunk);
        double lanes[CLIP_LANES] = {0}, sum = 0;
        for (; i + CLIP_LANES <= stop; i += CLIP_LANES) {
            for (int lane = 0; lane < CLIP_LANES; lane++) {
                lanes[lane] += (double)values[i + lane] * (double)values[i + lane];
            }
        }
        for (; i < stop; i++) {
            sum += (double)values[i] * (double)values[i];
        }
        for (int lane = 0; lane < CLIP_LANES; lane++) {
            sum += lanes[lane];
        }
        s->sums[chunk] = sum;
    }
}

/* Multiplies values by the factor, and clamps them to [-limit,limit]. NaN stays NaN. */
void KERNEL(tg_scale_values)(void *context, int64_t begin, int64_t end)
{
    const span *s = context;
    real *values = s->values;
    const real factor = (real)s->factor, limit = (real)s->limit;
    for (int64_t i = begin; i < end; i++) {
        real value = values[i] * factor;
        value = value < -limit ? -limit : value;
        values[i] = value > limit ? limit : value;
    }
}

#ifdef TG_ONCE

/* Returns the values of a parameter's gradient, to read or to write them. The span is empty for a parameter without a
 * gradient, for a buffer, and for an alias, whose tensor would be visited twice. */
static span gradient_at(const tg_params *params, int64_t index, bool writes)
{
    tg_entry entry = tg_params_at(params, index);
    span s = {.values = NULL, .count = 0};
    if (entry.kind != TG_ENTRY_PARAMETER) {
        return s;
    }
    switch (tg_tensor_grad_kind(entry.tensor)) {
    case TG_GRAD_DENSE:
        s.values = writes ? tg_gradient_write(entry.tensor, NULL) : tg_values(tg_tensor_grad(entry.tensor));
        s.count = entry.tensor->count;
        break;
    case TG_GRAD_ROWS:
        s.values = tg_tensor_grad_rows(entry.tensor).values;
        s.count = tg_tensor_grad_rows(entry.tensor).count * tg_tensor_grad_rows(entry.tensor).width;
        break;
    default: break;
    }
    return s;
}

/* The versions of a loop, for float and for double. */
typedef span_body *loops[2][TG_LEVELS];
#define LOOPS(name)                         \
    {                                       \
        {TG_EACH_LEVEL(avx2, name##_f32)},  \
        {                                   \
            TG_EACH_LEVEL(avx2, name##_f64) \
        }                                   \
    }

static const loops square_sums = LOOPS(tg_square_sums), scale_values = LOOPS(tg_scale_values);

static void run_loops(const loops versions, const tg_params *params, span *s, int64_t count, int64_t grain)
{
    tg_parallel_for(count, grain, versions[tg_params_dtype(params) == TG_F64][tg_level()], s);
}

static void change_all(tg_params *params, double factor, double limit)
{
    for (int64_t i = 0; i < tg_params_count(params); i++) {
        span s = gradient_at(params, i, true);
        s.factor = factor;
        s.limit = limit;
        run_loops(scale_values, params, &s, s.count, TG_GRAIN);
    }
}

double tg_clip_grad_norm(tg_params *params, double max_norm)
{
    if (!tg_params_is_usable(params) || !(max_norm >= 0)) {
        tg_params_fail(params, TG_ERROR_VALUE, "clip_grad_norm: max_norm %g; it must be at least 0", max_norm);
        return NAN;
    }
    double total = 0;
    for (int64_t i = 0; i < tg_params_count(params); i++) {
        span s = gradient_at(params, i, false);
        if (s.count > 0) {
            int64_t grain = 1 + TG_GRAIN * CLIP_CHUNKS / s.count;
            run_loops(square_sums, params, &s, CLIP_CHUNKS, grain);
            for (int chunk = 0; chunk < CLIP_CHUNKS; chunk++) {
                total += s.sums[chunk];
            }
        }
    }
    double norm = sqrt(total), factor = max_norm / (norm + 1e-6);
    if (!(factor >= 1)) {
        change_all(params, factor, (double)INFINITY);
    }
    return norm;
}

bool tg_clip_grad_value(tg_params *params, double limit)
{
    if (!tg_params_is_usable(params) || !(limit >= 0)) {
        return tg_params_fail(params, TG_ERROR_VALUE, "clip_grad_value: limit %g; it must be at least 0", limit);
    }
    change_all(params, 1, limit);
    return true;
}

bool tg_scale_grad(tg_params *params, double factor)
{
    if (!tg_params_is_usable(params) || !isfinite(factor)) {
        return tg_params_fail(params, TG_ERROR_VALUE, "scale_grad: factor %g; it must be finite", factor);
    }
    change_all(params, factor, (double)INFINITY);
    return true;
}

#endif
