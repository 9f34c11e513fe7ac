#include "batches.h"

#include <string.h>

void get_batch(tg_tape *t, tg_rng *rng, const int32_t *ids, int64_t count, int64_t batch, int64_t context,
               tg_tensor **inputs, tg_tensor **targets, tg_error *error)
{
    tg_tensor *places = tg_full(t, TG_I32, TG_SHAPE(batch), 0);
    *inputs = tg_full(t, TG_I32, TG_SHAPE(batch, context), 0);
    *targets = tg_full(t, TG_I32, TG_SHAPE(batch, context), 0);
    if (!tg_tensor_fill_randint(places, rng, 0, count - context, error)) {
        return;
    }
    const int32_t *place = tg_tensor_data(places);
    int32_t *x = tg_tensor_data_mut(*inputs), *y = tg_tensor_data_mut(*targets);
    for (int64_t i = 0; i < batch; i++) {
        memcpy(x + i * context, ids + place[i], (size_t)context * sizeof *x);
        memcpy(y + i * context, ids + place[i] + 1, (size_t)context * sizeof *y);
    }
}
