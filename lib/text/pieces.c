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
            const tg_added_entry *found = tg_added_tokens_find(z, search, text + at - before, length - (at - before));
            if (found && found->length > before) {
                return true;
            }
        }
    }
    return false;
}

/* Returns the last place in [1,length) where a text may be cut, or 0. No cut divides an added token of `added`, which
 * may be NULL. */
static size_t last_boundary(tg_pipeline *walk, const char *text, size_t length, const tg_tokenizer *added)
{
    size_t kept = added ? added->longest_added : 0, at = length > kept ? length - kept : 0;
    at = at == length && at > 0 ? at - 1 : at;
    while (at > 0 &&
           (!tg_pipeline_can_cut(walk, text, length, at) || (added && is_inside_added(added, text, length, at)))) {
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

/* ---- a text in memory ---- */

tg_piece tg_piece_cut(tg_pipeline *walk, tg_piece *rest)
{
    tg_piece piece = *rest;
    if (rest->length > TG_PIECE_BYTES) {
        size_t at = last_boundary(walk, rest->text, TG_PIECE_BYTES, NULL);
        if (at == 0) {
            at = TG_PIECE_BYTES;
            while (at < rest->length && !tg_pipeline_can_cut(walk, rest->text, rest->length, at)) {
                at++;
            }
        }
        piece.length = at;
    }
    rest->text += piece.length;
    rest->length -= piece.length;
    rest->offset += piece.length;
    piece.is_last = rest->length == 0;
    return piece;
}

/* ---- files ---- */

bool tg_piece_reader_begin(tg_piece_reader *r, const char *call, const char *const *paths, int64_t count,
                           const tg_tokenizer *added, tg_error *error)
{
    *r = (tg_piece_reader){.call = call, .paths = paths, .count = count, .added = added};
    r->file.descriptor = -1;
    if (!paths) {
        return tg_error_set(error, TG_ERROR_STATE, "%s: the paths are NULL", call);
    }
    if (count < 1) {
        return tg_error_set(error, TG_ERROR_VALUE, "%s: %lld files; it must be at least 1", call, (long long)count);
    }
    for (int64_t i = 0; i < count; i++) {
        tg_file file;
        if (!tg_file_open(&file, call, paths[i], error)) {
            return false;
        }
        r->total += file.size;
        tg_file_close(&file);
    }
    return true;
}

void tg_piece_reader_end(tg_piece_reader *r)
{
    tg_file_close(&r->file);
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

int tg_piece_read(tg_piece_reader *r, tg_pipeline *walk, char *bytes, tg_piece *piece, tg_error *error)
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
        piece->length = last_boundary(walk, bytes, length, r->added);
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
