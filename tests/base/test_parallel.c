/* tg_parallel_for: every index occurs exactly once; the size and the number of ranges are within their limits. */
#include "support.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/parallel.h"
#include "system/system.h"
#include "tasks.h"

#define MOST_RANGES 256

/* ---- the machine: the linker puts these before the functions of the system ---- */

#if defined TG_WRAPPED

static int processors = 300;
static atomic_int threads_left = INT_MAX; /* that can be started */

int __wrap_tg_system_processors(void);
int __wrap_tg_system_processors(void)
{
    return processors;
}

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument),
    __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument)
{
    return atomic_fetch_sub(&threads_left, 1) < 1 ? EAGAIN : __real_pthread_create(thread, attributes, run, argument);
}

#endif

/* ---- loops ---- */

/* What a loop did. */
typedef struct trace {
    int64_t count;
    /* of each index */
    atomic_uchar *visits;
    atomic_int ranges;
    int64_t begin[MOST_RANGES], end[MOST_RANGES];
    pthread_t thread[MOST_RANGES];
} trace;

static void note(void *context, int64_t begin, int64_t end)
{
    trace *t = context;
    int range = atomic_fetch_add(&t->ranges, 1);
    if (range < MOST_RANGES) {
        t->begin[range] = begin;
        t->end[range] = end;
        t->thread[range] = pthread_self();
    }
    for (int64_t i = begin; i < end; i++) {
        if (i >= 0 && i < t->count) {
            atomic_fetch_add(&t->visits[i], 1);
        }
    }
}

/* Runs a loop of note or of a body that calls it, and asserts that it visits each index of [0,count) once. The caller
 * frees the trace. */
static trace *run_body(loop_body *body, int64_t count, int64_t grain)
{
    size_t indices = count > 0 ? (size_t)count : 0;
    trace *t = calloc(1, sizeof *t);
    assert_non_null(t);
    t->count = count;
    t->visits = calloc(indices + 1, sizeof *t->visits);
    assert_non_null(t->visits);
    tg_parallel_for(count, grain, body, t);
    for (size_t i = 0; i < indices; i++) {
        if (t->visits[i] != 1) {
            fail_msg("index %zu of %lld (grain %lld) is visited %d times", i, (long long)count, (long long)grain,
                     t->visits[i]);
        }
    }
    assert_in_range(t->ranges, 0, MOST_RANGES);
    for (int r = 0; r < t->ranges; r++) {
        assert_true(t->begin[r] >= 0 && t->begin[r] < t->end[r] && t->end[r] <= count);
    }
    return t;
}

static trace *run(int64_t count, int64_t grain)
{
    return run_body(note, count, grain);
}

static void free_trace(trace *t)
{
    free(t->visits);
    free(t);
}

/* The number of ranges. Each has at least `grain` indices, and their sizes differ by 1 at most. */
static int ranges_of(int64_t count, int64_t grain)
{
    trace *t = run(count, grain);
    int ranges = t->ranges;
    int64_t smallest = INT64_MAX, largest = 0;
    for (int r = 0; r < ranges; r++) {
        int64_t size = t->end[r] - t->begin[r];
        smallest = size < smallest ? size : smallest;
        largest = size > largest ? size : largest;
    }
    if (ranges > 1) {
        assert_true(smallest >= grain);
        assert_true(largest - smallest <= 1);
    }
    free_trace(t);
    return ranges;
}

static void set_threads(int threads)
{
    assert_true(tg_set_threads(threads, NULL));
    assert_int_equal(tg_threads(), threads);
}

static void test_every_index_once(void **state)
{
    (void)state;
    static const int64_t grains[] = {1, 2, 7, 100, TG_GRAIN};
    for (int threads = 1; threads <= 3; threads += 2) {
        set_threads(threads);
        for (size_t g = 0; g < sizeof grains / sizeof *grains; g++) {
            int64_t grain = grains[g];
            const int64_t counts[] = {0,         1,         grain - 1,     grain,         grain + 1,      2 * grain - 1,
                                      2 * grain, 3 * grain, 3 * grain + 1, 3 * grain + 2, 10 * grain + 3, 100003};
            for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
                int64_t count = counts[c], most = count / grain < threads ? count / grain : threads;
                int expected = count <= 0 ? 0 : most < 1 ? 1 : (int)most;
                assert_int_equal(ranges_of(count, grain), expected);
            }
        }
    }
}

