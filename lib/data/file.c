#include "data/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"

static bool refuse(const char *what, const char *path, tg_error *error)
{
    return tg_error_set(error, TG_ERROR_FILE, "%s '%s': %s", what, path, strerror(errno));
}

void tg_text_free(char *text)
{
    tg_free(text);
}

/* Reads a file to its end. Its size may change during the read, so it is not requested in advance. */
static char *read_all(int file, const char *path, size_t *length, tg_error *error)
{
    void *text = NULL;
    size_t capacity = 0, used = 0;
    for (;;) {
        if (!tg_grow(&text, &capacity, used, used + 65536, 1)) {
            tg_error_set(error, TG_ERROR_MEMORY, "read '%s': out of memory after %zu bytes", path, used);
            break;
        }
        ssize_t count = read(file, (char *)text + used, capacity - used - 1);
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count < 0) {
            refuse("read", path, error);
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

char *tg_text_read(const char *path, size_t *length, tg_error *error)
{
    size_t unused;
    length = length ? length : &unused;
    *length = 0;
    if (!path) {
        tg_error_set(error, TG_ERROR_STATE, "text_read: the path is NULL");
        return NULL;
    }
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        refuse("open", path, error);
        return NULL;
    }
    char *text = read_all(file, path, length, error);
    close(file);
    return text;
}

size_t tg_utf8_check(const char *text, size_t length)
{
    const unsigned char *s = (const unsigned char *)text;
    for (size_t i = 0; i < length;) {
        unsigned char first = s[i];
        size_t more = first < 0x80 ? 0 : first >= 0xc2 && first < 0xe0 ? 1 : first >= 0xe0 && first < 0xf0 ? 2 : 3;
        if (first >= 0x80 && (first < 0xc2 || first > 0xf4)) {
            return i;
        }
        if (more > length - i - 1) {
            return i;
        }
        unsigned char low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
        unsigned char high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
        for (size_t k = 1; k <= more; k++, low = 0x80, high = 0xbf) {
            if (s[i + k] < low || s[i + k] > high) {
                return i;
            }
        }
        i += more + 1;
    }
    return length;
}
