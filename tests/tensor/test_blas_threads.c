/* OpenBLAS computes a product of at most TG_GEMM_ONE_THREAD multiplications in the thread that calls it, and the fused
 * attention has no larger ones. A thread of OpenBLAS that computes a part of a product is woken, and sleeps afterwards:
 * Linux counts that in /proc/self/task. With OPENBLAS_THREAD_TIMEOUT=4 (tests/meson.build) it sleeps at once. Some
 * kernels of OpenBLAS compute larger products in the calling thread, too, so the tests also run with those of Haswell,
 * which do not.
 */
#include "ops/calls.h"
#include "support.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tensor/blas.h"

/* ---- tasks ---- */

#define MOST_TASKS 512

/* A thread of this process, except the one that reads. */
typedef struct task {
    long id;
    long long sleeps; /* how often it has gone to sleep */
    bool is_asleep;
} task;

typedef struct tasks {
    int count;
    task list[MOST_TASKS];
} tasks;

/* Returns whether /proc describes the task. */
static bool read_task(const char *id, task *t)
{
    char path[64], line[256];
    int found = 0;
    snprintf(path, sizeof path, "/proc/self/task/%.20s/status", id);
    FILE *f = fopen(path, "r");
    *t = (task){.id = strtol(id, NULL, 10)};
    while (f && fgets(line, sizeof line, f)) {
        char state;
        if (sscanf(line, "State: %c", &state) == 1) {
            t->is_asleep = state == 'S';
            found++;
        }
        found += sscanf(line, "voluntary_ctxt_switches: %lld", &t->sleeps) == 1;
    }
    if (f) {
        fclose(f);
    }
    return found == 2;
}

static tasks read_tasks(void)
{
    tasks all = {0};
    long own = 0;
    DIR *folder = opendir("/proc/self/task");
    char link[64] = "";
    FILE *f = fopen("/proc/thread-self/stat", "r");
    if (f && fgets(link, sizeof link, f)) {
        own = strtol(link, NULL, 10);
    }
    if (f) {
        fclose(f);
    }
    for (struct dirent *entry; folder && (entry = readdir(folder)) && all.count < MOST_TASKS;) {
        task *t = &all.list[all.count];
        all.count += entry->d_name[0] != '.' && read_task(entry->d_name, t) && t->id != own;
    }
    if (folder) {
        closedir(folder);
    }
    return all;
}

static void pause_for(long milliseconds)
{
    nanosleep(&(struct timespec){milliseconds / 1000, milliseconds % 1000 * 1000000}, NULL);
}

/* Waits until all tasks sleep, for ten seconds at most, and returns them. */
static tasks sleeping_tasks(void)
{
    for (int tries = 0;; tries++) {
        tasks all = read_tasks();
        bool is_asleep = true;
        for (int i = 0; i < all.count; i++) {
            is_asleep = is_asleep && all.list[i].is_asleep;
        }
        if (is_asleep || tries == 10000) {
            return all;
        }
        pause_for(1);
    }
}

/* Keeps the tasks of `some` that have slept between `before` and `after`, or with `slept` false those that have not. */
static void keep(tasks *some, const tasks *before, const tasks *after, bool slept)
{
    int kept = 0;
    for (int i = 0; i < some->count; i++) {
        long long sleeps[2] = {0, 0};
        for (int k = 0; k < MOST_TASKS; k++) {
            sleeps[0] += k < before->count && before->list[k].id == some->list[i].id ? before->list[k].sleeps : 0;
            sleeps[1] += k < after->count && after->list[k].id == some->list[i].id ? after->list[k].sleeps : 0;
        }
        if ((sleeps[1] > sleeps[0]) == slept) {
            some->list[kept++] = some->list[i];
        }
    }
    some->count = kept;
}

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
    tasks first = sleeping_tasks();
    pause_for(300);
    tasks idle = sleeping_tasks();
    multiply(512, 512, 512, 0, 2);
    tasks after = sleeping_tasks();
    workers = after;
    keep(&workers, &first, &idle, false);
    keep(&workers, &idle, &after, true);
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
    tasks after = sleeping_tasks(), woken = workers;
    keep(&woken, before, &after, true);
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
            tasks before = sleeping_tasks();
            multiply(m, n, k, transposed, 200);
            assert_int_equal(woken_since(&before), 0);
        }
    }
    tasks before = sleeping_tasks();
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
            tasks before = sleeping_tasks();
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
