/* tokenizer: from text to token ids, and back.
 * Library: tapegrad_text (pkg-config tapegrad_text).
 *
 * ```c
 * tg_tokenizer *bpe = tg_tokenizer_train(text, length, 512, &error);
 * tg_tokens tokens;
 * tg_tokenizer_encode(bpe, text, length, false, &tokens, &error);
 * printf("%lld ids\n", (long long)tokens.count);
 * ```
 *
 * Files. The contents of every file are checked before they are used, and an error names the line or the value. A file
 * is written under a temporary name in the same folder and then renamed, so the old file survives a crash.
 *
 * Errors. The comments do not repeat three errors: MEMORY; FILE, of a call that takes a path; and STATE for a NULL.
 */
#ifndef TAPEGRAD_TOKENIZER_H
#define TAPEGRAD_TOKENIZER_H

#include <tapegrad/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- tokenizer: byte-pair encodings (Sennrich et al. 2016, Radford et al. 2019), and WordPiece ------------------- */
/* Without a tokenizer.json, text is split into words by GPT-2's pattern, or by another one. Each word begins as a
 * sequence of bytes. Then pairs are merged, the lowest rank first. Letters and digits are those of the Unicode version
 * of the installed PCRE2.
 *
 * A tokenizer.json says how text is normalized, how it is split into words, and what the ids of a word are:
 * - normalizer: Replace, Prepend, and with utf8proc NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, BertNormalizer;
 * - pre_tokenizer: ByteLevel, Split (every behavior), Digits, Metaspace, BertPreTokenizer, Whitespace, WhitespaceSplit,
 *   Punctuation;
 * - model: BPE over bytes (behind a ByteLevel) or characters, with byte_fallback, ignore_merges and unk_token, and
 *   WordPiece;
 * - post_processor: TemplateProcessing (of one text) and ByteLevel, which trims spans;
 * - decoder: ByteLevel, WordPiece, Metaspace, Replace, ByteFallback, Fuse, Strip;
 * - Sequences of these, added tokens with all options, truncation and padding.
 * So the tokenizers of GPT-2, Llama, SmolLM, Qwen, Gemma, DeepSeek and BERT are read. The ids are those of Hugging
 * Face's tokenizers 0.23, except that characters newer than the Unicode version of one side may be other kinds of
 * characters.
 *
 * Threads. Only one thread at a time may encode with a tokenizer; all other calls on it only read. */

typedef struct tg_tokenizer tg_tokenizer;

/* The formats of a vocabulary. */
typedef enum tg_vocabulary_format {
    /* OpenAI's vocab.bpe, which transformers calls merges.txt: a line that begins with "#version" and may be left out,
     * then one merge per line, "A B"; blank lines may follow the last one. Ids 0 to 255 are the bytes (the 188
     * printable ones first), id 256 + r is merge r, and the last id is <|endoftext|>. */
    TG_VOCABULARY_MERGES,
    /* Hugging Face's tokenizer.json: ids, merges and added tokens */
    TG_VOCABULARY_JSON,
    /* tiktoken's r50k_base.tiktoken: each line has a token in base64, white space, and its rank, which is its id.
     * <|endoftext|> is the id that is left out, or else the one after the last. */
    TG_VOCABULARY_RANKS
} tg_vocabulary_format;

/* A special token, and its id. */
typedef struct tg_special_token {
    const char *text;
    int32_t id;
} tg_special_token;

typedef struct tg_tokenizer_open_config {
    /* private: tg_tokenizer_open_config_default() sets it */
    tg_config_mark mark;
    /* the path of the ids for a file of merges: GPT-2's encoder.json, which transformers calls vocab.json. With NULL
     * the ids follow from the order of the merges. Default NULL */
    const char *ids;
    /* the pattern that splits a text into words, for a file of merges or ranks: tiktoken's pat_str of cl100k_base,
     * o200k_base or Qwen. Default NULL, GPT-2's */
    const char *pattern;
    /* the special tokens of a file of ranks, and their number; without them <|endoftext|> is one. Default NULL, 0 */
    const tg_special_token *special;
    int64_t special_count;
} tg_tokenizer_open_config;

TG_API tg_tokenizer_open_config tg_tokenizer_open_config_default(void);

