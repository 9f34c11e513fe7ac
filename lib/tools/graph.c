/* graph: watches a tape, and remembers what backward does, step by step.
 *
 * What an op has added to a gradient is the difference of the gradient after its kernel and before. The results of all
 * records keep their gradients (tg_retain_grad), from the next call on the tape.
 */
#include "tools/graph.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Of a gradient by rows, the first rows are written. */
#define PRINTED_ROWS 4

/* ---- texts of values ---- */

static double value_of(const void *values, tg_dtype dtype, int64_t i)
{
    return dtype == TG_F64 ? ((const double *)values)[i] : (double)((const float *)values)[i];
}

static void add_number(tg_text_buffer *out, int64_t i, double value)
{
    char text[TG_NUMBER_TEXT];
    tg_text_add(out, i > 0 ? ", " : "");
    tg_text_add(out, isnan(value) ? "nan" : tg_format_number(value, 4, text));
}

/* Adds what follows the first values of `count`. */
static void add_end(tg_text_buffer *out, int64_t count, int64_t most)
{
    tg_text_add(out, count <= most ? "]" : most > 0 ? ", ...]" : "...]");
}

void tg_graph_add_values(tg_text_buffer *out, const tg_tensor *x, int64_t most)
{
    int64_t count = tg_tensor_count(x);
    tg_text_add(out, "[");
    for (int64_t i = 0; i < count && i < most; i++) {
        add_number(out, i, tg_tensor_value_at(x, i));
    }
    add_end(out, count, most);
}

/* Adds the first values of an array of floats, without those of `before`, which is optional. */
static void add_array(tg_text_buffer *out, const void *values, tg_dtype dtype, int64_t count, int64_t most,
                      const double *before)
{
    tg_text_add(out, "[");
    for (int64_t i = 0; i < count && i < most; i++) {
        add_number(out, i, value_of(values, dtype, i) - (before ? before[i] : 0));
    }
    add_end(out, count, most);
}

/* Adds the rows of a gradient, without those of `before`, which is optional, and without rows that are as before. */
static void add_rows(tg_text_buffer *out, const tg_graph *g, const tg_tensor *x, int64_t most,
                     const tg_graph_before *before)
{
    tg_grad_rows rows = tg_tensor_grad_rows(x);
    tg_dtype dtype = tg_tensor_dtype(x);
    size_t width = (size_t)rows.width, size = tg_dtype_size(dtype);
    int64_t written = 0;
    for (int64_t i = 0; i < rows.count; i++) {
        const double *old = NULL;
        for (int64_t k = 0; before && k < before->rows; k++) {
            if ((int32_t)g->numbers[before->ids + (size_t)k] == rows.ids[i]) {
                old = g->numbers + before->first + (size_t)k * width;
            }
        }
        const char *row = (const char *)rows.values + (size_t)i * width * size;
        bool changed = !old;
        for (int64_t k = 0; old && k < rows.width; k++) {
            changed |= value_of(row, dtype, k) != old[k];
        }
        if (changed && written++ < PRINTED_ROWS) {
            tg_text_add_format(out, "%srow %" PRId32 " ", written > 1 ? ", " : "", rows.ids[i]);
            add_array(out, row, dtype, rows.width, most, old);
        }
    }
    if (written > PRINTED_ROWS) {
        tg_text_add_format(out, ", ... (%" PRId64 " rows)", written);
    }
    tg_text_add(out, written == 0 ? "no row" : "");
}

void tg_graph_add_gradient(tg_text_buffer *out, const tg_tensor *x, int64_t most)
{
    if (tg_tensor_grad_kind(x) == TG_GRAD_ROWS) {
        add_rows(out, NULL, x, most, NULL);
    } else {
        tg_graph_add_values(out, tg_tensor_grad(x), most);
    }
}

/* Ends a text that began at `begin`, and returns that. */
static tg_graph_text end_text(tg_graph *g, size_t begin)
{
    tg_text_add_bytes(&g->texts, "", 1);
    g->failed |= g->texts.failed;
    return begin;
}

/* ---- steps ---- */

/* Forgets the steps, after a reset. */
static void forget(tg_graph *g)
{
    g->retained = 0;
    g->step_count = g->part_count = 0;
    g->texts.length = 0;
}

static void add_step(tg_graph *g, int64_t record, tg_graph_text gradient)
{
    if (!tg_grow(&g->steps, &g->step_capacity, g->step_count, g->step_count + 1, sizeof *g->steps)) {
        g->failed = true;
        return;
    }
    g->steps[g->step_count++] = (tg_graph_step){record, gradient};
}

static void add_part(tg_graph *g, int input, tg_graph_text added, tg_graph_text now)
{
    if (!tg_grow(&g->parts, &g->part_capacity, g->part_count, g->part_count + 1, sizeof *g->parts)) {
        g->failed = true;
        return;
    }
    g->parts[g->part_count++] = (tg_graph_part){(int64_t)g->step_count - 1, input, added, now};
}

