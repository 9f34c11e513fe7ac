/* Checkpoints that several writers save and load together. Here the writers are threads, each with its own params and
 * its shard of the table. tests/mpi/test_checkpoint.c has ranks, and all faults. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <tapegrad/checkpoint.h>
#include <tapegrad/rows.h>

#include "support.h"

#define WRITERS 3
#define ROWS 7

static const char path[] = "test_checkpoint_group.safetensors";

static tg_error error;

/* ---- writers ---- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t all_arrived = PTHREAD_COND_INITIALIZER;
static int arrived, round_number;

static void wait_for_all(void)
{
    pthread_mutex_lock(&mutex);
    int round = round_number;
    if (++arrived == WRITERS) {
        arrived = 0;
        round_number++;
        pthread_cond_broadcast(&all_arrived);
    }
    while (round == round_number) {
        pthread_cond_wait(&all_arrived, &mutex);
    }
    pthread_mutex_unlock(&mutex);
}

typedef struct writer {
    int64_t index, step;
    tg_params *params;
    tg_tensor *table;
    const char *name; /* of the part */
    bool done;
    tg_error error;
} writer;

static tg_error locals[WRITERS];
static void *shared;

static bool agree(const tg_checkpoint_group *group, const tg_error *local, tg_error *failed)
{
    locals[group->index] = *local;
    wait_for_all();
    int64_t first = 0;
    while (first < WRITERS && locals[first].code == TG_OK) {
        first++;
    }
    if (first < WRITERS) {
        *failed = locals[first];
    }
    wait_for_all();
    return first == WRITERS;
}

static bool share(const tg_checkpoint_group *group, void *bytes, int64_t size, tg_error *failed)
{
    (void)failed;
    shared = group->index == 0 ? bytes : shared;
    wait_for_all();
    if (group->index > 0) {
        memcpy(bytes, shared, (size_t)size);
    }
    wait_for_all();
    return true;
}

static const tg_checkpoint_group_calls calls = {agree, share};

static bool together(writer *p, bool saves)
{
    const tg_checkpoint_group group = {&calls, p->index, WRITERS};
    tg_checkpoint_part parts[] = {tg_checkpoint_params(p->name, p->params), tg_checkpoint_integer("step", &p->step)};
    return saves ? tg_checkpoint_save_together(path, parts, 2, &group, &p->error)
                 : tg_checkpoint_load_together(path, parts, 2, &group, &p->error);
}

static void *save(void *context)
{
    writer *p = context;
    p->done = together(p, true);
    return NULL;
}

static void *load(void *context)
{
    writer *p = context;
    p->done = together(p, false);
    return NULL;
}

static void run(writer *writers, void *(*body)(void *))
{
    pthread_t threads[WRITERS];
    for (int i = 0; i < WRITERS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, body, &writers[i]), 0);
    }
    for (int i = 0; i < WRITERS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
}

/* The writers have 3, no and 4 rows of the table; row r has the values start + 2 r and start + 2 r + 1. */
static void writers_make(writer *writers, double start)
{
    const int64_t first[] = {0, 3, 3, ROWS};
    for (int i = 0; i < WRITERS; i++) {
        writer *p = &writers[i];
        *p = (writer){.index = i, .step = (int64_t)start, .params = tg_params_new(NULL, TG_F32), .name = "model"};
        int64_t rows = first[i + 1] - first[i];
        p->table = tg_params_add(p->params, "table", TG_SHAPE(rows, 2));
        tg_tensor_fill(tg_params_add(p->params, "bias", TG_SHAPE(2)), start + i, NULL);
        for (int64_t k = 0; k < 2 * rows; k++) {
            ((float *)tg_tensor_data_mut(p->table))[k] = (float)(start + (double)(2 * first[i] + k));
        }
        assert_true(tg_tensor_set_shard(p->table, first[i], ROWS, &error));
    }
}

static void writers_free(writer *writers)
{
    for (int i = 0; i < WRITERS; i++) {
        tg_params_free(writers[i].params);
    }
}

/* ---- tests ---- */

