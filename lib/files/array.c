#include "files/array.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "math/half.h"

/* The bytes of the buffer for conversions: 8 bytes per value at most. */
#define BUFFER_VALUES ((int64_t)32768)
#define BUFFER_BYTES ((size_t)BUFFER_VALUES * 8)

/* ---- dtypes ---- */

static const struct {
    const char *name;
    int bits, dtype; /* that of the tensor to which it is read; -1: it cannot be read */
} stored_dtypes[TG_STORED_COUNT] = {
    [TG_STORED_BOOL] = {"BOOL", 8, TG_U8},
    [TG_STORED_F4] = {"F4", 4, -1},
    [TG_STORED_F6_E2M3] = {"F6_E2M3", 6, -1},
    [TG_STORED_F6_E3M2] = {"F6_E3M2", 6, -1},
    [TG_STORED_U8] = {"U8", 8, TG_U8},
    [TG_STORED_I8] = {"I8", 8, TG_I32},
    [TG_STORED_F8_E5M2] = {"F8_E5M2", 8, -1},
    [TG_STORED_F8_E4M3] = {"F8_E4M3", 8, -1},
    [TG_STORED_F8_E8M0] = {"F8_E8M0", 8, -1},
    [TG_STORED_F8_E4M3FNUZ] = {"F8_E4M3FNUZ", 8, -1},
    [TG_STORED_F8_E5M2FNUZ] = {"F8_E5M2FNUZ", 8, -1},
    [TG_STORED_I16] = {"I16", 16, TG_I32},
    [TG_STORED_U16] = {"U16", 16, TG_I32},
    [TG_STORED_F16] = {"F16", 16, TG_F32},
    [TG_STORED_BF16] = {"BF16", 16, TG_F32},
    [TG_STORED_I32] = {"I32", 32, TG_I32},
    [TG_STORED_U32] = {"U32", 32, TG_I32},
    [TG_STORED_F32] = {"F32", 32, TG_F32},
    [TG_STORED_C64] = {"C64", 64, -1},
    [TG_STORED_F64] = {"F64", 64, TG_F64},
    [TG_STORED_I64] = {"I64", 64, TG_I32},
    [TG_STORED_U64] = {"U64", 64, TG_I32},
};

const char *tg_stored_name(tg_stored stored)
{
    return stored_dtypes[stored].name;
}

int tg_stored_bits(tg_stored stored)
{
    return stored_dtypes[stored].bits;
}

tg_stored tg_stored_from_name(const char *name)
{
    int stored = 0;
    while (stored < TG_STORED_COUNT && strcmp(stored_dtypes[stored].name, name) != 0) {
        stored++;
    }
    return (tg_stored)stored;
}

tg_stored tg_stored_of(tg_dtype dtype, tg_save_floats floats)
{
    if (tg_dtype_is_float((int)dtype) && floats != TG_SAVE_FLOATS_KEEP) {
        return floats == TG_SAVE_FLOATS_F16 ? TG_STORED_F16 : TG_STORED_BF16;
    }
    static const tg_stored stored[] = {TG_STORED_F32, TG_STORED_F64, TG_STORED_I32, TG_STORED_U8, TG_STORED_BF16};
    return stored[dtype];
}

bool tg_stored_dtype(tg_stored stored, tg_dtype *dtype)
{
    int found = stored_dtypes[stored].dtype;
    *dtype = (tg_dtype)(found < 0 ? 0 : found);
    return found >= 0;
}

bool tg_stored_fits(tg_stored stored, tg_dtype dtype, bool convert_floats)
{
    tg_dtype natural;
    return tg_stored_dtype(stored, &natural) &&
           (natural == dtype || stored == tg_stored_of(dtype, TG_SAVE_FLOATS_KEEP) ||
            (convert_floats && tg_dtype_is_float((int)natural) && (tg_dtype_is_float((int)dtype) || dtype == TG_BF16)));
}

bool tg_stored_holds(tg_stored stored, tg_dtype dtype)
{
    return stored == tg_stored_of(dtype, TG_SAVE_FLOATS_KEEP) ||
           (dtype == TG_F32 && (stored == TG_STORED_F16 || stored == TG_STORED_BF16)) ||
           (dtype == TG_I32 && stored == TG_STORED_I64) || (dtype == TG_U8 && stored == TG_STORED_BOOL);
}

/* ---- byte order ---- */

static bool host_is_big_endian(void)
{
    const uint16_t one = 1;
    return *(const unsigned char *)&one == 0;
}

static void swap_bytes(void *values, size_t size, int64_t count)
{
    unsigned char *at = values;
    for (int64_t i = 0; i < count; i++, at += size) {
        for (size_t low = 0, high = size - 1; low < high; low++, high--) {
            unsigned char byte = at[low];
            at[low] = at[high];
            at[high] = byte;
        }
    }
}

/* ---- reading ---- */

