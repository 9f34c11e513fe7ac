/* A program that loads the library with dlopen, lets its threads run, and unloads it: the threads go on, so the code
 * must stay. The program does not link the library. */
#include <dlfcn.h>
#include <stdio.h>
#include <time.h>

#include <tapegrad.h>

static int fail(const char *text)
{
    fprintf(stderr, "%s\n", text);
    return 1;
}

/* Adds two large tensors with four threads. Returns whether the sum is right. */
static bool compute(void *library)
{
    bool (*set_threads)(int, tg_error *) = (bool (*)(int, tg_error *))(uintptr_t)dlsym(library, "tg_set_threads");
    tg_tape *(*tape_new)(tg_rng *, const tg_tape_config *) =
        (tg_tape * (*)(tg_rng *, const tg_tape_config *))(uintptr_t)dlsym(library, "tg_tape_new");
    void (*tape_free)(tg_tape *) = (void (*)(tg_tape *))(uintptr_t)dlsym(library, "tg_tape_free");
    tg_shape (*shape_make)(int, const int64_t *) =
        (tg_shape(*)(int, const int64_t *))(uintptr_t)dlsym(library, "tg_shape_make");
    tg_tensor *(*full)(tg_tape *, tg_dtype, tg_shape, double) =
        (tg_tensor * (*)(tg_tape *, tg_dtype, tg_shape, double))(uintptr_t)dlsym(library, "tg_full");
    tg_tensor *(*add)(tg_tape *, tg_tensor *, tg_tensor *) =
        (tg_tensor * (*)(tg_tape *, tg_tensor *, tg_tensor *))(uintptr_t)dlsym(library, "tg_add");
    double (*value_at)(const tg_tensor *, int64_t) =
        (double (*)(const tg_tensor *, int64_t))(uintptr_t)dlsym(library, "tg_tensor_value_at");
    if (!set_threads || !tape_new || !tape_free || !shape_make || !full || !add || !value_at) {
        return false;
    }
    const int64_t size = 4000000;
    set_threads(4, NULL);
    tg_tape *t = tape_new(NULL, NULL);
    tg_tensor *x = full(t, TG_F32, shape_make(1, &size), 1), *y = add(t, x, x);
    bool is_right = value_at(y, 0) == 2 && value_at(y, size - 1) == 2;
    tape_free(t);
    return is_right;
}

int main(int count, char **arguments)
{
    for (int i = 0; i < 3; i++) {
        void *library = count == 2 ? dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL) : NULL;
        if (!library) {
            return fail(count == 2 ? dlerror() : "usage: test_unload LIBRARY");
        }
        if (!compute(library)) {
            return fail("the sum is wrong");
        }
        if (dlclose(library) != 0) {
            return fail(dlerror());
        }
        const struct timespec moment = {0, 50000000}; /* the threads go to sleep, or crash */
        nanosleep(&moment, NULL);
    }
    /* the library stays in memory (base.h) */
    return dlopen(arguments[1], RTLD_NOW | RTLD_NOLOAD) ? 0 : fail("the library was unloaded");
}
