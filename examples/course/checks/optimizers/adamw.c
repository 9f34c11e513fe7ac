#ifdef COURSE_WORKER
#include "../worker.h"

void adamw_step(int count, int t, double lr, double decay, const double *g, double *m, double *v, double *w);

/* count, t; lr, decay; g, m, v, w */
static void run(void **a)
{
    const int *n = a[0];
    const double *numbers = a[1];
    adamw_step(n[0], n[1], numbers[0], numbers[1], a[2], a[3], a[4], a[5]);
}

const course_call course_calls[] = {{"step", run}, {NULL, NULL}};
#else
#include "../check.h"

void course_checks(void)
{
    double m[6] = {0}, v[6] = {0}, w[6] = {1};
    check("values");
    describe("w = 1, gradient = 0, lr 0.1, decay 0.5");
    call("step", LIST(INTS(1, 1), DOUBLES(0.1, 0.5), DOUBLES(0), INOUT(m, 1), INOUT(v, 1), INOUT(w, 1)));
    expect("w", w, (double[]){0.95}, 1, 0, 1e-12);

    check("apart");
    describe("w = 1, gradient = 1000, lr 0.1, decay 0.5: 0.95 - 0.1");
    w[0] = 1, m[0] = v[0] = 0;
    call("step", LIST(INTS(1, 1), DOUBLES(0.1, 0.5), DOUBLES(1000), INOUT(m, 1), INOUT(v, 1), INOUT(w, 1)));
    expect("w", w, (double[]){0.85}, 1, 0, 1e-6);
    expect("m", m, (double[]){100}, 1, 0, 1e-12);

    check("library");
    tg_params *params = tg_params_new(NULL, TG_F64);
    tg_tensor *x = tg_params_add(params, "x", TG_SHAPE(6));
    draw(w, 6);
    tg_tensor_fill_from(x, w, NULL);
    tg_adamw_config config = tg_adamw_config_default();
    config.lr = 0.02;
    config.weight_decay = 0.3;
    tg_optim *adamw = tg_adamw_new(params, &config);
    memset(m, 0, sizeof m), memset(v, 0, sizeof v);
    for (int step = 1; step <= 5; step++) {
        double g[6];
        draw(g, 6);
        tg_optim_zero_grad(adamw);
        library_backward(tg_mul_scalar(tape(), x, 1), g);
        tg_optim_step(adamw);
        call("step", LIST(INTS(6, step), DOUBLES(0.02, 0.3), IN(g, 6), INOUT(m, 6), INOUT(v, 6), INOUT(w, 6)));
        describe("step %d with random gradients, lr 0.02, decay 0.3", step);
        expect_tensor("w", w, x);
    }
}
#endif
