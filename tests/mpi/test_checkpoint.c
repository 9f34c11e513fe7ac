/* Checkpoints of sharded tables: a file does not depend on the number of ranks that saved it, and any number of ranks
 * loads it, also a single process with an ordinary table. After a failure nothing has changed. Run on 4 ranks, of which
 * the first 1, 2, 3 or 4 save and load. */
#include "ranks.h"

#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tapegrad/rows.h>

#define ROWS 101
#define WIDTH 3
#define FOLDER "test_mpi_checkpoint"

static tg_error error;

/* A replicated layer and a table, each with an optimizer. Values are functions of `start` and of the index in the
 * whole table. */
typedef struct run {
    MPI_Comm comm;
    tg_mpi *mpi; /* NULL: one process with an ordinary table */
    tg_params *params, *shards;
    tg_mpi_table *sharded;
    tg_tensor *table;
    tg_optim *optim, *rows_optim;
    int64_t first, step;
} run;

static void fill(tg_tensor *x, int64_t first_row, double start)
{
    int64_t width = tg_tensor_rank(x) > 1 ? tg_tensor_size(x, 1) : 1;
    float *values = tg_tensor_data_mut(x);
    for (int64_t i = 0; i < tg_tensor_count(x); i++) {
        values[i] = (float)(start + (double)(first_row * width + i));
    }
}

static bool is_filled(const tg_tensor *x, int64_t first_row, double start)
{
    int64_t width = tg_tensor_rank(x) > 1 ? tg_tensor_size(x, 1) : 1;
    for (int64_t i = 0; i < tg_tensor_count(x); i++) {
        if (tg_tensor_value_at(x, i) != start + (double)(first_row * width + i)) {
            return false;
        }
    }
    return true;
}

/* Updates each third row in one step, so that it counts as updated; the values are set afterwards. */
static void update_rows(run *r)
{
    float zeros[WIDTH] = {0};
    for (int32_t i = 0; i < tg_tensor_size(r->table, 0); i++) {
        if ((r->first + i) % 3 == 0) {
            assert_true(tg_tensor_add_grad_rows(r->table, &i, zeros, 1, &error));
        }
    }
    assert_true(tg_optim_step(r->rows_optim));
    tg_optim_zero_grad(r->rows_optim);
}

/* `members` ranks, or one process with an ordinary table if it is 0. Collective over all ranks. */
static run run_make(int members, double start)
{
    tg_error_clear(&error);
    run r = {.step = (int64_t)start};
    MPI_Comm_split(MPI_COMM_WORLD, rank < members || (members == 0 && rank == 0) ? 0 : MPI_UNDEFINED, rank, &r.comm);
    if (r.comm == MPI_COMM_NULL) {
        return r;
    }
    tg_run *drawn = tg_run_new(5);
    r.params = tg_params_new(NULL, TG_F32);
    r.shards = tg_params_new(drawn, TG_F32);
    tg_tensor *weight = tg_params_add(r.params, "head.weight", TG_SHAPE(2, WIDTH));
    if (members > 0) {
        r.mpi = tg_mpi_new(r.comm, NULL, &error);
        r.sharded = tg_mpi_table_new(r.mpi, r.shards, "table", ROWS, WIDTH, &error);
        assert_string_equal(error.text, "");
        r.table = tg_mpi_table_shard(r.sharded);
        r.first = tg_mpi_table_first_row(r.sharded);
    } else {
        r.table = tg_params_add_normal(r.shards, "table.weight", TG_SHAPE(ROWS, WIDTH), 0, 1);
    }
    tg_run_free(drawn);
    r.optim = tg_adamw_new(r.params, NULL);
    r.rows_optim = tg_sparse_adam_new(r.shards, NULL);
    assert_true(tg_tensor_set_rows_watched(r.table, true, NULL));
    if (start > 0) {
        update_rows(&r);
        int64_t frozen = 77 - r.first; /* on one rank only */
        if (frozen >= 0 && frozen < tg_tensor_size(r.table, 0)) {
            assert_true(tg_tensor_set_rows_frozen(r.table, frozen, 1, true, NULL));
        }
    }
    fill(weight, 0, start);
    fill(r.table, r.first, start);
    fill(tg_optim_state_at(r.rows_optim, 0).tensor, r.first, start + 1000);
    fill(tg_optim_state_at(r.rows_optim, 1).tensor, r.first, start + 2000);
    return r;
}

