/* safetensors: the list of a file's tensors. One block holds the list, its items and their names. */
#include <string.h>

#include "base/alloc.h"
#include "files/safetensors.h"

static const char call[] = "safetensors_list_new";

typedef struct block {
    tg_safetensors_list list;
    tg_safetensors_item items[];
} block;

/* Copies the names of the `count` tensors to `names`. */
static void fill(block *b, const tg_safetensors *file, int64_t count, char *names)
{
    for (int64_t i = 0; i < count; i++) {
        const tg_array *array = tg_safetensors_at(file, i);
        size_t length = strlen(array->name) + 1;
        b->items[i] = (tg_safetensors_item){names, tg_stored_name(array->dtype), array->shape};
        memcpy(names, array->name, length);
        names += length;
    }
    b->list = (tg_safetensors_list){b->items, count};
}

tg_safetensors_list *tg_safetensors_list_new(const char *path, tg_error *error)
{
    tg_safetensors *file = tg_safetensors_open(call, path, TG_SAFETENSORS_HEADER, error);
    if (!file) {
        return NULL;
    }
    int64_t count = tg_safetensors_count(file);
    /* a name in the header takes a byte for each of its bytes at least, so the sum cannot overflow */
    size_t items = sizeof(block) + (size_t)count * sizeof(tg_safetensors_item), names = 0;
    for (int64_t i = 0; i < count; i++) {
        names += strlen(tg_safetensors_at(file, i)->name) + 1;
    }
    block *b = tg_alloc(items + names, 1);
    if (b) {
        fill(b, file, count, (char *)b + items);
    } else {
        tg_error_set(error, TG_ERROR_MEMORY, "%s: '%s': out of memory", call, path);
    }
    tg_safetensors_close(file);
    return b ? &b->list : NULL;
}

void tg_safetensors_list_free(tg_safetensors_list *list)
{
    /* the list is the first member of its block */
    tg_free(list);
}
