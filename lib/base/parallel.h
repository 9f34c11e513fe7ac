/* parallel: the threads behind tg_parallel_for (public in tapegrad/op.h, because users' kernels call it too). */
#ifndef TG_BASE_PARALLEL_H
#define TG_BASE_PARALLEL_H

#include <tapegrad/base.h>

/* The smallest range, in values, that is worth the wake-up of a thread. */
#define TG_GRAIN 16384

/* The body of a loop. */
typedef void loop_body(void *context, int64_t begin, int64_t end);

/* A number of the thread, 0 at first, that a loop passes on to the threads that run it. */
extern _Thread_local int tg_thread_mode;

TG_API void tg_parallel_for(int64_t count, int64_t grain, loop_body *body, void *context);

#endif
