/* file: files are replaced, never written over.
 *
 * All writers replace a file in the same way: a temporary file in the same folder, fsync, rename, fsync of the folder.
 * The mode comes from `open` and fchmod, because the umask belongs to the whole process. Values are read by pread and
 * never mapped: a mapped file that another process truncates raises SIGBUS.
 */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"

/* The most bytes of one read or write: macOS refuses more than INT_MAX. */
#define MOST_BYTES ((size_t)1 << 30)

/* The number of symbolic links that are followed, as in Linux. */
#define MOST_LINKS 40

static bool refuse(const char *call, const char *what, const char *path, tg_error *error)
{
    return tg_error_set(error, TG_ERROR_FILE, "%s: %s '%s': %s", call, what, path, strerror(errno));
}

static bool check_path(const char *call, const char *path, tg_error *error)
{
    if (!path) {
        return tg_error_set(error, TG_ERROR_STATE, "%s: the path is NULL", call);
    }
    return *path || tg_error_set(error, TG_ERROR_VALUE, "%s: the path is empty", call);
}

/* Returns the kind of a file that is not regular, or NULL. */
static const char *other_kind(mode_t mode)
{
    return S_ISREG(mode) ? NULL : S_ISDIR(mode) ? "a folder" : S_ISFIFO(mode) ? "a pipe" : "a device or a socket";
}

/* ---- reading ---- */

bool tg_file_open(tg_file *file, const char *call, const char *path, tg_error *error)
{
    *file = (tg_file){call, path, -1, 0, NULL};
    if (!check_path(call, path, error)) {
        return false;
    }
    /* O_NONBLOCK: opening a pipe must not wait for its writer */
    file->descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat status;
    if (file->descriptor < 0 || fstat(file->descriptor, &status) != 0) {
        refuse(call, "open", path, error);
        tg_file_close(file);
        return false;
    }
    const char *kind = other_kind(status.st_mode);
    if (kind) {
        tg_file_close(file);
        return tg_error_set(error, TG_ERROR_FILE, "%s: open '%s': it is %s, not a regular file", call, path, kind);
    }
    file->size = (uint64_t)status.st_size;
    return true;
}

void tg_file_close(tg_file *file)
{
    if (file->descriptor >= 0) {
        close(file->descriptor);
    }
    file->descriptor = -1;
}

void tg_file_open_bytes(tg_file *file, const char *call, const char *name, const char *bytes, uint64_t size)
{
    *file = (tg_file){call, name, -1, size, bytes};
}

/* Reads up to `length` bytes; returns their number, 0 at the end, and -1 after an error. */
static ssize_t read_some(const tg_file *file, uint64_t offset, void *out, size_t length)
{
    length = length < MOST_BYTES ? length : MOST_BYTES;
    if (!file->bytes) {
        return pread(file->descriptor, out, length, (off_t)offset);
    }
    if (offset >= file->size) {
        return 0;
    }
    uint64_t left = file->size - offset;
    length = length < left ? length : (size_t)left;
    memcpy(out, file->bytes + offset, length);
    return (ssize_t)length;
}

bool tg_file_read(const tg_file *file, uint64_t offset, void *out, size_t length, tg_error *error)
{
    char *to = out;
    while (length > 0) {
        ssize_t count = read_some(file, offset, to, length);
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count < 0) {
            return refuse(file->call, "read", file->path, error);
        }
        if (count == 0) {
            return tg_error_set(error, TG_ERROR_FORMAT, "%s: '%s' ends at byte %llu; %zu more bytes were expected",
                                file->call, file->path, (unsigned long long)offset, length);
        }
        to += count;
        offset += (uint64_t)count;
        length -= (size_t)count;
    }
    return true;
}

/* Reads a file to its end. Its size may change during the read, so it is not requested in advance. */
static char *read_all(const tg_file *file, size_t *length, tg_error *error)
{
    char *text = NULL;
    size_t capacity = 0, used = 0;
    for (;;) {
        if (!tg_grow(&text, &capacity, used, used + 65536, 1)) {
            tg_error_set(error, TG_ERROR_MEMORY, "%s: read '%s': out of memory after %zu bytes", file->call, file->path,
                         used);
            break;
        }
        ssize_t count = read(file->descriptor, text + used, capacity - used - 1);
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count < 0) {
            tg_error_set(error, TG_ERROR_FILE, "%s: read '%s': %s", file->call, file->path, strerror(errno));
            break;
        }
        if (count == 0) {
            text[used] = '\0';
            *length = used;
            return text;
        }
        used += (size_t)count;
    }
    tg_free(text);
    return NULL;
}

