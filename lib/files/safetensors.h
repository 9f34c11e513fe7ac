/* safetensors (private): reads and writes named tensors in the format of https://github.com/huggingface/safetensors:
 *
 *   8 bytes        N, the length of the header, little-endian
 *   N bytes        {"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},...}
 *   the rest       the values, row-major and little-endian; data_offsets count from the end of the header
 *
 * A reader accepts what the reference reader accepts, except that it also refuses ranks above 8, equal names, NULs in
 * names, what serde reads and nobody writes (a tensor as a list, a dtype as an object), and headers above a limit that
 * the caller sets. An index needs no metadata, and its files are in its folder. It never maps the file.
 *
 * A writer lays a file out as the reference writer does: larger dtypes first, then by name, without gaps, and a header
 * that spaces fill to a multiple of 8 bytes. So values are aligned.
 */
#ifndef TG_FILES_SAFETENSORS_H
#define TG_FILES_SAFETENSORS_H

#include "files/array.h"
#include "files/checkpoint_group.h"

/* The format's limit for N, and the default of a reader. */
#define TG_SAFETENSORS_MAX_HEADER ((int64_t)100000000)
#define TG_SAFETENSORS_HEADER ((int64_t)16 << 20)

/* ---- reading ---- */

typedef struct tg_safetensors tg_safetensors;

/* Opens a file and reads its header; or, if the path ends in ".index.json", all files of a sharded model. `call` is
 * borrowed, for messages. Only the header is in memory. FORMAT, with the byte's position, for a file that breaks a rule
 * of the format; FILE; MEMORY. */
tg_safetensors *tg_safetensors_open(const char *call, const char *path, int64_t max_header, tg_error *error);
void tg_safetensors_close(tg_safetensors *file);

/* The same for the bytes of a file, which must stay until it is closed. Messages call them 'bytes'. */
tg_safetensors *tg_safetensors_open_bytes(const char *call, const char *bytes, uint64_t size, int64_t max_header,
                                          tg_error *error);

/* Return the number of tensors, and tensor number `index` in the order of the names (strcmp). */
int64_t tg_safetensors_count(const tg_safetensors *file);
const tg_array *tg_safetensors_at(const tg_safetensors *file, int64_t index);

/* Returns the tensor whose name is prefix + name, or NULL. */
const tg_array *tg_safetensors_find(const tg_safetensors *file, const char *prefix, const char *name);

/* Returns the value of a key in the metadata of the first file, or NULL. */
const char *tg_safetensors_metadata(const tg_safetensors *file, const char *key);

/* ---- writing ---- */

/* A list of tensors and metadata that becomes one file. */
typedef struct tg_safetensors_writer tg_safetensors_writer;

tg_safetensors_writer *tg_safetensors_writer_new(const char *call, tg_error *error);
void tg_safetensors_writer_free(tg_safetensors_writer *writer);

/* Adds x under the name prefix + name, or the table of which x is a shard. The writer holds x, and
 * reads its values when the file is written. VALUE for a name that is not UTF-8, or "__metadata__". */
bool tg_safetensors_add(tg_safetensors_writer *writer, const char *prefix, const char *name, const tg_tensor *x,
                        tg_shard shard, tg_save_floats floats, tg_error *error);

/* The same with a dtype in the file that tg_stored_holds x's. */
bool tg_safetensors_add_stored(tg_safetensors_writer *writer, const char *prefix, const char *name, const tg_tensor *x,
                               tg_shard shard, tg_stored stored, tg_error *error);

/* Adds a text to the metadata: the key prefix + key, and the value prefix + value. A key that is added twice keeps its
 * first value. VALUE unless both are UTF-8. */
bool tg_safetensors_add_metadata(tg_safetensors_writer *writer, const char *prefix, const char *key, const char *value,
                                 tg_error *error);

/* Writes the file atomically (base/file.h). VALUE for equal names, and for a header above TG_SAFETENSORS_MAX_HEADER;
 * STATE for a shard. */
bool tg_safetensors_write(tg_safetensors_writer *writer, const char *path, tg_error *error);

/* Returns the bytes of that file, and their number; yours to tg_free. A NUL comes after the last one. */
char *tg_safetensors_write_bytes(tg_safetensors_writer *writer, int64_t *size, tg_error *error);

/* Writes the file together with the other writers of a group. Writer 0 writes the header, the tensors and its rows of
 * sharded tables, and then one writer after the other its rows. VALUE for a writer whose tensors are not those of
 * writer 0. */
bool tg_safetensors_write_together(tg_safetensors_writer *writer, const char *path, const tg_checkpoint_group *group,
                                   tg_error *error);

#endif
