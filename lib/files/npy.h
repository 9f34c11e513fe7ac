/* npy (private): the header of an array in NumPy's format (numpy/lib/_format_impl.py):
 *
 *   6 bytes              \x93NUMPY
 *   2 bytes              the version: 1.0, 2.0 or 3.0
 *   2 or 4 bytes         the length of the header, little-endian; 4 since version 2.0
 *   the header           {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }, then spaces and a newline
 *   the rest             the values
 */
#ifndef TG_FILES_NPY_H
#define TG_FILES_NPY_H

#include "files/array.h"

/* Parses the header of the array in the bytes [begin,end) of a file. `name` is for messages. Unlike NumPy it refuses
 * bytes after the values, a key that is given twice, a dtype without a byte order, and literals that no program writes,
 * such as 0x2 and u'descr'. DTYPE for a dtype that cannot be read. */
bool tg_npy_parse(const tg_file *file, uint64_t begin, uint64_t end, const char *name, tg_array *array,
                  tg_error *error);

#endif
