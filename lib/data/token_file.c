/* token_file: a file of ids that stays on disk. Each read fetches the ids that it needs with pread, so a file that
 * another program truncates gives an error. A read fetches a portion at a time into a buffer on the stack. */
#include <errno.h>
#include <string.h>

#include <tapegrad/data.h>

#include "base/alloc.h"
#include "base/file.h"
#include "system/system.h"

/* The number of ids that are fetched at once: more than most windows have. */
#define PORTION 4096

struct tg_token_file {
    tg_file file; /* its path is `path` */
    int width;
    int64_t count;
    char path[];
};

static bool check_width(const char *name, int width, tg_error *error)
{
    return width == 2 || width == 4 ||
           tg_error_set(error, TG_ERROR_VALUE, "%s: %d bytes per id; it must be 2 or 4", name, width);
}

tg_token_file *tg_token_file_open(const char *path, int width, tg_error *error)
{
    static const char call[] = "token_file_open";
    if (!check_width(call, width, error)) {
        return NULL;
    }
    if (!path) {
        tg_error_set(error, TG_ERROR_STATE, "%s: the path is NULL", call);
        return NULL;
    }
    size_t path_size = strlen(path) + 1;
    tg_token_file *file = tg_alloc(sizeof *file + path_size, 1);
    if (!file) {
        tg_error_set(error, TG_ERROR_MEMORY, "%s: open '%s': out of memory", call, path);
        return NULL;
    }
    memcpy(file->path, path, path_size);
    file->width = width;
    bool is_open = tg_file_open(&file->file, call, file->path, error);
    if (is_open && file->file.size % (uint64_t)width != 0) {
        is_open = tg_error_set(error, TG_ERROR_FORMAT, "%s: '%s': %llu bytes are not a multiple of %d", call, path,
                               (unsigned long long)file->file.size, width);
    }
    if (!is_open) {
        tg_token_file_free(file);
        return NULL;
    }
    file->count = (int64_t)(file->file.size / (uint64_t)width);
    return file;
}

void tg_token_file_free(tg_token_file *file)
{
    if (file) {
        tg_file_close(&file->file);
        tg_free(file);
    }
}

int64_t tg_token_file_count(const tg_token_file *file)
{
    return file ? file->count : 0;
}

/* Fetches exactly `length` bytes at an offset. */
static bool fetch(const tg_token_file *file, unsigned char *bytes, size_t length, int64_t offset, tg_error *error)
{
    while (length > 0) {
        int64_t fetched = tg_system_read_at(file->file.descriptor, bytes, length, (uint64_t)offset);
        if (fetched < 0 && errno == EINTR) {
            continue;
        }
        if (fetched < 0) {
            return tg_error_set(error, TG_ERROR_FILE, "read '%s' at byte %lld: %s", file->path, (long long)offset,
                                strerror(errno));
        }
        if (fetched == 0) {
            return tg_error_set(error, TG_ERROR_FILE,
                                "token file '%s': no data at byte %lld; the file had %lld bytes when it was opened",
                                file->path, (long long)offset, (long long)(file->count * file->width));
        }
        bytes += fetched;
        length -= (size_t)fetched;
        offset += fetched;
    }
    return true;
}

static uint32_t id_at(const unsigned char *bytes, int width)
{
    uint32_t id = bytes[0] | (uint32_t)bytes[1] << 8;
    return width == 2 ? id : id | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

/* Fetches and checks at most PORTION ids, and then copies them to `ids` unless that is NULL. */
static bool read_portion(const tg_token_file *file, int64_t begin, int64_t count, int32_t *ids, tg_error *error)
{
    unsigned char bytes[4 * PORTION];
    if (!fetch(file, bytes, (size_t)(count * file->width), begin * file->width, error)) {
        return false;
    }
    for (int64_t i = 0; i < count; i++) {
        uint32_t id = id_at(bytes + i * file->width, file->width);
        if (id > INT32_MAX) {
            return tg_error_set(error, TG_ERROR_RANGE, "token_file_read: id %lu at index %lld is above %d",
                                (unsigned long)id, (long long)(begin + i), INT32_MAX);
        }
    }
    for (int64_t i = 0; ids && i < count; i++) {
        ids[i] = (int32_t)id_at(bytes + i * file->width, file->width);
    }
    return true;
}

static bool read_portions(const tg_token_file *file, int64_t begin, int64_t count, int32_t *ids, tg_error *error)
{
    bool is_read = true;
    for (int64_t done = 0; is_read && done < count; done += PORTION) {
        int64_t portion = count - done < PORTION ? count - done : PORTION;
        is_read = read_portion(file, begin + done, portion, ids ? ids + done : NULL, error);
    }
    return is_read;
}

bool tg_token_file_read(const tg_token_file *file, int64_t begin, int64_t count, int32_t *ids, tg_error *error)
{
    int64_t all = tg_token_file_count(file);
    if (!file || (!ids && count > 0)) {
        return tg_error_set(error, TG_ERROR_STATE, "token_file_read: the %s NULL", file ? "ids are" : "file is");
    }
    if (begin < 0 || count < 0 || begin > all || count > all - begin) {
        return tg_error_set(error, TG_ERROR_RANGE, "token_file_read: %lld ids from index %lld on; the file has %lld",
                            (long long)count, (long long)begin, (long long)all);
    }
    /* All ids are checked before `ids` is written; a single portion does so itself. */
    return (count <= PORTION || read_portions(file, begin, count, NULL, error)) &&
           read_portions(file, begin, count, ids, error);
}

bool tg_token_file_write(const char *path, int width, const int32_t *ids, int64_t count, tg_error *error)
{
    if (!check_width("token_file_write", width, error)) {
        return false;
    }
    if (!path || (!ids && count > 0)) {
        return tg_error_set(error, TG_ERROR_STATE, "token_file_write: the %s NULL", path ? "ids are" : "path is");
    }
    if (count < 0) {
        return tg_error_set(error, TG_ERROR_VALUE, "token_file_write: %lld ids; it must be 0 or more",
                            (long long)count);
    }
    unsigned char *bytes = tg_alloc((uint64_t)count + 1, (size_t)width);
    if (!bytes) {
        return tg_error_set(error, TG_ERROR_MEMORY, "token_file_write: out of memory for %lld ids", (long long)count);
    }
    bool fits = true;
    for (int64_t i = 0; fits && i < count; i++) {
        fits = ids[i] >= 0 && (width == 4 || ids[i] <= UINT16_MAX);
        for (int k = 0; k < width; k++) {
            bytes[i * width + k] = (unsigned char)((uint32_t)ids[i] >> (8 * k));
        }
        if (!fits) {
            tg_error_set(error, TG_ERROR_RANGE,
                         "token_file_write: id %d at index %lld does not fit in %d unsigned bytes", ids[i],
                         (long long)i, width);
        }
    }
    fits = fits && tg_file_replace("token_file_write", path, bytes, (size_t)count * (size_t)width, error);
    tg_free(bytes);
    return fits;
}
