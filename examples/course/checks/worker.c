/* worker: reads calls from descriptor 3, runs them, and writes their results to descriptor 4. */
#include "worker.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "protocol.h"

#if defined __SANITIZE_ADDRESS__
#define HAS_ADDRESS_SANITIZER 1
#elif defined __has_feature
#if __has_feature(address_sanitizer)
#define HAS_ADDRESS_SANITIZER 1
#endif
#endif

#ifdef HAS_ADDRESS_SANITIZER
void __asan_poison_memory_region(void const volatile *memory, size_t bytes);
void __asan_unpoison_memory_region(void const volatile *memory, size_t bytes);
#else
#define __asan_poison_memory_region(memory, bytes) ((void)(memory), (void)(bytes))
#define __asan_unpoison_memory_region(memory, bytes) ((void)(memory), (void)(bytes))
#endif

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static bool is_counting;
static int64_t allocations, allocated_bytes;

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);

static void count(size_t bytes)
{
    if (is_counting) {
        allocations++;
        allocated_bytes += (int64_t)bytes;
    }
}

/* The linker replaces the student's calls by these (--wrap). */
void *__wrap_malloc(size_t size)
{
    count(size);
    return __real_malloc(size);
}

void *__wrap_calloc(size_t number, size_t size)
{
    count(number * size);
    return __real_calloc(number, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    count(size);
    return __real_realloc(old, size);
}

#define MAX_FORBIDDEN 64
static struct {
    const void *memory;
    size_t bytes;
} forbidden[MAX_FORBIDDEN];
static int forbidden_count;

void forbid(const void *memory, size_t bytes)
{
    if (forbidden_count < MAX_FORBIDDEN) {
        forbidden[forbidden_count].memory = memory;
        forbidden[forbidden_count++].bytes = bytes;
        __asan_poison_memory_region(memory, bytes);
    }
}

static void allow_all(void)
{
    while (forbidden_count > 0) {
        forbidden_count--;
        __asan_unpoison_memory_region(forbidden[forbidden_count].memory, forbidden[forbidden_count].bytes);
    }
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

/* Both end the process where the other side has gone. */
static void receive(void *to, size_t bytes)
{
    for (char *at = to; bytes > 0;) {
        ssize_t got = read(REQUESTS, at, bytes);
        if (got <= 0) {
            _exit(0);
        }
        at += got;
        bytes -= (size_t)got;
    }
}

static void reply(const void *from, size_t bytes)
{
    for (const char *at = from; bytes > 0;) {
        ssize_t put = write(REPLIES, at, bytes);
        if (put <= 0) {
            _exit(0);
        }
        at += put;
        bytes -= (size_t)put;
    }
}

static void serve(const course_request *request)
{
    void *arguments[MAX_ARGUMENTS];
    for (int i = 0; i < request->count; i++) {
        size_t bytes = (size_t)request->bytes[i];
        arguments[i] = __real_malloc(bytes > 0 ? bytes : 1);
        if (!arguments[i]) {
            fprintf(stderr, "worker: out of memory\n");
            _exit(3);
        }
        if (request->directions[i] == COURSE_OUT) {
            memset(arguments[i], 0xff, bytes); /* NaN */
        } else {
            receive(arguments[i], bytes);
        }
    }
    for (const course_call *call = course_calls; call->name; call++) {
        if (strcmp(call->name, request->name) == 0) {
            allocations = allocated_bytes = 0;
            is_counting = true;
            call->run(arguments);
            is_counting = false;
            break;
        }
    }
    fflush(stdout);
    allow_all();
    course_reply head = {REPLY_MARK, allocations, allocated_bytes};
    reply(&head, sizeof head);
    for (int i = 0; i < request->count; i++) {
        if (request->directions[i] != COURSE_IN) {
            reply(arguments[i], (size_t)request->bytes[i]);
        }
        free(arguments[i]);
    }
}

/* The library's, if the file is linked with it: a process may have few threads where it is graded. */
bool tg_set_threads(int threads, void *error) __attribute__((weak));

int main(void)
{
    if (tg_set_threads) {
        tg_set_threads(1, NULL);
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (course_request request;;) {
        receive(&request, sizeof request);
        serve(&request);
    }
}
