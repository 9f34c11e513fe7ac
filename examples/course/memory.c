/* memory: how much memory a process and its descendants use, from Linux's /proc. */
#include "memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Reads "/proc/ID/REST"; an empty text if the process has ended. */
static void read_of(pid_t id, const char *rest, char *text, size_t size)
{
    char path[128];
    snprintf(path, sizeof path, "/proc/%ld/%s", (long)id, rest);
    FILE *file = fopen(path, "r");
    text[file ? fread(text, 1, size - 1, file) : 0] = 0;
    if (file) {
        fclose(file);
    }
}

/* Returns the number behind a name, "VmRSS:      1234 kB", or 0. */
static int64_t number_of(const char *status, const char *name)
{
    const char *line = strstr(status, name);
    return line ? atoll(line + strlen(name)) : 0;
}

int64_t memory_below(pid_t ancestor)
{
    char status[4096], children[4096], path[64];
    read_of(ancestor, "status", status, sizeof status);
    /* the tables of pages count, too: memory that was only read has no pages of its own */
    int64_t bytes =
        1024 * (number_of(status, "\nVmRSS:") + number_of(status, "\nVmSwap:") + number_of(status, "\nVmPTE:"));
    snprintf(path, sizeof path, "task/%ld/children", (long)ancestor);
    read_of(ancestor, path, children, sizeof children);
    char *next = children;
    for (long child; (child = strtol(next, &next, 10)) > 0;) {
        bytes += memory_below((pid_t)child);
    }
    return bytes;
}

bool memory_can_be_read(void)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%ld/children", (long)getpid());
    return access(path, R_OK) == 0;
}

int64_t milliseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}
