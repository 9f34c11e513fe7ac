/* npy: the header of an array in NumPy's format (numpy/lib/_format_impl.py):
 *
 *   6 bytes              \x93NUMPY
 *   2 bytes              the version: 1.0, 2.0 or 3.0
 *   2 or 4 bytes         the length of the header, little-endian; 4 since version 2.0
 *   the header           {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }, then spaces and a newline
 *   the rest             the values
 */
#include "files/array.h"

#include <stdio.h>
#include <string.h>

#include <tapegrad/extend.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/text.h"

/* The most bytes of a header. Only structured dtypes, which cannot be read, need more than some hundreds. */
#define MOST_HEADER 65536

/* ---- the header: a Python literal, whose numbers and punctuation are those of JSON ---- */

/* Takes a string in quotation marks, without escapes. */
static bool take_string(tg_json *j, tg_json_text *string)
{
    int quote = tg_json_next(j);
    if (quote != '\'' && quote != '"') {
        return tg_json_expected(j, "a string");
    }
    *string = (tg_json_text){j->text + j->at + 1, j->at};
    for (j->at++; j->at < j->length && j->text[j->at] != (char)quote; j->at++) {
        if (j->text[j->at] == '\\') {
            return tg_json_fail(j, j->at, "a string contains a backslash");
        }
    }
    if (j->at == j->length) {
        return tg_json_fail(j, string->at, "the string does not end");
    }
    j->text[j->at++] = '\0';
    return true;
}

static bool parse_descr(tg_json *j, tg_array *array)
{
    static const struct {
        const char *code;
        tg_stored stored;
    } dtypes[] = {{"f2", TG_STORED_F16}, {"f4", TG_STORED_F32}, {"f8", TG_STORED_F64}, {"i1", TG_STORED_I8},
                  {"i2", TG_STORED_I16}, {"i4", TG_STORED_I32}, {"i8", TG_STORED_I64}, {"u1", TG_STORED_U8},
                  {"u2", TG_STORED_U16}, {"u4", TG_STORED_U32}, {"u8", TG_STORED_U64}, {"b1", TG_STORED_BOOL}};
    tg_json_text descr;
    int next = tg_json_next(j);
    if (next == '[' || next == '(') {
        return tg_json_fail(j, j->at, "a structured dtype, which cannot be read");
    }
    if (!take_string(j, &descr)) {
        return false;
    }
    const char order = descr.text[0], *code = descr.text + (order && strchr("<>|=", order));
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        array->dtype = dtypes[i].stored;
        array->is_big_endian = order == '>';
        if (strcmp(code, dtypes[i].code) == 0 && (tg_stored_bits(array->dtype) == 8 || order == '<' || order == '>')) {
            return true;
        }
    }
    j->failed = true;
    return tg_error_set(j->error, TG_ERROR_DTYPE,
                        "%s: '%s', byte %llu: dtype '%.*s' cannot be read; it must be f2, f4, f8, i1, i2, i4, i8, u1, "
                        "u2, u4, u8 or b1 with < or > in front",
                        j->call, j->path, (unsigned long long)(j->offset + descr.at), TG_CUT(descr.text, 40));
}

static bool parse_fortran_order(tg_json *j, tg_array *array)
{
    array->is_fortran = tg_json_word(j, "True");
    return array->is_fortran || tg_json_word(j, "False") || tg_json_expected(j, "True or False");
}

/* Parses (), (3,), (2, 3) or (2, 3,). Python 2 wrote (2L, 3L). */
static bool parse_shape(tg_json *j, tg_array *array)
{
    tg_json_next(j);
    size_t at = j->at;
    int rank = 0;
    bool has_comma = true;
    if (!tg_json_take(j, '(')) {
        return tg_json_expected(j, "'('");
    }
    while (!tg_json_take(j, ')')) {
        if (!has_comma) {
            return tg_json_expected(j, "',' or ')'");
        }
        if (rank == TG_MAX_RANK) {
            return tg_json_fail(j, at, "a rank above %d", TG_MAX_RANK);
        }
        if (!tg_json_uint(j, &array->shape.size[rank++])) {
            return false;
        }
        tg_json_take(j, 'L');
        has_comma = tg_json_take(j, ',');
    }
    if (rank == 1 && !has_comma) {
        return tg_json_fail(j, at, "the shape is a number, not a tuple");
    }
    array->shape.rank = rank;
    return tg_shape_count(array->shape) >= 0 || tg_json_fail(j, at, "the shape is larger than any file");
}

