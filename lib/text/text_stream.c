/* text_stream: the text of ids that come one after the other.
 *
 * A stream keeps the last ids, its window, and decodes them again with each new one: what a decoder writes for an id
 * may depend on the one before, such as the space between two words. The window begins with the ids of the last text
 * that ended with a whole character. So a call decodes a few ids, however long the text is.
 */
#include <string.h>

#include <tapegrad/extend.h>
#include <tapegrad/tokenizer.h>

/* The most ids that are kept for one character. It has at most four bytes, and so four ids that have any. */
#define MOST_OPEN 16

struct tg_text_stream {
    const tg_tokenizer *tokenizer;
    int32_t *ids; /* the window */
    size_t count, capacity;
    size_t closed; /* the number of ids whose text ends with a whole character */
    char *text;    /* of the window */
    size_t given;  /* the number of its bytes that earlier calls have returned */
};

tg_text_stream *tg_text_stream_new(const tg_tokenizer *tokenizer, tg_error *error)
{
    if (!tokenizer) {
        tg_error_set(error, TG_ERROR_STATE, "text_stream_new: the tokenizer is NULL");
        return NULL;
    }
    tg_text_stream *s = tg_alloc_zeroed(1, sizeof *s);
    if (!s) {
        tg_error_set(error, TG_ERROR_MEMORY, "text_stream_new: out of memory");
        return NULL;
    }
    s->tokenizer = tokenizer;
    return s;
}

void tg_text_stream_free(tg_text_stream *s)
{
    if (s) {
        tg_text_free(s->text);
        tg_free(s->ids);
        tg_free(s);
    }
}

/* Returns the number of bytes of a text up to its last character, if that is not complete: its first bytes, or the
 * U+FFFD that a decoder writes for them. */
static size_t whole_length(const char *text, size_t length)
{
    for (size_t back = 1; back <= 3 && back <= length; back++) {
        unsigned char first = (unsigned char)text[length - back];
        if ((first & 0xc0) != 0x80) {
            bool is_open = first >= (back == 1 ? 0xc2 : back == 2 ? 0xe0 : 0xf0) && first <= 0xf4;
            bool is_replaced = back == 3 && memcmp(text + length - 3, "\xef\xbf\xbd", 3) == 0;
            return is_open || is_replaced ? length - back : length;
        }
    }
    return length;
}

/* Replaces the text, and returns the part of it before `end` that earlier calls have not returned. */
static const char *give(tg_text_stream *s, char *text, size_t end, size_t *length)
{
    size_t begin = s->given < end ? s->given : end;
    tg_text_free(s->text);
    s->text = text;
    text[end] = '\0';
    if (length) {
        *length = end - begin;
    }
    return text + begin;
}

const char *tg_text_stream_add(tg_text_stream *s, int32_t id, size_t *length, tg_error *error)
{
    static const char call[] = "text_stream_add";
    if (length) {
        *length = 0;
    }
    if (!s) {
        tg_error_set(error, TG_ERROR_STATE, "%s: the stream is NULL", call);
        return NULL;
    }
    if (id < 0 || id >= tg_tokenizer_vocabulary(s->tokenizer)) {
        tg_error_set(error, TG_ERROR_RANGE, "%s: id %d is outside [0,%d)", call, id,
                     tg_tokenizer_vocabulary(s->tokenizer));
        return NULL;
    }
    if (!tg_grow(&s->ids, &s->capacity, s->count, s->count + 1, sizeof *s->ids)) {
        tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory", call);
        return NULL;
    }
    s->ids[s->count] = id;
    size_t bytes, kept = 0, open = s->count + 1 - s->closed;
    char *text = tg_tokenizer_decode(s->tokenizer, s->ids, (int64_t)s->count + 1, &bytes, error), *last = NULL;
    size_t end = !text || open > MOST_OPEN ? bytes : whole_length(text, bytes);
    if (text && end == bytes) {
        last = tg_tokenizer_decode(s->tokenizer, s->ids + s->closed, (int64_t)open, &kept, error);
    }
    if (!text || (end == bytes && !last)) {
        tg_text_free(text);
        return NULL;
    }
    const char *piece = give(s, text, end, length);
    if (end == bytes) {
        memmove(s->ids, s->ids + s->closed, open * sizeof *s->ids);
        s->count = s->closed = open;
        s->given = kept;
    } else {
        s->count++;
        s->given = s->given < end ? end : s->given;
    }
    tg_text_free(last);
    return piece;
}

const char *tg_text_stream_end(tg_text_stream *s, size_t *length, tg_error *error)
{
    size_t bytes;
    if (length) {
        *length = 0;
    }
    if (!s) {
        tg_error_set(error, TG_ERROR_STATE, "text_stream_end: the stream is NULL");
        return NULL;
    }
    char *text = tg_tokenizer_decode(s->tokenizer, s->ids, (int64_t)s->count, &bytes, error);
    if (!text) {
        return NULL;
    }
    const char *piece = give(s, text, bytes, length);
    s->count = s->closed = s->given = 0;
    return piece;
}
