/* checkpoint_folder: the checkpoints of one run.
 *
 *   step-00000100.safetensors    one checkpoint, complete as soon as it has this name (base/file.h)
 *   last                         the names of the last checkpoints in the order of writing, one per line
 *   best                         the name of the best checkpoint and a newline
 *   lock                         empty; its owner holds its lock (tg_system_lock)
 *
 * The steps are not the order of writing: a run may go back to an earlier step, or start again in its folder. So the
 * order of writing has a file of its own, and "last" decides what is kept. A save writes the checkpoint, then
 * "best", then "last", and then removes what neither names. A run may be killed at any moment: it leaves complete
 * checkpoints, perhaps one too many, and perhaps a temporary file, which the next run removes.
 *
 * Of several writers, writer 0 does all this, and all have its errors. Together they write only the checkpoint.
 *
 * A lock belongs to the open file, which a forked child shares: the lock would last until the child ends, too. So the
 * owner unlocks before it closes. A child cannot unlock, nor save: it has not opened the folder.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tapegrad/extend.h>

#include "base/alloc.h"
#include "base/text.h"
#include "files/checkpoint.h"
#include "files/checkpoint_group.h"
#include "files/checkpoint_names.h"
#include "system/system.h"

static const char mark[] = "tg_checkpoint_folder_config_default";
static const char open_call[] = "checkpoint_folder_open";

struct tg_checkpoint_folder {
    int64_t keep;
    const tg_checkpoint_group *group;
    int64_t owner; /* the number of who opened it */
    int lock;      /* the descriptor that holds the lock; -1 in writers 1, 2, ... */
    char path[];
};

tg_checkpoint_folder_config tg_checkpoint_folder_config_default(void)
{
    return (tg_checkpoint_folder_config){.mark = mark, .keep = 3};
}

char *tg_checkpoint_find(const char *folder, tg_checkpoint_choice choice, tg_error *error)
{
    static const char call[] = "checkpoint_find";
    if (!folder) {
        tg_error_set(error, TG_ERROR_STATE, "%s: the folder is NULL", call);
        return NULL;
    }
    if ((unsigned)choice > TG_CHECKPOINT_BEST) {
        tg_error_set(error, TG_ERROR_VALUE, "%s: choice %d does not exist", call, (int)choice);
        return NULL;
    }
    int64_t step = -1;
    if (choice == TG_CHECKPOINT_BEST && !tg_best_read(call, folder, &step, error)) {
        return NULL;
    }
    if (step < 0) {
        tg_steps written;
        if (!tg_steps_read(call, folder, &written, error)) {
            return NULL;
        }
        step = written.count ? written.steps[written.count - 1] : -1;
        tg_steps_free(&written);
    }
    if (step < 0) {
        tg_error_set(error, TG_ERROR_FILE, "%s: '%.*s' has no checkpoint", call, TG_CUT(folder, 200));
        return NULL;
    }
    char name[TG_STEP_NAME];
    tg_step_to_name(step, name);
    char *path = tg_path_in_folder(call, folder, name, error);
    if (path && choice == TG_CHECKPOINT_BEST && tg_system_status(path).kind == TG_PATH_NONE) {
        tg_error_set(error, TG_ERROR_FILE, "%s: the best checkpoint, '%s': %s", call, path, strerror(errno));
        tg_free(path);
        return NULL;
    }
    return path;
}

/* A file that cannot be removed stays, here and after a save: it only takes space. */
static void remove_leftover(void *context, const char *name)
{
    if (strncmp(name, ".tapegrad-", 10) == 0 && tg_ends_with(name, ".tmp")) {
        tg_name_remove(open_call, context, name, NULL);
    }
}

/* ---- the folder ---- */

