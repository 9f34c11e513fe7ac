/* data: from token ids, or from any tensors, to batches.
 *
 * ```c
 * int32_t text[100];
 * for (int i = 0; i < 100; i++) {
 *     text[i] = i * i % 17;
 * }
 * tg_loader_config windows = tg_loader_config_default();
 * windows.context = 8;
 * windows.stride = 4;
 * windows.batch_size = 2;
 * windows.shuffle = true;
 * tg_loader *loader = tg_loader_new(run, text, 100, &windows);
 * for (tg_batch b; tg_loader_next(loader, &b);) {
 *     tg_tensor_print(b.inputs, stdout, NULL, NULL);                  // (B,T); b.targets likewise
 * }
 * ```
 *
 * ```c
 * tg_tensor *features = tg_tensor_new(TG_F32, TG_SHAPE(150, 4), &error);
 * tg_tensor *labels = tg_tensor_new(TG_I32, TG_SHAPE(150), &error);
 * tg_loader_config config = tg_loader_config_default();
 * config.batch_size = 16;
 * config.shuffle = true;
 * tg_loader *loader = tg_loader_new_from_tensors(run, (tg_tensor *[]){features, labels}, 2, &config);
 * for (tg_batch b; tg_loader_next(loader, &b);) {
 *     tg_tensor_print(b.inputs, stdout, NULL, NULL);                  // features (16,4); b.targets are labels (16)
 * }
 * ```
 *
 * Files. The contents of every file are checked before they are used, and an error names the line or the value. A file
 * is written under a temporary name in the same folder and then renamed, so the old file survives a crash.
 *
 * Errors. The comments do not repeat three errors: MEMORY; FILE, of a call that takes a path; and STATE for a NULL.
 */
#ifndef TAPEGRAD_DATA_H
#define TAPEGRAD_DATA_H

#include <tapegrad/run.h>
#include <tapegrad/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- token files ------------------------------------------------------------------------------------------------- */
/* For texts larger than memory. A file has only ids, little-endian, of 2 bytes each (as in nanoGPT's .bin files) or of
 * 4. They stay in the file, and a read fetches only those that it needs. If a file changes while it is open, a read
 * returns the new ids, or an error. */

typedef struct tg_token_file tg_token_file;

/* Opens a file of ids of `bytes` bytes each, 2 or 4 (VALUE). Yours to free. FORMAT if the size of the file is not a
 * multiple of that. FILE if it is not a regular file. */
TG_API tg_token_file *tg_token_file_open(const char *path, int bytes, tg_error *error);
TG_API void tg_token_file_free(tg_token_file *file);

/* Returns the number of ids. */
TG_API int64_t tg_token_file_count(const tg_token_file *file);

/* Copies the ids begin .. begin + count - 1 to `ids`. RANGE if the file has fewer, and for an id above INT32_MAX. FILE,
 * with the path and the offset, if the file cannot be read or has become shorter. */
TG_API bool tg_token_file_read(const tg_token_file *file, int64_t begin, int64_t count, int32_t *ids, tg_error *error);

/* Writes a file of ids of `bytes` bytes each, 2 or 4 (VALUE). RANGE, with the index, for an id that is negative or does
 * not fit. */
TG_API bool tg_token_file_write(const char *path, int bytes, const int32_t *ids, int64_t count, tg_error *error);

/* ---- loader: torch.utils.data.DataLoader ------------------------------------------------------------------------- */
/* A loader returns the items of a data set in batches, pass after pass. An item is
 *
 *   a window of token ids    window i is ids[i * stride .. i * stride + T), and its targets are the ids one position
 *                            later: the book's GPTDatasetV1
 *   a row of tensors         row i of each tensor: torch's TensorDataset
 *   a list of token ids      list i, padded to the longest list of its batch: the book's custom_collate_fn
 *
 * The items come in the order of a DataLoader without workers. A pass draws what the DataLoader draws: one 64-bit
 * number, and with shuffle a second one, which seeds the permutation. */

typedef struct tg_loader tg_loader;

/* The max_length with which no list is cut. */
#define TG_NO_MAX_LENGTH (-1)

/* The defaults are those of the DataLoader. With them a pass returns every item once, in order, so an evaluation leaves
 * nothing out. For training set shuffle. The book's create_dataloader_v1 also sets drop_last. */
typedef struct tg_loader_config {
    /* private: tg_loader_config_default() sets it */
    tg_config_mark mark;
    /* B, the number of items per batch; must be set */
    int64_t batch_size;
    /* whether each pass has a new random order; default false */
    bool shuffle;
    /* whether a last batch with fewer items than the others is left out; default false */
    bool drop_last;
    /* The number of parts into which each batch is divided, and the index of the part that this loader returns. If
     * their generators are in the same state, the loaders of all parts draw the same order, and their batches, joined,
     * are the batch of a loader without parts. `parts` must divide B, and the number of items in an incomplete last
     * batch. Default 1 and 0. */
    int64_t parts, part;
    /* Reports use of a batch after the next call of tg_loader_next, for debugging. A call that reads its values reports
     * STATE. Getters treat its tensors as NULL, and set the error of the run. The loader then uses new tensors for
     * each batch, and keeps the old ones without their values. Default false. */
    bool detect_stale_batches;
    /* of windows: T, the number of ids per window; must be set */
    int64_t context;
    /* of windows: the number of ids from the start of one window to the start of the next; must be set */
    int64_t stride;
    /* of tensors: the indices of the rows that belong to the data set, torch.utils.data.Subset; the loader copies them;
     * default NULL, all rows */
    const int64_t *rows;
    /* of tensors: the number of these indices; default 0 */
    int64_t row_count;
    /* of lists: the id of the end and of the padding, at least 0: the target behind a list's last id, and what fills up
     * the shorter lists of a batch; must be set (the default, -1, is refused) */
    int32_t pad_id;
    /* of lists: the largest number of ids of a row, at least 1; the rest of a longer list is left out,
     * but for one id, the last target. Default TG_NO_MAX_LENGTH */
    int64_t max_length;
    /* of lists: the target where no loss counts (ignore_index of tg_cross_entropy_config); default -100 */
    int32_t ignored_target;
} tg_loader_config;

