/* Collective calls that are wrong on one rank: all ranks have the same error and none waits, nothing has changed, and
 * the right call gives the right result afterwards. The table has a row for each wrong argument, and `agreement_rows`
 * checks that none is left out. To run one row: TG_AGREEMENT_ROW=NUMBER. */
#include "agreement_calls.h"

#include <signal.h>
#include <unistd.h>

/* ---- the table ---- */

typedef struct row {
    const char *name;
    mistake mistake;
    function *call;
    tg_code code;
    const char *part; /* of the message */
} row;

#define STATE TG_ERROR_STATE
#define VALUE TG_ERROR_VALUE
#define ORDER_TEXT "all ranks must make the same calls in the same order"
#define UNMARKED_TEXT "the config does not come from tg_"
#define DIFFERS_TEXT "differs from rank 0's on rank"

static const row rows[] = {
    {"tg_mpi_new", {"config", UNMARKED}, call_new, VALUE, UNMARKED_TEXT},
    {"tg_mpi_new", {"config", ZERO}, call_new, VALUE, "bucket_bytes 0; it must be 64 to 2147483647"},
    {"tg_mpi_new", {"config", DIFFERENT}, call_new, VALUE, "bucket_bytes is "},
    {"tg_mpi_agree", {"local", HAS_ERROR}, call_agree, TG_ERROR_FILE, "no such file"},
    {"tg_mpi_agree", {"order", ANOTHER_CALL}, call_agree, STATE, ORDER_TEXT},
    {"tg_mpi_sum", {"order", ANOTHER_CALL}, call_sum, STATE, ORDER_TEXT},
    {"tg_mpi_mean", {"order", ANOTHER_CALL}, call_mean, STATE, ORDER_TEXT},
    {"tg_mpi_mean", {"weight", NOT_A_NUMBER}, call_mean, VALUE, "the weight is nan"},
    {"tg_mpi_mean", {"weight", NEGATIVE}, call_mean, VALUE, "the weight is -1"},
    {"tg_mpi_broadcast", {"order", ANOTHER_CALL}, call_broadcast, STATE, ORDER_TEXT},
    {"tg_mpi_broadcast", {"params", NULLED}, call_broadcast, STATE, "the params is NULL"},
    {"tg_mpi_broadcast", {"params", HAS_ERROR}, call_broadcast, VALUE, "a name of 0 characters"},
    {"tg_mpi_broadcast", {"params", STRANGER}, call_broadcast, VALUE, DIFFERS_TEXT},
    {"tg_mpi_broadcast", {"params", FROZEN}, call_broadcast, VALUE, DIFFERS_TEXT},
    {"tg_mpi_broadcast", {"params", RESIZED}, call_broadcast, VALUE, DIFFERS_TEXT},
    {"tg_mpi_check", {"order", ANOTHER_CALL}, call_check, STATE, ORDER_TEXT},
    {"tg_mpi_check", {"params", NULLED}, call_check, STATE, "the params is NULL"},
    {"tg_mpi_check", {"params", STRANGER}, call_check, STATE, "not those of the last tg_mpi_broadcast"},
    {"tg_mpi_check", {"params", FROZEN}, call_check, VALUE, DIFFERS_TEXT},
    {"tg_mpi_check", {"params", RESIZED}, call_check, VALUE, DIFFERS_TEXT},
    {"tg_mpi_reduce", {"order", ANOTHER_CALL}, call_reduce, STATE, ORDER_TEXT},
    {"tg_mpi_reduce", {"params", NULLED}, call_reduce, STATE, "the params is NULL"},
    {"tg_mpi_reduce", {"params", STRANGER}, call_reduce, STATE, "not those of the last tg_mpi_broadcast"},
    {"tg_mpi_reduce", {"params", FROZEN}, call_reduce, VALUE, DIFFERS_TEXT},
    {"tg_mpi_reduce", {"params", RESIZED}, call_reduce, VALUE, DIFFERS_TEXT},
    {"tg_mpi_reduce", {"config", UNMARKED}, call_reduce, VALUE, UNMARKED_TEXT},
    {"tg_mpi_reduce", {"config", NOT_A_NUMBER}, call_reduce, VALUE, "the share is nan"},
    {"tg_mpi_reduce", {"config", NEGATIVE}, call_reduce, VALUE, "the share is -2"},
    {"tg_mpi_reduce", {"config", HAS_ERROR}, call_reduce, TG_ERROR_RANGE, "embedding: id 9"},
    {"tg_mpi_reduce", {"order", ANOTHER_CALL}, call_reduce_after_begin, STATE, ORDER_TEXT},
    {"tg_mpi_reduce", {"params", NULLED}, call_reduce_after_begin, STATE, "the params is NULL"},
    {"tg_mpi_reduce", {"params", STRANGER}, call_reduce_after_begin, STATE, "not those of the last tg_mpi_broadcast"},
    {"tg_mpi_reduce", {"params", FROZEN}, call_reduce_after_begin, VALUE, DIFFERS_TEXT},
    {"tg_mpi_reduce", {"params", RESIZED}, call_reduce_after_begin, STATE, "when this step's reduction began"},
    {"tg_mpi_reduce", {"config", UNMARKED}, call_reduce_after_begin, VALUE, UNMARKED_TEXT},
    {"tg_mpi_reduce", {"config", NOT_A_NUMBER}, call_reduce_after_begin, VALUE, "the share is nan"},
    {"tg_mpi_reduce", {"config", HAS_ERROR}, call_reduce_after_begin, TG_ERROR_RANGE, "embedding: id 9"},
    {"tg_mpi_reduce", {"samples", DIFFERENT}, call_reduce_samples, VALUE, "the number of samples"},
    {"tg_mpi_begin", {"order", ANOTHER_CALL}, call_begin, STATE, ORDER_TEXT},
    {"tg_mpi_begin", {"params", NULLED}, call_begin, STATE, "the params is NULL"},
    {"tg_mpi_begin", {"params", STRANGER}, call_begin, STATE, "not those of the last tg_mpi_broadcast"},
    {"tg_mpi_begin", {"params", FROZEN}, call_begin, VALUE, DIFFERS_TEXT},
    {"tg_mpi_begin", {"params", RESIZED}, call_begin, VALUE, DIFFERS_TEXT},
    {"tg_mpi_begin", {"config", UNMARKED}, call_begin, VALUE, UNMARKED_TEXT},
    {"tg_mpi_begin", {"config", NOT_A_NUMBER}, call_begin, VALUE, "the share is nan"},
    {"tg_mpi_begin", {"config", HAS_ERROR}, call_begin, TG_ERROR_RANGE, "embedding: id 9"},
    {"tg_mpi_table_new", {"order", ANOTHER_CALL}, call_table_new, STATE, ORDER_TEXT},
    {"tg_mpi_table_new", {"shards", NULLED}, call_table_new, STATE, "the params is NULL"},
    {"tg_mpi_table_new", {"shards", HAS_ERROR}, call_table_new, VALUE, "a name of 0 characters"},
    {"tg_mpi_table_new", {"shards", STRANGER}, call_table_new, VALUE, "the dtype is 'f"},
    {"tg_mpi_table_new", {"run", NULLED}, call_table_new, STATE, "the shards have no generator"},
    {"tg_mpi_table_new", {"run", DIFFERENT}, call_table_new, VALUE, "the checksum of the generator's state is "},
    {"tg_mpi_table_new", {"name", NULLED}, call_table_new, STATE, "the name is NULL"},
    {"tg_mpi_table_new", {"name", DIFFERENT}, call_table_new, VALUE, "the name is '"},
    {"tg_mpi_table_new", {"name", IN_USE}, call_table_new, VALUE, "the name 'table.weight' is in use"},
    {"tg_mpi_table_new", {"name", TOO_LARGE}, call_table_new, VALUE, "the name has more than"},
    {"tg_mpi_table_new", {"rows", DIFFERENT}, call_table_new, VALUE, "the number of rows is 2"},
    {"tg_mpi_table_new", {"rows", ZERO}, call_table_new, TG_ERROR_SHAPE, "0 rows of width 2"},
    {"tg_mpi_table_new",
     {"rows", NEGATIVE},
     call_table_new,
     TG_ERROR_SHAPE,
     "; every rank must own a row, with at most 2147483647 rows altogether and a width of at least 1"},
    {"tg_mpi_table_new", {"rows", TOO_LARGE}, call_table_new, TG_ERROR_SHAPE, "9223372036854775807 rows of width 2"},
    {"tg_mpi_table_new", {"width", ZERO}, call_table_new, TG_ERROR_SHAPE, "20 rows of width 0"},
    {"tg_mpi_table_new", {"width", DIFFERENT}, call_table_new, VALUE, "the width is "},
    {"tg_mpi_embedding", {"order", ANOTHER_CALL}, call_embedding, STATE, ORDER_TEXT},
    {"tg_mpi_embedding", {"tape", NULLED}, call_embedding, TG_ERROR_MEMORY, "the tape is NULL"},
    {"tg_mpi_embedding", {"tape", HAS_ERROR}, call_embedding, VALUE, "earlier: something was wrong"},
    {"tg_mpi_embedding", {"tape", NO_RECORDING}, call_embedding, VALUE, "whether the tape records"},
    {"tg_mpi_embedding", {"table", DIFFERENT}, call_embedding, VALUE, "the table's number"},
    {"tg_mpi_embedding", {"table", FROZEN}, call_embedding, VALUE, "and the shard requires a gradient, is '"},
    {"tg_mpi_embedding", {"ids", NULLED}, call_embedding, STATE, "the ids are NULL"},
    {"tg_mpi_embedding", {"ids", WRONG_DTYPE}, call_embedding, TG_ERROR_DTYPE, "they must be i32"},
    {"tg_mpi_embedding", {"ids", OUTSIDE}, call_embedding, TG_ERROR_RANGE, "id 20 at [1] is outside [0,20)"},
    {"tg_mpi_embedding", {"config", UNMARKED}, call_embedding, VALUE, UNMARKED_TEXT},
    {"tg_mpi_embedding", {"config", MAX_NORM}, call_embedding, VALUE, "max_norm is not possible"},
    {"tg_mpi_embedding", {"config", DIFFERENT}, call_embedding, VALUE, "scale_by_frequency is not possible"},
    {"tg_mpi_embedding", {"config", OUTSIDE}, call_embedding, TG_ERROR_RANGE, "padding_index 20 is outside"},
    {"tg_mpi_embedding_bag", {"order", ANOTHER_CALL}, call_bag, STATE, ORDER_TEXT},
    {"tg_mpi_embedding_bag", {"tape", NULLED}, call_bag, TG_ERROR_MEMORY, "the tape is NULL"},
    {"tg_mpi_embedding_bag", {"tape", HAS_ERROR}, call_bag, VALUE, "earlier: something was wrong"},
    {"tg_mpi_embedding_bag", {"tape", NO_RECORDING}, call_bag, VALUE, "whether the tape records"},
    {"tg_mpi_embedding_bag", {"table", DIFFERENT}, call_bag, VALUE, "the table's number"},
    {"tg_mpi_embedding_bag", {"table", FROZEN}, call_bag, VALUE, "and the shard requires a gradient, is '"},
    {"tg_mpi_embedding_bag", {"ids", NULLED}, call_bag, STATE, "the ids are NULL"},
    {"tg_mpi_embedding_bag", {"ids", WRONG_DTYPE}, call_bag, TG_ERROR_DTYPE, "they must be i32"},
    {"tg_mpi_embedding_bag", {"ids", OUTSIDE}, call_bag, TG_ERROR_RANGE, "id 20 at [1] is outside [0,20)"},
    {"tg_mpi_embedding_bag", {"config", UNMARKED}, call_bag, VALUE, UNMARKED_TEXT},
    {"tg_mpi_embedding_bag", {"config", MAX_NORM}, call_bag, VALUE, "max_norm is not possible"},
    {"tg_mpi_embedding_bag", {"config", DIFFERENT}, call_bag, VALUE, "scale_by_frequency is not possible"},
    {"tg_mpi_embedding_bag", {"config", OUTSIDE}, call_bag, TG_ERROR_RANGE, "padding_index 20 is outside"},
    {"tg_mpi_embedding_bag", {"config", MODE}, call_bag, VALUE, "embedding_bag: "},
    {"tg_mpi_embedding_bag", {"config", WEIGHTS}, call_bag, TG_ERROR_SHAPE, "embedding_bag: "},
    {"tg_mpi_embedding_bag", {"config", NULLED}, call_bag, TG_ERROR_SHAPE, "embedding_bag: "},
    {"tg_mpi_table_reduce", {"order", ANOTHER_CALL}, call_table_reduce, STATE, ORDER_TEXT},
    {"tg_mpi_table_reduce", {"table", DIFFERENT}, call_table_reduce, VALUE, "the table's number"},
    {"tg_mpi_table_reduce", {"table", FROZEN}, call_table_reduce, STATE, "does not require a gradient"},
    {"tg_mpi_table_reduce", {"config", UNMARKED}, call_table_reduce, VALUE, UNMARKED_TEXT},
    {"tg_mpi_table_reduce", {"config", NOT_A_NUMBER}, call_table_reduce, VALUE, "the share is nan"},
    {"tg_mpi_table_reduce", {"config", HAS_ERROR}, call_table_reduce, TG_ERROR_RANGE, "embedding: id 9"},
    {"tg_mpi_clip_grad_norm", {"order", ANOTHER_CALL}, call_clip, STATE, ORDER_TEXT},
    {"tg_mpi_clip_grad_norm", {"params", NULLED}, call_clip, STATE, "the params is NULL"},
    {"tg_mpi_clip_grad_norm", {"params", HAS_ERROR}, call_clip, VALUE, "a name of 0 characters"},
    {"tg_mpi_clip_grad_norm", {"shards", NULLED}, call_clip, STATE, "the shards is NULL"},
    {"tg_mpi_clip_grad_norm", {"shards", HAS_ERROR}, call_clip, VALUE, "a name of 0 characters"},
    {"tg_mpi_clip_grad_norm", {"max_norm", NOT_A_NUMBER}, call_clip, VALUE, "max_norm nan"},
    {"tg_mpi_clip_grad_norm", {"max_norm", NEGATIVE}, call_clip, VALUE, "max_norm -1"},
    {"tg_mpi_clip_grad_norm", {"max_norm", DIFFERENT}, call_clip, VALUE, "max_norm is '"},
    {"tg_mpi_checkpoint_save", {"order", ANOTHER_CALL}, call_save, STATE, ORDER_TEXT},
    {"tg_mpi_checkpoint_save", {"path", NULLED}, call_save, STATE, "the path is NULL"},
    {"tg_mpi_checkpoint_save", {"path", DIFFERENT}, call_save, VALUE, "the path is '"},
    {"tg_mpi_checkpoint_save", {"parts", NULLED}, call_save, STATE, "the array of parts is NULL"},
    {"tg_mpi_checkpoint_save", {"parts", DIFFERENT}, call_save, VALUE, "the list of parts is '"},
    {"tg_mpi_checkpoint_save", {"parts", ZERO}, call_save, STATE, "the integer of part 'steps' is NULL"},
    {"tg_mpi_checkpoint_save", {"count", ZERO}, call_save, VALUE, "the number of parts is "},
    {"tg_mpi_checkpoint_save", {"count", NEGATIVE}, call_save, VALUE, "the number of parts is "},
    {"tg_mpi_checkpoint_save", {"count", DIFFERENT}, call_save, VALUE, "the number of parts is "},
    {"tg_mpi_checkpoint_load", {"order", ANOTHER_CALL}, call_load, STATE, ORDER_TEXT},
    {"tg_mpi_checkpoint_load", {"path", NULLED}, call_load, STATE, "the path is NULL"},
    {"tg_mpi_checkpoint_load", {"path", DIFFERENT}, call_load, VALUE, "the path is '"},
    {"tg_mpi_checkpoint_load", {"parts", NULLED}, call_load, STATE, "the array of parts is NULL"},
    {"tg_mpi_checkpoint_load", {"parts", DIFFERENT}, call_load, VALUE, "the list of parts is '"},
    {"tg_mpi_checkpoint_load", {"parts", ZERO}, call_load, STATE, "the integer of part 'steps' is NULL"},
    {"tg_mpi_checkpoint_load", {"count", ZERO}, call_load, VALUE, "the number of parts is "},
    {"tg_mpi_checkpoint_load", {"count", DIFFERENT}, call_load, VALUE, "the number of parts is "},
};