/* Opens a vocabulary of any format, which is recognized by the first bytes of the file. Of a folder, such as that of a
 * published GPT-2, it opens tokenizer.json, or else vocab.json and merges.txt, or else encoder.json and vocab.bpe.
 * Yours to free.
 *
 * FORMAT, with the line or the byte's position, for a file that breaks a rule of its format, and for one above 1 GiB.
 * The error names any setting of a tokenizer.json that is not known, and would give other ids. A file of ranks has no
 * merges: the merge of a token is the pair that the merges of lower ranks give for it. Lines end in LF, or in CR and
 * LF.
 *
 * Files are accepted as by Hugging Face's tokenizers, and files of ranks as by tiktoken, except that FORMAT is also the
 * error for
 * - an empty file, a merge, rank, name or member that is given twice, and a byte order mark;
 * - ids that are not 0, 1, 2, ..., or an added token without an id of its own, because a model has one row per id;
 * - a vocabulary of bytes in which a byte is no token, or a token has characters that are no bytes;
 * - a pattern that PCRE2 cannot express, such as an intersection of classes;
 * - an unknown member, a NUL in a token, or a dropout of 0, because they could give other ids;
 * - ranks and base64 that Python reads with other characters, such as "+1";
 * and that blank lines behind the merges, merges in both notations, and a missing trim_offsets are accepted. VALUE for
 * special tokens of the config that have the same id, or one that is far above the ranks. */
TG_API tg_tokenizer *tg_tokenizer_open(const char *path, const tg_tokenizer_open_config *config, tg_error *error);

/* Trains a vocabulary of at most `vocabulary` ids on a text of `length` bytes of UTF-8. Yours to free. Again and again,
 * the most frequent pair of neighbors becomes a new id; of equally frequent pairs, the one with the smaller ids.
 * Training ends early when no pair occurs twice. Several threads count the words; their number changes no id. VALUE for
 * fewer than 257 ids; FORMAT, with the offset of the byte, for bytes that are not UTF-8. */
TG_API tg_tokenizer *tg_tokenizer_train(const char *text, size_t length, int32_t vocabulary, tg_error *error);

/* How far a call on files is. */
typedef struct tg_text_progress {
    /* the number of bytes that have been read, and that all files have */
    int64_t bytes, all_bytes;
    /* of a training: the number of different words so far, and of ids, which is 256 until all words are counted */
    int64_t words;
    int32_t vocabulary;
    /* of an encoding: the number of ids so far */
    int64_t tokens;
} tg_text_progress;

typedef struct tg_tokenizer_train_files_config {
    /* private: tg_tokenizer_train_files_config_default() sets it */
    tg_config_mark mark;
    /* the smallest frequency of a pair that is merged, at least 1; default 2 */
    int64_t min_count;
    /* of equally frequent pairs the one with the lexicographically greatest pair of byte strings is merged, as in
     * Stanford's CS336, instead of the one with the smaller ids; default false */
    bool takes_greatest_pair;
    /* the pattern that splits texts into words, as in tg_tokenizer_open_config. Default NULL, GPT-2's */
    const char *pattern;
    /* special tokens, and their number: they are neither split nor merged with what stands beside them, and get the
     * last ids, in this order. Default NULL, 0: <|endoftext|> gets the last id, and texts do not have it */
    const char *const *special;
    int64_t special_count;
    /* a function that is called with `context` after each piece of the files and after each merge; it returns false to
     * stop the training. Default NULL */
    bool (*on_progress)(void *context, const tg_text_progress *progress);
    void *context;
} tg_tokenizer_train_files_config;

TG_API tg_tokenizer_train_files_config tg_tokenizer_train_files_config_default(void);

/* Trains a vocabulary on `count` files of UTF-8: the ids are those of tg_tokenizer_train, where no word goes from one
 * file to the next. Yours to free. The files are read in pieces of 1 MiB, one for each thread, so the memory grows with
 * the number of different words, and not with the texts. A piece ends where a word surely ends: before white space, or
 * between letters, digits and signs of any script, such as behind a full stop. FORMAT, with the offset, for 1 MiB
 * without such a place.
 *
 * FORMAT also for bytes that are not UTF-8, with the path and the offset, and for a file that becomes shorter while it
 * is read; VALUE for a count or a min_count below 1; STATE if on_progress has stopped the training. The other errors
 * are those of tg_tokenizer_train. */
