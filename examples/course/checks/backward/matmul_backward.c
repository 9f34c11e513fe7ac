#ifdef COURSE_WORKER
#include "../worker.h"

void matmul_backward(int n, int k, int m, const double *a, const double *b, const double *dy, double *da, double *db);

/* sizes, a, b -> y */
static void forward(void **a)
{
    const int *n = a[0];
    const double *left = a[1], *right = a[2];
    double *y = a[3];
    for (int i = 0; i < n[0]; i++) {
        for (int j = 0; j < n[2]; j++) {
            y[i * n[2] + j] = 0;
            for (int p = 0; p < n[1]; p++) {
                y[i * n[2] + j] += left[i * n[1] + p] * right[p * n[2] + j];
            }
        }
    }
}

/* sizes, a, b, dy, da, db */
static void backward(void **a)
{
    const int *n = a[0];
    matmul_backward(n[0], n[1], n[2], a[1], a[2], a[3], a[4], a[5]);
}

const course_call course_calls[] = {{"forward", forward}, {"backward", backward}, {NULL, NULL}};
#else
#include "../check.h"

void course_checks(void)
{
    double da[20] = {0}, db[30] = {0};
    check("values");
    describe("a = 1 2, 3 4; b = 5 6, 7 8; dy = 1 0, 0 10");
    call("backward", LIST(INTS(2, 2, 2), DOUBLES(1, 2, 3, 4), DOUBLES(5, 6, 7, 8), DOUBLES(1, 0, 0, 10), INOUT(da, 4),
                          INOUT(db, 4)));
    expect("da", da, (double[]){5, 7, 60, 80}, 2, 2, 1e-12);
    expect("db", db, (double[]){1, 30, 2, 40}, 2, 2, 1e-12);

    check("sizes");
    describe("a (1,2), b (2,3), dy = 1 10 100");
    double da2[2] = {0}, db2[6] = {0};
    call("backward", LIST(INTS(1, 2, 3), DOUBLES(7, 9), DOUBLES(1, 2, 3, 4, 5, 6), DOUBLES(1, 10, 100), INOUT(da2, 2),
                          INOUT(db2, 6)));
    expect("da", da2, (double[]){321, 654}, 1, 2, 1e-12);
    expect("db", db2, (double[]){7, 70, 700, 9, 90, 900}, 2, 3, 1e-12);

    check("gradient");
    double a[12], b[12], dy[9];
    draw(a, 12);
    draw(b, 12);
    draw(dy, 9);
    describe("a (3,4), b (4,2), random");
    check_gradient((course_gradient){
        "forward", "backward", LIST(INTS(3, 4, 2)), {{"a", a, 3, 4}, {"b", b, 4, 2}}, 2, {"y", NULL, 3, 2}});

    check("library");
    tg_tensor *left = leaf(a, TG_SHAPE(3, 4)), *right = leaf(b, TG_SHAPE(4, 3));
    library_backward(tg_matmul(tape(), left, right), dy);
    memset(da, 0, sizeof da);
    memset(db, 0, sizeof db);
    describe("a (3,4), b (4,3), random");
    call("backward", LIST(INTS(3, 4, 3), IN(a, 12), IN(b, 12), IN(dy, 9), INOUT(da, 12), INOUT(db, 12)));
    expect_tensor("da", da, gradient_of(left));
    expect_tensor("db", db, gradient_of(right));
}
#endif
