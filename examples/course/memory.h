/* memory: read from outside of the processes that use it, by the clock. */
#ifndef COURSE_MEMORY_H
#define COURSE_MEMORY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Returns the bytes of memory that a process and its descendants use. Memory that two of them share counts twice. */
int64_t memory_below(pid_t ancestor);
/* Whether the kernel lists the children of a process, without which the memory below one is that of itself alone. */
bool memory_can_be_read(void);
/* Milliseconds of a clock that only goes forward. */
int64_t milliseconds(void);

#endif
