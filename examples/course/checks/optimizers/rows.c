#ifdef COURSE_WORKER
#include "../worker.h"

void sgd_rows(int width, int count, const int *row_ids, const double *values, double lr, double *table);

/* width, count, rows; row_ids, values, lr, table */
static void run(void **a)
{
    const int *n = a[0];
    const double *lr = a[3];
    sgd_rows(n[0], n[1], a[1], a[2], *lr, a[4]);
}

/* Rows that are not in the list must not be visited. The others are returned. */
static void guarded(void **a)
{
    const int *n = a[0], *ids = a[1];
    double *table = a[4];
    forbid_rows(table, n[2], n[0], ids, n[1]);
    run(a);
    copy_rows(table, n[0], ids, n[1], a[5]);
}

const course_call course_calls[] = {{"step", run}, {"guarded", guarded}, {NULL, NULL}};
#else
#include "../check.h"

void course_checks(void)
{
    double table[40] = {1, 1, 1, 1, 1, 1};
    check("values");
    describe("rows 2 0 of a table (3,2) of ones, lr 0.1");
    call("step", LIST(INTS(2, 2, 3), IN(((int[]){2, 0}), 2), DOUBLES(1, 2, 3, 4), DOUBLES(0.1), INOUT(table, 6)));
    expect("table", table, (double[]){0.7, 0.6, 1, 1, 0.9, 0.8}, 3, 2, 1e-12);

    check("repeated");
    double four[4] = {0};
    describe("rows 1 1 of a table (2,2) of zeros, lr 1");
    call("step", LIST(INTS(2, 2, 2), IN(((int[]){1, 1}), 2), DOUBLES(1, 2, 3, 4), DOUBLES(1), INOUT(four, 4)));
    expect("table", four, (double[]){0, 0, -4, -6}, 2, 2, 1e-12);

    check("library");
    tg_params *params = tg_params_new(NULL, TG_F64);
    tg_tensor *weight = tg_params_add(params, "weight", TG_SHAPE(10, 4));
    draw(table, 40);
    tg_tensor_fill_from(weight, table, NULL);
    tg_sgd_config config = tg_sgd_config_default();
    config.lr = 0.05;
    tg_optim *sgd = tg_sgd_new(params, &config);
    for (int step = 0; step < 3; step++) {
        int ids[6];
        double dy[24];
        draw_ids(ids, 6, 10);
        draw(dy, 24);
        tg_optim_zero_grad(sgd);
        library_backward(tg_embedding(tape(), ids_tensor(ids, TG_SHAPE(6)), weight, NULL), dy);
        tg_optim_step(sgd);
        describe("step %d, 6 random rows of a table (10,4)", step + 1);
        call("step", LIST(INTS(4, 6, 10), IN(ids, 6), IN(dy, 24), DOUBLES(0.05), INOUT(table, 40)));
        expect_tensor("table", table, weight);
    }

    check("cost");
    for (int has_pages = 0; has_pages < 2; has_pages++) {
        course_table t = draw_table(has_pages);
        describe("rows %d %d of a table (%d,%d), lr 0.5", t.ids[0], t.ids[1], t.rows, t.width);
        call("guarded", LIST(INTS(t.width, 2, t.rows), IN(t.ids, 2), IN(t.step, 2 * t.width), DOUBLES(0.5),
                             IN(t.values, t.rows * t.width), OUT(t.result, 2 * t.width)));
        for (int i = 0; i < 2 * t.width; i++) {
            t.named[i] -= 0.5 * t.step[i];
        }
        expect("these rows of the table", t.result, t.named, 2, t.width, 1e-12);
    }
}
#endif
