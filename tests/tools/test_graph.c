/* What a graph shows of a tape: names, values, gradients, and the steps of backward, as a text and as a drawing. */
#include <stdio.h>
#include <string.h>

#include "support.h"

static tg_run *run;
static tg_params *params;
static tg_tape *tape;
static tg_tensor *table, *ids;

static int set_up(void **state)
{
    (void)state;
    run = tg_run_new(1);
    params = tg_params_new(run, TG_F64);
    tape = tg_tape_new(run, NULL);
    table = tg_params_add(params, "table.weight", TG_SHAPE(3, 2));
    tg_tensor_fill_from(table, (double[]){1, 2, 3, 4, 5, 6}, NULL);
    ids = tensor_i32(TG_SHAPE(3), (int32_t[]){2, 0, 2});
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    tg_tape_free(tape);
    tg_params_free(params);
    tg_run_free(run);
    tg_release(ids);
    return 0;
}

static tg_graph *graph_of(bool steps)
{
    tg_graph_config config = tg_graph_config_default();
    config.params = params;
    config.steps = steps;
    tg_graph *graph = tg_graph_new(tape, &config);
    assert_non_null(graph);
    return graph;
}

/* The sum of the squares of rows 2, 0 and 2. */
static void step(void)
{
    tg_tape_reset(tape);
    tg_tensor_zero_grad(table);
    tg_tensor *x = tg_embedding(tape, ids, table, NULL);
    assert_true(tg_backward(tape, tg_sum_all(tape, tg_mul(tape, x, x)), NULL));
}

static const char *written(tg_graph *graph, bool (*write)(tg_graph *, FILE *, tg_error *))
{
    static char text[20000];
    FILE *file = tmpfile();
    tg_error error = TG_NO_ERROR;
    if (!write(graph, file, &error)) {
        fail_msg("%s", error.text);
    }
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return text;
}

static const char leaves_and_results[] = "leaves\n"
                                         "  ids  i32 (3,)  [2, 0, 2]\n"
                                         "  table.weight  f64 (3,2)  [1, 2, 3, 4, ...]\n"
                                         "      gradient  row 2 [20, 24], row 0 [2, 4]\n"
                                         "results\n"
                                         "  %1 = embedding(ids, table.weight)  f64 (3,2)  [5, 6, 1, 2, ...]\n"
                                         "      gradient  [10, 12, 2, 4, ...]\n"
                                         "  %2 = mul(%1, %1)  f64 (3,2)  [25, 36, 1, 4, ...]\n"
                                         "      gradient  [1, 1, 1, 1, ...]\n"
                                         "  %3 = sum(%2)  f64 ()  [127]\n";

static const char backward[] = "backward\n"
                               "  step 1: %3 = sum, whose gradient is [1]\n"
                               "    adds [1, 1, 1, 1, ...] to the gradient of %2\n"
                               "  step 2: %2 = mul, whose gradient is [1, 1, 1, 1, ...]\n"
                               "    adds [10, 12, 2, 4, ...] to the gradient of %1\n"
                               "  step 3: %1 = embedding, whose gradient is [10, 12, 2, 4, ...]\n"
                               "    adds row 2 [20, 24], row 0 [2, 4] to the gradient of table.weight\n";

/* The second step shows the same as the first: nothing is left of what was reset. */
static void test_text(void **state)
{
    (void)state;
    char expected[2000];
    tg_graph *without = graph_of(false), *with = graph_of(true);
    for (int i = 0; i < 2; i++) {
        step();
        assert_string_equal(written(without, tg_graph_write_text), leaves_and_results);
        snprintf(expected, sizeof expected, "%s%s", leaves_and_results, backward);
        assert_string_equal(written(with, tg_graph_write_text), expected);
    }
    tg_graph_free(without);
    tg_graph_free(with);
    step(); /* not watched any more */
    assert_int_equal(tg_tape_error(tape)->code, TG_OK);
}

static int count(const char *text, const char *part)
{
    int found = 0;
    for (const char *at = strstr(text, part); at; at = strstr(at + 1, part)) {
        found++;
    }
    return found;
}

/* A graph of the forward pass, and one for each step, which has the gradients that are known by then. */
static void test_steps_in_dot(void **state)
{
    (void)state;
    tg_graph *graph = graph_of(true);
    step();
    const char *text = written(graph, tg_graph_write_dot);
    assert_int_equal(count(text, "digraph tape {\n"), 4);
    const char *forward = strstr(text, "label=\"forward\""), *first = strstr(text, "label=\"backward, step 1\"");
    const char *third = strstr(text, "label=\"backward, step 3\"");
    assert_true(forward && forward < first && first < third);
    assert_int_equal(count(text, "color=red, fontcolor=red"), 3);
    assert_int_equal(count(text, "shape=box, color=red"), 3);
    /* %2 has its gradient after step 1, and table.weight after step 3 */
    assert_true(strstr(forward, "gradient") > first);
    assert_int_equal(
        count(text, "table.weight\\nf64 (3,2)\\n[1, 2, 3, 4, ...]\\ngradient row 2 [20, 24], row 0 [2, 4]\""), 1);
    assert_int_equal(count(third, "table.weight\\nf64 (3,2)\\n[1, 2, 3, 4, ...]\\ngradient"), 1);
    assert_int_equal(count(text, "label=\"+ [10, 12, 2, 4, ...]\""), 1);
    tg_graph_free(graph);
}

