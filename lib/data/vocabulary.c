/* vocabulary: reads and writes vocab.bpe.
 *
 * The first line is "#version: 0.2". Each other line is a merge: two symbols with one space between them. Merges are in
 * the order of their ranks. A symbol has one character for each byte. A printable byte is written as itself, and the
 * other 68 bytes as U+0100, U+0101, ... in ascending order, so a space is written as U+0120. A symbol must be a byte or
 * the result of an earlier merge. The reader checks this with a hash table of all symbols so far.
 */
#include <string.h>

#include "base/alloc.h"
#include "data/file.h"
#include "data/tokenizer.h"

static const char first_line[] = "#version: 0.2";

/* ---- a hash table from symbols to ids: open addressing, at most half full ---- */

typedef struct name_index {
    int32_t *slots; /* -1: empty */
    size_t size;
    char *name; /* a buffer for the bytes of one symbol, as long as the text */
} name_index;

static size_t slot_of(const name_index *index, const tg_tokenizer *z, const char *bytes, size_t length)
{
    uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a */
    for (size_t i = 0; i < length; i++) {
        hash = (hash ^ (unsigned char)bytes[i]) * UINT64_C(1099511628211);
    }
    size_t slot = (size_t)(hash ^ hash >> 32) & (index->size - 1);
    for (; index->slots[slot] >= 0; slot = (slot + 1) & (index->size - 1)) {
        size_t other;
        const char *name = tg_tokenizer_bytes(z, index->slots[slot], &other);
        if (other == length && memcmp(name, bytes, length) == 0) {
            break;
        }
    }
    return slot;
}

static void index_token(const name_index *index, const tg_tokenizer *z, int32_t id)
{
    size_t length;
    const char *bytes = tg_tokenizer_bytes(z, id, &length);
    size_t slot = slot_of(index, z, bytes, length);
    if (index->slots[slot] < 0) { /* of two symbols with the same bytes the first is used */
        index->slots[slot] = id;
    }
}

static bool index_new(name_index *index, const tg_tokenizer *z, size_t tokens, size_t length, tg_error *error)
{
    for (index->size = 1024; index->size < 2 * tokens; index->size *= 2) {
    }
    index->slots = tg_alloc(index->size, sizeof *index->slots);
    index->name = tg_alloc(length + 1, 1);
    if (!index->slots || !index->name) {
        return tg_error_set(error, TG_ERROR_MEMORY, "vocabulary: out of memory for %zu symbols", tokens);
    }
    memset(index->slots, -1, index->size * sizeof *index->slots);
    for (int32_t id = 0; id < TG_BYTE_TOKENS; id++) {
        index_token(index, z, id);
    }
    return true;
}

/* ---- reading ---- */

/* Returns the byte that the first character of a text encodes, or -1. Sets *used to the length of the character. */
static int byte_of(const tg_tokenizer *z, const char *text, size_t length, size_t *used)
{
    const unsigned char *s = (const unsigned char *)text;
    int character = s[0];
    *used = 1;
    if (s[0] >= 0xc2 && s[0] < 0xe0 && length >= 2 && (s[1] & 0xc0) == 0x80) {
        character = (s[0] & 0x1f) << 6 | (s[1] & 0x3f);
        *used = 2;
    } else if (s[0] >= 0x80) {
        return -1;
    }
    if (character >= 256) { /* a byte that is not printable: these have the ids from 188 on */
        return character < 256 + 68 ? z->byte_of_id[188 + character - 256] : -1;
    }
    return z->id_of_byte[character] < 188 ? character : -1;
}

/* Returns the id of a symbol written in `text`, or -1. */
static int32_t symbol_of(const tg_tokenizer *z, const name_index *index, const char *text, size_t length)
{
    size_t count = 0, used;
    for (size_t i = 0; i < length; i += used) {
        int byte = byte_of(z, text + i, length - i, &used);
        if (byte < 0) {
            return -1;
        }
        index->name[count++] = (char)byte;
    }
    return count == 0 ? -1 : index->slots[slot_of(index, z, index->name, count)];
}

static bool parse_line(tg_tokenizer *z, const name_index *index, const char *line, size_t length, size_t number,
                       tg_error *error)
{
    const char *space = memchr(line, ' ', length);
    int visible = length > 60 ? 60 : (int)length;
    if (!space || memchr(space + 1, ' ', length - (size_t)(space - line) - 1)) {
        return tg_error_set(error, TG_ERROR_FORMAT, "vocabulary, line %zu: \"%.*s\" is not two symbols and one space",
                            number, visible, line);
    }
    size_t left_length = (size_t)(space - line), right_length = length - left_length - 1;
    int32_t left = symbol_of(z, index, line, left_length), right = symbol_of(z, index, space + 1, right_length);
    if (left < 0 || right < 0) {
        const char *unknown = left < 0 ? line : space + 1;
        size_t unknown_length = left < 0 ? left_length : right_length;
        return tg_error_set(error, TG_ERROR_FORMAT,
                            "vocabulary, line %zu: the symbol \"%.*s\" is neither a byte nor an earlier merge", number,
                            (int)(unknown_length > 60 ? 60 : unknown_length), unknown);
    }
    tg_error cause = TG_NO_ERROR;
    if (!tg_tokenizer_add_merge(z, left, right, &cause)) {
        return tg_error_set(error, cause.code, "vocabulary, line %zu: \"%.*s\": %s", number, visible, line, cause.text);
    }
    index_token(index, z, z->token_count - 1);
    return true;
}

