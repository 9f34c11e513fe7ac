/* encode_text: the calls that encode one text, and what is done with its ids: truncation, special tokens around the
 * text, and padding, in the order of Hugging Face's tokenizers. */
#include <string.h>

#include <tapegrad/extend.h>
#include "text/tokenizer.h"

/* ---- post-processors ---- */

/* Returns the number of white characters at the begin of a token, or at its end. In a token of bytes only a space is
 * white. */
static int64_t white_characters(const char *text, size_t length, bool is_added, bool at_end)
{
    int64_t count = 0;
    for (size_t begin = 0, end = length; begin < end; count++) {
        size_t at = at_end ? tg_character_before(text, end) : begin;
        if (text[at] != ' ' && !(is_added && tg_is_white(text, length, at))) {
            break;
        }
        begin += at_end ? 0 : tg_character_size(text[at]);
        end = at_end ? at : end;
    }
    return count;
}

/* Removes characters of white space from the spans of tokens, as a ByteLevel does. */
static void trim(const tg_tokenizer *z, const tg_stage *s, const char *text, tg_encoding *r)
{
    for (int64_t i = 0; i < r->count; i++) {
        size_t length;
        tg_token_span *span = &r->spans[i];
        const char *bytes = tg_tokenizer_normalized_token(z, r->ids[i], &length);
        const tg_added_token *added = tg_tokenizer_added(z, r->ids[i]);
        bool is_added = added != NULL;
        if (added && (!added->is_normalized || added->strips_left ||
                      added->strips_right)) { /* it may have white space beside it */
            bytes = text + span->begin;
            length = (size_t)(span->end - span->begin);
        }
        int64_t before = white_characters(bytes, length, is_added, false);
        int64_t behind = white_characters(bytes, length, is_added, true);
        if (before == 1 && s->adds_prefix_space && (i == 0 || span->begin == 0)) {
            before = 0; /* it is not in the text */
        }
        for (; before > 0 && span->begin < span->end; before--) {
            span->begin += (int64_t)tg_character_size(text[span->begin]);
        }
        for (; behind > 0 && span->end > span->begin; behind--) {
            span->end = (int64_t)tg_character_before(text, (size_t)span->end);
        }
    }
}

const tg_stage_kind tg_post_processor_kinds[] = {
    {"ByteLevel", "", "add_prefix_space trim_offsets use_regex ", NULL, NULL, 0, NULL},
    {"TemplateProcessing", "single special_tokens ", "pair ", NULL, NULL, 0, NULL},
    {"Sequence", "processors ", "", NULL, NULL, 0, NULL},
    {NULL, NULL, NULL, NULL, NULL, 0, NULL},
};

/* Returns the template of a tokenizer, or NULL. */
static const tg_stage *template_of(const tg_tokenizer *z)
{
    const tg_stages *list = &z->lists[TG_POST_PROCESSORS];
    const tg_stage *found = NULL;
    for (size_t i = 0; i < list->count; i++) {
        found = list->stages[i].ids ? &list->stages[i] : found;
    }
    return found;
}

/* ---- ids ---- */

static bool reserve(tg_encoding *r, int64_t count, tg_error *error)
{
    r->ids = tg_alloc((uint64_t)count + 1, sizeof *r->ids);
    r->spans = tg_alloc((uint64_t)count + 1, sizeof *r->spans);
    return (r->ids && r->spans) ||
           tg_error_set(error, TG_ERROR_MEMORY, "tokenizer_encode_text: out of memory for %lld ids", (long long)count);
}

static void add(tg_encoding *r, int32_t id, tg_token_span span)
{
    r->ids[r->count] = id;
    r->spans[r->count++] = span;
}

static void add_padding(tg_encoding *r, int64_t count, int32_t id)
{
    for (int64_t i = 0; i < count; i++) {
        add(r, id, (tg_token_span){0, 0});
    }
}

/* The ids of the text, and those around it. */
typedef struct part {
    const int32_t *ids;
    const tg_place *places;
    int64_t count;
} part;

static void add_text(const tg_tokenizer *z, const part *p, const char *text, tg_encoding *r)
{
    const tg_stages *list = &z->lists[TG_POST_PROCESSORS];
    tg_encoding added = {r->ids + r->count, r->spans + r->count, 0, 0};
    for (int64_t i = 0; i < p->count; i++) {
        add(&added, p->ids[i], (tg_token_span){p->places[i].begin, p->places[i].end});
    }
    for (size_t i = 0; i < list->count; i++) {
        if (!list->stages[i].ids && list->stages[i].trims_offsets) {
            trim(z, &list->stages[i], text, &added);
        }
    }
    r->count += added.count;
}

/* Truncates, adds the template, and pads. */
static bool finish(const tg_tokenizer *z, const tg_tokenizer_encode_config *o, part p, const char *text, tg_encoding *r,
                   tg_error *error)
{
    const tg_stage *s = o->with_template ? template_of(z) : NULL;
    int64_t around = 0, texts = s ? 0 : 1;
    for (size_t i = 0; s && i < s->id_count; i++) {
        around += s->ids[i] >= 0;
        texts += s->ids[i] < 0;
    }
    if (o->most > 0 && o->most < around) {
        return tg_error_set(error, TG_ERROR_VALUE,
                            "tokenizer_encode_text: at most %lld ids; the template alone has %lld", (long long)o->most,
                            (long long)around);
    }
    if (o->most > 0 && texts > 0 && p.count > (o->most - around) / texts) {
        int64_t kept = (o->most - around) / texts, cut = o->cuts_left ? p.count - kept : 0;
        p = (part){p.ids + cut, p.places + cut, kept};
    }
    int64_t count = around + texts * p.count;
    r->padding = o->fill > count ? o->fill - count : 0;
    if (!reserve(r, count + r->padding, error)) {
        return false;
    }
    add_padding(r, o->pads_left ? r->padding : 0, o->pad);
    for (size_t i = 0; s && i < s->id_count; i++) {
        if (s->ids[i] < 0) {
            add_text(z, &p, text, r);
        } else {
            add(r, s->ids[i], (tg_token_span){0, 0});
        }
    }
    if (!s) {
        add_text(z, &p, text, r);
    }
    add_padding(r, o->pads_left ? 0 : r->padding, o->pad);
    return true;
}