/* The threads that run at a time. */
static int running(void)
{
    return tg_threads() < tg_system_processors() ? tg_threads() : tg_system_processors();
}

/* Waits until as many ranges have begun as threads run. */
static void note_and_wait(void *context, int64_t begin, int64_t end)
{
    trace *t = context;
    note(t, begin, end);
    while (t->ranges < running()) {
        sched_yield();
    }
}

/* Ranges of one thread run in the caller; with several threads the caller runs one of them, and others the rest, if
 * they begin before the caller is done. */
static void test_threads_share_a_loop(void **state)
{
    (void)state;
    set_threads(1);
    trace *t = run(1000, 1);
    assert_int_equal(t->ranges, 1);
    assert_true(pthread_equal(t->thread[0], pthread_self()));
    free_trace(t);
    set_threads(3);
    t = run_body(note_and_wait, 1000, 1);
    assert_int_equal(t->ranges, 3);
    int own = 0;
    for (int r = 0; r < running(); r++) {
        own += pthread_equal(t->thread[r], pthread_self()) != 0;
        for (int other = 0; other < r; other++) {
            assert_false(pthread_equal(t->thread[r], t->thread[other]));
        }
    }
    assert_int_equal(own, 1);
    free_trace(t);
    /* fewer threads than workers that run */
    set_threads(2);
    assert_int_equal(ranges_of(1000, 1), 2);
    set_threads(1);
    assert_int_equal(ranges_of(1000, 1), 1);
}

/* A thread of ThreadSanitizer handles a signal later. */
#ifndef __SANITIZE_THREAD__

static atomic_int held;
static atomic_bool is_held;

static void hold(int signal)
{
    (void)signal;
    atomic_fetch_add(&held, 1);
    while (is_held) {
    }
}

/* A loop does not wait for workers that cannot begin: the caller runs their ranges. */
static void test_late_workers(void **state)
{
    (void)state;
    set_threads(3);
    trace *t = run_body(note_and_wait, 1000, 1);
    nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL); /* until they sleep, and hold no lock */
    sigaction(SIGUSR1, &(struct sigaction){.sa_handler = hold}, NULL);
    is_held = true;
    for (int r = 0; r < 3; r++) {
        if (!pthread_equal(t->thread[r], pthread_self())) {
            assert_int_equal(pthread_kill(t->thread[r], SIGUSR1), 0);
        }
    }
    free_trace(t);
    while (held < running() - 1) {
        sched_yield();
    }
    alarm(30); /* the loop would never end */
    t = run(1000, 1);
    alarm(0);
    assert_int_equal(t->ranges, 3);
    for (int r = 0; r < 3; r++) {
        assert_true(pthread_equal(t->thread[r], pthread_self()));
    }
    free_trace(t);
    is_held = false;
    free_trace(run_body(note_and_wait, 1000, 1));
}

#endif

/* A grain that is no number of indices counts as 1. */
static void test_odd_arguments(void **state)
{
    (void)state;
    set_threads(3);
    assert_int_equal(ranges_of(10, 0), 3);
    assert_int_equal(ranges_of(10, -5), 3);
    assert_int_equal(ranges_of(2, 0), 2);
    assert_int_equal(ranges_of(10, INT64_MAX), 1);
    assert_int_equal(ranges_of(-1, 1), 0);
    assert_int_equal(ranges_of(INT64_MIN, 1), 0);
    tg_parallel_for(1000, 1, NULL, NULL);
    assert_int_equal(ranges_of(1000, 1), 3);
}

/* ---- loops inside of loops ---- */

#define OUTER 30
#define INNER 50

static atomic_uchar inner_visits[OUTER][INNER];
static atomic_int inner_ranges, in_another_thread;

typedef struct inner_context {
    int64_t outer;
    pthread_t thread;
} inner_context;

static void inner(void *context, int64_t begin, int64_t end)
{
    const inner_context *c = context;
    atomic_fetch_add(&inner_ranges, 1);
    atomic_fetch_add(&in_another_thread, !pthread_equal(c->thread, pthread_self()));
    for (int64_t i = begin; i < end; i++) {
        atomic_fetch_add(&inner_visits[c->outer][i], 1);
    }
}

