#ifdef COURSE_WORKER
#include "../worker.h"

void softmax(int rows, int columns, const double *x, double *y);

static void run(void **a)
{
    const int *n = a[0];
    softmax(n[0], n[1], a[1], a[2]);
}

const course_call course_calls[] = {{"softmax", run}, {NULL, NULL}};
#else
#include "../check.h"

void course_checks(void)
{
    double y[64];
    check("values");
    /* the attention scores of the book's second word, and its weights */
    describe("x = 0.9544 1.4950 1.4754 0.8434 0.7070 1.0865");
    call("softmax", LIST(INTS(1, 6), DOUBLES(0.9544, 1.4950, 1.4754, 0.8434, 0.7070, 1.0865), OUT(y, 6)));
    expect("y", y, (double[]){0.1385, 0.2379, 0.2333, 0.1240, 0.1082, 0.1581}, 1, 6, 1e-4);

    check("rows");
    describe("two rows, 0 0 and 0 log 3");
    call("softmax", LIST(INTS(2, 2), DOUBLES(0, 0, 0, log(3)), OUT(y, 4)));
    expect("y", y, (double[]){0.5, 0.5, 0.25, 0.75}, 2, 2, 1e-12);

    check("large");
    describe("x = 1000 1000 -1000");
    call("softmax", LIST(INTS(1, 3), DOUBLES(1000, 1000, -1000), OUT(y, 3)));
    expect("y", y, (double[]){0.5, 0.5, 0}, 1, 3, 1e-12);

    check("negative");
    describe("x = -1000 -1000 -inf");
    call("softmax", LIST(INTS(1, 3), DOUBLES(-1000, -1000, -INFINITY), OUT(y, 3)));
    expect("y", y, (double[]){0.5, 0.5, 0}, 1, 3, 1e-12);

    check("library");
    double x[60];
    draw(x, 60);
    describe("10 random rows of 6");
    call("softmax", LIST(INTS(10, 6), IN(x, 60), OUT(y, 60)));
    expect_tensor("y", y, tg_softmax(tape(), constant(x, TG_SHAPE(10, 6)), -1));
}
#endif