/* ---- calls ---- */

TG_CONFIG(tg_tokenizer_encode_config, tg_tokenizer_encode_config_default, mark, .mark = mark, .pad = -1);

/* Encodes into the tokenizer's encoder. */
static bool encode(tg_tokenizer *z, const char *call, const char *text, size_t length, bool special, bool has_places,
                   tg_error *error)
{
    if (!z || (!text && length > 0)) {
        return tg_error_set(error, TG_ERROR_STATE, "%s: the %s is NULL", call, z ? "text" : "tokenizer");
    }
    size_t bad = tg_utf8_check(text, length);
    if (bad < length) {
        return tg_error_set(error, TG_ERROR_FORMAT, "%s: byte 0x%02x at %zu is not UTF-8", call,
                            (unsigned)(unsigned char)text[bad], bad);
    }
    z->encoder->id_count = 0;
    z->encoder->has_places = has_places;
    return tg_encoder_text(z->encoder, z, call, special, text, length, error);
}

bool tg_tokenizer_encode(tg_tokenizer *z, const char *text, size_t length, bool special, tg_tokens *tokens,
                         tg_error *error)
{
    static const char call[] = "tokenizer_encode";
    if (!tokens) {
        return tg_error_set(error, TG_ERROR_STATE, "%s: the tokens are NULL", call);
    }
    *tokens = (tg_tokens){NULL, 0};
    if (!encode(z, call, text, length, special, false, error)) {
        return false;
    }
    /* the caller takes the memory */
    *tokens = (tg_tokens){z->encoder->ids, (int64_t)z->encoder->id_count};
    z->encoder->ids = NULL;
    z->encoder->id_capacity = 0;
    return true;
}

void tg_tokens_free(tg_tokens *tokens)
{
    if (tokens) {
        tg_free(tokens->ids);
        *tokens = (tg_tokens){NULL, 0};
    }
}

/* Checks the options, and puts those of the file in their place. */
static bool check(const tg_tokenizer *z, tg_tokenizer_encode_config *o, tg_error *error)
{
    static const char call[] = "tokenizer_encode_text";
    const tg_limits *l = &z->limits;
    if (o->as_file) {
        o->most = l->most;
        o->cuts_left = l->cuts_left;
        o->fill = l->fill;
        o->pads_left = l->pads_left;
        if (o->fill > 0 && l->multiple > 0) {
            o->fill += (l->multiple - o->fill % l->multiple) % l->multiple;
        }
    }
    o->pad = o->pad < 0 && l->pad <= INT32_MAX ? (int32_t)l->pad : o->pad;
    if (o->most < 0 || o->fill < 0 || o->fill > INT32_MAX) {
        return tg_error_set(error, TG_ERROR_VALUE, "%s: most %lld and fill %lld; they must be in [0,2147483647]", call,
                            (long long)o->most, (long long)o->fill);
    }
    return o->fill == 0 || tg_tokenizer_bytes(z, o->pad, NULL) ||
           tg_error_set(error, TG_ERROR_VALUE, "%s: pad %d; fill needs an id in [0,%d)", call, o->pad,
                        tg_tokenizer_vocabulary(z));
}

bool tg_tokenizer_encode_text(tg_tokenizer *z, const char *text, size_t length, tg_encoding *encoding,
                              const tg_tokenizer_encode_config *config, tg_error *error)
{
    static const char call[] = "tokenizer_encode_text";
    if (!encoding) {
        return tg_error_set(error, TG_ERROR_STATE, "%s: the encoding is NULL", call);
    }
    *encoding = (tg_encoding){NULL, NULL, 0, 0};
    if (!tg_config_check(call, config, mark, error)) {
        return false;
    }
    tg_tokenizer_encode_config o = config ? *config : tg_tokenizer_encode_config_default();
    if (!encode(z, call, text, length, o.special, true, error) || !check(z, &o, error)) {
        return false;
    }
    part p = {z->encoder->ids, z->encoder->places, (int64_t)z->encoder->id_count};
    if (!finish(z, &o, p, text, encoding, error)) {
        tg_encoding_free(encoding);
        return false;
    }
    return true;
}

void tg_encoding_free(tg_encoding *encoding)
{
    if (encoding) {
        tg_free(encoding->ids);
        tg_free(encoding->spans);
        *encoding = (tg_encoding){NULL, NULL, 0, 0};
    }
}

int32_t tg_tokenizer_find(const tg_tokenizer *z, const char *token)
{
    for (size_t i = 0; z && token && i < z->added_count; i++) {
        size_t length;
        const char *bytes = tg_tokenizer_token(z, z->added[i].id, &length);
        if (length == strlen(token) && memcmp(bytes, token, length) == 0) {
            return z->added[i].id;
        }
    }
    return z && token && token[0] ? tg_names_find(&z->tokens, token, strlen(token)) : -1;
}
