/* real: what op files share beyond lib/base/real.h. */
#ifndef TG_OPS_REAL_H
#define TG_OPS_REAL_H

#include <tapegrad/op.h>

#include "base/parallel.h"
#include "base/real.h"
#include "tensor/blas.h"
#include "tensor/tensor.h"

/* Declares a pair of kernels: TG_DECLARE_KERNEL(softmax_forward); */
#define TG_DECLARE_KERNEL(name)              \
    void name##_f32(const tg_op_call *call); \
    void name##_f64(const tg_op_call *call)

#endif
