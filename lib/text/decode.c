/* decode: the conversion of ids to text.
 *
 * Tokens of bytes are put one behind the other. Other tokens go through the decoders of tokenizer.json, as in Hugging
 * Face's tokenizers; what each becomes behind another token is written once, when the vocabulary is opened. Decoders
 * behind a Fuse see the whole text. Bytes that are no character remain as they are.
 */
#include <string.h>

#include <tapegrad/extend.h>
#include "text/tokenizer.h"

/* ---- decoders ---- */

static bool has_prefix(const char *text, size_t length, const char *prefix)
{
    size_t size = strlen(prefix);
    return size <= length && memcmp(text, prefix, size) == 0;
}

/* Spaces before signs are removed, one rule after the other. */
static const char *const rules[][2] = {{" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
                                       {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
                                       {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};

/* Applies the rules to the bytes from `begin` on. The results are not longer. */
static void clean_up(tg_text_buffer *out, size_t begin)
{
    for (size_t r = 0; r < sizeof rules / sizeof *rules && !out->failed; r++) {
        size_t from = strlen(rules[r][0]), to = strlen(rules[r][1]), kept = begin;
        for (size_t i = begin; i < out->length;) {
            bool is_found = has_prefix(out->bytes + i, out->length - i, rules[r][0]);
            memmove(out->bytes + kept, is_found ? rules[r][1] : out->bytes + i, is_found ? to : 1);
            kept += is_found ? to : 1;
            i += is_found ? from : 1;
        }
        out->length = kept;
    }
}

static bool decode_pieces(const tg_stage *s, const tg_decoding *d, tg_text_buffer *out)
{
    size_t begin = out->length, prefix = strlen(s->content);
    bool continues = !d->is_first && has_prefix(d->text, d->length, s->content);
    tg_text_add(out, d->is_first || continues ? "" : " ");
    tg_text_add_bytes(out, continues ? d->text + prefix : d->text, continues ? d->length - prefix : d->length);
    if (s->cleans_up) {
        clean_up(out, begin);
    }
    return true;
}

static bool decode_metaspace(const tg_stage *s, const tg_decoding *d, tg_text_buffer *out)
{
    size_t size;
    for (size_t i = 0; i < d->length; i += size) {
        size = tg_character_size(d->text[i]);
        if (has_prefix(d->text + i, d->length - i, s->content)) {
            tg_text_add(out, d->is_first && s->scheme != TG_NEVER ? "" : " ");
        } else {
            tg_text_add_bytes(out, d->text + i, size);
        }
    }
    return true;
}

/* Bytes that are no character, which a ByteFallback may have written, remain as they are. */
static bool decode_replace(const tg_stage *s, const tg_decoding *d, tg_text_buffer *out)
{
    int found = 0;
    for (size_t from = 0, valid; found == 0 && from < d->length; from += valid + 1) {
        const char *text = d->text + from;
        valid = tg_utf8_check(text, d->length - from);
        tg_matches matches = {s->pattern, d->matcher, text, valid, 0, false};
        size_t at = 0, begin, end;
        while ((found = tg_matches_next(&matches, &begin, &end, d->error)) > 0) {
            tg_text_add_bytes(out, text + at, begin - at);
            tg_text_add(out, s->content);
            at = end;
        }
        tg_text_add_bytes(out, text + at, valid - at + (from + valid < d->length));
    }
    return found == 0;
}

static bool decode_byte(const tg_stage *s, const tg_decoding *d, tg_text_buffer *out)
{
    unsigned byte = 0;
    (void)s;
    bool is_byte = d->length == 6 && memcmp(d->text, "<0x", 3) == 0 && d->text[5] == '>';
    for (size_t i = 3; is_byte && i < 5; i++) {
        const char *digit = d->text[i] ? strchr("0123456789ABCDEF0123456789abcdef", d->text[i]) : NULL;
        is_byte = digit != NULL;
        byte = byte * 16 + (digit ? (unsigned)(digit - "0123456789ABCDEF0123456789abcdef") % 16 : 0);
    }
    char one = (char)byte;
    tg_text_add_bytes(out, is_byte ? &one : d->text, is_byte ? 1 : d->length);
    return true;
}

static bool decode_strip(const tg_stage *s, const tg_decoding *d, tg_text_buffer *out)
{
    size_t size = strlen(s->content), length = d->length;
    const char *text = d->text;
    for (int64_t i = 0; i < s->start && has_prefix(text, length, s->content); i++) {
        text += size;
        length -= size;
    }
    for (int64_t i = 0; i < s->stop && length >= size && memcmp(text + length - size, s->content, size) == 0; i++) {
        length -= size;
    }
    tg_text_add_bytes(out, text, length);
    return true;
}

/* Of tokens without decoders, which have spaces between them. */
static bool decode_spaces(const tg_stage *s, const tg_decoding *d, tg_text_buffer *out)
{
    (void)s;
    tg_text_add(out, d->is_first ? "" : " ");
    tg_text_add_bytes(out, d->text, d->length);
    return true;
}

const tg_stage_kind tg_decoder_kinds[] = {
    {"ByteLevel", "", "add_prefix_space trim_offsets use_regex ", NULL, NULL, 0, NULL},
    {"WordPiece", "prefix cleanup ", "", NULL, NULL, 0, decode_pieces},
    {"Metaspace", "replacement ", "prepend_scheme add_prefix_space split ", NULL, NULL, 0, decode_metaspace},
    {"Replace", "pattern content ", "", NULL, NULL, 0, decode_replace},
    {"ByteFallback", "", "", NULL, NULL, 0, decode_byte},
    {"Fuse", "", "", NULL, NULL, 0, NULL},
    {"Strip", "content start stop ", "", NULL, NULL, 0, decode_strip},
    {"Sequence", "decoders ", "", NULL, NULL, 0, NULL},
    {NULL, NULL, NULL, NULL, NULL, 0, NULL},
};

/* ---- texts ---- */

/* Returns the index of the first decoder that sees the whole text. */
static size_t first_of_text(const tg_stages *decoders)
{
    size_t i = 0;
    while (i < decoders->count && strcmp(decoders->stages[i].kind->name, "Fuse") != 0) {
        i++;
    }
    return i;
}

/* Sends a text through the decoders [begin,end), and adds the result to `out`. */
static bool decode(const tg_stages *decoders, size_t begin, size_t end, const char *text, size_t length, bool is_first,
                   tg_text_buffer *out, tg_error *error)
{
    tg_matcher matcher = {NULL, NULL};
    tg_decoding d = {&matcher, text, length, is_first, error};
    tg_text_buffer now = {0};
    bool is_good = true;
    if (decoders->count == 0) {
        return decode_spaces(NULL, &d, out);
    }
    for (size_t i = begin; is_good && i < end; i++) {
        const tg_stage *s = &decoders->stages[i];
        tg_text_buffer next = {0};
        if (s->kind->decode) {
            is_good = s->kind->decode(s, &d, &next);
            next.failed |= now.failed;
            tg_free(now.bytes);
            now = next;
            d.text = now.bytes ? now.bytes : "";
            d.length = now.length;
        }
    }
    tg_text_add_bytes(out, d.text, d.length);
    out->failed |= now.failed;
    tg_free(now.bytes);
    tg_matcher_free(&matcher);
    return is_good;
}

bool tg_tokenizer_show(tg_tokenizer *z, tg_error *error)
{
    const tg_stages *decoders = &z->lists[TG_DECODERS];
    tg_text_buffer text = {0};
    bool is_good = true;
    for (int32_t id = 0; is_good && z->model.kind != TG_MODEL_BYTES && id < z->tokens.count; id++) {
        size_t length;
        const char *bytes = tg_tokenizer_normalized_token(z, id, &length);
        text.length = 0;
        is_good = decode(decoders, 0, first_of_text(decoders), bytes, length, false, &text, error) && !text.failed &&
                  tg_names_append(&z->shown, text.bytes ? text.bytes : "", text.length, NULL, 0);
    }
    tg_free(text.bytes);
    return is_good || tg_error_set(error, TG_ERROR_MEMORY, "tokenizer: out of memory for the tokens");
}

const char *tg_tokenizer_bytes(const tg_tokenizer *z, int32_t id, size_t *length)
{
    size_t unused;
    length = length ? length : &unused;
    *length = 0;
    const char *bytes = z ? tg_tokenizer_token(z, id, length) : NULL;
    if (!bytes || *length == 0) { /* an id that no token has */
        return NULL;
    }
    if (z->shown.count > 0) {
        return tg_names_at(&z->shown, id, length);
    }
    return tg_tokenizer_normalized_token(z, id, length);
}

/* Adds the bytes of the tokens. */
static bool add_tokens(const tg_tokenizer *z, const int32_t *ids, int64_t count, tg_text_buffer *out, tg_error *error)
{
    const tg_stages *decoders = &z->lists[TG_DECODERS];
    for (int64_t i = 0; i < count; i++) {
        size_t length;
        const char *bytes = tg_tokenizer_bytes(z, ids[i], &length);
        if (!bytes) {
            return tg_error_set(error, TG_ERROR_RANGE,
                                "tokenizer_decode: id %d at [%lld] is outside [0,%d), or no token", ids[i],
                                (long long)i, tg_tokenizer_vocabulary(z));
        }
        if (i == 0 && z->shown.count > 0) {
            bytes = tg_tokenizer_normalized_token(z, ids[i], &length);
            if (!decode(decoders, 0, first_of_text(decoders), bytes, length, true, out, error)) {
                return false;
            }
        } else {
            tg_text_add_bytes(out, bytes, length);
        }
    }
    return true;
}

char *tg_tokenizer_decode(const tg_tokenizer *z, const int32_t *ids, int64_t count, size_t *length, tg_error *error)
{
    size_t unused;
    length = length ? length : &unused;
    *length = 0;
    if (!z || (!ids && count > 0)) {
        tg_error_set(error, TG_ERROR_STATE, "tokenizer_decode: the %s NULL", z ? "ids are" : "tokenizer is");
        return NULL;
    }
    const tg_stages *decoders = &z->lists[TG_DECODERS];
    size_t first = first_of_text(decoders);
    tg_text_buffer text = {0}, whole = {0};
    bool is_good = add_tokens(z, ids, count, &text, error);
    if (is_good && first < decoders->count && count > 0) {
        is_good =
            decode(decoders, first, decoders->count, text.bytes ? text.bytes : "", text.length, true, &whole, error);
        whole.failed |= text.failed;
        tg_free(text.bytes);
        text = whole;
    }
    *length = text.length;
    tg_text_add_bytes(&text, "", 1);
    if (is_good && text.failed) {
        is_good =
            tg_error_set(error, TG_ERROR_MEMORY, "tokenizer_decode: out of memory for %lld ids", (long long)count);
    }
    if (!is_good) {
        tg_free(text.bytes);
        *length = 0;
        return NULL;
    }
    return text.bytes;
}
