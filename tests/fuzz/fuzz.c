#define _DEFAULT_SOURCE
#include "fuzz.h"

#include <dirent.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

unsigned fuzz_byte(fuzz_input *input)
{
    if (input->size == 0) {
        return 0;
    }
    input->size--;
    return *input->bytes++;
}

int64_t fuzz_below(fuzz_input *input, int64_t count)
{
    int64_t drawn = fuzz_byte(input);
    if (count > 256) {
        drawn += 256 * (int64_t)fuzz_byte(input);
    }
    return drawn % count;
}

void fuzz_require(bool condition, const char *format, ...)
{
    if (!condition) {
        va_list arguments;
        va_start(arguments, format);
        vfprintf(stderr, format, arguments);
        va_end(arguments);
        fputc('\n', stderr);
        abort();
    }
}

/* ---- memory ---- */

/* Larger blocks are refused, as on a small machine: a call with huge sizes then fails, and does not take long. */
#define LARGEST_BLOCK ((size_t)16 << 20)

/* Threads of the library allocate, too. */
static atomic_llong live;
static atomic_ullong calls, fail_at;
static atomic_bool fail_later;

static void *allocate(void *context, size_t bytes, size_t alignment)
{
    (void)context;
    uint64_t at = atomic_load(&fail_at), call = atomic_fetch_add(&calls, 1) + 1;
    bool fails = at > 0 && (atomic_load(&fail_later) ? call >= at : call == at);
    void *block = NULL;
    if (fails || bytes > LARGEST_BLOCK || posix_memalign(&block, alignment, bytes) != 0) {
        return NULL;
    }
    memset(block, 0xcd, bytes < 65536 ? bytes : 65536);
    atomic_fetch_add(&live, 1);
    return block;
}

static void release(void *context, void *block)
{
    (void)context;
    atomic_fetch_sub(&live, 1);
    free(block);
}

void fuzz_memory_begin(void)
{
    static const tg_allocator counting = {allocate, release, NULL};
    atomic_store(&live, 0);
    fuzz_memory_fail(0, false);
    tg_set_allocator(&counting);
}

void fuzz_memory_end(void)
{
    tg_set_allocator(NULL);
    fuzz_require(atomic_load(&live) == 0, "%lld blocks were not freed", atomic_load(&live));
}

void fuzz_memory_fail(uint64_t at, bool later)
{
    atomic_store(&calls, 0);
    atomic_store(&fail_at, at);
    atomic_store(&fail_later, later);
}

/* ---- files ---- */

static char path[64], folders[FUZZ_FOLDERS][64];

/* Writes a path of this process. */
static void name_path(char text[64], const char *end)
{
    const char *folder = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(text, 64, "%s/tapegrad-fuzz-%ld%s", folder, (long)getpid(), end);
}

static void write_file(const char *name, const void *bytes, size_t size)
{
    FILE *file = fopen(name, "wb");
    fuzz_require(file && fwrite(bytes, 1, size, file) == size && fclose(file) == 0, "'%s' cannot be written", name);
}

static void remove_file(void)
{
    unlink(path);
}

const char *fuzz_file(const void *bytes, size_t size)
{
    if (!path[0]) {
        name_path(path, "");
        atexit(remove_file);
    }
    write_file(path, bytes, size);
    return path;
}

static void remove_folders(void)
{
    for (int i = 0; i < FUZZ_FOLDERS; i++) {
        DIR *folder = opendir(folders[i]);
        for (struct dirent *entry; folder && (entry = readdir(folder));) {
            unlinkat(dirfd(folder), entry->d_name, 0);
        }
        if (folder) {
            closedir(folder);
            rmdir(folders[i]);
        }
    }
}

const char *fuzz_folder(int number)
{
    static bool is_registered;
    if (!is_registered) {
        is_registered = true;
        atexit(remove_folders);
    }
    char *folder = folders[number];
    if (!folder[0]) {
        name_path(folder, (char[]){'-', (char)('0' + number), '\0'});
        fuzz_require(mkdir(folder, 0700) == 0, "'%s' cannot be made", folder);
    }
    return folder;
}

void fuzz_folder_write(int number, const char *name, const void *bytes, size_t size)
{
    char text[200];
    snprintf(text, sizeof text, "%s/%s", fuzz_folder(number), name);
    write_file(text, bytes, size);
}

/* ---- UTF-8 ---- */

bool fuzz_is_utf8(const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size;) {
        unsigned first = bytes[i];
        size_t more = first < 0x80                     ? 0
                      : first >= 0xc2 && first <= 0xdf ? 1
                      : first >= 0xe0 && first <= 0xef ? 2
                      : first >= 0xf0 && first <= 0xf4 ? 3
                                                       : size;
        if (more >= size - i) {
            return false;
        }
        unsigned low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
        unsigned high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
        for (size_t k = 1; k <= more; k++, low = 0x80, high = 0xbf) {
            if (bytes[i + k] < low || bytes[i + k] > high) {
                return false;
            }
        }
        i += more + 1;
    }
    return true;
}
