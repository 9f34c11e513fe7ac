/* posix: all systems but Windows. In WebAssembly, which has one thread, flock locks nothing. */
#define _DARWIN_C_SOURCE /* flock in macOS, and how many processors there are */
#include "system/system.h"

#if !defined _WIN32

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- paths ---- */

static tg_path_status describe(const struct stat *status)
{
    mode_t mode = status->st_mode;
    return (tg_path_status){
        S_ISREG(mode)    ? TG_PATH_FILE
        : S_ISDIR(mode)  ? TG_PATH_FOLDER
        : S_ISFIFO(mode) ? TG_PATH_PIPE
                         : TG_PATH_OTHER,
        (uint64_t)status->st_size,
        (unsigned)mode & 07777,
    };
}

tg_path_status tg_system_status(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 ? describe(&status) : (tg_path_status){TG_PATH_NONE, 0, 0};
}

bool tg_system_is_separator(char c)
{
    return c == '/';
}

int64_t tg_system_link_target(const char *path, char *target, size_t size)
{
    return readlink(path, target, size);
}

bool tg_system_rename(const char *from, const char *to)
{
    return rename(from, to) == 0;
}

bool tg_system_remove(const char *path)
{
    return unlink(path) == 0;
}

bool tg_system_make_folder(const char *path)
{
    return mkdir(path, 0777) == 0;
}

int tg_system_visit(const char *folder, void (*visit)(void *context, const char *name), void *context)
{
    DIR *open = opendir(folder);
    if (!open) {
        return errno;
    }
    errno = 0;
    for (struct dirent *entry; (entry = readdir(open));) {
        visit(context, entry->d_name);
        errno = 0;
    }
    int failed = errno;
    closedir(open);
    return -failed;
}

bool tg_system_sync_folder(const char *folder)
{
    int file = open(folder, O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        return true;
    }
    bool is_synced = tg_system_sync(file) || errno == EINVAL || errno == ENOTSUP;
    int failed = errno;
    close(file);
    errno = failed;
    return is_synced;
}

/* ---- files ---- */

int tg_system_open(const char *path, tg_open_how how)
{
    static const int flags[] = {[TG_OPEN_READ] = O_RDONLY | O_NONBLOCK,
                                [TG_OPEN_WRITE] = O_WRONLY,
                                [TG_OPEN_UPDATE] = O_RDWR | O_NONBLOCK,
                                [TG_OPEN_NEW] = O_WRONLY | O_CREAT | O_EXCL,
                                [TG_OPEN_APPEND] = O_WRONLY | O_CREAT | O_EXCL | O_APPEND,
                                [TG_OPEN_LOCK] = O_RDWR | O_CREAT};
    return open(path, flags[how] | O_CLOEXEC, 0666);
}

bool tg_system_close(int file)
{
    return close(file) == 0;
}

tg_path_status tg_system_status_of(int file)
{
    struct stat status;
    return fstat(file, &status) == 0 ? describe(&status) : (tg_path_status){TG_PATH_NONE, 0, 0};
}

int64_t tg_system_read_at(int file, void *bytes, size_t length, uint64_t offset)
{
    return pread(file, bytes, length, (off_t)offset);
}

int64_t tg_system_write(int file, const void *bytes, size_t length)
{
    return write(file, bytes, length);
}

int64_t tg_system_write_at(int file, const void *bytes, size_t length, uint64_t offset)
{
    return pwrite(file, bytes, length, (off_t)offset);
}

bool tg_system_seek(int file, uint64_t offset)
{
    return lseek(file, (off_t)offset, SEEK_SET) == (off_t)offset;
}

bool tg_system_set_size(int file, uint64_t size)
{
    return ftruncate(file, (off_t)size) == 0;
}

bool tg_system_set_mode(int file, unsigned mode)
{
    return fchmod(file, (mode_t)mode) == 0;
}

bool tg_system_sync(int file)
{
    while (fsync(file) != 0) {
        if (errno != EINTR) {
            return false;
        }
    }
    return true;
}

bool tg_system_lock(int file)
{
    return flock(file, LOCK_EX | LOCK_NB) == 0;
}

void tg_system_unlock(int file)
{
    flock(file, LOCK_UN);
}

/* ---- the process ---- */

int64_t tg_system_pid(void)
{
    return getpid();
}

void tg_system_host(char *name, size_t size)
{
    if (gethostname(name, size) != 0) {
        name[0] = '\0';
    }
    name[size - 1] = '\0';
}

void tg_system_after_fork(void (*forget)(void))
{
    pthread_atfork(NULL, NULL, forget);
}

#if !defined __linux__ /* linux.c has its own */

int tg_system_processors(void)
{
    long count = 1;
#if defined _SC_NPROCESSORS_ONLN && !defined __wasm__
    count = sysconf(_SC_NPROCESSORS_ONLN);
#endif
    return count < 1 ? 1 : count > INT16_MAX ? INT16_MAX : (int)count;
}

void tg_system_will_read(int file, size_t length, uint64_t offset)
{
    (void)file, (void)length, (void)offset;
}

void tg_system_ask_for_huge_pages(char *block, size_t bytes)
{
    (void)block, (void)bytes;
}

#endif

#endif
