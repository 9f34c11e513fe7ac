/* worker: reads calls from descriptor 3, runs them, and writes their results to descriptor 4. */
#include "worker.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "protocol.h"

/* AddressSanitizer's, if the student's file is compiled with it. */
void __asan_poison_memory_region(void const volatile *memory, size_t bytes) __attribute__((weak));
void __asan_unpoison_memory_region(void const volatile *memory, size_t bytes) __attribute__((weak));

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* Whether the worker is graded: the kernel then guards what is forbidden. */
static bool is_sealed;

/* Whether memory can no longer be returned to the system, so that this call is the last. */
static bool is_last;

#define MAX_FORBIDDEN 64
static struct {
    const char *memory;
    size_t bytes;
} forbidden[MAX_FORBIDDEN];
static int forbidden_count;

/* Whole pages get no access. Nothing can undo it: the process has to end behind the call. */
static void forbid(const void *memory, size_t bytes)
{
    if (forbidden_count < MAX_FORBIDDEN && __asan_poison_memory_region) {
        forbidden[forbidden_count].memory = memory;
        forbidden[forbidden_count++].bytes = bytes;
        __asan_poison_memory_region(memory, bytes);
    }
    if (is_last && mprotect((void *)(uintptr_t)memory, bytes, PROT_NONE) != 0) {
        _exit(3);
    }
}

void forbid_rows(const double *table, int rows, int width, const int *ids, int count)
{
    size_t bytes = (size_t)width * sizeof *table;
    is_last = is_sealed && bytes % (size_t)sysconf(_SC_PAGESIZE) == 0;
    for (int row = 0; row < rows; row++) {
        int uses = 0;
        for (int i = 0; i < count; i++) {
            uses += ids[i] == row;
        }
        if (uses == 0) {
            forbid(table + (ptrdiff_t)row * width, bytes);
        }
    }
    if (is_last && !seal(false)) {
        _exit(3);
    }
}

void copy_rows(const double *table, int width, const int *ids, int count, double *rows)
{
    for (int i = 0; i < count; i++) {
        memcpy(rows + (ptrdiff_t)i * width, table + (ptrdiff_t)ids[i] * width, (size_t)width * sizeof *rows);
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
        /* whole pages begin at one (forbid_rows) */
        size_t page = (size_t)sysconf(_SC_PAGESIZE);
        if (posix_memalign(&arguments[i], bytes % page == 0 ? page : 16, bytes > 0 ? bytes : 1) != 0) {
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
            call->run(arguments);
            break;
        }
    }
    fflush(stdout);
    allow_all();
    const int64_t mark = REPLY_MARK;
    reply(&mark, sizeof mark);
    for (int i = 0; i < request->count; i++) {
        if (request->directions[i] != COURSE_IN) {
            reply(arguments[i], (size_t)request->bytes[i]);
        }
    }
    for (int i = 0; !is_last && i < request->count; i++) {
        free(arguments[i]);
    }
}

/* The library's, if the file is linked with it: a process may have few threads where it is graded. */
bool tg_set_threads(int threads, void *error) __attribute__((weak));

/* worker [sealed] */
int main(int argc, char **argv)
{
    if (tg_set_threads) {
        tg_set_threads(1, NULL);
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    is_sealed = argc > 1 && strcmp(argv[1], "sealed") == 0;
    if (is_sealed && !seal(true)) {
        _exit(WORKER_NOT_SEALED);
    }
    for (course_request request;;) {
        receive(&request, sizeof request);
        serve(&request);
    }
}
