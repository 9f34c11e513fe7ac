/* The rows of comparisons and masks. */
#include "bench/op_row.h"

static tg_tensor *where(tg_tape *t, tg_tensor *const *x)
{
    return tg_where(t, x[0], x[1], x[2]);
}

static tg_tensor *masked_fill(tg_tape *t, tg_tensor *const *x)
{
    return tg_masked_fill(t, x[0], x[1], -1);
}

static tg_tensor *tril(tg_tape *t, tg_tensor *const *x)
{
    return tg_tril(t, x[0], 0);
}

static tg_tensor *triu(tg_tape *t, tg_tensor *const *x)
{
    return tg_triu(t, x[0], 1);
}

const op_row op_masks[] = {
    {"tg_eq", "", "target S; target S", .binary = tg_eq},
    {"tg_eq", "ids", "ids<L S; ids<L S", .binary = tg_eq},
    {"tg_ne", "", "target S; target S", .binary = tg_ne},
    {"tg_lt", "", "target S; target S", .binary = tg_lt},
    {"tg_le", "", "target S; target S", .binary = tg_le},
    {"tg_gt", "", "target S; target S", .binary = tg_gt},
    {"tg_gt", "row", "target S; target L", .binary = tg_gt},
    {"tg_ge", "", "target S; target S", .binary = tg_ge},
    {"tg_logical_and", "", "mask S; mask S", .binary = tg_logical_and},
    {"tg_logical_or", "", "mask S; mask S", .binary = tg_logical_or},
    {"tg_logical_not", "", "mask S", .unary = tg_logical_not},
    {"tg_where", "", "mask S; real S; real S", .call = where},
    {"tg_where", "row of the mask", "mask L; real S; real S", .call = where},
    {"tg_masked_fill", "", "real S; mask S", .call = masked_fill},
    {"tg_masked_fill", "row of the mask", "real S; mask L", .call = masked_fill},
    {"tg_tril", "", "real S", .call = tril},
    {"tg_triu", "", "real S", .call = triu},
    {.op = NULL},
};
