#ifdef COURSE_WORKER
#include "../worker.h"

void alibi(int heads, int time, double *bias);

static void run(void **a)
{
    const int *n = a[0];
    alibi(n[0], n[1], a[1]);
}

const course_call course_calls[] = {{"alibi", run}, {NULL, NULL}};
#else
#include "../check.h"

void course_checks(void)
{
    double bias[128];
    check("values");
    describe("1 head, 3 positions: the slope is 1/256");
    call("alibi", LIST(INTS(1, 3), OUT(bias, 9)));
    expect("bias", bias, (double[]){0, 0, 0, -1 / 256.0, 0, 0, -2 / 256.0, -1 / 256.0, 0}, 3, 3, 1e-12);

    check("heads");
    describe("8 heads, 2 positions: the slopes are 1/2, 1/4, ..., 1/256");
    call("alibi", LIST(INTS(8, 2), OUT(bias, 32)));
    double expected[128] = {0};
    for (int h = 0; h < 8; h++) {
        expected[h * 4 + 2] = -ldexp(1, -(h + 1));
    }
    expect("bias", bias, expected, 16, 2, 1e-12);

    check("other_heads");
    describe("3 heads, 6 positions");
    call("alibi", LIST(INTS(3, 6), OUT(bias, 108)));
    for (int i = 0; i < 108; i++) {
        int distance = i / 6 % 6 - i % 6;
        expected[i] = distance > 0 ? -distance * exp(-log(2) * 8 * (i / 36 + 1) / 3) : 0;
    }
    expect("bias", bias, expected, 18, 6, 1e-9);
}
#endif
