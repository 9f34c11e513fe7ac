/* windows: Windows 10 or later, by its own calls, because those of its C library read paths in a code page.
 *
 * Files are opened in such a way that others may replace or remove them meanwhile, as in POSIX. Where the file system
 * cannot rename over a file that is open, that file is renamed first, and for a moment nothing has the name. Symbolic
 * links are not followed by a writer, but replaced. There are no modes and no forks, and folders cannot be flushed.
 */
#include "system/system.h"

#if defined _WIN32

#define WIN32_LEAN_AND_MEAN
#undef _WIN32_WINNT
#define _WIN32_WINNT 0x0A00
#include <windows.h>

#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* FileRenameInfoEx, which older headers lack */
#define RENAME_AS_POSIX ((FILE_INFO_BY_HANDLE_CLASS)22)

/* The most characters of a path; one of 260 or more needs Windows's setting for long paths. */
#define MOST 4096

/* Sets errno from the error of the last call. Returns -1. */
static int fail(void)
{
    switch (GetLastError()) {
    case ERROR_FILE_NOT_FOUND:
    case ERROR_PATH_NOT_FOUND:
    case ERROR_INVALID_NAME:
    case ERROR_BAD_PATHNAME:
    case ERROR_INVALID_DRIVE:
    case ERROR_BAD_NETPATH: errno = ENOENT; break;
    case ERROR_ACCESS_DENIED:
    case ERROR_WRITE_PROTECT:
    case ERROR_SHARING_VIOLATION: errno = EACCES; break;
    case ERROR_LOCK_VIOLATION:
    case ERROR_IO_PENDING: errno = EWOULDBLOCK; break;
    case ERROR_FILE_EXISTS:
    case ERROR_ALREADY_EXISTS: errno = EEXIST; break;
    case ERROR_DIRECTORY: errno = ENOTDIR; break;
    case ERROR_DISK_FULL:
    case ERROR_HANDLE_DISK_FULL: errno = ENOSPC; break;
    case ERROR_FILENAME_EXCED_RANGE:
    case ERROR_INSUFFICIENT_BUFFER: errno = ENAMETOOLONG; break;
    case ERROR_NO_UNICODE_TRANSLATION: errno = EILSEQ; break;
    case ERROR_NOT_ENOUGH_MEMORY:
    case ERROR_OUTOFMEMORY: errno = ENOMEM; break;
    case ERROR_INVALID_HANDLE: errno = EBADF; break;
    case ERROR_TOO_MANY_OPEN_FILES: errno = EMFILE; break;
    default: errno = EIO;
    }
    return -1;
}

/* ---- paths ---- */

/* Returns whether a UTF-8 path was converted. */
static bool widen(const char *path, wchar_t wide[MOST])
{
    return MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, wide, MOST) > 0 || fail() == 0;
}

static tg_path_kind kind_of(DWORD attributes)
{
    return attributes & FILE_ATTRIBUTE_DIRECTORY ? TG_PATH_FOLDER
           : attributes & FILE_ATTRIBUTE_DEVICE  ? TG_PATH_OTHER
                                                 : TG_PATH_FILE;
}

static uint64_t join_halves(DWORD high, DWORD low)
{
    return (uint64_t)high << 32 | low;
}

tg_path_status tg_system_status(const char *path)
{
    wchar_t wide[MOST];
    WIN32_FILE_ATTRIBUTE_DATA data;
    if (!widen(path, wide) || (!GetFileAttributesExW(wide, GetFileExInfoStandard, &data) && fail() < 0)) {
        return (tg_path_status){TG_PATH_NONE, 0, 0};
    }
    return (tg_path_status){kind_of(data.dwFileAttributes), join_halves(data.nFileSizeHigh, data.nFileSizeLow), 0};
}

bool tg_system_is_separator(char c)
{
    return c == '/' || c == '\\' || c == ':';
}

int64_t tg_system_link_target(const char *path, char *target, size_t size)
{
    (void)path, (void)target, (void)size;
    errno = EINVAL;
    return -1;
}

