/* parallel: one crew of threads for the process, woken for each loop.
 *
 * A loop is cut into as many pieces as there are threads (fewer when a piece would be smaller than the grain); the
 * caller takes the first, worker i the piece i. The crew serves one loop at a time: a second caller, or a loop inside
 * a loop, runs its whole range itself, so nobody ever waits for a lock. Workers are started when a loop first needs
 * them, and a worker that cannot be started only makes the pieces larger: a loop cannot fail.
 *
 * Between loops a worker spins for a short while, because the next loop of a training step mostly follows within
 * microseconds, and then sleeps. After a fork the child has no workers; it starts its own at its first loop.
 */
#include "base/parallel.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

#define MAX_THREADS 256
#define SPINS 2000

typedef void loop_body(void *context, int64_t begin, int64_t end);

static struct {
    atomic_int wanted; /* threads to use; 0 until somebody asks */
    int started;       /* workers that run, numbered 1 .. started */
    atomic_flag busy;
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    atomic_uint round;   /* counts loops; a worker that sees a new one has work */
    atomic_int finished; /* workers that are done with this round */
    loop_body *body;
    void *context;
    int64_t count;
    int pieces;
} crew = {.busy = ATOMIC_FLAG_INIT, .mutex = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER};

static int processors(void)
{
#if defined _SC_NPROCESSORS_ONLN
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online < 1 ? 1 : online > MAX_THREADS ? MAX_THREADS : (int)online;
#else
    return 1;
#endif
}

int tg_threads(void)
{
    int wanted = atomic_load_explicit(&crew.wanted, memory_order_relaxed);
    if (wanted == 0) {
        wanted = processors();
        atomic_store_explicit(&crew.wanted, wanted, memory_order_relaxed);
    }
    return wanted;
}

bool tg_set_threads(int threads)
{
    if (threads < 1 || threads > MAX_THREADS) {
        return false;
    }
    atomic_store(&crew.wanted, threads);
    return true;
}

static void run_piece(int piece)
{
    int64_t share = crew.count / crew.pieces, rest = crew.count % crew.pieces;
    int64_t begin = piece * share + (piece < rest ? piece : rest);
    int64_t end = begin + share + (piece < rest ? 1 : 0);
    crew.body(crew.context, begin, end);
}

static void *work(void *argument)
{
    int number = (int)((uintptr_t)argument % MAX_THREADS);
    unsigned seen =
        (unsigned)((uintptr_t)argument / MAX_THREADS); /* rounds before this worker was there are not its own */
    for (;;) {
        for (int spin = 0; spin < SPINS && atomic_load_explicit(&crew.round, memory_order_acquire) == seen; spin++) {
            sched_yield();
        }
        pthread_mutex_lock(&crew.mutex);
        while (atomic_load(&crew.round) == seen) {
            pthread_cond_wait(&crew.wake, &crew.mutex);
        }
        seen = atomic_load(&crew.round);
        pthread_mutex_unlock(&crew.mutex);
        if (number < crew.pieces) {
            run_piece(number);
        }
        atomic_fetch_add_explicit(&crew.finished, 1, memory_order_release);
    }
    return NULL;
}

/* In the child of a fork only the forking thread lives on. */
static void forget_workers(void)
{
    crew.started = 0;
    atomic_store(&crew.round, 0);
    atomic_flag_clear(&crew.busy);
    pthread_mutex_init(&crew.mutex, NULL);
    pthread_cond_init(&crew.wake, NULL);
}

static void register_fork_handler(void)
{
    pthread_atfork(NULL, NULL, forget_workers);
}

static void start_workers(int needed)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, register_fork_handler);
    while (crew.started < needed) {
        pthread_t thread;
        uintptr_t start = (uintptr_t)atomic_load(&crew.round) * MAX_THREADS + (uintptr_t)(crew.started + 1);
        if (pthread_create(&thread, NULL, work, (void *)start) != 0) {
            return;
        }
        pthread_detach(thread);
        crew.started++;
    }
}

void tg_parallel_for(int64_t count, int64_t grain, loop_body *body, void *context)
{
    int64_t pieces = grain > 0 ? count / grain : count;
    if (pieces > tg_threads()) {
        pieces = tg_threads();
    }
    if (pieces < 2 || atomic_flag_test_and_set_explicit(&crew.busy, memory_order_acquire)) {
        if (count > 0) {
            body(context, 0, count);
        }
        return;
    }
    if (crew.started < pieces - 1) {
        start_workers((int)pieces - 1);
    }
    pthread_mutex_lock(&crew.mutex);
    crew.body = body;
    crew.context = context;
    crew.count = count;
    crew.pieces = pieces > crew.started + 1 ? crew.started + 1 : (int)pieces;
    atomic_store(&crew.finished, 0);
    atomic_fetch_add(&crew.round, 1);
    pthread_cond_broadcast(&crew.wake);
    pthread_mutex_unlock(&crew.mutex);
    run_piece(0);
    while (atomic_load_explicit(&crew.finished, memory_order_acquire) < crew.started) {
        sched_yield();
    }
    atomic_flag_clear_explicit(&crew.busy, memory_order_release);
}
