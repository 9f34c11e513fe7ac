/* io: saves and loads what was trained, in formats that other programs read.
 *
 *   - safetensors, the format of Hugging Face's models: all tensors of a model under their names. Python reads and
 *     writes it with safetensors.torch.
 *   - NPY and NPZ, NumPy's formats: one array, and an archive of arrays.
 *
 * Writing replaces a whole file: the new file is written beside the old one, flushed to the disk and then renamed. So
 * after a failure or a crash the path has either the old file or the new one. An existing file keeps its mode, the
 * umask sets the mode of a new one, and a symbolic link is followed. FILE if the path is a folder, a pipe or a device.
 *
 * Reading trusts nothing: each number of a file is checked before it is used, and no file needs much more memory than
 * its size. FORMAT for a file that breaks a rule of its format; the message has the byte's position in the file.
 *
 * All calls report FILE if the system refuses a file, and MEMORY, in addition to the errors that their comments name.
 */
#ifndef TAPEGRAD_IO_H
#define TAPEGRAD_IO_H

#include <tapegrad/params.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- saving a model ---------------------------------------------------------------------------------------------- */

/* How f32 and f64 values are written. Those of bf16 are written as BF16. */
typedef enum tg_save_floats {
    /* unchanged */
    TG_SAVE_FLOATS_KEEP,
    /* as 16-bit floats, rounded to nearest, ties to even: x.half() and x.bfloat16(). A value that is too large becomes
     * an infinity. */
    TG_SAVE_FLOATS_F16,
    TG_SAVE_FLOATS_BF16
} tg_save_floats;

/* One text of a file's metadata. */
typedef struct tg_metadata {
    const char *key, *value;
} tg_metadata;

typedef struct tg_params_save_config {
    /* private: tg_params_save_config_default() sets it */
    tg_config_mark mark;
    /* default TG_SAVE_FLOATS_KEEP */
    tg_save_floats floats;
    /* a prefix of each name in the file, such as "model."; NULL is "". Default NULL */
    const char *prefix;
    /* texts for the file's metadata, and their number; both are set or neither; default NULL and 0 */
    const tg_metadata *metadata;
    int64_t metadata_count;
} tg_params_save_config;

TG_API tg_params_save_config tg_params_save_config_default(void);

/* Writes all parameters and buffers to a safetensors file: safetensors.torch.save_model(model, path). An alias is
 * written once, under its first name, and the metadata has "alias": "first name" as in save_model. The metadata also
 * has "format": "pt", which transformers expects, unless yours has another "format". The file has the layout that the
 * reference implementation writes.
 *
 * VALUE for names, keys or texts that are not UTF-8, and for an invalid option; STATE for a shard (tapegrad/rows.h). */
TG_API bool tg_params_save(const tg_params *params, const char *path, const tg_params_save_config *config,
                           tg_error *error);

/* Metadata keeps what a model needs, such as the names of its classes, its vocabulary or its configuration, in the same
 * file. tg_checkpoint_read_text (tapegrad/checkpoint.h) returns a text by its key, for example before the model is
 * created:
 *
 * ```c
 * const tg_metadata texts[] = {{"labels", "cat\ndog\nbird"}, {"width", "64"}};
 * tg_params_save_config config = tg_params_save_config_default();
 * config.metadata = texts;
 * config.metadata_count = 2;
 * tg_params_save(params, "animals.safetensors", &config, &error);
 * char *labels = tg_checkpoint_read_text("animals.safetensors", "labels", &error);
 * puts(labels);
 * tg_text_free(labels);
 * ```
 */

/* Returns the bytes of such a file, and writes their number to *size. Yours to free with tg_text_free; a NUL comes
 * after the last byte. A program can keep its best parameters in memory this way:
 *
 *     if (loss < best) {
 *         best = loss;
 *         tg_text_free(snapshot);
 *         snapshot = tg_params_save_bytes(params, &size, NULL, &error);
 *     }
 *
 * and tg_params_load_bytes(params, snapshot, size, NULL, &error) restores them all. NULL after an error. */
TG_API char *tg_params_save_bytes(const tg_params *params, int64_t *size, const tg_params_save_config *config,
                                  tg_error *error);

/* ---- loading a model --------------------------------------------------------------------------------------------- */

/* The size of a report's text in bytes, its NUL included. */
#define TG_LOAD_REPORT_TEXT 4000

/* What a load found, as in the result of torch's load_state_dict. */
typedef struct tg_load_report {
    /* the number of parameters and buffers that are in the file and fit */
    int64_t loaded;
    /* the number of parameters and buffers that the file does not have, and of tensors in the file that the params do
     * not have */
    int64_t missing, unexpected;
    /* the number of those that have another shape or dtype in the file */
    int64_t mismatched;
    /* one line for each name of the last three kinds: "missing: head.bias", "unexpected: h.0.attn.mask", and
     * "mismatched: tok_emb.weight is F32 (10,4) in the file and f32 (12,4) here"; cut if it is too long. Names are
     * escaped as in a tg_error. */
    char text[TG_LOAD_REPORT_TEXT];
} tg_load_report;

typedef struct tg_params_load_config {
    /* private: tg_params_load_config_default() sets it */
    tg_config_mark mark;
    /* whether a missing or an unexpected name is an error; default true */
    bool strict;
    /* whether f32 and f64 are converted into each other; default false */
    bool convert_floats;
    /* whether a table may have more rows than in the file: its first rows are loaded, and the others keep their values.
     * Not for shards. Default false */
    bool grown_rows;
    /* whether the frozen matrices of the params, which the file has as BF16, become tensors of bf16: they then take 2
     * bytes per value, and cannot be trained again. Matrices are parameters of rank 2 (tg_params_set_frozen freezes
     * them). Default false */
    bool keep_bf16;
    /* a prefix of each name in the file, such as "model."; names without it are ignored. NULL is "". Default NULL */
    const char *prefix;
    /* the size in bytes of the largest header that is read, 1 to 100000000; default 16777216 */
    int64_t max_header;
    /* receives what the load found, also after an error; zeros if the file is invalid. Default NULL */
    tg_load_report *report;
} tg_params_load_config;

