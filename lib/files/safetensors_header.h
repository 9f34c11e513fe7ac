/* safetensors_header (private): parses the header of one safetensors file. */
#ifndef TG_FILES_SAFETENSORS_HEADER_H
#define TG_FILES_SAFETENSORS_HEADER_H

#include <tapegrad/extend.h>

#include "files/array.h"

/* A tensor of a file. `array` is the first member, so that a pointer to it is one to the entry. */
typedef struct tg_safetensors_entry {
    tg_array array;
    uint64_t bytes;
    int32_t part; /* the index of its file */
} tg_safetensors_entry;

typedef struct tg_metadata_list {
    tg_metadata *pairs;
    size_t count, capacity;
} tg_metadata_list;

typedef struct tg_entry_list {
    tg_safetensors_entry *entries;
    size_t count, capacity;
} tg_entry_list;

/* Sorts structs of `size` bytes, whose first member is a name. Returns the index of the first one that has the name of
 * the one before it, and 0 if all names differ. Equal names of one text are in its order. */
size_t tg_sort_by_name(void *structs, size_t count, size_t size);

/* Finds the one with the name prefix + name in structs that are sorted so, or NULL. */
const void *tg_find_by_name(const void *structs, size_t count, size_t size, const char *prefix, const char *name);

/* Parses the header, and adds its tensors to `list`, in the order of their offsets. Names and metadata are in the text
 * of `j`, which must stay. `data_bytes` is the length of the file after the header. Checks every rule of the format. */
bool tg_safetensors_parse(tg_json *j, uint64_t data_bytes, int32_t part, tg_entry_list *list,
                          tg_metadata_list *metadata);

#endif
