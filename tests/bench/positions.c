#include "bench/positions.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tapegrad.h>

#include "bench/figure.h"
#include "nn/positions/positions.h"
#include "ops/attention/relative.h"

enum { B = 2, H = 12, D = 64 };

/* Attention alone, forward and backward, with a kind of positions or with none. */
typedef struct attention {
    tg_tape *tape;
    tg_nn_positional position;
    tg_attention_path path;
    tg_tensor *inputs[3], *direction;
    /* Transformer-XL's distances (H,T,D), projected as the keys are; NULL: projecting them is part of the figure */
    tg_tensor *projected;
} attention;

static tg_tensor *attend_to_projected(attention *a)
{
    const tg_nn_positional *p = &a->position;
    tg_tensor *q = a->inputs[0], *content = tg_add(a->tape, q, tg_unsqueeze(a->tape, p->content_bias, 1));
    tg_tensor *position = tg_add(a->tape, q, tg_unsqueeze(a->tape, p->position_bias, 1));
    tg_scaled_dot_product_attention_config config = tg_scaled_dot_product_attention_config_default();
    config.is_causal = true;
    config.bias = tg_relative_scores(a->tape, position, a->projected, tg_tensor_size(q, 2), true);
    return tg_scaled_dot_product_attention(a->tape, content, a->inputs[1], a->inputs[2], &config);
}

static void run_attention(void *context)
{
    attention *a = context;
    tg_tape_reset(a->tape);
    tg_tensor *queries = a->inputs[0], *keys = a->inputs[1];
    if (a->position.kind == TG_POSITION_ROTARY) {
        queries = tg_rotary(a->tape, queries, 0, NULL);
        keys = tg_rotary(a->tape, keys, 0, NULL);
    }
    tg_scaled_dot_product_attention_config config = tg_scaled_dot_product_attention_config_default();
    config.is_causal = true;
    config.path = a->path;
    tg_tensor *y = a->projected ? attend_to_projected(a)
                                : tg_positional_attention(a->tape, &a->position, queries, keys, a->inputs[2], &config);
    tg_backward_config backward = tg_backward_config_default();
    backward.gradient = a->direction;
    if (!tg_backward(a->tape, y, &backward)) {
        fprintf(stderr, "bench: %s\n", tg_tape_error(a->tape)->text);
        exit(1);
    }
    for (int i = 0; i < 3; i++) {
        tg_tensor_zero_grad(a->inputs[i]);
    }
    tg_tensor_zero_grad(a->projected);
}

static void bench_kind(tg_position kind, int64_t length, bool projected)
{
    tg_run *run = bench_must(tg_run_new(1));
    tg_params *params = bench_must(tg_params_new(run, TG_F32));
    tg_nn_positional_config config = tg_nn_positional_config_default();
    config.heads = H;
    attention with = {.tape = bench_must(tg_tape_new(run, NULL))}, without;
    with.position = tg_nn_positional_make(params, "position", kind, length, H * D, &config);
    with.path = kind == TG_POSITION_SHAW ? TG_ATTENTION_ELEMENTARY : TG_ATTENTION_FUSED;
    for (int i = 0; i < 4; i++) {
        tg_tensor *x = bench_must(tg_tensor_new(TG_F32, TG_SHAPE(B, H, length, D), NULL));
        tg_tensor_fill_normal(x, tg_run_rng(run), 0, 1, NULL);
        if (i < 3) {
            tg_tensor_set_requires_grad(x, true, NULL);
        }
        *(i < 3 ? &with.inputs[i] : &with.direction) = x;
    }
    if (projected) {
        with.projected = bench_must(tg_tensor_new(TG_F32, TG_SHAPE(H, length, D), NULL));
        tg_tensor_fill_normal(with.projected, tg_run_rng(run), 0, 0.1, NULL);
        tg_tensor_set_requires_grad(with.projected, true, NULL);
    }
    without = with;
    without.projected = NULL;
    without.tape = bench_must(tg_tape_new(run, NULL));
    without.position.kind = TG_POSITION_NONE;
    char name[80];
    snprintf(name, sizeof name, "attention: %s%s, B 2, H 12, T %lld, D 64", tg_position_name(kind),
             projected ? ", R W_r given" : "", (long long)length);
    bench_measure(&(bench_figure){.name = name,
                                  .unit = "ms",
                                  .bound_name = "without positions",
                                  .run = run_attention,
                                  .bound = run_attention,
                                  .context = &with,
                                  .bound_context = &without,
                                  .scale = 1e3,
                                  .rounds = length > 500 ? 5 : 15});
    for (int i = 0; i < 3; i++) {
        tg_release(with.inputs[i]);
    }
    tg_release(with.direction);
    tg_release(with.projected);
    tg_tape_free(with.tape);
    tg_tape_free(without.tape);
    tg_params_free(params);
    tg_run_free(run);
}

/* ---- bags: the rows that they read, against copying as many bytes ---- */

enum { V = 50257, C = 768, BAGS = 1024, LENGTH = 16 };

typedef struct bags {
    tg_tape *tape;
    tg_tensor *table, *ids;
    char *from, *to;
} bags;

static void run_bags(void *context)
{
    bags *b = context;
    tg_tape_reset(b->tape);
    tg_embedding_bag(b->tape, b->ids, b->table, NULL);
}

static void copy_rows(void *context)
{
    bags *b = context;
    memcpy(b->to, b->from, (size_t)BAGS * LENGTH * C * sizeof(float));
}

static void bench_bags(void)
{
    size_t bytes = (size_t)BAGS * LENGTH * C * sizeof(float);
    tg_rng *rng = bench_must(tg_rng_new(1));
    bags b = {.tape = bench_must(tg_tape_new(NULL, NULL)),
              .table = bench_must(tg_tensor_new(TG_F32, TG_SHAPE(V, C), NULL))};
    b.ids = bench_must(tg_tensor_new(TG_I32, TG_SHAPE(BAGS, LENGTH), NULL));
    tg_tensor_fill_randint(b.ids, rng, 0, V, NULL);
    b.from = bench_must(calloc(bytes, 1));
    b.to = bench_must(calloc(bytes, 1));
    memset(b.from, 1, bytes);
    bench_measure(&(bench_figure){.name = "embedding_bag: 1024 bags of 16 rows of 768, mean",
                                  .unit = "ms",
                                  .bound_name = "memcpy of the rows",
                                  .run = run_bags,
                                  .bound = copy_rows,
                                  .context = &b,
                                  .scale = 1e3,
                                  .rounds = 41});
    free(b.from);
    free(b.to);
    tg_release(b.table);
    tg_release(b.ids);
    tg_tape_free(b.tape);
    tg_rng_free(rng);
}

void bench_positions(void)
{
    const tg_position kinds[] = {TG_POSITION_ROTARY, TG_POSITION_ALIBI, TG_POSITION_T5, TG_POSITION_SHAW,
                                 TG_POSITION_TRANSFORMER_XL};
    for (int k = 0; k < 5; k++) {
        bench_kind(kinds[k], 256, false);
        bench_kind(kinds[k], 1024, false);
    }
    /* with distances that were projected before, as queries and keys are */
    bench_kind(TG_POSITION_TRANSFORMER_XL, 256, true);
    bench_kind(TG_POSITION_TRANSFORMER_XL, 1024, true);
    bench_bags();
}