TG_API tg_tokenizer *tg_tokenizer_train_files(const char *const *paths, int64_t count, int32_t vocabulary,
                                              const tg_tokenizer_train_files_config *config, tg_error *error);

/* Return a tokenizer from the text of a vocabulary's file, yours to free, and the text of the file for a tokenizer,
 * yours to free with tg_text_free. So a program can keep the vocabulary in the file of the model's weights. The text
 * has the format TG_VOCABULARY_MERGES if the ids follow from the order of the merges, and otherwise TG_VOCABULARY_JSON.
 * `length` is optional in the second call. Errors as for tg_tokenizer_open. */
TG_API tg_tokenizer *tg_tokenizer_new_from_text(const char *text, size_t length, tg_error *error);
TG_API char *tg_tokenizer_text(const tg_tokenizer *tokenizer, size_t *length, tg_error *error);

/* Writes the vocabulary to a file. tg_tokenizer_open reads it, and so does Python: TG_VOCABULARY_JSON with
 * tokenizers.Tokenizer.from_file, TG_VOCABULARY_RANKS with tiktoken.load.load_tiktoken_bpe. VALUE for a vocabulary that
 * the format cannot express; TG_VOCABULARY_JSON can express every vocabulary in which no two ids have the same
 * bytes. */
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

/* Encodes a text of `length` bytes of UTF-8 into ids, which are yours (tg_tokens_free). With `special` a special token
 * in the text, such as <|endoftext|>, becomes its id. Without it the token is ordinary text, which is the right choice
 * for text from users. Of the added_tokens of a tokenizer.json those with "special": true are special; the others
 * always become their ids. Of the tokens that begin at a place the longest is taken, first of those with "normalized":
 * false, then of the others, as in Hugging Face's tokenizers, where the option is not encode_special_tokens. FORMAT,
 * with the offset of the byte, for bytes that are not UTF-8. After an error *tokens is empty. */
TG_API bool tg_tokenizer_encode(tg_tokenizer *tokenizer, const char *text, size_t length, bool special,
                                tg_tokens *tokens, tg_error *error);

/* Frees the ids and empties *tokens. */
TG_API void tg_tokens_free(tg_tokens *tokens);

typedef struct tg_tokenizer_encode_config {
    /* private: tg_tokenizer_encode_config_default() sets it */
    tg_config_mark mark;
    /* whether special tokens in the text become their ids; default false */
    bool special;
    /* whether the tokens of the file's template, such as [CLS] and [SEP], are put around the text: Hugging Face's
     * add_special_tokens. Default false */
    bool with_template;
    /* the most ids, those of the template among them; the others are cut off, at the begin with cuts_left. Default 0,
     * any number */
    int64_t most;
    bool cuts_left;
    /* the number of ids to which fewer ones are filled up with `pad`, at the begin with pads_left. Default 0, none */
    int64_t fill;
    bool pads_left;
    /* the id of padding; default -1, that of the file's "padding" */
    int32_t pad;
    /* whether most, fill and the two sides are those of the file's "truncation" and "padding"; default false */
    bool as_file;
} tg_tokenizer_encode_config;

TG_API tg_tokenizer_encode_config tg_tokenizer_encode_config_default(void);

/* The bytes [begin,end) of a text that an id stands for. */
typedef struct tg_token_span {
    int64_t begin, end;
} tg_token_span;

/* The ids of a text, and the bytes that each stands for. Those of a template or of padding stand for [0,0). `padding`
 * is the number of ids that are padding. */
typedef struct tg_encoding {
    int32_t *ids;
    tg_token_span *spans;
    int64_t count;
    int64_t padding;
} tg_encoding;

/* Encodes a text as tg_tokenizer_encode does, with spans and more options; the encoding is yours (tg_encoding_free).
 * The spans are the offsets of Hugging Face's tokenizers, in bytes: whole characters of the text, without the white
 * space around them if the file's post_processor trims offsets. VALUE for a `most` below the tokens of the template,
 * and for a `fill` without an id of padding. After an error *encoding is empty. */
TG_API bool tg_tokenizer_encode_text(tg_tokenizer *tokenizer, const char *text, size_t length, tg_encoding *encoding,
                                     const tg_tokenizer_encode_config *config, tg_error *error);

/* Frees the ids and empties *encoding. */
TG_API void tg_encoding_free(tg_encoding *encoding);

