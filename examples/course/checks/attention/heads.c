#ifdef COURSE_WORKER
#include "../worker.h"

void split_heads(int time, int heads, int size, const double *x, double *y);
void join_heads(int time, int heads, int size, const double *y, double *x);

static void run_split(void **a)
{
    const int *n = a[0];
    split_heads(n[0], n[1], n[2], a[1], a[2]);
}

static void run_join(void **a)
{
    const int *n = a[0];
    join_heads(n[0], n[1], n[2], a[1], a[2]);
}

const course_call course_calls[] = {{"split", run_split}, {"join", run_join}, {NULL, NULL}};
#else
#include "../check.h"

void course_checks(void)
{
    double y[64], x[64];
    check("values");
    describe("2 words, 2 heads of size 1, x = 1 2, 3 4");
    call("split", LIST(INTS(2, 2, 1), DOUBLES(1, 2, 3, 4), OUT(y, 4)));
    expect("y", y, (double[]){1, 3, 2, 4}, 4, 0, 0);
    describe("2 words, 2 heads of size 2, x = 1 2 3 4, 5 6 7 8");
    call("split", LIST(INTS(2, 2, 2), DOUBLES(1, 2, 3, 4, 5, 6, 7, 8), OUT(y, 8)));
    expect("y", y, (double[]){1, 2, 5, 6, 3, 4, 7, 8}, 8, 0, 0);

    check("join");
    describe("2 words, 2 heads of size 2, y = 1 2, 5 6; 3 4, 7 8");
    call("join", LIST(INTS(2, 2, 2), DOUBLES(1, 2, 5, 6, 3, 4, 7, 8), OUT(x, 8)));
    expect("x", x, (double[]){1, 2, 3, 4, 5, 6, 7, 8}, 8, 0, 0);

    check("sizes");
    for (int i = 0; i < 60; i++) {
        x[i] = i;
    }
    describe("3 words, 2 heads of size 4");
    call("split", LIST(INTS(3, 2, 4), IN(x, 24), OUT(y, 24)));
    expect_tensor("y", y, tg_transpose(tape(), constant(x, TG_SHAPE(3, 2, 4)), 0, 1));

    check("library");
    double back[60];
    draw(x, 60);
    describe("5 words, 4 heads of size 3, split and joined");
    call("split", LIST(INTS(5, 4, 3), IN(x, 60), OUT(y, 60)));
    expect_tensor("y", y, tg_transpose(tape(), constant(x, TG_SHAPE(5, 4, 3)), 0, 1));
    call("join", LIST(INTS(5, 4, 3), IN(y, 60), OUT(back, 60)));
    expect("x", back, x, 5, 12, 0);
}
#endif