/* Parses one item of the dictionary. `found` has one flag per key. */
static bool parse_item(tg_json *j, tg_array *array, bool found[3])
{
    static const char *const names[] = {"descr", "fortran_order", "shape"};
    tg_json_text key;
    if (!take_string(j, &key)) {
        return false;
    }
    int field = 0;
    while (field < 3 && strcmp(key.text, names[field]) != 0) {
        field++;
    }
    if (field == 3) {
        return tg_json_fail(j, key.at, "unknown key '%.*s'", TG_CUT(key.text, 40));
    }
    if (found[field]) {
        return tg_json_fail(j, key.at, "'%s' is given twice", names[field]);
    }
    found[field] = true;
    return (tg_json_take(j, ':') || tg_json_expected(j, "':'")) && (field == 0   ? parse_descr(j, array)
                                                                    : field == 1 ? parse_fortran_order(j, array)
                                                                                 : parse_shape(j, array));
}

static bool parse_header(tg_json *j, tg_array *array)
{
    bool found[3] = {false, false, false}, has_comma = true;
    if (!tg_json_take(j, '{')) {
        return tg_json_expected(j, "'{'");
    }
    while (!tg_json_take(j, '}')) {
        if (!has_comma) {
            return tg_json_expected(j, "',' or '}'");
        }
        if (!parse_item(j, array, found)) {
            return false;
        }
        has_comma = tg_json_take(j, ',');
    }
    if (!found[0] || !found[1] || !found[2]) {
        return tg_json_fail(j, 0, "the header has no %s", !found[0] ? "descr" : !found[1] ? "fortran_order" : "shape");
    }
    return tg_json_end(j);
}

/* ---- the file ---- */

static bool fail(const tg_file *file, uint64_t at, const char *text, tg_error *error)
{
    return tg_error_set_at(error, -1, (int64_t)at, "%s: '%s', byte %llu: %s", file->call, file->path,
                           (unsigned long long)at, text);
}

/* Finds the header's first byte and its length. */
static bool find_header(const tg_file *file, uint64_t begin, uint64_t end, uint64_t *at, uint64_t *length,
                        tg_error *error)
{
    unsigned char bytes[12];
    size_t count = end - begin < sizeof bytes ? (size_t)(end - begin) : sizeof bytes;
    if (!tg_file_read(file, begin, bytes, count, error)) {
        return false;
    }
    if (count < 6 || memcmp(bytes, "\x93NUMPY", 6) != 0) {
        return fail(file, begin, "this is not an NPY file: it does not begin with \\x93NUMPY", error);
    }
    if (count < 8 || bytes[6] < 1 || bytes[6] > 3 || bytes[7] != 0) {
        return fail(file, begin + 6, "an unknown version; it must be 1.0, 2.0 or 3.0", error);
    }
    size_t width = bytes[6] == 1 ? 2 : 4;
    if (count < 8 + width) {
        return fail(file, begin + 8, "the file ends in the length of its header", error);
    }
    *length = tg_number_of_bytes(bytes + 8, (int)width);
    *at = begin + 8 + width;
    if (*length > end - *at) {
        return fail(file, begin + 8, "the header is longer than the file", error);
    }
    return *length <= MOST_HEADER || fail(file, begin + 8, "a header of more than 65536 bytes", error);
}

