/* Gradients of gradients beside torch's (tests/goldens/make_second.py has the cases and explains their file): in f64,
 * in f32, of strided inputs, with the last order in ops as well, and with NaN in all values that backward ignores.
 * Every op with a second derivative must be in a case.
 *
 *     grad_test_second FILE        checks the cases of another file, in f64
 */
#include "ops/calls.h"
#include "rows/rows.h"
#include "support.h"
#include "tape/tape.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <tapegrad/grad.h>

enum { OPERANDS = 5, OPTIONS = 4, VALUES = 32, LINE = 1 << 16 };

/* ---- calls: of operands x, their number n, and options p ---- */

/* 9 is all axes, 8 the first and the last. */
static tg_axes axes_of(double axis)
{
    return axis == 9 ? TG_ALL_AXES : axis == 8 ? TG_AXES(0, -1) : TG_AXES((int)axis);
}

static tg_shape sizes_of(const double *p, int count)
{
    int64_t sizes[OPTIONS];
    for (int i = 0; i < count; i++) {
        sizes[i] = (int64_t)p[i];
    }
    return tg_shape_make(count, sizes);
}

static tg_tensor *rotary(tg_tape *t, tg_tensor *x, double start, double neighbors, tg_tensor *positions)
{
    tg_rotary_config config = tg_rotary_config_default();
    config.positions = positions;
    config.pairing = neighbors != 0 ? TG_ROTARY_NEIGHBORS : TG_ROTARY_HALVES;
    return tg_rotary(t, x, (int64_t)start, &config);
}

static tg_tensor *attention(tg_tape *t, tg_tensor *const *x, const double *p)
{
    tg_scaled_dot_product_attention_config config = attention_config(p[0] != 0, 0, x[3]);
    config.enable_gqa = p[1] != 0;
    config.scale = p[2];
    config.lengths = x[4] && tg_tensor_dtype(x[4]) == TG_I32 ? x[4] : NULL;
    config.key_mask = config.lengths ? NULL : x[4];
    return attend(p[3] != 0 ? TG_ATTENTION_ELEMENTARY : TG_ATTENTION_FUSED, t, x[0], x[1], x[2], config);
}

static tg_tensor *near_attention(tg_tape *t, tg_tensor *const *x, const double *p)
{
    tg_scaled_dot_product_attention_config config = attention_config(p[0] != 0, 0, NULL);
    config.window = (int64_t)p[1];
    config.first_keys = x[3];
    return attend(p[2] != 0 ? TG_ATTENTION_ELEMENTARY : TG_ATTENTION_FUSED, t, x[0], x[1], x[2], config);
}

static tg_tensor *classes(tg_tape *t, tg_tensor *const *x, const double *p, bool are_logits)
{
    tg_cross_entropy_config config = loss_config((int32_t)p[0], are_logits ? p[2] : 0, (tg_reduction)p[1]);
    config.weight = x[2];
    return are_logits ? tg_cross_entropy(t, x[0], x[1], &config) : tg_nll_loss(t, x[0], x[1], &config);
}

static tg_tensor *binary(tg_tape *t, tg_tensor *const *x, const double *p)
{
    tg_binary_cross_entropy_with_logits_config config = tg_binary_cross_entropy_with_logits_config_default();
    config.weight = x[2];
    config.pos_weight = x[3];
    config.reduction = (tg_reduction)p[0];
    return tg_binary_cross_entropy_with_logits(t, x[0], x[1], &config);
}

static tg_tensor *cast_back(tg_tape *t, tg_tensor *x)
{
    tg_dtype own = tg_tensor_dtype(x);
    return tg_cast(t, tg_cast(t, x, own == TG_F64 ? TG_F32 : TG_F64), own);
}

/* The same numbers for each call: torch.manual_seed. */
static tg_tensor *dropout(tg_tape *t, tg_tensor *x, double p)
{
    tg_rng_seed(t->rng, 5);
    return tg_dropout(t, x, p);
}

