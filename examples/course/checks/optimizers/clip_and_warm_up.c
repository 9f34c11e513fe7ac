#ifdef COURSE_WORKER
#include "../worker.h"

double clip(int count, double max_norm, double *gradient);
double rate(int step, int warm_up, int steps, double peak);

static void run_clip(void **a)
{
    const int *n = a[0];
    const double *max_norm = a[1];
    double *norm = a[3];
    *norm = clip(n[0], *max_norm, a[2]);
}

static void run_rate(void **a)
{
    const int *n = a[0];
    const double *peak = a[1];
    double *y = a[2];
    *y = rate(n[0], n[1], n[2], *peak);
}

const course_call course_calls[] = {{"clip", run_clip}, {"rate", run_rate}, {NULL, NULL}};
#else
#include "../check.h"

static double rate_of(int step, int warm_up, int steps)
{
    double y;
    describe("step %d of %d, warm-up of %d, peak 0.5", step, steps, warm_up);
    call("rate", LIST(INTS(step, warm_up, steps), DOUBLES(0.5), OUT(&y, 1)));
    return y;
}

void course_checks(void)
{
    double norm, gradient[8] = {30, 40};
    check("values");
    describe("gradient = 30 40, clipped to 5");
    call("clip", LIST(INTS(2), DOUBLES(5), INOUT(gradient, 2), OUT(&norm, 1)));
    expect_number("the norm before", norm, 50, 1e-12);
    expect("gradient", gradient, (double[]){3, 4}, 2, 0, 1e-12);

    check("small");
    describe("gradient = 3 4, clipped to 50: it stays");
    call("clip", LIST(INTS(2), DOUBLES(50), INOUT(gradient, 2), OUT(&norm, 1)));
    expect_number("the norm before", norm, 5, 1e-12);
    expect("gradient", gradient, (double[]){3, 4}, 2, 0, 1e-12);
    describe("gradient = 0 0");
    gradient[0] = gradient[1] = 0;
    call("clip", LIST(INTS(2), DOUBLES(1), INOUT(gradient, 2), OUT(&norm, 1)));
    expect("gradient", gradient, (double[]){0, 0}, 2, 0, 1e-12);

    check("warm_up");
    expect_number("the rate", rate_of(0, 10, 100), 0.05, 1e-12);
    expect_number("the rate", rate_of(9, 10, 100), 0.5, 1e-12);

    check("cosine");
    expect_number("the rate", rate_of(10, 10, 100), 0.5, 1e-12);
    expect_number("the rate", rate_of(55, 10, 100), 0.25, 1e-12);
    expect_number("the rate", rate_of(100, 10, 100), 0, 1e-12);
    expect_number("the rate", rate_of(0, 0, 40), 0.5, 1e-12);

    check("library");
    double expected[8];
    draw(gradient, 8);
    tg_params *params = tg_params_new(NULL, TG_F64);
    tg_tensor *x = tg_params_add(params, "x", TG_SHAPE(8));
    library_backward(tg_mul_scalar(tape(), x, 1), gradient);
    double before = tg_clip_grad_norm(params, 0.7);
    for (int i = 0; i < 8; i++) {
        expected[i] = tg_tensor_value_at(tg_tensor_grad(x), i);
    }
    describe("8 random numbers, clipped to 0.7");
    call("clip", LIST(INTS(8), DOUBLES(0.7), INOUT(gradient, 8), OUT(&norm, 1)));
    expect_number("the norm before", norm, before, 1e-9);
    /* the library's divisor is the norm plus 1e-6, as PyTorch's */
    expect("gradient", gradient, expected, 8, 0, 1e-5);
}
#endif
