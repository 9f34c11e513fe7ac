/* checkpoint (private): the interface of a kind of part. A load first prepares all parts, which may fail, and then
 * replaces all that is pending, which cannot fail. */
#ifndef TG_FILES_CHECKPOINT_H
#define TG_FILES_CHECKPOINT_H

#include <tapegrad/checkpoint.h>

#include "base/random.h"
#include "data/loader.h"
#include "files/params_file.h"

/* The work of a load. The new values of all parts are in one list. */
typedef struct tg_loading {
    const char *path;
    tg_safetensors *file;
    tg_pending values;
} tg_loading;

typedef struct tg_part_kind {
    /* what must not be NULL, for messages: "tg_params"; NULL for a kind without an object */
    const char *object;
    /* adds the part to a file; false with the error set */
    bool (*add)(tg_safetensors_writer *writer, const tg_checkpoint_part *part, tg_error *error);
    /* reads the part to pending values; false with the error set. NULL: a load skips the part */
    bool (*prepare)(tg_loading *loading, const tg_checkpoint_part *part, tg_error *error);
} tg_part_kind;

/* "checkpoint_save" and "checkpoint_load", for messages */
extern const char tg_save_call[], tg_load_call[];

#define TG_PART_NAME 512

/* Writes the part's name and a text, "model" and "_rows.", to `out`; returns `out`. */
const char *tg_part_name(const tg_checkpoint_part *part, const char *text, char out[TG_PART_NAME]);

/* Adds a new tensor of `dtype` with the values of an array under prefix + name. */
bool tg_saving_add(tg_safetensors_writer *writer, const char *prefix, const char *name, tg_dtype dtype, tg_shape shape,
                   const void *values, tg_error *error);

/* The same for one value or more per row of a table, or of a shard. */
bool tg_saving_add_rows(tg_safetensors_writer *writer, const char *prefix, const char *name, tg_dtype dtype,
                        tg_shape shape, tg_shard shard, const void *values, tg_error *error);

/* Adds an integer to the metadata under prefix + name. */
bool tg_saving_add_integer(tg_safetensors_writer *writer, const char *prefix, const char *name, int64_t value,
                           tg_error *error);

/* Sets VALUE: "checkpoint_load: 'PATH' does not fit: <text>"; returns false. */
bool tg_loading_refuse(const tg_loading *loading, tg_error *error, const char *format, ...) TG_PRINTF_LIKE(3, 4);

/* Returns memory for new bytes of `to`, which replace them after all parts are prepared; NULL with the error set. */
void *tg_loading_replace(tg_loading *loading, const tg_checkpoint_part *part, void *to, size_t bytes, tg_error *error);

/* Finds the array prefix + name, which must have this dtype and shape; NULL with the error set. */
const tg_array *tg_loading_find(const tg_loading *loading, const char *prefix, const char *name, tg_dtype dtype,
                                tg_shape shape, tg_error *error);

/* Reads the rows of a shard of this shape from the array prefix + name. */
bool tg_loading_read_rows(const tg_loading *loading, const char *prefix, const char *name, tg_dtype dtype,
                          tg_shape shape, tg_shard shard, void *out, tg_error *error);

/* Reads the array prefix + name to `out`. */
bool tg_loading_read(const tg_loading *loading, const char *prefix, const char *name, tg_dtype dtype, tg_shape shape,
                     void *out, tg_error *error);

/* Reads an integer from the metadata under prefix + name. */
bool tg_loading_read_integer(const tg_loading *loading, const char *prefix, const char *name, int64_t *value,
                             tg_error *error);

/* Returns whether a number of a file is a count: whole, and from 0 to 2^53, up to which a double is exact. */
bool tg_is_count(double number);

/* Returns the number of tensors in the file whose names begin with the prefix. */
int64_t tg_loading_count(const tg_loading *loading, const char *prefix);

#endif
