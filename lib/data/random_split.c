/* random_split: torch.utils.data.random_split. */
#include <tapegrad/data.h>
#include <tapegrad/extend.h>

#include "base/random.h"

static const char call[] = "random_split";

static bool check(const int64_t *lengths, int parts, int64_t row_count, tg_error *error)
{
    if (parts < 1) {
        return tg_error_set(error, TG_ERROR_SHAPE, "%s: %d parts; at least 1 is needed", call, parts);
    }
    int64_t sum = 0;
    for (int i = 0; i < parts; i++) {
        if (lengths[i] < 0 || __builtin_add_overflow(sum, lengths[i], &sum)) {
            return tg_error_set(error, TG_ERROR_SHAPE, "%s: length %lld of part %d is negative or too large", call,
                                (long long)lengths[i], i);
        }
    }
    if (sum != row_count) {
        return tg_error_set(error, TG_ERROR_VALUE, "%s: the sum of the lengths is %lld; it must be row_count, %lld",
                            call, (long long)sum, (long long)row_count);
    }
    return sum >= 1 || tg_error_set(error, TG_ERROR_SHAPE, "%s: the parts have no rows", call);
}

bool tg_random_split(tg_rng *rng, const int64_t *lengths, int parts, int64_t *rows, int64_t row_count, tg_error *error)
{
    if (!rng || !lengths || !rows) {
        return tg_error_set(error, TG_ERROR_STATE, "%s: the %s is NULL", call,
                            !rng       ? "generator"
                            : !lengths ? "array of lengths"
                                       : "array of rows");
    }
    if (!check(lengths, parts, row_count, error)) {
        return false;
    }
    tg_rng_randperm(rng, rows, row_count);
    return true;
}
