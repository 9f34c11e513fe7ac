/* tensorboard: curves, histograms and embeddings for TensorBoard, as torch.utils.tensorboard.SummaryWriter writes them.
 * Library: tapegrad_tools (pkg-config tapegrad_tools).
 *
 * ```c
 * tg_tensorboard *log = tg_tensorboard_open("runs/first", &error);
 * tg_tensorboard_add_scalar(log, "loss/train", 0.5, 1, &error);
 * for (int64_t i = 0; i < tg_params_count(params); i++) {
 *     tg_entry entry = tg_params_at(params, i);
 *     tg_tensorboard_add_histogram(log, entry.name, entry.tensor, 1, &error);
 * }
 * tg_tensorboard_free(log);
 * ```
 *
 * `tensorboard --logdir runs` shows the trainings, one folder each. When a call returns, its record is complete in the
 * file. A call that fails writes no record, and adds no table to projector_config.pbtxt.
 *
 * The calls report STATE for a NULL, VALUE for a step below 0 and for a tag that is empty or not UTF-8, and FILE if the
 * system refuses a file.
 */
#ifndef TAPEGRAD_TENSORBOARD_H
#define TAPEGRAD_TENSORBOARD_H

#include <tapegrad/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tg_tensorboard tg_tensorboard;

/* Opens the folder of a training, and begins a new file of events: events.out.tfevents.SECONDS.HOST.PROCESS.NUMBER. The
 * folder and its parents are created if necessary. TensorBoard joins the files of a folder, so a training that
 * continues opens its folder again. Yours to free. */
TG_API tg_tensorboard *tg_tensorboard_open(const char *folder, tg_error *error);
TG_API void tg_tensorboard_free(tg_tensorboard *log);

/* Adds a point to the curve `tag`: SummaryWriter.add_scalar. TensorBoard keeps scalars as f32. NaN and infinities are
 * allowed. */
TG_API bool tg_tensorboard_add_scalar(tg_tensorboard *log, const char *tag, double value, int64_t step,
                                      tg_error *error);

/* Adds a histogram of the values of x, of any shape: SummaryWriter.add_histogram with its default bins. Bin limits are
 * 0 and +-1e-12 * 1.1^i up to 1e20. Values that are not finite are left out. Values beyond the limits count in the
 * minimum, maximum and sums, but in no bin. VALUE if no value is within the limits; DTYPE unless x is f32 or f64. */
TG_API bool tg_tensorboard_add_histogram(tg_tensorboard *log, const char *tag, const tg_tensor *x, int64_t step,
                                         tg_error *error);

/* Adds a table (rows,C) for the embedding projector: SummaryWriter.add_embedding(table, labels, tag=tag). Writes
 * STEP/TAG/tensors.tsv, metadata.tsv with one label per row, and projector_config.pbtxt in the folder. `labels` is
 * optional. A newline in a label is written as \n, and each byte of another control character, or that is not UTF-8, as
 * \xHH. A label of only spaces is written in quotation marks, because the projector would skip its line.
 *
 * The tag is the name of a folder, so it may have only letters, digits, '_', '-' and '.' (VALUE). VALUE also for a
 * value that is not finite. SHAPE unless the table has rank 2 and `label_count` rows. DTYPE unless it is f32 or f64. */
TG_API bool tg_tensorboard_add_embedding(tg_tensorboard *log, const char *tag, const tg_tensor *table,
                                         const char *const *labels, int64_t label_count, int64_t step, tg_error *error);

#ifdef __cplusplus
}
#endif

#endif
