#ifdef COURSE_WORKER
#include "../worker.h"

double largest_step(int count, const double *x);

static void run(void **a)
{
    const int *n = a[0];
    double *y = a[2];
    *y = largest_step(n[0], a[1]);
}

const course_call course_calls[] = {{"largest_step", run}, {NULL, NULL}};
#else
#include "../check.h"

static double step_of(const double *x, int count)
{
    double y;
    call("largest_step", LIST(INTS(count), IN(x, count), OUT(&y, 1)));
    return y;
}

void course_checks(void)
{
    check("values");
    describe("x = 1 2 4 3 3");
    expect_number("the largest step", step_of((double[]){1, 2, 4, 3, 3}, 5), 2, 1e-12);

    check("edges");
    describe("x = 0 1 2 9: the last step is the largest");
    expect_number("the largest step", step_of((double[]){0, 1, 2, 9}, 4), 7, 1e-12);
    describe("x = 9 0 1: the first step is the largest, and goes down");
    expect_number("the largest step", step_of((double[]){9, 0, 1}, 3), 9, 1e-12);
    describe("x = 5: one number has no step");
    expect_number("the largest step", step_of((double[]){5}, 1), 0, 1e-12);
}
#endif
