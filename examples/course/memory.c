/* memory: how much memory a process and its descendants use, from Linux's /proc. */
#include "memory.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_PROCESSES 4096

typedef struct process {
    pid_t id, parent;
    int64_t kilobytes;
    bool is_below;
} process;

/* Returns the number behind a name, "VmRSS:      1234 kB", or 0. */
static int64_t number_of(const char *status, const char *name)
{
    const char *line = strstr(status, name);
    return line ? atoll(line + strlen(name)) : 0;
}

/* Reads "/proc/ID/status". The tables of pages count, too: memory that was only read has no pages of its own. */
static bool read_process(const char *name, process *p)
{
    char path[64], status[4096];
    snprintf(path, sizeof path, "/proc/%.20s/status", name);
    FILE *file = fopen(path, "r");
    size_t count = file ? fread(status, 1, sizeof status - 1, file) : 0;
    if (file) {
        fclose(file);
    }
    status[count] = 0;
    *p = (process){.id = (pid_t)atoi(name), .parent = (pid_t)number_of(status, "\nPPid:")};
    p->kilobytes = number_of(status, "\nVmRSS:") + number_of(status, "\nVmSwap:") + number_of(status, "\nVmPTE:");
    return count > 0;
}

int64_t memory_below(pid_t ancestor)
{
    static process all[MAX_PROCESSES];
    int count = 0;
    DIR *folder = opendir("/proc");
    for (struct dirent *entry; folder && count < MAX_PROCESSES && (entry = readdir(folder));) {
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' && read_process(entry->d_name, &all[count])) {
            all[count].is_below = all[count].id == ancestor;
            count++;
        }
    }
    if (folder) {
        closedir(folder);
    }
    int64_t kilobytes = 0;
    for (bool has_changed = true; has_changed;) {
        has_changed = false;
        for (int i = 0; i < count; i++) {
            for (int j = 0; !all[i].is_below && j < count; j++) {
                if (all[j].is_below && all[i].parent == all[j].id) {
                    all[i].is_below = has_changed = true;
                }
            }
        }
    }
    for (int i = 0; i < count; i++) {
        kilobytes += all[i].is_below ? all[i].kilobytes : 0;
    }
    return kilobytes * 1024;
}

int64_t milliseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}
