/* 04: Why does a deep network need shortcuts? Shortcut connections. In a network of five layers the gradients of the
 * first layers are very small, unless the input of each layer is added to its output. */
#include "../book.h"

#include <math.h>

#define LAYERS 5

static void make_layers(tg_params *params, const char *name, tg_nn_linear layers[LAYERS])
{
    const int64_t sizes[LAYERS + 1] = {3, 3, 3, 3, 3, 1};
    for (int i = 0; i < LAYERS; i++) {
        char full[64];
        snprintf(full, sizeof full, "%s.layers.%d.0", name, i);
        layers[i] = tg_nn_linear_make(params, full, sizes[i], sizes[i + 1], TG_BIAS);
    }
    check(tg_params_error(params));
}

static tg_tensor *forward(tg_tape *t, const tg_nn_linear layers[LAYERS], tg_tensor *x, bool shortcuts)
{
    for (int i = 0; i < LAYERS; i++) {
        tg_tensor *y = tg_gelu_tanh(t, tg_nn_linear_forward(t, &layers[i], x));
        x = y && shortcuts && tg_shape_equal(tg_tensor_shape(x), tg_tensor_shape(y)) ? tg_add(t, x, y) : y;
    }
    return x;
}

static void print_gradients(tg_tape *t, const tg_nn_linear layers[LAYERS])
{
    for (int i = 0; i < LAYERS; i++) {
        tg_tensor *size = tg_abs(t, tg_tensor_grad(layers[i].weight));
        printf("layers.%d.0.weight has gradient mean of %.17g\n", i, tg_tensor_item(tg_mean_all(t, size), NULL));
    }
}

int main(int argc, char **argv)
{
    book_begin(argc, argv);
    question("Why does a deep network need shortcuts?");
    tg_run *run = tg_run_new(0);
    tg_params *params = tg_params_new(run, TG_F32);
    tg_tape *t = book_tape(run);
    tg_tensor *x = tg_tensor_new_from_f32(TG_SHAPE(1, 3), (float[]){1, 0, -1}, NULL);
    tg_tensor *target = tg_tensor_new_full(TG_F32, TG_SHAPE(1, 1), 0, NULL);
    for (int shortcuts = 0; shortcuts < 2; shortcuts++) {
        tg_nn_linear layers[LAYERS];
        /* the same initial weights for both networks */
        tg_rng_seed(tg_run_rng(run), 123);
        make_layers(params, shortcuts ? "with" : "without", layers);
        tg_tensor *y = forward(t, layers, x, shortcuts);
        tg_backward(t, tg_mse_loss(t, y, target, TG_REDUCTION_MEAN), NULL);
        cell(shortcuts ? 57 : 55);
        print_gradients(t, layers);
    }
    check(tg_tape_error(t));
    tg_tape_free(t);
    tg_release(x);
    tg_release(target);
    tg_params_free(params);
    tg_run_free(run);
    return book_end();
}
