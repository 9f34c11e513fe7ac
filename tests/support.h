/* support: shared by the tests: a counting allocator, tensors from lists, and assertions on errors and values. */
#ifndef TG_TESTS_SUPPORT_H
#define TG_TESTS_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <tapegrad.h>
#include <tapegrad/extend.h>
#include <tapegrad_text.h>
#include <tapegrad_tools.h>

#ifdef __cplusplus
extern "C" {
#endif

#include <cmocka.h>

/* Frees a block of aligned_alloc. */
#if !defined aligned_free
#define aligned_free free
#endif

/* An allocator that counts, and that fails on demand. */
typedef struct counting_allocator {
    size_t calls;   /* allocations since allocator_install or allocator_arm */
    size_t fail_at; /* the number (from 1) of the allocation that fails; 0: none */
    bool fail_on;   /* fail all later ones as well */
    size_t live;    /* blocks allocated and not released */
} counting_allocator;

/* Sets the library's allocator until allocator_restore. */
void allocator_install(counting_allocator *counting);
void allocator_restore(void);

/* Counts from 0 again, and lets allocation number `fail_at` fail (0: none), with `fail_on` also all later ones. */
void allocator_arm(counting_allocator *counting, size_t fail_at, bool fail_on);

/* An allocator that measures. */
typedef struct metered_allocator {
    size_t now, most; /* bytes */
} metered_allocator;

/* Sets the library's allocator until allocator_restore. */
void allocator_measure(metered_allocator *meter);

/* Return a tensor with the values of an array. The test fails if it cannot be created. */
tg_tensor *tensor_f32(tg_shape shape, const float *values);
tg_tensor *tensor_f64(tg_shape shape, const double *values);
tg_tensor *tensor_i32(tg_shape shape, const int32_t *values);

/* Sets x to require a gradient, and returns it. */
tg_tensor *leaf(tg_tensor *x);

/* Clear the error of the run of an object. */
void clear_tape_error(tg_tape *tape);
void clear_params_error(tg_params *params);
void clear_optim_error(tg_optim *optim);
void clear_loader_error(tg_loader *loader);

/* Returns the error of the run of an optimizer. */
const tg_error *optim_error(const tg_optim *optim);

/* Asserts that the error has this code and that its text contains `part`; then clears it. */
void assert_tape_error(tg_tape *tape, tg_code code, const char *part);
void assert_params_error(tg_params *params, tg_code code, const char *part);
void assert_optim_error(tg_optim *optim, tg_code code, const char *part);
void assert_error(tg_error *error, tg_code code, const char *part);

/* Resizes each parameter to 1, and to one row less and more and twice as many as it has, and calls a function of a
 * gradient check, which must report SHAPE or RANGE. `may` names parameters after whose resize it may work. */
void assert_resizes_are_seen(tg_params *params, tg_gradcheck_function call, void *context, tg_tensor *const *inputs,
                             int count, const char *may);

/* All values within `absolute` + `relative` * |expected|, and of equal count. */
void assert_values(const tg_tensor *x, const double *expected, int64_t count, double relative, double absolute);

/* fread for numbers that a file has in little-endian order, as the golden files do. */
size_t read_little_endian(void *numbers, size_t size, size_t count, FILE *file);

#ifdef __cplusplus
}
#endif

#endif
