#include "blas.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *blas_text(char text[BLAS_TEXT])
{
    tg_blas blas = tg_get_blas();
    int threads = blas.most_threads > 0 && blas.most_threads < tg_threads() ? blas.most_threads : tg_threads();
    snprintf(text, BLAS_TEXT, "%s%s%s%s%s%s, %d thread%s, %s", blas.library, *blas.version ? " " : "", blas.version,
             *blas.kernels ? " (" : "", blas.kernels, *blas.kernels ? ")" : "", threads, threads == 1 ? "" : "s",
             tg_cpu_level_name(tg_get_cpu_level()));
    return text;
}

const char *blas_better_kernels(const tg_blas *blas, tg_cpu_level level)
{
    /* The names in an OpenBLAS that chooses its kernels when it is loaded. One with kernels for a single processor
     * writes HASWELL. */
    static const struct {
        const char *name;
        tg_cpu_level level;
    } kernels[] = {{"Prescott", TG_CPU_BASELINE},    {"Northwood", TG_CPU_BASELINE}, {"Core2", TG_CPU_BASELINE},
                   {"Nehalem", TG_CPU_BASELINE},     {"Barcelona", TG_CPU_BASELINE}, {"Bulldozer", TG_CPU_BASELINE},
                   {"Sandybridge", TG_CPU_BASELINE}, {"Haswell", TG_CPU_AVX2},       {"Zen", TG_CPU_AVX2}};
    static const char *const best[] = {[TG_CPU_AVX2] = "Haswell", [TG_CPU_AVX512] = "SkylakeX"};
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        if (strcmp(blas->kernels, kernels[i].name) == 0 && kernels[i].level < level) {
            return best[level];
        }
    }
    return NULL;
}

static bool set_if_missing(const char *variable, const char *value)
{
    return value && !getenv(variable) && setenv(variable, value, 0) == 0;
}

/* Returns the part of the path after the last slash. */
static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Replaces the program by itself. If it was started by a loader or an emulator, the file that runs has another name:
 * then it does nothing. */
static void start_again(char **argv)
{
    char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (length > 0 && argv[0]) {
        path[length] = '\0';
        if (strcmp(name_of(path), name_of(argv[0])) == 0) {
            execv(path, argv);
        }
    }
}

void blas_begin(char **argv)
{
    tg_blas blas = tg_get_blas();
    if (strcmp(blas.library, "OpenBLAS") != 0) {
        return;
    }
    const char *kernels = blas_better_kernels(&blas, tg_get_cpu_level());
    bool has_threads = tg_threads() > 1 && blas.most_threads != 1;
    bool is_set = set_if_missing("OPENBLAS_CORETYPE", kernels);
    is_set |= set_if_missing("OPENBLAS_THREAD_TIMEOUT", has_threads ? "4" : NULL);
    if (is_set) {
        start_again(argv);
    }
}
