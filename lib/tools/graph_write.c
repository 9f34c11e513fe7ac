/* graph_write: a graph as lines for people, and in Graphviz's language. Both writers go through the same leaves,
 * records and steps. In a drawing a node's name is the address of its tensor. */
#include <inttypes.h>
#include <string.h>

#include "tools/graph.h"

/* An input that no record has computed: where it is used first. */
typedef struct leaf {
    const tg_tensor *tensor;
    int64_t record;
    int input;
} leaf;

typedef struct writer {
    tg_graph *g;
    tg_text_buffer out;
    leaf *leaves;
    size_t count, capacity;
    bool is_dot;
} writer;

/* ---- leaves and names ---- */

static bool find_leaves(writer *w)
{
    const tg_tape *t = w->g->tape;
    for (int64_t k = 0; k < tg_tape_record_count(t); k++) {
        tg_tape_record record = tg_tape_record_at(t, k);
        for (int i = 0; i < record.input_count; i++) {
            size_t at = tg_tape_record_of(t, record.inputs[i]) < 0 ? 0 : w->count;
            while (at < w->count && w->leaves[at].tensor != record.inputs[i]) {
                at++;
            }
            if (at < w->count || tg_tape_record_of(t, record.inputs[i]) >= 0) {
                continue;
            }
            if (!tg_grow(&w->leaves, &w->capacity, w->count, w->count + 1, sizeof *w->leaves)) {
                return false;
            }
            w->leaves[w->count++] = (leaf){record.inputs[i], k, i};
        }
    }
    return true;
}

/* Returns the name that a leaf has in the params, or as an argument. */
static const char *own_name(const writer *w, const leaf *at)
{
    const tg_params *params = w->g->config.params;
    for (int64_t i = 0; i < tg_params_count(params); i++) {
        if (tg_params_at(params, i).tensor == at->tensor) {
            return tg_params_at(params, i).name;
        }
    }
    const tg_op *op = tg_tape_record_at(w->g->tape, at->record).op;
    const char *name = at->input < TG_OP_NAMED_INPUTS ? op->input_names[at->input] : NULL;
    return name ? name : tg_tensor_requires_grad(at->tensor) ? "leaf" : "constant";
}

/* Adds a text that others have chosen. */
static void add_escaped(writer *w, const char *text)
{
    char escaped[256];
    size_t length = tg_escape(escaped, sizeof escaped, text);
    if (w->is_dot) {
        tg_text_add_json(&w->out, escaped, length); /* Graphviz's strings have JSON's backslashes */
    } else {
        tg_text_add_bytes(&w->out, escaped, length);
    }
}

/* Adds the name of a leaf, with a number if an earlier leaf has the same one. */
static void add_leaf_name(writer *w, size_t number)
{
    const char *name = own_name(w, &w->leaves[number]);
    int before = 0;
    for (size_t i = 0; i < number; i++) {
        before += strcmp(own_name(w, &w->leaves[i]), name) == 0;
    }
    add_escaped(w, name);
    if (before > 0) {
        tg_text_add_format(&w->out, " (%d)", before + 1);
    }
}

/* Adds the name of a tensor: %3 is the result of the third record, and %3.1 its second one. */
static void add_name(writer *w, const tg_tensor *x)
{
    int64_t number = tg_tape_record_of(w->g->tape, x);
    tg_tape_record record = tg_tape_record_at(w->g->tape, number);
    for (size_t i = 0; number < 0 && i < w->count; i++) {
        if (w->leaves[i].tensor == x) {
            add_leaf_name(w, i);
        }
    }
    if (number >= 0) {
        tg_text_add_format(&w->out, "%%%" PRId64, number + 1);
    }
    for (int i = 1; i < record.output_count; i++) {
        if (record.outputs[i] == x) {
            tg_text_add_format(&w->out, ".%d", i);
        }
    }
}

/* Adds dtype and shape, and after `between` the values. */
static void add_shape_and_values(writer *w, const tg_tensor *x, bool is_changed, const char *between)
{
    char text[TG_SHAPE_TEXT];
    tg_text_add_format(&w->out, "%s %s%s", tg_dtype_name(tg_tensor_dtype(x)), tg_shape_format(tg_tensor_shape(x), text),
                       between);
    if (tg_tensor_check("graph_write", "tensor", x, NULL)) {
        tg_graph_add_values(&w->out, x, w->g->config.values);
        tg_text_add(&w->out, is_changed ? " (changed since)" : "");
    } else {
        tg_text_add(&w->out, "without values");
    }
}