#define OF_ONE(CALL, name) CALL(name, tg_##name(t, x[0]))
#define OF_TWO(CALL, name) CALL(name, tg_##name(t, x[0], x[1]))
#define OVER_AXES(CALL, name) CALL(name, tg_##name(t, x[0], axes_of(p[0]), (tg_keep_axes)p[1]))
/* clang-format off */
#define CALLS(CALL) \
    OF_TWO(CALL, add) OF_TWO(CALL, sub) OF_TWO(CALL, mul) OF_TWO(CALL, div) OF_TWO(CALL, pow) OF_TWO(CALL, maximum) \
    OF_TWO(CALL, minimum) OF_TWO(CALL, remainder) OF_TWO(CALL, matmul) \
    OF_ONE(CALL, neg) OF_ONE(CALL, exp) OF_ONE(CALL, log) OF_ONE(CALL, sqrt) OF_ONE(CALL, sin) OF_ONE(CALL, cos) \
    OF_ONE(CALL, abs) OF_ONE(CALL, sign) OF_ONE(CALL, round) OF_ONE(CALL, floor) OF_ONE(CALL, tanh) \
    OF_ONE(CALL, sigmoid) OF_ONE(CALL, relu) OF_ONE(CALL, gelu) OF_ONE(CALL, gelu_tanh) OF_ONE(CALL, silu) \
    OF_ONE(CALL, log_sigmoid) OF_ONE(CALL, contiguous) \
    OVER_AXES(CALL, sum) OVER_AXES(CALL, mean) OVER_AXES(CALL, amax) OVER_AXES(CALL, amin) OVER_AXES(CALL, logsumexp) \
    CALL(clamp_tensor, tg_clamp_tensor(t, x[0], x[1], x[2])) \
    CALL(add_scalar, tg_add_scalar(t, x[0], p[0])) \
    CALL(mul_scalar, tg_mul_scalar(t, x[0], p[0])) \
    CALL(div_scalar, tg_div_scalar(t, x[0], p[0])) \
    CALL(pow_scalar, tg_pow_scalar(t, x[0], p[0])) \
    CALL(where, tg_where(t, x[0], x[1], x[2])) \
    CALL(masked_fill, tg_masked_fill(t, x[0], x[1], p[0])) \
    CALL(tril, tg_tril(t, x[0], (int64_t)p[0])) \
    CALL(triu, tg_triu(t, x[0], (int64_t)p[0])) \
    CALL(clamp, tg_clamp(t, x[0], p[0], p[1])) \
    CALL(leaky_relu, tg_leaky_relu(t, x[0], p[0])) \
    CALL(elu, tg_elu(t, x[0], p[0])) \
    CALL(softplus, tg_softplus(t, x[0], p[0], p[1])) \
    CALL(dropout, dropout(t, x[0], p[0])) \
    CALL(cast_back, cast_back(t, x[0])) \
    CALL(var, tg_var(t, x[0], axes_of(p[0]), (int)p[2], (tg_keep_axes)p[1])) \
    CALL(std, tg_std(t, x[0], axes_of(p[0]), (int)p[2], (tg_keep_axes)p[1])) \
    CALL(norm, tg_norm(t, x[0], p[2], axes_of(p[0]), (tg_keep_axes)p[1])) \
    CALL(cumsum, tg_cumsum(t, x[0], (int)p[0])) \
    CALL(topk, tg_topk(t, x[0], (int64_t)p[0], (int)p[1], (tg_order)p[2], NULL)) \
    CALL(sort, tg_sort(t, x[0], (int)p[0], (tg_order)p[1], NULL)) \
    CALL(reshape, tg_reshape(t, x[0], sizes_of(p, n))) \
    CALL(expand, tg_expand(t, x[0], sizes_of(p, n))) \
    CALL(repeat, tg_repeat(t, x[0], sizes_of(p, n))) \
    CALL(transpose, tg_transpose(t, x[0], (int)p[0], (int)p[1])) \
    CALL(permute, tg_permute(t, x[0], tg_axes_make(n, (int[]){(int)p[0], (int)p[1], (int)p[2]}))) \
    CALL(slice, tg_slice(t, x[0], (int)p[0], (int64_t)p[1], (int64_t)p[2], (int64_t)p[3])) \
    CALL(flip, tg_flip(t, x[0], axes_of(p[0]))) \
    CALL(select, tg_select(t, x[0], (int)p[0], (int64_t)p[1])) \
    CALL(unsqueeze, tg_unsqueeze(t, x[0], (int)p[0])) \
    CALL(squeeze, tg_squeeze(t, x[0], (int)p[0])) \
    CALL(cat2, tg_cat(t, x, 2, (int)p[0])) \
    CALL(cat3, tg_cat(t, x, 3, (int)p[0])) \
    CALL(stack2, tg_stack(t, x, 2, (int)p[0])) \
    CALL(gather, tg_gather(t, x[0], (int)p[0], x[1])) \
    CALL(index_select, tg_index_select(t, x[0], (int)p[0], x[1])) \
    CALL(scatter_add, tg_scatter_add(t, x[0], (int)p[0], x[1], x[2])) \
    CALL(index_add, tg_index_add(t, x[0], (int)p[0], x[1], x[2])) \
    CALL(embedding, embed(t, x[0], x[1], p[0] < 0 ? TG_NO_PADDING : (int64_t)p[0], p[1] != 0)) \
    CALL(linear, tg_linear(t, x[0], x[1], x[2])) \
    CALL(softmax, tg_softmax(t, x[0], (int)p[0])) \
    CALL(log_softmax, tg_log_softmax(t, x[0], (int)p[0])) \
    CALL(layer_norm, tg_layer_norm(t, x[0], x[1], x[2], 1e-5)) \
    CALL(rms_norm, tg_rms_norm(t, x[0], x[1], 1e-5)) \
    CALL(rotary, rotary(t, x[0], p[0], p[1], NULL)) \
    CALL(rotary_at, rotary(t, x[0], p[0], p[1], x[1])) \
    CALL(near, near_attention(t, x, p)) \
    CALL(attention, attention(t, x, p)) \
    CALL(cross_entropy, classes(t, x, p, true)) \
    CALL(nll_loss, classes(t, x, p, false)) \
    CALL(mse_loss, tg_mse_loss(t, x[0], x[1], (tg_reduction)p[0])) \
    CALL(binary, binary(t, x, p))
