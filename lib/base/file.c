/* file: files are replaced, never written over.
 *
 * All writers replace a file in the same way: a temporary file in the same folder, fsync, rename, fsync of the folder.
 * The mode comes from `open` and fchmod, because the umask belongs to the whole process. Values are read by pread and
 * never mapped: a mapped file that another process truncates raises SIGBUS. The calls of the system are those of
 * system/system.h.
 */
#include "base/file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

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
static const char *other_kind(tg_path_kind kind)
{
    static const char *const names[] = {
        [TG_PATH_FOLDER] = "a folder", [TG_PATH_PIPE] = "a pipe", [TG_PATH_OTHER] = "a device or a socket"};
    return names[kind];
}

/* ---- reading ---- */

bool tg_file_open_as(tg_file *file, const char *call, const char *path, tg_open_how how, tg_error *error)
{
    *file = (tg_file){call, path, -1, 0, NULL};
    if (!check_path(call, path, error)) {
        return false;
    }
    file->descriptor = tg_system_open(path, how);
    tg_path_status status = {TG_PATH_NONE, 0, 0};
    if (file->descriptor >= 0) {
        status = tg_system_status_of(file->descriptor);
    }
    if (status.kind == TG_PATH_NONE) {
        refuse(call, "open", path, error);
        tg_file_close(file);
        return false;
    }
    const char *kind = other_kind(status.kind);
    if (kind) {
        tg_file_close(file);
        return tg_error_set(error, TG_ERROR_FILE, "%s: open '%s': it is %s, not a regular file", call, path, kind);
    }
    file->size = status.size;
    return true;
}

bool tg_file_open(tg_file *file, const char *call, const char *path, tg_error *error)
{
    return tg_file_open_as(file, call, path, TG_OPEN_READ, error);
}

void tg_file_close(tg_file *file)
{
    if (file->descriptor >= 0) {
        tg_system_close(file->descriptor);
    }
    file->descriptor = -1;
}

void tg_file_open_bytes(tg_file *file, const char *call, const char *name, const char *bytes, uint64_t size)
{
    *file = (tg_file){call, name, -1, size, bytes};
}

/* Reads up to `length` bytes; returns their number, 0 at the end, and -1 after an error. */
static int64_t read_some(const tg_file *file, uint64_t offset, void *out, size_t length)
{
    length = length < MOST_BYTES ? length : MOST_BYTES;
    if (file->bytes) {
        uint64_t left = offset < file->size ? file->size - offset : 0;
        length = length < left ? length : (size_t)left;
        memcpy(out, file->bytes + (file->size - left), length);
        return (int64_t)length;
    }
    int64_t count;
    do {
        count = tg_system_read_at(file->descriptor, out, length, offset);
    } while (count < 0 && errno == EINTR);
    return count;
}

