/* Draws programs from seeds. Each instruction is drawn until the draft accepts it. */
#include <string.h>

#include "programs.h"
#include "tensor/tensor.h"

/* ---- numbers ---- */

/* splitmix64 (Steele, Lea and Flood 2014) */
static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

uint64_t roll(dice *d)
{
    d->state += UINT64_C(0x9e3779b97f4a7c15);
    return mix(d->state);
}

int below(dice *d, int count)
{
    return (int)(roll(d) % (uint64_t)count);
}

bool chance(dice *d, int percent)
{
    return below(d, 100) < percent;
}

double number_of(uint64_t seed, uint64_t index)
{
    return (double)(mix(mix(seed + 1) + index * UINT64_C(0x9e3779b97f4a7c15)) % (1 << 23)) / (1 << 22) - 1;
}

/* ---- features ---- */

static const char *const features[] = {"dropped", "tail", "huge_bias", "failed_retain", "gradient",
                                       "no_ids",  "tape", "spans",     "scopes"};
static bool left_out[sizeof features / sizeof *features + 128];

static int index_of_feature(const char *name)
{
    int count = sizeof features / sizeof *features;
    for (int i = 0; i < count; i++) {
        if (strcmp(features[i], name) == 0) {
            return i;
        }
    }
    for (int i = 0; i < operation_count(); i++) {
        if (strcmp(operation_at(i)->name, name) == 0) {
            return count + i;
        }
    }
    return -1;
}

bool leave_out(const char *name)
{
    int index = index_of_feature(name);
    if (index >= 0) {
        left_out[index] = true;
    }
    return index >= 0;
}

bool is_left_out(const char *name)
{
    return left_out[index_of_feature(name)];
}

/* ---- inputs ---- */

/* A value of this tape or a leaf, more often a recent one. The draft refuses those that are not usable. */
static int draw_value(dice *d, const draft *so_far, bool is_recent)
{
    int count = LEAVES + so_far->p->count;
    for (int k = 0; k < 40; k++) {
        int v = is_recent && count > LEAVES + 2 ? count - 1 - below(d, count - LEAVES < 8 ? count - LEAVES : 8)
                                                : below(d, count);
        if (so_far->is_usable[v]) {
            return v;
        }
    }
    return below(d, LEAVES);
}

/* A value with the storage or the shape of another one, or any. */
static int draw_partner(dice *d, const draft *so_far, int other)
{
    const tg_tensor *x = so_far->scout.value[other];
    if (chance(d, 20)) {
        return other;
    }
    for (int k = 0; k < 20 && x && chance(d, 90); k++) {
        int v = draw_value(d, so_far, chance(d, 50));
        if (v != other && so_far->scout.value[v] && so_far->scout.value[v]->storage == x->storage) {
            return v;
        }
    }
    for (int k = 0; k < 20 && x; k++) {
        int v = draw_value(d, so_far, false);
        if (so_far->scout.value[v] && tg_shape_equal(tg_tensor_shape(so_far->scout.value[v]), tg_tensor_shape(x))) {
            return v;
        }
    }
    return draw_value(d, so_far, false);
}

static int draw_dropped(dice *d, const draft *so_far)
{
    for (int k = 0; k < 60; k++) {
        int v = below(d, LEAVES + so_far->p->count);
        if (so_far->is_dropped[v]) {
            return v;
        }
    }
    return -1;
}

/* ---- instructions ---- */

static int operation_named(const char *name)
{
    int i = 0;
    while (strcmp(operation_at(i)->name, name) != 0) {
        i++;
    }
    return i;
}

static int draw_operation(dice *d, const program *p)
{
    int sum = 0, count = operation_count();
    for (int i = 0; i < count; i++) {
        sum += operation_at(i)->weight;
    }
    for (;;) {
        int at = below(d, sum), i = 0;
        while (at >= operation_at(i)->weight) {
            at -= operation_at(i++)->weight;
        }
        bool is_missing = operation_at(i)->traits & NEEDS_MODULES && !p->has_modules;
        if (!is_missing && !is_left_out(operation_at(i)->name)) {
            return i;
        }
    }
}

static void draw_call(dice *d, const draft *so_far, instruction *in)
{
    in->operation = draw_operation(d, so_far->p);
    const operation *op = operation_at(in->operation);
    for (int i = 0; i < op->inputs; i++) {
        in->input[i] = op->usual[i] > 0 && chance(d, 80) ? op->usual[i]
                       : i > 0 && chance(d, 60)          ? draw_partner(d, so_far, in->input[0])
                                                         : draw_value(d, so_far, chance(d, 70));
    }
    in->expected = chance(d, 1) ? TG_ERROR_SHAPE : TG_OK; /* an error is welcome */
}

