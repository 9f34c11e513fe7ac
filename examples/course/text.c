/* text: files, folders, and lines that fit a terminal. */
#include "course.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- files ------------------------------------------------------------------------------------------------------- */

static char *read_bytes(const char *path, size_t limit, bool may_cut, size_t *total)
{
    int file = open(path, O_RDONLY | O_NONBLOCK); /* a pipe without a writer must not hang */
    if (file < 0) {
        return NULL;
    }
    struct stat status;
    char *bytes = NULL;
    if (fstat(file, &status) != 0) {
        /* errno says why */
    } else if (!S_ISREG(status.st_mode)) {
        errno = S_ISDIR(status.st_mode) ? EISDIR : EINVAL;
    } else if ((size_t)status.st_size > limit && !may_cut) {
        errno = EFBIG;
    } else {
        limit = (size_t)status.st_size < limit ? (size_t)status.st_size : limit;
        bytes = malloc(limit + 1);
    }
    size_t count = 0;
    for (ssize_t got = 1; bytes && got > 0 && count < limit;) {
        got = read(file, bytes + count, limit - count);
        if (got < 0) {
            free(bytes);
            bytes = NULL;
        } else {
            count += (size_t)got;
        }
    }
    int cause = errno;
    close(file);
    errno = cause;
    if (bytes) {
        bytes[count] = 0;
        if (total) {
            *total = count;
        }
    }
    return bytes;
}

char *file_read_all(const char *path, size_t limit, size_t *count)
{
    return read_bytes(path, limit, false, count);
}

char *file_read(const char *path)
{
    return read_bytes(path, FILE_LIMIT, false, NULL);
}

char *file_read_beginning(const char *path)
{
    return read_bytes(path, FILE_LIMIT, true, NULL);
}

bool file_replace(const char *path, const char *bytes, size_t count)
{
    char temporary[COURSE_PATH + 32];
    FORMAT(temporary, "%s.%ld.tmp", path, (long)getpid());
    int file = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file < 0) {
        return false;
    }
    bool good = true;
    for (size_t at = 0; good && at < count;) {
        ssize_t put = write(file, bytes + at, count - at);
        good = put > 0;
        at += good ? (size_t)put : 0;
    }
    good = good && fsync(file) == 0;
    good = close(file) == 0 && good;
    good = good && rename(temporary, path) == 0;
    if (!good) {
        int cause = errno;
        unlink(temporary);
        errno = cause;
    }
    return good;
}

bool file_exists(const char *path)
{
    struct stat status;
    return lstat(path, &status) == 0;
}

bool folder_create(const char *path)
{
    char part[COURSE_PATH];
    FORMAT(part, "%s", path);
    for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        if (mkdir(part, 0777) != 0 && errno != EEXIST) {
            return false;
        }
        *slash = '/';
    }
    return mkdir(part, 0777) == 0 || errno == EEXIST;
}

/* ---- lines ------------------------------------------------------------------------------------------------------- */

/* Returns the columns of the terminal, or 80 where there is none. */
static int columns(void)
{
    struct winsize size;
    int found = 0;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) {
        found = size.ws_col;
    } else if (getenv("COLUMNS")) {
        found = atoi(getenv("COLUMNS"));
    }
    return found < 1 ? 80 : found < 30 ? 30 : found > 120 ? 120 : found;
}

/* The characters of UTF-8 text, not its bytes. */
static int width_of(const char *text, int bytes)
{
    int width = 0;
    for (int i = 0; i < bytes; i++) {
        width += ((unsigned char)text[i] & 0xc0) != 0x80;
    }
    return width;
}

size_t visible_character(const char *text, size_t length)
{
    static const uint32_t least[] = {0, 0, 0xa0, 0x800, 0x10000}; /* below 0xa0: controls */
    const unsigned char *c = (const unsigned char *)text;
    if (c[0] < 0x80) {
        return (c[0] >= 0x20 && c[0] != 0x7f) || c[0] == '\n' || c[0] == '\t';
    }
    size_t size = c[0] < 0xe0 ? 2 : c[0] < 0xf0 ? 3 : 4;
    uint32_t code = c[0] & (0x7f >> size);
    for (size_t i = 1; i < size; i++) {
        if (i == length || (c[i] & 0xc0) != 0x80) {
            return 0;
        }
        code = code << 6 | (c[i] & 0x3f);
    }
    bool is_character = c[0] >= 0xc2 && c[0] < 0xf5 && code >= least[size] && code <= 0x10ffff &&
                        (code < 0xd800 || code > 0xdfff) && (code & 0xfffe) != 0xfffe;
    return is_character ? size : 0;
}

void print_visible(FILE *file, const char *text, size_t length)
{
    for (size_t i = 0, size; i < length && text[i]; i += size > 0 ? size : 1) {
        size = visible_character(text + i, strnlen(text + i, length - i));
        if (size > 0) {
            fwrite(text + i, 1, size, file);
        } else {
            fprintf(file, "\\x%02x", (unsigned char)text[i]);
        }
    }
}

void print_wrapped(int indent, const char *text)
{
    int limit = columns(), at = 0;
    while (*text) {
        if (*text == '\n') {
            putchar('\n');
            at = 0;
            text++;
            continue;
        }
        int blanks = (int)strspn(text, " "), word = (int)strcspn(text + blanks, " \n");
        int width = width_of(text + blanks, word);
        if (at == 0) {
            at = indent + blanks;
            printf("%*s", at, "");
        } else if (at + blanks + width > limit) {
            at = indent;
            printf("\n%*s", at, "");
        } else {
            at += blanks;
            printf("%*s", blanks, "");
        }
        print_visible(stdout, text + blanks, (size_t)word);
        at += width;
        text += blanks + word;
    }
    if (at > 0) {
        putchar('\n');
    }
}

bool complain(const char *format, ...)
{
    char line[2 * COURSE_PATH];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    fflush(stdout);
    fputs("course: ", stderr);
    print_visible(stderr, line, sizeof line);
    fputc('\n', stderr);
    return false;
}
