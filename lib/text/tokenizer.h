/* tokenizer (private): how a text becomes ids, and back.
 *
 * Stages. A text goes through a list of stages: a search for added tokens, normalizers, a second search, and
 * pre-tokenizers. Each gets a piece of text, and hands pieces to the next one. The last pieces are the words, which the
 * model makes ids of: a byte-pair encoding, over bytes or over characters, or WordPiece. An edited text is a copy with
 * the place of each byte in the text of the caller, so every id has its place there.
 *
 * Tables of the model.
 *   tokens           the tokens, and from their bytes to their ids: names.h
 *   merges[], slots  merge r joins the tokens of .pair into the token .result; r is its rank; see pairs.h
 *   added[]          the added tokens, which are found in a text before it is split, ascending by id
 */
#ifndef TG_TEXT_TOKENIZER_H
#define TG_TEXT_TOKENIZER_H

#include <tapegrad/tokenizer.h>

#include <tapegrad/extend.h>
#include "text/names.h"
#include "text/pairs.h"
#include "text/pattern.h"

#define TG_BYTES 256
#define TG_END_OF_TEXT "<|endoftext|>"

/* ---- pieces of text ---- */

/* The bytes of the caller's text that a byte stands for. */
typedef struct tg_place {
    uint32_t begin, end;
} tg_place;

typedef struct tg_view {
    const char *text;
    size_t length;
    const tg_place *places; /* of each byte; NULL: the text is the caller's own */
    size_t at;              /* of text[0] in the caller's text, without places */
} tg_view;

/* The searches of a text for added tokens, one after the other: first for those that are not normalized. */
#define TG_SEARCHES 2

static inline tg_view tg_view_part(const tg_view *v, size_t begin, size_t end)
{
    return (tg_view){v->text + begin, end - begin, v->places ? v->places + begin : NULL, v->at + begin};
}

/* Returns the place of the bytes [begin,end) of a text, which are not empty: that of whole characters. */
tg_place tg_view_place(const tg_view *view, size_t begin, size_t end);

/* A text that is being written, with places. */
typedef struct tg_edit {
    char *bytes;
    tg_place *places;
    size_t count, byte_capacity, place_capacity;
    bool failed; /* memory is exhausted */
} tg_edit;

void tg_edit_put(tg_edit *edit, const char *bytes, size_t length, tg_place place);

/* Writes a text with other bytes before it, which have the place of its first character. */
void tg_edit_prepend(tg_edit *edit, const tg_view *view, const char *bytes);

/* Adds a part of a text with its places. */
void tg_edit_copy(tg_edit *edit, const tg_view *view, size_t begin, size_t end);
void tg_edit_free(tg_edit *edit);

static inline tg_view tg_edit_view(const tg_edit *d)
{
    return (tg_view){d->bytes, d->count, d->places, 0};
}

/* ---- stages ---- */

struct tg_pipeline;
struct tg_stage;

/* A token that is decoded. */
typedef struct tg_decoding {
    tg_matcher *matcher;
    const char *text;
    size_t length;
    bool is_first; /* of its text */
    tg_error *error;
} tg_decoding;

/* A kind of stage: a row of the table in stages.c, normalize.c, added_tokens.c or decode.c. */
typedef struct tg_stage_kind {
    const char *name;     /* in tokenizer.json */
    const char *required; /* the names of its members, each with a space behind it */
    const char *optional;
    /* hands pieces to the next stage */
    bool (*run)(struct tg_pipeline *walk, size_t stage, const tg_view *view);
    const char *pattern; /* what it splits by, if it has no member for it */
    int option;          /* the behavior, if it has no member for it; of a normalizer: its form */
    /* adds what a token becomes */
    bool (*decode)(const struct tg_stage *stage, const tg_decoding *token, tg_text_buffer *out);
} tg_stage_kind;

/* What a Split does with what its pattern finds. TG_WORDS: it removes all else. */
typedef enum tg_behavior {
    TG_REMOVED,
    TG_ISOLATED,
    TG_WITH_PREVIOUS,
    TG_WITH_NEXT,
    TG_CONTIGUOUS,
    TG_WORDS
} tg_behavior;

/* Where a Metaspace adds a first space. */
typedef enum tg_scheme { TG_ALWAYS, TG_FIRST, TG_NEVER } tg_scheme;

/* A stage, with the members of all kinds. */
typedef struct tg_stage {
    const tg_stage_kind *kind;
    char *text;    /* the pattern */
    char *content; /* what is put in its place, or before, or removed; the prefix of WordPiece */
    bool is_literal, is_inverted, adds_prefix_space, uses_regex, splits, trims_offsets;
    bool cleans, separates_chinese, strips_accents, has_strips_accents, lowers, cleans_up;
    int behavior, scheme;
    int64_t start, stop;
    int32_t *ids; /* of a template: -1 is the text */
    size_t id_count;
    tg_pattern *pattern;
} tg_stage;

/* The lists of stages of a tokenizer.json. */
typedef enum tg_list { TG_NORMALIZERS, TG_PRE_TOKENIZERS, TG_POST_PROCESSORS, TG_DECODERS, TG_LISTS } tg_list;

