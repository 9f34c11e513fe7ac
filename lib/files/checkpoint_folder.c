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
#include "base/file.h"
#include "base/text.h"
#include "files/checkpoint.h"
#include "files/checkpoint_group.h"
#include "system/system.h"

#define MOST_STEPS 99999999

/* "step-00000100.safetensors" and its NUL */
#define STEP_NAME 26

static const char open_call[] = "checkpoint_folder_open";

struct tg_checkpoint_folder {
    int64_t keep;
    const tg_checkpoint_group *group;
    int64_t owner; /* the number of who opened it */
    int lock;      /* the descriptor that holds the lock; -1 in writers 1, 2, ... */
    char path[];
};

TG_CONFIG(tg_checkpoint_folder_config, tg_checkpoint_folder_config_default, mark, .mark = mark, .keep = 3);

/* ---- names ---- */

static void step_to_name(int64_t step, char name[STEP_NAME])
{
    snprintf(name, STEP_NAME, "step-%08d.safetensors", (int)step);
}

/* Returns the step of a checkpoint's file name, or -1. */
static int64_t step_of_name(const char *name)
{
    char expected[STEP_NAME];
    int step;
    if (sscanf(name, "step-%8d", &step) != 1 || step < 0 || step > MOST_STEPS) {
        return -1;
    }
    step_to_name(step, expected);
    return strcmp(name, expected) == 0 ? step : -1;
}

/* Returns "<folder>/<name>"; yours to free with tg_free. NULL, with the error, when memory is exhausted. */
static char *path_in_folder(const char *call, const char *folder, const char *name, tg_error *error)
{
    size_t length = strlen(folder) + strlen(name) + 2;
    char *path = tg_alloc(length, 1);
    if (!path) {
        tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory", call);
        return NULL;
    }
    snprintf(path, length, "%s/%s", folder, name);
    return path;
}

/* Removes a file of the folder, if it exists. */
static bool remove_name(const char *call, const char *folder, const char *name, tg_error *error)
{
    char *path = path_in_folder(call, folder, name, error);
    bool is_removed = path && (tg_system_remove(path) || errno == ENOENT ||
                               tg_error_set(error, TG_ERROR_FILE, "%s: remove '%s': %s", call, path, strerror(errno)));
    tg_free(path);
    return is_removed;
}

/* Calls `visit` for each name in the folder. */
static bool visit_folder(const char *call, const char *folder, void (*visit)(void *context, const char *name),
                         void *context, tg_error *error)
{
    int failed = tg_system_visit(folder, visit, context);
    return failed == 0 || tg_error_set(error, TG_ERROR_FILE, "%s: %s '%s': %s", call, failed > 0 ? "open" : "read",
                                       folder, strerror(failed > 0 ? failed : -failed));
}

/* ---- lists of steps ---- */

/* The steps of checkpoints. */
typedef struct step_list {
    int64_t *steps;
    size_t count, capacity;
} step_list;

static void free_steps(step_list *list)
{
    tg_free(list->steps);
    *list = (step_list){NULL, 0, 0};
}

static bool add_step(const char *call, step_list *list, int64_t step, tg_error *error)
{
    if (!tg_grow(&list->steps, &list->capacity, list->count, list->count + 1, sizeof *list->steps)) {
        return tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory", call);
    }
    list->steps[list->count++] = step;
    return true;
}

static int ascending(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return left < right ? -1 : left > right;
}

/* Reads a file of checkpoints' names, one per line, and adds their steps to the list. A file that does not exist has
 * none. */
static bool read_names(const char *call, const char *path, step_list *list, tg_error *error)
{
    tg_file file;
    if (tg_system_status(path).kind == TG_PATH_NONE && errno == ENOENT) {
        return true;
    }
    if (!tg_file_open(&file, call, path, error)) {
        return false;
    }
    bool is_read = true, is_valid = file.size > 0 && file.size % STEP_NAME == 0;
    for (uint64_t at = 0; is_read && is_valid && at < file.size; at += STEP_NAME) {
        char name[STEP_NAME];
        is_read = tg_file_read(&file, at, name, STEP_NAME, error);
        is_valid = is_read && name[STEP_NAME - 1] == '\n';
        name[STEP_NAME - 1] = '\0';
        int64_t step = is_valid ? step_of_name(name) : -1;
        is_valid = step >= 0;
        is_read = is_read && (!is_valid || add_step(call, list, step, error));
    }
    tg_file_close(&file);
    return is_read &&
           (is_valid || tg_error_set(error, TG_ERROR_FORMAT, "%s: '%s' does not name a checkpoint", call, path));
}