/* ---- one row ---- */

static const row *current;
static const mistake none = {"", RIGHT};

/* Ends a rank that waits, and with it all others. */
static void report_hang(int signal_number)
{
    (void)signal_number;
    fprintf(stderr, "rank %d waits in %s, %s (row %d)\n", rank, current->name, current->mistake.argument,
            (int)(current - rows));
    _exit(1);
}

/* Returns the sum of all values of the params and shards, each times its index. */
static double values_of(const world *w)
{
    double sum = 0;
    for (int i = 0; i < 2; i++) {
        const tg_params *params = i ? w->shards : w->params;
        for (int64_t k = 0; k < tg_params_count(params); k++) {
            const tg_tensor *x = tg_params_at(params, k).tensor;
            for (int64_t at = 0; at < tg_tensor_count(x); at++) {
                sum += (double)(at + 1) * tg_tensor_value_at(x, at);
            }
        }
    }
    return sum;
}

static void assert_right(world *w, const row *r)
{
    tg_error error = TG_NO_ERROR;
    bool done = r->call(w, &none, &error);
    if (!done) {
        fail_msg("%s, %s: the right call fails: %s", r->name, r->mistake.argument, error.text);
    }
}

static void assert_wrong(world *w, const row *r, int wrong_rank)
{
    tg_error error = TG_NO_ERROR;
    bool is_wrong = rank == wrong_rank, has_steps_before = r->call == call_reduce_after_begin ||
                                                           r->call == call_table_reduce || r->call == call_reduce;
    double before = values_of(w);
    bool done = is_wrong && r->mistake.what == ANOTHER_CALL && !has_steps_before
                    ? make_another_call(w, r->call, &error)
                    : r->call(w, is_wrong ? &r->mistake : &none, &error);
    if (strcmp(r->mistake.argument, "config") == 0 && (r->call == call_reduce || r->call == call_begin)) {
        assert_string_equal(tg_params_error(w->params)->text, error.text);
    }
    world_clear(w);
    if (done) {
        fail_msg("%s, %s, wrong on rank %d: rank %d reports no error", r->name, r->mistake.argument, wrong_rank, rank);
    }
    assert_true(values_of(w) == before);
    /* a rank without a tape has no error to compare */
    bool is_own = is_wrong && strcmp(r->mistake.argument, "tape") == 0 && r->mistake.what == NULLED;
    tg_error all[8];
    MPI_Allgather(&error, sizeof error, MPI_BYTE, all, sizeof error, MPI_BYTE, MPI_COMM_WORLD);
    const tg_error *expected = &all[wrong_rank == 0 ? ranks - 1 : 0];
    if (expected->code != r->code || !strstr(expected->text, r->part) ||
        (!is_own && (error.code != expected->code || strcmp(error.text, expected->text) != 0))) {
        fail_msg("%s, %s, wrong on rank %d: rank %d reports '%s', another '%s'; it must have '%s'", r->name,
                 r->mistake.argument, wrong_rank, rank, error.text, expected->text, r->part);
    }
}

static void test_rows(void **state)
{
    (void)state;
    const char *only = getenv("TG_AGREEMENT_ROW");
    world w = world_make();
    signal(SIGALRM, report_hang);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        current = &rows[i];
        if (ranks == 1 || (only && (size_t)atoi(only) != i) || (ranks == 3 && current->call == call_reduce_samples)) {
            continue;
        }
        alarm(60);
        assert_right(&w, current);
        assert_wrong(&w, current, 0);
        assert_right(&w, current);
        assert_wrong(&w, current, ranks - 1);
        assert_right(&w, current);
        alarm(0);
    }
    world_free(&w);
    if (rank == 0) {
        remove(CHECKPOINT);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_rows),
};

DEFINE_MAIN("agreement", tests)
