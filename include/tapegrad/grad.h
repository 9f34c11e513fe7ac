/* grad: gradients as results, and gradients of gradients.
 *
 * tg_backward adds gradients to leaves. tg_grad returns them instead, as results of the same tape, and changes no leaf.
 * With create_graph they are recorded, and may be used in a loss, or be differentiated again. A gradient penalty:
 *
 * ```c
 * tg_grad_config config = tg_grad_config_default();
 * config.create_graph = true;
 * tg_tensor *slope, *loss = tg_mean(t, tg_exp(t, x), TG_ALL_AXES, TG_DROP_AXES);
 * tg_grad(t, &loss, 1, &x, 1, &slope, &config);
 * tg_backward(t, tg_mean(t, tg_mul(t, slope, slope), TG_ALL_AXES, TG_DROP_AXES), NULL);
 * ```
 *
 * With create_graph each op on the way must have its gradient written in ops (tg_op.differentiate), else the call is an
 * error: "grad: 'conv1d' has no second derivative". These have it:
 *   - add, sub, mul, div, pow, with numbers, too; maximum, minimum, remainder, clamp, where, masked_fill, tril, triu;
 *   - neg, exp, log, sqrt, sin, cos, abs, sign, round, floor, tanh, sigmoid, relu, leaky_relu, elu, gelu, gelu_tanh,
 *     silu, softplus, log_sigmoid; dropout, with the same draws; cast;
 *   - sum, mean, amax, amin, var, std, logsumexp, norm, cumsum, topk, sort;
 *   - all shapes and views, cat, stack, gather, index_select, scatter_add, index_add, embedding;
 *   - matmul, linear, softmax, log_softmax, layer_norm, rms_norm, rotary, scaled_dot_product_attention;
 *   - cross_entropy with ids, nll_loss, mse_loss, binary_cross_entropy_with_logits.
 * Without create_graph every op will do.
 */
#ifndef TAPEGRAD_GRAD_H
#define TAPEGRAD_GRAD_H

#include <tapegrad/tape.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tg_grad_config {
    /* private: tg_grad_config_default() sets it */
    tg_config_mark mark;
    /* The gradient of each output from which the pass starts, of the output's shape and dtype, and their number, that
     * of the outputs; torch: grad_outputs. An element may be NULL: 1, for an output of one value. If they require a
     * gradient themselves, the results of create_graph depend on them, too. Default NULL and 0: 1 for each. */
    tg_tensor *const *output_gradients;
    int output_gradient_count;
    /* Whether the gradients are recorded, so that they can be differentiated. It retains the graph. Default false. */
    bool create_graph;
    /* Whether another backward can go through the same records (tg_backward_config.retain_graph). Default false. */
    bool retain_graph;
    /* Whether the gradient of an input on which no output depends is NULL, and not an error. Default false. */
    bool allow_unused;
} tg_grad_config;

TG_API tg_grad_config tg_grad_config_default(void);

/* Computes the gradients of the sum of some outputs with respect to some inputs: torch.autograd.grad. The inputs are
 * leaves or results of the tape. gradients[i] receives that of inputs[i], which the tape owns: dense, contiguous, and
 * of its shape and dtype. No gradient of a tensor (tg_tensor_grad) changes. Frozen rows have a gradient of zero.
 *
 * After an error it returns false, all gradients are NULL, and nothing else has changed:
 *   - STATE: the run has an error; an output or an input that requires no gradient, or of another tape; an input on
 *     which no output depends (allow_unused); records that an earlier backward has freed; a tensor that was freed, or
 *     modified or resized after an op that needs its old values; a call between tg_activation_checkpoint_begin and its
 *     end, or with create_graph a span of them on the way; more than tg_tape_config.max_backwards without a reset;
 *   - VALUE: no outputs or no inputs; another number of output_gradients; with create_graph an op without a second
 *     derivative;
 *   - SHAPE, DTYPE: an output with more or less than one value without its gradient; such a gradient of another shape
 *     or dtype; outputs of several dtypes;
 *   - MEMORY. */
TG_API bool tg_grad(tg_tape *tape, tg_tensor *const *outputs, int output_count, tg_tensor *const *inputs,
                    int input_count, tg_tensor **gradients, const tg_grad_config *config);

/* Computes a loss, a scalar, on the tape. `context` is the argument of tg_hvp. */
typedef tg_tensor *(*tg_loss_function)(tg_tape *tape, void *context);

typedef struct tg_hvp_config {
    /* private: tg_hvp_config_default() sets it */
    tg_config_mark mark;
    /* The step h of differences, > 0: the product is (g(x + h v) - g(x - h v)) / 2h, with the gradient g, which needs
     * no second derivative of an op. The inputs are moved and moved back, so backward no longer goes through earlier
     * calls that read them. 0: exact. Default 0. */
    double step;
} tg_hvp_config;

TG_API tg_hvp_config tg_hvp_config_default(void);

/* Computes a Hessian-vector product, of the second derivatives of a loss with respect to leaves and of a vector with
 * one part for each leaf: torch.autograd.functional.hvp. vectors[i] and products[i] have the shape and dtype of
 * inputs[i]; the tape owns the products, which are not recorded. By differences `loss` is called twice, each time with
 * the same state of the generator.
 *
 * Returns false after an error, and then nothing has changed: those of tg_grad and of `loss`; STATE for an input that
 * is no leaf; VALUE for a step that is negative or not finite. */
TG_API bool tg_hvp(tg_tape *tape, tg_loss_function loss, void *context, tg_tensor *const *inputs, int count,
                   tg_tensor *const *vectors, tg_tensor **products, const tg_hvp_config *config);

#ifdef __cplusplus
}
#endif

#endif
