/* protocol: what a check and its worker send each other. */
#ifndef COURSE_PROTOCOL_H
#define COURSE_PROTOCOL_H

#include <stdbool.h>
#include <stdint.h>

/* The descriptors of the worker: it reads requests, and writes replies. */
#define REQUESTS 3
#define REPLIES 4

#define MAX_ARGUMENTS 16
#define MAX_CALL_NAME 32

typedef enum course_direction {
    /* the function reads the values */
    COURSE_IN,
    /* it writes them; they are NaN before */
    COURSE_OUT,
    /* it reads and writes them */
    COURSE_INOUT
} course_direction;

/* The values of the IN and INOUT arguments follow. */
typedef struct course_request {
    char name[MAX_CALL_NAME];
    int32_t count;
    int32_t directions[MAX_ARGUMENTS];
    int64_t bytes[MAX_ARGUMENTS];
} course_request;

/* A reply begins with this, an int64_t. The values of the OUT and INOUT arguments follow. */
#define REPLY_MARK INT64_C(0x74617065)

/* The exit status of a worker that the kernel does not let seal itself. */
#define WORKER_NOT_SEALED 4

#endif