/* bernoulli, whose shape rule reads values, is drawn more often than others. */
static void draw_call_of_dropped(dice *d, const draft *so_far, instruction *in)
{
    draw_call(d, so_far, in);
    if (chance(d, 25)) {
        in->operation = operation_named("bernoulli");
    }
    in->input[0] = draw_dropped(d, so_far);
}

/* The result of a span is mostly its last value, so that calls behind the result are rare but exist. */
static int draw_result(dice *d, const draft *so_far, int tape)
{
    int last = LEAVES + so_far->p->count - 1;
    while (last >= LEAVES && !(so_far->is_usable[last] && so_far->scout.value_tape[last] == tape)) {
        last--;
    }
    return is_left_out("tail") || chance(d, 60) ? last : draw_value(d, so_far, true);
}

static kind draw_kind(dice *d, const draft *so_far, int tape)
{
    int open = so_far->open_count[tape], drawn = below(d, 100);
    bool is_span = open > 0 && so_far->open[tape][open - 1].is_span;
    if (drawn < 6 && open > 0) {
        return is_span ? END_SPAN : END_SCOPE;
    }
    if (so_far->is_off[tape] && drawn < 25) {
        return RECORDING;
    }
    return drawn < 70   ? CALL
           : drawn < 77 ? (is_left_out("spans") ? CALL : BEGIN_SPAN)
           : drawn < 79 ? (is_left_out("scopes") ? CALL : BEGIN_SCOPE)
           : drawn < 80 ? RECORDING
           : drawn < 82 ? KEEP
           : drawn < 86 ? RETAIN_GRADIENT
           : drawn < 91 ? BACKWARD
           : drawn < 93 ? GRADIENT
           : drawn < 96 ? (is_left_out("dropped") ? CALL : CALL_DROPPED)
                        : CALL;
}

static instruction begin_instruction(dice *d, kind what, int tape)
{
    instruction in = {.kind = what, .tape = tape, .input = {-1, -1, -1}};
    for (int i = 0; i < OPTIONS; i++) {
        in.option[i] = (uint32_t)(roll(d) >> 20);
    }
    bool may_fail = what == CALL || what == BEGIN_SPAN || what == BEGIN_SCOPE || what == END_SPAN ||
                    what == RETAIN_GRADIENT || what == BACKWARD;
    in.fails_at = may_fail && chance(d, 25) ? 1 + below(d, chance(d, 50) ? 3 : 16) : 0;
    return in;
}

/* A product of a leaf with its gradient, which was added last: the next backward through the leaf changes an input. */
static void add_product_with_gradient(dice *d, draft *so_far)
{
    const instruction *last = &so_far->p->list[so_far->p->count - 1];
    instruction in = begin_instruction(d, CALL, last->tape);
    in.operation = operation_named("mul");
    in.input[0] = LEAVES + so_far->p->count - 1;
    in.input[1] = last->input[0];
    draft_add(so_far, in);
}

/* A view of a value, and an operation of both, in either order. */
static void add_call_with_view(dice *d, draft *so_far, int tape)
{
    instruction in = begin_instruction(d, CALL, tape);
    in.operation = operation_named("view");
    in.input[0] = draw_value(d, so_far, chance(d, 70));
    if (!draft_add(so_far, in)) {
        return;
    }
    const int whole = in.input[0], part = LEAVES + so_far->p->count - 1;
    for (int attempt = 0; attempt < 30; attempt++) {
        in = begin_instruction(d, CALL, tape);
        do {
            in.operation = draw_operation(d, so_far->p);
        } while (operation_at(in.operation)->inputs < 2);
        const bool is_first = chance(d, 50);
        in.input[0] = is_first ? part : whole;
        in.input[1] = is_first ? whole : part;
        in.input[2] = chance(d, 50) ? part : draw_partner(d, so_far, whole);
        if (draft_add(so_far, in)) {
            return;
        }
    }
}

