/* Gradients in random graphs of sums, differences, views and products, beside a plain reverse pass over arrays. All
 * values are small whole numbers, so they are exact. Every COLUMNS values of a tensor are the same as the COLUMNS
 * before them, so one reverse pass serves any width: 3 values, and so many that threads divide them.
 */
#include "support.h"

#include <string.h>

#include <tapegrad/op.h>

#include "base/parallel.h"
#include "base/random.h"

enum { COLUMNS = 3, LARGE = COLUMNS * (TG_GRAIN + 1), LEAVES = 2, NODES = 14 };

typedef enum kind { SUM, DIFFERENCE, DOUBLED, VIEW, SCALED, KINDS } kind;

/* A result: its op, its inputs, and what the reverse pass finds. Nodes below LEAVES are leaves. */
typedef struct node {
    kind kind;
    int a, b;
    bool retained;
    tg_tensor *tensor;
    double gradient[COLUMNS];
} node;

typedef struct graph {
    int64_t width;
    tg_tape *tape;
    tg_rng *rng;
    tg_tensor *leaves[LEAVES], *factor, *first;
    node nodes[NODES];
} graph;

static const double factors[COLUMNS] = {2, -1, 3}, firsts[COLUMNS] = {1, 10, -100};

static int draw(graph *g, int below)
{
    return (int)(tg_rng_u32(g->rng) % (uint32_t)below);
}

static tg_tensor *compute(graph *g, const node *n)
{
    tg_tensor *a = g->nodes[n->a].tensor, *b = g->nodes[n->b].tensor;
    switch (n->kind) {
    case SUM: return tg_add(g->tape, a, b);
    case DIFFERENCE: return tg_sub(g->tape, a, b);
    case DOUBLED: return tg_add(g->tape, a, a);
    case VIEW: return tg_unsqueeze(g->tape, tg_reshape(g->tape, a, TG_SHAPE(g->width)), 0);
    default: return tg_mul(g->tape, a, g->factor);
    }
}

static void record_graph(graph *g)
{
    tg_tape_reset(g->tape);
    for (int i = 0; i < NODES; i++) {
        node *n = &g->nodes[i];
        *n = (node){.tensor = i < LEAVES ? g->leaves[i] : NULL};
        if (i >= LEAVES) {
            n->kind = (kind)draw(g, KINDS);
            n->a = draw(g, i);
            n->b = draw(g, i);
            n->tensor = compute(g, n);
            assert_non_null(n->tensor);
            n->retained = draw(g, 4) == 0;
            assert_true(!n->retained || tg_retain_grad(g->tape, n->tensor));
        }
    }
}

/* The reverse pass: y is the last node, and its gradient `firsts`. */
static void differentiate(graph *g)
{
    memcpy(g->nodes[NODES - 1].gradient, firsts, sizeof firsts);
    for (int i = NODES - 1; i >= LEAVES; i--) {
        const node *n = &g->nodes[i];
        for (int c = 0; c < COLUMNS; c++) {
            double dy = n->gradient[c];
            g->nodes[n->a].gradient[c] += n->kind == DOUBLED ? 2 * dy : n->kind == SCALED ? dy * factors[c] : dy;
            if (n->kind == SUM || n->kind == DIFFERENCE) {
                g->nodes[n->b].gradient[c] += n->kind == SUM ? dy : -dy;
            }
        }
    }
}

static bool backward(graph *g)
{
    tg_backward_config config = tg_backward_config_default();
    config.gradient = g->first;
    config.retain_graph = true;
    return tg_backward(g->tape, g->nodes[NODES - 1].tensor, &config);
}

static void assert_columns(const tg_tensor *x, const double columns[COLUMNS], int times)
{
    const double *values = tg_tensor_data(x);
    for (int64_t i = 0; i < tg_tensor_count(x); i++) {
        assert_true(values[i] == times * columns[i % COLUMNS]);
    }
}

/* Asserts that the gradients are `times` those of the reverse pass. */
static void check_gradients(const graph *g, int times)
{
    for (int i = 0; i < NODES; i++) {
        const node *n = &g->nodes[i];
        const tg_tensor *gradient = tg_tensor_grad(n->tensor);
        if (gradient) {
            assert_int_equal(tg_tensor_count(gradient), g->width);
            assert_columns(gradient, n->gradient, times);
        }
        for (int c = 0; !gradient && (i < LEAVES || n->retained) && c < COLUMNS; c++) {
            assert_true(n->gradient[c] == 0);
        }
    }
    assert_columns(g->first, firsts, 1);
}