/* Copies the gradient of an input before the kernel. */
static void copy_before(tg_graph *g, const tg_op_call *call, int i)
{
    const tg_tensor *x = call->inputs[i];
    const void *dense = call->input_gradients[i];
    bool by_rows = call->gradient_modes[i] == TG_GRADIENT_ROWS;
    tg_grad_rows rows = tg_tensor_grad_rows(x);
    tg_dtype dtype = tg_tensor_dtype(x);
    int64_t shown = tg_tensor_count(x) < g->config.values ? tg_tensor_count(x) : g->config.values;
    int64_t count = by_rows ? rows.count * rows.width : dense ? shown : 0;
    size_t needed = g->number_count + (size_t)count + (size_t)(by_rows ? rows.count : 0);
    if (!tg_grow(&g->numbers, &g->number_capacity, g->number_count, needed, sizeof *g->numbers)) {
        g->failed = true;
        return;
    }
    g->before[i] = (tg_graph_before){.first = g->number_count, .rows = by_rows ? rows.count : -1};
    for (int64_t k = 0; k < count; k++) {
        bool is_new = call->gradient_modes[i] == TG_GRADIENT_WRITE;
        g->numbers[g->number_count++] = is_new ? 0 : value_of(dense ? dense : rows.values, dtype, k);
    }
    g->before[i].ids = g->number_count;
    for (int64_t k = 0; by_rows && k < rows.count; k++) {
        g->numbers[g->number_count++] = rows.ids[k];
    }
}

static void begin_kernel(void *context, const tg_op_call *call, bool is_backward)
{
    tg_graph *g = context;
    int64_t records = tg_tape_record_count(g->tape);
    if (!is_backward && !call->is_repeated) {
        if (records < g->retained) {
            forget(g);
        }
        for (; g->retained < records; g->retained++) {
            tg_tape_record record = tg_tape_record_at(g->tape, g->retained);
            for (int i = 0; i < record.output_count; i++) {
                if (tg_tensor_requires_grad(record.outputs[i]) && !tg_retain_grad(g->tape, record.outputs[i])) {
                    g->failed = true;
                }
            }
        }
        return;
    }
    g->number_count = 0;
    size_t inputs = (size_t)call->input_count;
    if (!is_backward || g->failed) {
        return;
    }
    if (!tg_grow(&g->before, &g->before_capacity, 0, inputs, sizeof *g->before)) {
        g->failed = true;
        return;
    }
    for (int i = 0; i < call->input_count && !g->failed; i++) {
        copy_before(g, call, i);
    }
}

/* Adds what a kernel has added to the gradient of input i. */
static void add_input(tg_graph *g, const tg_op_call *call, int i)
{
    const tg_tensor *x = call->inputs[i];
    const void *dense = call->input_gradients[i];
    const tg_graph_before *before = &g->before[i];
    for (int k = 0; k < i; k++) {
        if (dense && call->input_gradients[k] == dense) {
            return; /* the same tensor: the kernel has added both parts */
        }
    }
    if (!dense && before->rows < 0) {
        return;
    }
    size_t added = g->texts.length;
    int64_t count = tg_tensor_count(x), most = g->config.values;
    if (dense) {
        add_array(&g->texts, dense, tg_tensor_dtype(x), count, most, g->numbers + before->first);
    } else {
        add_rows(&g->texts, g, x, most, before);
    }
    end_text(g, added);
    size_t now = g->texts.length;
    if (dense) {
        add_array(&g->texts, dense, tg_tensor_dtype(x), count, most, NULL);
    } else {
        add_rows(&g->texts, g, x, most, NULL);
    }
    add_part(g, i, added, end_text(g, now));
}

static void end_kernel(void *context, const tg_op_call *call, bool is_backward)
{
    tg_graph *g = context;
    int64_t record = tg_tape_record_of(g->tape, call->outputs[0]);
    if (!is_backward || g->failed || record < 0) {
        return;
    }
    size_t begin = g->texts.length;
    for (int i = 0; i < call->output_count; i++) {
        if (call->output_gradients[i]) {
            tg_text_add(&g->texts, g->texts.length > begin ? " and " : "");
            add_array(&g->texts, call->output_gradients[i], tg_tensor_dtype(call->outputs[i]),
                      tg_tensor_count(call->outputs[i]), g->config.values, NULL);
        }
    }
    add_step(g, record, end_text(g, begin));
    for (int i = 0; i < call->input_count && !g->failed; i++) {
        add_input(g, call, i);
    }
}

/* ---- public ---- */

TG_CONFIG(tg_graph_config, tg_graph_config_default, mark, .mark = mark, .values = 4);

void tg_graph_begin(tg_graph *g, const tg_tape *tape)
{
    *g = (tg_graph){.tape = (tg_tape *)(uintptr_t)tape, .config = tg_graph_config_default()};
}

tg_graph *tg_graph_new(tg_tape *tape, const tg_graph_config *given)
{
    tg_error error = TG_NO_ERROR;
    bool valid = tape && tg_config_check("graph_new", given, mark, &error);
    if (valid && given && (given->values < 0 || given->values > 64)) {
        valid =
            tg_error_set(&error, TG_ERROR_VALUE, "graph_new: values is %" PRId64 "; it must be 0 to 64", given->values);
    }
    tg_graph *g = valid ? tg_alloc(1, sizeof *g) : NULL;
    if (!g) {
        if (tape) {
            tg_error_set(&error, TG_ERROR_MEMORY, "graph_new: out of memory");
            tg_run_set_error(tg_tape_run(tape), &error);
        }
        return NULL;
    }
    tg_graph_begin(g, tape);
    g->config = given ? *given : g->config;
    g->watch = (tg_kernel_watch){.before = begin_kernel, .after = end_kernel, .context = g, .keeps_results = true};
    tg_tape_add_watch(tape, &g->watch);
    return g;
}

void tg_graph_clear(tg_graph *g)
{
    tg_free(g->texts.bytes);
    tg_free(g->steps);
    tg_free(g->parts);
    tg_free(g->before);
    tg_free(g->numbers);
}

void tg_graph_free(tg_graph *g)
{
    if (g) {
        tg_tape_remove_watch(g->tape, &g->watch);
        tg_graph_clear(g);
        tg_free(g);
    }
}