/* A sum gives its gradient to both inputs, and an input that is used twice gets two parts. */
static void test_repeated_inputs(void **state)
{
    (void)state;
    tg_graph *graph = graph_of(true);
    tg_tensor *x = leaf(tensor_f64(TG_SHAPE(2), (double[]){1, 2}));
    tg_tensor *y = tg_mul_scalar(tape, x, 3), *z = tg_reshape(tape, tg_add(tape, y, tg_neg(tape, y)), TG_SHAPE(2, 1));
    assert_true(tg_backward(tape, tg_sum_all(tape, z), NULL));
    const char *text = strstr(written(graph, tg_graph_write_text), "backward\n");
    assert_non_null(text);
    assert_int_equal(count(text, "  step "), 5);
    assert_non_null(strstr(text, " = add, whose gradient is [1, 1]\n    adds [1, 1] to the gradient of %1\n"
                                 "    adds [1, 1] to the gradient of %2\n"));
    assert_non_null(
        strstr(text, " = neg, whose gradient is [1, 1]\n    adds [-1, -1] to the gradient of %1, now [0, 0]\n"));
    tg_graph_free(graph);
    tg_release(x);
}

/* A name of the params is escaped, leaves with one name are numbered, and values are elided as the config says. */
static void test_names(void **state)
{
    (void)state;
    tg_graph_config config = tg_graph_config_default();
    config.values = 0;
    tg_graph *graph = tg_graph_new(tape, &config);
    tg_tensor *a = leaf(tensor_f64(TG_SHAPE(1), (double[]){1})), *b = leaf(tensor_f64(TG_SHAPE(1), (double[]){2}));
    tg_neg(tape, a);
    tg_neg(tape, b);
    const char *text = written(graph, tg_graph_write_text);
    assert_non_null(strstr(text, "  x  f64 (1,)  [...]\n"));
    assert_non_null(strstr(text, "  x (2)  f64 (1,)  [...]\n"));
    assert_non_null(strstr(text, "%2 = neg(x (2))"));
    tg_graph_free(graph);
    tg_tape_reset(tape);
    tg_params *hostile = tg_params_new(NULL, TG_F64);
    tg_params_add_existing(hostile, "a\x1b\"b", a);
    config.params = hostile;
    graph = tg_graph_new(tape, &config);
    tg_neg(tape, a);
    assert_non_null(strstr(written(graph, tg_graph_write_text), "  a\\x1b\"b  f64"));
    assert_non_null(strstr(written(graph, tg_graph_write_dot), "[label=\"a\\\\x1b\\\"b\\nf64"));
    tg_graph_free(graph);
    tg_params_free(hostile);
    tg_release(a);
    tg_release(b);
}

static void test_errors(void **state)
{
    (void)state;
    tg_error error = TG_NO_ERROR;
    tg_graph_config config = tg_graph_config_default();
    config.values = 65;
    assert_null(tg_graph_new(tape, &config));
    assert_tape_error(tape, TG_ERROR_VALUE, "graph_new: values is 65; it must be 0 to 64");
    assert_null(tg_graph_new(NULL, NULL));
    tg_graph *graph = graph_of(true);
    step();
    assert_false(tg_graph_write_text(NULL, stdout, &error));
    assert_error(&error, TG_ERROR_STATE, "graph_write_text: the graph is NULL");
    assert_false(tg_graph_write_dot(graph, NULL, &error));
    assert_error(&error, TG_ERROR_STATE, "graph_write_dot: the file is NULL");
    FILE *full = fopen("/dev/full", "w");
    if (full) {
        assert_false(tg_graph_write_text(graph, full, &error));
        assert_error(&error, TG_ERROR_FILE, "graph_write_text: the file cannot be written");
        fclose(full);
    }
    tg_graph_free(graph);
    tg_graph_free(NULL);
}

/* ---- without a graph ---- */

/* Two linear calls, and two views. */
static void step_of_linears(void)
{
    tg_params *floats = tg_params_new(run, TG_F32);
    tg_nn_linear linear = tg_nn_linear_make(floats, "linear", 3, 2, TG_BIAS);
    tg_tensor *x = tg_full(tape, TG_F32, TG_SHAPE(4, 3), 1);
    tg_tensor *y = tg_add(tape, tg_nn_linear_forward(tape, &linear, x), tg_nn_linear_forward(tape, &linear, x));
    tg_tensor *turned = tg_transpose(tape, tg_unsqueeze(tape, y, 0), 1, 2);
    assert_true(tg_backward(tape, tg_sum(tape, turned, TG_ALL_AXES, TG_DROP_AXES), NULL));
    tg_params_free(floats);
}

