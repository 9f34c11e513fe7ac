/* parallel: one pool of worker threads for the process.
 *
 * A loop is cut into as many ranges as there are threads (fewer if a range would be smaller than the grain). The caller
 * runs the first range, and worker i range i. If a worker has not begun when the caller is done, the caller runs its
 * range, too: so no loop waits for a worker that sleeps, or whose processor has other work. No more threads run a loop
 * than the process has processors, and fewer if one cannot be started. The ranges that are left are run by whoever is
 * done: so a loop cannot fail, and threads do not compete for a processor. The pool serves one loop at a time: a second
 * caller, or a loop inside a loop, runs its whole range itself instead of waiting. Workers are started when a loop
 * first needs them. A loop wakes the workers that have a range, and no others.
 *
 * Between loops a worker spins for a short time, because the next loop of a training step or of a token usually
 * follows within microseconds, and then sleeps. It does not yield: on a processor with other work, Linux lets a thread
 * that has yielded wait for milliseconds. After a fork the child has no workers; it starts its own at its first loop.
 */
#include "base/parallel.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include <tapegrad/extend.h>

#include "system/system.h"

#define MAX_THREADS 256
#define SPINS 4000 /* 20 to 200 microseconds */

/* Takes a few nanoseconds, and leaves the processor's units to its other thread. */
#if defined __x86_64__ || defined __i386__
#define PAUSE() __builtin_ia32_pause()
#elif defined __aarch64__
#define PAUSE() __asm__ volatile("isb")
#else
#define PAUSE() sched_yield()
#endif

/* Each worker has cache lines of its own. */
typedef struct worker {
    _Alignas(128) atomic_bool has_range; /* until a thread takes the range of this worker */
    pthread_cond_t wake;
} worker;

static worker workers[MAX_THREADS];

_Thread_local int tg_thread_mode;

static struct {
    atomic_int threads; /* the number of threads to use; 0 until the first call */
    atomic_int most;    /* the workers that may run, in all */
    int started;        /* those that do: workers[1] to workers[started] */
    atomic_flag busy;
    pthread_mutex_t mutex;
    atomic_int left;     /* the ranges behind those of the helpers that have not begun; less than 0: none */
    atomic_int finished; /* the ranges that workers have finished */
    loop_body *body;
    void *context;
    int64_t count;
    int ranges;
    int helpers; /* the workers that have a range of their own: 1 to `helpers` */
    int mode;    /* of the thread that called */
} pool = {.busy = ATOMIC_FLAG_INIT, .mutex = PTHREAD_MUTEX_INITIALIZER};

/* Sets the number of threads; 0: that of the processors. Returns it. */
static int set_threads(int threads)
{
    const int processors = tg_system_processors();
    const int most = processors < MAX_THREADS ? processors : MAX_THREADS;
    threads = threads ? threads : most;
    atomic_store_explicit(&pool.most, most - 1, memory_order_relaxed);
    atomic_store_explicit(&pool.threads, threads, memory_order_release);
    return threads;
}

int tg_threads(void)
{
    const int threads = atomic_load_explicit(&pool.threads, memory_order_acquire);
    return threads ? threads : set_threads(0);
}

bool tg_set_threads(int threads, tg_error *error)
{
    if (threads < 1 || threads > MAX_THREADS) {
        return tg_error_set(error, TG_ERROR_RANGE, "set_threads: %d threads; it must be 1 to %d", threads, MAX_THREADS);
    }
    set_threads(threads);
    return true;
}

static void run_range(int range)
{
    int64_t share = pool.count / pool.ranges, rest = pool.count % pool.ranges;
    int64_t begin = range * share + (range < rest ? range : rest);
    int64_t end = begin + share + (range < rest ? 1 : 0);
    pool.body(pool.context, begin, end);
}

/* Returns whether the range of a worker had not begun, and is the calling thread's now. */
static bool take_range(worker *of)
{
    return atomic_load_explicit(&of->has_range, memory_order_relaxed) &&
           atomic_exchange_explicit(&of->has_range, false, memory_order_acquire);
}

