/* refused: checks of a call that an op refuses: the code, the exact message, and that nothing changed. No record is
 * added, the generator and all tensors keep their values, and an earlier result still has its gradients. */
#ifndef TG_TESTS_REFUSED_H
#define TG_TESTS_REFUSED_H

#include "ops/calls.h"
#include "support.h"
#include "tape_stats.h"

#include <string.h>

#define TENSORS 16

typedef struct fixture {
    tg_run *run;
    tg_tape *tape;
    tg_tensor *x, *doubles, *ids, *mask; /* (2,3) f32 and f64, which are leaves; i32, 0 to 8; u8 */
    tg_tensor *scalar, *vector, *four;   /* (), (3), (4) f32 */
    tg_tensor *row, *empty;              /* (1,3), (0,3) f32 */
    tg_tensor *table, *four_rows;        /* (9,2), (4,2) f32 */
    tg_tensor *batches, *three_batches;  /* (2,3,2), (3,2,3) f32 */
    tg_tensor *id_list, *four_ids;       /* (2), which is 5 and 3; (4) i32 */
    tg_tensor *deep_ids;                 /* rank 8, i32 */
    tg_tensor *kept;                     /* 2 x, recorded before all errors */
    tg_tensor *all[TENSORS];             /* except kept, which is the tape's */
    uint64_t versions[TENSORS];
    uint8_t generator[TG_RNG_TORCH_STATE_SIZE];
    int count;
    int64_t records;
} fixture;

static inline tg_tensor *own(fixture *f, tg_tensor *x)
{
    assert_in_range(f->count, 0, TENSORS - 1);
    f->versions[f->count] = tg_storage_version(x);
    f->all[f->count++] = x;
    return x;
}

static inline tg_tensor *ones(fixture *f, tg_dtype dtype, tg_shape shape)
{
    tg_tensor *x = tg_tensor_new_full(dtype, shape, 1, NULL);
    assert_non_null(x);
    return own(f, x);
}

static inline int set_up(void **state)
{
    static fixture made;
    fixture *f = *state = &made;
    f->count = 0;
    f->run = tg_run_new(7);
    f->tape = tg_tape_new(f->run, NULL);
    f->x = leaf(ones(f, TG_F32, TG_SHAPE(2, 3)));
    f->doubles = leaf(ones(f, TG_F64, TG_SHAPE(2, 3)));
    f->ids = own(f, tensor_i32(TG_SHAPE(2, 3), (int32_t[]){0, 8, 3, 1, 2, 7}));
    f->mask = ones(f, TG_U8, TG_SHAPE(2, 3));
    f->scalar = ones(f, TG_F32, TG_SCALAR);
    f->vector = ones(f, TG_F32, TG_SHAPE(3));
    f->four = ones(f, TG_F32, TG_SHAPE(4));
    f->row = ones(f, TG_F32, TG_SHAPE(1, 3));
    f->empty = ones(f, TG_F32, TG_SHAPE(0, 3));
    f->table = ones(f, TG_F32, TG_SHAPE(9, 2));
    f->four_rows = ones(f, TG_F32, TG_SHAPE(4, 2));
    f->batches = ones(f, TG_F32, TG_SHAPE(2, 3, 2));
    f->three_batches = ones(f, TG_F32, TG_SHAPE(3, 2, 3));
    f->id_list = own(f, tensor_i32(TG_SHAPE(2), (int32_t[]){5, 3}));
    f->four_ids = ones(f, TG_I32, TG_SHAPE(4));
    f->deep_ids = ones(f, TG_I32, TG_SHAPE(1, 1, 1, 1, 1, 1, 1, 1));
    f->kept = tg_mul_scalar(f->tape, f->x, 2);
    f->records = 1;
    assert_true(tg_rng_save_torch_state(tg_run_rng(f->run), f->generator, NULL));
    return 0;
}

static inline int tear_down(void **state)
{
    fixture *f = *state;
    assert_true(backward_from(f->tape, f->kept, f->x));
    assert_values(tg_tensor_grad(f->x), (double[]){2, 2, 2, 2, 2, 2}, 6, 0, 0);
    for (int i = 0; i < f->count; i++) {
        tg_release(f->all[i]);
    }
    tg_tape_free(f->tape);
    tg_run_free(f->run);
    return 0;
}

static inline void check_unchanged(fixture *f, int line)
{
    uint8_t generator[TG_RNG_TORCH_STATE_SIZE];
    assert_true(tg_rng_save_torch_state(tg_run_rng(f->run), generator, NULL));
    if (memcmp(generator, f->generator, sizeof generator)) {
        fail_msg("line %d: the generator has moved", line);
    }
    for (int i = 0; i < f->count; i++) {
        if (tg_storage_version(f->all[i]) != f->versions[i]) {
            fail_msg("line %d: tensor %d has changed", line, i);
        }
    }
    assert_values(f->kept, (double[]){2, 2, 2, 2, 2, 2}, 6, 0, 0);
}

/* `text` NULL: any; and records may have been added. */
static inline void check_refused(fixture *f, const void *result, tg_code code, const char *text, int line)
{
    const tg_error *found = tg_tape_error(f->tape);
    if (result || found->code != code || (text && strcmp(found->text, text))) {
        fail_msg("line %d: error %d \"%s\"", line, (int)found->code, found->text);
    }
    int64_t records = tape_stats_of(f->tape).records;
    if (text && records != f->records) {
        fail_msg("line %d: %lld records were added", line, (long long)(records - f->records));
    }
    f->records = records;
    clear_tape_error(f->tape);
    check_unchanged(f, line);
}

/* The same for a call that takes a tg_error. */
static inline void check_refused_with(fixture *f, bool refused, tg_error *found, tg_code code, const char *text,
                                      int line)
{
    if (!refused || found->code != code || strcmp(found->text, text)) {
        fail_msg("line %d: error %d \"%s\"", line, (int)found->code, found->text);
    }
    tg_error_clear(found);
    assert_int_equal(tg_tape_error(f->tape)->code, TG_OK);
    check_unchanged(f, line);
}

#define REFUSED(call, code, text) check_refused(f, call, TG_ERROR_##code, text, __LINE__)

/* A chain of ops is refused by one of its links, which has the word. What those before it recorded stays, unused. */
#define CHAIN_REFUSED(call, code) check_refused(f, call, TG_ERROR_##code, NULL, __LINE__)

#define REFUSED_WITH(refused, error, code, text) check_refused_with(f, refused, error, TG_ERROR_##code, text, __LINE__)

/* Messages that many ops share. */
#define NULL_TENSOR(op, name) op ": the " name " is NULL"
#define NOT_FLOAT(op, name, dtype) op ": argument '" name "' is " dtype "; it must be f32 or f64 (tg_cast converts)"
#define NOT_IDS(op, name, dtype) op ": argument '" name "' is " dtype "; it must be i32 (tg_cast converts)"
#define NULL_ARGUMENT(op, name) op ": argument '" name "' is NULL"
#define NO_AXIS(op, axis) op ": axis " #axis " is outside [-2,2) for rank 2"
#define NO_BROADCAST(op) op ": shapes (2,3) and (4,) do not broadcast: sizes must be equal or 1"
#define MIXED(op, a, b) op ": inputs are " a " and " b "; no dtype is promoted: convert one with tg_cast"
#define NO_CONFIG(op, function) op ": the config does not come from " function "(); call it, then set fields"

#endif