static void run_free(run *r)
{
    if (r->comm != MPI_COMM_NULL) {
        tg_optim_free(r->optim), tg_optim_free(r->rows_optim);
        tg_mpi_table_free(r->sharded);
        tg_params_free(r->params), tg_params_free(r->shards);
        tg_mpi_free(r->mpi);
        MPI_Comm_free(&r->comm);
    }
}

/* Asserts that the run has the state that run_make(.., start) gives. */
static void assert_state(const run *r, double start)
{
    assert_true(is_filled(tg_params_find(r->params, "head.weight"), 0, start));
    assert_true(is_filled(r->table, r->first, start));
    assert_true(is_filled(tg_optim_state_at(r->rows_optim, 0).tensor, r->first, start + 1000));
    assert_true(is_filled(tg_optim_state_at(r->rows_optim, 1).tensor, r->first, start + 2000));
    assert_int_equal(tg_optim_steps(r->rows_optim, "table.weight"), start > 0);
    for (int64_t i = 0; i < tg_tensor_size(r->table, 0); i++) {
        assert_int_equal(tg_tensor_row_updates(r->table, i).count, start > 0 && (r->first + i) % 3 == 0);
        assert_int_equal(tg_tensor_row_is_frozen(r->table, i), start > 0 && r->first + i == 77);
    }
    assert_int_equal(r->step, (int64_t)start);
}

#define PARTS 5

static void parts_of(run *r, tg_checkpoint_part parts[PARTS])
{
    const tg_checkpoint_part all[PARTS] = {
        tg_checkpoint_params("model", r->params), tg_checkpoint_params("shards", r->shards),
        tg_checkpoint_optim("optim", r->optim), tg_checkpoint_optim("rows_optim", r->rows_optim),
        tg_checkpoint_integer("step", &r->step)};
    memcpy(parts, all, sizeof all);
}

static bool save(run *r, const char *path)
{
    tg_checkpoint_part parts[PARTS];
    parts_of(r, parts);
    return r->mpi ? tg_mpi_checkpoint_save(r->mpi, path, parts, PARTS, &error)
                  : tg_checkpoint_save(path, parts, PARTS, &error);
}

static bool load(run *r, const char *path)
{
    tg_checkpoint_part parts[PARTS];
    parts_of(r, parts);
    return r->mpi ? tg_mpi_checkpoint_load(r->mpi, path, parts, PARTS, &error)
                  : tg_checkpoint_load(path, parts, PARTS, &error);
}

/* ---- files ---- */

static const char *path_of(int members)
{
    static char path[64];
    snprintf(path, sizeof path, FOLDER "/%d.safetensors", members);
    return path;
}

static void make_folder(void)
{
    if (rank == 0) {
        mkdir(FOLDER, 0777);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Returns the bytes of a file, which the caller frees. */
static char *read_file(const char *path, long *size)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_true(fseek(file, 0, SEEK_END) == 0 && (*size = ftell(file)) > 0 && fseek(file, 0, SEEK_SET) == 0);
    char *bytes = malloc((size_t)*size);
    assert_int_equal(fread(bytes, 1, (size_t)*size, file), *size);
    fclose(file);
    return bytes;
}

static void write_file(const char *path, const char *bytes, long size)
{
    FILE *file = fopen(path, "wb");
    assert_int_equal(fwrite(bytes, 1, (size_t)size, file), size);
    assert_int_equal(fclose(file), 0);
}

/* Asserts that no temporary file is left, on rank 0 after the others have left the call. */
static void assert_no_temporary(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
    DIR *folder = opendir(FOLDER);
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));) {
        assert_null(strstr(entry->d_name, ".tmp"));
    }
    closedir(folder);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* ---- tests ---- */