static bool write_names(const char *call, const char *folder, const char *file, const int64_t *steps, size_t count,
                        tg_error *error)
{
    char *path = path_in_folder(call, folder, file, error), *text = path ? tg_alloc(count, STEP_NAME) : NULL;
    bool is_written = text || tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory", call);
    for (size_t i = 0; is_written && i < count; i++) {
        step_to_name(steps[i], text + i * STEP_NAME);
        text[(i + 1) * STEP_NAME - 1] = '\n';
    }
    is_written = is_written && tg_file_replace(call, path, text, count * STEP_NAME, error);
    tg_free(text);
    tg_free(path);
    return is_written;
}

/* ---- the order of writing ---- */

/* What note_step needs. */
typedef struct listing {
    const char *call;
    step_list steps;
    tg_error *error;
    bool failed;
} listing;

static void note_step(void *context, const char *name)
{
    listing *l = context;
    int64_t step = step_of_name(name);
    l->failed = l->failed || (step >= 0 && !add_step(l->call, &l->steps, step, l->error));
}

/* Makes a step the last one of the list, if the list has it. */
static bool move_to_end(step_list *list, int64_t step)
{
    size_t at = 0;
    while (at < list->count && list->steps[at] != step) {
        at++;
    }
    if (at == list->count) {
        return false;
    }
    memmove(list->steps + at, list->steps + at + 1, (list->count - at - 1) * sizeof step);
    list->steps[list->count - 1] = step;
    return true;
}

/* Reads the steps of a folder's checkpoints in the order in which they were written: those that the file "last" does
 * not have, in ascending order, and then those that it has. FORMAT if "last" has another text. After true, call
 * free_steps.
 *
 * A checkpoint that "last" does not name was written before those that it names: it was the best one, or is of an
 * earlier version of the library. Or the run was killed before it wrote "last"; then it continues from the one before.
 */
static bool read_steps(const char *call, const char *folder, step_list *list, tg_error *error)
{
    listing existing = {.call = call, .error = error};
    step_list named = {NULL, 0, 0};
    char *path = path_in_folder(call, folder, "last", error);
    bool is_read = path && read_names(call, path, &named, error) &&
                   visit_folder(call, folder, note_step, &existing, error) && !existing.failed;
    *list = existing.steps;
    if (list->count > 0) {
        qsort(list->steps, list->count, sizeof *list->steps, ascending);
    }
    for (size_t i = 0; i < named.count; i++) {
        move_to_end(list, named.steps[i]);
    }
    tg_free(path);
    free_steps(&named);
    if (!is_read) {
        free_steps(list);
    }
    return is_read;
}

/* Reads the step that the file "best" names; -1 without that file. FORMAT if it has another text. */
static bool read_best(const char *call, const char *folder, int64_t *step, tg_error *error)
{
    step_list named = {NULL, 0, 0};
    char *path = path_in_folder(call, folder, "best", error);
    bool is_read = path && read_names(call, path, &named, error) &&
                   (named.count < 2 ||
                    tg_error_set(error, TG_ERROR_FORMAT, "%s: '%s' names %zu checkpoints", call, path, named.count));
    *step = is_read && named.count == 1 ? named.steps[0] : -1;
    free_steps(&named);
    tg_free(path);
    return is_read;
}

/* ---- the folder ---- */

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
    if (choice == TG_CHECKPOINT_BEST && !read_best(call, folder, &step, error)) {
        return NULL;
    }
    if (step < 0) {
        step_list written;
        if (!read_steps(call, folder, &written, error)) {
            return NULL;
        }
        step = written.count ? written.steps[written.count - 1] : -1;
        free_steps(&written);
    }
    if (step < 0) {
        tg_error_set(error, TG_ERROR_FILE, "%s: '%.*s' has no checkpoint", call, TG_CUT(folder, 200));
        return NULL;
    }
    char name[STEP_NAME];
    step_to_name(step, name);
    char *path = path_in_folder(call, folder, name, error);
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
        remove_name(open_call, context, name, NULL);
    }
}