/* clang-format on */

#define FUNCTION(name, expression)                                                         \
    static tg_tensor *call_##name(tg_tape *t, tg_tensor *const *x, const double *p, int n) \
    {                                                                                      \
        (void)p, (void)n;                                                                  \
        return expression;                                                                 \
    }
CALLS(FUNCTION)

#define ENTRY(name, expression) {#name, call_##name},
static const struct {
    const char *name;
    tg_tensor *(*run)(tg_tape *t, tg_tensor *const *x, const double *p, int n);
} calls[] = {CALLS(ENTRY)};

/* Calls the steps on the values, to which it appends; returns the last result, NULL after an error. */
static tg_tensor *run_steps(tg_tape *t, const char *steps, tg_tensor **values, int count)
{
    char text[LINE];
    snprintf(text, sizeof text, "%s", steps);
    for (char *word = strtok(text, " \n"); word;) {
        const char *name = word;
        double p[OPTIONS] = {0};
        tg_tensor *x[OPERANDS] = {NULL};
        int options = 0, operands = 0;
        for (char *at = strchr(word, ':'), *next; at; at = next) {
            *at = 0;
            next = strchr(at + 1, ':');
            assert_true(options < OPTIONS);
            p[options++] = strtod(at + 1, NULL);
        }
        while ((word = strtok(NULL, " \n")) && !isalpha((unsigned char)*word)) {
            assert_true(operands < OPERANDS);
            x[operands++] = *word == '-' ? NULL : values[atoi(word)];
        }
        size_t k = 0;
        while (k < sizeof calls / sizeof *calls && strcmp(calls[k].name, name) != 0) {
            k++;
        }
        if (k == sizeof calls / sizeof *calls || count == VALUES) {
            fail_msg("no call for %s", name);
        }
        values[count++] = calls[k].run(t, x, p, options);
    }
    return values[count - 1];
}

/* ---- comparison ---- */

typedef struct mode {
    const char *name;
    tg_dtype dtype;
    bool is_strided;
    bool is_poisoned; /* values that backward ignores become NaN */
    bool is_in_ops;   /* the last order, too */
    double tolerance; /* relative to the largest value of a tensor */
} mode;