static void test_dot(void **state)
{
    (void)state;
    step_of_linears();
    FILE *file = tmpfile();
    tg_error error = TG_NO_ERROR;
    assert_true(tg_tape_write_dot(tape, file, &error));
    rewind(file);
    char text[8192];
    size_t length = fread(text, 1, sizeof text - 1, file);
    text[length] = '\0';
    fclose(file);
    int boxes = 0, ellipses = 0, arrows = 0;
    for (const char *at = text; *at; at++) {
        boxes += strncmp(at, "shape=box", 9) == 0;
        ellipses += strncmp(at, "shape=ellipse", 13) == 0;
        arrows += strncmp(at, " -> ", 4) == 0;
    }
    assert_memory_equal(text, "digraph tape {\n", 15);
    assert_int_equal(boxes, 6);    /* linear, linear, add, unsqueeze, transpose, sum */
    assert_int_equal(ellipses, 3); /* x, weight, bias */
    assert_int_equal(arrows, 3 + 3 + 2 + 1 + 1 + 1);
    assert_non_null(strstr(text, "[label=\"%1 linear\\nf32 (4,2)\\n["));
    assert_non_null(strstr(text, "[label=\"x\\nf32 (4,3)\\n[1, 1, 1, 1, ...]\", shape=ellipse];"));
    assert_non_null(strstr(text, "[label=\"weight\\nf32 (2,3)\\n["));
    assert_non_null(strstr(text, "gradient [8, 8, 8, 8, ...]\", shape=ellipse];"));
    assert_false(tg_tape_write_dot(tape, NULL, &error));
    assert_error(&error, TG_ERROR_STATE, "tape_write_dot: the file is NULL");
    FILE *full = fopen("/dev/full", "w");
    if (full) {
        assert_false(tg_tape_write_dot(tape, full, &error));
        assert_error(&error, TG_ERROR_FILE, "tape_write_dot: the file cannot be written");
        fclose(full);
    }
}

/* Every allocation fails once: MEMORY, nothing leaks, and nothing is written. */
static void test_dot_without_memory(void **state)
{
    (void)state;
    counting_allocator counting;
    tg_tape_free(tape);
    allocator_install(&counting);
    tape = tg_tape_new(NULL, NULL);
    tg_full(tape, TG_F32, TG_SHAPE(2), 1);
    size_t before = counting.live;
    FILE *file = tmpfile();
    bool is_written = false;
    for (size_t k = 1; !is_written; k++) {
        allocator_arm(&counting, k, true);
        tg_error error = TG_NO_ERROR;
        is_written = tg_tape_write_dot(tape, file, &error);
        assert_int_equal(error.code, is_written ? TG_OK : TG_ERROR_MEMORY);
        assert_true(is_written == (ftell(file) > 0));
        assert_int_equal(counting.live, before);
        assert_true(!is_written || k > 2);
    }
    fclose(file);
    tg_tape_free(tape);
    tape = NULL;
    allocator_restore();
}

/* Every allocation fails once while backward is watched: the writer reports MEMORY, or writes all. Nothing leaks. */
static void test_steps_without_memory(void **state)
{
    (void)state;
    bool is_written = false;
    for (size_t k = 1; !is_written; k++) {
        counting_allocator counting;
        allocator_install(&counting);
        tg_tensor *x = leaf(tensor_f64(TG_SHAPE(2), (double[]){1, 2}));
        tg_tape *t = tg_tape_new(NULL, NULL);
        tg_graph *graph = tg_graph_new(t, NULL);
        tg_error error = TG_NO_ERROR;
        FILE *file = tmpfile();
        allocator_arm(&counting, k, true);
        tg_tensor *y = tg_mul(t, x, x);
        bool is_computed = tg_backward(t, tg_sum_all(t, tg_add(t, y, y)), NULL);
        is_written = tg_graph_write_text(graph, file, &error) && is_computed;
        assert_true(is_written || error.code == TG_ERROR_MEMORY || tg_tape_error(t)->code == TG_ERROR_MEMORY);
        allocator_arm(&counting, 0, false);
        fclose(file);
        tg_graph_free(graph);
        tg_tape_free(t);
        tg_release(x);
        assert_int_equal(counting.live, 0);
        allocator_restore();
        assert_true(!is_written || k > 10);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_text, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_steps_in_dot, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_repeated_inputs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_names, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_errors, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_dot, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_dot_without_memory, set_up, tear_down),
        cmocka_unit_test(test_steps_without_memory),
    };
    return cmocka_run_group_tests_name("graph", tests, NULL, NULL);
}
