/* token_file: a file of ids that stays on disk. Each read fetches the ids that it needs, so a file that another program
 * truncates gives an error. All ids are checked before the first one is copied. */
#include <string.h>

#include <tapegrad/data.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/file.h"

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
    file->file.call = "token_file_read"; /* from now on */
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
    size_t width = (size_t)file->width;
    unsigned char *bytes = tg_alloc((uint64_t)count + 1, width);
    if (!bytes) {
        return tg_error_set(error, TG_ERROR_MEMORY, "token_file_read: out of memory for %lld ids", (long long)count);
    }
    tg_error local = TG_NO_ERROR;
    bool is_read = tg_file_read(&file->file, (uint64_t)begin * width, bytes, (size_t)count * width, &local) ||
                   tg_error_set(error, TG_ERROR_FILE, "%s", local.text);
    for (int64_t i = 0; is_read && i < count; i++) {
        uint64_t id = tg_number_of_bytes(bytes + (size_t)i * width, file->width);
        is_read =
            id <= INT32_MAX || tg_error_set(error, TG_ERROR_RANGE, "token_file_read: id %llu at index %lld is above %d",
                                            (unsigned long long)id, (long long)(begin + i), INT32_MAX);
    }
    for (int64_t i = 0; is_read && i < count; i++) {
        ids[i] = (int32_t)tg_number_of_bytes(bytes + (size_t)i * width, file->width);
    }
    tg_free(bytes);
    return is_read;
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
        tg_number_to_bytes((uint64_t)ids[i], bytes + i * width, width);
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
