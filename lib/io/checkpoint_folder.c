/* checkpoint_folder: the checkpoints of one run.
 *
 *   step-00000100.safetensors    one checkpoint, complete as soon as it has this name (base/file.h)
 *   best                         the name of the best checkpoint and a newline; written after the checkpoint
 *   lock                         empty; its owner holds flock(2) on it, which ends with the process
 *
 * Of several processes, process 0 does all this, and all have its errors. Together they write only the checkpoint.
 *
 * Files are removed last, and only by the owner of the lock. A run may be killed at any moment: it leaves complete
 * checkpoints, perhaps one too many, and perhaps a temporary file, which the next run removes.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/config.h"
#include "base/file.h"
#include "io/checkpoint.h"
#include "io/checkpoint_group.h"

#define MOST_STEPS 99999999

/* "step-00000100.safetensors" and its NUL */
#define FILE_NAME_SIZE 26

static const char mark[] = "tg_checkpoint_folder_config_default";
static const char open_call[] = "checkpoint_folder_open";

struct tg_checkpoint_folder {
    int64_t keep;
    tg_checkpoint_group_config group;
    int lock; /* the descriptor that holds the lock; -1 in processes 1, 2, ... */
    char path[];
};

tg_checkpoint_folder_config tg_checkpoint_folder_config_default(void)
{
    return (tg_checkpoint_folder_config){.mark = mark, .keep = 3};
}

/* ---- names ---- */

static void name_of_step(int64_t step, char name[FILE_NAME_SIZE])
{
    snprintf(name, FILE_NAME_SIZE, "step-%08d.safetensors", (int)step);
}

/* Returns the step of a checkpoint's file name, or -1. */
static int64_t step_of_name(const char *name)
{
    char expected[FILE_NAME_SIZE];
    int64_t step = 0;
    if (strlen(name) != FILE_NAME_SIZE - 1 || strncmp(name, "step-", 5) != 0) {
        return -1;
    }
    for (int i = 5; i < 13; i++) {
        if (name[i] < '0' || name[i] > '9') {
            return -1;
        }
        step = 10 * step + name[i] - '0';
    }
    name_of_step(step, expected);
    return strcmp(name, expected) == 0 ? step : -1;
}

/* Returns "<folder>/<name>"; NULL when memory is exhausted. Free it with tg_free. */
static char *path_of(const char *folder, const char *name)
{
    size_t length = strlen(folder) + strlen(name) + 2;
    char *path = tg_alloc(length, 1);
    if (path) {
        snprintf(path, length, "%s/%s", folder, name);
    }
    return path;
}

/* ---- the files of a folder ---- */

/* Calls `visit` for each name in the folder. */
static bool for_each_name(const char *call, const char *folder, void (*visit)(void *context, const char *name),
                          void *context, tg_error *error)
{
    DIR *open = opendir(folder);
    if (!open) {
        return tg_error_set(error, TG_ERROR_FILE, "%s: open '%s': %s", call, folder, strerror(errno));
    }
    errno = 0;
    for (struct dirent *entry; (entry = readdir(open));) {
        visit(context, entry->d_name);
        errno = 0;
    }
    int failed = errno;
    closedir(open);
    return failed == 0 || tg_error_set(error, TG_ERROR_FILE, "%s: read '%s': %s", call, folder, strerror(failed));
}

static void note_last(void *context, const char *name)
{
    int64_t *last = context, step = step_of_name(name);
    *last = step > *last ? step : *last;
}

/* Reads the file "best". *step becomes -1 without one. */
static bool read_best(const char *call, const char *folder, int64_t *step, tg_error *error)
{
    char text[FILE_NAME_SIZE + 1];
    char *path = path_of(folder, "best");
    tg_file file;
    *step = -1;
    if (!path) {
        return tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory", call);
    }
    struct stat status;
    if (stat(path, &status) != 0 && errno == ENOENT) {
        tg_free(path);
        return true;
    }
    bool is_read = tg_file_open(&file, call, path, error);
    if (is_read && file.size == FILE_NAME_SIZE) {
        is_read = tg_file_read(&file, 0, text, FILE_NAME_SIZE, error);
        text[FILE_NAME_SIZE - 1] = '\0'; /* instead of the newline */
        *step = is_read ? step_of_name(text) : -1;
    }
    tg_file_close(&file);
    is_read = is_read &&
              (*step >= 0 || tg_error_set(error, TG_ERROR_FORMAT, "%s: '%s' does not name a checkpoint", call, path));
    tg_free(path);
    return is_read;
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
    if ((choice == TG_CHECKPOINT_BEST && !read_best(call, folder, &step, error)) ||
        (step < 0 && !for_each_name(call, folder, note_last, &step, error))) {
        return NULL;
    }
    if (step < 0) {
        tg_error_set(error, TG_ERROR_FILE, "%s: '%.200s' has no checkpoint", call, folder);
        return NULL;
    }
    char name[FILE_NAME_SIZE];
    name_of_step(step, name);
    char *path = path_of(folder, name);
    if (!path) {
        tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory", call);
    }
    return path;
}

