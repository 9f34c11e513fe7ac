#ifdef COURSE_WORKER
#include "../worker.h"

void lora_merge(int in, int out, int rank, double alpha, double sign, const double *a, const double *b, double *w);

/* in, out, rank; alpha, sign; a, b, w */
static void run(void **v)
{
    const int *n = v[0];
    const double *numbers = v[1];
    lora_merge(n[0], n[1], n[2], numbers[0], numbers[1], v[2], v[3], v[4]);
}

const course_call course_calls[] = {{"merge", run}, {NULL, NULL}};
#else
#include "../check.h"

void course_checks(void)
{
    double w[12] = {1, 0, 0, 1};
    check("values");
    describe("w = 1 0, 0 1, a = 1 2, b = 10, 100, rank 1, alpha 1");
    call("merge", LIST(INTS(2, 2, 1), DOUBLES(1, 1), DOUBLES(1, 2), DOUBLES(10, 100), INOUT(w, 4)));
    expect("w", w, (double[]){11, 20, 100, 201}, 2, 2, 1e-12);

    check("scale");
    double one[] = {100};
    describe("rank 2, alpha 6, in 1, out 1: the scale is 3");
    call("merge", LIST(INTS(1, 1, 2), DOUBLES(6, 1), DOUBLES(1, 2), DOUBLES(10, 20), INOUT(one, 1)));
    expect("w", one, (double[]){250}, 1, 1, 1e-12);

    check("library");
    double a[8], b[6], x[20], y[15];
    draw(w, 12), draw(a, 8), draw(b, 6), draw(x, 20);
    tg_tensor *tx = constant(x, TG_SHAPE(5, 4));
    tg_tensor *path =
        tg_linear(tape(), tg_linear(tape(), tx, constant(a, TG_SHAPE(2, 4)), NULL), constant(b, TG_SHAPE(3, 2)), NULL);
    tg_tensor *apart =
        tg_add(tape(), tg_linear(tape(), tx, constant(w, TG_SHAPE(3, 4)), NULL), tg_mul_scalar(tape(), path, 2.5));
    double before[12];
    memcpy(before, w, sizeof w);
    describe("in 4, out 3, rank 2, alpha 5: the merged layer on 5 random inputs");
    call("merge", LIST(INTS(4, 3, 2), DOUBLES(5, 1), IN(a, 8), IN(b, 6), INOUT(w, 12)));
    tg_tensor *merged = tg_linear(tape(), tx, constant(w, TG_SHAPE(3, 4)), NULL);
    for (int i = 0; i < 15; i++) {
        y[i] = tg_tensor_value_at(merged, i);
    }
    expect_tensor("y", y, apart);

    check("undo");
    describe("merged, and then with sign -1");
    call("merge", LIST(INTS(4, 3, 2), DOUBLES(5, -1), IN(a, 8), IN(b, 6), INOUT(w, 12)));
    expect("w", w, before, 3, 4, 1e-9);
}
#endif
