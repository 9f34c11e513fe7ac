/* mpich_yield: preloaded by tests/ci/mpich. A rank of MPICH waits in a loop that never leaves the processor. With more
 * ranks than processors each message would take until the rank's time is used up. This loop calls UCX, which moves
 * the messages; here the rank yields when none has moved. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sched.h>

unsigned ucp_worker_progress(void *worker);

unsigned ucp_worker_progress(void *worker)
{
    static unsigned (*progress)(void *);
    if (!progress) {
        *(void **)&progress = dlsym(RTLD_NEXT, "ucp_worker_progress");
    }
    unsigned moved = progress(worker);
    if (moved == 0) {
        sched_yield();
    }
    return moved;
}
