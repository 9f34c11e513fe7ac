/* npz: one array of an archive of arrays, a zip file (APPNOTE.TXT of PKWARE, 4.3) whose members are not compressed, as
 * numpy.savez writes it. Only the member's values are read into memory. */
#include <string.h>

#include "base/bytes.h"
#include "base/text.h"
#include "files/array.h"

static const char call[] = "tensor_new_from_npz";

/* A member of the archive: its header and its values are the bytes [begin,end) of the file. */
typedef struct member {
    uint64_t begin, end;
    uint32_t crc;
} member;

typedef struct archive {
    tg_file file;
    uint64_t directory, directory_end; /* the bytes of the central directory */
    uint64_t count;
    tg_error *error;
} archive;

static bool fail(const archive *a, uint64_t at, const char *text)
{
    return tg_error_set_at(a->error, -1, (int64_t)at, "%s: '%s', byte %llu: %s", call, a->file.path,
                           (unsigned long long)at, text);
}

/* Reads bytes of the archive, which must lie before `end`. */
static bool read_bytes(const archive *a, uint64_t at, uint64_t end, void *out, size_t length)
{
    if (at > end || length > end - at) {
        return fail(a, at, "the archive ends too early");
    }
    return tg_file_read(&a->file, at, out, length, a->error);
}

/* ---- the directory ---- */

/* Finds the end record, which is last, and may have a comment of up to 65535 bytes. */
static bool find_end(const archive *a, uint64_t *found, unsigned char end[22])
{
    unsigned char buffer[1024 + 22];
    uint64_t size = a->file.size, at = size;
    while (at > 0 && size - at < 22 + 65535) {
        size_t step = at < 1024 ? (size_t)at : 1024;
        size_t length = size - at < 21 ? step + (size_t)(size - at) : step + 21;
        at -= step;
        if (!read_bytes(a, at, size, buffer, length)) {
            return false;
        }
        for (size_t i = length; i-- > 0;) {
            if (length - i >= 22 && memcmp(buffer + i, "PK\5\6", 4) == 0 &&
                tg_number_of_bytes(buffer + i + 20, 2) == size - at - i - 22) {
                *found = at + i;
                memcpy(end, buffer + i, 22);
                return true;
            }
        }
    }
    return fail(a, 0, "this is not an NPZ file: it has no end of a zip archive");
}

/* Reads the end record of an archive with numbers of 64 bits, which is before the other one. */
static bool read_large_end(archive *a, uint64_t end_at)
{
    unsigned char locator[20], end[56];
    if (end_at < 20) {
        return fail(a, end_at, "the archive has no 64-bit end record");
    }
    if (!read_bytes(a, end_at - 20, end_at, locator, sizeof locator)) {
        return false;
    }
    uint64_t at = tg_number_of_bytes(locator + 8, 8);
    if (memcmp(locator, "PK\6\7", 4) != 0) {
        return fail(a, end_at - 20, "the archive has no 64-bit end record");
    }
    if (!read_bytes(a, at, end_at - 20, end, sizeof end)) {
        return false;
    }
    if (memcmp(end, "PK\6\6", 4) != 0) {
        return fail(a, at, "the archive has no 64-bit end record");
    }
    a->count = tg_number_of_bytes(end + 32, 8);
    a->directory = tg_number_of_bytes(end + 48, 8);
    a->directory_end = tg_number_of_bytes(end + 40, 8);
    return true;
}

static bool open_archive(archive *a)
{
    unsigned char end[22];
    uint64_t end_at = 0;
    if (!find_end(a, &end_at, end)) {
        return false;
    }
    if (tg_number_of_bytes(end + 4, 2) != tg_number_of_bytes(end + 6, 2)) {
        return fail(a, end_at + 4, "an archive in several files cannot be read");
    }
    a->count = tg_number_of_bytes(end + 10, 2);
    a->directory = tg_number_of_bytes(end + 16, 4);
    a->directory_end = tg_number_of_bytes(end + 12, 4); /* its length, here */
    if ((a->count == 0xffff || a->directory == 0xffffffff || a->directory_end == 0xffffffff) &&
        !read_large_end(a, end_at)) {
        return false;
    }
    if (a->directory > end_at || a->directory_end > end_at - a->directory) {
        return fail(a, end_at, "the directory of the archive is not in the file");
    }
    a->directory_end += a->directory;
    return true;
}

/* ---- members ---- */

/* Replaces numbers that are 0xffffffff by those of the entry's extra field with 64 bits. */
static bool read_large_numbers(const archive *a, uint64_t at, size_t length, uint64_t *numbers[3])
{
    unsigned char field[4], value[8];
    while (length >= 4) {
        if (!read_bytes(a, at, a->directory_end, field, sizeof field)) {
            return false;
        }
        size_t size = (size_t)tg_number_of_bytes(field + 2, 2);
        if (size > length - 4) {
            return fail(a, at, "an extra field is longer than its entry");
        }
        for (int i = 0; i < 3 && tg_number_of_bytes(field, 2) == 1; i++) {
            if (*numbers[i] != 0xffffffff) {
                continue;
            }
            if (size < 8) {
                return fail(a, at, "an extra field is too short");
            }
            if (!read_bytes(a, at + 4, a->directory_end, value, sizeof value)) {
                return false;
            }
            *numbers[i] = tg_number_of_bytes(value, 8);
            at += 8, length -= 8, size -= 8;
        }
        at += 4 + size;
        length -= 4 + size;
    }
    return true;
}

