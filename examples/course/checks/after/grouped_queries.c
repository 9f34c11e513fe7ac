#ifdef COURSE_WORKER
#include "../worker.h"

void grouped_attention(int heads, int key_heads, int time, int width, const double *q, const double *k, const double *v,
                       double *weights, double *y);
void values_backward(int heads, int key_heads, int time, int width, const double *weights, const double *dy,
                     double *dv);

/* The most values of y in a check. */
enum { VALUES = 72 };

/* sizes, q, k, v -> weights, y */
static void forward(void **a)
{
    const int *n = a[0];
    grouped_attention(n[0], n[1], n[2], n[3], a[1], a[2], a[4], a[3], a[5]);
}

/* sizes, weights, dy, dv */
static void values(void **a)
{
    const int *n = a[0];
    values_backward(n[0], n[1], n[2], n[3], a[1], a[2], a[3]);
}

/* sizes, q, k, weights, v, dy, dv */
static void backward(void **a)
{
    const int *n = a[0];
    double y[VALUES];
    grouped_attention(n[0], n[1], n[2], n[3], a[1], a[2], a[4], a[3], y);
    values_backward(n[0], n[1], n[2], n[3], a[3], a[5], a[6]);
}

const course_call course_calls[] = {{"forward", forward}, {"values", values}, {"backward", backward}, {NULL, NULL}};
#else
#include "../check.h"

void course_checks(void)
{
    const double zeros[8] = {0}, ones[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    double weights[96], y[72], dv[36] = {0};
    check("values");
    describe("4 heads, 2 heads of keys, one token, v = 10, 20");
    call("forward", LIST(INTS(4, 2, 1, 1), IN(zeros, 4), IN(zeros, 2), OUT(weights, 4), DOUBLES(10, 20), OUT(y, 4)));
    expect("y", y, (double[]){10, 10, 20, 20}, 4, 0, 1e-12);

    check("groups");
    describe("6 heads, 3 heads of keys, one token, v = 10, 20, 30");
    call("forward",
         LIST(INTS(6, 3, 1, 1), IN(zeros, 6), IN(zeros, 3), OUT(weights, 6), DOUBLES(10, 20, 30), OUT(y, 6)));
    expect("y", y, (double[]){10, 10, 20, 20, 30, 30}, 6, 0, 1e-12);

    check("keys");
    describe("4 heads, 2 heads of keys, two tokens, q = 1, k = 0 log 9, 0 0, v = 0 4, 0 4");
    call("forward", LIST(INTS(4, 2, 2, 1), IN(ones, 8), DOUBLES(0, log(9), 0, 0), OUT(weights, 16), DOUBLES(0, 4, 0, 4),
                         OUT(y, 8)));
    expect("y", y, (double[]){0, 3.6, 0, 3.6, 0, 2, 0, 2}, 4, 2, 1e-12);

    check("weights");
    describe("4 heads, 2 heads of keys, two tokens, width 1, q = 1, k = 0 log 9, 0 0");
    call("forward",
         LIST(INTS(4, 2, 2, 1), IN(ones, 8), DOUBLES(0, log(9), 0, 0), OUT(weights, 16), IN(zeros, 4), OUT(y, 8)));
    expect("weights", weights, (double[]){1, 0, 0.1, 0.9, 1, 0, 0.1, 0.9, 1, 0, 0.5, 0.5, 1, 0, 0.5, 0.5}, 8, 2, 1e-12);

    check("sum");
    describe("4 heads, 2 heads of keys, one token, all weights 1, dy = 1, 2, 3, 4; dv is 100, 200 before");
    double before[] = {100, 200};
    call("values", LIST(INTS(4, 2, 1, 1), IN(ones, 4), DOUBLES(1, 2, 3, 4), INOUT(before, 2)));
    expect("dv", before, (double[]){103, 207}, 2, 0, 1e-12);

    check("tokens");
    describe("1 head, 1 head of keys, two tokens, weights = 1 0, 0.25 0.75, dy = 1, 10");
    call("values", LIST(INTS(1, 1, 2, 1), DOUBLES(1, 0, 0.25, 0.75), DOUBLES(1, 10), INOUT(dv, 2)));
    expect("dv", dv, (double[]){3.5, 7.5}, 2, 0, 1e-12);

    check("heads");
    describe("2 heads, 2 heads of keys, two tokens, width 2, each attends only to itself, dy = 1 2, 3 4, 5 6, 7 8");
    memset(dv, 0, sizeof dv);
    call("values",
         LIST(INTS(2, 2, 2, 2), DOUBLES(1, 0, 0, 1, 1, 0, 0, 1), DOUBLES(1, 2, 3, 4, 5, 6, 7, 8), INOUT(dv, 8)));
    expect("dv", dv, (double[]){1, 2, 3, 4, 5, 6, 7, 8}, 4, 2, 1e-12);

    check("gradient");
    double q[72], k[36], v[36], dy[72];
    draw(q, 72), draw(k, 36), draw(v, 36), draw(dy, 72);
    describe("4 heads, 2 heads of keys, 3 tokens, width 2, random");
    check_gradient((course_gradient){"forward",
                                     "backward",
                                     LIST(INTS(4, 2, 3, 2), IN(q, 24), IN(k, 12), OUT(weights, 36)),
                                     {{"v", v, 6, 2}},
                                     1,
                                     {"y", NULL, 12, 2}});

    check("library");
    tg_tensor *values = leaf(v, TG_SHAPE(3, 4, 3));
    tg_scaled_dot_product_attention_config config = tg_scaled_dot_product_attention_config_default();
    config.is_causal = config.enable_gqa = true;
    tg_tensor *expected = tg_scaled_dot_product_attention(tape(), constant(q, TG_SHAPE(6, 4, 3)),
                                                          constant(k, TG_SHAPE(3, 4, 3)), values, &config);
    library_backward(expected, dy);
    describe("6 heads, 3 heads of keys, 4 tokens, width 3, random");
    call("forward", LIST(INTS(6, 3, 4, 3), IN(q, 72), IN(k, 36), OUT(weights, 96), IN(v, 36), OUT(y, 72)));
    expect_tensor("y", y, expected);
    memset(dv, 0, sizeof dv);
    call("backward",
         LIST(INTS(6, 3, 4, 3), IN(q, 72), IN(k, 36), OUT(weights, 96), IN(v, 36), IN(dy, 72), INOUT(dv, 36)));
    expect_tensor("dv", dv, gradient_of(values));
}
#endif
