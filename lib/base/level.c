/* level: the choice between the versions of the kernels (level.h). */
#include "base/level.h"

#include <tapegrad/extend.h>

#include "base/text.h"

#include <stdlib.h>
#include <string.h>

atomic_int tg_level_in_use = -1;

static atomic_int tapes;

static atomic_bool is_set; /* whether tg_set_cpu_level has set the level */

static const char *const names[] = {[TG_CPU_BASELINE] = "baseline", [TG_CPU_AVX2] = "avx2", [TG_CPU_AVX512] = "avx512"};

#define NAMES ((int)(sizeof names / sizeof names[0]))

int tg_level_highest(void)
{
#if defined TG_ALL_LEVELS
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    return avx2 ? avx512 ? TG_CPU_AVX512 : TG_CPU_AVX2 : TG_CPU_BASELINE;
#else
    return TG_CPU_BASELINE;
#endif
}

static bool check(int level, const char *call, tg_error *error)
{
    return level <= tg_level_highest() ||
           tg_error_set(error, TG_ERROR_VALUE, "%s: the level is %s; the highest of this processor and build is %s",
                        call, names[level], names[tg_level_highest()]);
}

/* Returns the level of TG_CPU_LEVEL, or the highest if the variable is not set; -1 with the error set. */
static int from_environment(tg_error *error)
{
    const char *name = getenv("TG_CPU_LEVEL");
    if (!name || !*name) {
        return tg_level_highest();
    }
    for (int level = 0; level < NAMES; level++) {
        if (strcmp(name, names[level]) == 0) {
            return check(level, "TG_CPU_LEVEL", error) ? level : -1;
        }
    }
    tg_error_set(error, TG_ERROR_VALUE, "TG_CPU_LEVEL is '%.*s'; it must be baseline, avx2 or avx512",
                 TG_CUT(name, 40));
    return -1;
}

int tg_level_choose(void)
{
    int level = from_environment(NULL);
    level = level < 0 ? tg_level_highest() : level;
    /* Two threads may choose at the same time; they choose the same level. */
    atomic_store(&tg_level_in_use, level);
    return level;
}

bool tg_level_begin_tape(tg_error *error)
{
    atomic_fetch_add(&tapes, 1);
    return atomic_load(&is_set) || from_environment(error) >= 0;
}

void tg_level_end_tape(void)
{
    atomic_fetch_sub(&tapes, 1);
}

const char *tg_cpu_level_name(tg_cpu_level level)
{
    return (unsigned)level < (unsigned)NAMES ? names[level] : "unknown";
}

bool tg_set_cpu_level(tg_cpu_level level, tg_error *error)
{
    if ((unsigned)level >= (unsigned)NAMES) {
        return tg_error_set(error, TG_ERROR_VALUE, "set_cpu_level: %d is not a level; it must be 0 to %d", (int)level,
                            NAMES - 1);
    }
    if (!check((int)level, "set_cpu_level", error)) {
        return false;
    }
    int open = atomic_load(&tapes);
    if (open > 0) {
        return tg_error_set(error, TG_ERROR_STATE, "set_cpu_level: %d tape%s; free them before the change", open,
                            open == 1 ? " exists" : "s exist");
    }
    atomic_store(&is_set, true);
    atomic_store(&tg_level_in_use, (int)level);
    return true;
}

tg_cpu_level tg_get_cpu_level(void)
{
    return (tg_cpu_level)tg_level();
}
