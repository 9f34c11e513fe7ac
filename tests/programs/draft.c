/* A program that grows. Whether an instruction is valid depends on the rules of tapegrad/tape.h for scopes and spans,
 * and on one run of it, in f64 and without spans. */
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "../fuzz/fuzz.h"
#include "programs.h"
#include "tensor/tensor.h"

enum { LARGEST_VALUE = 40 };

void draft_begin(draft *d, program *p)
{
    static const settings scouting = {.name = "draft", .dtype = TG_F64, .recycles = true, .copies_gradients = true};
    run_log kept = d->log;
    memset(d, 0, sizeof *d);
    d->log = kept;
    log_clear(&d->log);
    d->p = p;
    p->count = 0;
    p->has_products = false;
    fuzz_memory_begin();
    run_begin(&d->scout, p, &scouting, &d->log);
    for (int i = 0; i < LEAVES; i++) {
        d->is_usable[i] = d->is_recorded[i] = true;
    }
}

void draft_end(draft *d)
{
    run_end(&d->scout);
    fuzz_memory_end();
}

/* ---- which inputs an instruction may have ---- */

static bool is_on_tape(const draft *d, int v, int tape)
{
    return v < LEAVES || d->scout.value_tape[v] == tape;
}

static bool may_be_input(const draft *d, const instruction *in, int v)
{
    if (v < 0 || v >= LEAVES + d->p->count || !d->scout.value[v]) {
        return false;
    }
    bool is_result = v >= LEAVES && d->is_recorded[v] && is_on_tape(d, v, in->tape);
    switch (in->kind) {
    case CALL: return d->is_usable[v] && (is_on_tape(d, v, in->tape) || in->expected != TG_OK || !d->is_recorded[v]);
    case CALL_DROPPED: return d->is_dropped[v] && is_on_tape(d, v, in->tape);
    case GRADIENT: return v < LEAVES;
    case END_SCOPE:
    case END_SPAN: return v >= LEAVES && d->is_usable[v] && is_on_tape(d, v, in->tape);
    case KEEP:
        return is_result && d->is_usable[v] && !d->is_kept[v] && !(is_left_out("tail") && d->open_count[in->tape] > 0);
    case RETAIN_GRADIENT:
    case BACKWARD: return is_result && (d->is_usable[v] || d->is_dropped[v]);
    default: return false;
    }
}

static bool are_inputs_valid(const draft *d, const instruction *in)
{
    int count = in->kind == CALL || in->kind == CALL_DROPPED   ? operation_at(in->operation)->inputs
                : in->kind == GRADIENT || in->kind >= END_SPAN ? 1
                                                               : 0;
    count = in->kind == RECORDING || in->kind == STEP || in->kind == RESET ? 0 : count;
    if (in->kind == END_SCOPE && in->input[0] >= 0) {
        count = 1;
    }
    for (int i = 0; i < count; i++) {
        if (!may_be_input(d, in, in->input[i]) && !(in->kind == CALL_DROPPED && i > 0 && d->is_usable[in->input[i]] &&
                                                    is_on_tape(d, in->input[i], in->tape))) {
            return false;
        }
    }
    return true;
}

static bool is_valid(const draft *d, const instruction *in)
{
    int open = d->open_count[in->tape];
    bool is_span = open > 0 && d->open[in->tape][open - 1].is_span;
    switch (in->kind) {
    case END_SCOPE: return open > 0 && !is_span && are_inputs_valid(d, in);
    case END_SPAN: return is_span && are_inputs_valid(d, in);
    case STEP: return d->p->optimizer > 0;
    case GRADIENT: return !is_left_out("gradient") && are_inputs_valid(d, in);
    default: return are_inputs_valid(d, in);
    }
}

/* ---- what an instruction changes ---- */

static bool has_usable_numbers(const draft *d, const tg_tensor *x)
{
    int64_t most = d->p->is_large ? MOST_COUNT / 2 : 600;
    if (tg_tensor_dtype(x) != TG_F64 || tg_tensor_count(x) > most) {
        return false;
    }
    for (int64_t i = 0; i < tg_tensor_count(x); i++) {
        double value = tg_tensor_value_at(x, i);
        if (!(fabs(value) <= LARGEST_VALUE)) {
            return false;
        }
    }
    return true;
}

/* Returns whether the new value is a tensor of its own, with usable numbers. */
static bool is_value_usable(const draft *d)
{
    const tg_tensor *x = d->scout.value[LEAVES + d->p->count];
    for (int v = 0; v < LEAVES + d->p->count; v++) {
        if (d->scout.value[v] == x) {
            return false;
        }
    }
    return has_usable_numbers(d, x);
}

