/* One model, read by several threads at the same time, each with a tape and a generator of its own. Every thread gets
 * the values of a single thread; ThreadSanitizer (tests/ci/tsan) watches what they share. Half of the threads record,
 * and so hold the parameters. */
#include "support.h"

#include <pthread.h>
#include <string.h>

#include <tapegrad/gpt.h>

#include "tensor/tensor.h"

#define THREADS 4
#define PASSES 5
#define LENGTH 24
#define V 50

typedef struct reader {
    const tg_gpt *model;
    bool records;
    float logits[LENGTH * V]; /* of the last pass */
    const char *failure;      /* NULL: none. cmocka's assertions work in the main thread only */
} reader;

/* Computes logits with dropout, always from the same seed. */
static void *read_model(void *context)
{
    reader *r = context;
    int32_t ids[LENGTH];
    for (int i = 0; i < LENGTH; i++) {
        ids[i] = (i * i * 7 + 3) % V;
    }
    tg_run *run = tg_run_new(0);
    tg_tape *t = tg_tape_new(run, NULL);
    tg_tensor *batch = tg_tensor_new_from(TG_I32, TG_SHAPE(1, LENGTH), ids, NULL);
    tg_tape_set_recording(t, r->records);
    for (int pass = 0; pass < PASSES && !r->failure; pass++) {
        tg_rng_seed(tg_run_rng(run), 5);
        tg_tensor *logits = tg_gpt_forward(t, r->model, batch, NULL);
        r->failure = !logits                                                                        ? "no result"
                     : pass > 0 && memcmp(r->logits, tg_tensor_data(logits), sizeof r->logits) != 0 ? "other values"
                                                                                                    : NULL;
        if (logits) {
            memcpy(r->logits, tg_tensor_data(logits), sizeof r->logits);
        }
        tg_tape_reset(t);
    }
    tg_release(batch);
    tg_tape_free(t);
    tg_run_free(run);
    return NULL;
}

static void check(const tg_params *params, const tg_gpt *model)
{
    static reader alone, readers[THREADS];
    alone = (reader){.model = model};
    read_model(&alone);
    assert_null(alone.failure);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        readers[i] = (reader){.model = model, .records = i % 2};
        assert_int_equal(pthread_create(&threads[i], NULL, read_model, &readers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_null(readers[i].failure);
        assert_memory_equal(readers[i].logits, alone.logits, sizeof alone.logits);
    }
    for (int64_t i = 0; i < tg_params_count(params); i++) {
        assert_int_equal(tg_tensor_references(tg_params_at(params, i).tensor), 1);
    }
}

static void test_readers_of_one_model(void **state)
{
    (void)state;
    tg_gpt_config config = tg_gpt_config_default();
    config.vocabulary = V;
    config.context = LENGTH;
    config.width = 32;
    config.heads = 4;
    config.layers = 2;
    config.dropout = 0.1;
    tg_run *run = tg_run_new(123);
    tg_params *params = tg_params_new(run, TG_F32);
    tg_gpt *model = tg_gpt_new(params, &config);
    assert_string_equal(tg_params_error(params)->text, "");
    check(params, model);
    tg_gpt_free(model);
    tg_params_free(params);
    tg_run_free(run);
}

/* ---- one table with max_norm ---- */

#define ROWS 64
#define WIDTH 16

typedef struct lookups {
    tg_tensor *table, *ids;
    const char *failure;
} lookups;

/* Looks rows up with recording and training off, and as bags. */
static void *look_up(void *context)
{
    lookups *l = context;
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_tape_set_recording(t, false);
    tg_tape_set_training(t, false);
    tg_embedding_config config = tg_embedding_config_default();
    tg_embedding_bag_config bags = tg_embedding_bag_config_default();
    config.max_norm = bags.max_norm = 1;
    bags.mode = TG_BAG_MAX;
    for (int pass = 0; pass < 50 && !l->failure; pass++) {
        const float *y = tg_tensor_data(tg_embedding(t, l->ids, l->table, &config));
        const float *maxima = tg_tensor_data(tg_embedding_bag(t, l->ids, l->table, &bags));
        l->failure = !y || !maxima ? "no result" : NULL;
        /* a row of twos has norm 8 */
        for (int i = 0; i < ROWS * WIDTH && !l->failure; i++) {
            l->failure = y[i] != 2 * (float)(1 / (8 + 1e-7)) || maxima[i] != y[i] ? "another value" : NULL;
        }
        tg_tape_reset(t);
    }
    tg_tape_free(t);
    return NULL;
}

static void test_lookups_with_max_norm(void **state)
{
    (void)state;
    tg_tensor *table = tg_tensor_new_full(TG_F32, TG_SHAPE(ROWS, WIDTH), 2, NULL);
    tg_tensor *ids = tg_tensor_new_arange(TG_I32, 0, ROWS, 1, NULL);
    tg_tensor *column = tg_tensor_new_from(TG_I32, TG_SHAPE(ROWS, 1), tg_tensor_data(ids), NULL);
    lookups readers[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        readers[i] = (lookups){.table = table, .ids = column};
        assert_int_equal(pthread_create(&threads[i], NULL, look_up, &readers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_null(readers[i].failure);
    }
    assert_true(tg_tensor_value_at(table, 0) == 2);
    tg_release(table);
    tg_release(column);
    tg_release(ids);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_readers_of_one_model),
                                       cmocka_unit_test(test_lookups_with_max_norm)};
    return cmocka_run_group_tests_name("threads", tests, NULL, NULL);
}