static void test_numbers_of_ranks(void **state)
{
    (void)state;
    make_folder();
    for (int members = 0; members <= ranks; members++) {
        run r = run_make(members, 7);
        if (r.comm != MPI_COMM_NULL && !save(&r, path_of(members))) {
            fail_msg("%s", error.text);
        }
        if (r.comm != MPI_COMM_NULL) {
            assert_state(&r, 7);
        }
        run_free(&r);
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0) {
            long size, other;
            char *bytes = read_file(path_of(0), &size), *others = read_file(path_of(members), &other);
            assert_int_equal(size, other);
            assert_memory_equal(bytes, others, (size_t)size);
            free(bytes), free(others);
        }
    }
    for (int members = 0; members <= ranks; members++) {
        run r = run_make(members, 0);
        if (r.comm != MPI_COMM_NULL) {
            if (!load(&r, path_of((members + 2) % (ranks + 1)))) {
                fail_msg("%s", error.text);
            }
            assert_state(&r, 7);
            /* and again, into a run that has another state */
            fill(r.table, r.first, 50);
            assert_true(load(&r, path_of(members)));
            assert_state(&r, 7);
        }
        run_free(&r);
    }
}

/* tg_params_load reads the rows of a shard from any safetensors file; what is more than a shard is not saved alone. */
static void test_params(void **state)
{
    (void)state;
    run r = run_make(ranks, 0);
    tg_params_load_config config = tg_params_load_config_default();
    config.prefix = "shards.";
    assert_true(tg_params_load(r.shards, path_of(1), &config, &error));
    assert_true(is_filled(r.table, r.first, 7));
    assert_false(tg_params_save(r.shards, FOLDER "/alone.safetensors", NULL, &error));
    assert_error(&error, TG_ERROR_STATE, "params_save: 'table.weight' has ");
    assert_false(tg_tensor_resize_rows(r.table, 5, &error));
    assert_error(&error, TG_ERROR_STATE, "tensor_resize_rows: the table is a shard");
    run_free(&r);
    assert_no_temporary();
}

