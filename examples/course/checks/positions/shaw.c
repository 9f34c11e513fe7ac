#ifdef COURSE_WORKER
#include "../worker.h"

void scores(int time, int width, int reach, const double *q, const double *k, const double *table, double *y);

static void run(void **a)
{
    const int *n = a[0];
    scores(n[0], n[1], n[2], a[1], a[2], a[3], a[4]);
}

const course_call course_calls[] = {{"scores", run}, {NULL, NULL}};
#else
#include "../check.h"

void course_checks(void)
{
    double y[64];
    check("values");
    describe("q = 1 1, k = 10 20 (width 1), table = -5 0 5, reach 1");
    call("scores", LIST(INTS(2, 1, 1), DOUBLES(1, 1), DOUBLES(10, 20), DOUBLES(-5, 0, 5), OUT(y, 4)));
    expect("scores", y, (double[]){10, 25, 5, 20}, 2, 2, 1e-12);

    check("far");
    describe("4 positions, reach 1: distances of 2 and 3 use the rows at the ends");
    call("scores", LIST(INTS(4, 1, 1), DOUBLES(1, 1, 1, 1), DOUBLES(0, 0, 0, 0), DOUBLES(-5, 1, 5), OUT(y, 16)));
    expect("scores", y, (double[]){1, 5, 5, 5, -5, 1, 5, 5, -5, -5, 1, 5, -5, -5, -5, 1}, 4, 4, 1e-12);

    check("library");
    double q[18], k[18], table[15], expected[36];
    draw(q, 18);
    draw(k, 18);
    draw(table, 15);
    describe("random q, k (6,3), reach 2");
    call("scores", LIST(INTS(6, 3, 2), IN(q, 18), IN(k, 18), IN(table, 15), OUT(y, 36)));
    tg_tensor *queries = constant(q, TG_SHAPE(6, 3));
    tg_tensor *keys = tg_matmul(tape(), queries, tg_transpose(tape(), constant(k, TG_SHAPE(6, 3)), 0, 1));
    tg_tensor *rows = tg_matmul(tape(), queries, tg_transpose(tape(), constant(table, TG_SHAPE(5, 3)), 0, 1));
    for (int i = 0; i < 36; i++) {
        int row = i % 6 - i / 6 + 2;
        row = row < 0 ? 0 : row > 4 ? 4 : row;
        expected[i] = tg_tensor_value_at(keys, i) + tg_tensor_value_at(rows, i / 6 * 5 + row);
    }
    expect("scores", y, expected, 6, 6, 1e-9);
}
#endif
