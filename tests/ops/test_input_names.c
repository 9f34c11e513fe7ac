/* Errors name the argument of the header: every op of tests/rows, with each input once NULL, once freed by its tape,
 * once of a wrong dtype and once of bf16. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "rows/rows.h"
#include "support.h"

enum { IS_NULL, IS_FREED, HAS_WRONG_DTYPE, IS_BF16, FAULTS };

/* The errors that a getter has set: some calls of tests/rows ask for the dtype or the shape of an input. */
static int from_getters;

/* Returns whether a text has "input 0" or the like. */
static bool has_number(const char *text)
{
    for (const char *at = text; (at = strstr(at, "input ")) != NULL; at++) {
        if (isdigit((unsigned char)at[strlen("input ")])) {
            return true;
        }
    }
    return false;
}

/* Reads the shape of the next input, such as "2,3" or "-". */
static tg_shape next_shape(const char **text)
{
    tg_shape shape = TG_SCALAR;
    *text += strspn(*text, " -");
    while (isdigit((unsigned char)**text)) {
        char *end;
        shape.size[shape.rank++] = strtoll(*text, &end, 10);
        *text = end + (*end == ',');
        if (*end != ',') {
            break;
        }
    }
    return shape;
}

static tg_dtype dtype_of(const sample *s, int input)
{
    return s->row->inputs[input] == MASK                                      ? TG_U8
           : s->row->inputs[input] == IDS || s->row->inputs[input] == TARGETS ? TG_I32
                                                                              : TG_F32;
}

/* Calls an op with one input that has a fault, and the others full of ones. Returns whether it refuses it. */
static bool refuses(tg_tape *tape, const sample *s, int faulty, int fault)
{
    tg_tensor *inputs[ROW_INPUTS] = {NULL}, *given[ROW_INPUTS];
    const char *shapes = s->shapes[0];
    for (int i = 0; i < ROW_INPUTS && s->row->inputs[i] != ABSENT; i++) {
        tg_dtype dtype = dtype_of(s, i);
        bool is_wrong = i == faulty && fault == HAS_WRONG_DTYPE;
        dtype = i == faulty && fault == IS_BF16 ? TG_BF16 : dtype;
        inputs[i] = tg_tensor_new(!is_wrong ? dtype : dtype == TG_F32 ? TG_I32 : TG_F32, next_shape(&shapes), NULL);
        assert_non_null(inputs[i]);
    }
    memcpy(given, inputs, sizeof given);
    if (fault == IS_NULL || fault == IS_FREED) {
        given[faulty] = fault == IS_NULL ? NULL : tg_full(tape, dtype_of(s, faulty), TG_SHAPE(2, 2), 1);
        tg_tape_reset(tape);
    }
    tg_tensor *result = sample_call(s, tape, given);
    bool is_refused = !result;
    /* dropout and contiguous may return their input */
    bool accepts_bf16 =
        result == given[faulty] || strcmp(s->row->op, "tg_embedding") == 0 || strncmp(s->row->op, "tg_linear", 9) == 0;
    if (fault == IS_BF16 && !is_refused && !accepts_bf16) {
        fail_msg("%s %s, input %d of bf16 is not refused", s->row->op, s->variant, faulty);
    }
    const tg_error *error = tg_tape_error(tape);
    /* attention's masks have one message for their dtype and their shape */
    bool is_dtype = fault == HAS_WRONG_DTYPE || (fault == IS_BF16 && strstr(error->text, "bf16"));
    bool is_expected =
        is_dtype ? error->code == TG_ERROR_DTYPE || error->code == TG_ERROR_SHAPE : error->code == TG_ERROR_STATE;
    /* arrays, and the optional inputs of ops that only modules call */
    static const char *const calls[] = {"cat:", "stack:", "gru:", "lstm:"};
    bool has_list = false;
    for (int i = 0; i < 4; i++) {
        has_list = has_list || strncmp(error->text, calls[i], strlen(calls[i])) == 0;
    }
    bool is_from_getter = fault == IS_FREED && strstr(error->text, ": the tensor is a result of 'full'");
    from_getters += is_from_getter;
    if (is_refused && !is_from_getter &&
        (!is_expected || (!has_list && has_number(error->text)) ||
         ((fault == IS_NULL || fault == IS_FREED) && !has_list && !strstr(error->text, "argument")))) {
        fail_msg("%s %s, input %d, fault %d: %d \"%s\"", s->row->op, s->variant, faulty, fault, (int)error->code,
                 error->text);
    }
    clear_tape_error(tape);
    tg_tape_reset(tape);
    for (int i = 0; i < ROW_INPUTS; i++) {
        tg_release(inputs[i]);
    }
    return is_refused;
}

static void test_errors_name_the_argument(void **state)
{
    (void)state;
    tg_tape_config config = tg_tape_config_default();
    config.detect_freed_results = true;
    tg_run *run = tg_run_new(1);
    tg_tape *tape = tg_tape_new(run, &config);
    int refused[FAULTS] = {0}, inputs = 0;
    for (int k = 0; k < sample_count(); k++) {
        for (int i = 0; i < ROW_INPUTS && sample_at(k)->row->inputs[i] != ABSENT; i++, inputs++) {
            for (int fault = 0; fault < FAULTS; fault++) {
                refused[fault] += refuses(tape, sample_at(k), i, fault);
            }
        }
    }
    /* 21 inputs of the samples are optional, so that they may be NULL; the ops that move values accept every dtype */
    assert_int_equal(refused[IS_FREED], inputs);
    assert_true(100 * from_getters < 5 * inputs);
    assert_true(inputs - refused[IS_NULL] == 21 && 100 * refused[HAS_WRONG_DTYPE] > 90 * inputs);
    tg_tape_free(tape);
    tg_run_free(run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_errors_name_the_argument),
    };
    return cmocka_run_group_tests_name("input_names", tests, NULL, NULL);
}
