#ifdef COURSE_WORKER
#include "../worker.h"

void tape_backward(int count, const char *steps, const int *left, const int *right, const double *values,
                   double *gradients);

static void run(void **a)
{
    const int *n = a[0];
    tape_backward(n[0], a[1], a[2], a[3], a[4], a[5]);
}

const course_call course_calls[] = {{"backward", run}, {NULL, NULL}};
#else
#include "../check.h"

#define STEPS 24

static void backward(int count, const char *steps, const int *left, const int *right, const double *values, double *dx)
{
    memset(dx, 0, (size_t)count * sizeof *dx);
    call("backward",
         LIST(INTS(count), IN(steps, count), IN(left, count), IN(right, count), IN(values, count), INOUT(dx, count)));
}

void course_checks(void)
{
    double dx[STEPS];
    check("values");
    describe("a = 2, b = -3, c = 10; y = a * b + c");
    backward(5, "xxx*+", (int[]){0, 0, 0, 0, 3}, (int[]){0, 0, 0, 1, 2}, (double[]){2, -3, 10, -6, 4}, dx);
    expect("gradients of a, b, c, a * b, y:", dx, (double[]){-3, 2, 1, 1, 1}, 5, 0, 1e-12);

    check("twice");
    describe("a = 3; y = a * a");
    backward(2, "x*", (int[]){0, 0}, (int[]){0, 0}, (double[]){3, 9}, dx);
    expect("gradients of a, y:", dx, (double[]){6, 1}, 2, 0, 1e-12);
    describe("a = 2, b = 5; y = (a * b) * a");
    backward(4, "xx**", (int[]){0, 0, 0, 2}, (int[]){0, 0, 1, 0}, (double[]){2, 5, 10, 20}, dx);
    expect("gradients of a, b, a * b, y:", dx, (double[]){20, 4, 2, 1}, 4, 0, 1e-12);

    check("library");
    for (int round = 0; round < 5; round++) {
        char steps[STEPS];
        int left[STEPS] = {0}, right[STEPS] = {0};
        double values[STEPS];
        tg_tensor *nodes[STEPS];
        for (int i = 0; i < STEPS; i++) {
            steps[i] = i < 4 ? 'x' : draw_int(0, 2) ? '+' : '*';
            if (i < 4) {
                draw(&values[i], 1);
                nodes[i] = leaf(&values[i], TG_SCALAR);
                continue;
            }
            left[i] = draw_int(0, i);
            right[i] = draw_int(i > 8 ? i - 4 : 0, i);
            values[i] = steps[i] == '+' ? values[left[i]] + values[right[i]] : values[left[i]] * values[right[i]];
            nodes[i] = steps[i] == '+' ? tg_add(tape(), nodes[left[i]], nodes[right[i]])
                                       : tg_mul(tape(), nodes[left[i]], nodes[right[i]]);
        }
        describe("a random tape of %d steps", STEPS);
        backward(STEPS, steps, left, right, values, dx);
        library_backward(nodes[STEPS - 1], (double[]){1});
        for (int i = 0; i < 4; i++) {
            tg_tensor *expected = gradient_of(nodes[i]);
            expect_number("a gradient", dx[i], expected ? tg_tensor_value_at(expected, 0) : 0, 1e-9);
        }
    }
}
#endif
