/* tasks: which other threads of this process have slept, as Linux counts it in /proc/self/task. */
#ifndef TG_TESTS_TASKS_H
#define TG_TESTS_TASKS_H

#include <stdbool.h>

#define TASKS_MAX 512

/* A thread of this process, except the one that reads. */
typedef struct task {
    long id;
    long long sleeps; /* how often it has gone to sleep */
    bool is_asleep;
} task;

typedef struct tasks {
    int count; /* 0 without such a /proc */
    task list[TASKS_MAX];
} tasks;

/* Waits until all tasks sleep, for thirty seconds at most, and returns them. */
tasks tasks_sleeping(void);

/* Keeps the tasks of `some` that have slept between `before` and `after`, or with `slept` false those that have not. */
void tasks_keep(tasks *some, const tasks *before, const tasks *after, bool slept);

#endif
