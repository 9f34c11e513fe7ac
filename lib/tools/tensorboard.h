/* tensorboard (private): a run's folder, and the checks of its calls. */
#ifndef TG_TOOLS_TENSORBOARD_H
#define TG_TOOLS_TENSORBOARD_H

#include <tapegrad/tensorboard.h>

#include <tapegrad/extend.h>

struct tg_tensorboard {
    char *folder, *path; /* of the run, and of its file of events */
    int descriptor;
    int64_t size; /* of the file, in bytes */
};

/* Checks what all calls have. `call` begins the message. */
bool tg_tensorboard_check(const char *call, const tg_tensorboard *log, const char *tag, int64_t step, tg_error *error);

/* Checks that x is f32 or f64. */
bool tg_tensorboard_check_dtype(const char *call, const tg_tensor *x, tg_error *error);

/* Creates a folder and its parents if they do not exist. */
bool tg_folder_make(const char *call, const char *path, tg_error *error);

#endif
