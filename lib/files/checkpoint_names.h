/* checkpoint_names (private): which checkpoints a folder has, and in which order they were written. */
#ifndef TG_FILES_CHECKPOINT_NAMES_H
#define TG_FILES_CHECKPOINT_NAMES_H

#include <tapegrad/checkpoint.h>

#define TG_MOST_STEPS 99999999

/* "step-00000100.safetensors" and its NUL */
#define TG_STEP_NAME 26

void tg_step_to_name(int64_t step, char name[TG_STEP_NAME]);

/* Returns the step of a checkpoint's file name, or -1. */
int64_t tg_step_of_name(const char *name);

/* Returns "<folder>/<name>"; yours to free with tg_free. NULL, with the error, when memory is exhausted. */
char *tg_path_in_folder(const char *call, const char *folder, const char *name, tg_error *error);

/* Removes a file of the folder, if it exists. */
bool tg_name_remove(const char *call, const char *folder, const char *name, tg_error *error);

/* Calls `visit` for each name in the folder. */
bool tg_folder_visit(const char *call, const char *folder, void (*visit)(void *context, const char *name),
                     void *context, tg_error *error);

/* The steps of checkpoints. */
typedef struct tg_steps {
    int64_t *steps;
    size_t count, capacity;
} tg_steps;

void tg_steps_free(tg_steps *list);
bool tg_steps_add(const char *call, tg_steps *list, int64_t step, tg_error *error);

/* Makes a step the last one of the list, if the list has it. */
bool tg_steps_move_to_end(tg_steps *list, int64_t step);

/* Reads the steps of a folder's checkpoints in the order in which they were written: those that the file "last" does
 * not have, in ascending order, and then those that it has. FORMAT if "last" has another text. After true, call
 * tg_steps_free. */
bool tg_steps_read(const char *call, const char *folder, tg_steps *list, tg_error *error);

/* Writes the last `count` steps of the list into the file "last". */
bool tg_steps_write(const char *call, const char *folder, const tg_steps *list, size_t count, tg_error *error);

/* Reads the step that the file "best" names; -1 without that file. FORMAT if it has another text. */
bool tg_best_read(const char *call, const char *folder, int64_t *step, tg_error *error);

/* Writes the file "best"; for step -1, removes it. */
bool tg_best_write(const char *call, const char *folder, int64_t step, tg_error *error);

#endif
