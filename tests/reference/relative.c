/* relative: the module tg_nn_multihead_attention with clipped distances (Shaw, Uszkoreit and Vaswani 2018, section
 * 3.2), with and without a memory, so that queries stand behind earlier keys.
 *
 *   With q = x W_q^T + b_q, and k, v of the memory's positions and x's, head by head, query i at position M + i:
 *   score(i,j) = q_i . (k_j + keys[clip(j - M - i)]) / sqrt(D)
 *   y_i        = sum over j of softmax(score)(i,j) (v_j + values[clip(j - M - i)]), the heads beside each other
 *   result     = y W_out^T + b_out
 */
#include "reference.h"

#include <math.h>

enum { X, MEMORY, PROJECTION, PROJECTION_BIAS, OUT, OUT_BIAS, KEYS, VALUES };

typedef struct relative_call {
    tg_nn_multihead_attention attention;
    int64_t heads, clip;
    bool is_causal;
} relative_call;

static void draw_relative(trial *t)
{
    relative_call *r = OPTIONS(t, relative_call);
    t->flavor = t->flavor == SPECIAL || t->flavor == WIDE ? TIES : t->flavor;
    r->heads = note_integer(t, "heads", draw_integer(t, 1, 3));
    r->clip = note_integer(t, "clip", draw_integer(t, 1, 6));
    int64_t width = r->heads * draw_integer(t, 1, 4), batch = draw_integer(t, 1, 3);
    draw_input_within(t, "x", TG_SHAPE(batch, draw_integer(t, 1, 7), width), -2, 2);
    if (draw_chance(t, 60)) {
        t->draws_constants = true; /* the memory gets no gradient */
        draw_input_within(t, "memory", TG_SHAPE(batch, draw_integer(t, 1, 7), width), -2, 2);
        t->draws_constants = false;
    } else {
        draw_absent(t, "memory");
    }
    tg_nn_multihead_attention_config config = tg_nn_multihead_attention_config_default();
    tg_nn_positional_config positions = tg_nn_positional_config_default();
    positions.heads = r->heads;
    positions.clip = r->clip;
    config.bias = note_bool(t, "bias", draw_chance(t, 60));
    config.is_causal = r->is_causal = note_bool(t, "is_causal", draw_chance(t, 50));
    config.path = draw_chance(t, 50) ? TG_ATTENTION_FUSED : TG_ATTENTION_ELEMENTARY;
    t->params = tg_params_new(t->run, t->dtype);
    tg_nn_positional shaw = tg_nn_positional_make(t->params, "p", TG_POSITION_SHAW, 16, width, &positions);
    config.positional = &shaw;
    r->attention = tg_nn_multihead_attention_make(t->params, "m", width, width, r->heads, &config);
    static const char *const names[] = {"m.in_proj_weight", "m.in_proj_bias", "m.out_proj.weight",
                                        "m.out_proj.bias",  "p.keys",         "p.values"};
    for (int k = 0; k < 6; k++) {
        draw_parameter(t, names[k]);
    }
}

static bool is_valid_relative(const trial *t)
{
    (void)t;
    return true;
}

static tg_tensor *call_relative(trial *t)
{
    tg_nn_multihead_attention_forward_config config = tg_nn_multihead_attention_forward_config_default();
    config.memory = t->inputs[MEMORY].tensor;
    return tg_nn_multihead_attention_forward(t->tape, &OPTIONS(t, relative_call)->attention, t->inputs[X].tensor,
                                             &config);
}

/* Writes rows [first, first + count) of weight (.., width) applied to position `at` of x (B,L,width), with the bias. */
static void project(const trial *t, const input *x, int64_t b, int64_t at, int weight, int bias, int64_t first,
                    int64_t count, double *y)
{
    int64_t width = x->x.shape.size[2];
    const double *row = x->x.values + (b * x->x.shape.size[1] + at) * width;
    for (int64_t i = 0; i < count; i++) {
        y[i] = t->inputs[bias].is_present ? t->inputs[bias].x.values[first + i] : 0;
        for (int64_t c = 0; c < width; c++) {
            y[i] += t->inputs[weight].x.values[(first + i) * width + c] * row[c];
        }
    }
}

