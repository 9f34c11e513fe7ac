#ifdef COURSE_WORKER
#include "../worker.h"

void bias_backward(int rows, int columns, const double *dy, double *dx, double *dbias);

/* sizes, x, bias -> y */
static void forward(void **a)
{
    const int *n = a[0];
    const double *x = a[1], *bias = a[2];
    double *y = a[3];
    for (int i = 0; i < n[0] * n[1]; i++) {
        y[i] = x[i] + bias[i % n[1]];
    }
}

/* sizes, x, bias, dy, dx, dbias */
static void backward(void **a)
{
    const int *n = a[0];
    bias_backward(n[0], n[1], a[3], a[4], a[5]);
}

const course_call course_calls[] = {{"forward", forward}, {"backward", backward}, {NULL, NULL}};
#else
#include "../check.h"

void course_checks(void)
{
    double dx[24] = {0}, dbias[6] = {0};
    check("values");
    describe("dy = 1 2 3 (one row)");
    call("backward", LIST(INTS(1, 3), NOTHING, NOTHING, DOUBLES(1, 2, 3), INOUT(dx, 3), INOUT(dbias, 3)));
    expect("dx", dx, (double[]){1, 2, 3}, 1, 3, 1e-12);
    expect("dbias", dbias, (double[]){1, 2, 3}, 3, 0, 1e-12);

    check("rows");
    describe("dy = 1 2, 10 20, 100 200 (three rows)");
    double two[2] = {0}, six[6] = {0};
    call("backward", LIST(INTS(3, 2), NOTHING, NOTHING, DOUBLES(1, 2, 10, 20, 100, 200), INOUT(six, 6), INOUT(two, 2)));
    expect("dx", six, (double[]){1, 2, 10, 20, 100, 200}, 3, 2, 1e-12);
    expect("dbias", two, (double[]){111, 222}, 2, 0, 1e-12);

    check("gradient");
    double x[12], bias[3];
    draw(x, 12);
    draw(bias, 3);
    describe("x (4,3), bias (3), random");
    check_gradient((course_gradient){
        "forward", "backward", LIST(INTS(4, 3)), {{"x", x, 4, 3}, {"bias", bias, 3, 0}}, 2, {"y", NULL, 4, 3}});

    check("library");
    double dy[24], zeros[24] = {0}, none[6] = {0};
    draw(dy, 24);
    tg_tensor *b = leaf(none, TG_SHAPE(6));
    library_backward(tg_add(tape(), leaf(zeros, TG_SHAPE(4, 6)), b), dy);
    memset(dx, 0, sizeof dx);
    memset(dbias, 0, sizeof dbias);
    describe("a random dy (4,6)");
    call("backward", LIST(INTS(4, 6), NOTHING, NOTHING, IN(dy, 24), INOUT(dx, 24), INOUT(dbias, 6)));
    expect_tensor("dbias", dbias, gradient_of(b));
}
#endif