bool tg_file_read(const tg_file *file, uint64_t offset, void *out, size_t length, tg_error *error)
{
    char *to = out;
    while (length > 0) {
        int64_t count = read_some(file, offset, to, length);
        if (count < 0) {
            return refuse(file->call, "read", file->path, error);
        }
        if (count == 0) {
            return tg_error_set_at(error, -1, (int64_t)offset,
                                   "%s: '%s' ends at byte %llu; it had %llu bytes when it was opened", file->call,
                                   file->path, (unsigned long long)offset, (unsigned long long)file->size);
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
    int64_t count = 1;
    while (count != 0) {
        if (!tg_grow(&text, &capacity, used, used + 65536, 1)) {
            tg_error_set(error, TG_ERROR_MEMORY, "%s: read '%s': out of memory after %zu bytes", file->call, file->path,
                         used);
            break;
        }
        count = read_some(file, used, text + used, capacity - used - 1);
        if (count < 0) {
            refuse(file->call, "read", file->path, error);
            break;
        }
        used += (size_t)count;
    }
    if (count != 0) {
        tg_free(text);
        return NULL;
    }
    text[used] = '\0';
    *length = used;
    return text;
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
    size_t length = strlen(path);
    while (length > 0 && !tg_system_is_separator(path[length - 1])) {
        length--;
    }
    return length;
}

char *tg_path_join(const char *folder, size_t length, const char *name)
{
    char *path = tg_alloc(length + strlen(name) + 1, 1);
    if (path) {
        memcpy(path, folder, length);
        memcpy(path + length, name, strlen(name) + 1);
    }
    return path;
}

/* Sets w->target: the path, or what its symbolic links lead to. */
static bool find_target(tg_file_writer *w, tg_error *error)
{
    char name[4096];
    char *next = tg_path_join("", 0, w->path);
    for (int links = 0; next; links++) {
        tg_free(w->target);
        w->target = next;
        int64_t length = tg_system_link_target(w->target, name, sizeof name - 1);
        if (length < 0) {
            return true;
        }
        if (links == MOST_LINKS) {
            return tg_error_set(error, TG_ERROR_FILE, "%s: write '%s': %s", w->call, w->path, strerror(ELOOP));
        }
        name[length] = '\0';
        next = tg_path_join(w->target, name[0] == '/' ? 0 : folder_length(w->target), name);
    }
    return tg_error_set(error, TG_ERROR_MEMORY, "%s: write '%s': out of memory", w->call, w->path);
}

/* Creates the temporary file. Its name is short, so that it fits where the name of the target is as long as allowed. */
static bool create_temporary(tg_file_writer *w, tg_error *error)
{
    size_t folder = folder_length(w->target);
    for (int attempt = 0; attempt < 10000; attempt++) {
        char name[64];
        snprintf(name, sizeof name, ".tapegrad-%lld-%d.tmp", (long long)tg_system_pid(), attempt);
        w->temporary = tg_path_join(w->target, folder, name);
        if (!w->temporary) {
            return tg_error_set(error, TG_ERROR_MEMORY, "%s: write '%s': out of memory", w->call, w->path);
        }
        w->descriptor = tg_system_open(w->temporary, TG_OPEN_NEW);
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
    tg_path_status status = tg_system_status(w->target);
    bool exists = status.kind != TG_PATH_NONE;
    if (!exists && errno != ENOENT) {
        return refuse(w->call, "write", w->path, error);
    }
    const char *kind = exists ? other_kind(status.kind) : NULL;
    if (kind) {
        return tg_error_set(error, TG_ERROR_FILE, "%s: write '%s': it is %s, not a regular file", w->call, w->path,
                            kind);
    }
    if (!create_temporary(w, error)) {
        return false;
    }
    return !exists || tg_system_set_mode(w->descriptor, status.mode) ||
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
        int64_t count = tg_system_write(w->descriptor, from, length < MOST_BYTES ? length : MOST_BYTES);
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

/* Writes the entry of the folder to the disk. */
static bool sync_folder(const tg_file_writer *w, tg_error *error)
{
    size_t length = folder_length(w->target);
    w->temporary[length] = '\0';
    return tg_system_sync_folder(length ? w->temporary : ".") ||
           tg_error_set(error, TG_ERROR_FILE,
                        "%s: '%s' is replaced by the new file, but its folder could not be written to the disk: %s",
                        w->call, w->path, strerror(errno));
}

bool tg_file_writer_commit(tg_file_writer *w, tg_error *error)
{
    bool is_written = tg_file_writer_leave(w, error);
    w->descriptor = -1;
    bool is_renamed =
        is_written && (tg_system_rename(w->temporary, w->target) || refuse(w->call, "replace", w->path, error));
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
        tg_system_close(w->descriptor);
        w->descriptor = -1;
    }
    if (w->temporary) {
        tg_system_remove(w->temporary);
    }
    tg_free(w->temporary);
    tg_free(w->target);
    w->temporary = w->target = NULL;
}

bool tg_file_writer_seek(tg_file_writer *w, uint64_t offset, tg_error *error)
{
    return tg_system_seek(w->descriptor, offset) || refuse(w->call, "write", w->path, error);
}

bool tg_file_writer_join(tg_file_writer *w, const char *call, const char *path, const char *temporary, tg_error *error)
{
    *w = (tg_file_writer){call, path, NULL, NULL, tg_system_open(temporary, TG_OPEN_WRITE), NULL};
    return w->descriptor >= 0 || refuse(call, "write", temporary, error);
}

bool tg_file_writer_leave(tg_file_writer *w, tg_error *error)
{
    bool is_synced = tg_system_sync(w->descriptor) || refuse(w->call, "write", w->path, error);
    return (tg_system_close(w->descriptor) || refuse(w->call, "close", w->path, error)) && is_synced;
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
