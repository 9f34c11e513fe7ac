#include "tasks.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Reads the status of a thread. Returns false if it has ended. */
static bool read_status(long id, bool *sleeps, long long *switches)
{
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/self/task/%ld/status", id);
    FILE *file = fopen(path, "r");
    *switches = 0;
    while (file && fgets(line, sizeof line, file)) {
        long long number;
        char state;
        if (sscanf(line, "State: %c", &state) == 1) {
            *sleeps = state == 'S';
        } else if (sscanf(line, "voluntary_ctxt_switches: %lld", &number) == 1 ||
                   sscanf(line, "nonvoluntary_ctxt_switches: %lld", &number) == 1) {
            *switches += number;
        }
    }
    return file && fclose(file) == 0;
}

/* Returns whether the other threads could be read; *sleep: whether all of them sleep. */
static bool read_tasks(tasks *found, bool *sleep)
{
    DIR *folder = opendir("/proc/self/task");
    found->count = 0;
    *sleep = true;
    for (struct dirent *entry = folder ? readdir(folder) : NULL; entry; entry = readdir(folder)) {
        /* the first thread, which runs the tests, has the id of the process */
        long id = strtol(entry->d_name, NULL, 10);
        bool sleeps = true;
        if (id > 0 && id != (long)getpid() && found->count < TASKS_MAX &&
            read_status(id, &sleeps, &found->switches[found->count])) {
            found->id[found->count++] = id;
            *sleep = *sleep && sleeps;
        }
    }
    return folder && closedir(folder) == 0;
}

bool tasks_sleep(tasks *found)
{
    bool sleep = false;
    for (int tries = 0; tries < 1500 && !sleep; tries++) {
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
        if (!read_tasks(found, &sleep)) {
            return false;
        }
    }
    return sleep;
}

int tasks_that_ran(const tasks *since)
{
    tasks now;
    bool sleep;
    int ran = 0;
    read_tasks(&now, &sleep);
    for (int i = 0; i < now.count; i++) {
        bool same = false;
        for (int k = 0; k < since->count; k++) {
            same |= since->id[k] == now.id[i] && since->switches[k] == now.switches[i];
        }
        ran += !same;
    }
    return ran;
}