static tg_tensor *repeat_columns(tg_shape shape, const double columns[COLUMNS])
{
    tg_tensor *x = tg_tensor_new(TG_F64, shape, NULL);
    double *values = tg_tensor_data_mut(x);
    for (int64_t i = 0; i < tg_tensor_count(x); i++) {
        values[i] = columns[i % COLUMNS];
    }
    return x;
}

static graph graph_new(int64_t width)
{
    graph g = {.width = width, .rng = tg_rng_new(5)};
    g.tape = tg_tape_new(NULL, NULL);
    for (int i = 0; i < LEAVES; i++) {
        g.leaves[i] = leaf(repeat_columns(TG_SHAPE(1, width), (double[]){i + 1, 2, -1}));
    }
    g.factor = repeat_columns(TG_SHAPE(width), factors);
    g.first = repeat_columns(TG_SHAPE(1, width), firsts);
    return g;
}

static void graph_free(graph *g)
{
    tg_tape_free(g->tape);
    tg_rng_free(g->rng);
    for (int i = 0; i < LEAVES; i++) {
        tg_release(g->leaves[i]);
    }
    tg_release(g->factor);
    tg_release(g->first);
}

/* Gives every shape that the last result may have, (width) or (1,width), a gradient to start from. */
static void fit_first_gradient(graph *g)
{
    tg_release(g->first);
    g->first = repeat_columns(tg_tensor_shape(g->nodes[NODES - 1].tensor), firsts);
}

static void check_random_graphs(int64_t width, int graphs)
{
    graph g = graph_new(width);
    for (int i = 0; i < graphs; i++) {
        tg_tensor_zero_grad(g.leaves[0]);
        tg_tensor_zero_grad(g.leaves[1]);
        record_graph(&g);
        fit_first_gradient(&g);
        differentiate(&g);
        for (int times = 1; times <= 3; times++) {
            assert_true(backward(&g));
            check_gradients(&g, times);
        }
    }
    graph_free(&g);
}

static void test_random_graphs(void **state)
{
    (void)state;
    check_random_graphs(COLUMNS, 400);
}

static void test_graphs_of_large_tensors(void **state)
{
    (void)state;
    assert_true(tg_set_threads(2, NULL)); /* the second begins in the third column */
    check_random_graphs(LARGE, 12);
}

/* A backward without memory changes nothing, and the next one has the right gradients. */
static void test_failed_backward(void **state)
{
    (void)state;
    graph g = graph_new(COLUMNS);
    counting_allocator counting;
    for (int i = 0; i < 40; i++) {
        bool done = false;
        for (size_t fail = 1; !done; fail++) {
            tg_tape_free(g.tape);
            g.tape = tg_tape_new(NULL, NULL);
            tg_rng_free(g.rng);
            g.rng = tg_rng_new((uint64_t)i);
            tg_tensor_zero_grad(g.leaves[0]);
            tg_tensor_zero_grad(g.leaves[1]);
            record_graph(&g);
            fit_first_gradient(&g);
            differentiate(&g);
            allocator_install(&counting);
            allocator_arm(&counting, fail, false);
            done = backward(&g);
            allocator_restore();
            if (!done) {
                assert_tape_error(g.tape, TG_ERROR_MEMORY, "backward: out of memory");
                assert_null(tg_tensor_grad(g.leaves[0]));
                assert_null(tg_tensor_grad(g.leaves[1]));
                assert_true(backward(&g));
            }
            check_gradients(&g, 1);
        }
    }
    graph_free(&g);
}

/* A gradient to start from may be the gradient of a leaf, or share its values: the pass reads what it was before. */
static void test_first_gradient_of_a_leaf(void **state)
{
    (void)state;
    for (int shared = 0; shared < 2; shared++) {
        tg_tape *tape = tg_tape_new(NULL, NULL);
        tg_tensor *x = leaf(tensor_f64(TG_SHAPE(2), (double[]){3, 4})),
                  *a = leaf(tensor_f64(TG_SHAPE(2), (double[]){1, 2}));
        assert_true(tg_backward(tape, tg_sum(tape, tg_mul(tape, x, a), TG_ALL_AXES, TG_DROP_AXES), NULL));
        tg_backward_config config = tg_backward_config_default();
        config.gradient = shared ? tg_detach(tape, tg_tensor_grad(x)) : tg_tensor_grad(x);
        /* y = (x + x) + x */
        assert_true(tg_backward(tape, tg_add(tape, tg_add(tape, x, x), x), &config));
        assert_values(tg_tensor_grad(x), (double[]){1 + 3, 2 + 6}, 2, 0, 0);
        tg_tape_free(tape);
        tg_release(x);
        tg_release(a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_graphs),
        cmocka_unit_test(test_graphs_of_large_tensors),
        cmocka_unit_test(test_failed_backward),
        cmocka_unit_test(test_first_gradient_of_a_leaf),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