/* Returns the id of a token, such as "<|im_end|>" or " the", or -1 if there is none. */
TG_API int32_t tg_tokenizer_find(const tg_tokenizer *tokenizer, const char *token);

typedef struct tg_tokenizer_encode_files_config {
    /* private: tg_tokenizer_encode_files_config_default() sets it */
    tg_config_mark mark;
    /* whether special tokens in the texts become their ids; default false */
    bool special;
    /* an id that is written after each file, such as that of <|endoftext|>; default -1, none */
    int32_t end_token;
    /* a function that is called with `context` after each piece of the files; it returns false to stop the call.
     * Default NULL */
    bool (*on_progress)(void *context, const tg_text_progress *progress);
    void *context;
} tg_tokenizer_encode_files_config;

TG_API tg_tokenizer_encode_files_config tg_tokenizer_encode_files_config_default(void);

/* Encodes `count` files of UTF-8 into one file of ids of `bytes` bytes each, 2 or 4 (VALUE), which tg_token_file_open
 * opens. Returns the number of ids. The ids of each file are those of tg_tokenizer_encode. The files are read in pieces
 * of 1 MiB, one for each thread, so the memory does not grow with the texts. A tokenizer.json with a normalizer other
 * than NFC, or with pre-tokenizers other than those of GPT-2, Llama 3, SmolLM, Qwen and DeepSeek, has no place where a
 * word surely ends; then a file has at most 1 MiB.
 *
 * -1 after an error, and the file `path` is as it was before: VALUE for a count below 1, and for more than 65536 ids
 * with 2 bytes; RANGE for an end_token that is no id; STATE if on_progress has stopped the call; FORMAT as for
 * tg_tokenizer_train_files. */
TG_API int64_t tg_tokenizer_encode_files(const tg_tokenizer *tokenizer, const char *const *paths, int64_t count,
                                         const char *path, int bytes, const tg_tokenizer_encode_files_config *config,
                                         tg_error *error);

/* Returns the bytes of one id, which may end inside a character, and writes their number to `length`, which is
 * optional. The bytes do not end with a NUL. Borrowed from the tokenizer. NULL for an id that does not exist. */
TG_API const char *tg_tokenizer_bytes(const tg_tokenizer *tokenizer, int32_t id, size_t *length);

/* Decodes `count` ids into a text that ends with a NUL; yours (tg_text_free). Writes its size in bytes, without the
 * NUL, to `length`, which is optional. RANGE, with the index, for an id that does not exist. */
TG_API char *tg_tokenizer_decode(const tg_tokenizer *tokenizer, const int32_t *ids, int64_t count, size_t *length,
                                 tg_error *error);

/* ---- text as it is generated ------------------------------------------------------------------------------------- */
/* The text of ids that come one after the other, in pieces that end with whole characters: an id may have only some of
 * a character's bytes. The pieces together are tg_tokenizer_decode of all ids, also where its bytes are not UTF-8.
 *
 *     const char *piece = tg_text_stream_add(stream, id, NULL, &error);
 *     fputs(piece ? piece : "", stdout); */

typedef struct tg_text_stream tg_text_stream;

/* Returns a stream of texts of a tokenizer, which must outlive it. Yours to free. */
TG_API tg_text_stream *tg_text_stream_new(const tg_tokenizer *tokenizer, tg_error *error);
TG_API void tg_text_stream_free(tg_text_stream *stream);

/* Adds an id, and returns the text up to the last whole character that earlier calls have not returned: "" if the id
 * completes none. It ends with a NUL, and is borrowed from the stream until the next call. Writes its size in bytes to
 * `length`, which is optional. NULL after an error, and the id is not added: RANGE for an id that does not exist. */
TG_API const char *tg_text_stream_add(tg_text_stream *stream, int32_t id, size_t *length, tg_error *error);

/* Ends a text: returns the bytes of a character that no id has completed, "" if there are none, as
 * tg_text_stream_add does. The stream can then begin another text. */
TG_API const char *tg_text_stream_end(tg_text_stream *stream, size_t *length, tg_error *error);

/* Reads a whole file into a text that ends with a NUL; yours (tg_text_free). Writes its size in bytes, without the NUL,
 * to `length`, which is optional. The bytes are not checked. FILE if it is not a regular file. */
TG_API char *tg_text_read(const char *path, size_t *length, tg_error *error);

#ifdef __cplusplus
}
#endif

#endif
