/* checkpoint_group (private): the writers that save or load one file together. A group of NULL is a single writer. */
#ifndef TG_FILES_CHECKPOINT_GROUP_H
#define TG_FILES_CHECKPOINT_GROUP_H

#include <tapegrad/checkpoint.h>

bool tg_group_check(const char *call, const tg_checkpoint_group *group, tg_error *error);

static inline int64_t tg_group_count(const tg_checkpoint_group *group)
{
    return group ? group->count : 1;
}

static inline int64_t tg_group_index(const tg_checkpoint_group *group)
{
    return group ? group->index : 0;
}

/* Returns true if no writer has an error in `local`, and otherwise false in all of them, with the error set. */
bool tg_group_agree(const tg_checkpoint_group *group, const tg_error *local, tg_error *error);

/* Copies bytes of writer 0 to all. */
bool tg_group_share(const tg_checkpoint_group *group, void *bytes, size_t size, tg_error *error);

#endif
