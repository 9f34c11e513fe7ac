/* checkpoint_values: numbers, texts and bytes as parts of a checkpoint. */
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "files/checkpoint.h"

/* ---- numbers ---- */

static bool add_integer(tg_safetensors_writer *writer, const tg_checkpoint_part *part, tg_error *error)
{
    return tg_saving_add_integer(writer, "", part->name, *part->integer, error);
}

static bool prepare_integer(tg_loading *loading, const tg_checkpoint_part *part, tg_error *error)
{
    int64_t *value = tg_loading_replace(loading, part, part->integer, sizeof *value, error);
    return value && tg_loading_read_integer(loading, "", part->name, value, error);
}

static const tg_part_kind integer_kind = {.object = "integer", .add = add_integer, .prepare = prepare_integer};

tg_checkpoint_part tg_checkpoint_integer(const char *name, int64_t *integer)
{
    return (tg_checkpoint_part){.name = name, .kind = &integer_kind, .integer = integer};
}

static bool add_number(tg_safetensors_writer *writer, const tg_checkpoint_part *part, tg_error *error)
{
    return tg_saving_add(writer, "", part->name, TG_F64, TG_SCALAR, part->number, error);
}

static bool prepare_number(tg_loading *loading, const tg_checkpoint_part *part, tg_error *error)
{
    double *value = tg_loading_replace(loading, part, part->number, sizeof *value, error);
    return value && tg_loading_read(loading, "", part->name, TG_F64, TG_SCALAR, value, error);
}

static const tg_part_kind number_kind = {.object = "number", .add = add_number, .prepare = prepare_number};

tg_checkpoint_part tg_checkpoint_number(const char *name, double *number)
{
    return (tg_checkpoint_part){.name = name, .kind = &number_kind, .number = number};
}

static bool add_expected(tg_safetensors_writer *writer, const tg_checkpoint_part *part, tg_error *error)
{
    return tg_saving_add_integer(writer, "", part->name, part->expected, error);
}

static bool compare_integer(tg_loading *loading, const tg_checkpoint_part *part, tg_error *error)
{
    int64_t found;
    return tg_loading_read_integer(loading, "", part->name, &found, error) &&
           (found == part->expected || tg_loading_refuse(loading, error, "'%s' is %lld in the file and %lld here",
                                                         part->name, (long long)found, (long long)part->expected));
}

static const tg_part_kind expected_integer_kind = {.add = add_expected, .prepare = compare_integer};

tg_checkpoint_part tg_checkpoint_expect_integer(const char *name, int64_t expected)
{
    return (tg_checkpoint_part){.name = name, .kind = &expected_integer_kind, .expected = expected};
}

/* ---- texts and bytes ---- */

static bool add_text(tg_safetensors_writer *writer, const tg_checkpoint_part *part, tg_error *error)
{
    return tg_safetensors_add_metadata(writer, "", part->name, part->text, error);
}

static bool compare_text(tg_loading *loading, const tg_checkpoint_part *part, tg_error *error)
{
    const char *text = tg_safetensors_metadata(loading->file, part->name);
    return (text && strcmp(text, part->text) == 0) ||
           tg_loading_refuse(loading, error, "'%s' is \"%.*s\" in the file and \"%.*s\" here", part->name,
                             TG_CUT(text ? text : "(missing)", 60), TG_CUT(part->text, 60));
}

static const tg_part_kind text_kind = {.object = "text", .add = add_text};
static const tg_part_kind expected_text_kind = {.object = "text", .add = add_text, .prepare = compare_text};

tg_checkpoint_part tg_checkpoint_text(const char *name, const char *text)
{
    return (tg_checkpoint_part){.name = name, .kind = &text_kind, .text = text};
}

tg_checkpoint_part tg_checkpoint_expect_text(const char *name, const char *text)
{
    return (tg_checkpoint_part){.name = name, .kind = &expected_text_kind, .text = text};
}

static bool add_bytes(tg_safetensors_writer *writer, const tg_checkpoint_part *part, tg_error *error)
{
    return tg_saving_add(writer, "", part->name, TG_U8, tg_shape_make(1, &part->size), part->bytes, error);
}

static bool compare_bytes(tg_loading *loading, const tg_checkpoint_part *part, tg_error *error)
{
    const tg_array *array = tg_loading_find(loading, "", part->name, TG_U8, tg_shape_make(1, &part->size), error);
    char *found = array ? tg_alloc((size_t)part->size + 1, 1) : NULL;
    if (!found) {
        return tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory for '%.*s'", tg_load_call,
                            TG_CUT(part->name, 100));
    }
    bool is_same = tg_array_read(array, found, TG_U8, error);
    int64_t same = 0;
    while (is_same && same < part->size && found[same] == ((const char *)part->bytes)[same]) {
        same++;
    }
    is_same = is_same && (same == part->size ||
                          tg_loading_refuse(loading, error, "byte %lld of '%s' differs", (long long)same, part->name));
    tg_free(found);
    return is_same;
}

static const tg_part_kind bytes_kind = {.object = "array of bytes", .add = add_bytes};
static const tg_part_kind expected_bytes_kind = {
    .object = "array of bytes", .add = add_bytes, .prepare = compare_bytes};

static tg_checkpoint_part bytes_part(const char *name, const tg_part_kind *kind, const void *bytes, int64_t size)
{
    return (tg_checkpoint_part){.name = name, .kind = kind, .bytes = size == 0 ? "" : bytes, .size = size};
}

tg_checkpoint_part tg_checkpoint_bytes(const char *name, const void *bytes, int64_t size)
{
    return bytes_part(name, &bytes_kind, bytes, size);
}

tg_checkpoint_part tg_checkpoint_expect_bytes(const char *name, const void *bytes, int64_t size)
{
    return bytes_part(name, &expected_bytes_kind, bytes, size);
}
