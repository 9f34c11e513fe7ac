#ifdef COURSE_WORKER
#include "../worker.h"

void mul_backward(int count, const double *a, const double *b, const double *dy, double *da, double *db);

/* count, a, b -> y */
static void forward(void **a)
{
    const int *n = a[0];
    const double *left = a[1], *right = a[2];
    double *y = a[3];
    for (int i = 0; i < n[0]; i++) {
        y[i] = left[i] * right[i];
    }
}

/* count, a, b, dy, da, db */
static void backward(void **a)
{
    const int *n = a[0];
    mul_backward(n[0], a[1], a[2], a[3], a[4], a[5]);
}

/* count, x -> x * x */
static void square(void **a)
{
    const int *n = a[0];
    const double *x = a[1];
    double *y = a[2];
    for (int i = 0; i < n[0]; i++) {
        y[i] = x[i] * x[i];
    }
}

/* count, x, dy, dx */
static void square_backward(void **a)
{
    const int *n = a[0];
    mul_backward(n[0], a[1], a[1], a[2], a[3], a[3]);
}

const course_call course_calls[] = {{"forward", forward},
                                    {"backward", backward},
                                    {"square", square},
                                    {"square_backward", square_backward},
                                    {NULL, NULL}};
#else
#include "../check.h"

void course_checks(void)
{
    double da[4] = {0}, db[4] = {0};
    check("values");
    describe("a = 2 3, b = 5 7, dy = 1 10");
    call("backward", LIST(INTS(2), DOUBLES(2, 3), DOUBLES(5, 7), DOUBLES(1, 10), INOUT(da, 2), INOUT(db, 2)));
    expect("da", da, (double[]){5, 70}, 2, 0, 1e-12);
    expect("db", db, (double[]){2, 30}, 2, 0, 1e-12);

    check("twice");
    describe("x = 3 -2, dy = 1 1, y = x * x");
    double dx[2] = {0};
    call("square_backward", LIST(INTS(2), DOUBLES(3, -2), DOUBLES(1, 1), INOUT(dx, 2)));
    expect("dx", dx, (double[]){6, -4}, 2, 0, 1e-12);

    check("gradient");
    double a[4], b[4];
    draw(a, 4);
    draw(b, 4);
    describe("a * b, random");
    check_gradient((course_gradient){
        "forward", "backward", LIST(INTS(4)), {{"a", a, 4, 0}, {"b", b, 4, 0}}, 2, {"y", NULL, 4, 0}});
    describe("x * x, random");
    check_gradient(
        (course_gradient){"square", "square_backward", LIST(INTS(4)), {{"x", a, 4, 0}}, 1, {"y", NULL, 4, 0}});
}
#endif
