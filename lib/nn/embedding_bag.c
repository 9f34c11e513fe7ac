/* embedding_bag: the sum, mean or maximum of rows of a trained table, as a module. lib/ops/embedding/embedding_bag.c
 * computes it. */
#include "nn/embedding.h"

static const char call[] = "nn_embedding_bag_make";

TG_CONFIG(tg_nn_embedding_bag_config, tg_nn_embedding_bag_config_default, mark, .mark = mark, .mode = TG_BAG_MEAN,
          .padding_index = TG_NO_PADDING, .std = 1, .norm_type = 2);

tg_nn_embedding_bag tg_nn_embedding_bag_make(tg_params *params, const char *name, int64_t rows, int64_t width,
                                             const tg_nn_embedding_bag_config *given)
{
    tg_nn_embedding_bag none = {.module = {params, false}}, made = {.bag = tg_embedding_bag_config_default()};
    tg_params_point point;
    if (!tg_module_begin(params, call, name, given, mark, &point)) {
        return none;
    }
    tg_nn_embedding_bag_config config = given ? *given : tg_nn_embedding_bag_config_default();
    if ((unsigned)config.mode > TG_BAG_MAX) {
        tg_params_fail(params, TG_ERROR_VALUE,
                       "%s: mode %d does not exist; it must be TG_BAG_SUM, TG_BAG_MEAN or TG_BAG_MAX", call,
                       (int)config.mode);
        return none;
    }
    if (config.mode == TG_BAG_MAX && config.scale_by_frequency) {
        tg_params_fail(params, TG_ERROR_VALUE, "%s: scale_by_frequency is not allowed with TG_BAG_MAX", call);
        return none;
    }
    tg_table_options options = {config.padding_index, config.mean,     config.std,      config.from,
                                config.frozen,        config.max_norm, config.norm_type};
    made.weight = tg_make_table(params, call, name, rows, width, &options);
    made.bag.mode = config.mode;
    made.bag.last_offset = config.last_offset;
    made.bag.padding_index = options.padding_index;
    made.bag.max_norm = config.max_norm;
    made.bag.norm_type = config.norm_type;
    made.bag.scale_by_frequency = config.scale_by_frequency;
    made.module = tg_module_end(params, &point);
    return made.module.is_made ? made : none;
}

tg_tensor *tg_nn_embedding_bag_forward(tg_tape *t, const tg_nn_embedding_bag *bag, tg_tensor *ids, tg_tensor *offsets,
                                       tg_tensor *weights)
{
    if (!tg_module_is_ready(t, "nn_embedding_bag_forward", bag)) {
        return NULL;
    }
    tg_embedding_bag_config config = bag->bag;
    config.offsets = offsets;
    config.weights = weights;
    return tg_embedding_bag(t, ids, bag->weight, &config);
}
