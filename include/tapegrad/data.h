/* data: from text to batches of token ids.
 *
 *     tg_error error = TG_NO_ERROR;
 *     tg_tokenizer *bpe = tg_tokenizer_open("vocab.bpe", &error);   or tg_tokenizer_train(text, length, 512, &error)
 *     tg_tokens tokens;
 *     tg_tokenizer_encode(bpe, text, length, false, &tokens, &error);
 *     tg_loader_config config = tg_loader_config_default();
 *     tg_loader *loader = tg_loader_new(tokens.ids, tokens.count, &config, rng, &error);
 *     for (tg_batch b; tg_loader_next(loader, &b);) { ... b.inputs (B,T), b.targets (B,T) ... }
 *
 * Every file is taken for hostile: what it says is checked before it is used, and each message names the line or the
 * value. Files are written beside their place and then renamed, so that a crash leaves the old one.
 */
#ifndef TAPEGRAD_DATA_H
#define TAPEGRAD_DATA_H

#include <tapegrad/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- tokenizer: GPT-2's byte-pair encoding (Sennrich et al. 2016, Radford et al. 2019) --------------------------- */
/* Text is cut into words by GPT-2's pattern, and each word, as bytes, is merged pair by pair, the lowest rank first.
 * Ids 0 to 255 are the bytes (the 188 printable ones first), id 256 + r is merge r, and the last id is <|endoftext|>.
 * Character classes are those of the Unicode version of the installed PCRE2. A tokenizer is read-only once made, but
 * one thread at a time may encode with it. */

typedef struct tg_tokenizer tg_tokenizer;

/* From GPT-2's vocab.bpe: "#version: 0.2", then a merge a line, "A B". Yours to free. FILE when it cannot be read;
 * FORMAT, with the line, for a wrong first line, a line without exactly one space, symbols that are not known by
 * then, a merge given twice. */
TG_API tg_tokenizer *tg_tokenizer_open(const char *path, tg_error *error);
TG_API tg_tokenizer *tg_tokenizer_parse(const char *text, size_t length, tg_error *error); /* the same from memory */

/* A new vocabulary of at most `size` ids (257 or more) from a text: again and again the most frequent pair becomes an
 * id; of equally frequent pairs the one with the lower ids. It ends early when no pair comes twice. */
TG_API tg_tokenizer *tg_tokenizer_train(const char *text, size_t length, int32_t size, tg_error *error);

TG_API bool tg_tokenizer_save(const tg_tokenizer *tokenizer, const char *path, tg_error *error); /* as vocab.bpe */
TG_API void tg_tokenizer_free(tg_tokenizer *tokenizer);                                          /* NULL is fine */

TG_API int32_t tg_tokenizer_size(const tg_tokenizer *tokenizer); /* ids, <|endoftext|> included: 50257 for GPT-2's */
TG_API int32_t tg_tokenizer_end_of_text(const tg_tokenizer *tokenizer); /* its id: the last */

typedef struct tg_tokens {
    int32_t *ids;
    int64_t count;
} tg_tokens;

/* Text to ids, which are yours: tg_tokens_free. With `special` the characters <|endoftext|> become that one id;
 * without, as user text should be treated, they are text. FORMAT, with the place, for bytes that are not UTF-8. On
 * failure *tokens is empty. */
TG_API bool tg_tokenizer_encode(tg_tokenizer *tokenizer, const char *text, size_t length, bool special,
                                tg_tokens *tokens, tg_error *error);
TG_API void tg_tokens_free(tg_tokens *tokens);

/* The bytes of one id: they need not be whole characters. NULL for an id that is not there. */
TG_API const char *tg_tokenizer_bytes(const tg_tokenizer *tokenizer, int32_t id, size_t *length);

/* Ids to text, with a NUL behind it; yours: tg_text_free. `length` may be NULL. RANGE for an id that is not there. */
TG_API char *tg_tokenizer_decode(const tg_tokenizer *tokenizer, const int32_t *ids, int64_t count, size_t *length,
                                 tg_error *error);
TG_API void tg_text_free(char *text);

/* A whole file as text with a NUL behind it; yours: tg_text_free. */
TG_API char *tg_text_read(const char *path, size_t *length, tg_error *error);

/* ---- token files: ids on disk, mapped into memory ---------------------------------------------------------------- */
/* Nothing but ids, little-endian, 2 bytes each as nanoGPT's .bin files or 4. For texts larger than memory. */

typedef struct tg_token_file tg_token_file;

/* `width` is 2 or 4, bytes an id. FORMAT when the size is not a multiple of it. Yours to free. */
TG_API tg_token_file *tg_token_file_open(const char *path, int width, tg_error *error);
TG_API void tg_token_file_free(tg_token_file *file);
TG_API int64_t tg_token_file_count(const tg_token_file *file);

/* Ids [begin, begin + count) to `ids`. RANGE outside of the file, or for an id above INT32_MAX, with its place. */
TG_API bool tg_token_file_read(const tg_token_file *file, int64_t begin, int64_t count, int32_t *ids, tg_error *error);

/* RANGE for an id that is negative or does not fit the width. */
TG_API bool tg_token_file_write(const char *path, int width, const int32_t *ids, int64_t count, tg_error *error);

/* ---- loader: sliding windows in batches -------------------------------------------------------------------------- */
/* Window i is ids[i stride .. i stride + T), its targets are the same one further on: the course's GPTDatasetV1. The
 * order, and what it draws from the generator, are those of torch's DataLoader without workers: each pass over the
 * windows draws one 64-bit number, and with shuffle a second one that seeds the permutation. */

typedef struct tg_loader tg_loader;

typedef struct tg_loader_config {
    int64_t max_length; /* T: 256 */
    int64_t stride;     /* from one window to the next: 128 */
    int64_t batch_size; /* B: 4 */
    bool shuffle;       /* true */
    bool drop_last;     /* leave out a last batch that is not full: true */
} tg_loader_config;

TG_API tg_loader_config tg_loader_config_default(void);

/* `ids` are copied; a file is not, and must outlive the loader. `rng` stays yours and must live as long. VALUE for
 * sizes below 1, SHAPE for a text shorter than one window and its target, or, with drop_last, for fewer windows than
 * a batch. Yours to free. */
TG_API tg_loader *tg_loader_new(const int32_t *ids, int64_t count, const tg_loader_config *config, tg_rng *rng,
                                tg_error *error);
TG_API tg_loader *tg_loader_new_from_file(const tg_token_file *file, const tg_loader_config *config, tg_rng *rng,
                                          tg_error *error);
TG_API void tg_loader_free(tg_loader *loader);

/* i32 tensors of shape (B,T) that belong to the loader, valid until the next call; whoever retains one (a tape's
 * record does) keeps it unchanged, because the loader then takes another. */
typedef struct tg_batch {
    tg_tensor *inputs, *targets;
} tg_batch;

/* The next batch of the pass; false at its end, and the call after that begins a new pass. Also false after an error,
 * which stays: tell the two apart with tg_loader_error_code. */
TG_API bool tg_loader_next(tg_loader *loader, tg_batch *batch);
TG_API const char *tg_loader_error(const tg_loader *loader); /* "" when there is none */
TG_API tg_code tg_loader_error_code(const tg_loader *loader);

TG_API int64_t tg_loader_windows(const tg_loader *loader); /* in a pass */
TG_API int64_t tg_loader_batches(const tg_loader *loader); /* in a pass: len(dataloader) */

#ifdef __cplusplus
}
#endif

#endif
