/* conv: convolutions of sequences, and pooling. The rules of tapegrad/ops.h hold. */
#ifndef TAPEGRAD_CONV_H
#define TAPEGRAD_CONV_H

#include <tapegrad/ops.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tg_conv1d_config {
    /* private: tg_conv1d_config_default() sets it */
    tg_config_mark mark;
    /* the distance of the kernel from one output to the next; default 1 */
    int64_t stride;
    /* the number of zeros at each end of a sequence; default 0 */
    int64_t padding;
    /* the distance between the taps of the kernel; default 1 */
    int64_t dilation;
    /* the number of groups of channels, each with its own kernels; default 1 */
    int64_t groups;
} tg_conv1d_config;

TG_API tg_conv1d_config tg_conv1d_config_default(void);

/* torch.nn.functional.conv1d: x (B,C,T), weight (O,C/groups,K) and bias (O), which is optional -> (B,O,T') with
 * T' = (T + 2 padding - dilation (K - 1) - 1) / stride + 1. VALUE for an invalid option; SHAPE also for a kernel that
 * does not fit into a sequence. Where a weight is infinite or NaN, an output whose window reaches into the padding is
 * NaN or leaves the weight out, as in torch. */
TG_API tg_tensor *tg_conv1d(tg_tape *tape, tg_tensor *x, tg_tensor *weight, tg_tensor *bias,
                            const tg_conv1d_config *config);

typedef struct tg_pool1d_config {
    /* private: tg_pool1d_config_default() sets it */
    tg_config_mark mark;
    /* the distance from one window to the next, or 0 for the size of a window; default 0 */
    int64_t stride;
    /* the number of positions that are added at each end, at most half a window; default 0 */
    int64_t padding;
    /* the distance between the values of a window, 1 for tg_avg_pool1d; default 1 */
    int64_t dilation;
} tg_pool1d_config;

TG_API tg_pool1d_config tg_pool1d_config_default(void);

/* The maximum, or the mean, of each window of `kernel` values along the last axis: x (..,T) -> (..,T'), with T' as for
 * tg_conv1d. Added positions count as -inf in a maximum, and as 0 in a mean, which divides by `kernel`. With dilation a
 * window may have only added positions; its maximum is -inf. On ties the gradient of a maximum goes to the first value.
 * Errors as for tg_conv1d. */
TG_API tg_tensor *tg_max_pool1d(tg_tape *tape, tg_tensor *x, int64_t kernel, const tg_pool1d_config *config);
TG_API tg_tensor *tg_avg_pool1d(tg_tape *tape, tg_tensor *x, int64_t kernel, const tg_pool1d_config *config);

#ifdef __cplusplus
}
#endif

#endif
