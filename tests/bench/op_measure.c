#include "bench/op_measure.h"

#include <stdio.h>
#include <stdlib.h>

#include "bench/figure.h"
#include "bench/op_bound.h"

enum { ROUNDS = 200, CALLS = 16 };

/* Short calls are timed together, each with ids of its own: the others of its inputs are those of the first call. */
struct op_case {
    const op_row *row;
    tg_run *run;
    tg_tape *tape;
    op_input inputs[OP_INPUTS];
    int count;
    tg_tensor *x[CALLS][OP_INPUTS];
    tg_shape result;
    tg_tensor *dy; /* NULL: the op has no gradient */
    double forward_bytes, backward_bytes, work;
};

static void fail(const op_case *c)
{
    char name[OP_NAME];
    fprintf(stderr, "bench: %s: %s\n", op_name(c->row, name), tg_tape_error(c->tape)->text);
    exit(1);
}

static tg_tensor *forward(op_case *c, tg_tensor *const *x)
{
    tg_tape_reset(c->tape);
    tg_tensor *y = op_call(c->row, c->tape, x);
    if (!y) {
        fail(c);
    }
    op_read(y);
    return y;
}

static void read_gradient(const tg_tensor *x)
{
    static volatile char first;
    const char *rows = tg_tensor_grad_rows(x).values;
    if (rows) {
        first = *rows;
        (void)first;
    } else if (tg_tensor_grad(x)) {
        op_read(tg_tensor_grad(x));
    }
}

static void backward(op_case *c, tg_tensor *const *x)
{
    for (int i = 0; i < c->count; i++) {
        tg_tensor_zero_grad(x[i]);
    }
    tg_backward_config config = tg_backward_config_default();
    config.gradient = c->dy;
    if (!tg_backward(c->tape, forward(c, x), &config)) {
        fail(c);
    }
    for (int i = 0; i < c->count; i++) {
        read_gradient(x[i]);
    }
}

/* ---- what the op reads and writes ---- */

static double bytes_of(const tg_tensor *x)
{
    tg_dtype dtype = tg_tensor_dtype(x);
    return (double)tg_tensor_count(x) * (double)tg_dtype_size(dtype);
}

/* Whether y shares the storage of x, whose columns may be every second one. */
static bool is_view(const tg_tensor *y, const tg_tensor *x)
{
    const char *begin = tg_tensor_data(x), *end = begin + (size_t)tg_tensor_stride(x, -1) * (size_t)bytes_of(x);
    const char *data = tg_tensor_data(y);
    return data >= begin && data < end;
}

/* Of a table no more is read, and of its gradient no more is written, than the result has. A view moves nothing. */
static void count_bytes(op_case *c, const tg_tensor *y)
{
    double result = bytes_of(y);
    c->forward_bytes = result;
    c->backward_bytes = result;
    for (int i = 0; i < c->count; i++) {
        double input = c->inputs[i].kind == OP_MODEL ? 0 : bytes_of(c->x[0][i]);
        input = c->inputs[i].kind == OP_TABLE && result < input ? result : input;
        c->forward_bytes += input;
        c->backward_bytes += op_has_gradient(c->inputs[i].kind) ? input : 0;
    }
    c->forward_bytes = is_view(y, c->x[0][0]) ? 0 : c->forward_bytes;
}

/* ---- cases ---- */

op_case *op_case_new(const op_row *row, const op_shape *shape, tg_dtype dtype)
{
    op_input inputs[OP_INPUTS];
    int count = op_inputs(row, shape, inputs);
    if (count < 0) {
        return NULL;
    }
    op_case *c = bench_must(calloc(1, sizeof *c));
    *c = (op_case){.row = row, .run = bench_must(tg_run_new(1)), .count = count};
    c->tape = bench_must(tg_tape_new(c->run, NULL));
    for (int i = 0; i < count; i++) {
        c->inputs[i] = inputs[i];
        c->x[0][i] = op_input_new(&inputs[i], shape, dtype, tg_run_rng(c->run));
    }
    tg_tensor *y = forward(c, c->x[0]);
    c->result = tg_tensor_shape(y);
    count_bytes(c, y);
    c->work = op_work(row, shape) * (dtype == TG_F64 ? 2 : 1);
    if (tg_tensor_requires_grad(y)) {
        c->dy = bench_must(tg_tensor_new_full(tg_tensor_dtype(y), tg_tensor_shape(y), 1, NULL));
    }
    return c;
}

const op_row *op_case_row(const op_case *c)
{
    return c->row;
}

tg_shape op_case_result(const op_case *c)
{
    return c->result;
}

/* Copies the ids for another call, unless they are there. */
static void copy_inputs(op_case *c, int call)
{
    for (int i = 0; i < c->count; i++) {
        if (!c->x[call][i]) {
            const tg_tensor *first = c->x[0][i];
            c->x[call][i] =
                c->inputs[i].kind == OP_IDS ? bench_must(tg_tensor_new_copy(first, NULL)) : tg_retain(c->x[0][i]);
        }
    }
}

void op_case_free(op_case *c)
{
    for (int call = 0; call < CALLS; call++) {
        for (int i = 0; i < c->count; i++) {
            tg_release(c->x[call][i]);
        }
    }
    tg_release(c->dy);
    tg_tape_free(c->tape);
    tg_run_free(c->run);
    free(c);
}

/* ---- times ---- */

static double time_calls(op_case *c, bool with_backward, int calls)
{
    for (int call = 0; call < calls; call++) {
        copy_inputs(c, call);
        for (int i = 0; i < c->count; i++) {
            if (c->inputs[i].kind == OP_IDS) {
                op_change_ids(c->x[call][i], c->inputs[i].below);
            }
        }
    }
    double start = op_clock();
    for (int call = 0; call < calls; call++) {
        if (with_backward) {
            backward(c, c->x[call]);
        } else {
            forward(c, c->x[call]);
        }
    }
    return (op_clock() - start) / calls;
}

/* The first call makes the blocks of memory and is not counted; the second one says how many are timed together. */
static double measure_pass(op_case *c, bool with_backward, double budget)
{
    double times[ROUNDS], first = time_calls(c, with_backward, 1);
    if (first > 0.5) {
        return time_calls(c, with_backward, 1);
    }
    double second = time_calls(c, with_backward, 1);
    int calls = second < 2e-5 ? CALLS : 1, rounds = 0;
    time_calls(c, with_backward, calls);
    double end = op_clock() + budget;
    while (rounds < ROUNDS && (rounds < 3 || op_clock() < end)) {
        times[rounds++] = time_calls(c, with_backward, calls);
    }
    return bench_median(times, rounds);
}

static double bound(double bytes, double work, bool *multiplies)
{
    double copy = op_copy_seconds(bytes), multiply = work > 0 ? op_multiply_seconds(work) : 0;
    *multiplies = multiply > copy;
    return *multiplies ? multiply : copy;
}

op_times op_measure(op_case *c, double budget)
{
    op_times times = {.forward = measure_pass(c, false, budget)};
    if (c->dy) {
        times.both = measure_pass(c, true, budget);
    }
    return times;
}

void op_measure_bounds(const op_case *c, op_times *times)
{
    times->forward_bound = bound(c->forward_bytes, c->work, &times->multiplies);
    if (c->dy) {
        times->both_bound = bound(c->forward_bytes + c->backward_bytes, 3 * c->work, &times->multiplies);
    }
}
