/* train: the five calls of every training step.
 *
 * The tape is emptied, the loss is computed, the old gradients are set to zero, backward computes
 * new ones, and the optimizer moves the weights. The order matters: without zeroing, the gradients
 * of all steps add up; without emptying, the tape grows until it refuses.
 *
 *     tg_tape_reset(t)                                    empties the tape
 *     tg_gpt_loss(t, model, inputs, targets, config)      the loss; the config may be NULL
 *     tg_optim_zero_grad(optim)                           sets the gradients to zero
 *     tg_backward(t, loss, seed)                          new gradients; the seed may be NULL
 *     tg_optim_step(optim)                                moves the weights
 *
 * These functions are those of the library, in include/tapegrad.
 *
 * Shapes: ids and targets (steps,batch,time), the batches of all steps -> losses (steps), the loss
 * before each step.
 *
 * The rules: functions of your own are static, variables local or const, headers <math.h>, <stdbool.h>,
 * <stdint.h>, <stdio.h>, <stdlib.h> or <string.h>; no pragma, #line, asm or attribute.
 *
 * Predict: the model learns one batch again and again. Where does its loss go? */
#include <tapegrad.h>

void train(tg_tape *t, const tg_gpt *model, tg_optim *optim, int steps, int batch, int time, const int *ids,
           const int *targets, double *losses)
{
    for (int step = 0; step < steps; step++) {
        int place = step * batch * time;
        /* your part: tg_tape_reset, tg_gpt_loss, tg_optim_zero_grad, tg_backward, tg_optim_step */
        tg_tensor *inputs = tg_constant_i32(t, TG_SHAPE(batch, time), ids + place);
        tg_tensor *goals = tg_constant_i32(t, TG_SHAPE(batch, time), targets + place);
        tg_tensor *loss = tg_gpt_loss(t, model, inputs, goals, NULL);
        losses[step] = tg_tensor_item(loss, NULL);
        /* end of your part */
    }
}
