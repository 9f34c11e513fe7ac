#ifdef COURSE_WORKER
#include "../worker.h"

void adam_step(int count, int t, double lr, double beta1, double beta2, double eps, const double *g, double *m,
               double *v, double *w);

/* count, t; lr, beta1, beta2, eps; g, m, v, w */
static void run(void **a)
{
    const int *n = a[0];
    const double *numbers = a[1];
    adam_step(n[0], n[1], numbers[0], numbers[1], numbers[2], numbers[3], a[2], a[3], a[4], a[5]);
}

const course_call course_calls[] = {{"step", run}, {NULL, NULL}};
#else
#include "../check.h"

void course_checks(void)
{
    double m[6] = {0}, v[6] = {0}, w[6] = {0};
    check("values");
    describe("the second step of a weight: m = 0.1, v = 0.001, gradient = 2");
    m[0] = 0.1, v[0] = 0.001, w[0] = 1;
    call("step", LIST(INTS(1, 2), DOUBLES(0.1, 0.9, 0.999, 1e-8), DOUBLES(2), INOUT(m, 1), INOUT(v, 1), INOUT(w, 1)));
    expect("m", m, (double[]){0.29}, 1, 0, 1e-12);
    expect("v", v, (double[]){0.004999}, 1, 0, 1e-12);
    expect("w", w, (double[]){0.90348180}, 1, 0, 1e-6);

    check("first_step");
    describe("the first step: gradients 0.001 and -1000, lr 0.1");
    m[0] = v[0] = w[0] = 0;
    call("step", LIST(INTS(2, 1), DOUBLES(0.1, 0.9, 0.999, 1e-8), DOUBLES(0.001, -1000), INOUT(m, 2), INOUT(v, 2),
                      INOUT(w, 2)));
    expect("w", w, (double[]){-0.1, 0.1}, 2, 0, 1e-5);

    check("eps");
    describe("the first step: gradients 1 and -3, lr 0.1, eps 1");
    m[0] = m[1] = v[0] = v[1] = w[0] = w[1] = 0;
    call("step", LIST(INTS(2, 1), DOUBLES(0.1, 0.9, 0.999, 1), DOUBLES(1, -3), INOUT(m, 2), INOUT(v, 2), INOUT(w, 2)));
    expect("w", w, (double[]){-0.05, 0.075}, 2, 0, 1e-12);

    check("library");
    tg_params *params = tg_params_new(NULL, TG_F64);
    tg_tensor *x = tg_params_add(params, "x", TG_SHAPE(6));
    tg_adam_config config = tg_adam_config_default();
    config.lr = 0.02;
    tg_optim *adam = tg_adam_new(params, &config);
    memset(m, 0, sizeof m), memset(v, 0, sizeof v), memset(w, 0, sizeof w);
    for (int step = 1; step <= 5; step++) {
        double g[6];
        draw(g, 6);
        tg_optim_zero_grad(adam);
        library_backward(tg_mul_scalar(tape(), x, 1), g);
        tg_optim_step(adam);
        call("step",
             LIST(INTS(6, step), DOUBLES(0.02, 0.9, 0.999, 1e-8), IN(g, 6), INOUT(m, 6), INOUT(v, 6), INOUT(w, 6)));
        describe("step %d with random gradients, lr 0.02", step);
        expect_tensor("w", w, x);
    }
}
#endif