/* Creates the lock's file and locks it. */
static bool lock(tg_checkpoint_folder *folder, tg_error *error)
{
    char *path = path_in_folder(open_call, folder->path, "lock", error);
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
    return exists && lock(folder, error) && visit_folder(open_call, folder->path, remove_leftover, folder->path, error);
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
    } else if (config.keep < 1 || config.keep > MOST_STEPS) {
        tg_error_set(&local, TG_ERROR_VALUE, "%s: keep %lld; it must be 1 to %d", open_call, (long long)config.keep,
                     MOST_STEPS);
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
    step_list written; /* in the order of writing */
    size_t kept;       /* the last ones of them that stay */
    int64_t best;      /* stays, too; -1: none */
    bool best_changes;
} contents;

/* Reads what the folder has, and decides what stays after step `step` is written. */
static bool decide(const char *call, const tg_checkpoint_folder *folder, int64_t step, bool is_best, contents *c,
                   tg_error *error)
{
    step_list *written = &c->written;
    if (!read_best(call, folder->path, &c->best, error) || !read_steps(call, folder->path, written, error)) {
        return false;
    }
    /* a checkpoint that is replaced by one that is not the best does not stay the best */
    c->best_changes = is_best || c->best == step;
    c->best = is_best ? step : c->best_changes ? -1 : c->best;
    bool is_listed = move_to_end(written, step) || add_step(call, written, step, error);
    c->kept = written->count < (size_t)folder->keep ? written->count : (size_t)folder->keep;
    return is_listed;
}

/* Writes the file "best", or removes it, if it changes. */
static bool write_best(const char *call, const tg_checkpoint_folder *folder, const contents *c, tg_error *error)
{
    if (!c->best_changes) {
        return true;
    }
    return c->best >= 0 ? write_names(call, folder->path, "best", &c->best, 1, error)
                        : remove_name(call, folder->path, "best", error);
}

static bool check_step(const char *call, int64_t step, tg_error *error)
{
    return (step >= 0 && step <= MOST_STEPS) ||
           tg_error_set(error, TG_ERROR_RANGE, "%s: step %lld is outside [0,%d]", call, (long long)step, MOST_STEPS);
}

bool tg_checkpoint_folder_save(tg_checkpoint_folder *folder, int64_t step, bool is_best,
                               const tg_checkpoint_part *parts, int64_t count, tg_error *error)
{
    static const char call[] = "checkpoint_folder_save";
    if (!folder) {
        return check_folder(call, folder, error);
    }
    tg_error local = TG_NO_ERROR;
    char name[STEP_NAME], *path = NULL;
    contents c = {.kept = 0};
    bool decides = tg_group_index(folder->group) == 0;
    if (check_folder(call, folder, &local) && check_step(call, step, &local) &&
        (!decides || decide(call, folder, step, is_best, &c, &local))) {
        step_to_name(step, name);
        path = path_in_folder(call, folder->path, name, &local);
    }
    bool is_saved = tg_group_agree(folder->group, &local, error) &&
                    tg_checkpoint_save_together(path, parts, count, folder->group, error);
    tg_free(path);
    if (is_saved && decides && write_best(call, folder, &c, &local) &&
        write_names(call, folder->path, "last", c.written.steps + c.written.count - c.kept, c.kept, &local)) {
        for (size_t i = 0; i < c.written.count - c.kept; i++) {
            if (c.written.steps[i] != c.best) {
                step_to_name(c.written.steps[i], name);
                remove_name(call, folder->path, name, NULL);
            }
        }
    }
    free_steps(&c.written);
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
    if (step_of_name(name) >= 0) {
        remove_name(clear_call, c->folder, name, c->error);
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
        remove_name(clear_call, folder->path, "best", &local) &&
        remove_name(clear_call, folder->path, "last", &local)) {
        clearing c = {folder->path, &local};
        visit_folder(clear_call, folder->path, remove_checkpoint, &c, &local);
    }
    return tg_group_agree(folder->group, &local, error);
}
