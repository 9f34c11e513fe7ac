/* base: the version, errors, configs, memory and threads.
 *
 * Four rules hold for the whole library:
 *   - It never prints, exits or aborts. Errors are values that a program reads.
 *   - A call that fails changes nothing: tensors and the state of the random generator remain as they were.
 *   - Any pointer may be NULL. A getter then returns 0, NULL or an empty value, and a call that can fail reports STATE,
 *     unless its comment calls the argument optional. Calls that cannot fail, such as _free and tg_release, then do
 *     nothing.
 *   - The only process-wide state is in this header: the allocator, the number of threads and the CPU level.
 */
#ifndef TAPEGRAD_BASE_H
#define TAPEGRAD_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __FAST_MATH__
#error "tapegrad's numbers need IEEE arithmetic: compile without -ffast-math (and without -Ofast)"
#endif

/* TG_API: a function that is exported (not in Windows: static). TG_PRINTF_LIKE: its format is as in C's printf. */
#if defined __GNUC__ && !defined _WIN32
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
#define TG_VERSION_MINOR 3
#define TG_VERSION_PATCH 0
#define TG_VERSION_STRING "0.3.0"

/* Returns the version of the library that is running. TG_VERSION_STRING is the version of the headers that the program
 * was compiled with. */
TG_API const char *tg_version(void);

/* ---- errors -------------------------------------------------------------------------------------------------- */
/* A call that fails returns false or NULL, or the value that its comment names, and sets an error. Its arguments show
 * which one:
 *
 *   - A call that takes a tape sets the error of the tape's run (tapegrad/run.h), and looks at no other.
 *   - A call on params, an optimizer, a module, a model or a loader sets the error of the run of its params or loader.
 *   - Calls that read or write files, tg_gradcheck_params, those of tapegrad_mpi.h, and calls on no such object take
 *     a `tg_error *` as their last argument, which is optional (NULL).
 *
 * The first error stays until it is cleared, and later ones are dropped, because the first one explains them. While a
 * run has an error,
 *
 *   these do nothing:      ops and modules, backward, clipping, zeroing gradients, steps, tg_loader_next, and all that
 *                          adds to params, creates an optimizer or a model, or changes one. They return NULL or false
 *   these refuse, with     calls on objects of the run that take a tg_error; only the collective calls of
 *   a copy of the error:   tapegrad_mpi.h take part, and tell the other ranks
 *   these work as always:  frees, resets, every _end, switches, getters, printing, watches (tg_ledger, tg_profile,
 *                          tg_graph), tg_run_new_stream and tg_optim_flush
 *   these know no run:     calls that take a tg_rng, or a tensor and a tg_error
 *
 * The constructors of tapes, params and loaders return an object even if they fail, and NULL only when memory is
 * exhausted. Such an object refuses every call; once the error is cleared, with STATE: "the loader was not made". All
 * other constructors return NULL. If an object is NULL, its _error function returns an error, too.
 *
 * A call that succeeds does not clear a `tg_error`, so check what the call returns, and not the code. A failure that
 * the program accepts stays in it, too, and would hide a later one. So give a call that may fail a tg_error of its own,
 * or clear it afterwards (tg_error_clear):
 *
 * ```c
 * tg_error refusal = TG_NO_ERROR;
 * if (!tg_params_load(params, "last.safetensors", NULL, &refusal)) {
 *     printf("begin with a new model: %s\n", refusal.text);
 * }
 * tg_params_save(params, "last.safetensors", NULL, &error);
 * ```
 */

typedef enum tg_code {
    TG_OK = 0,
    /* memory is exhausted, or a number of bytes is larger than any memory */
    TG_ERROR_MEMORY,
    /* ranks or sizes that do not match, or are not allowed */
    TG_ERROR_SHAPE,
    /* a dtype that the call does not accept, or a mix of dtypes: no dtype is promoted */
    TG_ERROR_DTYPE,
    /* an id, index or axis outside of its bounds */
    TG_ERROR_RANGE,
    /* an argument or option with an invalid value */
    TG_ERROR_VALUE,
    /* a valid call at the wrong time, or with a NULL */
    TG_ERROR_STATE,
    /* the operating system refused a file */
    TG_ERROR_FILE,
    /* a file or text whose contents are invalid */
    TG_ERROR_FORMAT
} tg_code;