static void add_value(draft *d, instruction *in)
{
    int v = LEAVES + d->p->count;
    const tg_tensor *x = d->scout.value[v];
    d->is_usable[v] = true;
    d->is_recorded[v] = x->node >= 0;
    in->is_constant = x->node < 0;
    if (in->kind == GRADIENT) {
        d->has_gradient = d->depends_on_gradient[v] = true;
    } else {
        const operation *op = operation_at(in->operation);
        d->p->has_products |= op->traits & IS_PRODUCT;
        for (int i = 0; i < op->inputs; i++) {
            d->depends_on_gradient[v] |= d->depends_on_gradient[in->input[i]];
        }
    }
    in->may_be_refused = d->depends_on_gradient[v];
}

/* Marks the results that the end of the outermost span drops. */
static void drop_values(draft *d, int tape, int first, const tg_tensor *result)
{
    for (int v = first; v < LEAVES + d->p->count; v++) {
        const tg_tensor *x = d->scout.value[v];
        if (x && is_on_tape(d, v, tape) && d->is_recorded[v] && d->is_usable[v] && !d->is_kept[v] &&
            x->storage != result->storage) {
            d->is_usable[v] = false;
            d->is_dropped[v] = !is_left_out("tail"); /* else no backward begins before the end of a span */
        }
    }
}

static void close_innermost(draft *d, const instruction *in)
{
    int open = --d->open_count[in->tape], first = d->open[in->tape][open].first_value;
    bool is_outermost = in->kind == END_SPAN;
    for (int i = 0; i < open; i++) {
        is_outermost &= !d->open[in->tape][i].is_span;
    }
    if (in->kind == END_SPAN && is_outermost) {
        drop_values(d, in->tape, first, d->scout.value[in->input[0]]);
    }
    for (int v = first; in->kind == END_SCOPE && v < LEAVES + d->p->count; v++) {
        d->is_usable[v] &= d->scout.value[v] != NULL;
    }
}

static void begin_segment(draft *d)
{
    for (int v = LEAVES; v < MOST_VALUES; v++) {
        d->is_usable[v] = d->is_dropped[v] = d->is_kept[v] = false;
    }
    d->open_count[0] = d->open_count[1] = 0;
    d->is_off[0] = d->is_off[1] = false;
    d->has_stepped = d->has_gradient = false;
}

/* A gradient that is a value changes with the next backward. */
static void forget_gradients(draft *d)
{
    for (int v = LEAVES; v < LEAVES + d->p->count; v++) {
        d->is_usable[v] &= !(d->depends_on_gradient[v] && !d->is_recorded[v]);
    }
}

static void apply(draft *d, instruction *in)
{
    switch (in->kind) {
    case CALL:
    case GRADIENT:
        if (in->expected == TG_OK) {
            add_value(d, in);
        }
        break;
    case BEGIN_SCOPE:
    case BEGIN_SPAN:
        d->open[in->tape][d->open_count[in->tape]].is_span = in->kind == BEGIN_SPAN;
        d->open[in->tape][d->open_count[in->tape]++].first_value = LEAVES + d->p->count;
        break;
    case END_SCOPE:
    case END_SPAN: close_innermost(d, in); break;
    case RECORDING: d->is_off[in->tape] = in->option[0] % 2 == 0; break;
    case KEEP: d->is_kept[in->input[0]] = true; break;
    case BACKWARD:
        in->may_be_refused = d->has_gradient;
        forget_gradients(d);
        break;
    case STEP: d->has_stepped = true; break;
    case RESET: begin_segment(d); break;
    default: break;
    }
}

/* ---- texts ---- */

static bool is_a_call(const instruction *in)
{
    return in->kind == CALL || in->kind == CALL_DROPPED;
}

