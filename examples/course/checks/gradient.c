/* gradient: the student's functions as an op of the library, for tg_gradcheck; and what the library computes. */
#include "check.h"

#include <tapegrad/ledger.h>
#include <unistd.h>

#include "internal.h"
#include "tape.h"

/* ---- gradients --------------------------------------------------------------------------------------------------- */

/* The student's functions as an op of the library. Its attributes are a pointer to the check. */
static const course_gradient *gradient_of_call(const tg_op_call *op_call)
{
    const course_gradient *const *attributes = op_call->attributes;
    return *attributes;
}

static int count_of(course_array array)
{
    return array.rows * (array.columns > 0 ? array.columns : 1);
}

static tg_shape shape_of(course_array array)
{
    return array.columns > 0 ? TG_SHAPE(array.rows, array.columns) : TG_SHAPE(array.rows);
}

static bool student_shape(tg_op_call *op_call)
{
    return tg_op_output(op_call, 0, TG_F64, shape_of(gradient_of_call(op_call)->result));
}

static int add_context(course_argument *arguments, const tg_op_call *op_call, const course_gradient *g)
{
    int count = 0;
    for (int i = 0; i < g->context_count; i++) {
        arguments[count++] = g->context[i];
    }
    for (int i = 0; i < g->input_count; i++) {
        const double *values = tg_tensor_data(op_call->inputs[i]);
        arguments[count++] = IN(values, count_of(g->inputs[i]));
    }
    return count;
}

static void student_forward(const tg_op_call *op_call)
{
    const course_gradient *g = gradient_of_call(op_call);
    course_argument arguments[MAX_ARGUMENTS];
    int count = add_context(arguments, op_call, g);
    double *y = tg_tensor_data_mut(op_call->outputs[0]);
    arguments[count++] = OUT(y, count_of(g->result));
    call(g->forward, arguments, count);
}

static void student_backward(const tg_op_call *op_call)
{
    const course_gradient *g = gradient_of_call(op_call);
    course_argument arguments[MAX_ARGUMENTS];
    int count = add_context(arguments, op_call, g);
    const double *dy = op_call->output_gradients[0];
    arguments[count++] = IN(dy, count_of(g->result));
    for (int i = 0; i < g->input_count; i++) {
        double *dx = op_call->input_gradients[i];
        arguments[count++] = INOUT(dx, count_of(g->inputs[i]));
    }
    call(g->backward, arguments, count);
}

static const tg_op student_op = {
    .name = "backward",
    .shape = student_shape,
    .f64 = {student_forward, student_backward},
    .backward_ignores_outputs = TG_OP_ALL,
};

static tg_tensor *student_function(tg_tape *t, tg_tensor *const *inputs, int input_count, void *context)
{
    return tg_apply(t, &student_op, inputs, input_count, &context, sizeof context, NULL);
}

static void mark(void *maps, const tg_gradcheck_pair *pair)
{
    if (pair->verdict != TG_GRADCHECK_RIGHT) {
        map_wrong((course_map *)maps + pair->input, pair->input_index);
    }
}

void check_gradient(course_gradient gradient)
{
    tg_tensor *inputs[4];
    const char *names[4];
    course_map maps[4];
    for (int i = 0; i < gradient.input_count; i++) {
        inputs[i] = leaf(gradient.inputs[i].values, shape_of(gradient.inputs[i]));
        names[i] = gradient.inputs[i].name;
        maps[i] = map_begin(gradient.inputs[i].rows, gradient.inputs[i].columns);
    }
    tg_gradcheck_config config = tg_gradcheck_config_default();
    config.input_names = names;
    config.input_name_count = gradient.input_count;
    config.on_pair = mark;
    config.pair_context = maps;
    tg_gradcheck_report report;
    tg_error error = TG_NO_ERROR;
    if (tg_gradcheck(student_function, &gradient, inputs, gradient.input_count, &config, &report, &error)) {
        return;
    }
    /* what a student can do wrong without a difference: backward assigns, or leaves dy out */
    const char *dy = gradient.result.name;
    if (strstr(error.text, "must become")) {
        fail_with("gradient_adds", "what=d%s", gradient.inputs[report.input < 0 ? 0 : report.input].name);
    }
    if (strstr(error.text, "a zero gradient") || strstr(error.text, "sum of parts")) {
        fail_with("gradient_linear", "what=d%s\tdy=d%s", gradient.inputs[report.input < 0 ? 0 : report.input].name, dy);
    }
    if (report.input >= 0 && report.input < gradient.input_count && report.input_index >= 0) {
        fail_with("gradient", "what=d%s\tplace=%s\tgot=%.6g\texpected=%.6g\tmap=%s\n%s", names[report.input],
                  report.input_position, report.analytic, report.numeric, report.verdict, maps[report.input].lines);
    }
    fail_with("gradcheck", "text=%s", error.text);
}

