/* embedding (private): the table of the modules embedding and embedding_bag. */
#ifndef TG_NN_EMBEDDING_H
#define TG_NN_EMBEDDING_H

#include "nn/module.h"

/* The options of a table, as in tg_nn_embedding_config. */
typedef struct tg_table_options {
    int64_t padding_index;
    double mean, std;
    tg_tensor *from;
    bool frozen;
    double max_norm, norm_type;
} tg_table_options;

/* Adds a table "<name>.weight" (rows,width), and freezes its padding row. Converts options->padding_index to count from
 * the front, because the table may grow. NULL, with the params' error set, after an error. */
tg_tensor *tg_make_table(tg_params *params, const char *call, const char *name, int64_t rows, int64_t width,
                         tg_table_options *options);

#endif