/* Writes the attention of one query and head to y (D). `k` and `v` are those of all positions, (keys,width). */
static void attend(trial *t, const double *q, const double *k, const double *v, int64_t keys, int64_t own, int64_t head,
                   int64_t width, double *y)
{
    const relative_call *r = OPTIONS(t, relative_call);
    int64_t D = width / r->heads, seen = r->is_causal ? own + 1 : keys;
    double *weight = numbers(t, keys), most = -INFINITY, sum = 0;
    for (int64_t j = 0; j < seen; j++) {
        int64_t distance = j - own < -r->clip ? -r->clip : j - own > r->clip ? r->clip : j - own;
        for (int64_t d = 0; d < D; d++) {
            double key = k[j * width + head * D + d] + t->inputs[KEYS].x.values[(distance + r->clip) * D + d];
            weight[j] += q[head * D + d] * key / sqrt((double)D);
        }
        most = fmax(most, weight[j]);
    }
    for (int64_t j = 0; j < seen; j++) {
        weight[j] = exp(weight[j] - most);
        sum += weight[j];
    }
    for (int64_t j = 0; j < seen; j++) {
        int64_t distance = j - own < -r->clip ? -r->clip : j - own > r->clip ? r->clip : j - own;
        for (int64_t d = 0; d < D; d++) {
            double value = v[j * width + head * D + d] + t->inputs[VALUES].x.values[(distance + r->clip) * D + d];
            y[head * D + d] += weight[j] / sum * value;
        }
    }
}

static void relative_forward(trial *t)
{
    const relative_call *r = OPTIONS(t, relative_call);
    const input *x = &t->inputs[X], *memory = &t->inputs[MEMORY];
    int64_t B = x->x.shape.size[0], T = x->x.shape.size[1], width = x->x.shape.size[2];
    int64_t M = memory->is_present ? memory->x.shape.size[1] : 0, S = M + T;
    array *result = output_new(t, 0, x->x.shape);
    for (int64_t b = 0; b < B; b++) {
        double *k = numbers(t, S * width), *v = numbers(t, S * width);
        for (int64_t j = 0; j < S; j++) {
            const input *of = j < M ? memory : x;
            int64_t at = j < M ? j : j - M;
            project(t, of, b, at, PROJECTION, PROJECTION_BIAS, width, width, k + j * width);
            project(t, of, b, at, PROJECTION, PROJECTION_BIAS, 2 * width, width, v + j * width);
        }
        for (int64_t i = 0; i < T; i++) {
            double *q = numbers(t, width), *y = numbers(t, width);
            project(t, x, b, i, PROJECTION, PROJECTION_BIAS, 0, width, q);
            for (int64_t head = 0; head < r->heads; head++) {
                attend(t, q, k, v, S, M + i, head, width, y);
            }
            for (int64_t c = 0; c < width; c++) {
                /* scores are sums of up to 4 width^2 products of numbers up to 2: their roundings move the weights */
                double value = t->inputs[OUT_BIAS].is_present ? t->inputs[OUT_BIAS].x.values[c] : 0;
                double terms = 1 + fabs(value);
                for (int64_t e = 0; e < width; e++) {
                    double factor = t->inputs[OUT].x.values[c * width + e];
                    value += factor * y[e];
                    terms += fabs(factor) * (fabs(y[e]) + (double)(16 * width * width));
                }
                put_terms(result, (b * T + i) * width + c, value, terms);
            }
        }
    }
}

static const reference references[] = {
    {
        .op = "tg_nn_multihead_attention_forward",
        .inner = "cat",
        .draw = draw_relative,
        .is_valid = is_valid_relative,
        .call = call_relative,
        .forward = relative_forward,
        .roundings = 64,
        .gradient_roundings = 64,
    },
};

reference_family relative = {"relative", references, sizeof references / sizeof *references, 1000, NULL};
