#ifdef COURSE_WORKER
#include "../worker.h"

int rows_of_gradient(int width, int count, const int *ids, const double *dy, int *row_ids, double *values);

static void run(void **a)
{
    const int *n = a[0];
    int *rows = a[5];
    *rows = rows_of_gradient(n[0], n[1], a[1], a[2], a[3], a[4]);
}

const course_call course_calls[] = {{"rows", run}, {NULL, NULL}};
#else
#include "../check.h"

void course_checks(void)
{
    int row_ids[32], n;
    double values[128];
    check("values");
    describe("ids 4 1");
    call("rows",
         LIST(INTS(2, 2), IN(((int[]){4, 1}), 2), DOUBLES(1, 2, 3, 4), OUT(row_ids, 2), OUT(values, 4), OUT(&n, 1)));
    expect_int("the number of rows", n, 2);
    expect_ints("row_ids", row_ids, (int[]){4, 1}, 2);
    expect("values", values, (double[]){1, 2, 3, 4}, 2, 2, 1e-12);

    check("repeated");
    describe("ids 2 3 5 2");
    call("rows", LIST(INTS(2, 4), IN(((int[]){2, 3, 5, 2}), 4), DOUBLES(1, 2, 3, 4, 5, 6, 10, 20), OUT(row_ids, 4),
                      OUT(values, 8), OUT(&n, 1)));
    expect_int("the number of rows", n, 3);
    expect_ints("row_ids", row_ids, (int[]){2, 3, 5}, 3);
    expect("values", values, (double[]){11, 22, 3, 4, 5, 6}, 3, 2, 1e-12);

    check("library");
    int ids[32];
    double dy[128], table[40] = {0}, dense[40] = {0};
    draw_ids(ids, 32, 10);
    draw(dy, 128);
    describe("32 random ids of a table (10,4)");
    call("rows", LIST(INTS(4, 32), IN(ids, 32), IN(dy, 128), OUT(row_ids, 32), OUT(values, 128), OUT(&n, 1)));
    tg_tensor *weight = leaf(table, TG_SHAPE(10, 4));
    library_backward(tg_embedding(tape(), ids_tensor(ids, TG_SHAPE(32)), weight, NULL), dy);
    expect_int("the number of rows", n, tg_tensor_grad_rows(weight).count);
    for (int i = 0; i < n * 4; i++) {
        int row = row_ids[i / 4];
        if (row < 0 || row >= 10) {
            expect_int("a row id", row, ids[0]);
        }
        dense[row * 4 + i % 4] += values[i];
    }
    expect_tensor("the gradient of the table", dense, gradient_of(weight));

    /* a gradient of the whole table would have more than 8 MB, and then more than 4 GB */
    check("cost");
    for (int bits = 21; bits <= 29; bits += 8) {
        int first = draw_int(1 << bits, 1 << (bits + 1)), far[] = {2 * first, first};
        describe("ids %d %d", far[0], far[1]);
        call("rows", LIST(INTS(1, 2), IN(far, 2), DOUBLES(1, 2), OUT(row_ids, 2), OUT(values, 2), OUT(&n, 1)));
        expect_int("the number of rows", n, 2);
        expect_ints("row_ids", row_ids, far, 2);
        expect("values", values, (double[]){1, 2}, 2, 1, 1e-12);
    }
}
#endif
