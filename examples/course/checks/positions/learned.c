#ifdef COURSE_WORKER
#include "../worker.h"

void add_positions(int time, int width, int start, const double *table, double *x);
void positions_backward(int time, int width, int start, const double *dy, double *dtable);

/* sizes, x; table -> y */
static void forward(void **a)
{
    const int *n = a[0];
    const double *x = a[1];
    double *y = a[3];
    for (int i = 0; i < n[0] * n[1]; i++) {
        y[i] = x[i];
    }
    add_positions(n[0], n[1], n[2], a[2], y);
}

/* sizes, x; table, dy, dtable */
static void backward(void **a)
{
    const int *n = a[0];
    positions_backward(n[0], n[1], n[2], a[3], a[4]);
}

const course_call course_calls[] = {{"forward", forward}, {"backward", backward}, {NULL, NULL}};
#else
#include "../check.h"

void course_checks(void)
{
    const double table[] = {1, 2, 10, 20, 100, 200};
    double y[24], dtable[24] = {0};
    check("values");
    describe("x = 0.5 0.5, 0.5 0.5, start 0");
    call("forward", LIST(INTS(2, 2, 0), DOUBLES(0.5, 0.5, 0.5, 0.5), IN(table, 6), OUT(y, 4)));
    expect("x", y, (double[]){1.5, 2.5, 10.5, 20.5}, 2, 2, 1e-12);

    check("start");
    describe("one token, start 2");
    call("forward", LIST(INTS(1, 2, 2), DOUBLES(0, 0), IN(table, 6), OUT(y, 2)));
    expect("x", y, (double[]){100, 200}, 1, 2, 1e-12);
    describe("backward of two tokens, start 1");
    call("backward", LIST(INTS(2, 2, 1), NOTHING, NOTHING, DOUBLES(1, 2, 3, 4), INOUT(dtable, 6)));
    expect("dtable", dtable, (double[]){0, 0, 1, 2, 3, 4}, 3, 2, 1e-12);

    check("gradient");
    double random[15], x[9];
    draw(random, 15);
    draw(x, 9);
    describe("3 tokens, start 2, of 5 positions");
    check_gradient((course_gradient){
        "forward", "backward", LIST(INTS(3, 3, 2), IN(x, 9)), {{"table", random, 5, 3}}, 1, {"y", NULL, 3, 3}});

    check("library");
    describe("3 random tokens, start 2");
    call("forward", LIST(INTS(3, 3, 2), IN(x, 9), IN(random, 15), OUT(y, 9)));
    expect_tensor(
        "x", y,
        tg_add(tape(), constant(x, TG_SHAPE(3, 3)), tg_slice(tape(), constant(random, TG_SHAPE(5, 3)), 0, 2, 5, 1)));
}
#endif
