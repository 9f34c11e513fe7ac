/* plain_kernels: checks a pair of functions that know only arrays: y[i,:] = table[id[i],:], and its gradient.
 *
 * It prints the verdict on each input, and a map of the table: "." is right, "#" wrong, "?" at a kink. If the loop of
 * backward begins with i = 1, row 2 becomes "#.". With = for += nothing is compared: the check says first that backward
 * must add, and names id 2, which occurs twice.
 */
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
        dtable[ids[i / WIDTH] * WIDTH + i % WIDTH] += ((const double *)dy)[i];
    }
    (void)context;
}

/* Receives each entry that is compared: the derivative of one value of y. A value of the table keeps its worst mark. */
static void mark(void *map, const tg_gradcheck_pair *pair)
{
    char *value = (char *)map + pair->input_index; /* of the table, the only input with a gradient */
    if (pair->verdict != TG_GRADCHECK_RIGHT && *value != '#') {
        *value = pair->verdict == TG_GRADCHECK_WRONG ? '#' : '?';
    }
}

int main(void)
{
    char map[] = "........";
    const double values[ROWS * WIDTH] = {1, 2, 3, 4, 5, 6, 7, 8};
    tg_gradcheck_report report;
    tg_tensor *inputs[] = {tg_tensor_new_from_i32(TG_SHAPE(IDS), (int32_t[]){2, 0, 2}, NULL),
                           tg_tensor_new_from_f64(TG_SHAPE(ROWS, WIDTH), values, NULL)};
    tg_tensor_set_requires_grad(inputs[1], true, NULL);
    tg_gradcheck_kernels kernels = {forward, backward, NULL, TG_SHAPE(IDS, WIDTH)};
    tg_gradcheck_config config = tg_gradcheck_config_default();
    config.input_names = (const char *const[]){"ids", "table"};
    config.input_name_count = 2;
    config.on_pair = mark;
    config.pair_context = map;
    bool passed = tg_gradcheck_arrays(&kernels, inputs, 2, &config, &report, NULL);
    puts(report.text);
    puts(report.verdict);
    for (int row = 0; row < ROWS && report.compared > 0; row++) {
        printf("    %.*s\n", WIDTH, map + row * WIDTH);
    }
    tg_release(inputs[0]), tg_release(inputs[1]);
    return passed ? 0 : 1;
}