/* Renames as POSIX does: whoever has the old file open keeps it. Older file systems cannot. */
static bool rename_as_posix(const wchar_t *from, const wchar_t *to)
{
    struct {
        FILE_RENAME_INFO info;
        wchar_t rest[MOST];
    } request = {0};
    HANDLE file = CreateFileW(from, DELETE | SYNCHRONIZE, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL,
                              OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, NULL);
    wchar_t whole[MOST];
    DWORD length = GetFullPathNameW(to, MOST, whole, NULL);
    if (file == INVALID_HANDLE_VALUE || length == 0 || length >= MOST) {
        if (file != INVALID_HANDLE_VALUE) {
            CloseHandle(file);
        }
        return false;
    }
    request.info.Flags = FILE_RENAME_FLAG_REPLACE_IF_EXISTS | FILE_RENAME_FLAG_POSIX_SEMANTICS;
    request.info.FileNameLength = length * (DWORD)sizeof *whole;
    memcpy(request.info.FileName, whole, (length + 1) * sizeof *whole);
    bool is_renamed = SetFileInformationByHandle(file, RENAME_AS_POSIX, &request.info, (DWORD)sizeof request);
    CloseHandle(file);
    return is_renamed;
}

/* Renames a file that is open out of the way, and removes it as soon as it is closed. */
static bool rename_aside(const wchar_t *from, const wchar_t *to)
{
    wchar_t aside[MOST + 64];
    for (int attempt = 0; attempt < 100; attempt++) {
        swprintf(aside, MOST + 64, L"%ls.%lu-%d.old", to, (unsigned long)GetCurrentProcessId(), attempt);
        if (MoveFileExW(to, aside, 0)) {
            if (MoveFileExW(from, to, MOVEFILE_WRITE_THROUGH)) {
                DeleteFileW(aside);
                return true;
            }
            DWORD cause = GetLastError();
            MoveFileExW(aside, to, 0);
            SetLastError(cause);
            return false;
        }
        if (GetLastError() != ERROR_ALREADY_EXISTS) {
            return false;
        }
    }
    return false;
}

bool tg_system_rename(const char *from, const char *to)
{
    wchar_t old[MOST], new[MOST];
    if (!widen(from, old) || !widen(to, new)) {
        return false;
    }
    return rename_as_posix(old, new) || MoveFileExW(old, new, MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH) ||
           ((GetLastError() == ERROR_ACCESS_DENIED || GetLastError() == ERROR_SHARING_VIOLATION) &&
            rename_aside(old, new)) ||
           fail() == 0;
}

bool tg_system_remove(const char *path)
{
    wchar_t wide[MOST];
    return widen(path, wide) && (DeleteFileW(wide) || fail() == 0);
}

bool tg_system_make_folder(const char *path)
{
    wchar_t wide[MOST];
    return widen(path, wide) && (CreateDirectoryW(wide, NULL) || fail() == 0);
}

int tg_system_visit(const char *folder, void (*visit)(void *context, const char *name), void *context)
{
    wchar_t wide[MOST];
    WIN32_FIND_DATAW entry;
    if (!widen(folder, wide) || wcslen(wide) + 3 > MOST) {
        return errno;
    }
    wcscat(wide, L"/*");
    HANDLE search = FindFirstFileW(wide, &entry);
    if (search == INVALID_HANDLE_VALUE) {
        fail();
        return errno;
    }
    do {
        char name[4 * MAX_PATH];
        if (WideCharToMultiByte(CP_UTF8, 0, entry.cFileName, -1, name, (int)sizeof name, NULL, NULL) > 0) {
            visit(context, name);
        }
    } while (FindNextFileW(search, &entry));
    DWORD cause = GetLastError();
    FindClose(search);
    SetLastError(cause);
    return cause == ERROR_NO_MORE_FILES ? 0 : (fail(), -errno);
}

bool tg_system_sync_folder(const char *folder)
{
    (void)folder;
    return true;
}

/* ---- files ---- */

static HANDLE handle_of(int file)
{
    return (HANDLE)_get_osfhandle(file);
}

int tg_system_open(const char *path, tg_open_how how)
{
    static const DWORD
        access[] = {[TG_OPEN_READ] = GENERIC_READ,
                    [TG_OPEN_WRITE] = GENERIC_WRITE,
                    [TG_OPEN_UPDATE] = GENERIC_READ | GENERIC_WRITE,
                    [TG_OPEN_NEW] = GENERIC_WRITE,
                    [TG_OPEN_APPEND] = GENERIC_WRITE,
                    [TG_OPEN_LOCK] = GENERIC_READ | GENERIC_WRITE},
        creation[] = {[TG_OPEN_READ] = OPEN_EXISTING, [TG_OPEN_WRITE] = OPEN_EXISTING, [TG_OPEN_UPDATE] = OPEN_EXISTING,
                      [TG_OPEN_NEW] = CREATE_NEW,     [TG_OPEN_APPEND] = CREATE_NEW,   [TG_OPEN_LOCK] = OPEN_ALWAYS};
    wchar_t wide[MOST];
    if (!widen(path, wide)) {
        return -1;
    }
    /* a folder opens only with BACKUP_SEMANTICS, and tg_system_status_of tells that it is one */
    HANDLE handle =
        CreateFileW(wide, access[how], FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL, creation[how],
                    FILE_ATTRIBUTE_NORMAL | (how == TG_OPEN_READ ? FILE_FLAG_BACKUP_SEMANTICS : 0), NULL);
    if (handle == INVALID_HANDLE_VALUE) {
        return fail();
    }
    int mode =
        _O_BINARY | _O_NOINHERIT | (how == TG_OPEN_READ ? _O_RDONLY : 0) | (how == TG_OPEN_APPEND ? _O_APPEND : 0);
    int file = _open_osfhandle((intptr_t)handle, mode);
    if (file < 0) {
        CloseHandle(handle);
    }
    return file;
}

