/* ledger: what every op of a run did, in lines that two runs can be compared by.
 *
 * When two programs that should print the same number do not, the question is which op was the first to differ. A
 * ledger answers it: attach one to a tape, run, and compare the file with that of another run, of another machine, or
 * of the same model in PyTorch (tests/goldens/make_ledger.py writes such a file).
 *
 *     FILE *file = fopen("run.ledger", "w");
 *     tg_ledger *ledger = tg_ledger_new(file, tape, &error);
 *     ... forward passes on the tape ...
 *     tg_ledger_free(ledger);
 *
 * The file: a first line "tapegrad ledger 1", then a line for each output of each op that computed something (views are
 * left out), with nine fields and a tab between two of them:
 *
 *     number     of the line: 1, 2, 3, ...
 *     op         its name: "matmul"; for an output after the first its number as well: "topk[1]"
 *     dtype      of the output: "f32"
 *     shape      of the output: "2,4,768"; "-" for a scalar
 *     draws      random numbers that the op took from the tape's generator, in 32-bit outputs; noted once
 *     position   of the generator after it: outputs since it was seeded
 *     sum        of the output's values, added in double: equal up to rounding in two programs that compute the same
 *     size       of their absolute values, added in double: likewise
 *     checksum   FNV-1a, 64 bits, of the output's bytes in row-major order: equal for equal bits alone; "-": not known
 *
 * To find where a run leaves PyTorch's:
 *
 *   1. Give both the same parameters and ids, and seed both just before the forward pass: torch.manual_seed(7) and
 *      tg_rng_seed(rng, 7).
 *   2. In Python write one line for each op that tapegrad runs, under its name here. A torch call that is several ops
 *      here is several lines, and a view is none. Checksums are "-", and a dropout draws two a value.
 *      tests/goldens/make_ledger.py does so for a GPT.
 *   3. Compare with a tolerance of 1e-5, the rounding of two libraries in f32: `gpt compare`, or tg_ledger_compare.
 *
 * What is named first tells what to look at:
 *
 *     op, shape         the programs differ: an op missing, or in another order
 *     dtype             a conversion is missing
 *     draws             one was in training mode, or draws in another way
 *     position          the seeds are in other places, or somebody drew between two ops
 *     sum, size     the op computes something else, or a parameter that it reads is different: the inputs were equal
 */
#ifndef TAPEGRAD_LEDGER_H
#define TAPEGRAD_LEDGER_H

#include <stdio.h>

#include <tapegrad/tape.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tg_ledger tg_ledger;

/* Writes what each op does that the tape runs from now on; the place of the tape's observer is taken, and with it that
 * of an earlier ledger (tg_tape_set_observer). The file stays yours. Yours to free, before the tape and the file. NULL,
 * with `error` set, when something is NULL, the first line cannot be written, or memory is out. */
TG_API tg_ledger *tg_ledger_new(FILE *file, tg_tape *tape, tg_error *error);

/* Stops it. False when a line could not be written. True for NULL. */
TG_API bool tg_ledger_free(tg_ledger *ledger);

/* How two ledgers compare. */
typedef enum tg_ledger_verdict {
    TG_LEDGER_EQUAL,     /* every line; sums and sizes agree within the tolerance */
    TG_LEDGER_DIFFERENT, /* `text` names the first op that differs, and in what */
    TG_LEDGER_BAD        /* `text` says which line of which file is no ledger's, or which argument is none */
} tg_ledger_verdict;

/* Reads both files from where they are to their end. Sums and sizes may differ by tolerance * the larger size;
 * infinities and NaN must be the same. The tolerance is finite and at least 0; at 0 checksums are compared as well. A
 * file that was cut off inside a line is BAD; one that ends early at a line's end is DIFFERENT. `text` receives at most
 * `size` bytes with a NUL. */
TG_API tg_ledger_verdict tg_ledger_compare(FILE *a, FILE *b, double tolerance, char *text, size_t size);

#ifdef __cplusplus
}
#endif

#endif
