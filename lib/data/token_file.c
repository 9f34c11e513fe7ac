/* token_file: a file of ids, mapped into memory, so that the system loads only the pages that are read. Another process
 * must not truncate the file while it is mapped: a read beyond its end raises SIGBUS. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "data/file.h"

struct tg_token_file {
    unsigned char *bytes; /* NULL for an empty file */
    size_t length;
    int width;
};

static bool check_width(const char *name, int width, tg_error *error)
{
    return width == 2 || width == 4 ||
           tg_error_set(error, TG_ERROR_VALUE, "%s: %d bytes per id; allowed are 2 and 4", name, width);
}

static bool map(tg_token_file *file, int descriptor, const char *path, tg_error *error)
{
    struct stat status;
    if (fstat(descriptor, &status) != 0) {
        return tg_error_set(error, TG_ERROR_FILE, "open '%s': %s", path, strerror(errno));
    }
    if (status.st_size % file->width != 0) {
        return tg_error_set(error, TG_ERROR_FORMAT, "token file '%s': %lld bytes are not a multiple of %d", path,
                            (long long)status.st_size, file->width);
    }
    file->length = (size_t)status.st_size;
    if (file->length > 0) {
        void *bytes = mmap(NULL, file->length, PROT_READ, MAP_PRIVATE, descriptor, 0);
        if (bytes == MAP_FAILED) {
            return tg_error_set(error, TG_ERROR_FILE, "map '%s': %s", path, strerror(errno));
        }
        file->bytes = bytes;
    }
    return true;
}

tg_token_file *tg_token_file_open(const char *path, int width, tg_error *error)
{
    if (!check_width("token_file_open", width, error)) {
        return NULL;
    }
    if (!path) {
        tg_error_set(error, TG_ERROR_STATE, "token_file_open: the path is NULL");
        return NULL;
    }
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) {
        tg_error_set(error, TG_ERROR_FILE, "open '%s': %s", path, strerror(errno));
        return NULL;
    }
    tg_token_file *file = tg_alloc_zeroed(1, sizeof *file);
    bool is_mapped = file != NULL || tg_error_set(error, TG_ERROR_MEMORY, "open '%s': out of memory", path);
    if (file) {
        file->width = width;
        is_mapped = map(file, descriptor, path, error);
    }
    close(descriptor);
    if (!is_mapped) {
        tg_free(file);
        return NULL;
    }
    return file;
}

void tg_token_file_free(tg_token_file *file)
{
    if (file) {
        if (file->bytes) {
            munmap(file->bytes, file->length);
        }
        tg_free(file);
    }
}

int64_t tg_token_file_count(const tg_token_file *file)
{
    return file ? (int64_t)(file->length / (size_t)file->width) : 0;
}

static uint32_t id_at(const tg_token_file *file, int64_t i)
{
    const unsigned char *at = file->bytes + (size_t)i * (size_t)file->width;
    uint32_t id = at[0] | (uint32_t)at[1] << 8;
    return file->width == 2 ? id : id | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
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
    for (int64_t i = 0; i < count; i++) { /* all ids are checked before `ids` is written */
        if (id_at(file, begin + i) > INT32_MAX) {
            return tg_error_set(error, TG_ERROR_RANGE, "token_file_read: id %u at index %lld is above %d",
                                id_at(file, begin + i), (long long)(begin + i), INT32_MAX);
        }
    }
    for (int64_t i = 0; i < count; i++) {
        ids[i] = (int32_t)id_at(file, begin + i);
    }
    return true;
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
        return tg_error_set(error, TG_ERROR_VALUE, "token_file_write: %lld ids; allowed are 0 or more",
                            (long long)count);
    }
    unsigned char *bytes = tg_alloc((size_t)count + 1, (size_t)width);
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
