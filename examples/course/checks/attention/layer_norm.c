#ifdef COURSE_WORKER
#include <math.h>

#include "../worker.h"

void layer_norm_backward(int rows, int width, double eps, const double *x, const double *weight, const double *dy,
                         double *dx, double *dweight, double *dbias);

/* sizes, eps, x, weight, bias -> y */
static void forward(void **a)
{
    const int *size = a[0];
    const double *eps = a[1], *x = a[2], *weight = a[3], *bias = a[4];
    double *y = a[5];
    for (int i = 0; i < size[0]; i++) {
        double mean = 0, variance = 0;
        for (int j = 0; j < size[1]; j++) {
            mean += x[i * size[1] + j] / size[1];
        }
        for (int j = 0; j < size[1]; j++) {
            variance += (x[i * size[1] + j] - mean) * (x[i * size[1] + j] - mean) / size[1];
        }
        for (int j = 0; j < size[1]; j++) {
            y[i * size[1] + j] = (x[i * size[1] + j] - mean) / sqrt(variance + *eps) * weight[j] + bias[j];
        }
    }
}

/* sizes, eps, x, weight, bias, dy, dx, dweight, dbias */
static void backward(void **a)
{
    const int *size = a[0];
    const double *eps = a[1];
    layer_norm_backward(size[0], size[1], *eps, a[2], a[3], a[5], a[6], a[7], a[8]);
}

const course_call course_calls[] = {{"forward", forward}, {"backward", backward}, {NULL, NULL}};
#else
#include "../check.h"

void course_checks(void)
{
    double dx[12] = {0}, dweight[4] = {0}, dbias[4] = {0};
    check("values");
    describe("x = 1 2 3 4, weight 1, eps 0, dy = 1 0 0 0");
    call("backward", LIST(INTS(1, 4), DOUBLES(0), DOUBLES(1, 2, 3, 4), DOUBLES(1, 1, 1, 1), NOTHING,
                          DOUBLES(1, 0, 0, 0), INOUT(dx, 4), INOUT(dweight, 4), INOUT(dbias, 4)));
    expect("dbias", dbias, (double[]){1, 0, 0, 0}, 4, 0, 1e-12);
    expect("dweight", dweight, (double[]){-1.341641, 0, 0, 0}, 4, 0, 1e-6);
    expect("dx", dx, (double[]){0.268328, -0.357771, -0.089443, 0.178885}, 1, 4, 1e-5);

    check("rows");
    describe("two rows, x = -1 1, -1 1, weight 1, eps 0, dy = 1 0, 1 0");
    double four[4] = {0}, weight2[2] = {0}, bias2[2] = {0};
    call("backward", LIST(INTS(2, 2), DOUBLES(0), DOUBLES(-1, 1, -1, 1), DOUBLES(1, 1), NOTHING, DOUBLES(1, 0, 1, 0),
                          INOUT(four, 4), INOUT(weight2, 2), INOUT(bias2, 2)));
    expect("dweight", weight2, (double[]){-2, 0}, 2, 0, 1e-12);
    expect("dbias", bias2, (double[]){2, 0}, 2, 0, 1e-12);

    check("gradient");
    double x[12], weight[4], bias[4], dy[12];
    draw(x, 12), draw(weight, 4), draw(bias, 4), draw(dy, 12);
    describe("x (3,4), random, eps 1e-5");
    check_gradient((course_gradient){"forward",
                                     "backward",
                                     LIST(INTS(3, 4), DOUBLES(1e-5)),
                                     {{"x", x, 3, 4}, {"weight", weight, 4, 0}, {"bias", bias, 4, 0}},
                                     3,
                                     {"y", NULL, 3, 4}});

    check("library");
    tg_tensor *tx = leaf(x, TG_SHAPE(3, 4)), *tw = leaf(weight, TG_SHAPE(4)), *tb = leaf(bias, TG_SHAPE(4));
    library_backward(tg_layer_norm(tape(), tx, tw, tb, 1e-5), dy);
    memset(dx, 0, sizeof dx), memset(dweight, 0, sizeof dweight), memset(dbias, 0, sizeof dbias);
    describe("x (3,4), random");
    call("backward", LIST(INTS(3, 4), DOUBLES(1e-5), IN(x, 12), IN(weight, 4), NOTHING, IN(dy, 12), INOUT(dx, 12),
                          INOUT(dweight, 4), INOUT(dbias, 4)));
    expect_tensor("dx", dx, gradient_of(tx));
    expect_tensor("dweight", dweight, gradient_of(tw));
    expect_tensor("dbias", dbias, gradient_of(tb));
}
#endif
