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
#include "tape/backward.h"

typedef struct second {
    tg_gradcheck_function function;
    void *context;
    double atol, rtol;
    const char **names; /* of the inputs and of dy; NULL: it has none */
    bool compared;      /* whether the gradients in ops were compared with those of the kernels */
    /* lists of as many tensors as there are inputs: those that require a gradient, and these, in ops and by kernels */
    tg_tensor **targets, **gradients, **by_kernels;
    int count;
} second;

/* Computes the gradients of the targets, from dy. */
static bool differentiate(const second *s, tg_tape *t, tg_tensor *y, tg_tensor *dy, bool create_graph,
                          tg_tensor **gradients)
{
    tg_grad_config config = tg_grad_config_default();
    config.output_gradients = &dy;
    config.output_gradient_count = 1;
    config.create_graph = create_graph;
    config.retain_graph = config.allow_unused = true;
    return tg_grad(t, &y, 1, s->targets, s->count, gradients, &config);
}

/* Checks that the gradients in ops are those of the backward kernels, of which their differences know nothing: from dy,
 * from zeros, and from a larger gradient. */
static bool compare(second *s, tg_tape *t, tg_tensor *y, tg_tensor *dy, tg_tensor *const *inputs, int input_count)
{
    static const double scales[] = {1, 0, 4};
    for (int k = 0; k < 3; k++) {
        tg_tensor *scaled = tg_mul_scalar(t, dy, scales[k]);
        if (!scaled || !differentiate(s, t, y, scaled, true, s->gradients) ||
            !differentiate(s, t, y, scaled, false, s->by_kernels)) {
            return false;
        }
        for (int i = 0; i < s->count; i++) {
            const tg_tensor *ops = s->gradients[i], *kernels = s->by_kernels[i];
            for (int64_t j = 0; j < s->targets[i]->count; j++) {
                double a = ops ? tg_get(ops, j) : 0, expected = kernels ? tg_get(kernels, j) : 0;
                if (!(fabs(a - expected) <= s->atol + s->rtol * fabs(expected))) {
                    char index[TG_SHAPE_TEXT];
                    tg_shape shape = tg_shape_of(s->targets[i]);
                    int input = tg_find_tensor(inputs, input_count, s->targets[i]);
                    const char *name = s->names[input] ? s->names[input] : "";
                    return tg_tape_fail(t, TG_ERROR_VALUE, "grad",
                                        "the gradient of input %d%s%.*s at %s, from %g dy, is %.9g in ops "
                                        "(tg_op.differentiate), and %.9g by the backward kernels",
                                        input, *name ? " " : "", TG_CUT(name, 100), tg_index_format(&shape, j, index),
                                        scales[k], a, expected);
                }
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
    int found = 0;
    s->count = 0;
    for (int i = 0; i < input_count - 1; i++) {
        if (tg_tensor_requires_grad(inputs[i])) {
            s->targets[s->count++] = inputs[i];
        }
    }
    if (!y || (!s->compared && !compare(s, t, y, dy, inputs, input_count - 1)) ||
        !differentiate(s, t, y, dy, true, s->gradients)) {
        return NULL;
    }
    for (int i = 0; i < s->count; i++) {
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
static bool check(second *s, tg_tensor *const *inputs, int input_count, tg_tensor *dy, tg_gradcheck_config *config,
                  tg_gradcheck_report *report, tg_error *error)
{
    size_t count = (size_t)input_count + 1;
    tg_tensor **all = tg_alloc(4 * count, sizeof *all);
    s->names = tg_alloc_zeroed(count, sizeof *s->names);
    bool passed = false;
    if (all && s->names) {
        s->targets = all + count;
        s->gradients = s->targets + count;
        s->by_kernels = s->gradients + count;
        for (int i = 0; i < input_count; i++) {
            all[i] = inputs[i];
            s->names[i] = i < config->input_name_count ? config->input_names[i] : NULL;
        }
        all[input_count] = dy;
        s->names[input_count] = "dy";
        config->input_names = s->names;
        config->input_name_count = input_count + 1;
        passed = tg_gradcheck(first_derivatives, s, all, input_count + 1, config, report, error);
    } else {
        tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory", config->name);
    }
    tg_free(all);
    tg_free(s->names);
    return passed;
}

/* Checks that an input requires a gradient: dy does in any case. */
static bool has_target(tg_tensor *const *inputs, int input_count, tg_error *error)
{
    bool found = false;
    for (int i = 0; i < input_count; i++) {
        found |= tg_tensor_requires_grad(inputs[i]);
    }
    return found || tg_error_set(error, TG_ERROR_STATE,
                                 "gradgradcheck: no input requires a gradient: there is nothing to check");
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
    if (tg_check_arguments(call, &arguments, given, &own_error) && has_target(inputs, input_count, &own_error)) {
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