char *tg_file_read_text(const char *call, const char *path, size_t *length, tg_error *error)
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

/* ---- writing ---- */

/* Returns the bytes before the file's name in a path, its slash included. */
static size_t folder_length(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash - path) + 1 : 0;
}

/* Returns `length` bytes of a folder followed by a name; NULL when memory is exhausted. */
static char *join(const char *folder, size_t length, const char *name)
{
    char *path = tg_alloc(length + strlen(name) + 1, 1);
    if (path) {
        memcpy(path, folder, length);
        memcpy(path + length, name, strlen(name) + 1);
    }
    return path;
}

/* Replaces w->target by the target of its symbolic link, if it is one. Returns 1 after that, 0 if it is not a link, and
 * -1 after an error. */
static int follow_link(tg_file_writer *w, tg_error *error)
{
    char name[4096];
    ssize_t length = readlink(w->target, name, sizeof name - 1);
    if (length < 0) {
        return 0;
    }
    name[length] = '\0';
    char *next = join(w->target, name[0] == '/' ? 0 : folder_length(w->target), name);
    if (!next) {
        tg_error_set(error, TG_ERROR_MEMORY, "%s: write '%s': out of memory", w->call, w->path);
        return -1;
    }
    tg_free(w->target);
    w->target = next;
    return 1;
}

/* Sets w->target. */
static bool find_target(tg_file_writer *w, tg_error *error)
{
    w->target = join("", 0, w->path);
    if (!w->target) {
        return tg_error_set(error, TG_ERROR_MEMORY, "%s: write '%s': out of memory", w->call, w->path);
    }
    int followed = 1;
    for (int links = 0; followed == 1; links++) {
        if (links == MOST_LINKS) {
            return tg_error_set(error, TG_ERROR_FILE, "%s: write '%s': %s", w->call, w->path, strerror(ELOOP));
        }
        followed = follow_link(w, error);
    }
    return followed == 0;
}

