/* checkpoint_values: numbers, texts and bytes as parts of a checkpoint. */
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "files/checkpoint.h"

/* ---- numbers ---- */

static const void *integer_of(const tg_checkpoint_part *part)
{
    return part->integer;
}

static bool add_integer(tg_saving *saving, const tg_checkpoint_part *part, tg_error *error)
{
    return tg_saving_add_integer(saving, "", part->name, *part->integer, error);
}

static bool prepare_integer(tg_loading *loading, const tg_checkpoint_part *part, tg_prepared *prepared, tg_error *error)
{
    return tg_loading_read_integer(loading, "", part->name, &prepared->integer, error);
}

static void commit_integer(const tg_checkpoint_part *part, tg_prepared *prepared)
{
    *part->integer = prepared->integer;
}

const tg_part_kind tg_integer_part = {
    .name = "integer",
    .object = integer_of,
    .add = add_integer,
    .prepare = prepare_integer,
    .commit = commit_integer,
};

static const void *number_of(const tg_checkpoint_part *part)
{
    return part->number;
}

static bool add_number(tg_saving *saving, const tg_checkpoint_part *part, tg_error *error)
{
    return tg_saving_add(saving, "", part->name, TG_F64, TG_SCALAR, part->number, error);
}

static bool prepare_number(tg_loading *loading, const tg_checkpoint_part *part, tg_prepared *prepared, tg_error *error)
{
    return tg_loading_read(loading, "", part->name, TG_F64, TG_SCALAR, &prepared->number, error);
}

static void commit_number(const tg_checkpoint_part *part, tg_prepared *prepared)
{
    *part->number = prepared->number;
}

const tg_part_kind tg_number_part = {
    .name = "number",
    .object = number_of,
    .add = add_number,
    .prepare = prepare_number,
    .commit = commit_number,
};

/* ---- texts and bytes, which a load compares ---- */

static const void *text_of(const tg_checkpoint_part *part)
{
    return part->text;
}

static bool add_text(tg_saving *saving, const tg_checkpoint_part *part, tg_error *error)
{
    return tg_safetensors_add_metadata(saving->writer, "", part->name, part->text, error);
}

static bool prepare_text(tg_loading *loading, const tg_checkpoint_part *part, tg_prepared *prepared, tg_error *error)
{
    (void)prepared;
    const char *text = tg_safetensors_metadata(loading->file, part->name);
    return (text && strcmp(text, part->text) == 0) ||
           tg_loading_refuse(loading, error, "'%s' is \"%.*s\" in the file and \"%.*s\" here", part->name,
                             TG_CUT(text ? text : "(missing)", 60), TG_CUT(part->text, 60));
}

const tg_part_kind tg_text_part = {
    .name = "text",
    .object = text_of,
    .add = add_text,
    .prepare = prepare_text,
};

static const void *bytes_of(const tg_checkpoint_part *part)
{
    return part->bytes;
}

static bool add_bytes(tg_saving *saving, const tg_checkpoint_part *part, tg_error *error)
{
    return tg_saving_add(saving, "", part->name, TG_U8, tg_shape_make(1, &part->size), part->bytes, error);
}

static bool prepare_bytes(tg_loading *loading, const tg_checkpoint_part *part, tg_prepared *prepared, tg_error *error)
{
    const tg_array *array = tg_loading_find(loading, "", part->name, TG_U8, tg_shape_make(1, &part->size), error);
    if (!array) {
        return false;
    }
    char *found = prepared->memory = tg_alloc((size_t)part->size + 1, 1);
    if (!found) {
        return tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory for '%.*s'", tg_load_call,
                            TG_CUT(part->name, 100));
    }
    if (!tg_safetensors_read(loading->file, array, found, TG_U8, error)) {
        return false;
    }
    int64_t same = 0;
    while (same < part->size && found[same] == ((const char *)part->bytes)[same]) {
        same++;
    }
    return same == part->size ||
           tg_loading_refuse(loading, error, "byte %lld of '%s' differs", (long long)same, part->name);
}

static void release_bytes(const tg_checkpoint_part *part, tg_prepared *prepared)
{
    (void)part;
    tg_free(prepared->memory);
}

const tg_part_kind tg_bytes_part = {
    .name = "bytes",
    .object = bytes_of,
    .add = add_bytes,
    .prepare = prepare_bytes,
    .release = release_bytes,
};
