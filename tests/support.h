/* support: what many tests need. */
#ifndef TG_TESTS_SUPPORT_H
#define TG_TESTS_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <tapegrad.h>

/* An allocator that counts, and that fails on demand. */
typedef struct counting_allocator {
    size_t calls;   /* allocations asked for since the last reset */
    size_t fail_at; /* the number (from 1) of the allocation that fails; 0: none */
    bool fail_on;   /* fail all later ones as well */
    size_t live;    /* blocks given out and not released */
} counting_allocator;

/* Makes the library use it until allocator_restore. */
void allocator_install(counting_allocator *counting);
void allocator_restore(void);

/* From now on: count from 0, and fail number `fail_at` (0: none). */
void allocator_arm(counting_allocator *counting, size_t fail_at, bool fail_on);

/* Shorthands: f32 and f64 tensors from a list, with the shape as sizes. The test fails when they cannot be made. */
tg_tensor *tensor_f32(tg_shape shape, const float *values);
tg_tensor *tensor_f64(tg_shape shape, const double *values);
tg_tensor *tensor_i32(tg_shape shape, const int32_t *values);

/* Makes x collect a gradient, and returns it. */
tg_tensor *leaf(tg_tensor *x);

/* The tape's error has this code and its text contains `part`; then clears it. */
void assert_tape_error(tg_tape *tape, tg_code code, const char *part);
void assert_error(tg_error *error, tg_code code, const char *part);

/* All values within `absolute` + `relative` * |expected|, and of equal count. */
void assert_values(const tg_tensor *x, const double *expected, int64_t count, double relative, double absolute);

#endif
