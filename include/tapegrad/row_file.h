/* row_file: a table in a file, which may be larger than memory, trained by row-wise Adagrad.
 *
 * A lookup reads the rows that its ids name, each once, into a leaf, and a step writes those with a gradient back:
 *
 * ```c
 * tg_row_file_config config = tg_row_file_config_default();
 * config.rng = tg_run_rng(run);
 * tg_row_file *table = tg_row_file_new("words.rows", 1000, 4, &config, &error);
 * for (int step = 0; step < 10; step++) {
 *     tg_tape_reset(t);
 *     tg_tensor *loss = tg_sum(t, tg_row_file_lookup(t, table, ids), TG_ALL_AXES, TG_DROP_AXES);
 *     if (!tg_backward(t, loss, NULL) || !tg_row_file_step(table, 0.1, &error)) {
 *         break;
 *     }
 * }
 * tg_row_file_free(table);
 * ```
 *
 * With one lookup per step the training has the bits of a table in memory with tg_adagrad_new and by_rows. With more, a
 * row of several lookups gets the sum of their gradients, which is rounded differently.
 *
 * Memory. Nothing is mapped, and no row is kept from one step to the next; the system's cache has those that were used
 * last. Until the step a lookup of N ids with U different rows takes at most 4 * width * (U + N) + 20 * N bytes, with
 * the gradient of its rows.
 *
 * The file. Its first 4,096 bytes, a page, are a header: the format with the dtype f32, its version, rows, width, eps
 * and the initial s. Then come pages with as many rows as fit, each with its s, the number of row-wise Adagrad, behind
 * its values. No row crosses the end of a page, so a width of at most 1,023 is possible. A row and its s take
 * 4 * (width + 1) bytes, and what is left of a page is unused: nothing at the widths 127, 255, 511 and 1023, 1/20 of it
 * at 64, 1/8 at 128, 1/4 at 256, 1/2 at 512. Processors with another order of the bytes cannot open the file.
 *
 * Durability. A step writes each row and its s by one call, within a page. If the program is killed, each row is old or
 * new, and none is torn; the next run continues with the file as it is. If the whole system stops, rows that it had not
 * yet written to the disk are lost, and a disk may tear a page. A checkpoint (tapegrad/checkpoint.h) does not have the
 * file: a training that continues from one has rows that may be newer.
 *
 * One tg_row_file uses a file at a time.
 */
#ifndef TAPEGRAD_ROW_FILE_H
#define TAPEGRAD_ROW_FILE_H

#include <tapegrad/ops.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tg_row_file tg_row_file;

/* The file keeps the options. */
typedef struct tg_row_file_config {
    /* private: tg_row_file_config_default() sets it */
    tg_config_mark mark;
    /* the generator of the initial values, borrowed; NULL: they are zeros; default NULL */
    tg_rng *rng;
    /* the standard deviation of the initial values, >= 0; default 1 */
    double std;
    /* of row-wise Adagrad (tapegrad/optim.h): the initial s, >= 0; default 0 */
    double initial_accumulator;
    /* of row-wise Adagrad: >= 0; default 1e-8 */
    double eps;
} tg_row_file_config;

TG_API tg_row_file_config tg_row_file_config_default(void);

/* Creates a file with a table (rows,width), and opens it. The values are those of tg_tensor_fill_normal for the whole
 * table. They are written one after the other, so the whole file has its place on the disk before the training begins;
 * a file that could not be completed is removed. Yours to free. NULL after an error, with the generator unchanged: FILE
 * if the path exists, and for every error of the system, such as a full disk; SHAPE unless rows are 1 to INT32_MAX and
 * the width is 1 to 1023; VALUE for an invalid option; MEMORY. */
TG_API tg_row_file *tg_row_file_new(const char *path, int64_t rows, int64_t width, const tg_row_file_config *config,
                                    tg_error *error);

/* Opens a file. Yours to free. NULL after an error: FILE if it cannot be read and written; STATE if it is open already,
 * here or in another program; FORMAT if it is no row file, or has another size than its header says; SHAPE, with both
 * sizes, if its table is not (rows,width); MEMORY. */
TG_API tg_row_file *tg_row_file_open(const char *path, int64_t rows, int64_t width, tg_error *error);

/* Closes the file. Gradients that no step has used are dropped. */
TG_API void tg_row_file_free(tg_row_file *file);

/* Returns the rows that ids name, y[..,:] = table[ids[..],:]: ids (..) i32 -> (..,width) f32, as tg_embedding does. If
 * the tape records, the file keeps the rows and their gradient until the next step. For a bag use the result (N,width)
 * as the table of tg_embedding_bag, with the ids 0, 1, 2, ... Errors are in the run of the tape: RANGE, with the index,
 * for an id outside of the table; DTYPE; FILE if rows cannot be read; FORMAT if the file has become shorter;
 * MEMORY. */
TG_API tg_tensor *tg_row_file_lookup(tg_tape *tape, tg_row_file *file, tg_tensor *ids);

/* Drops the gradients of all lookups since the last step, such as those of a step with a loss that is not a number. */
TG_API void tg_row_file_zero_grad(tg_row_file *file);

/* A step of row-wise Adagrad with the gradients of all lookups that were recorded since the last step, which it drops,
 * also after an error: VALUE unless the learning rate is finite and at least 0; MEMORY; the error of a run of these
 * lookups. After these errors no row has changed. After FILE each row is old or new. */
TG_API bool tg_row_file_step(tg_row_file *file, double lr, tg_error *error);

#ifdef __cplusplus
}
#endif

#endif