/* ---- removing ---- */

/* Removes a file of the folder. A file that cannot be removed stays: it is complete, and only takes space. */
static void remove_file(const char *folder, const char *name)
{
    char *path = path_of(folder, name);
    if (path) {
        unlink(path);
    }
    tg_free(path);
}

static void remove_leftover(void *context, const char *name)
{
    size_t length = strlen(name);
    if (strncmp(name, ".tapegrad-", 10) == 0 && length > 4 && strcmp(name + length - 4, ".tmp") == 0) {
        remove_file(context, name);
    }
}

/* The largest steps of a folder, in ascending order. */
typedef struct last_steps {
    int64_t *steps, count, capacity;
} last_steps;

static void note_step(void *context, const char *name)
{
    last_steps *last = context;
    int64_t step = step_of_name(name), at = last->count;
    if (step < 0 || (last->count == last->capacity && step < last->steps[0])) {
        return;
    }
    if (last->count == last->capacity) {
        memmove(last->steps, last->steps + 1, (size_t)(last->count - 1) * sizeof *last->steps);
        at--;
    } else {
        last->count++;
    }
    for (; at > 0 && last->steps[at - 1] > step; at--) {
        last->steps[at] = last->steps[at - 1];
    }
    last->steps[at] = step;
}

/* What remove_old needs to decide. */
typedef struct removal {
    const char *folder;
    int64_t first_kept, best;
} removal;

static void remove_old(void *context, const char *name)
{
    const removal *r = context;
    int64_t step = step_of_name(name);
    if (step >= 0 && step < r->first_kept && step != r->best) {
        remove_file(r->folder, name);
    }
}

static bool remove_all_old(const char *call, const tg_checkpoint_folder *folder, tg_error *error)
{
    removal r = {.folder = folder->path};
    last_steps last = {.capacity = folder->keep};
    last.steps = tg_alloc((size_t)last.capacity, sizeof *last.steps);
    if (!last.steps) {
        return tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory", call);
    }
    bool is_read =
        read_best(call, folder->path, &r.best, error) && for_each_name(call, folder->path, note_step, &last, error);
    r.first_kept = last.count > 0 ? last.steps[0] : 0;
    tg_free(last.steps);
    return is_read && for_each_name(call, folder->path, remove_old, &r, error);
}

/* ---- the folder ---- */

/* Creates the lock's file and locks it. */
static bool lock(tg_checkpoint_folder *folder, tg_error *error)
{
    char *path = path_of(folder->path, "lock");
    if (!path) {
        return tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory", open_call);
    }
    folder->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    bool is_open =
        folder->lock >= 0 || tg_error_set(error, TG_ERROR_FILE, "%s: open '%s': %s", open_call, path, strerror(errno));
    tg_free(path);
    if (!is_open || flock(folder->lock, LOCK_EX | LOCK_NB) == 0) {
        return is_open;
    }
    return errno == EWOULDBLOCK
               ? tg_error_set(error, TG_ERROR_STATE, "%s: another run writes to '%s'", open_call, folder->path)
               : tg_error_set(error, TG_ERROR_FILE, "%s: lock '%s': %s", open_call, folder->path, strerror(errno));
}

/* Creates the folder, locks it, and removes what a killed run left. */
static bool prepare(tg_checkpoint_folder *folder, tg_error *error)
{
    bool exists = mkdir(folder->path, 0777) == 0 || errno == EEXIST ||
                  tg_error_set(error, TG_ERROR_FILE, "%s: create '%s': %s", open_call, folder->path, strerror(errno));
    return exists && lock(folder, error) &&
           for_each_name(open_call, folder->path, remove_leftover, folder->path, error);
}

