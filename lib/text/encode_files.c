/* encode_files: texts of any size become a file of ids. The threads encode one piece each; then the ids of all pieces
 * are written in their order, and the next pieces are read. So the memory depends on the number of threads alone. */
#include <tapegrad/extend.h>
#include <tapegrad/op.h>
#include "text/pieces.h"

static const char mark[] = "tg_tokenizer_encode_files_config_default";
static const char call[] = "tokenizer_encode_files";

tg_tokenizer_encode_files_config tg_tokenizer_encode_files_config_default(void)
{
    return (tg_tokenizer_encode_files_config){.mark = mark, .end_token = -1};
}

/* A piece that one thread encodes. */
typedef struct encoding {
    tg_encoder encoder;
    tg_piece piece;
    tg_error error;
} encoding;

typedef struct job {
    const tg_tokenizer *z;
    tg_tokenizer_encode_files_config config;
    int width; /* bytes of an id */
    int slots;
    encoding *encodings; /* one per slot */
    char *bytes;         /* of the pieces */
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

static bool encode_piece(const job *j, encoding *part)
{
    const tg_piece *piece = &part->piece;
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
    const job *j = context;
    for (int64_t i = begin; i < end; i++) {
        encode_piece(j, &j->encodings[i]);
    }
}

/* ---- all pieces ---- */

/* Reads a piece for each thread. Returns their number, or -1. */
static int read_pieces(job *j, tg_piece_reader *reader, tg_error *error)
{
    int count = 0, found = 1;
    while (count < j->slots && found > 0) {
        encoding *part = &j->encodings[count];
        part->encoder.walk.z = j->z;
        found =
            tg_piece_read(reader, &part->encoder.walk, j->bytes + (size_t)count * TG_PIECE_BYTES, &part->piece, error);
        count += found > 0;
    }
    return found < 0 ? -1 : count;
}

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
    while ((count = read_pieces(j, reader, error)) > 0) {
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
    j->slots = tg_piece_slots();
    j->progress.all_bytes = (int64_t)reader->total;
    j->encodings = tg_alloc_zeroed((uint64_t)j->slots, sizeof *j->encodings);
    j->bytes = tg_alloc((uint64_t)j->slots, TG_PIECE_BYTES);
    bool is_good = (j->encodings && j->bytes) || tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory", call);
    if (is_good && tg_file_writer_begin(&j->writer, call, path, error)) {
        is_good = write_files(j, reader, error);
        if (!is_good) {
            tg_file_writer_abandon(&j->writer);
        }
        is_good = is_good && tg_file_writer_commit(&j->writer, error);
    } else {
        is_good = false;
    }
    for (int i = 0; j->encodings && i < j->slots; i++) {
        tg_encoder_free(&j->encodings[i].encoder);
        tg_free(j->encodings[i].encoder.ids);
    }
    tg_free(j->encodings);
    tg_free(j->bytes);
    return is_good;
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
    if (width == 2 && z->token_count > 65536) {
        return tg_error_set(error, TG_ERROR_VALUE, "%s: 2 bytes per id; the %d ids of the vocabulary need 4", call,
                            z->token_count);
    }
    return !config || (config->end_token >= -1 && config->end_token < z->token_count) ||
           tg_error_set(error, TG_ERROR_RANGE, "%s: end_token %d; it must be -1 or below %d", call, config->end_token,
                        z->token_count);
}

int64_t tg_tokenizer_encode_files(const tg_tokenizer *z, const char *const *paths, int64_t count, const char *path,
                                  int width, const tg_tokenizer_encode_files_config *config, tg_error *error)
{
    if (!check(z, path, width, config, error)) {
        return -1;
    }
    job j = {.z = z, .width = width};
    j.config = config ? *config : tg_tokenizer_encode_files_config_default();
    tg_piece_reader reader;
    bool is_good = tg_piece_reader_begin(&reader, call, paths, count, z, error) && run(&j, &reader, path, error);
    tg_piece_reader_end(&reader);
    return is_good ? j.progress.tokens : -1;
}
