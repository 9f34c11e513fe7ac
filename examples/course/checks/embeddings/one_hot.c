#ifdef COURSE_WORKER
#include "../worker.h"

void one_hot(int rows, int count, const int *ids, double *x);
void product(int rows, int width, int count, const double *x, const double *table, double *y);

static void run_one_hot(void **a)
{
    const int *n = a[0];
    one_hot(n[0], n[1], a[1], a[2]);
}

static void run_product(void **a)
{
    const int *n = a[0];
    product(n[0], n[1], n[2], a[1], a[2], a[3]);
}

const course_call course_calls[] = {{"one_hot", run_one_hot}, {"product", run_product}, {NULL, NULL}};
#else
#include "../check.h"

void course_checks(void)
{
    double x[48], y[48];
    check("values");
    describe("ids 2 0 of a table with 4 rows");
    call("one_hot", LIST(INTS(4, 2), IN(((int[]){2, 0}), 2), OUT(x, 8)));
    expect("x", x, (double[]){0, 0, 1, 0, 1, 0, 0, 0}, 2, 4, 0);
    describe("x = 0 1, table = 1 2 3, 4 5 6");
    call("product", LIST(INTS(2, 3, 1), DOUBLES(0, 1), DOUBLES(1, 2, 3, 4, 5, 6), OUT(y, 3)));
    expect("y", y, (double[]){4, 5, 6}, 1, 3, 1e-12);

    check("product");
    describe("x = 1 2, 10 20 (any numbers), table = 1 2 3, 4 5 6");
    call("product", LIST(INTS(2, 3, 2), DOUBLES(1, 2, 10, 20), DOUBLES(1, 2, 3, 4, 5, 6), OUT(y, 6)));
    expect("y", y, (double[]){9, 12, 15, 90, 120, 150}, 2, 3, 1e-12);

    check("library");
    double table[24];
    int ids[6];
    draw(table, 24);
    draw_ids(ids, 6, 8);
    describe("6 random ids of a table (8,3)");
    call("one_hot", LIST(INTS(8, 6), IN(ids, 6), OUT(x, 48)));
    expect_tensor("x", x, tg_one_hot(tape(), ids_tensor(ids, TG_SHAPE(6)), 8, TG_F64));
    call("product", LIST(INTS(8, 3, 6), IN(x, 48), IN(table, 24), OUT(y, 18)));
    expect_tensor("y", y, tg_embedding(tape(), ids_tensor(ids, TG_SHAPE(6)), constant(table, TG_SHAPE(8, 3)), NULL));
}
#endif
