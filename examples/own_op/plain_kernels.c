/* plain_kernels: checks a pair of functions that know only arrays: y[i,:] = table[id[i],:], and its gradient. */
#include <stdio.h>

#include <tapegrad.h>

enum { IDS = 3, ROWS = 4, WIDTH = 2 };

static void forward(void *context, const void *const *inputs, void *y)
{
    const int32_t *ids = inputs[0];
    const double *table = inputs[1];
    for (int i = 0; i < IDS * WIDTH; i++) {
        ((double *)y)[i] = table[ids[i / WIDTH] * WIDTH + i % WIDTH];
    }
    (void)context;
}

static void backward(void *context, const void *const *inputs, const void *dy, void *const *gradients)
{
    const int32_t *ids = inputs[0];
    double *dtable = gradients[1];
    for (int i = 0; i < IDS * WIDTH; i++) {
        dtable[ids[i / WIDTH] * WIDTH + i % WIDTH] += ((const double *)dy)[i]; /* try = */
    }
    (void)context;
}

int main(void)
{
    const double values[ROWS * WIDTH] = {1, 2, 3, 4, 5, 6, 7, 8};
    tg_gradcheck_report report;
    tg_tensor *inputs[] = {tg_tensor_new_from_i32(TG_SHAPE(IDS), (int32_t[]){2, 0, 2}, NULL),
                           tg_tensor_new_from_f64(TG_SHAPE(ROWS, WIDTH), values, NULL)};
    tg_tensor_set_requires_grad(inputs[1], true, NULL);
    tg_gradcheck_kernels kernels = {forward, backward, NULL, TG_SHAPE(IDS, WIDTH)};
    bool passed = tg_gradcheck_arrays(&kernels, inputs, 2, NULL, &report, NULL);
    puts(report.text);
    tg_release(inputs[0]), tg_release(inputs[1]);
    return passed ? 0 : 1;
}
