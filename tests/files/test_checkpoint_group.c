/* Checkpoints that several processes save and load together. Here the processes are threads, each with its own params
 * and its shard of the table. tests/mpi/test_checkpoint.c has ranks, and all faults. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <tapegrad/checkpoint.h>
#include <tapegrad/rows.h>

#include "support.h"

#define PROCESSES 3
#define ROWS 7

static const char path[] = "test_checkpoint_group.safetensors";

static tg_error error;

/* ---- processes ---- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t all_arrived = PTHREAD_COND_INITIALIZER;
static int arrived, round_number;

static void wait_for_all(void)
{
    pthread_mutex_lock(&mutex);
    int round = round_number;
    if (++arrived == PROCESSES) {
        arrived = 0;
        round_number++;
        pthread_cond_broadcast(&all_arrived);
    }
    while (round == round_number) {
        pthread_cond_wait(&all_arrived, &mutex);
    }
    pthread_mutex_unlock(&mutex);
}

typedef struct process {
    int64_t rank, step;
    tg_params *params;
    tg_tensor *table;
    const char *name; /* of the part */
    bool done;
    tg_error error;
} process;

static tg_error locals[PROCESSES];
static void *shared;

static bool agree(void *context, const tg_error *local, tg_error *failed)
{
    process *p = context;
    locals[p->rank] = *local;
    wait_for_all();
    int64_t first = 0;
    while (first < PROCESSES && locals[first].code == TG_OK) {
        first++;
    }
    if (first < PROCESSES) {
        *failed = locals[first];
    }
    wait_for_all();
    return first == PROCESSES;
}

static bool share(void *context, void *bytes, int64_t size, tg_error *failed)
{
    (void)failed;
    process *p = context;
    shared = p->rank == 0 ? bytes : shared;
    wait_for_all();
    if (p->rank > 0) {
        memcpy(bytes, shared, (size_t)size);
    }
    wait_for_all();
    return true;
}

static bool together(process *p, bool saves)
{
    tg_checkpoint_group_config config = tg_checkpoint_group_config_default();
    config.rank = p->rank;
    config.size = PROCESSES;
    config.agree = agree;
    config.share = share;
    config.context = p;
    tg_checkpoint_part parts[] = {{.name = p->name, .params = p->params}, {.name = "step", .integer = &p->step}};
    return saves ? tg_checkpoint_save_together(path, parts, 2, &config, &p->error)
                 : tg_checkpoint_load_together(path, parts, 2, &config, &p->error);
}

static void *save(void *context)
{
    process *p = context;
    p->done = together(p, true);
    return NULL;
}

static void *load(void *context)
{
    process *p = context;
    p->done = together(p, false);
    return NULL;
}

static void run(process *processes, void *(*body)(void *))
{
    pthread_t threads[PROCESSES];
    for (int i = 0; i < PROCESSES; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, body, &processes[i]), 0);
    }
    for (int i = 0; i < PROCESSES; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
}

/* The processes have 3, no and 4 rows of the table; row r has the values start + 2 r and start + 2 r + 1. */
static void processes_make(process *processes, double start)
{
    const int64_t first[] = {0, 3, 3, ROWS};
    for (int i = 0; i < PROCESSES; i++) {
        process *p = &processes[i];
        *p = (process){.rank = i, .step = (int64_t)start, .params = tg_params_new(TG_F32, NULL), .name = "model"};
        int64_t rows = first[i + 1] - first[i];
        p->table = tg_params_add(p->params, "table", TG_SHAPE(rows, 2));
        tg_tensor_fill(tg_params_add(p->params, "bias", TG_SHAPE(2)), start + i, NULL);
        for (int64_t k = 0; k < 2 * rows; k++) {
            ((float *)tg_tensor_data_mut(p->table))[k] = (float)(start + (double)(2 * first[i] + k));
        }
        assert_true(tg_tensor_set_shard(p->table, first[i], ROWS, &error));
    }
}

static void processes_free(process *processes)
{
    for (int i = 0; i < PROCESSES; i++) {
        tg_params_free(processes[i].params);
    }
}

/* ---- tests ---- */

static void test_save_and_load(void **state)
{
    (void)state;
    process processes[PROCESSES];
    processes_make(processes, 100);
    run(processes, save);
    for (int i = 0; i < PROCESSES; i++) {
        assert_true(processes[i].done);
    }
    processes_free(processes);
    /* one process has the whole table, and the bias of process 0 */
    tg_params *params = tg_params_new(TG_F32, NULL);
    tg_tensor *table = tg_params_add(params, "table", TG_SHAPE(ROWS, 2)),
              *bias = tg_params_add(params, "bias", TG_SHAPE(2));
    tg_checkpoint_part part = {.name = "model", .params = params};
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
    processes_make(processes, 5);
    run(processes, load);
    for (int i = 0; i < PROCESSES; i++) {
        assert_true(processes[i].done);
        assert_int_equal(processes[i].step, 100);
        assert_true(tg_tensor_value_at(tg_params_find(processes[i].params, "bias"), 1) == 100);
    }
    assert_true(tg_tensor_value_at(processes[0].table, 5) == 105 && tg_tensor_value_at(processes[2].table, 0) == 106);
    processes_free(processes);
}

static void test_errors(void **state)
{
    (void)state;
    process processes[PROCESSES];
    processes_make(processes, 8);
    processes[2].name = "other";
    run(processes, save);
    for (int i = 0; i < PROCESSES; i++) {
        assert_false(processes[i].done);
        assert_error(&processes[i].error, TG_ERROR_VALUE,
                     "checkpoint_save: 3 tensors, process 0 has 3; names, dtypes, shapes");
    }
    run(processes, load); /* the file is that of the other test */
    for (int i = 0; i < PROCESSES; i++) {
        assert_false(processes[i].done);
        assert_error(&processes[i].error, TG_ERROR_VALUE, "missing: table");
        assert_int_equal(processes[i].step, 8);
    }
    tg_checkpoint_part part = {.name = "model", .params = processes[0].params};
    assert_false(tg_checkpoint_save(path, &part, 1, &error));
    assert_error(&error, TG_ERROR_STATE,
                 "checkpoint_save: 'model.table' has 3 rows of a table of 7; tg_checkpoint_save_together");
    const struct {
        int64_t rank, size;
        bool has_agree, has_share;
        tg_code code;
        const char *text;
    } cases[] = {{0, 0, true, true, TG_ERROR_VALUE, ": process 0 of 0; they are numbered from 0"},
                 {2, 2, true, true, TG_ERROR_VALUE, ": process 2 of 2; they are numbered from 0"},
                 {-1, 2, true, true, TG_ERROR_VALUE, ": process -1 of 2"},
                 {0, 2, false, true, TG_ERROR_STATE, ": agree is NULL, with 2 processes"},
                 {0, 2, true, false, TG_ERROR_STATE, ": share is NULL, with 2 processes"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tg_checkpoint_group_config config = tg_checkpoint_group_config_default();
        config.rank = cases[i].rank;
        config.size = cases[i].size;
        config.agree = cases[i].has_agree ? agree : NULL;
        config.share = cases[i].has_share ? share : NULL;
        assert_false(tg_checkpoint_save_together(path, &part, 1, &config, &error));
        assert_error(&error, cases[i].code, cases[i].text);
        assert_false(tg_checkpoint_load_together(path, &part, 1, &config, &error));
        assert_error(&error, cases[i].code, cases[i].text);
    }
    processes_free(processes);
    assert_int_equal(remove(path), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_save_and_load), cmocka_unit_test(test_errors)};
    return cmocka_run_group_tests_name("checkpoint_group", tests, NULL, NULL);
}