bool tg_system_close(int file)
{
    return _close(file) == 0;
}

tg_path_status tg_system_status_of(int file)
{
    HANDLE handle = handle_of(file);
    DWORD type = GetFileType(handle);
    BY_HANDLE_FILE_INFORMATION data;
    if (type == FILE_TYPE_PIPE || type == FILE_TYPE_CHAR) {
        return (tg_path_status){type == FILE_TYPE_PIPE ? TG_PATH_PIPE : TG_PATH_OTHER, 0, 0};
    }
    if (!GetFileInformationByHandle(handle, &data)) {
        fail();
        return (tg_path_status){TG_PATH_NONE, 0, 0};
    }
    return (tg_path_status){kind_of(data.dwFileAttributes), join_halves(data.nFileSizeHigh, data.nFileSizeLow), 0};
}

int64_t tg_system_read_at(int file, void *bytes, size_t length, uint64_t offset)
{
    OVERLAPPED at = {.Offset = (DWORD)offset, .OffsetHigh = (DWORD)(offset >> 32)};
    DWORD count = 0;
    bool is_read = ReadFile(handle_of(file), bytes, (DWORD)length, &count, &at) || GetLastError() == ERROR_HANDLE_EOF;
    return is_read ? (int64_t)count : fail();
}

int64_t tg_system_write(int file, const void *bytes, size_t length)
{
    return _write(file, bytes, (unsigned)length);
}

int64_t tg_system_write_at(int file, const void *bytes, size_t length, uint64_t offset)
{
    OVERLAPPED at = {.Offset = (DWORD)offset, .OffsetHigh = (DWORD)(offset >> 32)};
    DWORD count = 0;
    return WriteFile(handle_of(file), bytes, (DWORD)length, &count, &at) ? (int64_t)count : fail();
}

bool tg_system_seek(int file, uint64_t offset)
{
    return _lseeki64(file, (int64_t)offset, SEEK_SET) == (int64_t)offset;
}

bool tg_system_set_size(int file, uint64_t size)
{
    return _chsize_s(file, (int64_t)size) == 0;
}

bool tg_system_set_mode(int file, unsigned mode)
{
    (void)file, (void)mode;
    return true;
}

bool tg_system_sync(int file)
{
    return FlushFileBuffers(handle_of(file)) || fail() == 0;
}

bool tg_system_lock(int file)
{
    OVERLAPPED from = {0};
    return LockFileEx(handle_of(file), LOCKFILE_EXCLUSIVE_LOCK | LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &from) ||
           fail() == 0;
}

void tg_system_unlock(int file)
{
    OVERLAPPED from = {0};
    UnlockFileEx(handle_of(file), 0, 1, 0, &from);
}

/* ---- the process ---- */

int64_t tg_system_pid(void)
{
    return GetCurrentProcessId();
}

void tg_system_host(char *name, size_t size)
{
    wchar_t wide[256];
    DWORD length = 256;
    if (!GetComputerNameExW(ComputerNameDnsHostname, wide, &length) ||
        WideCharToMultiByte(CP_UTF8, 0, wide, -1, name, (int)size, NULL, NULL) <= 0) {
        name[0] = '\0';
    }
}

int tg_system_processors(void)
{
    DWORD_PTR allowed = 0, all = 0;
    int count = 0;
    GetProcessAffinityMask(GetCurrentProcess(), &allowed, &all);
    for (; allowed != 0; allowed &= allowed - 1) {
        count++;
    }
    return count < 1 ? 1 : count;
}

void tg_system_after_fork(void (*forget)(void))
{
    (void)forget;
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
