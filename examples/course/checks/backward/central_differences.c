#ifdef COURSE_WORKER
#include "../worker.h"

double derivative(double (*f)(int count, const double *x), int count, double *x, int i, double eps);

/* x[0] x[1]^2 */
static double f(int count, const double *x)
{
    (void)count;
    return x[0] * x[1] * x[1];
}

/* the sum of the cubes */
static double cubes(int count, const double *x)
{
    double sum = 0;
    for (int i = 0; i < count; i++) {
        sum += x[i] * x[i] * x[i];
    }
    return sum;
}

/* function, count, i; eps; x; result */
static void run(void **a)
{
    const int *n = a[0];
    const double *eps = a[1];
    double *y = a[3];
    *y = derivative(n[0] == 0 ? f : cubes, n[1], a[2], n[2], *eps);
}

const course_call course_calls[] = {{"derivative", run}, {NULL, NULL}};
#else
#include "../check.h"

void course_checks(void)
{
    double x[4] = {3, 2}, y;
    check("values");
    describe("f = x[0] x[1]^2 at 3 2");
    call("derivative", LIST(INTS(0, 2, 1), DOUBLES(1e-3), INOUT(x, 2), OUT(&y, 1)));
    expect_number("the derivative for x[1]", y, 12, 1e-9);
    call("derivative", LIST(INTS(0, 2, 0), DOUBLES(1e-3), INOUT(x, 2), OUT(&y, 1)));
    expect_number("the derivative for x[0]", y, 4, 1e-9);

    check("central");
    describe("f = x^3 at 1, eps = 0.1: (1.1^3 - 0.9^3) / 0.2");
    x[0] = 1;
    call("derivative", LIST(INTS(1, 1, 0), DOUBLES(0.1), INOUT(x, 1), OUT(&y, 1)));
    expect_number("the derivative", y, 3.01, 1e-12);

    check("restores");
    describe("f = x^3 at 0.1 0.2 0.3");
    double kept[] = {0.1, 0.2, 0.3};
    call("derivative", LIST(INTS(1, 3, 0), DOUBLES(0.7), INOUT(kept, 3), OUT(&y, 1)));
    if (memcmp(kept, (double[]){0.1, 0.2, 0.3}, sizeof kept) != 0) {
        fail("backward/central_differences.changed");
    }

    check("library");
    draw(x, 4);
    tg_tensor *leaf_x = leaf(x, TG_SHAPE(4));
    library_backward(tg_sum_all(tape(), tg_pow_scalar(tape(), leaf_x, 3)), (double[]){1});
    describe("the sum of 4 random cubes");
    for (int i = 0; i < 4; i++) {
        call("derivative", LIST(INTS(1, 4, i), DOUBLES(1e-5), INOUT(x, 4), OUT(&y, 1)));
        expect_number("the derivative", y, tg_tensor_value_at(gradient_of(leaf_x), i), 1e-6);
    }
}
#endif
