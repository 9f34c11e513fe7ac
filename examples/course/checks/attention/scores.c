#ifdef COURSE_WORKER
#include "../worker.h"

void weights(int time, int width, double scale, const double *q, const double *k, double *y);

static void run(void **a)
{
    const int *n = a[0];
    const double *scale = a[1];
    weights(n[0], n[1], *scale, a[2], a[3], a[4]);
}

const course_call course_calls[] = {{"weights", run}, {NULL, NULL}};
#else
#include "../check.h"

void course_checks(void)
{
    /* the six words of the book's example, and the weights of the second one */
    const double words[] = {0.43, 0.15, 0.89, 0.55, 0.87, 0.66, 0.57, 0.85, 0.64,
                            0.22, 0.58, 0.33, 0.77, 0.25, 0.10, 0.05, 0.80, 0.55};
    double y[64];
    check("values");
    describe("\"Your journey starts with one step\", q = k, scale 1");
    call("weights", LIST(INTS(6, 3), DOUBLES(1), IN(words, 18), IN(words, 18), OUT(y, 36)));
    expect("the weights of \"journey\"", y + 6, (double[]){0.1385, 0.2379, 0.2333, 0.1240, 0.1082, 0.1581}, 6, 0, 1e-4);

    check("queries_and_keys");
    describe("q = 0, log 3 and k = 1, 2 (width 1), scale 1");
    call("weights", LIST(INTS(2, 1), DOUBLES(1), DOUBLES(0, log(3)), DOUBLES(1, 2), OUT(y, 4)));
    expect("weights", y, (double[]){0.5, 0.5, 0.25, 0.75}, 2, 2, 1e-12);

    check("scale");
    describe("q = 1, 1 and k = 0, log 9 (width 1), scale 1/2");
    call("weights", LIST(INTS(2, 1), DOUBLES(0.5), DOUBLES(1, 1), DOUBLES(0, log(9)), OUT(y, 4)));
    expect("weights", y, (double[]){0.25, 0.75, 0.25, 0.75}, 2, 2, 1e-12);

    check("large");
    describe("q = 1000, 1000 and k = 1, 1 (width 1), scale 1");
    call("weights", LIST(INTS(2, 1), DOUBLES(1), DOUBLES(1000, 1000), DOUBLES(1, 1), OUT(y, 4)));
    expect("weights", y, (double[]){0.5, 0.5, 0.5, 0.5}, 2, 2, 1e-12);

    check("library");
    double q[24], k[24];
    draw(q, 24);
    draw(k, 24);
    describe("random q, k (6,4), scale 1 / sqrt(4)");
    call("weights", LIST(INTS(6, 4), DOUBLES(0.5), IN(q, 24), IN(k, 24), OUT(y, 36)));
    tg_tensor *keys = tg_transpose(tape(), constant(k, TG_SHAPE(6, 4)), 0, 1);
    tg_tensor *products = tg_matmul(tape(), constant(q, TG_SHAPE(6, 4)), keys);
    expect_tensor("weights", y, tg_softmax(tape(), tg_mul_scalar(tape(), products, 0.5), -1));
}
#endif
