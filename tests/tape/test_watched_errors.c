/* The errors of params, optimizer and loader in the tape of the program: tg_tape_watch_error. */
#include "support.h"

#include <string.h>

/* A program as README's, and its objects. The members that are NULL could not be created. */
typedef struct program {
    tg_rng *rng;
    tg_params *params;
    tg_tensor *weight;
    tg_optim *optim;
    tg_loader *loader;
    tg_tape *tape;
} program;

static program begin(const tg_adam_config *adam, int64_t context)
{
    static const int32_t ids[] = {0, 1, 2, 0, 1, 2, 0, 1, 2};
    program p = {.rng = tg_rng_new(1)};
    p.params = tg_params_new(TG_F64, p.rng);
    p.weight = tg_params_add(p.params, "weight", TG_SHAPE(1));
    p.optim = tg_adam_new(p.params, adam);
    tg_loader_config windows = tg_loader_config_default();
    windows.context = context;
    windows.stride = 1;
    windows.batch_size = 1;
    windows.shuffle = true;
    p.loader = tg_loader_new(ids, 9, p.rng, &windows);
    p.tape = tg_tape_new(p.rng, NULL);
    assert_true(tg_tape_watch_error(p.tape, tg_params_error(p.params)));
    assert_true(tg_tape_watch_error(p.tape, tg_optim_error(p.optim)));
    assert_true(tg_tape_watch_error(p.tape, tg_loader_error(p.loader)));
    return p;
}

/* One step. Returns whether backward ran. */
static bool step(program *p)
{
    tg_tape_reset(p->tape);
    tg_optim_zero_grad(p->optim);
    bool ran = tg_backward(p->tape, tg_mul(p->tape, p->weight, p->weight), NULL);
    assert_true(ran == (tg_tensor_grad(p->weight) != NULL));
    tg_optim_step(p->optim);
    return ran;
}

static void end(program *p)
{
    tg_tape_free(p->tape);
    tg_loader_free(p->loader);
    tg_optim_free(p->optim);
    tg_params_free(p->params);
    tg_rng_free(p->rng);
}

static void assert_reported(const program *p, tg_code code, const char *text)
{
    const tg_error *error = tg_tape_error(p->tape);
    assert_int_equal(error->code, code);
    if (!strstr(error->text, text)) {
        fail_msg("'%s' is not in '%s'", text, error->text);
    }
}

static void test_nothing_is_wrong(void **state)
{
    (void)state;
    program p = begin(NULL, 2);
    assert_true(step(&p));
    assert_int_equal(tg_tape_error(p.tape)->code, TG_OK);
    end(&p);
}

static void test_an_optimizer_that_could_not_be_created(void **state)
{
    (void)state;
    tg_adam_config config = {.lr = 0.01};
    program p = begin(&config, 2);
    assert_null(p.optim);
    assert_false(step(&p));
    assert_reported(&p, TG_ERROR_VALUE, "tg_adam_config_default");
    end(&p);
}

static void test_a_misspelled_pattern(void **state)
{
    (void)state;
    program p = begin(NULL, 2);
    assert_true(step(&p));
    assert_false(tg_optim_add_to_group(p.optim, "no_decay", "*.bais"));
    assert_false(step(&p));
    assert_reported(&p, TG_ERROR_RANGE, "*.bais");
    /* the owner clears it, and the tape goes on: it has had no error of its own */
    tg_optim_clear_error(p.optim);
    assert_true(step(&p));
    assert_int_equal(tg_tape_error(p.tape)->code, TG_OK);
    end(&p);
}

static void test_a_loader_that_fails(void **state)
{
    (void)state;
    program p = begin(NULL, 40);
    tg_batch batch;
    assert_false(tg_loader_next(p.loader, &batch));
    assert_reported(&p, tg_loader_error(p.loader)->code, tg_loader_error(p.loader)->text);
    assert_int_not_equal(tg_tape_error(p.tape)->code, TG_OK);
    assert_false(step(&p));
    end(&p);
}

/* The tape's own error comes first, also before a watched one that is older. */
static void test_the_own_error_first(void **state)
{
    (void)state;
    program p = begin(NULL, 40);
    assert_null(tg_exp(p.tape, NULL));
    assert_reported(&p, TG_ERROR_STATE, "exp: ");
    tg_tape_clear_error(p.tape);
    assert_reported(&p, tg_loader_error(p.loader)->code, tg_loader_error(p.loader)->text);
    end(&p);
}

static void test_refused(void **state)
{
    (void)state;
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_error own = TG_NO_ERROR;
    assert_false(tg_tape_watch_error(NULL, &own));
    assert_false(tg_tape_watch_error(t, NULL));
    assert_tape_error(t, TG_ERROR_STATE, "tape_watch_error: the error is NULL");
    assert_false(tg_tape_watch_error(t, tg_tape_error(t)));
    assert_tape_error(t, TG_ERROR_STATE, "tape_watch_error: the error is that of the tape itself");
    for (int i = 0; i < 16; i++) {
        assert_true(tg_tape_watch_error(t, &own));
    }
    assert_false(tg_tape_watch_error(t, &own));
    assert_tape_error(t, TG_ERROR_VALUE, "tape_watch_error: the tape watches 16 errors; that is the maximum");
    tg_tape_free(t);
}

/* The memory of an object that was freed before the tape may hold anything; it is never reported as an error without a
 * text, or with an unknown code. */
static void test_what_is_no_error(void **state)
{
    (void)state;
    static const tg_error damaged[] = {{TG_ERROR_VALUE, ""}, {(tg_code)77, "text"}, {(tg_code)-1, "text"}};
    for (int i = 0; i < 3; i++) {
        program p = begin(NULL, 2);
        tg_error watched = TG_NO_ERROR;
        assert_true(tg_tape_watch_error(p.tape, &watched));
        assert_true(step(&p));
        watched = damaged[i];
        assert_false(step(&p));
        assert_reported(&p, TG_ERROR_STATE, "a watched error is damaged: its object was freed before the tape");
        end(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_is_wrong),     cmocka_unit_test(test_an_optimizer_that_could_not_be_created),
        cmocka_unit_test(test_a_misspelled_pattern), cmocka_unit_test(test_a_loader_that_fails),
        cmocka_unit_test(test_the_own_error_first),  cmocka_unit_test(test_refused),
        cmocka_unit_test(test_what_is_no_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
