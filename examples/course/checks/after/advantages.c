#ifdef COURSE_WORKER
#include "../worker.h"

void group_advantages(int groups, int size, double eps, const double *rewards, double *advantages);

/* groups, size; eps; rewards -> advantages */
static void run(void **a)
{
    const int *n = a[0];
    const double *eps = a[1];
    group_advantages(n[0], n[1], *eps, a[2], a[3]);
}

const course_call course_calls[] = {{"advantages", run}, {NULL, NULL}};
#else
#include "../check.h"

void course_checks(void)
{
    double got[24];
    check("values");
    describe("rewards = 1 0 0 0, eps 0: the mean is 1/4, the deviation 1/2");
    call("advantages", LIST(INTS(1, 4), DOUBLES(0), DOUBLES(1, 0, 0, 0), OUT(got, 4)));
    expect_number("the sum of the advantages", got[0] + got[1] + got[2] + got[3], 0, 1e-12);
    expect("advantages", got, (double[]){1.5, -0.5, -0.5, -0.5}, 4, 0, 1e-12);

    check("groups");
    describe("two groups, rewards = 1 0 0 0, 20 20 10 20, eps 0");
    call("advantages", LIST(INTS(2, 4), DOUBLES(0), DOUBLES(1, 0, 0, 0, 20, 20, 10, 20), OUT(got, 8)));
    expect("advantages", got, (double[]){1.5, -0.5, -0.5, -0.5, 0.5, 0.5, -1.5, 0.5}, 2, 4, 1e-12);

    check("spread");
    describe("rewards = 1 1, 0 0, eps 1e-4");
    call("advantages", LIST(INTS(2, 2), DOUBLES(1e-4), DOUBLES(1, 1, 0, 0), OUT(got, 4)));
    expect("advantages", got, (double[]){0, 0, 0, 0}, 2, 2, 1e-12);

    check("eps");
    describe("rewards = 1 0 0 0, eps 1/2");
    call("advantages", LIST(INTS(1, 4), DOUBLES(0.5), DOUBLES(1, 0, 0, 0), OUT(got, 4)));
    expect("advantages", got, (double[]){0.75, -0.25, -0.25, -0.25}, 4, 0, 1e-12);

    check("far");
    const double far = 1e9;
    describe("rewards = 1e9 + 1, and three times 1e9, eps 0");
    call("advantages", LIST(INTS(1, 4), DOUBLES(0), DOUBLES(far + 1, far, far, far), OUT(got, 4)));
    expect("advantages", got, (double[]){1.5, -0.5, -0.5, -0.5}, 4, 0, 1e-5);

    check("library");
    double rewards[24];
    draw(rewards, 24);
    tg_tape *t = tape();
    tg_tensor *x = constant(rewards, TG_SHAPE(4, 6));
    tg_tensor *deviation = tg_std(t, x, TG_AXES(1), 1, TG_KEEP_AXES);
    tg_tensor *difference = tg_sub(t, x, tg_mean(t, x, TG_AXES(1), TG_KEEP_AXES));
    describe("4 groups of 6, random, eps 1e-4");
    call("advantages", LIST(INTS(4, 6), DOUBLES(1e-4), IN(rewards, 24), OUT(got, 24)));
    expect_tensor("advantages", got, tg_div(t, difference, tg_add_scalar(t, deviation, 1e-4)));
}
#endif
