#include "bench/op_bench.h"

#include <regex.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <tapegrad/extend.h>

#include "bench/figure.h"
#include "bench/op_measure.h"

/* ---- text ---- */

static void print_shape(const char *key, tg_shape shape)
{
    printf("\"%s\": [", key);
    for (int axis = 0; axis < shape.rank; axis++) {
        printf("%s%lld", axis ? ", " : "", (long long)shape.size[axis]);
    }
    printf("]");
}

static void print_inputs(const op_input *inputs, int count, const op_shape *shape)
{
    for (int i = 0; i < count; i++) {
        printf("%s{\"kind\": \"%s\", \"below\": %lld, \"strided\": %s, ", i ? ", " : "", op_kind_name(inputs[i].kind),
               (long long)inputs[i].below, op_input_is_strided(&inputs[i], shape) ? "true" : "false");
        print_shape("shape", inputs[i].shape);
        printf("}");
    }
}

static void list_row(const op_row *row, const op_shape *shape)
{
    char name[OP_NAME];
    op_input inputs[OP_INPUTS];
    int count = op_inputs(row, shape, inputs);
    if (count < 0) {
        return;
    }
    if (!bench_json) {
        printf("%s  %s  (%s)\n", row->op, op_name(row, name), row->inputs);
        return;
    }
    printf("{\"op\": \"%s\", \"name\": \"%s\", ", row->op, op_name(row, name));
    const test_row *expressed = row->row ? row->row : row_of(row->op);
    if (expressed && expressed->torch) {
        const char *options = expressed->options[0];
        printf("\"torch\": \"%s\", \"options\": \"%s\", ", expressed->torch, options ? options : "");
    }
    printf("\"inputs\": [");
    print_inputs(inputs, count, shape);
    printf("]}\n");
}

static void print_figure(const char *name, double time, double bound)
{
    if (bench_json) {
        printf(", \"%s\": %.6g", name, time * 1e6);
        if (bound > 0) {
            printf(", \"%s_bound\": %.6g", name, bound * 1e6);
        }
    } else if (bound > 0) {
        printf("  %12.2f %12.2f %6.2f", time * 1e6, bound * 1e6, bound / time);
    } else {
        printf("  %12.2f %12s %6s", time * 1e6, "-", "-");
    }
}

static void print_row(const op_case *c, const op_times *times, const op_options *options, const op_shape *shape)
{
    const op_row *row = op_case_row(c);
    char name[OP_NAME];
    op_name(row, name);
    if (bench_json) {
        printf("{\"op\": \"%s\", \"name\": \"%s\", \"shape\": \"%s\", \"dtype\": \"%s\", \"threads\": %d, "
               "\"unit\": \"us\", \"bound\": \"%s\"",
               row->op, name, op_shape_name(shape), options->f64 ? "f64" : "f32", tg_threads(),
               times->multiplies ? "multiply" : "copy");
        printf(", ");
        print_shape("result", op_case_result(c));
    } else {
        printf("%-40s", name);
    }
    print_figure("forward", times->forward, times->forward_bound);
    if (times->both > 0) {
        print_figure("both", times->both, times->both_bound);
    }
    printf(bench_json ? "}\n" : times->multiplies ? "  multiply\n" : "\n");
    fflush(stdout);
}

/* ---- runs ---- */

static tg_dtype dtype_of(const op_options *options)
{
    return options->f64 ? TG_F64 : TG_F32;
}

static void run_row(const op_row *row, const op_options *options, const op_shape *shape)
{
    op_case *c = op_case_new(row, shape, dtype_of(options));
    if (c) {
        op_times times = op_measure(c, bench_quick ? 0 : 0.2);
        op_measure_bounds(c, &times);
        print_row(c, &times, options, shape);
        op_case_free(c);
    }
}

/* Runs or lists the rows whose names match. */
static int each_row(const op_options *options, const op_shape *shape)
{
    regex_t names;
    if (regcomp(&names, options->names ? options->names : "", REG_EXTENDED | REG_NOSUB) != 0) {
        tg_error error = TG_NO_ERROR;
        tg_error_set(&error, TG_ERROR_VALUE, "bench: '%s' is no regular expression", options->names);
        fprintf(stderr, "%s\n", error.text);
        return 2;
    }
    if (!bench_json && !options->list) {
        printf("%-40s  %12s %12s %6s  %12s %12s %6s\n", op_shape_name(shape), "forward us", "bound", "of it", "both us",
               "bound", "of it");
    }
    for (const op_row *const *rows = op_all_rows(); *rows; rows++) {
        for (const op_row *row = *rows; row->op; row++) {
            char name[OP_NAME];
            if (regexec(&names, op_name(row, name), 0, NULL, 0) == 0) {
                (options->list ? list_row(row, shape) : run_row(row, options, shape));
            }
        }
    }
    regfree(&names);
    return 0;
}

static const op_row *row_named(const char *name)
{
    for (const op_row *const *rows = op_all_rows(); *rows; rows++) {
        for (const op_row *row = *rows; row->op; row++) {
            char other[OP_NAME];
            if (strcmp(op_name(row, other), name) == 0) {
                return row;
            }
        }
    }
    return NULL;
}

/* Without bounds. The tensors of a row stay until another name comes. */
static int serve(const op_options *options, const op_shape *shape)
{
    char name[OP_NAME + 1];
    const op_row *row = NULL;
    op_case *c = NULL;
    bench_json = true;
    while (fgets(name, sizeof name, stdin)) {
        name[strcspn(name, "\n")] = '\0';
        const op_row *asked = row_named(name);
        if (asked != row && c) {
            op_case_free(c);
            c = NULL;
        }
        row = asked;
        c = c || !row ? c : op_case_new(row, shape, dtype_of(options));
        if (!c) {
            fprintf(stderr, "bench: '%s' is no row of this shape\n", name);
            return 2;
        }
        op_times times = op_measure(c, 0.05);
        print_row(c, &times, options, shape);
    }
    if (c) {
        op_case_free(c);
    }
    return 0;
}

/* The threads that OpenBLAS starts when it is loaded wait awake for a tenth of a second, and then sleep. */
static void wait_for_idle_threads(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
}

int op_bench(const op_options *options)
{
    const op_shape *shape = op_shape_of(options->shape);
    if (!shape) {
        fprintf(stderr, "bench: --shape %s; bench/op_inputs.c lists the shapes\n", options->shape);
        return 2;
    }
    if (!options->list) {
        wait_for_idle_threads();
    }
    return options->serve ? serve(options, shape) : each_row(options, shape);
}