#define TG_MOST_STAGES 24

typedef struct tg_stages {
    tg_stage stages[TG_MOST_STAGES];
    size_t count;
} tg_stages;

/* The truncation and the padding of a tokenizer.json. */
typedef struct tg_limits {
    int64_t most, fill, multiple; /* 0: none */
    int64_t pad;
    bool cuts_left, pads_left;
} tg_limits;

/* The members of tokenizer.json that are kept as they were read, to be written again. The first ones are lists. */
enum { TG_PADDING = TG_LISTS, TG_TRUNCATION, TG_SETTINGS };

/* A text on its way through the stages of a tokenizer. */
typedef struct tg_pipeline {
    const struct tg_tokenizer *z;
    const char *call; /* for messages */
    bool special;     /* whether special tokens become their ids */
    tg_matcher matcher;
    tg_edit edits[2 * TG_MOST_STAGES + TG_SEARCHES]; /* of each step */
    /* receive the words, and the added tokens, which is optional; false after an error */
    bool (*on_word)(void *context, const tg_view *word, tg_error *error);
    bool (*on_token)(void *context, const tg_view *token, int32_t id, tg_error *error);
    void *context;
    tg_error *error;
} tg_pipeline;

/* Why a normalizer may be unknown. */
#ifdef TG_HAVE_UTF8PROC
#define TG_WITHOUT_UTF8PROC ""
#else
#define TG_WITHOUT_UTF8PROC "; this build has no utf8proc, which most normalizers need"
#endif

/* Sends a text of UTF-8 through all stages. */
bool tg_pipeline_text(tg_pipeline *walk, const char *text, size_t length);

/* Hands a piece to the next stage. */
bool tg_pipeline_next(tg_pipeline *walk, size_t stage, const tg_view *view);

/* Hands the edited text to the next stage. */
bool tg_pipeline_edited(tg_pipeline *walk, size_t stage, const tg_edit *edit);

/* Frees the memory of the walk. */
void tg_pipeline_free(tg_pipeline *walk);

/* The kinds of each list, up to one without a name. */
extern const tg_stage_kind tg_normalizer_kinds[], tg_pre_tokenizer_kinds[], tg_post_processor_kinds[],
    tg_decoder_kinds[];

/* Compiles the patterns of stages that have been read. FORMAT, or MEMORY. */
bool tg_stages_prepare(tg_stages *stages, tg_error *error);
void tg_stages_free(tg_stages *stages);

/* Returns whether texts are split into bytes: the last pre-tokenizer is a ByteLevel. */
bool tg_stages_have_bytes(const tg_stages *pre_tokenizers);

/* Returns where a text may be cut. */
tg_cuts tg_tokenizer_cuts(const struct tg_tokenizer *tokenizer);

/* Returns whether a text may be cut before the byte at `at` > 0: the words of both parts are those of the text. False
 * if that is not sure. The text may have bytes that are not UTF-8. */
bool tg_pipeline_can_cut(tg_pipeline *walk, const char *text, size_t length, size_t at);

/* ---- the model ---- */

typedef enum tg_model_kind { TG_MODEL_BYTES, TG_MODEL_CHARACTERS, TG_MODEL_WORD_PIECE } tg_model_kind;

typedef struct tg_model {
    tg_model_kind kind;
    char *unknown; /* the token of what is not in the vocabulary; NULL: it is left out */
    int32_t unknown_id;
    bool fuses_unknown, has_byte_fallback, ignores_merges;
    char *prefix; /* of the pieces behind the first one of a word */
    int64_t most_characters;
    size_t longest; /* the bytes of the longest token */
} tg_model;

/* ---- tokenizer.c ---- */

typedef struct tg_merge {
    tg_pair pair;
    int32_t result;
} tg_merge;

/* An added token. */
typedef struct tg_added_token {
    int32_t id;
    bool is_special;     /* found only if the call asks for special tokens */
    bool is_normalized;  /* found in the normalized text between the tokens that are not */
    bool strips_left;    /* has the white space before it, too */
    bool strips_right;   /* and behind it */
    bool is_single_word; /* found only if it is no part of a word */
    bool is_in_model;    /* the model has it, too */
} tg_added_token;

/* Bits of the hashes of first bytes that the tokens of a search have. */
#define TG_SEARCH_BITS 16

/* The added tokens that one search finds. */
typedef struct tg_added_search {
    tg_names names;  /* all added tokens as they are searched; only its own are found */
    size_t *lengths; /* of its tokens, descending, each once */
    size_t length_count, length_capacity;
    size_t shortest; /* the bytes of a hash */
    uint64_t hashes[(1 << TG_SEARCH_BITS) / 64];
} tg_added_search;

