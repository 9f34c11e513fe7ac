/* Under AddressSanitizer: wrong accesses inside of the pool end the program with a report, although the memory belongs
 * to blocks that the allocator has handed out. Each access runs in a child process. */
#include "support.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "tensor/pool.h"
#include "tensor/tensor.h"

static volatile char sink;

static void read_of_an_idle_block(void)
{
    tg_pool *pool = tg_pool_new(true);
    volatile char *block = tg_pool_take(pool, 100);
    tg_pool_give(pool, (void *)block);
    sink = block[50];
}

static void write_to_an_idle_block(void)
{
    tg_pool *pool = tg_pool_new(true);
    volatile char *block = tg_pool_take(pool, 100);
    tg_pool_give(pool, (void *)block);
    block[0] = 1;
}

/* A block of the small class of 128 bytes, so the bytes 33 to 96 are not used. */
static void write_behind_a_block(void)
{
    volatile char *block = tg_pool_take(tg_pool_new(true), 33);
    block[33] = 1;
}

/* A block that was used with more bytes before. */
static void write_behind_a_shorter_block(void)
{
    tg_pool *pool = tg_pool_new(true);
    tg_pool_give(pool, tg_pool_take(pool, 96));
    volatile char *block = tg_pool_take(pool, 70);
    block[70] = 1;
}

/* The bytes fill the block, and the allocator's own red zone comes next. */
static void write_behind_a_full_block(void)
{
    volatile char *block = tg_pool_take(tg_pool_new(true), 128 - TG_BLOCK_HEAD);
    block[128 - TG_BLOCK_HEAD] = 1;
}

static void write_before_a_block(void)
{
    volatile char *block = tg_pool_take(tg_pool_new(true), 100);
    block[-1] = 1;
}

static void write_behind_the_values_of_a_tensor(void)
{
    volatile float *values = tg_tensor_data_mut(tg_tensor_new(TG_F32, TG_SHAPE(3, 3), NULL));
    values[9] = 1;
}

static void write_before_the_values_of_a_tensor(void)
{
    volatile float *values = tg_tensor_data_mut(tg_tensor_new(TG_F32, TG_SHAPE(3, 3), NULL));
    values[-1] = 1;
}

static void read_of_a_result_after_the_reset(void)
{
    tg_tape *tape = tg_tape_new(NULL, NULL);
    volatile const float *values = tg_tensor_data(tg_full(tape, TG_F32, TG_SHAPE(5), 1));
    tg_tape_reset(tape);
    sink = (char)values[0];
}

/* A backward kernel that keeps the address of its gradient. When the next kernel runs, the block waits for reuse. */
static const void *kept_gradient;

static void keep_gradient(const tg_op_call *call)
{
    sink = kept_gradient ? ((const volatile char *)kept_gradient)[0] : 0;
    kept_gradient = call->output_gradients[0];
    memset(call->input_gradients[0], 0, 5 * sizeof(float));
}

static void set_zeros(const tg_op_call *call)
{
    memset(tg_tensor_data_mut(call->outputs[0]), 0, 5 * sizeof(float));
}

static bool same_shape(tg_op_call *call)
{
    return tg_op_output(call, 0, TG_F32, tg_tensor_shape(call->inputs[0]));
}

static void read_of_an_adjoint_after_its_kernel(void)
{
    static const tg_op op = {.name = "keep", .shape = same_shape, .f32 = {set_zeros, keep_gradient}};
    tg_tape *tape = tg_tape_new(NULL, NULL);
    tg_tensor *x = leaf(tg_tensor_new(TG_F32, TG_SHAPE(5), NULL));
    tg_tensor *y = tg_apply(tape, &op, &x, 1, NULL, 0, NULL);
    tg_tensor *z = tg_apply(tape, &op, &y, 1, NULL, 0, NULL);
    tg_backward(tape, tg_sum(tape, z, TG_ALL_AXES, TG_DROP_AXES), NULL);
}

static void second_release_of_a_tensor(void)
{
    tg_tensor *x = tg_tensor_new(TG_F32, TG_SHAPE(3), NULL);
    tg_release(x);
    tg_release(x);
}

static void write_behind_an_array(void)
{
    volatile char *array = tg_alloc(10, 1);
    array[10] = 1;
}

static void no_mistake(void)
{
    tg_pool *pool = tg_pool_new(true);
    for (size_t bytes = 1; bytes < 200; bytes++) {
        char *block = tg_pool_take(pool, bytes);
        memset(block, 1, bytes);
        tg_pool_give(pool, block);
    }
    tg_pool_free(pool);
}

/* Runs the access in a child process. Returns whether the child ended with a report of AddressSanitizer. */
static bool is_reported(void (*access)(void))
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        access();
        _exit(0);
    }
    close(ends[1]);
    char report[4096] = "", rest[4096];
    size_t length = 0;
    for (ssize_t got; (got = read(ends[0], rest, sizeof rest)) > 0;) {
        size_t kept = (size_t)got < sizeof report - 1 - length ? (size_t)got : sizeof report - 1 - length;
        memcpy(report + length, rest, kept);
        length += kept;
    }
    close(ends[0]);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    bool is_found = strstr(report, "AddressSanitizer") != NULL;
    assert_int_equal(is_found, status != 0);
    return is_found;
}

static void test_reports(void **state)
{
    (void)state;
    assert_true(is_reported(read_of_an_idle_block));
    assert_true(is_reported(write_to_an_idle_block));
    assert_true(is_reported(write_behind_a_block));
    assert_true(is_reported(write_behind_a_shorter_block));
    assert_true(is_reported(write_behind_a_full_block));
    assert_true(is_reported(write_before_a_block));
    assert_true(is_reported(write_behind_the_values_of_a_tensor));
    assert_true(is_reported(write_before_the_values_of_a_tensor));
    assert_true(is_reported(read_of_a_result_after_the_reset));
    assert_true(is_reported(read_of_an_adjoint_after_its_kernel));
    assert_true(is_reported(second_release_of_a_tensor));
    assert_true(is_reported(write_behind_an_array));
    assert_false(is_reported(no_mistake));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_reports)};
    return cmocka_run_group_tests_name("poison", tests, NULL, NULL);
}