static const mode modes[] = {
    {"f64", .dtype = TG_F64, .tolerance = 1e-9},
    {"strided", .dtype = TG_F64, .tolerance = 1e-9, .is_strided = true},
    {"poisoned", .dtype = TG_F64, .tolerance = 1e-9, .is_poisoned = true},
    {"in ops", .dtype = TG_F64, .tolerance = 1e-9, .is_in_ops = true},
    {"f32", .dtype = TG_F32, .tolerance = 1e-3},
};

static char line[LINE];

/* Returns the next line's tensor, which is yours; a float of the mode's dtype. */
static tg_tensor *read_tensor(FILE *goldens, tg_dtype dtype, bool *is_leaf)
{
    int rank, used;
    char name[4];
    assert_non_null(fgets(line, sizeof line, goldens));
    assert_int_equal(sscanf(line, "%3s %d%n", name, &rank, &used), 2);
    char *at = line + used;
    tg_shape shape = {.rank = rank};
    for (int axis = 0; axis < rank; axis++) {
        shape.size[axis] = strtoll(at, &at, 10);
    }
    tg_tensor *values = tg_tensor_new(TG_F64, shape, NULL);
    assert_non_null(values);
    for (int64_t i = 0; i < tg_tensor_count(values); i++) {
        tg_put(values, i, strtod(at, &at));
    }
    *is_leaf = strcmp(name, "f64") == 0;
    tg_dtype own = strcmp(name, "i32") == 0 ? TG_I32 : strcmp(name, "u8") == 0 ? TG_U8 : dtype;
    tg_tensor *x = tg_tensor_new_cast(values, own, NULL);
    tg_release(values);
    return x;
}

/* Returns x as every other value along the first axis of a larger tensor, which is yours; a scalar stays. */
static tg_tensor *strided(tg_tape *t, tg_tensor *x)
{
    tg_shape shape = tg_tensor_shape(x);
    if (shape.rank == 0) {
        return x;
    }
    int64_t first = shape.size[0];
    shape.size[0] = 2 * first + 1;
    tg_tensor *base = tg_tensor_new(tg_tensor_dtype(x), shape, NULL);
    tg_tensor *view = tg_retain(tg_slice(t, base, 0, 1, 2 * first + 1, 2));
    assert_true(tg_tensor_copy_from(view, x, NULL));
    tg_tape_reset(t);
    tg_release(base);
    tg_release(x);
    return view;
}

static bool is_read_by_backward(const tg_tape *t, const tg_storage *storage)
{
    for (size_t k = 0; k < t->record_count; k++) {
        const tg_record *record = &t->records[k];
        for (int i = 0; i < record->input_count + record->output_count; i++) {
            if (t->tensors[record->first_tensor + (size_t)i]->storage == storage && !tg_backward_ignores(record, i)) {
                return true;
            }
        }
    }
    return false;
}

/* Returns how many tensors it overwrites. */
static int poison(const tg_tape *t)
{
    int poisoned = 0;
    for (size_t k = 0; k < t->tensor_count; k++) {
        tg_tensor *x = t->tensors[k];
        bool is_float = x->dtype == TG_F32 || x->dtype == TG_F64;
        if (is_float && x->contiguous && tg_has_values(x) && !is_read_by_backward(t, x->storage)) {
            for (int64_t i = 0; i < x->count; i++) {
                tg_put(x, i, NAN);
            }
            poisoned++;
        }
    }
    return poisoned;
}

/* The ops with a second derivative of which a case has a record. */
enum { MOST_OPS = 200 };
static const tg_op *seen[MOST_OPS];
static int seen_count;

static bool has_seen(const tg_op *op)
{
    int i = 0;
    while (i < seen_count && seen[i] != op) {
        i++;
    }
    return i < seen_count;
}

static void see_ops(const tg_tape *t)
{
    for (size_t k = 0; k < t->record_count; k++) {
        const tg_op *op = t->records[k].op;
        if (op->differentiate && !has_seen(op)) {
            assert_true(seen_count < MOST_OPS);
            seen[seen_count++] = op;
        }
    }
}

