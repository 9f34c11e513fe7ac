/* data: from token ids to batches.
 *
 * ```c
 * int32_t ids[100];
 * for (int i = 0; i < 100; i++) {
 *     ids[i] = i * i % 17;
 * }
 * tg_loader_config config = tg_loader_config_default();
 * config.context = 8;
 * config.stride = 4;
 * config.batch_size = 2;
 * tg_loader *loader = tg_loader_new(ids, 100, rng, &config);
 * for (tg_batch b; tg_loader_next(loader, &b);) {
 *     tg_tensor_print(b.inputs, stdout, NULL, NULL);                  // (B,T); b.targets likewise
 * }
 * ```
 *
 * Files. The contents of every file are checked before they are used, and an error names the line or the value. A file
 * is written under a temporary name in the same folder and then renamed, so the old file survives a crash.
 *
 * Errors. A call can also report MEMORY, and a call that takes a path FILE. The comments do not repeat these two, nor
 * STATE for a NULL.
 */
#ifndef TAPEGRAD_DATA_H
#define TAPEGRAD_DATA_H

#include <tapegrad/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- token files ------------------------------------------------------------------------------------------------- */
/* For texts larger than memory. A file has only ids, little-endian, of 2 bytes each (as nanoGPT's .bin files) or of 4.
 * They stay in the file, and a read fetches those that it needs. If a file changes while it is open, a read returns the
 * new ids, or an error. */

typedef struct tg_token_file tg_token_file;

/* Opens a file of ids of `bytes` bytes each, 2 or 4 (VALUE). Yours to free. FORMAT if the size of the file is no
 * multiple of that. FILE if it is not a regular file. */
TG_API tg_token_file *tg_token_file_open(const char *path, int bytes, tg_error *error);
TG_API void tg_token_file_free(tg_token_file *file);

/* Returns the number of ids. */
TG_API int64_t tg_token_file_count(const tg_token_file *file);

/* Copies the ids begin .. begin + count - 1 to `ids`. RANGE if the file has fewer, and for an id above INT32_MAX. FILE,
 * with the path and the offset, if the file cannot be read or has become shorter. */
TG_API bool tg_token_file_read(const tg_token_file *file, int64_t begin, int64_t count, int32_t *ids, tg_error *error);

/* Writes a file of ids of `bytes` bytes each, 2 or 4 (VALUE). RANGE, with the index, for an id that is negative or does
 * not fit into that. */
TG_API bool tg_token_file_write(const char *path, int bytes, const int32_t *ids, int64_t count, tg_error *error);

/* ---- loader: sliding windows in batches -------------------------------------------------------------------------- */
/* Window i is ids[i * stride .. i * stride + T), and its targets are the ids one position later: the course's
 * GPTDatasetV1. The windows come in the order of torch's DataLoader without workers, and a pass draws what the
 * DataLoader draws: one 64-bit number, and with shuffle a second one, which seeds the permutation. */

typedef struct tg_loader tg_loader;

typedef struct tg_loader_config {
    /* private: tg_loader_config_default() sets it */
    tg_config_mark mark;
    /* T, the number of ids per window; must be set */
    int64_t context;
    /* the number of ids from the start of one window to the start of the next; must be set */
    int64_t stride;
    /* B, the number of windows per batch; must be set */
    int64_t batch_size;
    /* a new random order in each pass; default true */
    bool shuffle;
    /* no last batch with fewer windows than the others; default true */
    bool drop_last;
    /* The number of processes that share each batch, and the number of this one, from 0. Every process draws the same
     * order of windows, if their generators are in the same state, and gets its part of the B windows of a batch: the
     * parts of all processes together, in their order, are the batch of one process. B, and the number of windows in a
     * last batch that is not full, must be multiples of `ranks`. Default 1 and 0. */
    int64_t ranks, rank;
} tg_loader_config;

TG_API tg_loader_config tg_loader_config_default(void);

/* Returns a loader over a copy of the ids, or over a file, which must outlive the loader. Yours to free. `rng` stays
 * yours and must outlive the loader. The error is in the loader: VALUE for a size below 1, and for a batch that `ranks`
 * does not divide; RANGE for a rank outside of [0,ranks); SHAPE for less than T + 1 ids, for fewer windows than ranks,
 * or, with drop_last, for fewer windows than a batch has. NULL when memory is exhausted. */
TG_API tg_loader *tg_loader_new(const int32_t *ids, int64_t count, tg_rng *rng, const tg_loader_config *config);
TG_API tg_loader *tg_loader_new_from_file(const tg_token_file *file, tg_rng *rng, const tg_loader_config *config);
TG_API void tg_loader_free(tg_loader *loader);

/* One batch: i32 tensors (B / ranks,T), owned by the loader and valid until the next call of tg_loader_next. A batch
 * that is retained keeps its values, because the loader then uses other tensors; a tape retains the batches that it
 * recorded. */
typedef struct tg_batch {
    tg_tensor *inputs, *targets;
} tg_batch;

/* Writes the next batch of the pass to *batch. Returns false, and writes NULLs, at the end of the pass and after an
 * error (tg_loader_error). The call after the end of a pass begins another pass. */
TG_API bool tg_loader_next(tg_loader *loader, tg_batch *batch);

/* Returns the first error since the last clear; never NULL. MEMORY for a NULL loader, because it could not be
 * created. */
TG_API const tg_error *tg_loader_error(const tg_loader *loader);

/* Clears the error, so that the loader accepts calls again. */
TG_API void tg_loader_clear_error(tg_loader *loader);

/* Returns the number of batches in a pass: len(dataloader). */
TG_API int64_t tg_loader_batches(const tg_loader *loader);

#ifdef __cplusplus
}
#endif

#endif
