#ifdef COURSE_WORKER
#include "../worker.h"

void rotate(int count, int width, double base, const int *positions, const double *x, double *y);
void rotate_backward(int count, int width, double base, const int *positions, const double *dy, double *dx);

/* sizes, base, positions, x -> y */
static void forward(void **a)
{
    const int *n = a[0];
    const double *base = a[1];
    rotate(n[0], n[1], *base, a[2], a[3], a[4]);
}

/* sizes, base, positions, x, dy, dx */
static void backward(void **a)
{
    const int *n = a[0];
    const double *base = a[1];
    rotate_backward(n[0], n[1], *base, a[2], a[4], a[5]);
}

const course_call course_calls[] = {{"forward", forward}, {"backward", backward}, {NULL, NULL}};
#else
#include "../check.h"

void course_checks(void)
{
    double y[48], dx[48] = {0};
    check("values");
    describe("positions 0, 1, x = 1 0, 0 1, base 10000: the second row turns by 1 radian");
    call("forward", LIST(INTS(2, 2), DOUBLES(10000), INTS(0, 1), DOUBLES(1, 0, 0, 1), OUT(y, 4)));
    expect("y", y, (double[]){1, 0, -0.841471, 0.540302}, 2, 2, 1e-6);

    check("positions");
    describe("positions 2, 0, x = 0 1, 1 0, base 10000");
    call("forward", LIST(INTS(2, 2), DOUBLES(10000), INTS(2, 0), DOUBLES(0, 1, 1, 0), OUT(y, 4)));
    expect("y", y, (double[]){-0.909297, -0.416147, 1, 0}, 2, 2, 1e-6);

    check("pairs");
    describe("position 1, x = 1 5 0 0, base 10000: the points (1,0) and (5,0)");
    call("forward", LIST(INTS(1, 4), DOUBLES(10000), INTS(1), DOUBLES(1, 5, 0, 0), OUT(y, 4)));
    expect("y", y, (double[]){cos(1), 5 * cos(0.01), sin(1), 5 * sin(0.01)}, 1, 4, 1e-12);

    check("base");
    describe("position 1, x = 1 5 0 0, base 100: the points (1,0) and (5,0)");
    call("forward", LIST(INTS(1, 4), DOUBLES(100), INTS(1), DOUBLES(1, 5, 0, 0), OUT(y, 4)));
    expect("y", y, (double[]){cos(1), 5 * cos(0.1), sin(1), 5 * sin(0.1)}, 1, 4, 1e-12);

    check("back");
    describe("positions 0, 1, dy = 0 1, 1 0, base 10000");
    call("backward", LIST(INTS(2, 2), DOUBLES(10000), INTS(0, 1), NOTHING, DOUBLES(0, 1, 1, 0), INOUT(dx, 4)));
    expect("dx", dx, (double[]){0, 1, cos(1), -sin(1)}, 2, 2, 1e-12);
    describe("position 2, dy = 1 0, base 10000");
    dx[0] = dx[1] = 0;
    call("backward", LIST(INTS(1, 2), DOUBLES(10000), INTS(2), NOTHING, DOUBLES(1, 0), INOUT(dx, 2)));
    expect("a later dx", dx, (double[]){cos(2), -sin(2)}, 1, 2, 1e-12);

    check("adds");
    describe("position 0, dy = 1 2, base 10000; dx is 10 20 before");
    double before[] = {10, 20};
    call("backward", LIST(INTS(1, 2), DOUBLES(10000), INTS(0), NOTHING, DOUBLES(1, 2), INOUT(before, 2)));
    expect("dx", before, (double[]){11, 22}, 1, 2, 1e-12);

    check("gradient");
    double x[48], dy[48];
    int positions[6];
    draw(x, 48), draw(dy, 48), draw_ids(positions, 6, 20);
    describe("x (6,8), random, random positions below 20, base 500");
    check_gradient((course_gradient){"forward",
                                     "backward",
                                     LIST(INTS(6, 8), DOUBLES(500), IN(positions, 6)),
                                     {{"x", x, 6, 8}},
                                     1,
                                     {"y", NULL, 6, 8}});

    check("library");
    tg_rotary_config config = tg_rotary_config_default();
    config.base = 500;
    config.positions = ids_tensor(positions, TG_SHAPE(6));
    tg_tensor *tx = leaf(x, TG_SHAPE(6, 8)), *expected = tg_rotary(tape(), tx, 0, &config);
    library_backward(expected, dy);
    describe("x (6,8), random, random positions below 20, base 500");
    call("forward", LIST(INTS(6, 8), DOUBLES(500), IN(positions, 6), IN(x, 48), OUT(y, 48)));
    expect_tensor("y", y, expected);
    memset(dx, 0, sizeof dx);
    call("backward", LIST(INTS(6, 8), DOUBLES(500), IN(positions, 6), NOTHING, IN(dy, 48), INOUT(dx, 48)));
    expect_tensor("dx", dx, gradient_of(tx));
}
#endif
