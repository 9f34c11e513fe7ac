/* memory: how much memory a process and its descendants use, from Linux's /proc. */
#include "memory.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MAX_PROCESSES 4096

typedef struct process {
    pid_t id, parent;
    int64_t pages;
    bool is_below;
} process;

/* Reads "/proc/ID/stat": "ID (name) state parent ...", of which the 24th field is the pages in memory. */
static bool read_process(const char *name, process *p)
{
    char path[64], line[1024];
    snprintf(path, sizeof path, "/proc/%.20s/stat", name);
    FILE *file = fopen(path, "r");
    bool is_read = file && fgets(line, sizeof line, file);
    if (file) {
        fclose(file);
    }
    /* the name may have parentheses and blanks */
    char *field = is_read ? strrchr(line, ')') : NULL;
    if (!field) {
        return false;
    }
    *p = (process){.id = (pid_t)atoi(name)};
    int number = 2;
    for (char *word = strtok(field + 1, " "); word; word = strtok(NULL, " ")) {
        number++;
        if (number == 4) {
            p->parent = (pid_t)atoi(word);
        } else if (number == 24) {
            p->pages = atoll(word);
        }
    }
    return number >= 24;
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
    int64_t pages = 0;
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
        pages += all[i].is_below ? all[i].pages : 0;
    }
    return pages * sysconf(_SC_PAGESIZE);
}

int64_t milliseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}
