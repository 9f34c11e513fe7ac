#ifdef COURSE_WORKER
#include "../worker.h"

void padded_backward(int width, int count, const int *ids, int padding, const double *dy, double *dtable);

static void run(void **a)
{
    const int *n = a[0];
    padded_backward(n[0], n[1], a[1], n[2], a[2], a[3]);
}

const course_call course_calls[] = {{"backward", run}, {NULL, NULL}};
#else
#include "../check.h"

void course_checks(void)
{
    double six[6] = {0}, dtable[30] = {0};
    check("values");
    describe("ids 1 0, no padding");
    call("backward", LIST(INTS(2, 2, -1), IN(((int[]){1, 0}), 2), DOUBLES(1, 2, 3, 4), INOUT(six, 6)));
    expect("dtable", six, (double[]){3, 4, 1, 2, 0, 0}, 3, 2, 1e-12);

    check("padding");
    describe("ids 1 2 2, padding 2");
    memset(six, 0, sizeof six);
    call("backward", LIST(INTS(2, 3, 2), IN(((int[]){1, 2, 2}), 3), DOUBLES(1, 2, 3, 4, 5, 6), INOUT(six, 6)));
    expect("dtable", six, (double[]){0, 0, 1, 2, 0, 0}, 3, 2, 1e-12);
    describe("ids 0 1 0 1, padding 0");
    memset(six, 0, sizeof six);
    call("backward", LIST(INTS(2, 4, 0), IN(((int[]){0, 1, 0, 1}), 4), DOUBLES(1, 2, 3, 4, 5, 6, 7, 8), INOUT(six, 6)));
    expect("dtable", six, (double[]){0, 0, 10, 12, 0, 0}, 3, 2, 1e-12);

    check("library");
    int ids[20];
    double dy[60], table[30] = {0};
    draw_ids(ids, 20, 10);
    draw(dy, 60);
    tg_embedding_config config = tg_embedding_config_default();
    config.padding_index = 3;
    tg_tensor *weight = leaf(table, TG_SHAPE(10, 3));
    library_backward(tg_embedding(tape(), ids_tensor(ids, TG_SHAPE(20)), weight, &config), dy);
    describe("20 random ids of a table (10,3), padding 3");
    call("backward", LIST(INTS(3, 20, 3), IN(ids, 20), IN(dy, 60), INOUT(dtable, 30)));
    expect_tensor("dtable", dtable, gradient_of(weight));
}
#endif
