#ifdef COURSE_WORKER
#include <math.h>

#include "../worker.h"

void softmax_backward(int rows, int columns, const double *y, const double *dy, double *dx);

/* sizes, x -> y */
static void forward(void **a)
{
    const int *n = a[0];
    const double *x = a[1];
    double *y = a[2];
    for (int i = 0; i < n[0]; i++) {
        double sum = 0;
        for (int j = i * n[1]; j < (i + 1) * n[1]; j++) {
            y[j] = exp(x[j]);
            sum += y[j];
        }
        for (int j = i * n[1]; j < (i + 1) * n[1]; j++) {
            y[j] /= sum;
        }
    }
}

/* sizes, x, dy, dx */
static void backward(void **a)
{
    const int *n = a[0];
    double y[64];
    forward((void *[]){a[0], a[1], y});
    softmax_backward(n[0], n[1], y, a[2], a[3]);
}

const course_call course_calls[] = {{"forward", forward}, {"backward", backward}, {NULL, NULL}};
#else
#include "../check.h"

void course_checks(void)
{
    double dx[24] = {0};
    check("values");
    describe("one row, x = 0 log 3, dy = 4 8");
    call("backward", LIST(INTS(1, 2), DOUBLES(0, log(3)), DOUBLES(4, 8), INOUT(dx, 2)));
    expect("dx", dx, (double[]){-0.75, 0.75}, 1, 2, 1e-12);

    check("rows");
    describe("two rows, x = 0 log 3, 0 log 3; dy = 4 8, 4 8");
    double four[4] = {0};
    call("backward", LIST(INTS(2, 2), DOUBLES(0, log(3), 0, log(3)), DOUBLES(4, 8, 4, 8), INOUT(four, 4)));
    expect("dx", four, (double[]){-0.75, 0.75, -0.75, 0.75}, 2, 2, 1e-12);

    check("gradient");
    double x[12], dy[12];
    draw(x, 12);
    draw(dy, 12);
    describe("x (3,4), random");
    check_gradient((course_gradient){"forward", "backward", LIST(INTS(3, 4)), {{"x", x, 3, 4}}, 1, {"y", NULL, 3, 4}});

    check("library");
    tg_tensor *leaf_x = leaf(x, TG_SHAPE(3, 4));
    library_backward(tg_softmax(tape(), leaf_x, -1), dy);
    double twelve[12] = {0};
    call("backward", LIST(INTS(3, 4), IN(x, 12), IN(dy, 12), INOUT(twelve, 12)));
    describe("x (3,4), random");
    expect_tensor("dx", twelve, gradient_of(leaf_x));
}
#endif
