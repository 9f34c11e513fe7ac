/* ledger: a trace of a training, one line per op, to compare two trainings.
 * Library: tapegrad_tools (pkg-config tapegrad_tools).
 *
 * If two trainings should give the same numbers and do not, their ledgers show the first op that differs: those of two
 * versions, on two machines, or of tapegrad and PyTorch. Write a ledger of each of them, and compare the files.
 * tests/goldens/make_ledger.py writes the ledger of a GPT in PyTorch.
 *
 * ```c
 * FILE *file = fopen("first.ledger", "w");
 * tg_ledger *ledger = tg_ledger_open(tape, file);
 * tg_softmax(tape, x, -1);
 * bool is_written = tg_ledger_close(ledger, &error);
 * ```
 *
 * Format. The first line is "tapegrad ledger 1". Each other line is one output of one op; views have no line, because
 * they compute nothing. A line has nine fields with tabs between them:
 *
 *     number     number of the line: 1, 2, 3, ...
 *     op         name of the op: "matmul"; with a number for each output after the first: "topk[1]".
 *                Control characters in it are escaped, as in the text of a tg_error
 *     dtype      dtype of the output: "f32"
 *     shape      shape of the output: "2,4,768"; "-" for a scalar
 *     draws      number of 32-bit outputs that the op drew from the tape's generator; 0 for outputs after the first
 *     position   position of the generator after the op (tg_rng_position)
 *     sum        sum of the output's values, in double: equal up to rounding for equal computations
 *     size       sum of their absolute values, in double
 *     checksum   FNV-1a, 64 bits, of the output's bytes in row-major order: equal only for equal bits; "-": unknown
 *
 * Numbers are written with a decimal point in every locale.
 *
 * To find the first op that differs from PyTorch:
 *
 *   1. Give both programs the same parameters and ids, and set both seeds directly before the forward pass:
 *      torch.manual_seed(7) and tg_rng_seed(rng, 7).
 *   2. In Python, write one line for each op that tapegrad runs, with its name in tapegrad. A torch call that is
 *      several ops here is several lines, and a view is no line. Write "-" as checksum. Dropout draws two numbers per
 *      value.
 *   3. Compare with a tolerance of 1e-5, for the rounding of two libraries in f32: `gpt compare`, or tg_ledger_compare.
 *
 * The first field that differs shows the kind of mistake:
 *
 *     op, shape    the programs differ: an op is missing, or in another order
 *     dtype        a conversion is missing
 *     draws        only one tape was in training mode, or the op draws differently
 *     position     the seeds were set at different points, or something drew between two ops
 *     sum, size    the op computes something else, or reads another parameter; its other inputs were equal
 */
#ifndef TAPEGRAD_LEDGER_H
#define TAPEGRAD_LEDGER_H

#include <stdio.h>

#include <tapegrad/tape.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tg_ledger tg_ledger;

/* Starts to write a line to `file` for each op that the tape runs from now on. Yours to close, before the tape is freed
 * and before the file, which stays yours, is closed. NULL, with the error in the tape: FILE if the first line cannot be
 * written; MEMORY. */
TG_API tg_ledger *tg_ledger_open(tg_tape *tape, FILE *file);

/* Stops writing and frees the ledger. The file stays open. FILE if a line could not be written. True for NULL. */
TG_API bool tg_ledger_close(tg_ledger *ledger, tg_error *error);

typedef struct tg_ledger_difference {
    /* whether no line differs; sums and sizes agree within the tolerance */
    bool is_equal;
    /* the number of equal lines before the first that differs */
    int64_t equal_lines;
    /* one line for people: the first op that differs, and the field in which it differs */
    char text[TG_ERROR_TEXT];
} tg_ledger_difference;

/* Compares two ledgers, from the current positions of the files to their ends, and writes the result to *difference.
 * Returns true even if the ledgers differ. Sums and sizes may differ by tolerance times the larger size; infinities and
 * NaN must be equal. With a tolerance of 0, checksums are compared, too. A ledger that ends earlier than the other
 * differs. False after an error: VALUE for a tolerance that is negative or not finite; FORMAT, with the file and the
 * line, for an invalid line or one that is cut off. */
TG_API bool tg_ledger_compare(FILE *a, FILE *b, double tolerance, tg_ledger_difference *difference, tg_error *error);

#ifdef __cplusplus
}
#endif

#endif