/* Returns an integer; one above 2^63 - 1 as 2^63 - 1. */
static int64_t integer_at(const void *values, tg_stored stored, int64_t i)
{
    switch (stored) {
    case TG_STORED_I8: return ((const int8_t *)values)[i];
    case TG_STORED_I16: return ((const int16_t *)values)[i];
    case TG_STORED_U16: return ((const uint16_t *)values)[i];
    case TG_STORED_U32: return ((const uint32_t *)values)[i];
    case TG_STORED_U64:
        return ((const uint64_t *)values)[i] > INT64_MAX ? INT64_MAX : (int64_t)((const uint64_t *)values)[i];
    default: return ((const int64_t *)values)[i];
    }
}

/* Converts values to f32, or to i32. Returns the index of a value that does not fit, or `count`. */
static int64_t decode(void *out, const void *in, tg_stored stored, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        if (stored == TG_STORED_F16) {
            ((float *)out)[i] = tg_from_f16(((const uint16_t *)in)[i]);
        } else if (stored == TG_STORED_BF16) {
            ((float *)out)[i] = tg_from_bf16(((const uint16_t *)in)[i]);
        } else {
            int64_t value = integer_at(in, stored, i);
            if (value < INT32_MIN || value > INT32_MAX) {
                return i;
            }
            ((int32_t *)out)[i] = (int32_t)value;
        }
    }
    return count;
}

/* Reports values[i], which is value number `index` of the array. */
static bool refuse_value(const tg_array *array, const void *values, int64_t i, int64_t index, tg_error *error)
{
    char text[TG_SHAPE_TEXT], number[24];
    int64_t position = 0, size = tg_shape_count(array->shape);
    for (int axis = 0; array->is_fortran && axis < array->shape.rank; axis++) {
        size /= array->shape.size[axis];
        position += index % array->shape.size[axis] * size;
        index /= array->shape.size[axis];
    }
    index = array->is_fortran ? position : index;
    if (array->dtype == TG_STORED_U64) {
        snprintf(number, sizeof number, "%llu", (unsigned long long)((const uint64_t *)values)[i]);
    } else {
        snprintf(number, sizeof number, "%lld", (long long)integer_at(values, array->dtype, i));
    }
    return tg_error_set(error, TG_ERROR_RANGE, "%s: '%s': value %s of '%.*s' at %s is outside of i32",
                        array->file->call, array->file->path, number, TG_CUT(array->name, 100),
                        tg_index_format(&array->shape, index, text));
}

/* Returns whether stored values are those of the dtype, apart from the order of their bytes. */
static bool is_stored_as(tg_stored stored, tg_dtype dtype)
{
    return stored == tg_stored_of(dtype, TG_SAVE_FLOATS_KEEP) || stored == TG_STORED_BOOL;
}

/* Reads in parts: bytes -> values of the stored dtype -> f32 or i32 -> values of `dtype`. */
static bool read_converted(const tg_array *array, void *out, tg_dtype dtype, tg_error *error)
{
    const tg_file *file = array->file;
    size_t size = (size_t)tg_stored_bits(array->dtype) / 8;
    int64_t count = tg_shape_count(array->shape);
    bool is_swapped = array->is_big_endian != host_is_big_endian();
    tg_dtype natural = TG_F32;
    tg_stored_dtype(array->dtype, &natural);
    bool is_decoded = !is_stored_as(array->dtype, natural);
    char *stored = tg_alloc(2, BUFFER_BYTES);
    if (!stored) {
        return tg_error_set(error, TG_ERROR_MEMORY, "%s: '%s': out of memory", file->call, file->path);
    }
    char *decoded = stored + BUFFER_BYTES;
    bool is_read = true;
    for (int64_t done = 0, part; is_read && done < count; done += part) {
        part = count - done < BUFFER_VALUES ? count - done : BUFFER_VALUES;
        is_read = tg_file_read(file, array->offset + (uint64_t)done * size, stored, (size_t)part * size, error);
        if (is_read && is_swapped) {
            swap_bytes(stored, size, part);
        }
        int64_t decoded_count = is_read && is_decoded ? decode(decoded, stored, array->dtype, part) : part;
        if (decoded_count < part) {
            is_read = refuse_value(array, stored, decoded_count, done + decoded_count, error);
        }
        if (is_read) {
            tg_convert((char *)out + (size_t)done * tg_size_of(dtype), dtype, is_decoded ? decoded : stored, natural,
                       part);
        }
    }
    tg_free(stored);
    return is_read;
}

/* Returns whether the bytes in the file are the bytes in memory. */
static bool is_same_layout(const tg_array *array, tg_dtype dtype)
{
    return is_stored_as(array->dtype, dtype) &&
           (array->is_big_endian == host_is_big_endian() || tg_stored_bits(array->dtype) == 8);
}

bool tg_array_read(const tg_array *array, void *out, tg_dtype dtype, tg_error *error)
{
    if (!is_same_layout(array, dtype)) {
        return read_converted(array, out, dtype, error);
    }
    return tg_file_read(array->file, array->offset, out, (size_t)tg_shape_count(array->shape) * tg_size_of(dtype),
                        error);
}