/* The size of an error's text in bytes, its NUL included. A longer text is cut. */
#define TG_ERROR_TEXT 400

/* A code for programs, and one sentence for people with the call, the offending value and what is allowed: "embedding:
 * id 50257 at [3,1] is outside [0,50257)". The text is one line of UTF-8. A message may quote a name from a file, a
 * path or a text of the caller. In the quotation a newline is "\n". Bytes of other control characters, and bytes that
 * are not UTF-8, are "\xNN". So a message can be printed on a terminal. */
typedef struct tg_error {
    tg_code code;
    char text[TG_ERROR_TEXT];
    /* the place in a text or file that is invalid, which the sentence names, too: its line, from 1, and the offset of
     * its byte. Either is -1 if the error has none */
    int64_t line, byte;
} tg_error;

/* The initial value: `tg_error error = TG_NO_ERROR;` */
#define TG_NO_ERROR        \
    {                      \
        TG_OK, {0}, -1, -1 \
    }

/* Sets the code to TG_OK and the text to "", without a place. */
TG_API void tg_error_clear(tg_error *error);

/* ---- texts ------------------------------------------------------------------------------------------------------- */

/* Frees a text or an array of bytes whose comment says that it is yours to free. */
TG_API void tg_text_free(char *text);

/* ---- configs ------------------------------------------------------------------------------------------------- */
/* The options of tg_x, tg_x_new or tg_x_make are a struct tg_x_config. It is the last argument, or the last before a
 * tg_error. NULL means the defaults. Otherwise start with tg_x_config_default(), and then set fields:
 *
 * ```c
 * tg_adam_config config = tg_adam_config_default();
 * config.lr = 0.01;
 * tg_optim *adam = tg_adam_new(params, &config);
 * ```
 *
 * Each config begins with a mark that only its own default function sets. Without this mark (a struct of zeros, an
 * initializer, the config of another call) a call reports VALUE, and the error names the default function.
 *
 * The comment of a field ends with its default. A size without a sensible default "must be set": it is 0 in the
 * default config, and the call refuses 0 with an error that names the field. */
typedef const char *tg_config_mark;

/* ---- memory -------------------------------------------------------------------------------------------------- */

/* The source of the library's memory. `allocate` returns a block of `bytes` (> 0) bytes, aligned to `alignment` (a
 * power of two, at most 64), or NULL. `release` takes a block back; it never receives NULL. Both receive `context`.
 * Both are called from every thread that uses the library, so they must be thread-safe. BLAS and the C library allocate
 * their own memory. */
typedef struct tg_allocator {
    void *(*allocate)(void *context, size_t bytes, size_t alignment);
    void (*release)(void *context, void *block);
    void *context;
} tg_allocator;

/* Sets the allocator. NULL restores the default: malloc, calloc and free, and on Linux a request for huge pages for
 * blocks from 16 MiB on (madvise). With the default, the zeros of a large new tensor take no memory before they are
 * used. Call it only while no object of the library exists, because each block must return to the allocator that it
 * came from. */
TG_API void tg_set_allocator(const tg_allocator *allocator);

/* ---- threads ------------------------------------------------------------------------------------------------- */
/* The library starts its threads in the first call that uses them, and they stay until the process ends. So the library
 * cannot be unloaded: after dlclose it stays in memory, and a later dlopen finds it with its state (-z nodelete, on
 * systems with ELF). If your own shared library contains the static library, link it with this flag, too.
 */

/* Sets the number of threads that a call may use. RANGE unless it is 1 to 256. The default is the number of processors
 * that the process may run on, and under Linux at most as many as a container's limit on their time (cgroup) allows. No
 * more threads run a loop than that, also if the number is larger: it then has more parts than threads. The number
 * changes no bit of a result, except of matrix products by BLAS, whose blocks depend on it (see tg_matmul_backend). The
 * processors are counted here, and in the first call that uses threads. Not thread-safe: call it while no other thread
 * is inside the library. */
TG_API bool tg_set_threads(int threads, tg_error *error);

/* Returns the number of threads that a call may use. */
TG_API int tg_threads(void);

/* ---- matrix products ----------------------------------------------------------------------------------------- */

