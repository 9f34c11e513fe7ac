#ifdef COURSE_WORKER
#include "../worker.h"

void matmul(int n, int k, int m, const double *a, const double *b, double *y);

static void run(void **a)
{
    const int *n = a[0];
    matmul(n[0], n[1], n[2], a[1], a[2], a[3]);
}

const course_call course_calls[] = {{"matmul", run}, {NULL, NULL}};
#else
#include "../check.h"

void course_checks(void)
{
    double y[64];
    check("values");
    describe("a (2,2), b (2,2)");
    call("matmul", LIST(INTS(2, 2, 2), DOUBLES(1, 2, 3, 4), DOUBLES(5, 6, 7, 8), OUT(y, 4)));
    expect("y", y, (double[]){19, 22, 43, 50}, 2, 2, 1e-12);

    check("sizes");
    describe("a (2,3), b (3,1)");
    call("matmul", LIST(INTS(2, 3, 1), DOUBLES(1, 2, 3, 4, 5, 6), DOUBLES(1, 10, 100), OUT(y, 2)));
    expect("y", y, (double[]){321, 654}, 2, 1, 1e-12);
    describe("a (1,2), b (2,3)");
    call("matmul", LIST(INTS(1, 2, 3), DOUBLES(1, 10), DOUBLES(1, 2, 3, 4, 5, 6), OUT(y, 3)));
    expect("y", y, (double[]){41, 52, 63}, 1, 3, 1e-12);

    check("library");
    for (int i = 0; i < 5; i++) {
        int n = draw_int(1, 8), k = draw_int(1, 8), m = draw_int(1, 8);
        double a[64], b[64];
        draw(a, n * k);
        draw(b, k * m);
        describe("a (%d,%d), b (%d,%d)", n, k, k, m);
        call("matmul", LIST(INTS(n, k, m), IN(a, n * k), IN(b, k * m), OUT(y, n * m)));
        expect_tensor("y", y, tg_matmul(tape(), constant(a, TG_SHAPE(n, k)), constant(b, TG_SHAPE(k, m))));
    }
}
#endif
