#ifdef COURSE_WORKER
#include "../worker.h"

double cross_entropy(int count, int classes, const double *logits, const int *targets);
void cross_entropy_backward(int count, int classes, const double *logits, const int *targets, double dloss,
                            double *dlogits);

/* sizes, targets, logits -> loss */
static void forward(void **a)
{
    const int *n = a[0];
    double *loss = a[3];
    *loss = cross_entropy(n[0], n[1], a[2], a[1]);
}

/* sizes, targets, logits, dloss, dlogits */
static void backward(void **a)
{
    const int *n = a[0];
    const double *dloss = a[3];
    cross_entropy_backward(n[0], n[1], a[2], a[1], *dloss, a[4]);
}

const course_call course_calls[] = {{"forward", forward}, {"backward", backward}, {NULL, NULL}};
#else
#include "../check.h"

static double loss_of(int count, int classes, const double *logits, const int *targets)
{
    double loss;
    call("forward", LIST(INTS(count, classes), IN(targets, count), IN(logits, count * classes), OUT(&loss, 1)));
    return loss;
}

void course_checks(void)
{
    const double zeros[8] = {0};
    check("values");
    describe("all logits 0, 8 classes");
    expect_number("the loss", loss_of(1, 8, zeros, (int[]){3}), log(8), 1e-12);
    describe("logits = 0 log 3, target 1");
    expect_number("the loss", loss_of(1, 2, (double[]){0, log(3)}, (int[]){1}), -log(0.75), 1e-12);
    double two[2] = {0};
    describe("backward of logits = 0 log 3, target 1, dloss 1");
    call("backward", LIST(INTS(1, 2), INTS(1), DOUBLES(0, log(3)), DOUBLES(1), INOUT(two, 2)));
    expect("dlogits", two, (double[]){0.25, -0.25}, 1, 2, 1e-12);

    check("mean");
    describe("two places, logits = 0 log 3, 0 0, targets 0 1");
    double logits[] = {0, log(3), 0, 0}, four[4] = {0};
    expect_number("the loss", loss_of(2, 2, logits, (int[]){0, 1}), (-log(0.25) - log(0.5)) / 2, 1e-12);
    call("backward", LIST(INTS(2, 2), INTS(0, 1), IN(logits, 4), DOUBLES(1), INOUT(four, 4)));
    expect("dlogits", four, (double[]){-0.375, 0.375, 0.25, -0.25}, 2, 2, 1e-12);

    check("adds");
    describe("backward of logits = 0 log 3, target 1, dloss 1; dlogits is 10 20 before");
    double before[] = {10, 20};
    call("backward", LIST(INTS(1, 2), INTS(1), DOUBLES(0, log(3)), DOUBLES(1), INOUT(before, 2)));
    expect("dlogits", before, (double[]){10.25, 19.75}, 1, 2, 1e-12);

    check("dloss");
    describe("backward of logits = 0 log 3, target 1, dloss 2");
    two[0] = two[1] = 0;
    call("backward", LIST(INTS(1, 2), INTS(1), DOUBLES(0, log(3)), DOUBLES(2), INOUT(two, 2)));
    expect("dlogits", two, (double[]){0.5, -0.5}, 1, 2, 1e-12);

    check("large");
    describe("logits = 1000 0, target 1");
    expect_number("the loss", loss_of(1, 2, (double[]){1000, 0}, (int[]){1}), 1000, 1e-9);

    check("gradient");
    double random[20];
    int targets[4];
    draw(random, 20);
    draw_ids(targets, 4, 5);
    describe("4 places, 5 classes, random");
    check_gradient((course_gradient){
        "forward", "backward", LIST(INTS(4, 5), IN(targets, 4)), {{"logits", random, 4, 5}}, 1, {"loss", NULL, 1, 0}});

    check("library");
    tg_tensor *leaf_logits = leaf(random, TG_SHAPE(4, 5));
    tg_tensor *loss = tg_cross_entropy(tape(), leaf_logits, ids_tensor(targets, TG_SHAPE(4)), NULL);
    double got = loss_of(4, 5, random, targets), dlogits[20] = {0};
    expect_tensor("the loss", &got, loss);
    library_backward(loss, (double[]){3});
    describe("4 places, 5 classes, random, dloss 3");
    call("backward", LIST(INTS(4, 5), IN(targets, 4), IN(random, 20), DOUBLES(3), INOUT(dlogits, 20)));
    expect_tensor("dlogits", dlogits, gradient_of(leaf_logits));
}
#endif
