/* OpenBLAS's own threads stay asleep: the library divides products among its threads (lib/products/choose.c). OpenBLAS
 * starts its threads when it is loaded, so they are the threads of the process before its first product. Linux counts
 * in /proc/self/task how often each was woken. Some kernels of OpenBLAS divide fewer products than others, so the test
 * also runs with those of Haswell (tests/meson.build).
 */
#include "ops/calls.h"
#include "support.h"

#include <string.h>

#include "products/gemm.h"
#include "tasks.h"

#define SIDE 512

static tasks workers;      /* OpenBLAS's threads */
static const char *reason; /* why they are unknown, or NULL */

static int find_workers(void **state)
{
    (void)state;
    workers = tasks_sleeping();
    reason = strcmp(tg_get_blas().library, "OpenBLAS") != 0 ? "the BLAS is not OpenBLAS"
             : workers.count == 0                           ? "/proc/self/task describes no thread of OpenBLAS"
                                                            : NULL;
    print_message("%d threads of OpenBLAS\n", workers.count);
    return !tg_set_matmul_backend(TG_BACKEND_BLAS, NULL) && !reason;
}

static void expect_sleeping(const tasks *before, const char *what)
{
    tasks after = tasks_sleeping(), woken = workers;
    tasks_keep(&woken, before, &after, true);
    if (woken.count > 0) {
        fail_msg("%s woke %d threads of OpenBLAS", what, woken.count);
    }
}

static void test_products(void **state)
{
    (void)state;
    if (reason) {
        print_message("skipped: %s\n", reason);
        skip();
    }
    static float a[SIDE * SIDE], b[SIDE * SIDE], c[SIDE * SIDE];
    static double wide_a[SIDE * SIDE], wide_b[SIDE * SIDE], wide_c[SIDE * SIDE];
    assert_true(tg_set_threads(2, NULL));
    for (int64_t side = 16; side <= SIDE; side *= 2) {
        tasks before = tasks_sleeping();
        tg_gemm g = {side, side, side, .lda = side, .ldb = side, .ldc = side};
        for (int i = 0; i < 40; i++) {
            g.in_thread = g.add = i % 2;
            tg_gemm_f32(&g, a, b, c);
            tg_gemm_f64(&g, wide_a, wide_b, wide_c);
        }
        expect_sleeping(&before, "a product");
    }
}

static void test_attention(void **state)
{
    (void)state;
    if (reason) {
        skip();
    }
    tasks before = tasks_sleeping();
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_tensor *x = leaf(tg_tensor_new_full(TG_F32, TG_SHAPE(200, 300), 0.01, NULL));
    tg_tensor *y = attend(TG_ATTENTION_FUSED, t, x, x, x, attention_config(false, 0, NULL));
    assert_true(tg_backward(t, tg_sum(t, y, TG_ALL_AXES, TG_DROP_AXES), NULL));
    tg_release(x);
    tg_tape_free(t);
    expect_sleeping(&before, "attention");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_products), cmocka_unit_test(test_attention)};
    return cmocka_run_group_tests_name("blas_threads", tests, find_workers, NULL);
}