static bool is_changed(const writer *w, int64_t record, int tensor)
{
    return tg_tape_recorded_values(w->g->tape, record, tensor) == TG_VALUES_CHANGED;
}

/* ---- gradients ---- */

static const tg_tensor *tensor_of_part(const tg_graph *g, const tg_graph_part *part)
{
    return tg_tape_record_at(g->tape, g->steps[part->step].record).inputs[part->input];
}

/* Adds `before` and the gradient of x as it was after `steps` steps; with -1, as it is now. Adds nothing for none. */
static void add_gradient(writer *w, const tg_tensor *x, int64_t steps, const char *before)
{
    const tg_graph *g = w->g;
    if (steps < 0) {
        if (tg_tensor_grad_kind(x) != TG_GRAD_NONE) {
            tg_text_add(&w->out, before);
            tg_graph_add_gradient(&w->out, x, g->config.values);
        }
        return;
    }
    const char *text = NULL;
    for (size_t i = 0; i < g->part_count; i++) {
        if (g->parts[i].step < steps && tensor_of_part(g, &g->parts[i]) == x) {
            text = g->texts.bytes + g->parts[i].now;
        }
    }
    for (size_t i = 0; !text && i < g->step_count && (int64_t)i < steps; i++) {
        if (g->steps[i].record == tg_tape_record_of(g->tape, x)) {
            text = g->texts.bytes + g->steps[i].gradient;
        }
    }
    if (text) {
        tg_text_add(&w->out, before);
        tg_text_add(&w->out, text);
    }
}

/* ---- as a text ---- */

static void write_tensor(writer *w, const tg_tensor *x, bool changed)
{
    add_shape_and_values(w, x, changed, "  ");
    add_gradient(w, x, -1, "\n      gradient  ");
    tg_text_add(&w->out, "\n");
}

static void write_text(writer *w)
{
    const tg_graph *g = w->g;
    tg_text_add(&w->out, "leaves\n");
    for (size_t i = 0; i < w->count; i++) {
        tg_text_add(&w->out, "  ");
        add_leaf_name(w, i);
        tg_text_add(&w->out, "  ");
        write_tensor(w, w->leaves[i].tensor, is_changed(w, w->leaves[i].record, w->leaves[i].input));
    }
    tg_text_add(&w->out, "results\n");
    for (int64_t k = 0; !w->out.failed && k < tg_tape_record_count(g->tape); k++) {
        tg_tape_record record = tg_tape_record_at(g->tape, k);
        for (int i = 0; i < record.output_count; i++) {
            tg_text_add(&w->out, "  ");
            add_name(w, record.outputs[i]);
            tg_text_add(&w->out, " = ");
            add_escaped(w, record.op->name);
            for (int m = 0; m < record.input_count; m++) {
                tg_text_add(&w->out, m == 0 ? "(" : ", ");
                add_name(w, record.inputs[m]);
            }
            tg_text_add(&w->out, record.input_count > 0 ? ")  " : "  ");
            write_tensor(w, record.outputs[i], is_changed(w, k, record.input_count + i));
        }
    }
    tg_text_add(&w->out, g->config.steps ? "backward\n" : "");
    for (size_t s = 0, p = 0; g->config.steps && s < g->step_count; s++) {
        tg_tape_record record = tg_tape_record_at(g->tape, g->steps[s].record);
        tg_text_add_format(&w->out, "  step %zu: ", s + 1);
        add_name(w, record.outputs[0]);
        tg_text_add(&w->out, " = ");
        add_escaped(w, record.op->name);
        tg_text_add_format(&w->out, ", whose gradient is %s\n", g->texts.bytes + g->steps[s].gradient);
        for (; p < g->part_count && g->parts[p].step == (int64_t)s; p++) {
            const char *added = g->texts.bytes + g->parts[p].added, *now = g->texts.bytes + g->parts[p].now;
            tg_text_add_format(&w->out, "    adds %s to the gradient of ", added);
            add_name(w, record.inputs[g->parts[p].input]);
            tg_text_add_format(&w->out, strcmp(added, now) != 0 ? ", now %s\n" : "\n", now);
        }
    }
}

/* ---- as a drawing ---- */

/* Begins the node of a tensor: its name follows. */
static void begin_node(writer *w, const tg_tensor *x)
{
    tg_text_add_format(&w->out, "    t%" PRIxPTR " [label=\"", (uintptr_t)x);
}

static void end_node(writer *w, const tg_tensor *x, bool changed, int64_t steps, const char *shape)
{
    tg_text_add(&w->out, "\\n");
    add_shape_and_values(w, x, changed, "\\n");
    add_gradient(w, x, steps, "\\ngradient ");
    tg_text_add_format(&w->out, "\", shape=%s];\n", shape);
}

