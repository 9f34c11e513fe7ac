#include "tasks.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Returns whether /proc describes the task. */
static bool read_task(const char *id, task *t)
{
    char path[64], line[256];
    int found = 0;
    snprintf(path, sizeof path, "/proc/self/task/%.20s/status", id);
    FILE *f = fopen(path, "r");
    *t = (task){.id = strtol(id, NULL, 10)};
    while (f && fgets(line, sizeof line, f)) {
        char state;
        if (sscanf(line, "State: %c", &state) == 1) {
            t->is_asleep = state == 'S';
            found++;
        }
        found += sscanf(line, "voluntary_ctxt_switches: %lld", &t->sleeps) == 1;
    }
    if (f) {
        fclose(f);
    }
    return found == 2;
}

static tasks read_tasks(void)
{
    tasks all = {0};
    long own = 0;
    DIR *folder = opendir("/proc/self/task");
    char link[64] = "";
    FILE *f = fopen("/proc/thread-self/stat", "r");
    if (f && fgets(link, sizeof link, f)) {
        own = strtol(link, NULL, 10);
    }
    if (f) {
        fclose(f);
    }
    for (struct dirent *entry; folder && (entry = readdir(folder)) && all.count < TASKS_MAX;) {
        task *t = &all.list[all.count];
        all.count += entry->d_name[0] != '.' && read_task(entry->d_name, t) && t->id != own;
    }
    if (folder) {
        closedir(folder);
    }
    return all;
}

tasks tasks_sleeping(void)
{
    for (int tries = 0;; tries++) {
        tasks all = read_tasks();
        bool is_asleep = true;
        for (int i = 0; i < all.count; i++) {
            is_asleep = is_asleep && all.list[i].is_asleep;
        }
        if (is_asleep || tries == 30000) {
            return all;
        }
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}

void tasks_keep(tasks *some, const tasks *before, const tasks *after, bool slept)
{
    int kept = 0;
    for (int i = 0; i < some->count; i++) {
        long long sleeps[2] = {0, 0};
        for (int k = 0; k < TASKS_MAX; k++) {
            sleeps[0] += k < before->count && before->list[k].id == some->list[i].id ? before->list[k].sleeps : 0;
            sleeps[1] += k < after->count && after->list[k].id == some->list[i].id ? after->list[k].sleeps : 0;
        }
        if ((sleeps[1] > sleeps[0]) == slept) {
            some->list[kept++] = some->list[i];
        }
    }
    some->count = kept;
}
