/* Wrong gradients in ops. Both modes of tg_gradgradcheck refuse 32 of them, the fast mode for 10 seeds of its
 * projections, and accept all right versions. Two go unnoticed. */
#include "support.h"

#include <math.h>

#include "grad/planted_second.h"

#define SEEDS 10

typedef struct version {
    const planted_second *op;
    bool is_right;
} version;

static tg_tensor *make_input(const second_input *in, tg_rng *rng)
{
    tg_shape shape = tg_shape_make(in->rank, in->size);
    if (in->ids) {
        return tensor_i32(shape, in->ids);
    }
    tg_tensor *x = tg_tensor_new(TG_F64, shape, NULL);
    assert_true(tg_tensor_fill_uniform(x, rng, in->low, in->high, NULL));
    return in->is_constant ? x : leaf(x);
}

static void make_inputs(const planted_second *op, tg_tensor **inputs)
{
    tg_rng *rng = tg_rng_new(1);
    for (int i = 0; i < op->input_count; i++) {
        inputs[i] = make_input(&op->inputs[i], rng);
    }
    tg_rng_free(rng);
}

static void release_inputs(const planted_second *op, tg_tensor **inputs)
{
    for (int i = 0; i < op->input_count; i++) {
        tg_release(inputs[i]);
    }
}

static tg_tensor *call_version(tg_tape *tape, tg_tensor *const *inputs, int count, void *context)
{
    const version *v = context;
    (void)count;
    return v->op->call(tape, inputs, v->is_right);
}

typedef bool check_function(tg_gradcheck_function function, void *context, tg_tensor *const *inputs, int input_count,
                            const tg_gradcheck_config *config, tg_gradcheck_report *report, tg_error *error);

static bool is_accepted(check_function *check, version v, tg_gradcheck_mode mode, uint64_t seed)
{
    tg_tensor *inputs[2];
    make_inputs(v.op, inputs);
    tg_gradcheck_config config = tg_gradcheck_config_default();
    config.name = v.op->name;
    config.mode = mode;
    config.projection_seed = seed;
    tg_error error = TG_NO_ERROR;
    bool passed = check(call_version, &v, inputs, v.op->input_count, &config, NULL, &error);
    assert_true(passed ? error.code == TG_OK : error.code == TG_ERROR_VALUE || error.code == TG_ERROR_SHAPE);
    release_inputs(v.op, inputs);
    return passed;
}

static void test_all(tg_gradcheck_mode mode, uint64_t seeds)
{
    int refused = 0, unnoticed = 0;
    for (int i = 0; i < planted_second_count; i++) {
        const planted_second *op = &planted_seconds[i];
        op->unnoticed ? unnoticed++ : refused++;
        for (uint64_t seed = 0; seed < seeds; seed++) {
            if (is_accepted(tg_gradgradcheck, (version){op, false}, mode, seed) != (op->unnoticed != NULL)) {
                fail_msg("%s %s: %s (seed %d)", op->name, op->unnoticed ? "is refused now" : "passed", op->wrong,
                         (int)seed);
            }
            if (!is_accepted(tg_gradgradcheck, (version){op, true}, mode, seed)) {
                fail_msg("the right version of %s was refused (seed %d)", op->name, (int)seed);
            }
        }
    }
    assert_int_equal(refused, 32);
    assert_int_equal(unnoticed, 2);
}

static void test_slow_mode(void **state)
{
    (void)state;
    test_all(TG_GRADCHECK_SLOW, 1);
}

static void test_fast_mode(void **state)
{
    (void)state;
    test_all(TG_GRADCHECK_FAST, SEEDS);
}

static void test_kernels_are_right(void **state)
{
    (void)state;
    for (int i = 0; i < planted_second_count; i++) {
        if (!is_accepted(tg_gradcheck, (version){&planted_seconds[i], false}, TG_GRADCHECK_SLOW, 1)) {
            fail_msg("the kernels of %s are wrong", planted_seconds[i].name);
        }
    }
}

/* Returns whether the gradients of the wrong version in ops are those of its kernels. */
static bool first_is_right(const planted_second *op)
{
    tg_tensor *inputs[2], *targets[2], *in_ops[2], *by_kernels[2];
    make_inputs(op, inputs);
    int count = 0;
    for (int i = 0; i < op->input_count; i++) {
        if (tg_tensor_requires_grad(inputs[i])) {
            targets[count++] = inputs[i];
        }
    }
    tg_run *run = tg_run_new(1);
    tg_tape *t = tg_tape_new(run, NULL);
    tg_tensor *y = op->call(t, inputs, false), *dy = tg_full(t, TG_F64, tg_tensor_shape(y), 0);
    assert_true(tg_tensor_fill_uniform(dy, tg_run_rng(run), 0.5, 1, NULL));
    tg_grad_config config = tg_grad_config_default();
    config.output_gradients = &dy;
    config.output_gradient_count = 1;
    config.retain_graph = config.allow_unused = true;
    assert_true(tg_grad(t, &y, 1, targets, count, by_kernels, &config));
    config.create_graph = true;
    bool same = tg_grad(t, &y, 1, targets, count, in_ops, &config);
    for (int i = 0; same && i < count; i++) {
        same = in_ops[i] != NULL;
        for (int64_t k = 0; same && k < tg_tensor_count(targets[i]); k++) {
            const double *a = tg_tensor_data(in_ops[i]), *b = tg_tensor_data(by_kernels[i]);
            same = fabs(a[k] - b[k]) < 1e-12;
        }
    }
    tg_tape_free(t);
    tg_run_free(run);
    release_inputs(op, inputs);
    return same;
}

static void test_first_derivatives(void **state)
{
    (void)state;
    int right = 0;
    for (int i = 0; i < planted_second_count; i++) {
        const planted_second *op = &planted_seconds[i];
        if (first_is_right(op) != op->first_is_right) {
            fail_msg("the first derivatives of %s are %s", op->name, op->first_is_right ? "wrong" : "right");
        }
        right += op->first_is_right && !op->unnoticed;
    }
    assert_int_equal(right, 14);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kernels_are_right),
        cmocka_unit_test(test_first_derivatives),
        cmocka_unit_test(test_slow_mode),
        cmocka_unit_test(test_fast_mode),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
