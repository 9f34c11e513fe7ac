#ifdef COURSE_WORKER
#include <math.h>

#include "../worker.h"

void rms_norm_backward(int rows, int width, double eps, const double *x, const double *weight, const double *dy,
                       double *dx, double *dweight);

/* sizes, eps, x, weight -> y */
static void forward(void **a)
{
    const int *size = a[0];
    const double *eps = a[1], *x = a[2], *weight = a[3];
    double *y = a[4];
    for (int i = 0; i < size[0]; i++, x += size[1], y += size[1]) {
        double mean_square = 0;
        for (int j = 0; j < size[1]; j++) {
            mean_square += x[j] * x[j] / size[1];
        }
        for (int j = 0; j < size[1]; j++) {
            y[j] = x[j] / sqrt(mean_square + *eps) * weight[j];
        }
    }
}

/* sizes, eps, x, weight, dy, dx, dweight */
static void backward(void **a)
{
    const int *size = a[0];
    const double *eps = a[1];
    rms_norm_backward(size[0], size[1], *eps, a[2], a[3], a[4], a[5], a[6]);
}

const course_call course_calls[] = {{"forward", forward}, {"backward", backward}, {NULL, NULL}};
#else
#include "../check.h"

/* The gradients for a width of 2. */
static void backward_of_two(int rows, double eps, const double *x, const double *weight, const double *dy, double *dx,
                            double *dweight)
{
    memset(dx, 0, (size_t)rows * 2 * sizeof *dx);
    dweight[0] = dweight[1] = 0;
    call("backward", LIST(INTS(rows, 2), DOUBLES(eps), IN(x, 2 * rows), IN(weight, 2), IN(dy, 2 * rows),
                          INOUT(dx, 2 * rows), INOUT(dweight, 2)));
}

void course_checks(void)
{
    const double ones[] = {1, 1, 1, 1};
    double dx[15], dweight[5], root = sqrt(0.08);
    check("values");
    describe("x = 3 4, weight 1, eps 0, dy = 1 0: the mean of the squares is 12.5");
    backward_of_two(1, 0, (double[]){3, 4}, ones, (double[]){1, 0}, dx, dweight);
    expect("dweight", dweight, (double[]){3 * root, 0}, 2, 0, 1e-12);
    expect_number("the sum of x dx", 3 * dx[0] + 4 * dx[1], 0, 1e-12);
    expect("dx", dx, (double[]){0.64 * root, -0.48 * root}, 1, 2, 1e-12);

    check("eps");
    describe("x = 0 0, weight 1, eps 0.25, dy = 1 1");
    backward_of_two(1, 0.25, (double[]){0, 0}, ones, ones, dx, dweight);
    expect("dx", dx, (double[]){2, 2}, 1, 2, 1e-12);

    check("weight");
    describe("x = 1 1, weight = 2 3, eps 0, dy = 1 0");
    backward_of_two(1, 0, ones, (double[]){2, 3}, (double[]){1, 0}, dx, dweight);
    expect("dweight", dweight, (double[]){1, 0}, 2, 0, 1e-12);
    expect("dx", dx, (double[]){1, -1}, 1, 2, 1e-12);

    check("rows");
    describe("two rows, x = 1 1, 2 2, weight 1, eps 0, dy = 1 0, 1 0");
    backward_of_two(2, 0, (double[]){1, 1, 2, 2}, ones, (double[]){1, 0, 1, 0}, dx, dweight);
    expect("dweight", dweight, (double[]){2, 0}, 2, 0, 1e-12);
    expect("dx", dx, (double[]){0.5, -0.5, 0.25, -0.25}, 2, 2, 1e-12);

    check("gradient");
    double x[15], weight[5], dy[15];
    draw(x, 15), draw(weight, 5), draw(dy, 15);
    describe("x (3,5), random, eps 1e-5");
    check_gradient((course_gradient){"forward",
                                     "backward",
                                     LIST(INTS(3, 5), DOUBLES(1e-5)),
                                     {{"x", x, 3, 5}, {"weight", weight, 5, 0}},
                                     2,
                                     {"y", NULL, 3, 5}});

    check("library");
    tg_tensor *tx = leaf(x, TG_SHAPE(3, 5)), *tw = leaf(weight, TG_SHAPE(5));
    library_backward(tg_rms_norm(tape(), tx, tw, 0.01), dy);
    memset(dx, 0, sizeof dx), memset(dweight, 0, sizeof dweight);
    describe("x (3,5), random, eps 0.01");
    call("backward",
         LIST(INTS(3, 5), DOUBLES(0.01), IN(x, 15), IN(weight, 5), IN(dy, 15), INOUT(dx, 15), INOUT(dweight, 5)));
    expect_tensor("dx", dx, gradient_of(tx));
    expect_tensor("dweight", dweight, gradient_of(tw));
}
#endif