static void outer(void *context, int64_t begin, int64_t end)
{
    (void)context;
    for (int64_t i = begin; i < end; i++) {
        inner_context c = {i, pthread_self()};
        tg_parallel_for(INNER, 1, inner, &c);
    }
}

/* A nested loop runs as one range in the thread that calls it. */
static void test_nested_loops(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 3; threads += 2) {
        set_threads(threads);
        memset(inner_visits, 0, sizeof inner_visits);
        inner_ranges = in_another_thread = 0;
        tg_parallel_for(OUTER, 1, outer, NULL);
        for (int i = 0; i < OUTER; i++) {
            for (int k = 0; k < INNER; k++) {
                assert_int_equal(inner_visits[i][k], 1);
            }
        }
        assert_int_equal(in_another_thread, 0);
        assert_int_equal(inner_ranges, OUTER);
    }
    /* and the pool serves the next loop */
    assert_int_equal(ranges_of(1000, 1), 3);
}

/* Many loops, one after the other, some so close that the workers still spin, and some after they sleep. In
 * every second loop each of them has a range. */
static void test_many_loops(void **state)
{
    (void)state;
    for (int i = 0; i < 2000; i++) {
        set_threads(2 + i / 1000);
        int64_t count = 1 + i * 7 % 61;
        free_trace(i % 2 ? run_body(note_and_wait, 100, 1) : run(count, 1 + i % 3));
        if (i % 500 == 0) {
            nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
        }
    }
}

/* A thread of ThreadSanitizer never sleeps for long. */
#ifndef __SANITIZE_THREAD__

/* A loop of two ranges wakes one worker, however many there are. */
static void test_workers_without_a_range_sleep(void **state)
{
    (void)state;
    set_threads(8);
    assert_int_equal(ranges_of(1000, 1), 8);
    set_threads(2);
    tasks before = tasks_sleeping();
    if (getenv("TG_EMULATED") || before.count == 0) {
        skip(); /* without /proc, or with that of QEMU */
    }
    assert_true(before.count >= 7);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(ranges_of(1000, 1), 2);
    }
    tasks after = tasks_sleeping(), woken = after;
    tasks_keep(&woken, &before, &after, true);
    assert_true(woken.count <= 1);
}

#endif

/* ThreadSanitizer supports no threads after a fork. */
#ifndef __SANITIZE_THREAD__

static void expect_success(pid_t child)
{
    int status = -1;
    assert_true(waitpid(child, &status, 0) == child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

#endif

#if defined TG_WRAPPED

static pthread_t caller;

/* In the caller, waits until all ranges have begun. */
static void note_and_wait_for_all(void *context, int64_t begin, int64_t end)
{
    trace *t = context;
    note(t, begin, end);
    while (pthread_equal(caller, pthread_self()) && t->ranges < tg_threads()) {
        sched_yield();
    }
}

/* With more threads than processors a loop has as many ranges as threads, but no more of these run than processors. A
 * worker takes the ranges that are left. */
static void test_more_threads_than_processors(void **state)
{
    (void)state;
    processors = 2;
    set_threads(5);
    caller = pthread_self();
    for (int i = 0; i < 200; i++) {
        trace *t = run_body(i % 2 ? note : note_and_wait_for_all, 1000, 1);
        assert_int_equal(t->ranges, 5);
        for (int r = 0; r < 5; r++) {
            for (int other = 0; other < r; other++) {
                assert_true(pthread_equal(t->thread[r], caller) || pthread_equal(t->thread[other], caller) ||
                            pthread_equal(t->thread[r], t->thread[other]));
            }
        }
        free_trace(t);
    }
    processors = 1;
    set_threads(3);
    trace *t = run(1000, 1);
    assert_int_equal(t->ranges, 3);
    for (int r = 0; r < 3; r++) {
        assert_true(pthread_equal(t->thread[r], caller));
    }
    free_trace(t);
    processors = 300;
    set_threads(3);
    free_trace(run_body(note_and_wait, 1000, 1));
}

/* The first call finds more processors than the library has threads for. */
static void test_default_number(void **state)
{
    (void)state;
    assert_int_equal(tg_threads(), 256);
}

#ifndef __SANITIZE_THREAD__

/* If no thread starts, the caller runs all ranges, and if one does, both. The next loop tries again. */
static void test_threads_that_cannot_start(void **state)
{
    (void)state;
    if (getenv("TG_EMULATED")) {
        skip(); /* QEMU cannot run the child of a program with threads */
    }
    set_threads(4);
    pid_t child = fork(); /* it has no workers yet */
    assert_true(child >= 0);
    if (child == 0) {
        alarm(30);
        caller = pthread_self();
        threads_left = 0;
        trace *t = run(1000, 1);
        bool is_good = t->ranges == 4;
        for (int r = 0; r < 4; r++) {
            is_good = is_good && pthread_equal(t->thread[r], pthread_self());
        }
        free_trace(t);
        threads_left = 1;
        free_trace(run_body(note_and_wait_for_all, 1000, 1));
        threads_left = 2;
        free_trace(run_body(note_and_wait, 1000, 1));
        _exit(is_good ? 0 : 1);
    }
    expect_success(child);
}

#endif

#endif

/* A caller that finds the pool busy runs its loop alone. */
static atomic_int failures;

static void *loops(void *argument)
{
    (void)argument;
    for (int i = 0; i < 300; i++) {
        trace t = {.count = 40};
        atomic_uchar visits[40];
        memset(visits, 0, sizeof visits);
        t.visits = visits;
        tg_parallel_for(40, 1, note, &t);
        for (int k = 0; k < 40; k++) {
            atomic_fetch_add(&failures, visits[k] != 1);
        }
    }
    return NULL;
}

static void test_several_callers(void **state)
{
    (void)state;
    set_threads(3);
    pthread_t threads[4];
    failures = 0;
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, loops, NULL), 0);
    }
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(failures, 0);
}

