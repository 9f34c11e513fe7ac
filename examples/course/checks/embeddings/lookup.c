#ifdef COURSE_WORKER
#include "../worker.h"

void lookup(int width, int count, const int *ids, const double *table, double *y);

static void run(void **a)
{
    const int *n = a[0];
    lookup(n[0], n[1], a[1], a[2], a[3]);
}

/* Rows without an id must not be read. */
static void run_guarded(void **a)
{
    const int *n = a[0], *ids = a[1];
    const double *table = a[2];
    forbid_rows(table, n[2], n[0], ids, n[1]);
    lookup(n[0], n[1], ids, table, a[3]);
}

const course_call course_calls[] = {{"lookup", run}, {"guarded", run_guarded}, {NULL, NULL}};
#else
#include "../check.h"

void course_checks(void)
{
    /* torch.manual_seed(123); torch.nn.Embedding(6, 3).weight, as printed */
    const double table[] = {0.3374,  -0.1778, -0.1690, 0.9178,  1.5810, 1.3010,  1.2753,  -0.2010, -0.1606,
                            -0.4015, 0.9666,  -1.1481, -1.1589, 0.3255, -0.6315, -2.8400, -0.7849, -1.4096};
    double y[64];
    check("values");
    describe("ids 2 3 5 1 of a table (6,3), whose row 2 is 1.2753 -0.2010 -0.1606");
    call("lookup", LIST(INTS(3, 4), IN(((int[]){2, 3, 5, 1}), 4), IN(table, 18), OUT(y, 12)));
    expect("y", y,
           (double[]){1.2753, -0.2010, -0.1606, -0.4015, 0.9666, -1.1481, -2.8400, -0.7849, -1.4096, 0.9178, 1.5810,
                      1.3010},
           4, 3, 1e-12);

    check("repeated");
    describe("ids 5 5 0");
    call("lookup", LIST(INTS(3, 3), IN(((int[]){5, 5, 0}), 3), IN(table, 18), OUT(y, 9)));
    expect("y", y, (double[]){-2.8400, -0.7849, -1.4096, -2.8400, -0.7849, -1.4096, 0.3374, -0.1778, -0.1690}, 3, 3,
           1e-12);

    check("library");
    double random[20 * 5];
    int ids[12];
    draw(random, 20 * 5);
    draw_ids(ids, 12, 20);
    describe("12 random ids of a table (20,5)");
    call("lookup", LIST(INTS(5, 12), IN(ids, 12), IN(random, 100), OUT(y, 60)));
    expect_tensor("y", y, tg_embedding(tape(), ids_tensor(ids, TG_SHAPE(12)), constant(random, TG_SHAPE(20, 5)), NULL));

    check("cost");
    for (int has_pages = 0; has_pages < 2; has_pages++) {
        course_table t = draw_table(has_pages);
        describe("ids %d %d of a table (%d,%d)", t.ids[0], t.ids[1], t.rows, t.width);
        call("guarded",
             LIST(INTS(t.width, 2, t.rows), IN(t.ids, 2), IN(t.values, t.rows * t.width), OUT(t.result, 2 * t.width)));
        expect("y", t.result, t.named, 2, t.width, 1e-12);
    }
}
#endif
