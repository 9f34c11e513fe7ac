/* linux: what no other system has: huge pages on request, and a list of the processors that a process may run on. */
#if defined __linux__
#define _GNU_SOURCE /* sched_getaffinity, madvise */
#endif

#include "system/system.h"

#if defined __linux__

#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

int tg_system_processors(void)
{
    cpu_set_t allowed;
    long count =
        sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : sysconf(_SC_NPROCESSORS_ONLN);
    return count < 1 ? 1 : count > INT16_MAX ? INT16_MAX : (int)count;
}

void tg_system_ask_for_huge_pages(char *block, size_t bytes)
{
#ifdef MADV_HUGEPAGE
    size_t page = (size_t)sysconf(_SC_PAGESIZE), before = -(uintptr_t)block % page;
    madvise(block + before, (bytes - before) / page * page, MADV_HUGEPAGE);
#else
    (void)block, (void)bytes;
#endif
}

#endif
