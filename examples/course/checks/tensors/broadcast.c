#ifdef COURSE_WORKER
#include "../worker.h"

void add(int rows, int columns, const double *a, int b_rows, int b_columns, const double *b, double *y);

static void run(void **a)
{
    const int *n = a[0];
    add(n[0], n[1], a[1], n[2], n[3], a[2], a[3]);
}

const course_call course_calls[] = {{"add", run}, {NULL, NULL}};
#else
#include "../check.h"

void course_checks(void)
{
    double y[64];
    const double a[] = {0, 10, 20, 30, 40, 50};
    check("values");
    describe("a (2,3), b (2,3)");
    call("add", LIST(INTS(2, 3, 2, 3), IN(a, 6), DOUBLES(1, 2, 3, 4, 5, 6), OUT(y, 6)));
    expect("y", y, (double[]){1, 12, 23, 34, 45, 56}, 2, 3, 1e-12);
    describe("a (2,3), b (1,3)");
    call("add", LIST(INTS(2, 3, 1, 3), IN(a, 6), DOUBLES(1, 2, 3), OUT(y, 6)));
    expect("y", y, (double[]){1, 12, 23, 31, 42, 53}, 2, 3, 1e-12);

    check("columns");
    describe("a (2,3), b (2,1)");
    call("add", LIST(INTS(2, 3, 2, 1), IN(a, 6), DOUBLES(1, 2), OUT(y, 6)));
    expect("y", y, (double[]){1, 11, 21, 32, 42, 52}, 2, 3, 1e-12);
    describe("a (2,2), b (2,1)");
    call("add", LIST(INTS(2, 2, 2, 1), IN(a, 4), DOUBLES(1, 2), OUT(y, 4)));
    expect("y", y, (double[]){1, 11, 22, 32}, 2, 2, 1e-12);

    check("one");
    describe("a (2,3), b (1,1)");
    call("add", LIST(INTS(2, 3, 1, 1), IN(a, 6), DOUBLES(0.5), OUT(y, 6)));
    expect("y", y, (double[]){0.5, 10.5, 20.5, 30.5, 40.5, 50.5}, 2, 3, 1e-12);

    check("library");
    for (int i = 0; i < 6; i++) {
        int rows = draw_int(1, 8), columns = draw_int(1, 8);
        int b_rows = draw_int(0, 2) ? rows : 1, b_columns = draw_int(0, 2) ? columns : 1;
        double left[64], right[64];
        draw(left, rows * columns);
        draw(right, b_rows * b_columns);
        describe("a (%d,%d), b (%d,%d)", rows, columns, b_rows, b_columns);
        call("add", LIST(INTS(rows, columns, b_rows, b_columns), IN(left, rows * columns),
                         IN(right, b_rows * b_columns), OUT(y, rows * columns)));
        expect_tensor(
            "y", y,
            tg_add(tape(), constant(left, TG_SHAPE(rows, columns)), constant(right, TG_SHAPE(b_rows, b_columns))));
    }
}
#endif
