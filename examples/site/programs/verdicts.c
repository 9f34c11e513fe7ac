/* verdicts: what a gradient check says of each input; a kink; the Taylor mode; and a check of second derivatives. */
#include <stdio.h>

#include <tapegrad.h>

static tg_tensor *bent(tg_tape *tape, tg_tensor *const *inputs, int input_count, void *context)
{
    (void)input_count, (void)context;
    return tg_relu(tape, tg_mul(tape, inputs[0], inputs[1]));
}

static tg_tensor *smooth(tg_tape *tape, tg_tensor *const *inputs, int input_count, void *context)
{
    (void)input_count, (void)context;
    return tg_exp(tape, tg_mul(tape, inputs[0], inputs[1]));
}

static tg_gradcheck_report report;

static bool say(const char *title, bool passed)
{
    printf("%s: %s\n%s\n\n", title, passed ? "passed" : report.text, report.verdict);
    return passed;
}

int main(void)
{
    tg_error error = TG_NO_ERROR;
    tg_tensor *inputs[] = {tg_tensor_new_from_f64(TG_SHAPE(3), (double[]){1, 0, -2}, &error),
                           tg_tensor_new_from_f64(TG_SCALAR, (double[]){0.5}, &error)};
    tg_tensor_set_requires_grad(inputs[0], true, &error);
    tg_tensor_set_requires_grad(inputs[1], true, &error);
    tg_gradcheck_config config = tg_gradcheck_config_default();
    config.input_names = (const char *const[]){"x", "scale"};
    config.input_name_count = 2;
    bool good = !say("relu at 0", tg_gradcheck(bent, NULL, inputs, 2, &config, &report, NULL));
    config.skip_kinks = true;
    good &= say("skip_kinks", tg_gradcheck(bent, NULL, inputs, 2, &config, &report, &error));
    good &= say("tg_gradgradcheck", tg_gradgradcheck(smooth, NULL, inputs, 2, &config, &report, &error));
    config.mode = TG_GRADCHECK_TAYLOR;
    good &= say("Taylor", tg_gradcheck(smooth, NULL, inputs, 2, &config, &report, &error));
    tg_release(inputs[0]);
    tg_release(inputs[1]);
    return good ? 0 : 1;
}