tg_checkpoint_folder *tg_checkpoint_folder_open(const char *path, const tg_checkpoint_folder_config *given,
                                                tg_error *error)
{
    if (!path) {
        tg_error_set(error, TG_ERROR_STATE, "%s: the path is NULL", open_call);
        return NULL;
    }
    if (!tg_config_check(open_call, given, mark, error)) {
        return NULL;
    }
    tg_checkpoint_folder_config config = given ? *given : tg_checkpoint_folder_config_default();
    if (!tg_group_check(open_call, config.group, error)) {
        return NULL;
    }
    const tg_checkpoint_group_config group = config.group ? *config.group : tg_checkpoint_group_config_default();
    tg_error local = TG_NO_ERROR;
    tg_checkpoint_folder *folder = tg_alloc(1, sizeof *folder + strlen(path) + 1);
    if (config.keep < 1 || config.keep > MOST_STEPS) {
        tg_error_set(&local, TG_ERROR_VALUE, "%s: keep %lld; allowed are 1 to %d", open_call, (long long)config.keep,
                     MOST_STEPS);
    } else if (!folder) {
        tg_error_set(&local, TG_ERROR_MEMORY, "%s: out of memory", open_call);
    }
    if (folder) {
        *folder = (tg_checkpoint_folder){.keep = config.keep, .group = group, .lock = -1};
        memcpy(folder->path, path, strlen(path) + 1);
    }
    bool is_ready = tg_group_agree(&group, &local, error);
    if (is_ready && group.rank == 0) {
        prepare(folder, &local);
    }
    if (!is_ready || !tg_group_agree(&group, &local, error)) {
        tg_checkpoint_folder_free(folder);
        return NULL;
    }
    return folder;
}

void tg_checkpoint_folder_free(tg_checkpoint_folder *folder)
{
    if (folder) {
        if (folder->lock >= 0) {
            close(folder->lock);
        }
        tg_free(folder);
    }
}

static bool write_best(const char *call, const tg_checkpoint_folder *folder, const char *name, tg_error *error)
{
    char *path = path_of(folder->path, "best"), text[FILE_NAME_SIZE + 1];
    int length = snprintf(text, sizeof text, "%s\n", name);
    bool is_written = path ? tg_file_replace(call, path, text, (size_t)length, error)
                           : tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory", call);
    tg_free(path);
    return is_written;
}

bool tg_checkpoint_folder_save(tg_checkpoint_folder *folder, int64_t step, bool is_best,
                               const tg_checkpoint_part *parts, int64_t count, tg_error *error)
{
    static const char call[] = "checkpoint_folder_save";
    if (!folder) {
        return tg_error_set(error, TG_ERROR_STATE, "%s: the folder is NULL", call);
    }
    tg_error local = TG_NO_ERROR;
    char name[FILE_NAME_SIZE], *path = NULL;
    if (step < 0 || step > MOST_STEPS) {
        tg_error_set(&local, TG_ERROR_RANGE, "%s: step %lld is outside [0,%d]", call, (long long)step, MOST_STEPS);
    } else {
        name_of_step(step, name);
        path = path_of(folder->path, name);
    }
    if (!path) {
        tg_error_set(&local, TG_ERROR_MEMORY, "%s: out of memory", call);
    }
    bool is_saved = tg_group_agree(&folder->group, &local, error) &&
                    tg_checkpoint_save_together(path, parts, count, &folder->group, error);
    tg_free(path);
    if (is_saved && folder->group.rank == 0 && (!is_best || write_best(call, folder, name, &local))) {
        remove_all_old(call, folder, &local);
    }
    return is_saved && tg_group_agree(&folder->group, &local, error);
}

/* What remove_checkpoint needs, and its error. */
typedef struct clearing {
    const char *folder;
    tg_error *error;
} clearing;

static void remove_checkpoint(void *context, const char *name)
{
    const clearing *c = context;
    char *path = step_of_name(name) >= 0 ? path_of(c->folder, name) : NULL;
    if (path && unlink(path) != 0) {
        tg_error_set(c->error, TG_ERROR_FILE, "checkpoint_folder_clear: remove '%s': %s", path, strerror(errno));
    }
    tg_free(path);
}

bool tg_checkpoint_folder_clear(tg_checkpoint_folder *folder, tg_error *error)
{
    static const char call[] = "checkpoint_folder_clear";
    if (!folder) {
        return tg_error_set(error, TG_ERROR_STATE, "%s: the folder is NULL", call);
    }
    tg_error local = TG_NO_ERROR;
    if (folder->group.rank == 0) {
        clearing c = {folder->path, &local};
        remove_file(folder->path, "best");
        for_each_name(call, folder->path, remove_checkpoint, &c, &local);
    }
    return tg_group_agree(&folder->group, &local, error);
}
