/* oneDNN without memory: each of its calls fails, one at a time, and each allocation of the library. A call that
 * prepares a product then fails as a whole, and a product that is prepared is computed without oneDNN. The linker
 * replaces oneDNN's functions by those below. */
#include "support.h"

#include <math.h>
#include <string.h>

#include <dnnl.h>

#include "tape_stats.h"

/* The number of the call that fails, from 1, and of the calls so far. */
static int fail_at, calls;
static bool execute_fails;

static bool fails(void)
{
    return ++calls == fail_at;
}

/* Defines the function that replaces dnnl_NAME. */
#define REPLACE(name, parameters, arguments)     \
    dnnl_status_t __real_dnnl_##name parameters; \
    dnnl_status_t __wrap_dnnl_##name parameters; \
    dnnl_status_t __wrap_dnnl_##name parameters  \
    {                                            \
        if (fails()) {                           \
            return dnnl_out_of_memory;           \
        }                                        \
        return __real_dnnl_##name arguments;     \
    }

REPLACE(engine_create, (dnnl_engine_t * engine, dnnl_engine_kind_t kind, size_t index), (engine, kind, index))
REPLACE(primitive_attr_create, (dnnl_primitive_attr_t * attributes), (attributes))
REPLACE(post_ops_create, (dnnl_post_ops_t * operations), (operations))
REPLACE(primitive_desc_create,
        (dnnl_primitive_desc_t * made, const_dnnl_op_desc_t op, const_dnnl_primitive_attr_t attributes,
         dnnl_engine_t engine, const_dnnl_primitive_desc_t hint),
        (made, op, attributes, engine, hint))
REPLACE(primitive_create, (dnnl_primitive_t * made, const_dnnl_primitive_desc_t description), (made, description))
REPLACE(stream_create, (dnnl_stream_t * made, dnnl_engine_t engine, unsigned flags), (made, engine, flags))
REPLACE(memory_create, (dnnl_memory_t * made, const dnnl_memory_desc_t *description, dnnl_engine_t engine, void *at),
        (made, description, engine, at))

dnnl_status_t __real_dnnl_primitive_execute(const_dnnl_primitive_t primitive, dnnl_stream_t stream, int count,
                                            const dnnl_exec_arg_t *arguments);
dnnl_status_t __wrap_dnnl_primitive_execute(const_dnnl_primitive_t primitive, dnnl_stream_t stream, int count,
                                            const dnnl_exec_arg_t *arguments);
dnnl_status_t __wrap_dnnl_primitive_execute(const_dnnl_primitive_t primitive, dnnl_stream_t stream, int count,
                                            const dnnl_exec_arg_t *arguments)
{
    return execute_fails ? dnnl_out_of_memory : __real_dnnl_primitive_execute(primitive, stream, count, arguments);
}

/* A step with products by oneDNN. */
typedef struct step {
    tg_tape *tape;
    tg_tensor *x, *w, *bias;
} step;

static step step_new(void)
{
    static float values[90 * 70];
    for (int i = 0; i < 90 * 70; i++) {
        values[i] = sinf((float)i);
    }
    return (step){tg_tape_new(NULL, NULL), leaf(tensor_f32(TG_SHAPE(90, 70), values)),
                  leaf(tensor_f32(TG_SHAPE(80, 70), values)), leaf(tensor_f32(TG_SHAPE(80), values))};
}

static void step_free(step *s)
{
    tg_tape_free(s->tape);
    tg_release(s->x);
    tg_release(s->w);
    tg_release(s->bias);
}

/* Returns the output of the step, or NULL. */
static tg_tensor *forward(step *s)
{
    return tg_tape_set_matmul_precision(s->tape, TG_MATMUL_BF16) ? tg_linear(s->tape, s->x, s->w, s->bias) : NULL;
}

static void run_backward(step *s, tg_tensor *y)
{
    assert_true(tg_backward(s->tape, tg_sum(s->tape, tg_mul(s->tape, y, y), TG_ALL_AXES, TG_DROP_AXES), NULL));
}

static bool same_bits(const tg_tensor *a, const tg_tensor *b)
{
    return memcmp(tg_tensor_data(a), tg_tensor_data(b), (size_t)tg_tensor_count(a) * sizeof(float)) == 0;
}

/* Runs a step in which a call or an allocation fails, until none does. Then its results are those of `whole`. */
static void sweep(step *whole, bool of_allocator)
{
    int failures = 0;
    for (int k = 1, is_done = 0; !is_done; k++) {
        counting_allocator counting;
        step s = step_new();
        if (of_allocator) {
            allocator_install(&counting);
            allocator_arm(&counting, (size_t)k, true);
        } else {
            fail_at = k;
        }
        calls = 0;
        tg_tensor *y = forward(&s);
        fail_at = 0;
        if (of_allocator) {
            allocator_arm(&counting, 0, false);
        }
        if (!y) {
            failures++;
            assert_tape_error(s.tape, TG_ERROR_MEMORY, "out of memory");
            assert_int_equal(tape_stats_of(s.tape).records, 0);
            y = forward(&s);
        } else {
            is_done = 1;
        }
        run_backward(&s, y);
        assert_true(same_bits(tg_tensor_grad(s.x), tg_tensor_grad(whole->x)));
        assert_true(same_bits(tg_tensor_grad(s.w), tg_tensor_grad(whole->w)));
        step_free(&s);
        if (of_allocator) {
            allocator_restore();
        }
    }
    assert_in_range(failures, 5, 1000);
}

static void test_each_call_fails(void **state)
{
    (void)state;
    if (tg_onednn_missing()) {
        skip();
    }
    step whole = step_new();
    run_backward(&whole, forward(&whole));
    sweep(&whole, false);
    sweep(&whole, true);
    step_free(&whole);
}

static void assert_close(const tg_tensor *x, const tg_tensor *y)
{
    for (int64_t i = 0; i < tg_tensor_count(x); i++) {
        double a = tg_tensor_value_at(x, i), b = tg_tensor_value_at(y, i);
        assert_true(fabs(a - b) <= 0.01 * (1 + fabs(b)));
    }
}

/* The same products without oneDNN: only the order of the sums differs, which the rounding of dy can magnify. */
static void test_execution_fails(void **state)
{
    (void)state;
    if (tg_onednn_missing()) {
        skip();
    }
    step whole = step_new(), s = step_new();
    tg_tensor *y = forward(&whole);
    run_backward(&whole, y);
    execute_fails = true;
    tg_tensor *slow = forward(&s);
    assert_close(slow, y);
    run_backward(&s, slow);
    execute_fails = false;
    assert_close(tg_tensor_grad(s.x), tg_tensor_grad(whole.x));
    assert_close(tg_tensor_grad(s.w), tg_tensor_grad(whole.w));
    step_free(&whole);
    step_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_call_fails),
        cmocka_unit_test(test_execution_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
