/* find_nan: finds the op that computed the first NaN of a step. Library: tapegrad_tools (pkg-config tapegrad_tools). */
#ifndef TAPEGRAD_FIND_NAN_H
#define TAPEGRAD_FIND_NAN_H

#include <tapegrad/tape.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tg_nan_report {
    /* the number of the recorded op, from 0 */
    int64_t record;
    /* the input of that op that has the NaN; -1 if the NaN is in an output */
    int input;
    /* the flat row-major index of the NaN in that tensor */
    int64_t index;
    /* one line for people, as in the comment of tg_find_nan */
    char text[TG_ERROR_TEXT];
} tg_nan_report;

/* Searches the ops that were recorded since the reset for a NaN. Call it when a loss is NaN, before or after backward.
 * Returns whether a NaN exists, and writes the report, which is optional: the first recorded op whose output has a NaN,
 * and whether the op computed it or an input already had one:
 *
 *     'log' (op 2 of 4) computed a NaN at [1,0] of (2,2), from inputs without one (largest absolute value 8)
 *     input 1 of 'mul' (op 2 of 2), (2,), has a NaN at [1] that no recorded op computed
 *
 * Some results have no values any more: those inside a transformer's block or layer, or a GPT, that backward does not
 * read, and those of a span (tg_activation_checkpoint_begin). If one of them may have had the NaN first, the report
 * also names the first op that may have computed it.
 *
 * If no output has a NaN, the report names an input that has one now, such as a parameter after an optimizer step.
 * Results of ops that were not recorded are examined only as inputs of recorded ops. The call is slow: it reads every
 * value of the step. */
TG_API bool tg_find_nan(const tg_tape *tape, tg_nan_report *report);

#ifdef __cplusplus
}
#endif

#endif
