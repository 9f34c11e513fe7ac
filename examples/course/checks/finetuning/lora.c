#ifdef COURSE_WORKER
#include "../worker.h"

void lora_forward(int in, int out, int rank, double alpha, const double *x, const double *w, const double *a,
                  const double *b, double *h, double *y);
void lora_backward(int in, int out, int rank, double alpha, const double *x, const double *a, const double *b,
                   const double *h, const double *dy, double *da, double *db);

/* in, out, rank; alpha; x, w; a, b -> y */
static void forward(void **v)
{
    const int *n = v[0];
    const double *alpha = v[1];
    double h[16];
    lora_forward(n[0], n[1], n[2], *alpha, v[2], v[3], v[4], v[5], h, v[6]);
}

/* in, out, rank; alpha; x, w; a, b, dy, da, db */
static void backward(void **v)
{
    const int *n = v[0];
    const double *alpha = v[1];
    double h[16], y[16];
    lora_forward(n[0], n[1], n[2], *alpha, v[2], v[3], v[4], v[5], h, y);
    lora_backward(n[0], n[1], n[2], *alpha, v[2], v[4], v[5], h, v[6], v[7], v[8]);
}

const course_call course_calls[] = {{"forward", forward}, {"backward", backward}, {NULL, NULL}};
#else
#include "../check.h"

void course_checks(void)
{
    double y[8];
    check("values");
    describe("x = 1 2, w = 1 0, 0 1, a = 1 1, b = 10, 100, rank 1, alpha 1");
    call("forward", LIST(INTS(2, 2, 1), DOUBLES(1), DOUBLES(1, 2), DOUBLES(1, 0, 0, 1), DOUBLES(1, 1), DOUBLES(10, 100),
                         OUT(y, 2)));
    expect("y", y, (double[]){31, 302}, 2, 0, 1e-12);

    check("start");
    describe("b = 0: the layer is as it was");
    call("forward",
         LIST(INTS(2, 2, 1), DOUBLES(1), DOUBLES(1, 2), DOUBLES(1, 2, 3, 4), DOUBLES(1, 1), DOUBLES(0, 0), OUT(y, 2)));
    expect("y", y, (double[]){5, 11}, 2, 0, 0);

    check("scale");
    describe("rank 2, alpha 6, in 1, out 1: the scale is 3");
    call("forward",
         LIST(INTS(1, 1, 2), DOUBLES(6), DOUBLES(1), DOUBLES(100), DOUBLES(1, 2), DOUBLES(10, 20), OUT(y, 1)));
    expect("y", y, (double[]){250}, 1, 0, 1e-12);

    check("gradient");
    double x[4], w[12], a[8], b[6], dy[3];
    draw(x, 4), draw(w, 12), draw(a, 8), draw(b, 6), draw(dy, 3);
    describe("in 4, out 3, rank 2, alpha 5, random");
    check_gradient((course_gradient){"forward",
                                     "backward",
                                     LIST(INTS(4, 3, 2), DOUBLES(5), IN(x, 4), IN(w, 12)),
                                     {{"a", a, 2, 4}, {"b", b, 3, 2}},
                                     2,
                                     {"y", NULL, 3, 0}});

    check("library");
    tg_tensor *tx = constant(x, TG_SHAPE(1, 4)), *ta = leaf(a, TG_SHAPE(2, 4)), *tb = leaf(b, TG_SHAPE(3, 2));
    tg_tensor *path = tg_linear(tape(), tg_linear(tape(), tx, ta, NULL), tb, NULL);
    tg_tensor *expected =
        tg_add(tape(), tg_linear(tape(), tx, constant(w, TG_SHAPE(3, 4)), NULL), tg_mul_scalar(tape(), path, 2.5));
    describe("in 4, out 3, rank 2, alpha 5, random");
    call("forward", LIST(INTS(4, 3, 2), DOUBLES(5), IN(x, 4), IN(w, 12), IN(a, 8), IN(b, 6), OUT(y, 3)));
    expect_tensor("y", y, expected);
    library_backward(expected, dy);
    double da[8] = {0}, db[6] = {0};
    call("backward", LIST(INTS(4, 3, 2), DOUBLES(5), IN(x, 4), IN(w, 12), IN(a, 8), IN(b, 6), IN(dy, 3), INOUT(da, 8),
                          INOUT(db, 6)));
    expect_tensor("da", da, gradient_of(ta));
    expect_tensor("db", db, gradient_of(tb));
}
#endif