static void test_save_and_load(void **state)
{
    (void)state;
    writer writers[WRITERS];
    writers_make(writers, 100);
    run(writers, save);
    for (int i = 0; i < WRITERS; i++) {
        assert_true(writers[i].done);
    }
    writers_free(writers);
    /* one writer has the whole table, and the bias of writer 0 */
    tg_params *params = tg_params_new(NULL, TG_F32);
    tg_tensor *table = tg_params_add(params, "table", TG_SHAPE(ROWS, 2)),
              *bias = tg_params_add(params, "bias", TG_SHAPE(2));
    tg_checkpoint_part part = tg_checkpoint_params("model", params);
    assert_true(tg_checkpoint_load(path, &part, 1, &error));
    for (int64_t k = 0; k < 2 * ROWS; k++) {
        assert_true(tg_tensor_value_at(table, k) == 100 + (double)k);
    }
    assert_true(tg_tensor_value_at(bias, 0) == 100);
    /* declared as a shard that is the whole table, it is saved alone, with the same bytes */
    assert_true(tg_tensor_set_shard(table, 0, ROWS, &error) &&
                tg_params_save(params, "test_checkpoint_group.alone", NULL, &error));
    remove("test_checkpoint_group.alone");
    tg_params_free(params);
    writers_make(writers, 5);
    run(writers, load);
    for (int i = 0; i < WRITERS; i++) {
        assert_true(writers[i].done);
        assert_int_equal(writers[i].step, 100);
        assert_true(tg_tensor_value_at(tg_params_find(writers[i].params, "bias"), 1) == 100);
    }
    assert_true(tg_tensor_value_at(writers[0].table, 5) == 105 && tg_tensor_value_at(writers[2].table, 0) == 106);
    writers_free(writers);
}

static void test_errors(void **state)
{
    (void)state;
    writer writers[WRITERS];
    writers_make(writers, 8);
    writers[2].name = "other";
    run(writers, save);
    for (int i = 0; i < WRITERS; i++) {
        assert_false(writers[i].done);
        assert_error(&writers[i].error, TG_ERROR_VALUE,
                     "checkpoint_save: 3 tensors, writer 0 has 3; names, dtypes, shapes");
    }
    run(writers, load); /* the file is that of the other test */
    for (int i = 0; i < WRITERS; i++) {
        assert_false(writers[i].done);
        assert_error(&writers[i].error, TG_ERROR_VALUE, "missing: table");
        assert_int_equal(writers[i].step, 8);
    }
    tg_checkpoint_part part = tg_checkpoint_params("model", writers[0].params);
    assert_false(tg_checkpoint_save(path, &part, 1, &error));
    assert_error(&error, TG_ERROR_STATE,
                 "checkpoint_save: 'model.table' has 3 rows of a table of 7; tg_checkpoint_save_together");
    const tg_checkpoint_group_calls no_agree = {NULL, share}, no_share = {agree, NULL};
    const struct {
        tg_checkpoint_group group;
        tg_code code;
        const char *text;
    } cases[] = {{{&calls, 0, 0}, TG_ERROR_VALUE, ": writer 0 of 0; they are numbered from 0"},
                 {{&calls, 2, 2}, TG_ERROR_VALUE, ": writer 2 of 2; they are numbered from 0"},
                 {{&calls, -1, 2}, TG_ERROR_VALUE, ": writer -1 of 2"},
                 {{NULL, 0, 2}, TG_ERROR_STATE, ": the group of 2 writers lacks the functions agree and share"},
                 {{&no_agree, 0, 2}, TG_ERROR_STATE, ": the group of 2 writers lacks"},
                 {{&no_share, 0, 2}, TG_ERROR_STATE, ": the group of 2 writers lacks"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_false(tg_checkpoint_save_together(path, &part, 1, &cases[i].group, &error));
        assert_error(&error, cases[i].code, cases[i].text);
        assert_false(tg_checkpoint_load_together(path, &part, 1, &cases[i].group, &error));
        assert_error(&error, cases[i].code, cases[i].text);
        tg_checkpoint_folder_config config = tg_checkpoint_folder_config_default();
        config.group = &cases[i].group;
        assert_null(tg_checkpoint_folder_open("test_checkpoint_group", &config, &error));
        assert_error(&error, cases[i].code, cases[i].text);
    }
    writers_free(writers);
    assert_int_equal(remove(path), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_save_and_load), cmocka_unit_test(test_errors)};
    return cmocka_run_group_tests_name("checkpoint_group", tests, NULL, NULL);
}
