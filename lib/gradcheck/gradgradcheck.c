/* gradgradcheck: a check of second derivatives, as the gradient check of a function that returns first ones in ops,
 * after these were compared with those of the backward kernels.
 *
 * That function has one input more, dy, the gradient of the result, and returns the gradients of all other inputs one
 * after the other. So its derivatives are those of tg_grad with respect to the inputs and to dy. Follows
 * torch.autograd.gradgradcheck.
 */
#include <stdio.h>
#include <string.h>

#include <tapegrad/grad.h>
#include <tapegrad/ops.h>

#include "base/alloc.h"
#include "base/run.h"
#include "gradcheck/gradcheck.h"
#include "tape/tape.h"

typedef struct second {
    tg_gradcheck_function function;
    void *context;
    double atol, rtol;
    bool compared; /* whether the gradients in ops were compared with those of the kernels */
    /* lists of as many tensors as there are inputs: those that require a gradient, and these, in ops and by kernels */
    tg_tensor **targets, **gradients, **by_kernels;
} second;

/* Checks that the gradients in ops are those of the backward kernels, of which their differences know nothing. */
static bool compare(second *s, tg_tape *t, tg_tensor *y, int count, const tg_grad_config *given)
{
    tg_grad_config config = *given;
    config.create_graph = false;
    config.retain_graph = true;
    if (!tg_grad(t, &y, 1, s->targets, count, s->by_kernels, &config)) {
        return false;
    }
    for (int i = 0; i < count; i++) {
        for (int64_t k = 0; k < s->targets[i]->count; k++) {
            double kernel = s->by_kernels[i] ? tg_get(s->by_kernels[i], k) : 0;
            double ops = s->gradients[i] ? tg_get(s->gradients[i], k) : 0;
            if (!(fabs(ops - kernel) <= s->atol + s->rtol * fabs(kernel))) {
                char index[TG_SHAPE_TEXT];
                tg_shape shape = tg_shape_of(s->targets[i]);
                return tg_tape_fail(t, TG_ERROR_VALUE, "grad",
                                    "first derivative %d, value %s: %.9g by ops (tg_op.differentiate), and %.9g by the "
                                    "backward kernels",
                                    i, tg_index_format(&shape, k, index), ops, kernel);
            }
        }
    }
    s->compared = true;
    return true;
}

/* Returns the gradients of the inputs, in one row. The last input is dy. */
static tg_tensor *first_derivatives(tg_tape *t, tg_tensor *const *inputs, int input_count, void *context)
{
    second *s = context;
    tg_tensor *dy = inputs[input_count - 1];
    tg_tensor *y = s->function(t, inputs, input_count - 1, s->context);
    int count = 0, found = 0;
    for (int i = 0; i < input_count - 1; i++) {
        if (tg_tensor_requires_grad(inputs[i])) {
            s->targets[count++] = inputs[i];
        }
    }
    tg_grad_config config = tg_grad_config_default();
    config.output_gradients = &dy;
    config.output_gradient_count = 1;
    config.create_graph = config.allow_unused = true;
    if (!y || !tg_grad(t, &y, 1, s->targets, count, s->gradients, &config) ||
        (!s->compared && !compare(s, t, y, count, &config))) {
        return NULL;
    }
    for (int i = 0; i < count; i++) {
        if (s->gradients[i]) {
            s->gradients[found++] = tg_reshape(t, s->gradients[i], TG_SHAPE(-1));
        }
    }
    return tg_cat(t, s->gradients, found, 0);
}

/* Returns a leaf for dy, with random values of 1/2 to 1 of either sign; NULL with the error set. The function is called
 * once, because it gives the shape. */
static tg_tensor *make_dy(tg_gradcheck_function function, void *context, tg_tensor *const *inputs, int input_count,
                          const tg_gradcheck_config *config, tg_error *error)
{
    tg_run *run = tg_run_new(config->projection_seed);
    tg_tape *t = run ? tg_tape_new(run, NULL) : NULL;
    tg_rng rng;
    if (t) {
        tg_rng_copy(&rng, t->rng);
        tg_tape_set_training(t, config->training);
        tg_tape_set_recording(t, false);
    }
    tg_tensor *y = t ? function(t, inputs, input_count, context) : NULL, *dy = NULL;
    if (y && !tg_dtype_is_float(y->dtype)) {
        tg_tape_fail(t, TG_ERROR_DTYPE, config->name, "the result is %s; it must be f32 or f64",
                     tg_dtype_name(tg_dtype_of(y)));
    } else if (y) {
        dy = tg_tensor_new(tg_dtype_of(y), tg_shape_of(y), run->error);
    }
    for (int64_t i = 0; dy && i < dy->count; i++) {
        tg_put(dy, i, tg_check_draw(&rng, true));
    }
    if (dy && !tg_tensor_set_requires_grad(dy, tg_dtype_of(dy) == config->dtype, run->error)) {
        tg_release(dy);
        dy = NULL;
    }
    if (!t) {
        tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory", config->name);
    } else if (!dy) {
        tg_error_set(run->error, TG_ERROR_STATE, "%s: the function returned NULL without an error", config->name);
        tg_error_copy(error, run->error);
    }
    tg_tape_free(t);
    tg_run_free(run);
    return dy;
}

/* Runs the check with the inputs and dy. */
static bool check(second *s, tg_tensor *const *inputs, int input_count, tg_tensor *dy,
                  const tg_gradcheck_config *config, tg_gradcheck_report *report, tg_error *error)
{
    size_t count = (size_t)input_count + 1;
    tg_tensor **all = tg_alloc(4 * count, sizeof *all);
    if (!all) {
        return tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory", config->name);
    }
    s->targets = all + count;
    s->gradients = s->targets + count;
    s->by_kernels = s->gradients + count;
    for (int i = 0; i < input_count; i++) {
        all[i] = inputs[i];
    }
    all[input_count] = dy;
    bool passed = tg_gradcheck(first_derivatives, s, all, input_count + 1, config, report, error);
    tg_free(all);
    return passed;
}

bool tg_gradgradcheck(tg_gradcheck_function function, void *context, tg_tensor *const *inputs, int input_count,
                      const tg_gradcheck_config *given, tg_gradcheck_report *report, tg_error *error)
{
    static const char call[] = "gradgradcheck";
    tg_gradcheck_config config = given ? *given : tg_gradcheck_config_default();
    bool is_named = config.name && strcmp(config.name, tg_gradcheck_config_default().name) != 0;
    config.name = is_named ? config.name : call;
    tg_error own_error = TG_NO_ERROR;
    const tg_check arguments = {.function = function, .given = inputs, .input_count = input_count};
    tg_tensor *dy = NULL;
    if (tg_check_arguments(call, &arguments, given, &own_error)) {
        if (config.reference) {
            tg_error_set(&own_error, TG_ERROR_VALUE, "%s: a reference has no gradients; use f64, or numeric_in_f64",
                         call);
        } else {
            dy = make_dy(function, context, inputs, input_count, &config, &own_error);
        }
    }
    if (report) {
        *report = (tg_gradcheck_report){.input = -1, .input_index = -1, .output_index = -1};
    }
    second s = {.function = function, .context = context, .atol = config.atol, .rtol = config.rtol};
    bool passed = dy && check(&s, inputs, input_count, dy, &config, report, &own_error);
    tg_release(dy);
    if (!passed) {
        tg_error_copy(error, &own_error);
        if (report) {
            snprintf(report->text, sizeof report->text, "%s", own_error.text);
        }
    }
    return passed;
}
