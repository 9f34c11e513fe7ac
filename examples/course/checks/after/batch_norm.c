#ifdef COURSE_WORKER
#include <math.h>

#include "../worker.h"

void batch_norm_backward(int batch, int channels, double eps, const double *x, const double *weight, const double *dy,
                         double *dx, double *dweight, double *dbias);

/* sizes, eps, x, weight, bias -> y */
static void forward(void **a)
{
    const int *size = a[0];
    const double *eps = a[1], *x = a[2], *weight = a[3], *bias = a[4];
    double *y = a[5];
    int count = size[0] * size[1];
    for (int c = 0; c < size[1]; c++) {
        double mean = 0, variance = 0;
        for (int i = c; i < count; i += size[1]) {
            mean += x[i] / size[0];
        }
        for (int i = c; i < count; i += size[1]) {
            variance += (x[i] - mean) * (x[i] - mean) / size[0];
        }
        for (int i = c; i < count; i += size[1]) {
            y[i] = (x[i] - mean) / sqrt(variance + *eps) * weight[c] + bias[c];
        }
    }
}

/* sizes, eps, x, weight, bias, dy, dx, dweight, dbias */
static void backward(void **a)
{
    const int *size = a[0];
    const double *eps = a[1];
    batch_norm_backward(size[0], size[1], *eps, a[2], a[3], a[5], a[6], a[7], a[8]);
}

const course_call course_calls[] = {{"forward", forward}, {"backward", backward}, {NULL, NULL}};
#else
#include "../check.h"

/* Adds the gradients for 4 examples of `channels` channels. */
static void backward_of_four(int channels, double eps, const double *x, const double *weight, const double *dy,
                             double *dx, double *dweight, double *dbias)
{
    call("backward",
         LIST(INTS(4, channels), DOUBLES(eps), IN(x, 4 * channels), IN(weight, channels), NOTHING, IN(dy, 4 * channels),
              INOUT(dx, 4 * channels), INOUT(dweight, channels), INOUT(dbias, channels)));
}

void course_checks(void)
{
    const double one[] = {1, 2, 3, 4}, first[] = {1, 0, 0, 0}, ones[] = {1, 1};
    check("values");
    describe("one channel, x = 1, 2, 3, 4, weight 1, eps 0, dy = 1, 0, 0, 0");
    double dx[15] = {0}, dweight[3] = {0}, dbias[3] = {0};
    backward_of_four(1, 0, one, ones, first, dx, dweight, dbias);
    expect("dbias", dbias, (double[]){1}, 1, 0, 1e-12);
    expect("dweight", dweight, (double[]){-1.341641}, 1, 0, 1e-6);
    expect_number("the sum of dx", dx[0] + dx[1] + dx[2] + dx[3], 0, 1e-12);
    expect("dx", dx, (double[]){0.268328, -0.357771, -0.089443, 0.178885}, 4, 1, 1e-5);

    check("eps");
    describe("one channel, x = 0, 0, 0, 0, weight 1, eps 0.25, dy = 1, 0, 0, 0");
    memset(dx, 0, sizeof dx);
    backward_of_four(1, 0.25, (double[]){0, 0, 0, 0}, ones, first, dx, (double[]){0}, (double[]){0});
    expect("dx", dx, (double[]){1.5, -0.5, -0.5, -0.5}, 4, 1, 1e-12);

    check("channels");
    describe("two channels, x = 1 8, 2 6, 3 4, 4 2, weight 1, eps 0, dy = 1 0, 0 0, 0 0, 0 1");
    memset(dx, 0, sizeof dx), memset(dweight, 0, sizeof dweight), memset(dbias, 0, sizeof dbias);
    backward_of_four(2, 0, (double[]){1, 8, 2, 6, 3, 4, 4, 2}, ones, (double[]){1, 0, 0, 0, 0, 0, 0, 1}, dx, dweight,
                     dbias);
    expect("dbias", dbias, (double[]){1, 1}, 2, 0, 1e-12);
    expect("dweight", dweight, (double[]){-1.341641, -1.341641}, 2, 0, 1e-6);
    expect("dx", dx, (double[]){0.268328, 0.089443, -0.357771, -0.044721, -0.089443, -0.178885, 0.178885, 0.134164}, 4,
           2, 1e-5);

    check("weight");
    describe("one channel, x = 1, 2, 3, 4, weight 10, eps 0, dy = 1, 0, 0, 0");
    memset(dx, 0, sizeof dx), dweight[0] = dbias[0] = 0;
    backward_of_four(1, 0, one, (double[]){10}, first, dx, dweight, dbias);
    expect("dbias", dbias, (double[]){1}, 1, 0, 1e-12);
    expect("dweight", dweight, (double[]){-1.341641}, 1, 0, 1e-6);
    expect("dx", dx, (double[]){2.68328, -3.57771, -0.89443, 1.78885}, 4, 1, 1e-5);

    check("adds");
    describe("one channel, x = 1, 2, 3, 4, weight 1, eps 0, dy = 1, 0, 0, 0; all gradients are 100 before");
    dx[0] = dx[1] = dx[2] = dx[3] = dweight[0] = dbias[0] = 100;
    backward_of_four(1, 0, one, ones, first, dx, dweight, dbias);
    expect("dbias", dbias, (double[]){101}, 1, 0, 1e-12);
    expect("dweight", dweight, (double[]){98.658359}, 1, 0, 1e-8);
    expect("dx", dx, (double[]){100.268328, 99.642229, 99.910557, 100.178885}, 4, 1, 1e-8);

    check("gradient");
    double x[15], weight[3], bias[3], dy[15];
    draw(x, 15), draw(weight, 3), draw(bias, 3), draw(dy, 15);
    describe("x (5,3), random, eps 1e-5");
    check_gradient((course_gradient){"forward",
                                     "backward",
                                     LIST(INTS(5, 3), DOUBLES(1e-5)),
                                     {{"x", x, 5, 3}, {"weight", weight, 3, 0}, {"bias", bias, 3, 0}},
                                     3,
                                     {"y", NULL, 5, 3}});

    check("library");
    tg_tensor *tx = leaf(x, TG_SHAPE(5, 3)), *tw = leaf(weight, TG_SHAPE(3)), *tb = leaf(bias, TG_SHAPE(3));
    library_backward(tg_batch_norm(tape(), tx, NULL, NULL, tw, tb, 0.1, 0.01), dy);
    memset(dx, 0, sizeof dx), memset(dweight, 0, sizeof dweight), memset(dbias, 0, sizeof dbias);
    describe("x (5,3), random, eps 0.01");
    call("backward", LIST(INTS(5, 3), DOUBLES(0.01), IN(x, 15), IN(weight, 3), NOTHING, IN(dy, 15), INOUT(dx, 15),
                          INOUT(dweight, 3), INOUT(dbias, 3)));
    expect_tensor("dx", dx, gradient_of(tx));
    expect_tensor("dweight", dweight, gradient_of(tw));
    expect_tensor("dbias", dbias, gradient_of(tb));
}
#endif