/* Creates the lock's file and locks it. */
static bool lock(tg_checkpoint_folder *folder, tg_error *error)
{
    char *path = tg_path_in_folder(open_call, folder->path, "lock", error);
    if (!path) {
        return false;
    }
    folder->lock = tg_system_open(path, TG_OPEN_LOCK);
    bool is_open =
        folder->lock >= 0 || tg_error_set(error, TG_ERROR_FILE, "%s: open '%s': %s", open_call, path, strerror(errno));
    tg_free(path);
    if (!is_open || tg_system_lock(folder->lock)) {
        return is_open;
    }
    return errno == EWOULDBLOCK
               ? tg_error_set(error, TG_ERROR_STATE, "%s: another run writes to '%s'", open_call, folder->path)
               : tg_error_set(error, TG_ERROR_FILE, "%s: lock '%s': %s", open_call, folder->path, strerror(errno));
}

/* Creates the folder, locks it, and removes what a killed run left. */
static bool prepare(tg_checkpoint_folder *folder, tg_error *error)
{
    bool exists = tg_system_make_folder(folder->path) || errno == EEXIST ||
                  tg_error_set(error, TG_ERROR_FILE, "%s: create '%s': %s", open_call, folder->path, strerror(errno));
    return exists && lock(folder, error) &&
           tg_folder_visit(open_call, folder->path, remove_leftover, folder->path, error);
}

tg_checkpoint_folder *tg_checkpoint_folder_open(const char *path, const tg_checkpoint_folder_config *given,
                                                tg_error *error)
{
    if (!tg_config_check(open_call, given, mark, error)) {
        return NULL;
    }
    tg_checkpoint_folder_config config = given ? *given : tg_checkpoint_folder_config_default();
    if (!tg_group_check(open_call, config.group, error)) {
        return NULL;
    }
    tg_error local = TG_NO_ERROR;
    tg_checkpoint_folder *folder = path ? tg_alloc(1, sizeof *folder + strlen(path) + 1) : NULL;
    if (!path) {
        tg_error_set(&local, TG_ERROR_STATE, "%s: the path is NULL", open_call);
    } else if (config.keep < 1 || config.keep > TG_MOST_STEPS) {
        tg_error_set(&local, TG_ERROR_VALUE, "%s: keep %lld; it must be 1 to %d", open_call, (long long)config.keep,
                     TG_MOST_STEPS);
    } else if (!folder) {
        tg_error_set(&local, TG_ERROR_MEMORY, "%s: out of memory", open_call);
    }
    if (folder) {
        *folder =
            (tg_checkpoint_folder){.keep = config.keep, .group = config.group, .owner = tg_system_pid(), .lock = -1};
        memcpy(folder->path, path, strlen(path) + 1);
    }
    bool is_ready = tg_group_agree(config.group, &local, error);
    if (is_ready && tg_group_index(config.group) == 0) {
        prepare(folder, &local);
    }
    if (!is_ready || !tg_group_agree(config.group, &local, error)) {
        tg_checkpoint_folder_free(folder);
        return NULL;
    }
    return folder;
}

void tg_checkpoint_folder_free(tg_checkpoint_folder *folder)
{
    if (folder) {
        if (folder->lock >= 0) {
            if (folder->owner == tg_system_pid()) {
                tg_system_unlock(folder->lock);
            }
            tg_system_close(folder->lock);
        }
        tg_free(folder);
    }
}

/* Sets an error unless the folder can be written to. */
static bool check_folder(const char *call, const tg_checkpoint_folder *folder, tg_error *error)
{
    if (!folder) {
        return tg_error_set(error, TG_ERROR_STATE, "%s: the folder is NULL", call);
    }
    return folder->owner == tg_system_pid() ||
           tg_error_set(error, TG_ERROR_STATE, "%s: pid %lld opened '%.*s'; a fork of it cannot write to the folder",
                        call, (long long)folder->owner, TG_CUT(folder->path, 200));
}

/* What a folder has after a save. */
typedef struct contents {
    tg_steps written; /* in the order of writing */
    size_t kept;      /* the last ones of them that stay */
    int64_t best;     /* stays, too; -1: none */
    bool best_changes;
} contents;