static bool parse(tg_tokenizer *z, const name_index *index, const char *text, size_t length, tg_error *error)
{
    size_t number = 1;
    for (size_t begin = 0; begin < length; number++) {
        const char *newline = memchr(text + begin, '\n', length - begin);
        size_t end = newline ? (size_t)(newline - text) : length;
        if (number == 1) {
            if (end != sizeof first_line - 1 || memcmp(text, first_line, end) != 0) {
                return tg_error_set(error, TG_ERROR_FORMAT, "vocabulary, line 1: \"%.*s\"; it must be \"%s\"",
                                    end > 60 ? 60 : (int)end, text, first_line);
            }
        } else if (!parse_line(z, index, text + begin, end - begin, number, error)) {
            return false;
        }
        begin = end + 1;
    }
    return number > 1 || tg_error_set(error, TG_ERROR_FORMAT,
                                      "vocabulary: the file is empty; its first line must be \"%s\"", first_line);
}

tg_tokenizer *tg_tokenizer_parse(const char *text, size_t length, tg_error *error)
{
    if (!text) {
        tg_error_set(error, TG_ERROR_STATE, "vocabulary: the text is NULL");
        return NULL;
    }
    tg_tokenizer *z = tg_tokenizer_make(error);
    size_t lines = 1;
    for (size_t i = 0; i < length; i++) {
        lines += text[i] == '\n';
    }
    name_index index = {NULL, 0, NULL};
    bool is_parsed =
        z && index_new(&index, z, TG_BYTE_TOKENS + lines, length, error) && parse(z, &index, text, length, error);
    tg_free(index.slots);
    tg_free(index.name);
    if (!is_parsed) {
        tg_tokenizer_free(z);
        return NULL;
    }
    return z;
}

tg_tokenizer *tg_tokenizer_new_from_text(const char *text, size_t length, tg_error *error)
{
    return tg_tokenizer_parse(text, length, error);
}

tg_tokenizer *tg_tokenizer_open(const char *path, tg_error *error)
{
    size_t length;
    char *text = tg_text_read(path, &length, error);
    tg_tokenizer *z = text ? tg_tokenizer_parse(text, length, error) : NULL;
    tg_text_free(text);
    return z;
}

/* ---- writing ---- */

typedef struct writer {
    char *text;
    size_t used, capacity;
} writer;

static bool append(writer *w, const char *text, size_t length)
{
    void *grown = w->text;
    bool is_ready = tg_grow(&grown, &w->capacity, w->used, w->used + length, 1);
    w->text = grown;
    if (is_ready) {
        memcpy(w->text + w->used, text, length);
        w->used += length;
    }
    return is_ready;
}

static bool append_symbol(writer *w, const tg_tokenizer *z, int32_t id)
{
    size_t length;
    const char *bytes = tg_tokenizer_bytes(z, id, &length);
    bool is_ready = true;
    for (size_t i = 0; is_ready && i < length; i++) {
        unsigned byte = (unsigned char)bytes[i], id_of = z->id_of_byte[byte];
        unsigned character = id_of < 188 ? byte : 256 + id_of - 188;
        char coded[2] = {(char)(0xc0 | character >> 6), (char)(0x80 | (character & 0x3f))};
        char plain = (char)character;
        is_ready = character < 0x80 ? append(w, &plain, 1) : append(w, coded, 2);
    }
    return is_ready;
}

char *tg_tokenizer_text(const tg_tokenizer *z, size_t *length, tg_error *error)
{
    if (!z) {
        tg_error_set(error, TG_ERROR_STATE, "tokenizer_text: the tokenizer is NULL");
        return NULL;
    }
    writer w = {NULL, 0, 0};
    bool is_ready = append(&w, first_line, sizeof first_line - 1) && append(&w, "\n", 1);
    for (int32_t r = 0; is_ready && r < z->token_count - TG_BYTE_TOKENS; r++) {
        is_ready = append_symbol(&w, z, z->merges[r].left) && append(&w, " ", 1) &&
                   append_symbol(&w, z, z->merges[r].right) && append(&w, "\n", 1);
    }
    if (!is_ready || !append(&w, "", 1)) {
        tg_free(w.text);
        tg_error_set(error, TG_ERROR_MEMORY, "tokenizer_text: out of memory");
        return NULL;
    }
    if (length) {
        *length = w.used - 1;
    }
    return w.text;
}

bool tg_tokenizer_save(const tg_tokenizer *z, const char *path, tg_error *error)
{
    if (!z) {
        return tg_error_set(error, TG_ERROR_STATE, "tokenizer_save: the tokenizer is NULL");
    }
    size_t length = 0;
    char *text = tg_tokenizer_text(z, &length, error);
    bool is_saved = text && tg_file_replace("tokenizer_save", path, text, length, error);
    tg_text_free(text);
    return is_saved;
}
