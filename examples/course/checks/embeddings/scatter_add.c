#ifdef COURSE_WORKER
#include "../worker.h"

void lookup_backward(int width, int count, const int *ids, const double *dy, double *dtable);

/* sizes, ids, table -> y */
static void forward(void **a)
{
    const int *n = a[0], *ids = a[1];
    const double *table = a[2];
    double *y = a[3];
    for (int i = 0; i < n[0] * n[1]; i++) {
        y[i] = table[ids[i / n[0]] * n[0] + i % n[0]];
    }
}

/* sizes, ids, table, dy, dtable */
static void backward(void **a)
{
    const int *n = a[0];
    lookup_backward(n[0], n[1], a[1], a[3], a[4]);
}

/* Rows without an id must not be visited. The others are returned. */
static void guarded(void **a)
{
    const int *n = a[0], *ids = a[1];
    double *dtable = a[4];
    forbid_rows(dtable, n[2], n[0], ids, n[1]);
    backward(a);
    copy_rows(dtable, n[0], ids, n[1], a[5]);
}

const course_call course_calls[] = {{"forward", forward}, {"backward", backward}, {"guarded", guarded}, {NULL, NULL}};
#else
#include "../check.h"

static const double table[] = {0.3374,  -0.1778, -0.1690, 0.9178,  1.5810, 1.3010,  1.2753,  -0.2010, -0.1606,
                               -0.4015, 0.9666,  -1.1481, -1.1589, 0.3255, -0.6315, -2.8400, -0.7849, -1.4096};

void course_checks(void)
{
    double dtable[100] = {0};
    check("values");
    describe("ids 1 2 0 of a table (4,2), dy = 1 2, 3 4, 5 6");
    call("backward", LIST(INTS(2, 3), IN(((int[]){1, 2, 0}), 3), NOTHING, DOUBLES(1, 2, 3, 4, 5, 6), INOUT(dtable, 8)));
    expect("dtable", dtable, (double[]){5, 6, 1, 2, 3, 4, 0, 0}, 4, 2, 1e-12);

    check("repeated");
    describe("ids 2 3 5 2 of a table (6,3), dy = 2 y");
    int ids[] = {2, 3, 5, 2};
    double y[12], expected[18] = {0}, dy[100];
    memset(dtable, 0, sizeof dtable);
    call("forward", LIST(INTS(3, 4), IN(ids, 4), IN(table, 18), OUT(y, 12)));
    for (int i = 0; i < 12; i++) {
        dy[i] = 2 * y[i];
        expected[ids[i / 3] * 3 + i % 3] += dy[i];
    }
    call("backward", LIST(INTS(3, 4), IN(ids, 4), NOTHING, IN(dy, 12), INOUT(dtable, 18)));
    expect("dtable", dtable, expected, 6, 3, 1e-12);

    check("adds");
    describe("dtable has values before; ids 1 0");
    double before[] = {10, 20, 30, 40, 50, 60};
    call("backward", LIST(INTS(2, 2), IN(((int[]){1, 0}), 2), NOTHING, DOUBLES(1, 2, 3, 4), INOUT(before, 6)));
    expect("dtable", before, (double[]){13, 24, 31, 42, 50, 60}, 3, 2, 1e-12);

    check("gradient");
    describe("ids 2 3 5 2 of a table (6,3)");
    check_gradient((course_gradient){
        "forward", "backward", LIST(INTS(3, 4), IN(ids, 4)), {{"table", table, 6, 3}}, 1, {"y", NULL, 4, 3}});

    check("library");
    int random_ids[16];
    double random[80];
    draw(random, 80);
    draw(dy, 64);
    draw_ids(random_ids, 16, 20);
    describe("16 random ids of a table (20,4)");
    tg_tensor *weight = leaf(random, TG_SHAPE(20, 4));
    library_backward(tg_embedding(tape(), ids_tensor(random_ids, TG_SHAPE(16)), weight, NULL), dy);
    memset(dtable, 0, sizeof dtable);
    call("backward", LIST(INTS(4, 16), IN(random_ids, 16), NOTHING, IN(dy, 64), INOUT(dtable, 80)));
    expect_tensor("dtable", dtable, gradient_of(weight));

    check("cost");
    for (int has_pages = 0; has_pages < 2; has_pages++) {
        course_table t = draw_table(has_pages);
        describe("ids %d %d of a table (%d,%d)", t.ids[0], t.ids[1], t.rows, t.width);
        call("guarded", LIST(INTS(t.width, 2, t.rows), IN(t.ids, 2), NOTHING, IN(t.step, 2 * t.width),
                             IN(t.values, t.rows * t.width), OUT(t.result, 2 * t.width)));
        for (int i = 0; i < 2 * t.width; i++) {
            t.named[i] += t.step[i];
        }
        expect("the rows of the ids in dtable", t.result, t.named, 2, t.width, 1e-12);
    }
}
#endif
