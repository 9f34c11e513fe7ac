/* linux: what not all other systems have: huge pages on request, the processors that a process may run on and the
 * control group that limits its time on them, and reads that a process announces. */
#if defined __linux__
#define _GNU_SOURCE /* sched_getaffinity, madvise */
#endif

#include "system/system.h"

#if defined __linux__

#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void tg_system_will_read(int file, size_t length, uint64_t offset)
{
    (void)posix_fadvise(file, (off_t)offset, (off_t)length, POSIX_FADV_WILLNEED);
}

/* Reads numbers from a file, and returns how many it has read. */
static int read_numbers(const char *folder, const char *name, long long *first, long long *second)
{
    char path[3 * PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "re");
    const int count = file ? fscanf(file, "%lld %lld", first, second) : 0;
    if (file) {
        fclose(file);
    }
    return count;
}

/* Returns the processors whose time a control group may use, rounded up; INT_MAX: any number. Version 2 has a file with
 * the time and its period, version 1 two files. Where there is no limit the time is "max", or -1. */
static int limit_of(const char *folder)
{
    long long time = -1, period = 0, none;
    if (read_numbers(folder, "cpu.max", &time, &period) != 2) {
        read_numbers(folder, "cpu.cfs_quota_us", &time, &none);
        read_numbers(folder, "cpu.cfs_period_us", &period, &none);
    }
    return time > 0 && period > 0 && time / period < INT_MAX ? (int)((time - 1) / period + 1) : INT_MAX;
}

int tg_system_processor_limit(const char *groups, const char *root)
{
    char line[PATH_MAX];
    int least = INT_MAX;
    FILE *file = fopen(groups, "re");
    while (file && fgets(line, sizeof line, file)) { /* "0::/a/b", or "4:cpu,cpuacct:/a/b" */
        char list[256] = ",", path[PATH_MAX] = "", folder[2 * PATH_MAX];
        const bool is_2 = sscanf(line, "0::%4095[^\n]", path) == 1;
        if (!is_2 &&
            (sscanf(line, "%*d:%253[^:]:%4095[^\n]", list + 1, path) != 2 || !strstr(strcat(list, ","), ",cpu,"))) {
            continue;
        }
        for (char *end = path + strlen(path); end; end = strrchr(path, '/')) { /* a limit holds for the groups below */
            *end = '\0';
            snprintf(folder, sizeof folder, "%s%s%s", root, is_2 ? "" : "/cpu", path);
            const int limit = limit_of(folder);
            least = limit < least ? limit : least;
        }
    }
    if (file) {
        fclose(file);
    }
    return least;
}

int tg_system_processors(void)
{
    cpu_set_t allowed;
    const int limit = tg_system_processor_limit("/proc/self/cgroup", "/sys/fs/cgroup");
    const long count =
        sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : sysconf(_SC_NPROCESSORS_ONLN);
    return count < 1 ? 1 : count > limit ? limit : count > INT16_MAX ? INT16_MAX : (int)count;
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
