/* base: errors, memory, threads and the version.
 *
 * Three rules hold in the whole library:
 *   - nothing here prints, exits or aborts: what went wrong is a value that you can read;
 *   - a call that fails has changed nothing;
 *   - the only state of the process is in this header: the allocator and the number of threads.
 */
#ifndef TAPEGRAD_BASE_H
#define TAPEGRAD_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __FAST_MATH__
#error "tapegrad's numbers need IEEE arithmetic: compile without -ffast-math (and without -Ofast)"
#endif

#if defined __GNUC__
#define TG_API __attribute__((visibility("default")))
#define TG_PRINTF_LIKE(text, first) __attribute__((format(printf, text, first)))
#else
#define TG_API
#define TG_PRINTF_LIKE(text, first)
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- version ------------------------------------------------------------------------------------------------- */

#define TG_VERSION_MAJOR 0
#define TG_VERSION_MINOR 1
#define TG_VERSION_PATCH 0
#define TG_VERSION_STRING "0.1.0"

/* The version of the library that is running; TG_VERSION_STRING is the one you compiled against. */
TG_API const char *tg_version(void);

/* ---- errors -------------------------------------------------------------------------------------------------- */

typedef enum tg_code {
    TG_OK = 0,
    TG_ERROR_MEMORY, /* an allocation failed, or a size does not fit into memory */
    TG_ERROR_SHAPE,  /* ranks or sizes that do not go together */
    TG_ERROR_DTYPE,  /* a dtype that the call does not take, or two that differ: nothing is promoted */
    TG_ERROR_RANGE,  /* an id, index or axis outside of what it points into */
    TG_ERROR_VALUE,  /* an option or argument with a value that means nothing */
    TG_ERROR_STATE,  /* the right call at the wrong time: a second backward, a NULL tensor */
    TG_ERROR_FILE,   /* the system refused a file */
    TG_ERROR_FORMAT  /* a file or a text that is not what it should be */
} tg_code;

#define TG_ERROR_TEXT 400

/* A code for programs and a sentence for people. Start from TG_NO_ERROR. The first error stays: later ones are dropped
 * until it is cleared, because the first is the one that explains the others. */
typedef struct tg_error {
    tg_code code;
    char text[TG_ERROR_TEXT];
} tg_error;

#define TG_NO_ERROR \
    {               \
        TG_OK,      \
        {           \
            0       \
        }           \
    }

/* Records an error unless one is there already; `error` may be NULL. Returns false, so that a check can end with
 * `return tg_error_set(...)`. A text that is too long is cut. */
TG_API bool tg_error_set(tg_error *error, tg_code code, const char *format, ...) TG_PRINTF_LIKE(3, 4);

TG_API void tg_error_clear(tg_error *error);

/* "shape", "range" ...: the name of a code. */
TG_API const char *tg_code_name(tg_code code);

/* ---- memory -------------------------------------------------------------------------------------------------- */

/* Where all memory of the library comes from. `allocate` returns a block of `bytes` (> 0), aligned to `alignment` (a
 * power of two up to 64), or NULL; `release` gets blocks back (never NULL). Both are called from any thread that uses
 * the library. OpenBLAS keeps its own memory and is not reached by this. */
typedef struct tg_allocator {
    void *(*allocate)(void *context, size_t bytes, size_t alignment);
    void (*release)(void *context, void *block);
    void *context;
} tg_allocator;

/* Sets the allocator; NULL brings back the default (aligned_alloc and free). Only while no object of the library
 * exists: a block has to go back to where it came from. */
TG_API void tg_set_allocator(const tg_allocator *allocator);

/* ---- threads ------------------------------------------------------------------------------------------------- */

/* How many threads an op may use, OpenBLAS's included: 1 or more, and at most 256. The default is the number of
 * processors that the process may run on. Everything but matrix products gives the same bits for every number;
 * OpenBLAS promises that only for one and the same number. Returns false, and changes nothing, outside of 1..256.
 * Not while another thread is inside the library. */
TG_API bool tg_set_threads(int threads);

TG_API int tg_threads(void);

#ifdef __cplusplus
}
#endif

#endif