typedef struct golden_case {
    char steps[LINE];
    int orders, inputs;
    const mode *mode;
    bool failed;
} golden_case;

/* x may be NULL: zeros. */
static void compare(golden_case *c, int order, int input, const tg_tensor *x, const tg_tensor *expected)
{
    double largest = 0.1;
    for (int64_t i = 0; i < tg_tensor_count(expected); i++) {
        largest = fmax(largest, fabs(tg_tensor_value_at(expected, i)));
    }
    if (x && !tg_shape_equal(tg_tensor_shape(x), tg_tensor_shape(expected))) {
        print_error("%s, %s: gradient %d of order %d has another shape\n", c->steps, c->mode->name, input, order);
        c->failed = true;
        return;
    }
    for (int64_t i = 0; i < tg_tensor_count(expected) && !c->failed; i++) {
        double value = x ? tg_tensor_value_at(x, i) : 0, wanted = tg_tensor_value_at(expected, i);
        if (!(fabs(value - wanted) <= c->mode->tolerance * largest)) {
            print_error("%s, %s: gradient %d of order %d is %.17g at %lld, torch's %.17g\n", c->steps, c->mode->name,
                        input, order, value, (long long)i, wanted);
            c->failed = true;
        }
    }
}

/* Computes the gradients of the outputs that have one, times the factors. */
static bool differentiate(const golden_case *c, tg_tape *t, bool create_graph, tg_tensor **outputs, tg_tensor **factors,
                          int count, tg_tensor **leaves, int leaf_count, tg_tensor **gradients)
{
    tg_tensor *used[VALUES], *used_factors[VALUES];
    int used_count = 0;
    for (int i = 0; i < count; i++) {
        if (outputs[i] && tg_tensor_requires_grad(outputs[i])) {
            used[used_count] = outputs[i];
            used_factors[used_count++] = factors[i];
        }
    }
    memset(gradients, 0, (size_t)leaf_count * sizeof *gradients);
    tg_grad_config config = tg_grad_config_default();
    config.output_gradients = used_factors;
    config.output_gradient_count = used_count;
    config.create_graph = create_graph;
    config.allow_unused = true;
    if (used_count > 0 && !tg_grad(t, used, used_count, leaves, leaf_count, gradients, &config)) {
        print_error("%s, %s: %s\n", c->steps, c->mode->name, tg_tape_error(t)->text);
        return false;
    }
    return true;
}

/* Reads and checks what follows the line of a case. Returns how many tensors were poisoned. */
static int check_case(FILE *goldens, golden_case *c)
{
    const mode *m = c->mode;
    tg_run *run = tg_run_new(5);
    tg_tape *t = tg_tape_new(run, NULL);
    tg_tensor *values[VALUES], *leaves[VALUES], *outputs[VALUES], *factors[VALUES], *gradients[VALUES], *mine[99];
    int leaf_count = 0, count = 1, mine_count = 0;
    bool is_leaf;
    for (int i = 0; i < c->inputs; i++) {
        values[i] = read_tensor(goldens, m->dtype, &is_leaf);
        mine[mine_count++] = values[i] = m->is_strided ? strided(t, values[i]) : values[i];
        if (is_leaf) {
            leaves[leaf_count++] = leaf(values[i]);
        }
    }
    outputs[0] = run_steps(t, c->steps, values, c->inputs);
    mine[mine_count++] = factors[0] = leaf(read_tensor(goldens, m->dtype, &is_leaf));
    if (!outputs[0]) {
        print_error("%s, %s: %s\n", c->steps, m->name, tg_tape_error(t)->text);
        c->failed = true;
    }
    see_ops(t);
    int poisoned = m->is_poisoned ? poison(t) : 0;
    for (int order = 1; order <= c->orders; order++) {
        bool create_graph = order < c->orders || m->is_in_ops;
        if (!c->failed) {
            c->failed = !differentiate(c, t, create_graph, outputs, factors, count, leaves, leaf_count, gradients);
        }
        for (int i = 0; i < leaf_count; i++) {
            tg_tensor *expected = read_tensor(goldens, TG_F64, &is_leaf);
            if (!c->failed) {
                compare(c, order, i, gradients[i], expected);
            }
            tg_release(expected);
        }
        memcpy(outputs, gradients, sizeof outputs);
        count = leaf_count;
        for (int i = 0; order < c->orders && i < count; i++) {
            mine[mine_count++] = factors[i] = read_tensor(goldens, m->dtype, &is_leaf);
        }
        if (order == 1) {
            leaves[leaf_count++] = mine[c->inputs];
        }
    }
    tg_tape_free(t);
    tg_run_free(run);
    for (int i = 0; i < mine_count; i++) {
        tg_release(mine[i]);
    }
    return poisoned;
}

