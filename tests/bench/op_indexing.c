/* The rows of ids: lookups, sums by ids, and embeddings. */
#include "bench/op_row.h"

static tg_tensor *gather_last(tg_tape *t, tg_tensor *const *x)
{
    return tg_gather(t, x[0], -1, x[1]);
}

static tg_tensor *gather_first(tg_tape *t, tg_tensor *const *x)
{
    return tg_gather(t, x[0], 0, x[1]);
}

static tg_tensor *index_select_last(tg_tape *t, tg_tensor *const *x)
{
    return tg_index_select(t, x[0], -1, x[1]);
}

static tg_tensor *index_select_first(tg_tape *t, tg_tensor *const *x)
{
    return tg_index_select(t, x[0], 0, x[1]);
}

static tg_tensor *scatter_add_last(tg_tape *t, tg_tensor *const *x)
{
    return tg_scatter_add(t, x[0], -1, x[1], x[2]);
}

static tg_tensor *scatter_add_first(tg_tape *t, tg_tensor *const *x)
{
    return tg_scatter_add(t, x[0], 0, x[1], x[2]);
}

static tg_tensor *index_add_last(tg_tape *t, tg_tensor *const *x)
{
    return tg_index_add(t, x[0], -1, x[1], x[2]);
}

static tg_tensor *index_add_first(tg_tape *t, tg_tensor *const *x)
{
    return tg_index_add(t, x[0], 0, x[1], x[2]);
}

/* The number of classes is the size of another input. */
static tg_tensor *one_hot(tg_tape *t, tg_tensor *const *x)
{
    return tg_one_hot(t, x[0], tg_tensor_size(x[1], 0), tg_tensor_dtype(x[1]));
}

static tg_tensor *embedding(tg_tape *t, tg_tensor *const *x)
{
    return tg_embedding(t, x[1], x[0], NULL);
}

static tg_tensor *bag(tg_tape *t, tg_tensor *const *x)
{
    return tg_embedding_bag(t, x[1], x[0], NULL);
}

static tg_tensor *bag_in(tg_tape *t, tg_tensor *const *x, tg_bag_mode mode)
{
    tg_embedding_bag_config config = tg_embedding_bag_config_default();
    config.mode = mode;
    return tg_embedding_bag(t, x[1], x[0], &config);
}

static tg_tensor *bag_sum(tg_tape *t, tg_tensor *const *x)
{
    return bag_in(t, x, TG_BAG_SUM);
}

static tg_tensor *bag_max(tg_tape *t, tg_tensor *const *x)
{
    return bag_in(t, x, TG_BAG_MAX);
}

const op_row op_indexing[] = {
    {"tg_gather", "last axis", "real S; ids<L S", .call = gather_last},
    {"tg_gather", "first axis", "real S; ids<F S", .call = gather_first},
    {"tg_index_select", "last axis", "real S; ids<L L", .call = index_select_last},
    {"tg_index_select", "first axis", "real S; ids<F F", .call = index_select_first},
    {"tg_scatter_add", "last axis", "real S; ids<L S; real S", .call = scatter_add_last},
    {"tg_scatter_add", "first axis", "real S; ids<F S; real S", .call = scatter_add_first},
    {"tg_index_add", "last axis", "real S; ids<L L; real S", .call = index_add_last},
    {"tg_index_add", "first axis", "real S; ids<F F; real S", .call = index_add_first},
    {"tg_one_hot", "", "ids<L F; model L", .call = one_hot},
    {"tg_one_hot", "many", "ids<V I; model V", .call = one_hot},
    {"tg_embedding", "", "table V,E; ids<V I", .call = embedding},
    {"tg_embedding", "one column", "table V,1; ids<V I", .call = embedding},
    {"tg_embedding_bag", "mean", "table V,E; ids<V R,16", .call = bag},
    {"tg_embedding_bag", "sum", "table V,E; ids<V R,16", .call = bag_sum},
    {"tg_embedding_bag", "max", "table V,E; ids<V R,16", .call = bag_max},
    {.op = NULL},
};
