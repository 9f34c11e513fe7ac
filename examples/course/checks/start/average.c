#ifdef COURSE_WORKER
#include "../worker.h"

double average(int count, const double *x);

static void run(void **a)
{
    const int *n = a[0];
    double *y = a[2];
    *y = average(n[0], a[1]);
}

const course_call course_calls[] = {{"average", run}, {NULL, NULL}};
#else
#include "../check.h"

static double average_of(const double *x, int count)
{
    double y;
    call("average", LIST(INTS(count), IN(x, count), OUT(&y, 1)));
    return y;
}

void course_checks(void)
{
    check("values");
    describe("x = 1 2 4 8");
    expect_number("the mean", average_of((double[]){1, 2, 4, 8}, 4), 3.75, 1e-12);
    describe("x = -2.5");
    expect_number("the mean", average_of((double[]){-2.5}, 1), -2.5, 1e-12);

    check("library");
    for (int count = 1; count <= 9; count += 2) {
        double x[9];
        draw(x, count);
        describe("%d random numbers", count);
        double y = average_of(x, count);
        expect_tensor("the mean", &y, tg_mean_all(tape(), constant(x, TG_SHAPE(count))));
    }
}
#endif