/* Runs ranges that no helper has, and returns their number. */
static int run_left(void)
{
    int count = 0;
    while (atomic_load_explicit(&pool.left, memory_order_relaxed) > 0) {
        const int left = atomic_fetch_sub_explicit(&pool.left, 1, memory_order_relaxed);
        if (left > 0) {
            run_range(pool.helpers + left);
            count++;
        }
    }
    return count;
}

/* Waits for a range, and takes it. */
static void next_range(worker *self)
{
    for (int spin = SPINS; spin > 0; spin--) {
        if (take_range(self)) {
            return;
        }
        PAUSE();
    }
    pthread_mutex_lock(&pool.mutex);
    while (!take_range(self)) {
        pthread_cond_wait(&self->wake, &pool.mutex);
    }
    pthread_mutex_unlock(&pool.mutex);
}

static void *work(void *argument)
{
    worker *self = argument;
    for (;;) {
        next_range(self);
        tg_thread_mode = pool.mode;
        run_range((int)(self - workers));
        const int finished = 1 + run_left();
        atomic_fetch_add_explicit(&pool.finished, finished, memory_order_release);
    }
    return NULL;
}

/* Resets the pool in a child process after a fork: only the thread that called fork exists there. */
static void forget_workers(void)
{
    pool.started = 0;
    atomic_flag_clear(&pool.busy);
    pthread_mutex_init(&pool.mutex, NULL);
}

static void register_fork_handler(void)
{
    tg_system_after_fork(forget_workers);
}

static void start_workers(int needed)
{
    while (pool.started < needed) {
        pthread_t thread;
        worker *next = &workers[pool.started + 1];
        atomic_store(&next->has_range, false);
        pthread_cond_init(&next->wake, NULL);
        if (pthread_create(&thread, NULL, work, next) != 0) {
            return;
        }
        pthread_detach(thread);
        pool.started++;
    }
}

void tg_parallel_for(int64_t count, int64_t grain, loop_body *body, void *context)
{
    if (!body) {
        return;
    }
    int64_t ranges = grain > 0 ? count / grain : count;
    if (ranges > tg_threads()) {
        ranges = tg_threads();
    }
    if (ranges < 2 || atomic_flag_test_and_set_explicit(&pool.busy, memory_order_acquire)) {
        if (count > 0) {
            body(context, 0, count);
        }
        return;
    }
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, register_fork_handler);
    const int most = atomic_load_explicit(&pool.most, memory_order_relaxed);
    int helpers = ranges - 1 < most ? (int)ranges - 1 : most;
    if (pool.started < helpers) {
        start_workers(helpers);
        helpers = pool.started < helpers ? pool.started : helpers;
    }
    pthread_mutex_lock(&pool.mutex);
    pool.body = body;
    pool.context = context;
    pool.count = count;
    pool.ranges = (int)ranges;
    pool.helpers = helpers;
    pool.mode = tg_thread_mode;
    atomic_store(&pool.finished, 0);
    atomic_store(&pool.left, (int)ranges - 1 - helpers);
    for (int i = 1; i <= helpers; i++) {
        atomic_store_explicit(&workers[i].has_range, true, memory_order_release);
    }
    pthread_mutex_unlock(&pool.mutex);
    for (int i = 1; i <= helpers; i++) {
        pthread_cond_signal(&workers[i].wake);
    }
    run_range(0);
    int others = (int)ranges - 1 - run_left(), spins = SPINS;
    for (int i = helpers; i > 0; i--) {
        if (take_range(&workers[i])) {
            run_range(i);
            others--;
        }
    }
    while (atomic_load_explicit(&pool.finished, memory_order_acquire) < others) {
        if (spins-- > 0) {
            PAUSE();
        } else {
            sched_yield();
        }
    }
    atomic_flag_clear_explicit(&pool.busy, memory_order_release);
}
