/* digits: pictures of the ten digits in a font of 5 x 7 dots, shifted and noisy, read by two layers. Every step draws
 * new pictures. Prints the loss of the last step, and the accuracy of its pictures. */
#include "recipe.h"

#include <tapegrad_tools.h>

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
    recipe_options("pictures of the ten digits, read by two layers", NULL, argc, argv);
    recipe r = recipe_begin(123);
    tg_tape *t = r.tape;
    tg_nn_linear hidden = tg_nn_linear_make(r.params, "hidden", HEIGHT * WIDTH, 32, TG_BIAS);
    tg_nn_linear head = tg_nn_linear_make(r.params, "head", 32, 10, TG_BIAS);
    tg_adam_config adam = tg_adam_config_default();
    adam.lr = 0.01;
    r.optim = tg_adam_new(r.params, &adam);

    tg_tensor *pictures = tg_full(r.data, TG_F32, TG_SHAPE(PICTURES, HEIGHT * WIDTH), 0);
    tg_tensor *shifts = tg_full(r.data, TG_I32, TG_SHAPE(PICTURES, 2), 0);
    tg_tensor *digits = tg_full(r.data, TG_I32, TG_SHAPE(PICTURES), 0);
    tg_tensor *logits = NULL, *loss = NULL;
    recipe_check(&r);
    for (int step = 0; step < STEPS; step++) {
        tg_tape_reset(t);
        tg_tensor_fill_normal(pictures, tg_run_rng(r.run), 0, 0.2, &r.error);
        tg_tensor_fill_randint(shifts, tg_run_rng(r.run), 0, 3, &r.error);
        float *picture = tg_tensor_data_mut(pictures);
        int32_t *shift = tg_tensor_data_mut(shifts), *digit = tg_tensor_data_mut(digits);
        for (int i = 0; i < PICTURES; i++) {
            digit[i] = i % 10;
            draw(picture + i * HEIGHT * WIDTH, font[digit[i]], shift[2 * i], shift[2 * i + 1]);
        }
        logits = tg_nn_linear_forward(t, &head, tg_relu(t, tg_nn_linear_forward(t, &hidden, pictures)));
        loss = tg_cross_entropy(t, logits, digits, NULL);
        tg_optim_zero_grad(r.optim);
        tg_backward(t, loss, NULL);
        tg_optim_step(r.optim);
        recipe_check(&r);
    }
    tg_accuracy accuracy = {0, 0};
    tg_accuracy_add(&accuracy, logits, digits, NULL, &r.error);
    printf("loss %.3f, %d of %d right\n", tg_tensor_item(loss, &r.error), (int)accuracy.correct, PICTURES);
    return recipe_end(&r);
}
