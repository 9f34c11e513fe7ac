#include "data/file.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"

void tg_text_free(char *text)
{
    tg_free(text);
}

/* Reads a file to its end. Its size may change during the read, so it is not requested in advance. */
static char *read_all(const tg_file *file, size_t *length, tg_error *error)
{
    void *text = NULL;
    size_t capacity = 0, used = 0;
    for (;;) {
        if (!tg_grow(&text, &capacity, used, used + 65536, 1)) {
            tg_error_set(error, TG_ERROR_MEMORY, "%s: read '%s': out of memory after %zu bytes", file->call, file->path,
                         used);
            break;
        }
        ssize_t count = read(file->descriptor, (char *)text + used, capacity - used - 1);
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count < 0) {
            tg_error_set(error, TG_ERROR_FILE, "%s: read '%s': %s", file->call, file->path, strerror(errno));
            break;
        }
        if (count == 0) {
            ((char *)text)[used] = '\0';
            *length = used;
            return text;
        }
        used += (size_t)count;
    }
    tg_free(text);
    return NULL;
}

char *tg_text_read_for(const char *call, const char *path, size_t *length, tg_error *error)
{
    size_t unused;
    length = length ? length : &unused;
    *length = 0;
    tg_file file;
    if (!tg_file_open(&file, call, path, error)) {
        return NULL;
    }
    char *text = read_all(&file, length, error);
    tg_file_close(&file);
    return text;
}

char *tg_text_read(const char *path, size_t *length, tg_error *error)
{
    return tg_text_read_for("text_read", path, length, error);
}