struct tg_tokenizer {
    tg_stages lists[TG_LISTS];
    char *settings[TG_SETTINGS]; /* JSON; NULL: null */
    tg_limits limits;
    tg_stage search_stages[TG_SEARCHES];
    const tg_stage *steps[2 * TG_MOST_STAGES + TG_SEARCHES]; /* of a walk */
    size_t step_count;
    tg_model model;
    tg_names tokens; /* those that only a search finds are not found by their bytes */
    tg_merge *merges;
    size_t merge_count, merge_capacity;
    tg_pair_slots slots;
    tg_added_token *added;
    size_t added_count, added_capacity;
    tg_added_search *searches;
    tg_pattern *word_character;
    size_t longest_added;
    int32_t end_of_text; /* -1: none */
    int32_t id_of_byte[TG_BYTES];
    tg_names shown;             /* what the tokens are decoded to, unless it is their bytes */
    struct tg_encoder *encoder; /* of tg_tokenizer_encode */
};

/* Returns a tokenizer without tokens. NULL with the error set. */
tg_tokenizer *tg_tokenizer_make(tg_error *error);

/* Returns the bytes of a token as the model has them. NULL for an id that does not exist. */
const char *tg_tokenizer_token(const tg_tokenizer *tokenizer, int32_t id, size_t *length);

/* Returns the bytes of a token as they are found in a normalized text. */
const char *tg_tokenizer_normalized_token(const tg_tokenizer *tokenizer, int32_t id, size_t *length);

/* Returns the character of a byte in vocab.bpe: a printable byte is itself. */
unsigned tg_character_of_byte(unsigned byte);

/* Adds the 256 bytes with GPT-2's ids: 0 to 187 are the printable ones. */
bool tg_tokenizer_add_bytes(tg_tokenizer *tokenizer);

/* Adds the next merge. The pair must be new. */
bool tg_tokenizer_add_merge(tg_tokenizer *tokenizer, int32_t left, int32_t right, int32_t result);

/* Adds the next merge and a token for its result. */
bool tg_tokenizer_add_merged_token(tg_tokenizer *tokenizer, int32_t left, int32_t right);

/* Marks a token as an added one. Ids must be ascending. */
bool tg_tokenizer_mark_added(tg_tokenizer *tokenizer, tg_added_token token);

/* Adds a special token at the end. */
bool tg_tokenizer_add_special(tg_tokenizer *tokenizer, const char *text);

/* Returns the added token with this id, or NULL. */
const tg_added_token *tg_tokenizer_added(const tg_tokenizer *tokenizer, int32_t id);

/* Returns the rank of a pair, or -1. */
int64_t tg_tokenizer_rank(const tg_tokenizer *tokenizer, int32_t left, int32_t right);

/* Compiles the stages, and finds the kind of a byte-pair encoding. FORMAT, or MEMORY. */
bool tg_tokenizer_prepare(tg_tokenizer *tokenizer, const char *call, const char *path, tg_error *error);

/* Makes the stages of a text that is split by a pattern into words of bytes; NULL: as GPT-2 does. FORMAT, or MEMORY. */
bool tg_tokenizer_use_pattern(tg_tokenizer *tokenizer, const char *pattern, const char *call, tg_error *error);

/* Returns whether texts are split as GPT-2 does, and nothing else is done with them. */
bool tg_tokenizer_is_gpt2(const tg_tokenizer *tokenizer);

/* Prepares a walk. To be called when all tokens have been added. */
bool tg_tokenizer_finish(tg_tokenizer *tokenizer, tg_error *error);

/* ---- added_tokens.c ---- */

extern const tg_stage_kind tg_search_kind;

/* Prepares the search for added tokens. */
bool tg_added_tokens_prepare(tg_tokenizer *tokenizer, tg_error *error);

/* Returns the longest added token of a search that `text` begins with, and writes its length there; or NULL. */
const tg_added_token *tg_added_tokens_find(const tg_tokenizer *tokenizer, int search, const char *text, size_t length,
                                           size_t *size);
void tg_added_tokens_free(tg_tokenizer *tokenizer);

/* ---- encode.c ---- */

/* The word that is being merged, as a linked list of symbols; the heap of pairs; and the output. Begins as zeros. */
typedef struct tg_encoder {
    struct tg_symbol *symbols;
    size_t symbol_capacity;
    struct tg_candidate *heap;
    size_t heap_count, heap_capacity;
    bool *is_whole; /* by id: whether the merges make the token of a word that has its bytes */
    char *name;     /* a piece of a word behind the prefix of such pieces */
    size_t name_capacity;
    int32_t *ids;
    size_t id_count, id_capacity;
    bool has_places; /* whether the places of ids are wanted */
    tg_place *places;
    size_t place_capacity;
    tg_pipeline walk;
} tg_encoder;

/* Appends the ids of a word to e->ids. Only merges of a rank below `ranks` are used. Returns false when memory is
 * exhausted. */
bool tg_encoder_word(tg_encoder *encoder, const tg_tokenizer *tokenizer, const tg_view *word, int64_t ranks);

/* Appends the ids of a text of UTF-8. */
bool tg_encoder_text(tg_encoder *encoder, const tg_tokenizer *tokenizer, const char *call, bool special,
                     const char *text, size_t length, tg_error *error);

/* Frees all but the ids. */
void tg_encoder_free(tg_encoder *encoder);

/* ---- decode.c ---- */

/* Writes what the tokens are decoded to, unless it is their bytes. */
bool tg_tokenizer_show(tg_tokenizer *tokenizer, tg_error *error);

#endif
