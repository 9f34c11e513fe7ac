#ifdef COURSE_WORKER
#include "../worker.h"

void sgd_step(int count, double lr, double momentum, const double *gradient, double *buffer, double *w);

static void run(void **a)
{
    const int *n = a[0];
    const double *numbers = a[1];
    sgd_step(n[0], numbers[0], numbers[1], a[2], a[3], a[4]);
}

const course_call course_calls[] = {{"step", run}, {NULL, NULL}};
#else
#include "../check.h"

void course_checks(void)
{
    double buffer[6] = {0}, w[6] = {1, 2};
    check("values");
    describe("w = 1 2, gradient = 10 -10, lr 0.1, no momentum");
    call("step", LIST(INTS(2), DOUBLES(0.1, 0), DOUBLES(10, -10), INOUT(buffer, 2), INOUT(w, 2)));
    expect("w", w, (double[]){0, 3}, 2, 0, 1e-12);

    check("momentum");
    describe("two steps from w = 0, gradient = 1, lr 0.5, momentum 0.9");
    buffer[0] = w[0] = 0;
    for (int step = 0; step < 2; step++) {
        call("step", LIST(INTS(1), DOUBLES(0.5, 0.9), DOUBLES(1), INOUT(buffer, 1), INOUT(w, 1)));
    }
    expect("buffer", buffer, (double[]){1.9}, 1, 0, 1e-12);
    expect("w", w, (double[]){-1.45}, 1, 0, 1e-12);

    check("library");
    tg_params *params = tg_params_new(NULL, TG_F64);
    tg_tensor *x = tg_params_add(params, "x", TG_SHAPE(6));
    tg_sgd_config config = tg_sgd_config_default();
    config.lr = 0.03;
    config.momentum = 0.8;
    tg_optim *sgd = tg_sgd_new(params, &config);
    memset(buffer, 0, sizeof buffer);
    memset(w, 0, sizeof w);
    for (int step = 0; step < 5; step++) {
        double gradient[6];
        draw(gradient, 6);
        tg_optim_zero_grad(sgd);
        library_backward(tg_mul_scalar(tape(), x, 1), gradient);
        tg_optim_step(sgd);
        call("step", LIST(INTS(6), DOUBLES(0.03, 0.8), IN(gradient, 6), INOUT(buffer, 6), INOUT(w, 6)));
        describe("step %d with random gradients, lr 0.03, momentum 0.8", step + 1);
        expect_tensor("w", w, x);
    }
}
#endif
