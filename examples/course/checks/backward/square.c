#ifdef COURSE_WORKER
#include "../worker.h"

void square_backward(int count, const double *x, const double *dy, double *dx);

/* count, x -> y */
static void forward(void **a)
{
    const int *n = a[0];
    const double *x = a[1];
    double *y = a[2];
    for (int i = 0; i < n[0]; i++) {
        y[i] = x[i] * x[i];
    }
}

/* count, x, dy, dx */
static void backward(void **a)
{
    const int *n = a[0];
    square_backward(n[0], a[1], a[2], a[3]);
}

const course_call course_calls[] = {{"forward", forward}, {"backward", backward}, {NULL, NULL}};
#else
#include "../check.h"

void course_checks(void)
{
    double dx[8] = {0};
    check("values");
    describe("x = 3 -2 0, dy = 1 10 5");
    call("backward", LIST(INTS(3), DOUBLES(3, -2, 0), DOUBLES(1, 10, 5), INOUT(dx, 3)));
    expect("dx", dx, (double[]){6, -40, 0}, 3, 0, 1e-12);

    check("adds");
    describe("x = 3, dy = 1, and dx is 100 before");
    dx[0] = 100;
    call("backward", LIST(INTS(1), DOUBLES(3), DOUBLES(1), INOUT(dx, 1)));
    expect("dx", dx, (double[]){106}, 1, 0, 1e-12);

    check("gradient");
    double x[5];
    draw(x, 5);
    describe("5 random numbers");
    check_gradient((course_gradient){"forward", "backward", LIST(INTS(5)), {{"x", x, 5, 0}}, 1, {"y", NULL, 5, 0}});
}
#endif
