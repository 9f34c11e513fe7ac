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
 * lowest rank first. Letters and digits are those of the Unicode version of the installed PCRE2. In a build with
 * -Dtokenizer=disabled the constructors report STATE.
 *
 * Threads. Only one thread at a time may encode with a tokenizer; all other calls on it only read. */

typedef struct tg_tokenizer tg_tokenizer;

/* The formats of a vocabulary. */
typedef enum tg_vocabulary_format {
    /* OpenAI's vocab.bpe, which transformers calls merges.txt: the line "#version: 0.2", then one merge per line,
     * "A B". Ids 0 to 255 are the bytes (the 188 printable ones first), id 256 + r is merge r, and the last id is
     * <|endoftext|>. */
    TG_VOCABULARY_MERGES,
    /* Hugging Face's tokenizer.json: ids, merges and special tokens */
    TG_VOCABULARY_JSON,
    /* tiktoken's r50k_base.tiktoken: one token per line in base64, a space, and its rank, which is its id. The id that
     * is left out, or else the one after the last, is <|endoftext|>. */
    TG_VOCABULARY_RANKS
} tg_vocabulary_format;

typedef struct tg_tokenizer_open_config {
    /* private: tg_tokenizer_open_config_default() sets it */
    tg_config_mark mark;
    /* the path of the ids that belong to a file of merges: GPT-2's encoder.json, which transformers calls vocab.json.
     * NULL: the ids follow from the order of the merges. Default NULL */
    const char *ids;
} tg_tokenizer_open_config;

TG_API tg_tokenizer_open_config tg_tokenizer_open_config_default(void);

/* Opens a vocabulary of any format, which is recognized by the first bytes of the file. Of a folder, such as that of a
 * published GPT-2, it opens tokenizer.json, or else vocab.json and merges.txt, or else encoder.json and vocab.bpe.
 * Yours to free.
 *
 * FORMAT, with the line or the byte's position, for a file that breaks a rule of its format, and above 1 GiB. All 256
 * bytes must be tokens, and ids must be 0, 1, 2, ... A tokenizer.json must split texts as GPT-2 does: by a ByteLevel,
 * or by a Split with GPT-2's pattern. What would give other ids, such as a normalizer, is refused by name. A rank file
 * has no merges; the merge of a token is the pair into which the merges of lower ranks encode it. */
TG_API tg_tokenizer *tg_tokenizer_open(const char *path, const tg_tokenizer_open_config *config, tg_error *error);

/* Trains a vocabulary of at most `vocabulary` ids on a text of `length` bytes of UTF-8. Yours to free. The
 * most frequent pair of neighbors becomes a new id, again and again; of equally frequent pairs the one with the smaller
 * ids. Training ends early when no pair occurs twice. The time grows with the vocabulary times the number of distinct
 * words. VALUE for less than 257 ids; FORMAT, with the offset of the byte, for bytes that are not UTF-8. */
TG_API tg_tokenizer *tg_tokenizer_train(const char *text, size_t length, int32_t vocabulary, tg_error *error);

/* Return a tokenizer from the text of a vocabulary's file, yours to free, and the text of a tokenizer's file, yours to
 * free with tg_text_free: so a program can keep the vocabulary beside a model's weights, in one file. The errors are
 * those of tg_tokenizer_open. The text is that of TG_VOCABULARY_MERGES if the ids follow from the order of the merges,
 * and otherwise that of TG_VOCABULARY_JSON. `length` is optional in the second call. */
TG_API tg_tokenizer *tg_tokenizer_new_from_text(const char *text, size_t length, tg_error *error);
TG_API char *tg_tokenizer_text(const tg_tokenizer *tokenizer, size_t *length, tg_error *error);

/* Writes the vocabulary to a file that tg_tokenizer_open reads, and which Python opens: TG_VOCABULARY_JSON with
 * tokenizers.Tokenizer.from_file, TG_VOCABULARY_RANKS with tiktoken.load.load_tiktoken_bpe. VALUE for a vocabulary that
 * the format cannot express; TG_VOCABULARY_JSON expresses all but two ids with the same bytes. */
TG_API bool tg_tokenizer_save(const tg_tokenizer *tokenizer, const char *path, tg_vocabulary_format format,
                              tg_error *error);
TG_API void tg_tokenizer_free(tg_tokenizer *tokenizer);

/* Returns the number of ids: 50257 for GPT-2. */
TG_API int32_t tg_tokenizer_vocabulary(const tg_tokenizer *tokenizer);

/* Returns the id of <|endoftext|>, or -1 if the vocabulary has none. */
TG_API int32_t tg_tokenizer_end_of_text(const tg_tokenizer *tokenizer);

/* An array of ids. */
typedef struct tg_tokens {
    int32_t *ids;
    int64_t count;
} tg_tokens;

/* Encodes a text of `length` bytes of UTF-8 into ids, which are yours (tg_tokens_free). With `special` the characters
 * of a special token, such as <|endoftext|>, become its id. Without it they are ordinary text, which is the right
 * choice for text from users. The special tokens of a tokenizer.json are its added_tokens.
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
 * to `length`, which is optional. The bytes are not checked. FILE if it is not a regular file. */
TG_API char *tg_text_read(const char *path, size_t *length, tg_error *error);
TG_API void tg_text_free(char *text);

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
