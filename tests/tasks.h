/* tasks: whether the other threads of this process sleep or run, from Linux's /proc. */
#ifndef TG_TESTS_TASKS_H
#define TG_TESTS_TASKS_H

#include <stdbool.h>

enum { TASKS_MAX = 512 };

/* The other threads, and how often each was switched to. */
typedef struct tasks {
    int count;
    long id[TASKS_MAX];
    long long switches[TASKS_MAX];
} tasks;

/* Waits until all other threads sleep. Returns false without such a /proc, or if they still run after 30 s. */
bool tasks_sleep(tasks *found);

/* Returns the number of other threads that have run since, or are new. */
int tasks_that_ran(const tasks *since);

#endif