/* Creates the temporary file. Its name is short, so that it fits where the name of the target is as long as allowed. */
static bool create_temporary(tg_file_writer *w, tg_error *error)
{
    size_t folder = folder_length(w->target);
    for (int attempt = 0; attempt < 10000; attempt++) {
        char name[64];
        snprintf(name, sizeof name, ".tapegrad-%lld-%d.tmp", (long long)getpid(), attempt);
        w->temporary = join(w->target, folder, name);
        if (!w->temporary) {
            return tg_error_set(error, TG_ERROR_MEMORY, "%s: write '%s': out of memory", w->call, w->path);
        }
        w->descriptor = open(w->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (w->descriptor >= 0) {
            return true;
        }
        if (errno != EEXIST) {
            break;
        }
        tg_free(w->temporary);
        w->temporary = NULL;
    }
    return refuse(w->call, "write", w->path, error);
}

static bool begin(tg_file_writer *w, tg_error *error)
{
    if (!check_path(w->call, w->path, error) || !find_target(w, error)) {
        return false;
    }
    struct stat status;
    bool exists = stat(w->target, &status) == 0;
    if (!exists && errno != ENOENT) {
        return refuse(w->call, "write", w->path, error);
    }
    const char *kind = exists ? other_kind(status.st_mode) : NULL;
    if (kind) {
        return tg_error_set(error, TG_ERROR_FILE, "%s: write '%s': it is %s, not a regular file", w->call, w->path,
                            kind);
    }
    if (!create_temporary(w, error)) {
        return false;
    }
    return !exists || fchmod(w->descriptor, status.st_mode & 07777) == 0 ||
           refuse(w->call, "change the mode of", w->path, error);
}

bool tg_file_writer_begin(tg_file_writer *w, const char *call, const char *path, tg_error *error)
{
    *w = (tg_file_writer){call, path, NULL, NULL, -1, NULL};
    if (!begin(w, error)) {
        tg_file_writer_abandon(w);
        return false;
    }
    return true;
}

void tg_file_writer_begin_bytes(tg_file_writer *w, const char *call, char *bytes)
{
    *w = (tg_file_writer){call, NULL, NULL, NULL, -1, bytes};
}

bool tg_file_writer_write(tg_file_writer *w, const void *bytes, size_t length, tg_error *error)
{
    const char *from = bytes;
    if (w->bytes) {
        memcpy(w->bytes, bytes, length);
        w->bytes += length;
        return true;
    }
    while (length > 0) {
        ssize_t count = write(w->descriptor, from, length < MOST_BYTES ? length : MOST_BYTES);
        if (count < 0 && errno != EINTR) {
            return refuse(w->call, "write", w->path, error);
        }
        if (count > 0) {
            from += count;
            length -= (size_t)count;
        }
    }
    return true;
}

static bool sync_file(int descriptor)
{
    while (fsync(descriptor) != 0) {
        if (errno != EINTR) {
            return false;
        }
    }
    return true;
}

/* Writes the entry of the folder to the disk. Some file systems cannot (EINVAL), and some folders cannot be read. */
static bool sync_folder(const tg_file_writer *w, tg_error *error)
{
    size_t length = folder_length(w->target);
    w->temporary[length] = '\0';
    int folder = open(length ? w->temporary : ".", O_RDONLY | O_CLOEXEC);
    if (folder < 0) {
        return true;
    }
    bool is_synced = sync_file(folder) || errno == EINVAL || errno == ENOTSUP;
    if (!is_synced) {
        tg_error_set(error, TG_ERROR_FILE,
                     "%s: '%s' is replaced by the new file, but its folder could not be written to the disk: %s",
                     w->call, w->path, strerror(errno));
    }
    close(folder);
    return is_synced;
}

bool tg_file_writer_commit(tg_file_writer *w, tg_error *error)
{
    bool is_synced = sync_file(w->descriptor) || refuse(w->call, "write", w->path, error);
    bool is_closed = close(w->descriptor) == 0 || refuse(w->call, "close", w->path, error);
    w->descriptor = -1;
    bool is_renamed =
        is_synced && is_closed && (rename(w->temporary, w->target) == 0 || refuse(w->call, "replace", w->path, error));
    bool is_done = is_renamed && sync_folder(w, error);
    if (is_renamed) {
        tg_free(w->temporary);
        w->temporary = NULL;
    }
    tg_file_writer_abandon(w);
    return is_done;
}

void tg_file_writer_abandon(tg_file_writer *w)
{
    if (w->descriptor >= 0) {
        close(w->descriptor);
        w->descriptor = -1;
    }
    if (w->temporary) {
        unlink(w->temporary);
    }
    tg_free(w->temporary);
    tg_free(w->target);
    w->temporary = w->target = NULL;
}

bool tg_file_writer_seek(tg_file_writer *w, uint64_t offset, tg_error *error)
{
    return lseek(w->descriptor, (off_t)offset, SEEK_SET) == (off_t)offset || refuse(w->call, "write", w->path, error);
}

bool tg_file_writer_join(tg_file_writer *w, const char *call, const char *path, const char *temporary, tg_error *error)
{
    *w = (tg_file_writer){call, path, NULL, NULL, open(temporary, O_WRONLY | O_CLOEXEC), NULL};
    return w->descriptor >= 0 || refuse(call, "write", temporary, error);
}

bool tg_file_writer_leave(tg_file_writer *w, tg_error *error)
{
    bool is_synced = sync_file(w->descriptor) || refuse(w->call, "write", w->path, error);
    return (close(w->descriptor) == 0 || refuse(w->call, "close", w->path, error)) && is_synced;
}

bool tg_file_replace(const char *call, const char *path, const void *bytes, size_t length, tg_error *error)
{
    tg_file_writer writer;
    if (!tg_file_writer_begin(&writer, call, path, error)) {
        return false;
    }
    if (!tg_file_writer_write(&writer, bytes, length, error)) {
        tg_file_writer_abandon(&writer);
        return false;
    }
    return tg_file_writer_commit(&writer, error);
}