/* Adds to the text of an instruction. */
static void write(instruction *in, const char *format, ...)
{
    size_t length = strlen(in->text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(in->text + length, sizeof in->text - length, format, arguments);
    va_end(arguments);
}

static void write_text(const draft *d, instruction *in)
{
    static const char *const names[KINDS] = {[GRADIENT] = "gradient",
                                             [BEGIN_SCOPE] = "begin_scope",
                                             [END_SCOPE] = "end_scope",
                                             [BEGIN_SPAN] = "begin_span",
                                             [END_SPAN] = "end_span",
                                             [RECORDING] = "recording",
                                             [KEEP] = "retain",
                                             [BACKWARD] = "backward",
                                             [RETAIN_GRADIENT] = "retain_gradient",
                                             [STEP] = "step",
                                             [RESET] = "reset"};
    char shape[TG_SHAPE_TEXT];
    bool is_value = (in->kind == CALL || in->kind == GRADIENT) && in->expected == TG_OK;
    const tg_tensor *x = d->scout.value[LEAVES + d->p->count];
    if (is_value) {
        write(in, "%%%d = ", LEAVES + d->p->count);
    }
    write(in, "%s(", is_a_call(in) ? operation_at(in->operation)->name : names[in->kind]);
    int count = is_a_call(in) ? operation_at(in->operation)->inputs : in->input[0] >= 0;
    for (int i = 0; i < count; i++) {
        write(in, "%s%%%d", i > 0 ? ", " : "", in->input[i]);
    }
    write(in, "%s)", in->kind == CALL ? d->scout.detail : "");
    if (is_value) {
        write(in, "  %s", tg_shape_format(tg_tensor_shape(x), shape));
    }
    bool resizes = in->kind == RESET && in->option[0] % 4 == 0 && d->p->count > 0;
    write(in, "%s%s%s%s%s",
          in->kind == CALL_DROPPED ? "  STATE"
          : in->expected != TG_OK  ? "  an error"
                                   : "",
          in->kind == RECORDING ? (in->option[0] % 2 ? "  on" : "  off") : "",
          in->kind == BACKWARD && in->option[1] % 2 ? "  retains the graph" : "", resizes ? "  resizes the table" : "",
          in->tape == 1 ? "  on tape 1" : "");
}

/* ---- an instruction ---- */

bool draft_add(draft *d, instruction in)
{
    program *p = d->p;
    bool needs_reset = p->count == 0 || d->has_stepped;
    if (p->count == MOST_INSTRUCTIONS - 1 || (needs_reset && in.kind != RESET) || !is_valid(d, &in)) {
        return false;
    }
    p->list[p->count] = in; /* visible if it crashes */
    d->scout.value[LEAVES + p->count] = NULL;
    tg_code code = TG_OK;
    in.text[0] = '\0';
    d->scout.detail[0] = '\0';
    if (in.kind != CALL_DROPPED) {
        snprintf(p->list[p->count].text, DETAIL, "(being drawn)");
        p->list[p->count].expected = TG_OK;
        code = run_instruction(&d->scout, p->count);
    }
    bool is_call = in.kind == CALL || in.kind == GRADIENT;
    if ((code != TG_OK && in.expected == TG_OK && in.kind != RESET) ||
        (is_call && code == TG_OK && !is_value_usable(d))) {
        d->scout.value[LEAVES + p->count] = NULL;
        return false;
    }
    in.expected = code;
    apply(d, &in);
    write_text(d, &in);
    p->list[p->count++] = in;
    return true;
}

void program_print(const program *p, char *text, size_t size)
{
    static const char *const names[] = {"no optimizer", "sgd", "adam", "adamw"};
    size_t n = (size_t)snprintf(text, size, "seed %llu: B %d T %d C %d V %d, %s, %s%s\n", (unsigned long long)p->seed,
                                (int)p->batch, (int)p->time, (int)p->width, (int)p->rows, p->is_f64 ? "f64" : "f32",
                                names[p->optimizer], p->has_modules ? ", modules" : "");
    const char *leaves[LEAVES] = {"x (B,T,C)", "y (B,T,C)",  "weight (C,C)", "table (V,C)",
                                  "bias (C)",  "rows (T,C)", "scalar (1)",   "kernel (C,T,2)"};
    for (int i = 0; i < LEAVES && n < size; i++) {
        n += (size_t)snprintf(text + n, size - n, "%s%%%d = %s%s", i > 0 ? ", " : "  ", i, leaves[i],
                              i == LEAVES - 1 ? "\n" : "");
    }
    for (int i = 0; i < p->count && n < size; i++) {
        const instruction *in = &p->list[i];
        n += (size_t)snprintf(text + n, size - n, "  %2d: %s", i, in->text);
        if (in->fails_at > 0 && n < size) {
            n += (size_t)snprintf(text + n, size - n, "  (allocation %d%s)", in->fails_at,
                                  in->option[3] % 2 ? " and later ones" : "");
        }
        n += n < size ? (size_t)snprintf(text + n, size - n, "\n") : 0;
    }
}