/* Reads what the folder has, and decides what stays after step `step` is written. */
static bool decide(const char *call, const tg_checkpoint_folder *folder, int64_t step, bool is_best, contents *c,
                   tg_error *error)
{
    tg_steps *written = &c->written;
    if (!tg_best_read(call, folder->path, &c->best, error) || !tg_steps_read(call, folder->path, written, error)) {
        return false;
    }
    /* a checkpoint that is replaced by one that is not the best does not stay the best */
    c->best_changes = is_best || c->best == step;
    c->best = is_best ? step : c->best_changes ? -1 : c->best;
    bool is_listed = tg_steps_move_to_end(written, step) || tg_steps_add(call, written, step, error);
    c->kept = written->count < (size_t)folder->keep ? written->count : (size_t)folder->keep;
    return is_listed;
}

static bool check_step(const char *call, int64_t step, tg_error *error)
{
    return (step >= 0 && step <= TG_MOST_STEPS) ||
           tg_error_set(error, TG_ERROR_RANGE, "%s: step %lld is outside [0,%d]", call, (long long)step, TG_MOST_STEPS);
}

bool tg_checkpoint_folder_save(tg_checkpoint_folder *folder, int64_t step, bool is_best,
                               const tg_checkpoint_part *parts, int64_t count, tg_error *error)
{
    static const char call[] = "checkpoint_folder_save";
    if (!folder) {
        return check_folder(call, folder, error);
    }
    tg_error local = TG_NO_ERROR;
    char name[TG_STEP_NAME], *path = NULL;
    contents c = {.kept = 0};
    bool decides = tg_group_index(folder->group) == 0;
    if (check_folder(call, folder, &local) && check_step(call, step, &local) &&
        (!decides || decide(call, folder, step, is_best, &c, &local))) {
        tg_step_to_name(step, name);
        path = tg_path_in_folder(call, folder->path, name, &local);
    }
    bool is_saved = tg_group_agree(folder->group, &local, error) &&
                    tg_checkpoint_save_together(path, parts, count, folder->group, error);
    tg_free(path);
    if (is_saved && decides && (!c.best_changes || tg_best_write(call, folder->path, c.best, &local)) &&
        tg_steps_write(call, folder->path, &c.written, c.kept, &local)) {
        for (size_t i = 0; i < c.written.count - c.kept; i++) {
            if (c.written.steps[i] != c.best) {
                tg_step_to_name(c.written.steps[i], name);
                tg_name_remove(call, folder->path, name, NULL);
            }
        }
    }
    tg_steps_free(&c.written);
    return is_saved && tg_group_agree(folder->group, &local, error);
}

static const char clear_call[] = "checkpoint_folder_clear";

/* What remove_checkpoint needs, and its error. */
typedef struct clearing {
    const char *folder;
    tg_error *error;
} clearing;

static void remove_checkpoint(void *context, const char *name)
{
    const clearing *c = context;
    if (tg_step_of_name(name) >= 0) {
        tg_name_remove(clear_call, c->folder, name, c->error);
    }
}

bool tg_checkpoint_folder_clear(tg_checkpoint_folder *folder, tg_error *error)
{
    if (!folder) {
        return check_folder(clear_call, folder, error);
    }
    tg_error local = TG_NO_ERROR;
    /* "best" first, so that it never names a checkpoint that is gone */
    if (check_folder(clear_call, folder, &local) && tg_group_index(folder->group) == 0 &&
        tg_name_remove(clear_call, folder->path, "best", &local) &&
        tg_name_remove(clear_call, folder->path, "last", &local)) {
        clearing c = {folder->path, &local};
        tg_folder_visit(clear_call, folder->path, remove_checkpoint, &c, &local);
    }
    return tg_group_agree(folder->group, &local, error);
}
