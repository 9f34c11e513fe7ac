#include "faults.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

const char *const fault_names[KINDS] = {"open", "pread", "write", "fsync", "fchmod", "close", "rename"};
fault_state fault = {.space = -1};

static bool fails(fault_kind called)
{
    if (called == fault.kind && ++fault.calls == fault.fail_at) {
        errno = fault.error;
        return true;
    }
    return false;
}

/* glibc has other names where file offsets are of 64 bits. */
#ifdef __GLIBC__
#define WRAP(name) __wrap_##name##64
#define REAL(name) __real_##name##64
#else
#define WRAP(name) __wrap_##name
#define REAL(name) __real_##name
#endif

int REAL(open)(const char *path, int flags, ...);
ssize_t REAL(pread)(int file, void *out, size_t length, off_t offset);
ssize_t __real_write(int file, const void *bytes, size_t length);
int __real_fsync(int file);
int __real_fchmod(int file, mode_t mode);
int __real_close(int file);
int __real_rename(const char *from, const char *to);
int WRAP(open)(const char *path, int flags, ...);
ssize_t WRAP(pread)(int file, void *out, size_t length, off_t offset);
ssize_t __wrap_write(int file, const void *bytes, size_t length);
int __wrap_fsync(int file);
int __wrap_fchmod(int file, mode_t mode);
int __wrap_close(int file);
int __wrap_rename(const char *from, const char *to);

int WRAP(open)(const char *path, int flags, ...)
{
    return fails(OPEN) ? -1 : REAL(open)(path, flags, 0666);
}

ssize_t WRAP(pread)(int file, void *out, size_t length, off_t offset)
{
    return fails(PREAD) ? -1 : REAL(pread)(file, out, fault.is_slow && length > 0 ? 1 : length, offset);
}

ssize_t __wrap_write(int file, const void *bytes, size_t length)
{
    if (fails(WRITE)) {
        return -1;
    }
    length = fault.is_slow && length > 0 ? 1 : length;
    if (fault.space >= 0) {
        if (fault.space == 0) {
            errno = ENOSPC;
            return -1;
        }
        length = length < (size_t)fault.space ? length : (size_t)fault.space;
        fault.space -= (int64_t)length;
    }
    return __real_write(file, bytes, length);
}

int __wrap_fsync(int file)
{
    return fails(FSYNC) ? -1 : __real_fsync(file);
}

int __wrap_fchmod(int file, mode_t mode)
{
    return fails(FCHMOD) ? -1 : __real_fchmod(file, mode);
}

/* A close that fails has closed the file, as in Linux. */
int __wrap_close(int file)
{
    int result = __real_close(file);
    return fails(CLOSE) ? -1 : result;
}

int __wrap_rename(const char *from, const char *to)
{
    return fails(RENAME) ? -1 : __real_rename(from, to);
}

void fault_arm(fault_kind kind, int fail_at, int error)
{
    fault.kind = kind;
    fault.error = error;
    fault.fail_at = fail_at;
    fault.calls = 0;
}

void fault_disarm(void)
{
    fault = (fault_state){.space = -1};
}