bool tg_npy_parse(const tg_file *file, uint64_t begin, uint64_t end, const char *name, tg_array *array, tg_error *error)
{
    uint64_t at = 0, length = 0;
    *array = (tg_array){.file = file, .name = name};
    if (!find_header(file, begin, end, &at, &length, error)) {
        return false;
    }
    char *text = tg_alloc((size_t)length + 1, 1);
    if (!text) {
        return tg_error_set(error, TG_ERROR_MEMORY, "%s: '%s': out of memory", file->call, file->path);
    }
    tg_json j = {
        .call = file->call, .path = file->path, .text = text, .length = (size_t)length, .offset = at, .error = error};
    bool is_parsed = tg_file_read(file, at, text, (size_t)length, error) && parse_header(&j, array);
    tg_free(text);
    if (!is_parsed) {
        return false;
    }
    uint64_t bytes, found = end - at - length, size = (uint64_t)tg_stored_bits(array->dtype) / 8;
    if (__builtin_mul_overflow((uint64_t)tg_shape_count(array->shape), size, &bytes) || bytes != found) {
        return tg_error_set_at(error, -1, (int64_t)(at + length),
                               "%s: '%s', byte %llu: %llu bytes of values; the shape %s has values of %llu bytes each",
                               file->call, file->path, (unsigned long long)(at + length), (unsigned long long)found,
                               tg_shape_text(array->shape).text, (unsigned long long)size);
    }
    array->offset = at + length;
    return true;
}

tg_tensor *tg_tensor_new_from_npy(const char *path, tg_error *error)
{
    tg_file file;
    tg_array array;
    if (!tg_file_open(&file, "tensor_new_from_npy", path, error)) {
        return NULL;
    }
    tg_tensor *x = tg_npy_parse(&file, 0, file.size, "array", &array, error) ? tg_array_read_new(&array, error) : NULL;
    tg_file_close(&file);
    return x;
}

/* ---- writing ---- */

/* Writes the header of numpy.save to `text`, and returns its length. */
static size_t format_header(const tg_tensor *x, char text[512])
{
    static const char *const dtypes[] = {"<f4", "<f8", "<i4", "|u1"};
    static const char first[] = "\x93NUMPY\x01\x00\x00\x00";
    size_t used = sizeof first - 1;
    memcpy(text, first, used);
    used += (size_t)snprintf(text + used, 512 - used, "{'descr': '%s', 'fortran_order': False, 'shape': (",
                             dtypes[x->dtype]);
    for (int axis = 0; axis < x->rank; axis++) {
        used += (size_t)snprintf(text + used, 512 - used, axis ? ", %lld" : "%lld", (long long)x->shape[axis]);
    }
    used += (size_t)snprintf(text + used, 512 - used, x->rank == 1 ? ",), }" : "), }");
    /* numpy leaves 21 characters for a larger first size */
    int digits = x->rank ? snprintf(NULL, 0, "%lld", (long long)x->shape[0]) : 21;
    used += (size_t)snprintf(text + used, 512 - used, "%*s", 21 - digits, "");
    size_t spaces = 64 - (used + 1) % 64;
    memset(text + used, ' ', spaces);
    used += spaces;
    text[used++] = '\n';
    tg_number_to_bytes(used - 10, text + 8, 2);
    return used;
}

bool tg_tensor_save_npy(const tg_tensor *x, const char *path, tg_error *error)
{
    char text[512];
    tg_file_writer writer;
    if (!tg_tensor_check("tensor_save_npy", "tensor", x, error)) {
        return false;
    }
    if (x->dtype == TG_BF16) {
        return tg_error_set(error, TG_ERROR_DTYPE,
                            "tensor_save_npy: the tensor is bf16, which NumPy does not have (tg_tensor_new_cast)");
    }
    if (!tg_file_writer_begin(&writer, "tensor_save_npy", path, error)) {
        return false;
    }
    if (!tg_file_writer_write(&writer, text, format_header(x, text), error) ||
        !tg_array_write(&writer, x, tg_stored_of(tg_dtype_of(x), TG_SAVE_FLOATS_KEEP), error)) {
        tg_file_writer_abandon(&writer);
        return false;
    }
    return tg_file_writer_commit(&writer, error);
}
