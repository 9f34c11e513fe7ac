#ifdef COURSE_WORKER
#include "../worker.h"

void rotate(int time, int width, int start, double *x);

static void run(void **a)
{
    const int *n = a[0];
    rotate(n[0], n[1], n[2], a[1]);
}

const course_call course_calls[] = {{"rotate", run}, {NULL, NULL}};
#else
#include "../check.h"

void course_checks(void)
{
    check("values");
    double two[] = {1, 0, 1, 0};
    describe("x = 1 0, 1 0, start 0: the second row turns by 1 radian");
    call("rotate", LIST(INTS(2, 2, 0), INOUT(two, 4)));
    expect("x", two, (double[]){1, 0, 0.540302, 0.841471}, 2, 2, 1e-6);

    check("start");
    double one[] = {0, 1};
    describe("x = 0 1, start 2");
    call("rotate", LIST(INTS(1, 2, 2), INOUT(one, 2)));
    expect("x", one, (double[]){-0.909297, -0.416147}, 1, 2, 1e-6);

    check("pairs");
    double four[] = {1, 5, 0, 0};
    describe("x = 1 5 0 0, start 1: the points (1,0) and (5,0)");
    call("rotate", LIST(INTS(1, 4, 1), INOUT(four, 4)));
    expect("x", four, (double[]){cos(1), 5 * cos(0.01), sin(1), 5 * sin(0.01)}, 1, 4, 1e-12);

    check("library");
    double x[48];
    draw(x, 48);
    tg_tensor *before = constant(x, TG_SHAPE(6, 8));
    describe("random x (6,8), start 3");
    call("rotate", LIST(INTS(6, 8, 3), INOUT(x, 48)));
    expect_tensor("x", x, tg_rotary(tape(), before, 3, NULL));
}
#endif
