#include "tools/event.h"

#include <tapegrad/extend.h>

#include <string.h>

/* ---- bytes ---- */

/* Adds the low `count` bytes of a number, little-endian. */
static void put(tg_text_buffer *out, uint64_t number, int count)
{
    unsigned char bytes[8];
    for (int i = 0; i < count; i++) {
        bytes[i] = (unsigned char)(number >> 8 * i);
    }
    tg_text_add_bytes(out, bytes, (size_t)count);
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
static uint32_t masked(const void *bytes, size_t length)
{
    uint32_t crc = crc32c(bytes, length);
    return (crc >> 15 | crc << 17) + UINT32_C(0xa282ead8);
}

/* ---- protocol buffers ---- */

enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };

static void put_varint(tg_text_buffer *out, uint64_t number)
{
    for (; number >= 0x80; number >>= 7) {
        put(out, number | 0x80, 1);
    }
    put(out, number, 1);
}

static void put_key(tg_text_buffer *out, unsigned field, unsigned type)
{
    put_varint(out, field << 3 | type);
}

static void put_double(tg_text_buffer *out, double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    put(out, bits, 8);
}

/* A field of 0 is not written. */
static void put_double_field(tg_text_buffer *out, unsigned field, double x)
{
    if (x != 0) {
        put_key(out, field, FIXED64);
        put_double(out, x);
    }
}

/* Puts `prefix` before the bytes from `begin` on. */
static void insert(tg_text_buffer *out, size_t begin, const tg_text_buffer *prefix)
{
    size_t moved = out->length - begin;
    out->failed = out->failed || prefix->failed;
    tg_text_add_bytes(out, prefix->bytes, prefix->length);
    if (!out->failed) {
        memmove(out->bytes + begin + prefix->length, out->bytes + begin, moved);
        memcpy(out->bytes + begin, prefix->bytes, prefix->length);
    }
}

/* Turns the bytes from `begin` on into a field: its key and its length come before them. */
static void wrap(tg_text_buffer *out, size_t begin, unsigned field)
{
    tg_text_buffer prefix = {0};
    put_key(&prefix, field, BYTES);
    put_varint(&prefix, out->length - begin);
    insert(out, begin, &prefix);
    tg_free(prefix.bytes);
}

static void put_string_field(tg_text_buffer *out, unsigned field, const char *text)
{
    size_t begin = out->length;
    tg_text_add(out, text);
    wrap(out, begin, field);
}

/* Turns the bytes from `begin` on into a record. */
static void frame(tg_text_buffer *out, size_t begin)
{
    tg_text_buffer header = {0};
    size_t length = out->length - begin;
    uint32_t crc = out->failed ? 0 : masked(out->bytes + begin, length);
    put(&header, length, 8);
    put(&header, header.failed ? 0 : masked(header.bytes, 8), 4);
    insert(out, begin, &header);
    put(out, crc, 4);
    tg_free(header.bytes);
}

/* ---- events ---- */

void tg_event_version(tg_text_buffer *out, double time)
{
    size_t begin = out->length;
    put_double_field(out, 1, time);
    put_string_field(out, 3, "brain.Event:2");
    frame(out, begin);
}

/* Appends the fields of an Event before its summary. */
static void put_time(tg_text_buffer *out, double time, int64_t step)
{
    put_double_field(out, 1, time);
    if (step != 0) {
        put_key(out, 2, VARINT);
        put_varint(out, (uint64_t)step);
    }
}

void tg_event_scalar(tg_text_buffer *out, double time, int64_t step, const char *tag, double value)
{
    size_t begin = out->length;
    put_time(out, time, step);
    size_t summary = out->length;
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
static void put_bins(tg_text_buffer *out, const tg_histogram *h)
{
    int first = 0, last = TG_HISTOGRAM_LIMITS - 2;
    while (first < last && h->counts[first] == 0) {
        first++;
    }
    while (last > first && h->counts[last] == 0) {
        last--;
    }
    size_t begin = out->length;
    for (int i = first; i <= last + 1; i++) {
        put_double(out, h->limits[i]);
    }
    wrap(out, begin, 6);
    begin = out->length;
    put_double(out, 0);
    for (int i = first; i <= last; i++) {
        put_double(out, h->counts[i]);
    }
    wrap(out, begin, 7);
}

void tg_event_histogram(tg_text_buffer *out, double time, int64_t step, const char *tag, const tg_histogram *h)
{
    size_t begin = out->length;
    put_time(out, time, step);
    size_t summary = out->length;
    put_string_field(out, 1, tag);
    size_t histogram = out->length;
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
