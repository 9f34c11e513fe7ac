/* linux: what not all other systems have: huge pages on request, a list of the processors that a process may run on,
 * and reads that a process announces. */
#if defined __linux__
#define _GNU_SOURCE /* sched_getaffinity, madvise */
#endif

#include "system/system.h"

#if defined __linux__

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

void tg_system_will_read(int file, size_t length, uint64_t offset)
{
    (void)posix_fadvise(file, (off_t)offset, (off_t)length, POSIX_FADV_WILLNEED);
}

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
