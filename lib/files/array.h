/* array (private): the values of an array in a file, without gaps, and their conversion to and from a tensor's dtype.
 * Memory: one buffer of fixed size, and a copy of a tensor that is not contiguous while it is written. */
#ifndef TG_FILES_ARRAY_H
#define TG_FILES_ARRAY_H

#include <tapegrad/io.h>

#include "base/file.h"
#include "tensor/tensor.h"

/* The dtypes of arrays in files: those of safetensors, in its order of alignment. */
typedef enum tg_stored {
    TG_STORED_BOOL,
    TG_STORED_F4,
    TG_STORED_F6_E2M3,
    TG_STORED_F6_E3M2,
    TG_STORED_U8,
    TG_STORED_I8,
    TG_STORED_F8_E5M2,
    TG_STORED_F8_E4M3,
    TG_STORED_F8_E8M0,
    TG_STORED_F8_E4M3FNUZ,
    TG_STORED_F8_E5M2FNUZ,
    TG_STORED_I16,
    TG_STORED_U16,
    TG_STORED_F16,
    TG_STORED_BF16,
    TG_STORED_I32,
    TG_STORED_U32,
    TG_STORED_F32,
    TG_STORED_C64,
    TG_STORED_F64,
    TG_STORED_I64,
    TG_STORED_U64,
    TG_STORED_COUNT
} tg_stored;

/* Returns the name, such as "BF16", and the bits per value. */
const char *tg_stored_name(tg_stored stored);
int tg_stored_bits(tg_stored stored);

/* Returns the dtype with this name, or TG_STORED_COUNT. */
tg_stored tg_stored_from_name(const char *name);

/* Returns the dtype in which a tensor is stored. */
tg_stored tg_stored_of(tg_dtype dtype, tg_save_floats floats);

/* Finds the dtype of the tensor to which stored values are read. Returns false for a dtype that cannot be read. */
bool tg_stored_dtype(tg_stored stored, tg_dtype *dtype);

/* Returns whether stored values can be read into a tensor of this dtype: without loss (integers into i32: if they fit),
 * or, with `convert_floats`, from any float into another. */
bool tg_stored_fits(tg_stored stored, tg_dtype dtype, bool convert_floats);

/* Returns whether the caller of a save may choose this dtype in the file for a tensor's values. */
bool tg_stored_holds(tg_stored stored, tg_dtype dtype);

/* An array in a file. */
typedef struct tg_array {
    const char *name; /* for messages */
    const tg_file *file;
    tg_stored dtype;
    bool is_big_endian;
    bool is_fortran; /* whether the first axis varies fastest in the file */
    uint64_t offset; /* of the first value, in bytes */
    tg_shape shape;
} tg_array;

/* Reads the array, in the order of the file, into memory for values of `dtype`, which tg_stored_fits accepts. RANGE,
 * with the index, for an integer that does not fit. */
bool tg_array_read(const tg_array *array, void *out, tg_dtype dtype, tg_error *error);

/* Reads `own` rows of an array, those of a shard. All rows if the table is not sharded. */
bool tg_array_read_rows(const tg_array *array, tg_shard shard, int64_t own, void *out, tg_dtype dtype, tg_error *error);

/* Reads the array into a new tensor of its own dtype; yours. DTYPE for a dtype that cannot be read. */
tg_tensor *tg_array_read_new(const tg_array *array, tg_error *error);

/* Writes x's values, little-endian. `stored` comes from tg_stored_of. */
bool tg_array_write(tg_file_writer *writer, const tg_tensor *x, tg_stored stored, tg_error *error);

/* Parses the header of an array in NumPy's format (npy.c) in the bytes [begin,end) of a file. `name` is for messages.
 * Unlike NumPy it refuses bytes after the values, a key that is given twice, a dtype without a byte order, and literals
 * that no program writes, such as 0x2 and u'descr'. DTYPE for a dtype that cannot be read. */
bool tg_npy_parse(const tg_file *file, uint64_t begin, uint64_t end, const char *name, tg_array *array,
                  tg_error *error);

#endif