bool tg_array_read_rows(const tg_array *array, tg_shard shard, int64_t own, void *out, tg_dtype dtype, tg_error *error)
{
    tg_array rows = *array;
    if (shard.rows > 0) {
        rows.shape.size[0] = shard.first;
        rows.offset += (uint64_t)tg_shape_count(rows.shape) * (uint64_t)tg_stored_bits(rows.dtype) / 8;
        rows.shape.size[0] = own;
    }
    return tg_array_read(&rows, out, dtype, error);
}

/* Returns a row-major copy of x, whose values are those of `shape` with the first axis fastest. Releases x. */
static tg_tensor *from_fortran(const tg_array *array, tg_tensor *x, tg_error *error)
{
    const tg_shape *shape = &array->shape;
    int64_t strides[TG_MAX_RANK];
    for (int axis = 0; axis < shape->rank; axis++) {
        strides[axis] = axis ? strides[axis - 1] * shape->size[axis - 1] : 1;
    }
    tg_tensor *view = tg_tensor_make_view(NULL, x, shape, strides, 0);
    tg_tensor *copy = view ? tg_tensor_new_copy(view, NULL) : NULL;
    if (!copy) {
        tg_error_set(error, TG_ERROR_MEMORY, "%s: '%s': out of memory", array->file->call, array->file->path);
    }
    tg_release(view);
    tg_release(x);
    return copy;
}

tg_tensor *tg_array_read_new(const tg_array *array, tg_error *error)
{
    const tg_file *file = array->file;
    tg_dtype dtype;
    size_t bytes;
    if (!tg_stored_dtype(array->dtype, &dtype)) {
        tg_error_set(error, TG_ERROR_DTYPE, "%s: '%s': '%.*s' is %s, which cannot be read", file->call, file->path,
                     TG_CUT(array->name, 100), tg_stored_name(array->dtype));
        return NULL;
    }
    if (!tg_shape_bytes(file->call, dtype, &array->shape, &bytes, error)) {
        return NULL;
    }
    tg_tensor *x = tg_tensor_make(NULL, dtype, &array->shape);
    if (!x) {
        tg_error_set(error, TG_ERROR_MEMORY, "%s: '%s': out of memory for '%.*s'", file->call, file->path,
                     TG_CUT(array->name, 100));
    } else if (!tg_array_read(array, tg_values(x), dtype, error)) {
        tg_release(x);
        return NULL;
    }
    return x && array->is_fortran && array->shape.rank > 1 ? from_fortran(array, x, error) : x;
}

/* ---- writing ---- */

/* Converts f32 or f64 to F16 or BF16, i32 to I64, and u8 to BOOL. */
static void encode(void *out, tg_stored stored, const void *in, tg_dtype dtype, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        if (stored == TG_STORED_I64) {
            ((int64_t *)out)[i] = ((const int32_t *)in)[i];
        } else if (stored == TG_STORED_BOOL) {
            ((unsigned char *)out)[i] = ((const unsigned char *)in)[i] != 0;
        } else {
            float value = dtype == TG_F32 ? ((const float *)in)[i] : (float)((const double *)in)[i];
            ((uint16_t *)out)[i] = stored == TG_STORED_F16 ? tg_to_f16(value) : tg_to_bf16(value);
        }
    }
}

/* Writes in parts: x's values -> the stored dtype -> little-endian bytes. */
static bool write_converted(tg_file_writer *writer, const tg_tensor *x, tg_stored stored, tg_error *error)
{
    size_t size = (size_t)tg_stored_bits(stored) / 8, own_size = tg_size_of(x->dtype);
    char *encoded = tg_alloc(1, BUFFER_BYTES);
    bool is_written =
        encoded || tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory for %zu bytes", writer->call, BUFFER_BYTES);
    for (int64_t done = 0, part; is_written && done < x->count; done += part) {
        part = x->count - done < BUFFER_VALUES ? x->count - done : BUFFER_VALUES;
        const char *values = (const char *)tg_values(x) + (size_t)done * own_size;
        if (stored == tg_stored_of(tg_dtype_of(x), TG_SAVE_FLOATS_KEEP)) {
            memcpy(encoded, values, (size_t)part * size);
        } else {
            encode(encoded, stored, values, tg_dtype_of(x), part);
        }
        if (host_is_big_endian()) {
            swap_bytes(encoded, size, part);
        }
        is_written = tg_file_writer_write(writer, encoded, (size_t)part * size, error);
    }
    tg_free(encoded);
    return is_written;
}

bool tg_array_write(tg_file_writer *writer, const tg_tensor *x, tg_stored stored, tg_error *error)
{
    if (!x->contiguous) {
        tg_tensor *copy = tg_tensor_new_copy(x, error);
        bool is_written = copy && tg_array_write(writer, copy, stored, error);
        tg_release(copy);
        return is_written;
    }
    bool is_plain = stored == tg_stored_of(tg_dtype_of(x), TG_SAVE_FLOATS_KEEP) &&
                    (!host_is_big_endian() || tg_stored_bits(stored) == 8);
    return is_plain ? tg_file_writer_write(writer, tg_values(x), tg_bytes_of(x), error)
                    : write_converted(writer, x, stored, error);
}