/* ThreadSanitizer supports no threads after a fork. */
#ifndef __SANITIZE_THREAD__

/* A child process has none of the workers, and starts its own. */
static void test_after_a_fork(void **state)
{
    (void)state;
    if (getenv("TG_EMULATED")) {
        skip(); /* QEMU cannot run the child of a program with threads */
    }
    set_threads(3);
    assert_int_equal(ranges_of(1000, 1), 3);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        /* a loop that waits for a worker that does not exist would never end */
        alarm(30);
        loops(NULL);
        trace t = {.count = 0};
        atomic_uchar none = 0;
        t.visits = &none;
        tg_parallel_for(1000, 1, note, &t);
        _exit(failures == 0 && t.ranges == 3 ? 0 : 1);
    }
    expect_success(child);
    assert_int_equal(ranges_of(1000, 1), 3);
}

#endif

static void test_numbers_of_threads(void **state)
{
    (void)state;
    tg_error error = TG_NO_ERROR;
    set_threads(3);
    static const int bad[] = {0, -1, 257, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_false(tg_set_threads(bad[i], &error));
        assert_error(&error, TG_ERROR_RANGE, "threads; it must be 1 to 256");
        assert_int_equal(tg_threads(), 3);
    }
    assert_true(tg_set_threads(256, &error));
    assert_int_equal(tg_threads(), 256);
    assert_int_equal(error.code, TG_OK);
    assert_true(tg_set_threads(1, NULL));
    assert_int_equal(tg_threads(), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#if defined TG_WRAPPED
        cmocka_unit_test(test_default_number),
#endif
        cmocka_unit_test(test_every_index_once),
        cmocka_unit_test(test_threads_share_a_loop),
        cmocka_unit_test(test_odd_arguments),
        cmocka_unit_test(test_nested_loops),
        cmocka_unit_test(test_many_loops),
        cmocka_unit_test(test_several_callers),
#ifndef __SANITIZE_THREAD__
        cmocka_unit_test(test_late_workers),
        cmocka_unit_test(test_workers_without_a_range_sleep),
        cmocka_unit_test(test_after_a_fork),
#endif
#if defined TG_WRAPPED
        cmocka_unit_test(test_more_threads_than_processors),
#ifndef __SANITIZE_THREAD__
        cmocka_unit_test(test_threads_that_cannot_start),
#endif
#endif
        cmocka_unit_test(test_numbers_of_threads),
    };
    return cmocka_run_group_tests_name("parallel", tests, NULL, NULL);
}
