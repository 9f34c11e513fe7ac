/* OpenBLAS computes a product of at most TG_GEMM_ONE_THREAD multiplications in the thread that calls it, and the fused
 * attention has no larger ones. A thread of OpenBLAS that computes a part of a product is woken, and sleeps afterwards:
 * Linux counts that in /proc/self/task. With OPENBLAS_THREAD_TIMEOUT=4 (tests/meson.build) it sleeps at once. Some
 * kernels of OpenBLAS compute larger products in the calling thread, too, so the tests also run with those of Haswell,
 * which do not.
 */
#include "ops/calls.h"
#include "support.h"

#include <string.h>
#include <time.h>

#include "tasks.h"
#include "tensor/blas.h"

/* ---- the threads of OpenBLAS ---- */

#define MOST_VALUES (512 * 512)

static tasks workers;      /* which large products wake */
static const char *reason; /* why they are unknown, or NULL */
static float a[MOST_VALUES], b[MOST_VALUES], c[MOST_VALUES];
static double wide_a[MOST_VALUES], wide_b[MOST_VALUES], wide_c[MOST_VALUES];

static void multiply(int64_t m, int64_t n, int64_t k, int transposed, int times)
{
    tg_gemm g = {m, n, k, transposed == 1, transposed == 2, .ldc = n};
    g.lda = g.transpose_a ? m : k;
    g.ldb = g.transpose_b ? k : n;
    for (int i = 0; i < times; i++) {
        tg_gemm_f32(&g, a, b, 0, c);
        tg_gemm_f64(&g, wide_a, wide_b, 0, wide_c);
    }
}

/* Finds them: they sleep while nothing is computed, as other threads of the process (ThreadSanitizer's) may not. */
static int find_workers(void **state)
{
    (void)state;
    tg_blas blas = tg_get_blas();
    tg_set_threads(2, NULL);
    multiply(512, 512, 512, 0, 2);
    tasks first = tasks_sleeping();
    nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
    tasks idle = tasks_sleeping();
    multiply(512, 512, 512, 0, 2);
    tasks after = tasks_sleeping();
    workers = after;
    tasks_keep(&workers, &first, &idle, false);
    tasks_keep(&workers, &idle, &after, true);
    reason = strcmp(blas.library, "OpenBLAS") != 0 ? "the BLAS is not OpenBLAS"
             : blas.most_threads == 1              ? "OpenBLAS has one thread"
             : first.count == 0                    ? "/proc/self/task describes no other thread"
             : workers.count == 0                  ? "no product wakes a thread of OpenBLAS"
                                                   : NULL;
    print_message("%s %s (%s): %d threads that large products wake\n", blas.library, blas.version, blas.kernels,
                  workers.count);
    return 0;
}

static void skip_without_workers(void)
{
    if (reason) {
        print_message("skipped: %s\n", reason);
        skip();
    }
}

/* Returns how many workers have been woken since `before`. */
static int woken_since(const tasks *before)
{
    tasks after = tasks_sleeping(), woken = workers;
    tasks_keep(&woken, before, &after, true);
    return woken.count;
}

/* ---- tests ---- */

static void test_products_at_the_limit(void **state)
{
    (void)state;
    skip_without_workers();
    const int64_t sizes[][3] = {{64, 64, 64},  {64, 16, 256}, {64, 256, 16}, {16, 256, 64}, {1, 4096, 64},
                                {1, 64, 4096}, {4, 256, 256}, {256, 256, 4}, {512, 1, 512}, {1, 1, MOST_VALUES}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        int64_t m = sizes[i][0], n = sizes[i][1], k = sizes[i][2];
        assert_true(m * n * k == TG_GEMM_ONE_THREAD);
        for (int transposed = 0; transposed < 3; transposed++) {
            tasks before = tasks_sleeping();
            multiply(m, n, k, transposed, 200);
            assert_int_equal(woken_since(&before), 0);
        }
    }
    tasks before = tasks_sleeping();
    multiply(64, 64, 65, 0, 200);
    print_message("64 x 64 x 65 wakes %d\n", woken_since(&before));
}

/* Runs forward and backward of one block of rows, which is computed in the calling thread. */
static void attend_once(tg_dtype dtype, int64_t queries, int64_t keys, int64_t width, bool causal)
{
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_tensor *x[3];
    for (int i = 0; i < 3; i++) {
        x[i] = leaf(tg_tensor_new_full(dtype, TG_SHAPE(i == 0 ? queries : keys, width), 0.01, NULL));
    }
    tg_tensor *y = attend(TG_ATTENTION_FUSED, t, x[0], x[1], x[2], attention_config(causal, 0, NULL));
    assert_true(tg_backward(t, tg_sum(t, y, TG_ALL_AXES, TG_DROP_AXES), NULL));
    for (int i = 0; i < 3; i++) {
        tg_release(x[i]);
    }
    tg_tape_free(t);
}

static void test_attention(void **state)
{
    (void)state;
    skip_without_workers();
    const int64_t sizes[][3] = {{64, 200, 64},  {64, 200, 256}, {64, 200, 257}, {50, 100, 320},
                                {64, 150, 700}, {1, 300, 900},  {17, 40, 5000}, {2, 5, 300000}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (int kind = 0; kind < 4; kind++) {
            tasks before = tasks_sleeping();
            attend_once(kind < 2 ? TG_F32 : TG_F64, sizes[i][0], sizes[i][1], sizes[i][2], kind % 2);
            int woken = woken_since(&before);
            if (woken > 0) {
                fail_msg("T %d, S %d, D %d, %s: %d threads of OpenBLAS woke", (int)sizes[i][0], (int)sizes[i][1],
                         (int)sizes[i][2], kind % 2 ? "causal" : "not causal", woken);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_products_at_the_limit), cmocka_unit_test(test_attention)};
    return cmocka_run_group_tests_name("blas_threads", tests, find_workers, NULL);
}
