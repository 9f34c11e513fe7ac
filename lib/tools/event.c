#include "tools/event.h"

#include <string.h>

#include "base/alloc.h"

/* ---- bytes ---- */

static bool reserve(tg_bytes *out, size_t more)
{
    void *grown = out->data;
    out->failed = out->failed || !tg_grow(&grown, &out->capacity, out->used, out->used + more, 1);
    out->data = grown;
    return !out->failed;
}

/* Appends the low `count` bytes of a number, little-endian. */
static void put(tg_bytes *out, uint64_t number, int count)
{
    if (reserve(out, (size_t)count)) {
        for (int i = 0; i < count; i++) {
            out->data[out->used++] = (unsigned char)(number >> 8 * i);
        }
    }
}

static void put_text(tg_bytes *out, const char *text)
{
    size_t length = strlen(text);
    if (reserve(out, length)) {
        memcpy(out->data + out->used, text, length);
        out->used += length;
    }
}

/* ---- CRC-32C ---- */

/* Returns the CRC with Castagnoli's polynomial (RFC 3720, appendix B.4). */
static uint32_t crc32c(const unsigned char *bytes, size_t length)
{
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < length; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++) {
            crc = crc >> 1 ^ (UINT32_C(0x82f63b78) & (0 - (crc & 1)));
        }
    }
    return ~crc;
}

/* The masked CRC of tensorflow/core/lib/hash/crc32c.h. */
static uint32_t masked(const unsigned char *bytes, size_t length)
{
    uint32_t crc = crc32c(bytes, length);
    return (crc >> 15 | crc << 17) + UINT32_C(0xa282ead8);
}

/* ---- protocol buffers ---- */

enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };

static void put_varint(tg_bytes *out, uint64_t number)
{
    for (; number >= 0x80; number >>= 7) {
        put(out, number | 0x80, 1);
    }
    put(out, number, 1);
}

static void put_key(tg_bytes *out, unsigned field, unsigned type)
{
    put_varint(out, field << 3 | type);
}

static void put_double(tg_bytes *out, double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    put(out, bits, 8);
}

/* A field of 0 is not written. */
static void put_double_field(tg_bytes *out, unsigned field, double x)
{
    if (x != 0) {
        put_key(out, field, FIXED64);
        put_double(out, x);
    }
}

/* Puts `prefix` before the bytes from `begin` on. */
static void insert(tg_bytes *out, size_t begin, const tg_bytes *prefix)
{
    if (prefix->failed || !reserve(out, prefix->used)) {
        out->failed = true;
        return;
    }
    memmove(out->data + begin + prefix->used, out->data + begin, out->used - begin);
    memcpy(out->data + begin, prefix->data, prefix->used);
    out->used += prefix->used;
}

/* Turns the bytes from `begin` on into a field: its key and its length come before them. */
static void wrap(tg_bytes *out, size_t begin, unsigned field)
{
    tg_bytes prefix = {0};
    put_key(&prefix, field, BYTES);
    put_varint(&prefix, out->used - begin);
    insert(out, begin, &prefix);
    tg_free(prefix.data);
}

static void put_string_field(tg_bytes *out, unsigned field, const char *text)
{
    size_t begin = out->used;
    put_text(out, text);
    wrap(out, begin, field);
}

/* Turns the bytes from `begin` on into a record. */
static void frame(tg_bytes *out, size_t begin)
{
    tg_bytes header = {0};
    size_t length = out->used - begin;
    uint32_t crc = out->failed ? 0 : masked(out->data + begin, length);
    put(&header, length, 8);
    put(&header, header.failed ? 0 : masked(header.data, 8), 4);
    insert(out, begin, &header);
    put(out, crc, 4);
    tg_free(header.data);
}

/* ---- events ---- */

void tg_event_version(tg_bytes *out, double time)
{
    size_t begin = out->used;
    put_double_field(out, 1, time);
    put_string_field(out, 3, "brain.Event:2");
    frame(out, begin);
}

/* Appends the fields of an Event before its summary. */
static void put_time(tg_bytes *out, double time, int64_t step)
{
    put_double_field(out, 1, time);
    if (step != 0) {
        put_key(out, 2, VARINT);
        put_varint(out, (uint64_t)step);
    }
}

void tg_event_scalar(tg_bytes *out, double time, int64_t step, const char *tag, double value)
{
    size_t begin = out->used;
    put_time(out, time, step);
    size_t summary = out->used;
    put_string_field(out, 1, tag);
    float simple = (float)value;
    uint32_t bits;
    memcpy(&bits, &simple, sizeof bits);
    put_key(out, 2, FIXED32);
    put(out, bits, 4);
    wrap(out, summary, 1);
    wrap(out, summary, 5);
    frame(out, begin);
}

/* Appends the limits and the counts of the bins from the first to the last one with a value. A count belongs to the
 * limit at the right of its bin. So an empty bin comes first, whose right limit is the left one of the first bin. */
static void put_bins(tg_bytes *out, const tg_histogram *h)
{
    int first = 0, last = TG_HISTOGRAM_LIMITS - 2;
    while (first < last && h->counts[first] == 0) {
        first++;
    }
    while (last > first && h->counts[last] == 0) {
        last--;
    }
    size_t begin = out->used;
    for (int i = first; i <= last + 1; i++) {
        put_double(out, h->limits[i]);
    }
    wrap(out, begin, 6);
    begin = out->used;
    put_double(out, 0);
    for (int i = first; i <= last; i++) {
        put_double(out, h->counts[i]);
    }
    wrap(out, begin, 7);
}

void tg_event_histogram(tg_bytes *out, double time, int64_t step, const char *tag, const tg_histogram *h)
{
    size_t begin = out->used;
    put_time(out, time, step);
    size_t summary = out->used;
    put_string_field(out, 1, tag);
    size_t histogram = out->used;
    put_double_field(out, 1, h->min);
    put_double_field(out, 2, h->max);
    put_double_field(out, 3, h->num);
    put_double_field(out, 4, h->sum);
    put_double_field(out, 5, h->sum_squares);
    put_bins(out, h);
    wrap(out, histogram, 5);
    wrap(out, summary, 1);
    wrap(out, summary, 5);
    frame(out, begin);
}
