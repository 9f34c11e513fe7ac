#include "files/checkpoint_names.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "system/system.h"

void tg_step_to_name(int64_t step, char name[TG_STEP_NAME])
{
    snprintf(name, TG_STEP_NAME, "step-%08d.safetensors", (int)step);
}

int64_t tg_step_of_name(const char *name)
{
    char expected[TG_STEP_NAME];
    int64_t step = 0;
    if (strlen(name) != TG_STEP_NAME - 1 || strncmp(name, "step-", 5) != 0) {
        return -1;
    }
    for (int i = 5; i < 13; i++) {
        if (name[i] < '0' || name[i] > '9') {
            return -1;
        }
        step = 10 * step + name[i] - '0';
    }
    tg_step_to_name(step, expected);
    return strcmp(name, expected) == 0 ? step : -1;
}

char *tg_path_in_folder(const char *call, const char *folder, const char *name, tg_error *error)
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

bool tg_name_remove(const char *call, const char *folder, const char *name, tg_error *error)
{
    char *path = tg_path_in_folder(call, folder, name, error);
    bool is_removed = path && (tg_system_remove(path) || errno == ENOENT ||
                               tg_error_set(error, TG_ERROR_FILE, "%s: remove '%s': %s", call, path, strerror(errno)));
    tg_free(path);
    return is_removed;
}

bool tg_folder_visit(const char *call, const char *folder, void (*visit)(void *context, const char *name),
                     void *context, tg_error *error)
{
    int failed = tg_system_visit(folder, visit, context);
    return failed == 0 || tg_error_set(error, TG_ERROR_FILE, "%s: %s '%s': %s", call, failed > 0 ? "open" : "read",
                                       folder, strerror(failed > 0 ? failed : -failed));
}

/* ---- lists of steps ---- */

void tg_steps_free(tg_steps *list)
{
    tg_free(list->steps);
    *list = (tg_steps){NULL, 0, 0};
}

bool tg_steps_add(const char *call, tg_steps *list, int64_t step, tg_error *error)
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
static bool read_names(const char *call, const char *path, tg_steps *list, tg_error *error)
{
    tg_file file;
    if (tg_system_status(path).kind == TG_PATH_NONE && errno == ENOENT) {
        return true;
    }
    if (!tg_file_open(&file, call, path, error)) {
        return false;
    }
    bool is_read = true, is_valid = file.size > 0 && file.size % TG_STEP_NAME == 0;
    for (uint64_t at = 0; is_read && is_valid && at < file.size; at += TG_STEP_NAME) {
        char name[TG_STEP_NAME];
        is_read = tg_file_read(&file, at, name, TG_STEP_NAME, error);
        is_valid = is_read && name[TG_STEP_NAME - 1] == '\n';
        name[TG_STEP_NAME - 1] = '\0';
        int64_t step = is_valid ? tg_step_of_name(name) : -1;
        is_valid = step >= 0;
        is_read = is_read && (!is_valid || tg_steps_add(call, list, step, error));
    }
    tg_file_close(&file);
    return is_read &&
           (is_valid || tg_error_set(error, TG_ERROR_FORMAT, "%s: '%s' does not name a checkpoint", call, path));
}

static bool write_names(const char *call, const char *folder, const char *file, const int64_t *steps, size_t count,
                        tg_error *error)
{
    char *path = tg_path_in_folder(call, folder, file, error), *text = path ? tg_alloc(count, TG_STEP_NAME) : NULL;
    bool is_written = text || tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory", call);
    for (size_t i = 0; is_written && i < count; i++) {
        tg_step_to_name(steps[i], text + i * TG_STEP_NAME);
        text[(i + 1) * TG_STEP_NAME - 1] = '\n';
    }
    is_written = is_written && tg_file_replace(call, path, text, count * TG_STEP_NAME, error);
    tg_free(text);
    tg_free(path);
    return is_written;
}

/* ---- the order of writing ---- */

/* What note_step needs. */
typedef struct listing {
    const char *call;
    tg_steps steps;
    tg_error *error;
    bool failed;
} listing;

static void note_step(void *context, const char *name)
{
    listing *l = context;
    int64_t step = tg_step_of_name(name);
    l->failed = l->failed || (step >= 0 && !tg_steps_add(l->call, &l->steps, step, l->error));
}

bool tg_steps_move_to_end(tg_steps *list, int64_t step)
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

/* A checkpoint that "last" does not name was written before those that it names: it was the best one, or is of an
 * earlier version of the library. Or the run was killed before it wrote "last"; then it continues from the one before.
 */
bool tg_steps_read(const char *call, const char *folder, tg_steps *list, tg_error *error)
{
    listing existing = {.call = call, .error = error};
    tg_steps named = {NULL, 0, 0};
    char *path = tg_path_in_folder(call, folder, "last", error);
    bool is_read = path && read_names(call, path, &named, error) &&
                   tg_folder_visit(call, folder, note_step, &existing, error) && !existing.failed;
    *list = existing.steps;
    if (list->count > 0) {
        qsort(list->steps, list->count, sizeof *list->steps, ascending);
    }
    for (size_t i = 0; i < named.count; i++) {
        tg_steps_move_to_end(list, named.steps[i]);
    }
    tg_free(path);
    tg_steps_free(&named);
    if (!is_read) {
        tg_steps_free(list);
    }
    return is_read;
}

bool tg_steps_write(const char *call, const char *folder, const tg_steps *list, size_t count, tg_error *error)
{
    return write_names(call, folder, "last", list->steps + list->count - count, count, error);
}

/* ---- the best one ---- */

bool tg_best_read(const char *call, const char *folder, int64_t *step, tg_error *error)
{
    tg_steps named = {NULL, 0, 0};
    char *path = tg_path_in_folder(call, folder, "best", error);
    bool is_read = path && read_names(call, path, &named, error) &&
                   (named.count < 2 ||
                    tg_error_set(error, TG_ERROR_FORMAT, "%s: '%s' names %zu checkpoints", call, path, named.count));
    *step = is_read && named.count == 1 ? named.steps[0] : -1;
    tg_steps_free(&named);
    tg_free(path);
    return is_read;
}

bool tg_best_write(const char *call, const char *folder, int64_t step, tg_error *error)
{
    if (step >= 0) {
        return write_names(call, folder, "best", &step, 1, error);
    }
    return tg_name_remove(call, folder, "best", error);
}
