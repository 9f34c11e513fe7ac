/* data: from text to batches of token ids.
 *
 * ```c
 * tg_tokenizer *bpe = tg_tokenizer_train(text, length, 512, &error);
 * tg_tokens tokens;
 * tg_tokenizer_encode(bpe, text, length, false, &tokens, &error);
 * tg_loader_config config = tg_loader_config_default();
 * config.context = 8;
 * config.stride = 4;
 * config.batch_size = 2;
 * tg_loader *loader = tg_loader_new(tokens.ids, tokens.count, rng, &config);
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

/* ---- tokenizer: GPT-2's byte-pair encoding (Sennrich et al. 2016, Radford et al. 2019) --------------------------- */
/* Text is split into words by GPT-2's pattern. Each word begins as a sequence of bytes, in which pairs are merged, the
 * lowest rank first. Ids 0 to 255 are the bytes (the 188 printable ones first), id 256 + r is merge r, and the last id
 * is <|endoftext|>. Letters and digits are those of the Unicode version of the installed PCRE2. In a build with
 * -Dtokenizer=disabled the constructors report STATE.
 *
 * Threads. Only one thread at a time may encode with a tokenizer; all other calls on it only read. */

typedef struct tg_tokenizer tg_tokenizer;

/* Reads GPT-2's vocab.bpe: the line "#version: 0.2", then one merge per line, "A B". Yours to free. FORMAT, with the
 * number of the line, for a wrong first line, a line without exactly one space, a symbol that is neither a byte nor an
 * earlier merge, or a merge that is given twice. */
TG_API tg_tokenizer *tg_tokenizer_open(const char *path, tg_error *error);

/* Trains a vocabulary of at most `vocabulary` ids on a text of `length` bytes of UTF-8. Yours to free. The
 * most frequent pair of neighbors becomes a new id, again and again; of equally frequent pairs the one with the smaller
 * ids. Training ends early when no pair occurs twice. The time grows with the vocabulary times the number of distinct
 * words. VALUE for less than 257 ids; FORMAT, with the offset of the byte, for bytes that are not UTF-8. */
TG_API tg_tokenizer *tg_tokenizer_train(const char *text, size_t length, int32_t vocabulary, tg_error *error);

/* Writes the vocabulary to a file that tg_tokenizer_open reads. */
TG_API bool tg_tokenizer_save(const tg_tokenizer *tokenizer, const char *path, tg_error *error);
TG_API void tg_tokenizer_free(tg_tokenizer *tokenizer);

/* Returns the number of ids: 50257 for GPT-2. The last one is <|endoftext|>. */
TG_API int32_t tg_tokenizer_vocabulary(const tg_tokenizer *tokenizer);

/* An array of ids. */
typedef struct tg_tokens {
    int32_t *ids;
    int64_t count;
} tg_tokens;

/* Encodes a text of `length` bytes of UTF-8 into ids, which are yours (tg_tokens_free). With `special` the characters
 * <|endoftext|> become the last id. Without it they are ordinary text, which is the right choice for text from users.
 * FORMAT, with the offset of the byte, for bytes that are not UTF-8. After an error *tokens is empty. */
TG_API bool tg_tokenizer_encode(tg_tokenizer *tokenizer, const char *text, size_t length, bool special,
                                tg_tokens *tokens, tg_error *error);

/* Frees the ids and empties *tokens. */
TG_API void tg_tokens_free(tg_tokens *tokens);

/* Returns the bytes of one id, which may end inside a character, and writes their number to `length`, which is
 * optional. The bytes do not end with a NUL. Borrowed from the tokenizer. NULL for an id that does not exist. */
TG_API const char *tg_tokenizer_bytes(const tg_tokenizer *tokenizer, int32_t id, size_t *length);

/* Decodes `count` ids into a text that ends with a NUL; yours (tg_text_free). Writes its size in bytes, without the
 * NUL, to `length`, which is optional. RANGE, with the index, for an id that does not exist. */
TG_API char *tg_tokenizer_decode(const tg_tokenizer *tokenizer, const int32_t *ids, int64_t count, size_t *length,
                                 tg_error *error);

/* Reads a whole file into a text that ends with a NUL; yours (tg_text_free). Writes its size in bytes, without the NUL,
 * to `length`, which is optional. The bytes are not checked. */
TG_API char *tg_text_read(const char *path, size_t *length, tg_error *error);
TG_API void tg_text_free(char *text);

/* ---- token files ------------------------------------------------------------------------------------------------- */
/* For texts larger than memory. A file has only ids, little-endian, of 2 bytes each (as nanoGPT's .bin files) or of 4.
 * It is mapped into memory, and the system loads the pages that are read. No process may truncate the file while it is
 * open: a read beyond the new end raises SIGBUS. */

typedef struct tg_token_file tg_token_file;

/* Opens a file of ids of `bytes` bytes each, 2 or 4 (VALUE). Yours to free. FORMAT if the size of the file is no
 * multiple of that. */
TG_API tg_token_file *tg_token_file_open(const char *path, int bytes, tg_error *error);
TG_API void tg_token_file_free(tg_token_file *file);

/* Returns the number of ids. */
TG_API int64_t tg_token_file_count(const tg_token_file *file);

/* Copies the ids begin .. begin + count - 1 to `ids`. RANGE if the file has fewer, and for an id above INT32_MAX. */
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
