/* getter (private): the check of a function that has no error of its own. */
#ifndef TG_TENSOR_GETTER_H
#define TG_TENSOR_GETTER_H

#include "tensor/tensor.h"

/* tg_is_tensor for the function `call`, which the error about a freed result names. */
static inline bool tg_getter_has(const char *call, const tg_tensor *x)
{
    return x && (!x->is_freed || tg_tensor_refuse_getter(call, x));
}

#endif
