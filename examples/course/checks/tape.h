/* tape: the tapes of the course, for the checker and the worker. */
#ifndef COURSE_TAPE_H
#define COURSE_TAPE_H

#include <tapegrad.h>

/* Returns a new tape that detects a result which is used after a reset. */
static inline tg_tape *careful_tape(tg_run *run)
{
    tg_tape_config config = tg_tape_config_default();
    config.detect_freed_results = true;
    return tg_tape_new(run, &config);
}

#endif
