/* parallel: one pool of worker threads for the process.
 *
 * A loop is cut into as many ranges as there are threads (fewer if a range would be smaller than the grain). The caller
 * runs the first range, and worker i range i. The pool serves one loop at a time: a second caller, or a loop inside a
 * loop, runs its whole range itself instead of waiting. Workers are started when a loop first needs them. If a worker
 * cannot be started, the ranges become larger: a loop cannot fail. A loop wakes the workers that have a range, and no
 * others.
 *
 * Between loops a worker spins for a short time, because the next loop of a training step usually follows within
 * microseconds, and then sleeps. After a fork the child has no workers; it starts its own at its first loop.
 */
#include "base/parallel.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include <tapegrad/extend.h>

#include "system/system.h"

#define MAX_THREADS 256
#define SPINS 2000

/* Loops have numbers: a worker runs when its number changes. Each worker has cache lines of its own. */
typedef struct worker {
    _Alignas(128) atomic_uint loop;
    pthread_cond_t wake;
} worker;

static worker workers[MAX_THREADS];

_Thread_local int tg_thread_mode;

static struct {
    atomic_int threads; /* the number of threads to use; 0 until the first call */
    int started;        /* the workers that run: workers[1] to workers[started] */
    atomic_flag busy;
    pthread_mutex_t mutex;
    atomic_int finished; /* workers that have finished this loop */
    loop_body *body;
    void *context;
    int64_t count;
    int ranges;
    int mode; /* of the thread that called */
} pool = {.busy = ATOMIC_FLAG_INIT, .mutex = PTHREAD_MUTEX_INITIALIZER};

int tg_threads(void)
{
    int threads = atomic_load_explicit(&pool.threads, memory_order_relaxed);
    if (threads == 0) {
        threads = tg_system_processors();
        threads = threads < MAX_THREADS ? threads : MAX_THREADS;
        atomic_store_explicit(&pool.threads, threads, memory_order_relaxed);
    }
    return threads;
}

bool tg_set_threads(int threads, tg_error *error)
{
    if (threads < 1 || threads > MAX_THREADS) {
        return tg_error_set(error, TG_ERROR_RANGE, "set_threads: %d threads; it must be 1 to %d", threads, MAX_THREADS);
    }
    atomic_store(&pool.threads, threads);
    return true;
}

static void run_range(int range)
{
    int64_t share = pool.count / pool.ranges, rest = pool.count % pool.ranges;
    int64_t begin = range * share + (range < rest ? range : rest);
    int64_t end = begin + share + (range < rest ? 1 : 0);
    pool.body(pool.context, begin, end);
}

/* Waits for the next loop of a worker, and returns its number. */
static unsigned next_loop(worker *self, unsigned last)
{
    unsigned next = last;
    for (int spin = 0; spin < SPINS && next == last; spin++) {
        sched_yield();
        next = atomic_load_explicit(&self->loop, memory_order_acquire);
    }
    if (next == last) {
        pthread_mutex_lock(&pool.mutex);
        while ((next = atomic_load(&self->loop)) == last) {
            pthread_cond_wait(&self->wake, &pool.mutex);
        }
        pthread_mutex_unlock(&pool.mutex);
    }
    return next;
}

static void *work(void *argument)
{
    worker *self = argument;
    for (unsigned loop = 0;;) {
        loop = next_loop(self, loop);
        tg_thread_mode = pool.mode;
        run_range((int)(self - workers));
        atomic_fetch_add_explicit(&pool.finished, 1, memory_order_release);
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
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, register_fork_handler);
    while (pool.started < needed) {
        pthread_t thread;
        worker *next = &workers[pool.started + 1];
        atomic_store(&next->loop, 0);
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
    if (pool.started < ranges - 1) {
        start_workers((int)ranges - 1);
    }
    int helpers = ranges > pool.started + 1 ? pool.started : (int)ranges - 1;
    pthread_mutex_lock(&pool.mutex);
    pool.body = body;
    pool.context = context;
    pool.count = count;
    pool.ranges = helpers + 1;
    pool.mode = tg_thread_mode;
    atomic_store(&pool.finished, 0);
    for (int i = 1; i <= helpers; i++) {
        atomic_fetch_add(&workers[i].loop, 1);
    }
    pthread_mutex_unlock(&pool.mutex);
    for (int i = 1; i <= helpers; i++) {
        pthread_cond_signal(&workers[i].wake);
    }
    run_range(0);
    while (atomic_load_explicit(&pool.finished, memory_order_acquire) < helpers) {
        sched_yield();
    }
    atomic_flag_clear_explicit(&pool.busy, memory_order_release);
}
