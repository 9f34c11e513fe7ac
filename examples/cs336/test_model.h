/* test_model: what the tests of the model share: the course's sizes and inputs, and the twin. */
#ifndef TEST_MODEL_H
#define TEST_MODEL_H

#include "cs336.h"
#include "model.h"

enum {
    BATCH = 4,
    QUERIES = 12,
    KEYS = 16,
    HEADS = 4,
    WIDTH = 64,
    HIDDEN = 128,
    LAYERS_OF_MODEL = 3,
    VOCABULARY = 10000
};

static const double theta = 10000;

/* in_embeddings, (4,12,64) */
static inline tg_tensor *embeddings(recipe *r)
{
    return seeded_randn(r, 4, TG_SHAPE(BATCH, QUERIES, WIDTH));
}

/* Returns the model whose weights tests/goldens/make_cs336.py draws likewise: those of model_make after seed 336, and
 * then norms between 0.5 and 1.5. */
static inline model twin(recipe *r)
{
    model m = {.vocabulary = VOCABULARY,
               .context = KEYS,
               .width = WIDTH,
               .layers = LAYERS_OF_MODEL,
               .heads = HEADS,
               .hidden = HIDDEN,
               .theta = theta};
    tg_rng *rng = tg_run_rng(r->run);
    tg_rng_seed(rng, 336);
    model_make(&m, r->params, rng, &r->error);
    for (int64_t i = 0; i < tg_params_count(r->params); i++) {
        tg_tensor *x = tg_params_at(r->params, i).tensor;
        if (tg_tensor_rank(x) == 1) {
            tg_tensor_fill_uniform(x, rng, 0.5, 1.5, &r->error);
        }
    }
    tg_evaluation_begin(r->data);
    recipe_check(r);
    return m;
}

#endif
