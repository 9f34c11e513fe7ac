/* digits: pictures of the ten digits in a font of 5 x 7 dots, shifted and noisy, read by two layers. Every step draws
 * new pictures. Prints the loss of the last step, and the accuracy of its pictures. */
#include <stdio.h>

#include <tapegrad.h>

#include "../common/command_line.h"
#include "../common/program.h"

const char program_name[] = "cookbook_digits";

enum { HEIGHT = 9, WIDTH = 7, PICTURES = 50, STEPS = 150 };

static const char *const font[10] = {" ### #   ##  ### # ###  ##   # ### ", "  #   ##    #    #    #    #   ### ",
                                     " ### #   #    #   #   #   #   #####", "#####   #   #     #     ##   # ### ",
                                     "   #   ##  # # #  # #####   #    # ", "######    ####     #    ##   # ### ",
                                     "  ##  #   #    #### #   ##   # ### ", "#####    #   #   #   #    #    #   ",
                                     " ### #   ##   # ### #   ##   # ### ", " ### #   ##   # ####    #   #  ##  "};

/* Draws a digit, moved right and down by the shifts, which are 0 to 2. */
static void draw(float *picture, const char *dots, int right, int down)
{
    for (int i = 0; dots[i]; i++) {
        picture[(i / 5 + down) * WIDTH + i % 5 + right] += dots[i] == '#' ? 1 : 0;
    }
}

int main(int argc, char **argv)
{
    int status =
        command_line_refuse_options("cookbook_digits: pictures of the ten digits, read by two layers\n", argc, argv);
    if (status >= 0) {
        return status;
    }
    tg_error error = TG_NO_ERROR;
    tg_rng *rng = tg_rng_new(123);
    tg_params *params = tg_params_new(TG_F32, rng);
    tg_tape *t = tg_tape_new(rng, NULL);
    tg_nn_linear hidden = tg_nn_linear_make(params, "hidden", HEIGHT * WIDTH, 32, NULL);
    tg_nn_linear head = tg_nn_linear_make(params, "head", 32, 10, NULL);
    tg_adam_config adam = tg_adam_config_default();
    adam.lr = 0.01;
    tg_optim *optim = tg_adam_new(params, &adam);

    tg_tensor *pictures = tg_tensor_new(TG_F32, TG_SHAPE(PICTURES, HEIGHT * WIDTH), &error);
    tg_tensor *shifts = tg_tensor_new(TG_I32, TG_SHAPE(PICTURES, 2), &error);
    int32_t digits[PICTURES];
    tg_accuracy accuracy = {0, 0};
    double last = 0;
    for (int step = 0; step < STEPS; step++) {
        tg_tape_reset(t);
        tg_tensor_fill_normal(pictures, rng, 0, 0.2, &error);
        tg_tensor_fill_randint(shifts, rng, 0, 3, &error);
        float *values = tg_tensor_data_mut(pictures);
        const int32_t *shift = tg_tensor_data(shifts);
        for (int i = 0; i < PICTURES; i++) {
            digits[i] = i % 10;
            draw(values + i * HEIGHT * WIDTH, font[i % 10], shift[2 * i], shift[2 * i + 1]);
        }
        tg_tensor *targets = tg_constant(t, TG_I32, TG_SHAPE(PICTURES), digits);
        tg_tensor *logits = tg_nn_linear_forward(t, &head, tg_relu(t, tg_nn_linear_forward(t, &hidden, pictures)));
        tg_tensor *loss = tg_cross_entropy(t, logits, targets, NULL);
        tg_optim_zero_grad(optim);
        if (!tg_backward(t, loss, NULL) || !tg_optim_step(optim)) {
            fprintf(stderr, "%s\n", tg_tape_error(t)->text);
            return 1;
        }
        last = tg_tensor_item(loss, &error);
        accuracy = (tg_accuracy){0, 0};
        tg_accuracy_add(&accuracy, logits, targets, NULL, &error);
    }
    printf("loss %.3f, %lld of %lld right\n", last, (long long)accuracy.correct, (long long)accuracy.count);

    tg_optim_free(optim);
    tg_release(pictures);
    tg_release(shifts);
    tg_tape_free(t);
    tg_params_free(params);
    tg_rng_free(rng);
    return error.code == TG_OK ? 0 : 1;
}
