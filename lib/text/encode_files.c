/* encode_files: texts of any size become a file of ids. The threads encode one piece each; then the ids of all pieces
 * are written in their order, and the next pieces are read. So the memory depends on the number of threads alone. */
#include <tapegrad/extend.h>
#include <tapegrad/op.h>
#include "text/pieces.h"

static const char call[] = "tokenizer_encode_files";

TG_CONFIG(tg_tokenizer_encode_files_config, tg_tokenizer_encode_files_config_default, mark, .mark = mark,
          .end_token = -1);

/* A piece that one thread encodes. */
typedef struct encoding {
    tg_encoder encoder;
    tg_error error;
} encoding;

typedef struct job {
    const tg_tokenizer *z;
    tg_tokenizer_encode_files_config config;
    int width; /* bytes of an id */
    tg_piece pieces[TG_MOST_PIECES];
    encoding encodings[TG_MOST_PIECES];
    tg_file_writer writer;
    tg_text_progress progress;
} job;

/* ---- one piece ---- */

/* Replaces the ids by their bytes, in the same memory. */
static void pack(tg_encoder *e, int width)
{
    unsigned char *bytes = (unsigned char *)e->ids;
    for (size_t i = 0; i < e->id_count; i++) {
        uint32_t id = (uint32_t)e->ids[i];
        for (int k = 0; k < width; k++) {
            bytes[i * (size_t)width + (size_t)k] = (unsigned char)(id >> 8 * k);
        }
    }
}

static bool encode_piece(const job *j, const tg_piece *piece, encoding *part)
{
    tg_encoder *e = &part->encoder;
    e->id_count = 0;
    if (!tg_piece_check(call, piece, &part->error) ||
        !tg_encoder_text(e, j->z, call, j->config.special, piece->text, piece->length, &part->error)) {
        return false;
    }
    if (piece->is_last && j->config.end_token >= 0) {
        if (!tg_grow(&e->ids, &e->id_capacity, e->id_count, e->id_count + 1, sizeof *e->ids)) {
            return tg_error_set(&part->error, TG_ERROR_MEMORY, "%s: out of memory", call);
        }
        e->ids[e->id_count++] = j->config.end_token;
    }
    pack(e, j->width);
    return true;
}

static void encode_pieces(void *context, int64_t begin, int64_t end)
{
    job *j = context;
    for (int64_t i = begin; i < end; i++) {
        encode_piece(j, &j->pieces[i], &j->encodings[i]);
    }
}

/* ---- all pieces ---- */

static bool write_pieces(job *j, int count, tg_error *error)
{
    for (int i = 0; i < count; i++) {
        const encoding *part = &j->encodings[i];
        if (part->error.code != TG_OK) {
            return tg_error_copy(error, &part->error);
        }
        if (!tg_file_writer_write(&j->writer, part->encoder.ids, part->encoder.id_count * (size_t)j->width, error)) {
            return false;
        }
        j->progress.tokens += (int64_t)part->encoder.id_count;
    }
    return true;
}

static bool write_files(job *j, tg_piece_reader *reader, tg_error *error)
{
    int count;
    while ((count = tg_pieces_read(reader, j->pieces, error)) > 0) {
        tg_parallel_for(count, 1, encode_pieces, j);
        if (!write_pieces(j, count, error)) {
            return false;
        }
        j->progress.bytes = (int64_t)reader->done;
        if (j->config.on_progress && !j->config.on_progress(j->config.context, &j->progress)) {
            return tg_error_set(error, TG_ERROR_STATE, "%s: on_progress has stopped the call", call);
        }
    }
    return count == 0;
}

static bool run(job *j, tg_piece_reader *reader, const char *path, tg_error *error)
{
    j->progress.all_bytes = (int64_t)reader->total;
    if (!tg_file_writer_begin(&j->writer, call, path, error)) {
        return false;
    }
    bool is_good = write_files(j, reader, error);
    if (!is_good) {
        tg_file_writer_abandon(&j->writer);
    }
    for (int i = 0; i < TG_MOST_PIECES; i++) {
        tg_encoder_free(&j->encodings[i].encoder);
        tg_free(j->encodings[i].encoder.ids);
    }
    return is_good && tg_file_writer_commit(&j->writer, error);
}

static bool check(const tg_tokenizer *z, const char *path, int width, const tg_tokenizer_encode_files_config *config,
                  tg_error *error)
{
    if (!z || !path) {
        return tg_error_set(error, TG_ERROR_STATE, "%s: the %s is NULL", call, z ? "path" : "tokenizer");
    }
    if (!tg_config_check(call, config, mark, error)) {
        return false;
    }
    if (width != 2 && width != 4) {
        return tg_error_set(error, TG_ERROR_VALUE, "%s: %d bytes per id; it must be 2 or 4", call, width);
    }
    if (width == 2 && z->tokens.count > 65536) {
        return tg_error_set(error, TG_ERROR_VALUE, "%s: 2 bytes per id; the %d ids of the vocabulary need 4", call,
                            z->tokens.count);
    }
    return !config || (config->end_token >= -1 && config->end_token < z->tokens.count) ||
           tg_error_set(error, TG_ERROR_RANGE, "%s: end_token %d; it must be -1 or below %d", call, config->end_token,
                        z->tokens.count);
}

int64_t tg_tokenizer_encode_files(const tg_tokenizer *z, const char *const *paths, int64_t count, const char *path,
                                  int width, const tg_tokenizer_encode_files_config *config, tg_error *error)
{
    if (!check(z, path, width, config, error)) {
        return -1;
    }
    job *j = tg_alloc_zeroed(1, sizeof *j);
    if (!j) {
        tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory", call);
        return -1;
    }
    j->z = z;
    j->width = width;
    j->config = config ? *config : tg_tokenizer_encode_files_config_default();
    tg_piece_reader reader;
    bool is_good = tg_piece_reader_begin(&reader, call, z, paths, count, error) && run(j, &reader, path, error);
    tg_piece_reader_end(&reader);
    int64_t tokens = is_good ? j->progress.tokens : -1;
    tg_free(j);
    return tokens;
}