static void add_arrow(writer *w, const tg_tensor *from, const tg_tensor *to)
{
    tg_text_add_format(&w->out, "    t%" PRIxPTR " -> t%" PRIxPTR, (uintptr_t)from, (uintptr_t)to);
}

/* Adds the graph after a number of steps, of which the last one is colored; with -1, as it is now. */
static void draw(writer *w, int64_t steps)
{
    const tg_graph *g = w->g;
    tg_text_add(&w->out, "digraph tape {\n");
    if (steps >= 0) {
        tg_text_add_format(
            &w->out, steps > 0 ? "    label=\"backward, step %" PRId64 "\";\n" : "    label=\"forward\";\n", steps);
    }
    for (size_t i = 0; i < w->count; i++) {
        begin_node(w, w->leaves[i].tensor);
        add_leaf_name(w, i);
        end_node(w, w->leaves[i].tensor, is_changed(w, w->leaves[i].record, w->leaves[i].input), steps, "ellipse");
    }
    for (int64_t k = 0; !w->out.failed && k < tg_tape_record_count(g->tape); k++) {
        tg_tape_record record = tg_tape_record_at(g->tape, k);
        bool is_last = steps > 0 && g->steps[steps - 1].record == k;
        for (int i = 0; i < record.output_count; i++) {
            begin_node(w, record.outputs[i]);
            add_name(w, record.outputs[i]);
            tg_text_add(&w->out, " ");
            add_escaped(w, record.op->name);
            end_node(w, record.outputs[i], is_changed(w, k, record.input_count + i), steps,
                     is_last ? "box, color=red" : "box");
            for (int m = 0; m < record.input_count; m++) {
                add_arrow(w, record.inputs[m], record.outputs[i]);
                tg_text_add(&w->out, ";\n");
            }
        }
    }
    for (size_t p = 0; steps > 0 && p < g->part_count; p++) {
        if (g->parts[p].step == steps - 1) {
            add_arrow(w, tg_tape_record_at(g->tape, g->steps[steps - 1].record).outputs[0],
                      tensor_of_part(g, &g->parts[p]));
            tg_text_add_format(&w->out, " [color=red, fontcolor=red, constraint=false, label=\"+ %s\"];\n",
                               g->texts.bytes + g->parts[p].added);
        }
    }
    tg_text_add(&w->out, "}\n");
}

static void write_dot(writer *w)
{
    if (!w->g->config.steps) {
        draw(w, -1);
    }
    for (int64_t s = 0; w->g->config.steps && !w->out.failed && s <= (int64_t)w->g->step_count; s++) {
        draw(w, s);
    }
}

/* ---- public ---- */

/* Writes a graph. `call` is for messages. */
static bool write_graph(tg_graph *g, const char *call, void (*write)(writer *), bool is_dot, FILE *file,
                        tg_error *error)
{
    writer w = {.g = g, .is_dot = is_dot};
    bool written = find_leaves(&w) && !g->failed;
    if (written) {
        write(&w);
    }
    written = written && !w.out.failed;
    written = written ? (fwrite(w.out.bytes, 1, w.out.length, file) == w.out.length && fflush(file) == 0) ||
                            tg_error_set(error, TG_ERROR_FILE, "%s: the file cannot be written", call)
                      : tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory", call);
    tg_free(w.leaves);
    tg_free(w.out.bytes);
    return written;
}

static bool is_given(const char *call, const char *name, const void *object, const FILE *file, tg_error *error)
{
    return (object && file) || tg_error_set(error, TG_ERROR_STATE, "%s: the %s is NULL", call, object ? "file" : name);
}

bool tg_graph_write_text(tg_graph *g, FILE *file, tg_error *error)
{
    static const char call[] = "graph_write_text";
    return is_given(call, "graph", g, file, error) && write_graph(g, call, write_text, false, file, error);
}

bool tg_graph_write_dot(tg_graph *g, FILE *file, tg_error *error)
{
    static const char call[] = "graph_write_dot";
    return is_given(call, "graph", g, file, error) && write_graph(g, call, write_dot, true, file, error);
}

bool tg_tape_write_dot(const tg_tape *t, FILE *file, tg_error *error)
{
    static const char call[] = "tape_write_dot";
    tg_graph g;
    tg_graph_begin(&g, t);
    return is_given(call, "tape", t, file, error) && tg_error_copy(error, tg_tape_error(t)) &&
           write_graph(&g, call, write_dot, true, file, error);
}