TG_API tg_loader_config tg_loader_config_default(void);

/* Return a loader of windows over a copy of the ids, or over a file, which must outlive the loader. Yours to free. A
 * loader draws from the generator of the run. The run is optional without shuffle: the loader then has an error of its
 * own, and draws nothing. The error is in the run, and the loader then refuses every call: VALUE for a size below 1,
 * for an option of tensors, and for a batch that `parts` does not divide; RANGE for a part outside of [0,parts); STATE
 * for shuffle without a generator; SHAPE for fewer than T + 1 ids, for fewer items than parts, and, with drop_last, for
 * fewer items than a batch has. NULL when memory is exhausted. */
TG_API tg_loader *tg_loader_new(tg_run *run, const int32_t *ids, int64_t count, const tg_loader_config *config);
TG_API tg_loader *tg_loader_new_from_file(tg_run *run, const tg_token_file *file, const tg_loader_config *config);

/* Returns a loader of the rows of `count` tensors, of any dtypes and with the same size on axis 0. The loader retains
 * them. All else is as above. The error can also be VALUE for a count below 1, for an option of windows, and if only
 * one of `rows` and `row_count` is set; SHAPE for tensors of different sizes on axis 0, or without rows; RANGE, with
 * its position, for an index of a row that does not exist. */
TG_API tg_loader *tg_loader_new_from_tensors(tg_run *run, tg_tensor *const *tensors, int count,
                                             const tg_loader_config *config);

/* Returns a loader of `count` lists of ids, which are one after the other in `ids`: lengths[i] ids of list i. The
 * loader copies them. A batch has three tensors of T columns, where T is the length of its longest list, or max_length
 * if that is less:
 *
 *   inputs      i32    the ids of a list, then pad_id
 *   targets     i32    the ids one position later, then pad_id once, then ignored_target. After the first pad_id of a
 *                      row every further one becomes ignored_target, also one among the ids of the list: with T = 5
 *                      and a pad_id of 0 the list 5 6 7 has the inputs 5 6 7 0 0 and the targets 6 7 0 -100 -100
 *   tensors[2]  u8     1 where the input is an id of the list, and 0 where it is padding: a key_mask of attention
 *
 * All else is as above. The error can also be VALUE for an option of windows or of tensors and for a max_length that is
 * neither TG_NO_MAX_LENGTH nor at least 1; RANGE for a pad_id below 0 and, with the list and the position, for an id
 * below 0; SHAPE for a count below 1 and, with its number, for a list without ids. */
TG_API tg_loader *tg_loader_new_from_lists(tg_run *run, const int32_t *ids, const int64_t *lengths, int64_t count,
                                           const tg_loader_config *config);
TG_API void tg_loader_free(tg_loader *loader);

/* One batch, valid until the next call of tg_loader_next: the loader owns its tensors, and fills them again. To keep a
 * batch longer, retain its tensors; the loader then uses others. A tape retains the tensors that it has recorded. A
 * loader with detect_stale_batches reports the use of an old batch. */
typedef struct tg_batch {
    /* tensors[0] and tensors[1]; `targets` is NULL in a loader of one tensor */
    tg_tensor *inputs, *targets;
    /* Of windows: the inputs and the targets, i32 (B / parts,T). Of tensors: rows of each of them, (B / parts,..), in
     * the order in which the loader got them. Of lists: the inputs, the targets and the mask. */
    tg_tensor *const *tensors;
    /* the number of tensors */
    int count;
} tg_batch;

/* Writes the next batch of the pass to *batch. Returns false, and writes NULLs, at the end of the pass and while the
 * run has an error. So after the loop check the run's error. The call after the end of a pass begins another pass.
 * After a `break` the next call continues the pass; tg_loader_reset ends it. RANGE or FILE for a file whose ids cannot
 * be read; STATE if a tensor of the loader was resized (tg_tensor_resize_rows) or has deferred steps. */
TG_API bool tg_loader_next(tg_loader *loader, tg_batch *batch);

/* Ends the pass: the next call of tg_loader_next begins another one, as every iterator of a DataLoader does. Nothing is
 * drawn before that call. */
TG_API void tg_loader_reset(tg_loader *loader);

/* Returns the error of the loader's run; never NULL. MEMORY for a NULL loader, because it could not be created. */
TG_API const tg_error *tg_loader_error(const tg_loader *loader);

/* Returns the number of batches in a pass: len(dataloader). */
TG_API int64_t tg_loader_batches(const tg_loader *loader);

/* Divides the indices 0 .. row_count - 1 at random into parts of these lengths: torch.utils.data.random_split. Writes
 * them to rows[0 .. row_count), part after part. VALUE unless row_count is the sum of the lengths; SHAPE for fewer than
 * 1 part, for a negative length, and for row_count 0. */
TG_API bool tg_random_split(tg_rng *rng, const int64_t *lengths, int parts, int64_t *rows, int64_t row_count,
                            tg_error *error);

#ifdef __cplusplus
}
#endif

#endif
