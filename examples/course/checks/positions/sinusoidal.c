#ifdef COURSE_WORKER
#include "../worker.h"

void sinusoidal(int positions, int width, double *table);

static void run(void **a)
{
    const int *n = a[0];
    sinusoidal(n[0], n[1], a[1]);
}

const course_call course_calls[] = {{"sinusoidal", run}, {NULL, NULL}};
#else
#include "../check.h"

void course_checks(void)
{
    double table[96];
    check("values");
    describe("2 positions, width 2");
    call("sinusoidal", LIST(INTS(2, 2), OUT(table, 4)));
    expect("table", table, (double[]){0, 1, 0.841471, 0.540302}, 2, 2, 1e-6);

    check("speeds");
    describe("3 positions, width 4: the second pair turns by 1/100");
    call("sinusoidal", LIST(INTS(3, 4), OUT(table, 12)));
    expect("table", table,
           (double[]){0, 1, 0, 1, sin(1), cos(1), sin(0.01), cos(0.01), sin(2), cos(2), sin(0.02), cos(0.02)}, 3, 4,
           1e-12);

    check("library");
    describe("12 positions, width 8");
    call("sinusoidal", LIST(INTS(12, 8), OUT(table, 96)));
    double angles[48], expected[96];
    for (int i = 0; i < 48; i++) {
        angles[i] = i / 4 * exp(-log(10000) * (i % 4) / 4);
    }
    tg_tensor *sines = tg_sin(tape(), constant(angles, TG_SHAPE(48)));
    tg_tensor *cosines = tg_cos(tape(), constant(angles, TG_SHAPE(48)));
    for (int i = 0; i < 96; i++) {
        expected[i] = tg_tensor_value_at(i % 2 == 0 ? sines : cosines, i / 2);
    }
    expect("table", table, expected, 12, 8, 1e-9);
}
#endif
