/* portable: functions that tests use and Windows lacks. The build includes it before all else in tests for Windows, and
 * nowhere else. Tests of forks, signals, pipes and limits are not built for Windows. */
#ifndef TG_TESTS_PORTABLE_H
#define TG_TESTS_PORTABLE_H

#include <direct.h>
#include <fcntl.h>
#include <io.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Files and what is printed have the bytes that are written. */
__attribute__((constructor)) static void write_bytes(void)
{
    _fmode = _O_BINARY;
    _setmode(1, _O_BINARY);
}

/* POSIX's remove removes an empty folder, too. */
static inline int remove_any(const char *path)
{
    return remove(path) == 0 || _rmdir(path) == 0 ? 0 : -1;
}

/* POSIX's rename replaces a file. */
static inline int rename_over(const char *from, const char *to)
{
    remove(to);
    return rename(from, to);
}

#define remove remove_any
#define rename rename_over
#define mkdir(path, mode) mkdir(path)
#define aligned_alloc(alignment, bytes) _aligned_malloc(bytes, alignment)
#define aligned_free _aligned_free
#define SIGALRM 14
#define SIGBUS 10

static inline unsigned alarm(unsigned seconds)
{
    (void)seconds;
    return 0;
}

static inline char *mkdtemp(char *path)
{
    return _mktemp(path) && _mkdir(path) == 0 ? path : NULL;
}

static inline int setenv(const char *name, const char *value, int replaces)
{
    return replaces || !getenv(name) ? _putenv_s(name, value) : 0;
}

static inline int unsetenv(const char *name)
{
    return _putenv_s(name, "");
}

/* A file with a text: for reading. */
static inline FILE *fmemopen(const void *text, size_t length, const char *how)
{
    FILE *file = tmpfile();
    if (file && how[0] == 'r' && (fwrite(text, 1, length, file) != length || fseek(file, 0, SEEK_SET) != 0)) {
        fclose(file);
        return NULL;
    }
    return file;
}

/* Reads a line with its newline into a block for free. */
static inline long long getline(char **line, size_t *size, FILE *file)
{
    long long length = 0;
    for (int c; (c = fgetc(file)) != EOF;) {
        if ((size_t)length + 2 > *size) {
            char *larger = (char *)realloc(*line, *size = 2 * *size + 128);
            if (!larger) {
                return -1;
            }
            *line = larger;
        }
        (*line)[length++] = (char)c;
        (*line)[length] = '\0';
        if (c == '\n') {
            break;
        }
    }
    return length > 0 ? length : -1;
}

#endif