static void assert_failed_on_all(bool done, tg_code code, const char *text)
{
    int code_here = (int)error.code, lowest, highest;
    assert_false(done);
    assert_error(&error, code, text);
    MPI_Allreduce(&code_here, &lowest, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    MPI_Allreduce(&code_here, &highest, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    assert_int_equal(lowest, highest);
}

static void test_save_errors(void **state)
{
    (void)state;
    run r = run_make(ranks, 9);
    bool is_last = rank == ranks - 1;
    char expected[100];
    assert_failed_on_all(save(&r, FOLDER "/missing/a.safetensors"), TG_ERROR_FILE,
                         "mpi_checkpoint_save: rank 0: checkpoint_save: write '" FOLDER "/missing/a.safetensors'");
    /* a rank has other parts than the first */
    tg_checkpoint_part parts[PARTS];
    parts_of(&r, parts);
    assert_failed_on_all(tg_mpi_checkpoint_save(r.mpi, path_of(1), parts, is_last ? PARTS - 2 : PARTS, &error),
                         TG_ERROR_VALUE, "mpi_checkpoint_save: the number of parts is 5 on rank 0, and 3 on rank ");
    parts[1] = tg_checkpoint_params(is_last ? "other" : "shards", r.shards);
    assert_failed_on_all(tg_mpi_checkpoint_save(r.mpi, path_of(1), parts, PARTS, &error), TG_ERROR_VALUE,
                         "mpi_checkpoint_save: the list of parts is 'model, shards, ");
    parts[1] = tg_checkpoint_params("model", r.shards);
    assert_failed_on_all(tg_mpi_checkpoint_save(r.mpi, path_of(1), parts, PARTS, &error), TG_ERROR_VALUE,
                         "mpi_checkpoint_save: rank 0: checkpoint_save: parts 0 and 1 are both named 'model'");
    snprintf(expected, sizeof expected, "mpi_checkpoint_save: rank %d: the path is NULL", ranks - 1);
    assert_failed_on_all(save(&r, is_last ? NULL : path_of(1)), TG_ERROR_STATE, expected);
    /* each rank in turn cannot write its rows: a file may have only so many bytes */
    struct rlimit all, small;
    getrlimit(RLIMIT_FSIZE, &all);
    signal(SIGXFSZ, SIG_IGN);
    for (int failing = 0; failing < ranks; failing++) {
        small = all;
        small.rlim_cur = rank == failing ? 1500 : all.rlim_cur;
        setrlimit(RLIMIT_FSIZE, &small);
        bool done = save(&r, path_of(1));
        setrlimit(RLIMIT_FSIZE, &all);
        snprintf(expected, sizeof expected, "mpi_checkpoint_save: rank %d: checkpoint_save: write '", failing);
        assert_failed_on_all(done, TG_ERROR_FILE, expected);
        assert_no_temporary();
    }
    assert_state(&r, 9);
    run_free(&r);
    /* the file is the old one */
    run old = run_make(ranks, 0);
    assert_true(load(&old, path_of(1)));
    assert_state(&old, 7);
    run_free(&old);
}

static void test_load_errors(void **state)
{
    (void)state;
    run r = run_make(ranks, 9);
    bool is_last = rank == ranks - 1;
    assert_failed_on_all(load(&r, FOLDER "/missing.safetensors"), TG_ERROR_FILE, "mpi_checkpoint_load: rank 0: ");
    /* a part that one rank does not find */
    tg_checkpoint_part parts[PARTS];
    parts_of(&r, parts);
    parts[PARTS - 1] = tg_checkpoint_integer(is_last ? "steps" : "step", &r.step);
    assert_failed_on_all(tg_mpi_checkpoint_load(r.mpi, path_of(1), parts, PARTS, &error), TG_ERROR_VALUE,
                         "mpi_checkpoint_load: the list of parts is 'model, shards, ");
    assert_state(&r, 9);
    /* each end of the file, and each header that is wrong */
    long size;
    char *bytes = read_file(path_of(1), &size);
    for (long end = 0; end < size; end += 97) {
        if (rank == 0) {
            write_file(FOLDER "/cut.safetensors", bytes, end);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        assert_failed_on_all(load(&r, FOLDER "/cut.safetensors"), TG_ERROR_FORMAT, "mpi_checkpoint_load: rank 0: ");
    }
    assert_state(&r, 9);
    free(bytes);
    /* a table with another number of rows: the message has both sizes of the whole table */
    tg_run *other = tg_run_new(1);
    tg_params *shards = tg_params_new(other, TG_F32);
    tg_mpi_table *table = tg_mpi_table_new(r.mpi, shards, "table", ROWS + 1, WIDTH, &error);
    tg_checkpoint_part part = tg_checkpoint_params("shards", shards);
    assert_failed_on_all(tg_mpi_checkpoint_load(r.mpi, path_of(1), &part, 1, &error), TG_ERROR_SHAPE,
                         "table.weight is F32 (101,3) in the file and f32 (102,3) here");
    assert_false(tg_mpi_checkpoint_load(NULL, path_of(1), parts, PARTS, &error));
    assert_error(&error, TG_ERROR_STATE, "mpi_checkpoint_load: the tg_mpi is NULL");
    assert_false(tg_mpi_checkpoint_save(NULL, path_of(1), parts, PARTS, &error));
    assert_error(&error, TG_ERROR_STATE, "mpi_checkpoint_save: the tg_mpi is NULL");
    tg_mpi_table_free(table);
    tg_params_free(shards);
    tg_run_free(other);
    run_free(&r);
}

/* Memory is exhausted on one rank, at each allocation of a save and of a load. */
static void test_out_of_memory(void **state)
{
    (void)state;
    for (int failing = 0; failing < ranks; failing += ranks - 1 ? ranks - 1 : 1) {
        for (int saves = 0; saves <= 1; saves++) {
            counting_allocator counting;
            allocator_install(&counting);
            bool finished = false;
            int failures = 0;
            for (size_t k = 1; !finished; k++) {
                allocator_arm(&counting, 0, false);
                run r = run_make(ranks, 9);
                allocator_arm(&counting, rank == failing ? k : 0, true);
                finished = saves ? save(&r, FOLDER "/full.safetensors") : load(&r, path_of(2));
                allocator_arm(&counting, 0, false);
                if (!finished) {
                    failures++;
                    char expected[100];
                    snprintf(expected, sizeof expected, "mpi_checkpoint_%s: rank %d: ", saves ? "save" : "load",
                             failing);
                    assert_failed_on_all(false, TG_ERROR_MEMORY, expected);
                    assert_state(&r, 9);
                    assert_no_temporary();
                } else {
                    assert_state(&r, saves ? 9 : 7);
                }
                run_free(&r);
                assert_int_equal(counting.live, 0);
            }
            assert_true(failures > 10);
            allocator_restore();
        }
    }
}

/* ---- folders ---- */

#define RUN FOLDER "/run"

static tg_checkpoint_folder *open_folder(const run *r, const char *path, int64_t keep)
{
    tg_checkpoint_folder_config config = tg_checkpoint_folder_config_default();
    config.keep = keep;
    config.group = tg_mpi_checkpoint_group(r->mpi);
    return tg_checkpoint_folder_open(path, &config, &error);
}

static bool save_step(run *r, tg_checkpoint_folder *folder, int64_t step)
{
    tg_checkpoint_part parts[PARTS];
    parts_of(r, parts);
    return tg_checkpoint_folder_save(folder, step, true, parts, PARTS, &error);
}

static bool exists(const char *path)
{
    struct stat status;
    /* not before rank 0 has removed files, and not after it has written new ones */
    MPI_Barrier(MPI_COMM_WORLD);
    bool found = stat(path, &status) == 0;
    MPI_Barrier(MPI_COMM_WORLD);
    return found;
}

static void test_folder(void **state)
{
    (void)state;
    run r = run_make(ranks, 9);
    tg_checkpoint_folder *folder = open_folder(&r, RUN, 1);
    assert_string_equal(error.text, "");
    assert_true(save_step(&r, folder, 3) && save_step(&r, folder, 4));
    assert_false(exists(RUN "/step-00000003.safetensors"));
    char *best = tg_checkpoint_find(RUN, TG_CHECKPOINT_BEST, &error);
    assert_string_equal(best, RUN "/step-00000004.safetensors");
    run loaded = run_make(ranks, 0);
    assert_true(load(&loaded, best));
    assert_state(&loaded, 9);
    run_free(&loaded);
    tg_text_free(best);
    /* rank 0 has the lock */
    assert_null(open_folder(&r, RUN, 1));
    assert_failed_on_all(false, TG_ERROR_STATE,
                         "mpi_checkpoint_group: rank 0: checkpoint_folder_open: another run writes to '" RUN "'");
    assert_failed_on_all(save_step(&r, folder, rank == ranks - 1 ? -1 : 5), TG_ERROR_RANGE,
                         "checkpoint_folder_save: step -1 is outside [0,99999999]");
    assert_false(exists(RUN "/step-00000005.safetensors"));
    assert_true(exists(RUN "/step-00000004.safetensors") && exists(RUN "/best"));
    assert_true(tg_checkpoint_folder_clear(folder, &error));
    assert_false(exists(RUN "/step-00000004.safetensors") || exists(RUN "/best"));
    tg_checkpoint_folder_free(folder);
    run_free(&r);
}

/* The errors that only rank 0 can have, and invalid options of one rank. */
static void test_folder_errors(void **state)
{
    (void)state;
    run r = run_make(ranks, 9);
    assert_null(open_folder(&r, FOLDER "/nowhere/run", 1));
    assert_failed_on_all(false, TG_ERROR_FILE,
                         "mpi_checkpoint_group: rank 0: checkpoint_folder_open: create '" FOLDER "/nowhere/run'");
    assert_null(open_folder(&r, RUN, rank == 1 ? 0 : 1));
    assert_failed_on_all(false, TG_ERROR_VALUE, ranks > 1 ? "rank 1: checkpoint_folder_open: keep 0" : "keep 0");
    assert_null(open_folder(&r, rank == 1 ? NULL : RUN, 1));
    assert_failed_on_all(false, TG_ERROR_STATE, "rank 1: checkpoint_folder_open: the path is NULL");
    assert_null(tg_mpi_checkpoint_group(NULL));
    /* a folder in the way of "best", of the removal of old checkpoints, and of the removal of all */
    tg_checkpoint_folder *folder = open_folder(&r, RUN, 1);
    assert_true(rank > 0 || (mkdir(RUN "/best", 0777) == 0 && mkdir(RUN "/step-00000001.safetensors", 0777) == 0));
    MPI_Barrier(MPI_COMM_WORLD);
    assert_failed_on_all(save_step(&r, folder, 3), TG_ERROR_FILE, "rank 0: checkpoint_folder_save: ");
    assert_failed_on_all(tg_checkpoint_folder_clear(folder, &error), TG_ERROR_FILE,
                         "rank 0: checkpoint_folder_clear: remove '" RUN "/best'");
    assert_true(rank > 0 || rmdir(RUN "/best") == 0);
    MPI_Barrier(MPI_COMM_WORLD);
    assert_failed_on_all(tg_checkpoint_folder_clear(folder, &error), TG_ERROR_FILE,
                         "rank 0: checkpoint_folder_clear: remove '" RUN "/step-00000001.safetensors'");
    assert_true(rank > 0 || rmdir(RUN "/step-00000001.safetensors") == 0);
    tg_checkpoint_folder_free(folder);
    run_free(&r);
}

/* Memory is exhausted on one rank, at each allocation of an open, a save and a clear. */
static void test_folder_out_of_memory(void **state)
{
    (void)state;
    counting_allocator counting;
    for (int failing = 0; failing < ranks; failing += ranks - 1 ? ranks - 1 : 1) {
        allocator_install(&counting);
        bool finished = false;
        int failures = 0;
        for (size_t k = 1; !finished; k++) {
            allocator_arm(&counting, 0, false);
            run r = run_make(ranks, 9);
            allocator_arm(&counting, rank == failing ? k : 0, true);
            tg_checkpoint_folder *folder = open_folder(&r, RUN, 1);
            finished = folder && save_step(&r, folder, 1) && tg_checkpoint_folder_clear(folder, &error);
            allocator_arm(&counting, 0, false);
            tg_checkpoint_folder_free(folder);
            if (!finished) {
                failures++;
                assert_failed_on_all(false, TG_ERROR_MEMORY, "out of memory");
            }
            run_free(&r);
            assert_int_equal(counting.live, 0);
        }
        assert_true(failures > 10);
        allocator_restore();
    }
}

static void remove_files(void)
{
    DIR *folder = opendir(FOLDER);
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        char path[400];
        snprintf(path, sizeof path, FOLDER "/%s", entry->d_name);
        if (entry->d_name[0] != '.') {
            unlink(path);
        }
    }
    closedir(folder);
    assert_true(unlink(RUN "/lock") == 0 && rmdir(RUN) == 0);
    assert_int_equal(rmdir(FOLDER), 0);
}

static void test_end(void **state)
{
    (void)state;
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        remove_files();
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_numbers_of_ranks),
    cmocka_unit_test(test_params),
    cmocka_unit_test(test_save_errors),
    cmocka_unit_test(test_load_errors),
    cmocka_unit_test(test_out_of_memory),
    cmocka_unit_test(test_folder),
    cmocka_unit_test(test_folder_errors),
    cmocka_unit_test(test_folder_out_of_memory),
    cmocka_unit_test(test_end),
};

DEFINE_MAIN("checkpoint", tests)