static void add_any(dice *d, draft *so_far, bool has_two_tapes)
{
    int tape = has_two_tapes && chance(d, 30);
    kind what = draw_kind(d, so_far, tape);
    instruction in = begin_instruction(d, what, tape);
    if (what == CALL && chance(d, 20)) {
        add_call_with_view(d, so_far, tape);
        return;
    }
    for (int attempt = 0; attempt < 30; attempt++) {
        switch (what) {
        case CALL: draw_call(d, so_far, &in); break;
        case CALL_DROPPED: draw_call_of_dropped(d, so_far, &in); break;
        case GRADIENT: in.input[0] = below(d, LEAVES); break;
        case END_SCOPE: in.input[0] = chance(d, 40) ? -1 : draw_value(d, so_far, true); break;
        case END_SPAN: in.input[0] = draw_result(d, so_far, tape); break;
        case RECORDING: in.option[0] = so_far->is_off[tape]; break;
        case RETAIN_GRADIENT:
        case BACKWARD:
            in.input[0] = chance(d, 20) ? draw_dropped(d, so_far) : draw_value(d, so_far, chance(d, 60));
            break;
        case KEEP: in.input[0] = draw_value(d, so_far, true); break;
        default: break;
        }
        if (draft_add(so_far, in)) {
            break;
        }
    }
    if (so_far->p->list[so_far->p->count - 1].kind == GRADIENT && chance(d, 70)) {
        add_product_with_gradient(d, so_far);
    }
}

/* ---- programs ---- */

/* Sizes on both sides of one at which kernels change their loops: of a row, and of its neighbors in other axes. The
 * rows of (T,C) that a reshape joins are longer. */
static void draw_long_sizes(dice *d, program *p)
{
    static const int thresholds[] = {16, 32, 64, 128, 192, 512};
    const int at = below(d, 6);
    const int64_t size = thresholds[at] - 1 + below(d, 3);
    const bool is_row = at < 5 && chance(d, 70); /* the weight is (C,C), so rows are not the longest */
    p->batch = 1 + below(d, 2);
    p->time = is_row ? 1 + below(d, 3) : size;
    p->width = is_row ? size : 1 + below(d, 3);
    p->has_modules = p->has_modules && p->width < 100; /* the logs of wider weights would be too long */
}

static void close_all(dice *d, draft *so_far)
{
    for (int tape = 0; tape < TAPES; tape++) {
        for (int k = 0; k < 40 && so_far->open_count[tape] > 0; k++) {
            bool is_span = so_far->open[tape][so_far->open_count[tape] - 1].is_span;
            instruction in = begin_instruction(d, is_span ? END_SPAN : END_SCOPE, tape);
            in.input[0] = is_span ? draw_result(d, so_far, tape) : -1;
            draft_add(so_far, in);
        }
    }
}

/* A backward from a late result, if one is recorded. */
static void add_backward(dice *d, draft *so_far)
{
    for (int k = 0; k < 20; k++) {
        int v = draw_value(d, so_far, chance(d, 60));
        instruction in = begin_instruction(d, BACKWARD, v < LEAVES ? 0 : so_far->scout.value_tape[v]);
        in.input[0] = v;
        if (v >= LEAVES && draft_add(so_far, in)) {
            return;
        }
    }
}

static void add_segment(dice *d, draft *so_far, int instructions, bool has_two_tapes)
{
    int end = so_far->p->count + instructions;
    for (int k = 0; k < 3 * instructions && so_far->p->count < end; k++) {
        add_any(d, so_far, has_two_tapes);
    }
    if (chance(d, 70)) {
        close_all(d, so_far);
    }
    for (int k = 1 + below(d, 3); k > 0; k--) {
        add_backward(d, so_far);
    }
    if (so_far->p->optimizer > 0 && chance(d, 85)) {
        draft_add(so_far, begin_instruction(d, STEP, 0));
    }
}

void draw_program(program *p, uint64_t seed)
{
    static draft so_far;
    dice d = {seed};
    memset(p, 0, sizeof *p);
    p->seed = seed;
    p->is_f64 = chance(&d, 35);
    p->is_large = chance(&d, 3);
    p->has_modules = chance(&d, 25);
    p->batch = 1 + below(&d, 3);
    p->time = 1 + below(&d, 5);
    p->width = 1 + below(&d, 6);
    p->rows = 2 + below(&d, 20);
    if (p->is_large) {
        p->batch = 4;
        p->time = 60 + below(&d, 20);
        p->width = 66 + 2 * below(&d, 8);
        p->rows = 50 + below(&d, 300);
    } else if (chance(&d, 12)) {
        p->is_large = true;
        draw_long_sizes(&d, p);
    }
    p->optimizer = below(&d, 4);
    bool has_two_tapes = chance(&d, 20) && !is_left_out("tape");
    draft_begin(&so_far, p);
    for (int segments = 1 + below(&d, 4); segments > 0; segments--) {
        draft_add(&so_far, begin_instruction(&d, RESET, 0));
        add_segment(&d, &so_far, p->is_large ? 4 + below(&d, 8) : 5 + below(&d, 28), has_two_tapes);
    }
    draft_end(&so_far);
}
