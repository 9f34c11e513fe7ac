/* ledger: what every op of a run did, in lines that two runs can be compared by.
 *
 * When two programs that should print the same number do not, the question is which op was the first to differ. A ledger
 * answers it: attach one to a tape, run, and compare the file with that of another run, of another machine, or of the
 * same model in PyTorch (tests/goldens/make_ledger.py writes such a file).
 *
 *     FILE *file = fopen("run.ledger", "w");
 *     tg_ledger *ledger = tg_ledger_new(file, tape, &error);
 *     ... forward passes on the tape ...
 *     tg_ledger_free(ledger);
 *
 * The file: a first line "tapegrad ledger 1", then a line for each op that computed something (views are left out), with
 * nine fields and a tab between two of them:
 *
 *     number     1, 2, 3, ...
 *     op         its name: "matmul"
 *     dtype      of output 0: "f32"
 *     shape      of output 0: "2,4,768"; "-" for a scalar
 *     draws      random numbers that the op took from the tape's generator, in 32-bit outputs
 *     position   of the generator after it: outputs since it was seeded
 *     sum        of output 0's values, added in double                       equal up to rounding between two programs
 *     size       of their absolute values                                    that compute the same
 *     checksum   FNV-1a, 64 bits, of output 0's bytes in row-major order     equal only for equal bits; "-" if not known
 */
#ifndef TAPEGRAD_LEDGER_H
#define TAPEGRAD_LEDGER_H

#include <stdio.h>

#include <tapegrad/tape.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tg_ledger tg_ledger;

/* Writes a line to `file` for each op that the tape runs from now on; the place of the tape's observer is taken
 * (tg_tape_set_observer). The file stays yours. Yours to free, before the tape and the file. NULL, with `error` set, when
 * something is NULL, the first line cannot be written, or memory is out. */
TG_API tg_ledger *tg_ledger_new(FILE *file, tg_tape *tape, tg_error *error);

/* Stops it. False when a line could not be written. True for NULL. */
TG_API bool tg_ledger_free(tg_ledger *ledger);

/* How two ledgers compare. */
typedef enum tg_ledger_verdict {
    TG_LEDGER_EQUAL,     /* every line; sums and sizes agree within the tolerance */
    TG_LEDGER_DIFFERENT, /* `text` names the first op that differs, and in what */
    TG_LEDGER_BAD        /* `text` says which line of which file is no ledger's */
} tg_ledger_verdict;

/* Reads both files from where they are to their end. Sums may differ by tolerance * size, sizes by tolerance * size;
 * checksums are compared when the tolerance is 0. `text` receives at most `size` bytes with a NUL. */
TG_API tg_ledger_verdict tg_ledger_compare(FILE *a, FILE *b, double tolerance, char *text, size_t size);

#ifdef __cplusplus
}
#endif

#endif
