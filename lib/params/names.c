/* params: the names of the entries, one behind the other in blocks that never move. Names that lie between the tensors
 * would each be on a page of their own: with 100,000 entries, finding one would take most of its time to look up the
 * page.
 */
#include <string.h>

#include "base/alloc.h"
#include "params/list.h"

#define FIRST_BLOCK ((size_t)256) /* room for the longest name */
#define LARGEST_BLOCK ((size_t)1 << 20)

/* Returns the last block if it has room, or a new one, twice as large; NULL when memory is exhausted. */
static tg_names *block_with_room(tg_names *last, size_t bytes)
{
    if (last && last->size - last->used >= bytes) {
        return last;
    }
    size_t size = last ? 2 * last->size : FIRST_BLOCK;
    size = size < LARGEST_BLOCK ? size : LARGEST_BLOCK;
    tg_names *block = tg_alloc(sizeof *block + size, 1);
    if (block) {
        *block = (tg_names){.before = last, .size = size};
    }
    return block;
}

const char *tg_params_add_name(tg_params *params, const char *name)
{
    size_t bytes = strlen(name) + 1;
    tg_names *block = block_with_room(params->names, bytes);
    if (!block) {
        return NULL;
    }
    params->names = block;
    char *copy = block->text + block->used;
    block->used += bytes;
    return memcpy(copy, name, bytes);
}

static void free_last(tg_params *params)
{
    tg_names *last = params->names;
    params->names = last->before;
    tg_free(last);
}

void tg_params_remove_last_name(tg_params *params)
{
    const char *name = params->entries[params->count - 1].entry.name;
    const size_t bytes = strlen(name) + 1;
    tg_names *last = params->names;
    if (name + bytes != last->text + last->used) {
        return; /* the names of entries that were removed are behind it */
    }
    last->used -= bytes;
    if (last->used == 0) {
        free_last(params);
    }
}

void tg_params_free_names(tg_params *params)
{
    while (params->names) {
        free_last(params);
    }
}
