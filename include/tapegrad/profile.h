/* profile: where the time and the memory of a step go.
 * Library: tapegrad_tools (pkg-config tapegrad_tools).
 *
 * ```c
 * tg_profile *profile = tg_profile_new(t);
 * tg_tensor *loss = tg_mse_loss(t, tg_nn_linear_forward(t, &linear, x), y, TG_REDUCTION_MEAN);
 * tg_backward(t, loss, NULL);
 * tg_profile_write(profile, stdout, &error);
 * tg_profile_free(profile);
 * ```
 *
 * prints one line per op, the slowest first. For x (64,256) and 256 outputs:
 *
 *     op                                  calls  forward ms  backward ms   share        bytes
 *     linear                                  1       0.309        0.284   90.7%        65536
 *     mse_loss                                1       0.008        0.053    9.3%            4
 */
#ifndef TAPEGRAD_PROFILE_H
#define TAPEGRAD_PROFILE_H

#include <stdio.h>

#include <tapegrad/tape.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tg_profile tg_profile;

/* One op: all its calls since the profile was created or reset. */
typedef struct tg_profile_row {
    /* the op's name */
    const char *op;
    /* the number of calls; one that backward computes again (tg_activation_checkpoint_begin) counts twice */
    int64_t calls;
    /* the time of its kernels, without the tape's own work */
    double forward_seconds, backward_seconds;
    /* its part of the time of all kernels, in [0,1] */
    double share;
    /* the bytes of its results; a view has none */
    int64_t bytes;
} tg_profile_row;

/* Starts to measure the kernels that the tape runs, forward and backward. Yours to free, before the tape.
 * Measuring takes two readings of the clock per kernel. NULL, with the error in the tape: MEMORY. */
TG_API tg_profile *tg_profile_new(tg_tape *tape);
TG_API void tg_profile_free(tg_profile *profile);

/* Sets all times and counts to 0, for example after a first step that allocated memory. */
TG_API void tg_profile_reset(tg_profile *profile);

/* Returns the number of ops, and op number `index` in the order of the first calls; zeros and a NULL for an index that
 * does not exist. If there are more than 256 ops, the rest is one row, "others". */
TG_API int64_t tg_profile_count(const tg_profile *profile);
TG_API tg_profile_row tg_profile_at(const tg_profile *profile, int64_t index);

/* Writes the table, the slowest op first. FILE if the file cannot be written; STATE for a NULL. */
TG_API bool tg_profile_write(const tg_profile *profile, FILE *file, tg_error *error);

#ifdef __cplusplus
}
#endif

#endif