/* What computes matrix products in f32 and f64: BLAS, or the library's own loops. Either is called by the library's
 * threads, each with a block of the result. So each product sets the number of BLAS's own threads to one, for the rest
 * of the program, too.
 *
 * The built-in loops are nearly as fast as OpenBLAS for large matrices, and slower for a single row (measured in
 * tests/bench/README.md). Each value of a product A B is computed in one order, whatever the other sizes, the number of
 * threads and the vector instructions are: the terms a_ik b_kj are divided into blocks of 384; in each they are added
 * to 0 one by one, by fused multiply-adds; and the sums of the blocks are added from the first to the last. On a
 * processor without fused multiply-adds, and at the baseline of x86-64 (tg_cpu_level), products are rounded before they
 * are added, unless the tape's products are reproducible (tg_tape_set_reproducible). The last bits of OpenBLAS
 * depend on its version, the processor, the sizes and the number of threads.
 *
 * The built-in loops always compute reproducible products, those of a single row or column, and the steps of a GRU and
 * an LSTM, which read a copy of the weight that is made once. Beside BLAS, up to 16 rows are multiplied by the
 * transpose of a matrix, such as a weight, in loops of another order.
 */
typedef enum tg_matmul_backend {
    /* BLAS if its kernels use the vector instructions of the level (tg_get_cpu_level), else the built-in loops; the
     * default. An OpenBLAS that is older than the processor takes kernels of an older one */
    TG_BACKEND_AUTO,
    TG_BACKEND_BLAS,
    TG_BACKEND_BUILTIN
} tg_matmul_backend;

/* Sets the backend for the whole process. VALUE for TG_BACKEND_BLAS in a build without BLAS (-Dblas=builtin); STATE
 * after the first product or tg_get_matmul_backend, if it has chosen another one. */
TG_API bool tg_set_matmul_backend(tg_matmul_backend backend, tg_error *error);

/* Returns the backend, TG_BACKEND_BLAS or TG_BACKEND_BUILTIN, after choosing it if no call has done so before. */
TG_API tg_matmul_backend tg_get_matmul_backend(void);

/* The BLAS of the build (-Dblas). */
typedef struct tg_blas {
    /* "OpenBLAS", "BLIS", "FlexiBLAS", "MKL", "Accelerate", or the name that the build was given; "" in a build without
     * BLAS */
    char library[32];
    /* of the library that is loaded: "0.3.21"; "" if it does not report one */
    char version[32];
    /* the processor that its kernels are written for, by the library's name for it: "Cooperlake"; of FlexiBLAS, the
     * library behind it; "" if the library does not report it */
    char kernels[64];
    /* the largest number of threads of a product: 1 if the library was compiled without threads, 0 if it does not
     * report it */
    int most_threads;
} tg_blas;

/* Returns the BLAS that is loaded. */
TG_API tg_blas tg_get_blas(void);

/* ---- vector instructions ------------------------------------------------------------------------------------- */

/* The vector instructions that kernels use. On processors other than x86-64 the baseline is the only level. */
typedef enum tg_cpu_level {
    /* those that every processor of the architecture has */
    TG_CPU_BASELINE,
    /* AVX2 and FMA */
    TG_CPU_AVX2,
    /* AVX-512 F, BW, DQ and VL: for matrix products, softmax, cross-entropy and recurrent layers. The rest is that of
     * TG_CPU_AVX2 */
    TG_CPU_AVX512
} tg_cpu_level;

/* Returns "baseline", "avx2" or "avx512"; "unknown" for a number that is not a level. */
TG_API const char *tg_cpu_level_name(tg_cpu_level level);

/* Sets the level for the whole process. The default is the highest level of the processor, or the environment variable
 * TG_CPU_LEVEL: baseline, avx2 or avx512. The level changes no bit of a result, except of matrix products that are not
 * reproducible: BLAS chooses its own level, and the built-in loops are fused from AVX2 on (tg_matmul_backend).
 * VALUE for a level that the processor or the build does not have. If TG_CPU_LEVEL names such a level, every new tape
 * reports this. STATE while a tape exists. Not thread-safe: call it while no other thread is inside the library. */
TG_API bool tg_set_cpu_level(tg_cpu_level level, tg_error *error);

/* Returns the level in use. */
TG_API tg_cpu_level tg_get_cpu_level(void);

#ifdef __cplusplus
}
#endif

#endif