TG_API tg_params_load_config tg_params_load_config_default(void);

/* Reads all parameters and buffers from a safetensors file: safetensors.torch.load_model(model, path). A path that ends
 * in ".index.json" is a model in several files, which are in the same folder. A tied tensor needs only one of its names
 * in the file. If the file has several, the first name in the params decides.
 *
 * F16 and BF16 are converted to f32. f64 reads them, and F32, only with convert_floats; and bf16 reads F16, F32 and F64
 * so. i32 reads all integers but U8,
 * if their values fit.
 *
 * All or nothing: after an error no parameter has changed. The values are read into new memory, so addresses from
 * tg_tensor_data are invalid after a load that succeeded; tensors, gradients, optimizers and frozen rows remain. A
 * backward that needs the values from before the load reports STATE.
 *
 * FORMAT for an invalid file. VALUE for missing and unexpected tensors, unless `strict` is false. SHAPE and DTYPE for
 * other shapes and dtypes, whatever `strict` is. These errors list the names. STATE if the params have an error, and
 * for keep_bf16 if another tensor shares the values of a matrix. */
TG_API bool tg_params_load(tg_params *params, const char *path, const tg_params_load_config *config, tg_error *error);

/* The same from the bytes of one file. VALUE for a negative size. */
TG_API bool tg_params_load_bytes(tg_params *params, const char *bytes, int64_t size,
                                 const tg_params_load_config *config, tg_error *error);

/* ---- the tensors of a file --------------------------------------------------------------------------------------- */

/* One tensor of a safetensors file. */
typedef struct tg_safetensors_item {
    const char *name;
    /* the format's name of the dtype, such as "F32" or "BF16"; tapegrad cannot read all of them */
    const char *dtype;
    tg_shape shape;
} tg_safetensors_item;

/* The tensors of a file, in the order of their names (strcmp). */
typedef struct tg_safetensors_list {
    const tg_safetensors_item *items;
    int64_t count;
} tg_safetensors_list;

/* Returns the names, dtypes and shapes of all tensors of a safetensors file, for example to create the model that it
 * holds. No values are read. Yours to free. A path that ends in ".index.json" is a model in several files, as in
 * tg_params_load. NULL after an error: FORMAT for an invalid file, and for a header of more than 16777216 bytes. */
TG_API tg_safetensors_list *tg_safetensors_list_new(const char *path, tg_error *error);
TG_API void tg_safetensors_list_free(tg_safetensors_list *list);

/* One tensor of a list to save. */
typedef struct tg_named_tensor {
    const char *name;
    const tg_tensor *tensor;
    /* the dtype in the file: "F16" or "BF16" for f32, rounded to nearest, ties to even; "I64" for i32; "BOOL" for u8,
     * where every value except 0 becomes 1. NULL is the dtype of the tensor. */
    const char *dtype;
} tg_named_tensor;

/* Writes a list of tensors to a safetensors file:
 * safetensors.torch.save_file(tensors, path, metadata={"format": "pt"}). The tensors may be views, and `count` may be
 * 0. tg_tensor_new_from_safetensors reads one of them, and tg_safetensors_list_new their names.
 *
 * ```c
 * const tg_named_tensor tensors[] = {{.name = "x", .tensor = x}, {.name = "ids", .tensor = ids, .dtype = "I64"}};
 * tg_safetensors_save("batch.safetensors", tensors, 2, &error);
 * tg_tensor *again = tg_tensor_new_from_safetensors("batch.safetensors", "x", &error);
 * tg_release(again);
 * ```
 *
 * STATE for a name or a tensor that is NULL. VALUE for a name that is not UTF-8, that another tensor has, or that is
 * "__metadata__", and for a negative count. DTYPE if the tensor cannot be converted to `dtype`. */
TG_API bool tg_safetensors_save(const char *path, const tg_named_tensor *tensors, int64_t count, tg_error *error);

/* ---- one array --------------------------------------------------------------------------------------------------- */
/* The constructors return a contiguous tensor that is yours (tg_release). F16, BF16, F32, f2 and f4 become f32; F64 and
 * f8 become f64; U8, BOOL, u1 and b1 become u8; all other integers, I8 to U64 and i1 to u8, become i32 (RANGE, with the
 * value and its index, for one that does not fit). DTYPE for any other dtype. */

/* Reads the tensor `name` of a safetensors file: safetensors.torch.load_file(path)[name]. RANGE for an unknown name. */
TG_API tg_tensor *tg_tensor_new_from_safetensors(const char *path, const char *name, tg_error *error);

/* Reads an array in NumPy's format, versions 1.0 to 3.0: numpy.load(path). Both byte orders and both memory orders are
 * read, and the long sizes of Python 2, (2L, 3L). Bytes after the values are an error (FORMAT). */
TG_API tg_tensor *tg_tensor_new_from_npy(const char *path, tg_error *error);

/* Reads the array `name` of an archive that numpy.savez has written: numpy.load(path)[name]. FORMAT for a member that
 * is compressed or damaged; RANGE for an unknown name. */
TG_API tg_tensor *tg_tensor_new_from_npz(const char *path, const char *name, tg_error *error);

/* Writes x in NumPy's format, version 1.0, row-major: numpy.save(path, x). */
TG_API bool tg_tensor_save_npy(const tg_tensor *x, const char *path, tg_error *error);

#ifdef __cplusplus
}
#endif

#endif