/* ---- tests ---- */

static const char *path = TG_TEST_GOLDENS "/second.txt";
static int mode_count = sizeof modes / sizeof *modes;

static void test_beside_torch(void **state)
{
    (void)state;
    static golden_case c;
    FILE *goldens = fopen(path, "r");
    assert_non_null(goldens);
    int cases = 0, failures = 0, poisoned = 0;
    for (; fgets(line, sizeof line, goldens); cases++) {
        int used;
        assert_int_equal(sscanf(line, "steps %d %d %n", &c.orders, &c.inputs, &used), 2);
        snprintf(c.steps, sizeof c.steps, "%s", line + used);
        c.steps[strcspn(c.steps, "\n")] = 0;
        long start = ftell(goldens);
        for (int k = 0; k < mode_count; k++) {
            c.mode = &modes[k];
            c.failed = false;
            fseek(goldens, start, SEEK_SET);
            poisoned += check_case(goldens, &c);
            failures += c.failed;
        }
    }
    fclose(goldens);
    print_message("%d cases, %d failures, %d tensors poisoned\n", cases, failures, poisoned);
    assert_int_equal(failures, 0);
    assert_true(cases > 0);
}

/* Returns a constant of the next shape in the text, "2,3 3", and moves on. */
static tg_tensor *next_input(tg_tape *t, row_input how, const char **text)
{
    tg_shape shape = TG_SCALAR;
    *text += strspn(*text, " ");
    for (*text += **text == '-'; isdigit((unsigned char)**text); *text += **text == ',') {
        char *end;
        shape.size[shape.rank++] = strtoll(*text, &end, 10);
        *text = end;
    }
    bool is_integer = how == IDS || how == TARGETS;
    tg_tensor *x = tg_full(t, is_integer ? TG_I32 : how == MASK ? TG_U8 : TG_F64, shape, is_integer ? 0 : 1);
    if (is_integer && tg_tensor_count(x) > 1) {
        ((int32_t *)tg_tensor_data_mut(x))[tg_tensor_count(x) - 1] = 1; /* groups of pairs must not be all the same */
    }
    return x;
}

/* The samples of tests/rows call every op. */
static void test_every_op_has_a_case(void **state)
{
    (void)state;
    int with_second = 0, missing = 0;
    for (int k = 0; k < sample_count(); k++) {
        const sample *s = sample_at(k);
        tg_run *run = tg_run_new(5);
        tg_tape *t = tg_tape_new(run, NULL);
        tg_tensor *inputs[ROW_INPUTS];
        const char *shapes = s->shapes[0];
        for (int i = 0; i < row_input_count(s->row); i++) {
            inputs[i] = next_input(t, s->row->inputs[i], &shapes);
            if (tg_tensor_dtype(inputs[i]) == TG_F64) {
                leaf(inputs[i]);
            }
        }
        if (!sample_call(s, t, inputs)) {
            fail_msg("%s", tg_tape_error(t)->text);
        }
        for (size_t i = 0; i < t->record_count; i++) {
            const tg_op *op = t->records[i].op;
            with_second += op->differentiate != NULL;
            if (op->differentiate && !has_seen(op)) {
                print_error("%s %s: no case for '%s'\n", s->row->op, s->variant, op->name);
                missing++;
            }
        }
        tg_tape_free(t);
        tg_run_free(run);
    }
    assert_int_equal(missing, 0);
    assert_true(with_second > 0);
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        path = argv[1];
        mode_count = 1;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_beside_torch), cmocka_unit_test(test_every_op_has_a_case)};
    return _cmocka_run_group_tests("second", tests, argc > 1 ? 1 : 2, NULL, NULL);
}
