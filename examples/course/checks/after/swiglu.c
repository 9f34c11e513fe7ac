#ifdef COURSE_WORKER
#include "../worker.h"

void swiglu(int count, const double *gate, const double *up, double *y);
void swiglu_backward(int count, const double *gate, const double *up, const double *dy, double *dgate, double *dup);

/* count, gate, up -> y */
static void forward(void **a)
{
    const int *count = a[0];
    swiglu(*count, a[1], a[2], a[3]);
}

/* count, gate, up, dy, dgate, dup */
static void backward(void **a)
{
    const int *count = a[0];
    swiglu_backward(*count, a[1], a[2], a[3], a[4], a[5]);
}

const course_call course_calls[] = {{"forward", forward}, {"backward", backward}, {NULL, NULL}};
#else
#include "../check.h"

void course_checks(void)
{
    const double log_3 = log(3);
    double y[12], dgate[12] = {0}, dup[12] = {0};
    check("values");
    describe("gate = 0 log 3, whose sigmoids are 1/2 3/4, up = 5 2");
    call("forward", LIST(INTS(2), DOUBLES(0, log_3), DOUBLES(5, 2), OUT(y, 2)));
    expect("y", y, (double[]){0, 1.5 * log_3}, 2, 0, 1e-12);
    describe("gate = 0 log 3, whose sigmoids are 1/2 3/4, up = 5 2, dy = 1 1");
    call("backward", LIST(INTS(2), DOUBLES(0, log_3), DOUBLES(5, 2), DOUBLES(1, 1), INOUT(dgate, 2), INOUT(dup, 2)));
    expect("dup", dup, (double[]){0, 0.75 * log_3}, 2, 0, 1e-12);
    expect("dgate", dgate, (double[]){2.5, 1.5 + 0.375 * log_3}, 2, 0, 1e-12);

    check("large");
    describe("gate = -1000 1000, up = 2 2");
    call("forward", LIST(INTS(2), DOUBLES(-1000, 1000), DOUBLES(2, 2), OUT(y, 2)));
    expect("y", y, (double[]){0, 2000}, 2, 0, 1e-12);
    dgate[0] = dgate[1] = dup[0] = dup[1] = 0;
    describe("gate = -1000 1000, up = 2 2, dy = 1 1");
    call("backward", LIST(INTS(2), DOUBLES(-1000, 1000), DOUBLES(2, 2), DOUBLES(1, 1), INOUT(dgate, 2), INOUT(dup, 2)));
    expect("dup", dup, (double[]){0, 1000}, 2, 0, 1e-12);
    expect("dgate", dgate, (double[]){0, 2}, 2, 0, 1e-12);

    check("dy");
    describe("gate = log 3, whose sigmoid is 3/4, up = 2, dy = 10");
    dgate[0] = dup[0] = 0;
    call("backward", LIST(INTS(1), DOUBLES(log_3), DOUBLES(2), DOUBLES(10), INOUT(dgate, 1), INOUT(dup, 1)));
    expect("dup", dup, (double[]){7.5 * log_3}, 1, 0, 1e-12);
    expect("dgate", dgate, (double[]){15 + 3.75 * log_3}, 1, 0, 1e-12);

    check("adds");
    describe("gate = 0, up = 1, dy = 1; dgate is 10 and dup is 20 before");
    dgate[0] = 10, dup[0] = 20;
    call("backward", LIST(INTS(1), DOUBLES(0), DOUBLES(1), DOUBLES(1), INOUT(dgate, 1), INOUT(dup, 1)));
    expect("dup", dup, (double[]){20}, 1, 0, 1e-12);
    expect("dgate", dgate, (double[]){10.5}, 1, 0, 1e-12);

    check("gradient");
    double gate[12], up[12], dy[12];
    draw(gate, 12), draw(up, 12), draw(dy, 12);
    describe("12 values, random");
    check_gradient((course_gradient){
        "forward", "backward", LIST(INTS(12)), {{"gate", gate, 12, 0}, {"up", up, 12, 0}}, 2, {"y", NULL, 12, 0}});

    check("library");
    tg_tensor *tgate = leaf(gate, TG_SHAPE(12)), *tup = leaf(up, TG_SHAPE(12));
    tg_tensor *expected = tg_mul(tape(), tg_silu(tape(), tgate), tup);
    library_backward(expected, dy);
    describe("12 values, random");
    call("forward", LIST(INTS(12), IN(gate, 12), IN(up, 12), OUT(y, 12)));
    expect_tensor("y", y, expected);
    memset(dgate, 0, sizeof dgate), memset(dup, 0, sizeof dup);
    call("backward", LIST(INTS(12), IN(gate, 12), IN(up, 12), IN(dy, 12), INOUT(dgate, 12), INOUT(dup, 12)));
    expect_tensor("dgate", dgate, gradient_of(tgate));
    expect_tensor("dup", dup, gradient_of(tup));
}
#endif
