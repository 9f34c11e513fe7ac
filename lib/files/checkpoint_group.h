/* checkpoint_group (private): the processes that save or load one file together. */
#ifndef TG_FILES_CHECKPOINT_GROUP_H
#define TG_FILES_CHECKPOINT_GROUP_H

#include <tapegrad/checkpoint.h>

/* Checks a config, which may be NULL. */
bool tg_group_check(const char *call, const tg_checkpoint_group_config *config, tg_error *error);

/* Returns true if no process has an error in `local`, and otherwise false on all of them, with the error set. */
bool tg_group_agree(const tg_checkpoint_group_config *group, const tg_error *local, tg_error *error);

/* Copies bytes of process 0 to all. */
bool tg_group_share(const tg_checkpoint_group_config *group, void *bytes, size_t size, tg_error *error);

#endif
