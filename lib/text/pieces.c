#include "text/pieces.h"

#include <string.h>

int tg_piece_slots(void)
{
    return tg_threads() < TG_MOST_PIECES ? tg_threads() : TG_MOST_PIECES;
}

/* ---- where a text may be cut ---- */

/* Returns whether an added token lies across the byte at `at`. */
static bool is_inside_added(const tg_tokenizer *z, const char *text, size_t length, size_t at)
{
    for (size_t before = 1; before < z->longest_added && before <= at; before++) {
        for (int search = 0; search < TG_SEARCHES; search++) {
            size_t size;
            if (tg_added_tokens_find(z, search, text + at - before, length - (at - before), &size) && size > before) {
                return true;
            }
        }
    }
    return false;
}

/* Returns the last place in [1,length) where a text may be cut, or 0. */
static size_t last_boundary(tg_pipeline *walk, const char *text, size_t length)
{
    size_t kept = walk->z->longest_added, at = length > kept ? length - kept : 0;
    at = at == length && at > 0 ? at - 1 : at;
    while (at > 0 && (!tg_pipeline_can_cut(walk, text, length, at) || is_inside_added(walk->z, text, length, at))) {
        at--;
    }
    return at;
}

bool tg_piece_check(const char *call, const tg_piece *p, tg_error *error)
{
    size_t bad = tg_utf8_check(p->text, p->length);
    if (bad == p->length) {
        return true;
    }
    unsigned byte = (unsigned char)p->text[bad];
    unsigned long long at = (unsigned long long)(p->offset + bad);
    return p->path ? tg_error_set(error, TG_ERROR_FORMAT, "%s: '%s': byte 0x%02x at %llu is not UTF-8", call, p->path,
                                  byte, at)
                   : tg_error_set(error, TG_ERROR_FORMAT, "%s: byte 0x%02x at %llu is not UTF-8", call, byte, at);
}

/* ---- readers ---- */

static bool begin(tg_piece_reader *r, const char *call, const tg_tokenizer *z, tg_error *error)
{
    *r = (tg_piece_reader){.call = call, .file.descriptor = -1, .walk.z = z};
    r->bytes = tg_alloc((uint64_t)tg_piece_slots(), TG_PIECE_BYTES);
    return r->bytes || tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory", call);
}

bool tg_piece_reader_begin_text(tg_piece_reader *r, const char *call, const tg_tokenizer *z, const char *text,
                                size_t length, tg_error *error)
{
    bool is_good = begin(r, call, z, error);
    r->text = text;
    r->total = length;
    return is_good;
}

bool tg_piece_reader_begin(tg_piece_reader *r, const char *call, const tg_tokenizer *z, const char *const *paths,
                           int64_t count, tg_error *error)
{
    bool is_good = begin(r, call, z, error);
    r->paths = paths;
    r->count = count;
    if (!paths) {
        return tg_error_set(error, TG_ERROR_STATE, "%s: the paths are NULL", call);
    }
    if (count < 1) {
        return tg_error_set(error, TG_ERROR_VALUE, "%s: %lld files; it must be at least 1", call, (long long)count);
    }
    for (int64_t i = 0; is_good && i < count; i++) {
        tg_file file;
        is_good = tg_file_open(&file, call, paths[i], error);
        if (is_good) {
            r->total += file.size;
            tg_file_close(&file);
        }
    }
    return is_good;
}

void tg_piece_reader_end(tg_piece_reader *r)
{
    tg_file_close(&r->file);
    tg_pipeline_free(&r->walk);
    tg_free(r->bytes);
}

/* Returns 1, or 0 after the last piece. */
static int cut_text(tg_piece_reader *r, tg_piece *piece)
{
    const char *text = r->text + r->offset;
    size_t left = (size_t)(r->total - r->offset), length = left;
    if (left > TG_PIECE_BYTES) {
        length = last_boundary(&r->walk, text, TG_PIECE_BYTES);
        for (size_t at = TG_PIECE_BYTES; length == 0; at++) {
            length = at == left || tg_pipeline_can_cut(&r->walk, text, left, at) ? at : 0;
        }
    }
    *piece = (tg_piece){text, length, r->offset, NULL, length == left};
    r->offset += length;
    return left > 0;
}

/* Sets the error about TG_PIECE_BYTES that cannot be cut. */
static bool refuse(const tg_piece_reader *r, const char *bytes, tg_error *error)
{
    tg_piece piece = {bytes, TG_PIECE_BYTES, r->offset, r->file.path, false};
    size_t bad = tg_utf8_check(bytes, TG_PIECE_BYTES);
    if (bad + 4 <= TG_PIECE_BYTES) { /* else it may be a character that continues in the next bytes */
        return tg_piece_check(r->call, &piece, error);
    }
    return tg_error_set(error, TG_ERROR_FORMAT,
                        "%s: '%s' has no place where a word surely ends, such as white space or a full stop after a "
                        "letter, in the %zu bytes from byte %llu on",
                        r->call, r->file.path, TG_PIECE_BYTES, (unsigned long long)r->offset);
}

/* Reads a piece of a file into `bytes`. Returns 1, 0 after the last piece, and -1 after an error. */
static int read_file(tg_piece_reader *r, char *bytes, tg_piece *piece, tg_error *error)
{
    if (r->file.descriptor < 0) {
        if (r->index == r->count) {
            return 0;
        }
        if (!tg_file_open(&r->file, r->call, r->paths[r->index], error)) {
            return -1;
        }
        r->offset = 0;
    }
    uint64_t left = r->file.size > r->offset ? r->file.size - r->offset : 0;
    size_t length = left < TG_PIECE_BYTES ? (size_t)left : TG_PIECE_BYTES;
    if (!tg_file_read(&r->file, r->offset, bytes, length, error)) {
        return -1;
    }
    *piece = (tg_piece){bytes, length, r->offset, r->file.path, length == left};
    if (!piece->is_last) {
        piece->length = last_boundary(&r->walk, bytes, length);
        if (piece->length == 0) {
            refuse(r, bytes, error);
            return -1;
        }
    }
    r->offset += piece->length;
    r->done += piece->length;
    if (piece->is_last) {
        tg_file_close(&r->file);
        r->index++;
    }
    return 1;
}

int tg_pieces_read(tg_piece_reader *r, tg_piece *pieces, tg_error *error)
{
    int count = 0, found = 1;
    while (count < tg_piece_slots() && found > 0) {
        char *bytes = r->bytes + (size_t)count * TG_PIECE_BYTES;
        found = r->text ? cut_text(r, &pieces[count]) : read_file(r, bytes, &pieces[count], error);
        count += found > 0;
    }
    return found < 0 ? -1 : count;
}