/* ---- inputs and the library -------------------------------------------------------------------------------------- */

void draw(double *values, int count)
{
    for (int i = 0; i < count; i++) {
        values[i] = tg_rng_normal(tg_run_rng(course_run), 0, 1, NULL);
    }
}

void draw_ids(int *ids, int count, int bound)
{
    for (int i = 0; i < count; i++) {
        ids[i] = draw_int(0, bound);
    }
}

int draw_int(int low, int high)
{
    return (int)tg_rng_randint(tg_run_rng(course_run), low, high, NULL);
}

course_table draw_table(bool has_pages)
{
    int unit = has_pages ? (int)(sysconf(_SC_PAGESIZE) / (long)sizeof(double)) : 1;
    course_table t = {.rows = draw_int(5, 13), .width = unit * draw_int(1, 4)};
    t.ids[0] = draw_int(0, t.rows);
    t.ids[1] = (t.ids[0] + draw_int(1, t.rows)) % t.rows;
    t.values = malloc((size_t)((t.rows + 6) * t.width) * sizeof(double));
    if (!t.values) {
        broken("draw_table", "out of memory");
    }
    draw(t.values, t.rows * t.width);
    t.named = t.values + t.rows * t.width;
    t.step = t.named + 2 * t.width;
    t.result = t.step + 2 * t.width;
    draw(t.step, 2 * t.width);
    for (int i = 0; i < 2 * t.width; i++) {
        t.named[i] = t.values[t.ids[i / t.width] * t.width + i % t.width];
    }
    return t;
}

tg_tape *tape(void)
{
    static tg_tape *the_tape;
    if (!the_tape) {
        the_tape = careful_tape(course_run);
    }
    return the_tape;
}

tg_tensor *constant(const double *values, tg_shape shape)
{
    return tg_tensor_new_from(TG_F64, shape, values, NULL);
}

tg_tensor *leaf(const double *values, tg_shape shape)
{
    tg_tensor *x = constant(values, shape);
    tg_tensor_set_requires_grad(x, true, NULL);
    return x;
}

tg_tensor *ids_tensor(const int *ids, tg_shape shape)
{
    return tg_tensor_new_from(TG_I32, shape, ids, NULL);
}

void library_backward(tg_tensor *y, const double *dy)
{
    tg_backward_config config = tg_backward_config_default();
    tg_tensor *gradient = constant(dy, tg_tensor_shape(y));
    config.gradient = gradient;
    if (!tg_backward(tape(), y, &config)) {
        broken("the library", tg_tape_error(tape())->text);
    }
}

tg_tensor *gradient_of(tg_tensor *x)
{
    return tg_tensor_new_dense_grad(x, NULL);
}

void expect_ledger(const char *got, const char *expected)
{
    tg_ledger_difference difference = {0};
    tg_error error = TG_NO_ERROR;
    FILE *files[2] = {tmpfile(), tmpfile()};
    if (!files[0] || !files[1]) {
        broken("the ledger", "no memory, or no temporary file");
    }
    fputs(got, files[0]);
    fputs(expected, files[1]);
    rewind(files[0]);
    rewind(files[1]);
    if (!tg_ledger_compare(files[0], files[1], 1e-9, &difference, &error)) {
        fail_with("gradcheck", "text=%s", error.text);
    }
    if (!difference.is_equal) {
        fail_with("text", "text=%s", difference.text);
    }
    fclose(files[0]);
    fclose(files[1]);
}