/* Finds the bytes of a member from its entry in the directory. */
static bool locate(const archive *a, uint64_t at, const unsigned char entry[46], member *m)
{
    uint64_t compressed = tg_number_of_bytes(entry + 20, 4), size = tg_number_of_bytes(entry + 24, 4),
             local = tg_number_of_bytes(entry + 42, 4);
    uint64_t *numbers[3] = {&size, &compressed, &local};
    unsigned char header[30];
    if (tg_number_of_bytes(entry + 8, 2) & 1) {
        return fail(a, at, "the member is encrypted");
    }
    if (tg_number_of_bytes(entry + 10, 2) != 0) {
        return fail(a, at, "the member is compressed; write the archive with numpy.savez, not savez_compressed");
    }
    if (!read_large_numbers(a, at + 46 + tg_number_of_bytes(entry + 28, 2), (size_t)tg_number_of_bytes(entry + 30, 2),
                            numbers) ||
        !read_bytes(a, local, a->directory, header, sizeof header)) {
        return false;
    }
    if (memcmp(header, "PK\3\4", 4) != 0) {
        return fail(a, local, "the header of the member is invalid");
    }
    m->begin = local + 30 + tg_number_of_bytes(header + 26, 2) + tg_number_of_bytes(header + 28, 2);
    if (compressed != size || m->begin > a->directory || size > a->directory - m->begin) {
        return fail(a, at, "the size of the member is invalid");
    }
    m->end = m->begin + size;
    m->crc = (uint32_t)tg_number_of_bytes(entry + 16, 4);
    return true;
}

/* Compares a name of `length` bytes in the directory with `name`, and with `name` and ".npy". */
static bool compare_name(const archive *a, uint64_t at, size_t length, const char *name, bool *is_equal)
{
    size_t wanted = strlen(name);
    *is_equal = length == wanted || length == wanted + 4;
    for (size_t done = 0, count; *is_equal && done < length; done += count) {
        char part[256];
        count = length - done < sizeof part ? length - done : sizeof part;
        if (!read_bytes(a, at + done, a->directory_end, part, count)) {
            return false;
        }
        for (size_t i = done; i < done + count; i++) {
            *is_equal = *is_equal && part[i - done] == (i < wanted ? name[i] : ".npy"[i - wanted]);
        }
    }
    return true;
}

static bool find_member(const archive *a, const char *name, member *m)
{
    uint64_t at = a->directory;
    bool is_found = false;
    for (uint64_t i = 0; i < a->count; i++) {
        unsigned char entry[46];
        if (!read_bytes(a, at, a->directory_end, entry, sizeof entry)) {
            return false;
        }
        if (memcmp(entry, "PK\1\2", 4) != 0) {
            return fail(a, at, "the entry of the directory is invalid");
        }
        size_t length = (size_t)tg_number_of_bytes(entry + 28, 2);
        bool is_equal;
        if (!compare_name(a, at + 46, length, name, &is_equal)) {
            return false;
        }
        if (is_equal && is_found) {
            return fail(a, at, "two members have this name");
        }
        if (is_equal && !locate(a, at, entry, m)) {
            return false;
        }
        is_found = is_found || is_equal;
        at += 46 + length + tg_number_of_bytes(entry + 30, 2) + tg_number_of_bytes(entry + 32, 2);
    }
    return is_found || tg_error_set(a->error, TG_ERROR_RANGE, "%s: '%s' has no member '%.*s'", call, a->file.path,
                                    TG_CUT(name, 100));
}

/* ---- reading ---- */

/* Compares the member's bytes with its CRC-32 (polynomial 0xedb88320, reflected). */
static bool check_crc(const archive *a, const member *m)
{
    uint32_t table[256], crc = 0xffffffff;
    unsigned char bytes[4096];
    for (uint32_t i = 0; i < 256; i++) {
        table[i] = i;
        for (int bit = 0; bit < 8; bit++) {
            table[i] = table[i] >> 1 ^ (table[i] & 1 ? 0xedb88320 : 0);
        }
    }
    for (uint64_t at = m->begin; at < m->end;) {
        size_t count = m->end - at < sizeof bytes ? (size_t)(m->end - at) : sizeof bytes;
        if (!read_bytes(a, at, m->end, bytes, count)) {
            return false;
        }
        for (size_t i = 0; i < count; i++) {
            crc = crc >> 8 ^ table[(crc ^ bytes[i]) & 0xff];
        }
        at += count;
    }
    return ~crc == m->crc || fail(a, m->begin, "the member is damaged: its CRC-32 differs");
}

tg_tensor *tg_tensor_new_from_npz(const char *path, const char *name, tg_error *error)
{
    archive a = {.error = error};
    member m;
    tg_array array;
    if (!name) {
        tg_error_set(error, TG_ERROR_STATE, "%s: the member is NULL", call);
        return NULL;
    }
    if (!tg_file_open(&a.file, call, path, error)) {
        return NULL;
    }
    bool is_found = open_archive(&a) && find_member(&a, name, &m) && check_crc(&a, &m) &&
                    tg_npy_parse(&a.file, m.begin, m.end, name, &array, error);
    tg_tensor *x = is_found ? tg_array_read_new(&array, error) : NULL;
    tg_file_close(&a.file);
    return x;
}
