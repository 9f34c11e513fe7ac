#ifdef COURSE_WORKER
#include "../worker.h"

void causal_weights(int time, const double *scores, double *weights);

static void run(void **a)
{
    const int *n = a[0];
    causal_weights(n[0], a[1], a[2]);
}

const course_call course_calls[] = {{"weights", run}, {NULL, NULL}};
#else
#include "../check.h"

void course_checks(void)
{
    double y[64];
    check("values");
    describe("2 words, all scores 0");
    call("weights", LIST(INTS(2), DOUBLES(0, 0, 0, 0), OUT(y, 4)));
    expect("weights", y, (double[]){1, 0, 0.5, 0.5}, 2, 2, 1e-12);

    check("sum");
    describe("3 words, each with the scores 0, log 2, log 5");
    call("weights", LIST(INTS(3), DOUBLES(0, log(2), log(5), 0, log(2), log(5), 0, log(2), log(5)), OUT(y, 9)));
    expect("weights", y, (double[]){1, 0, 0, 1. / 3, 2. / 3, 0, 1. / 8, 2. / 8, 5. / 8}, 3, 3, 1e-12);

    check("future");
    describe("2 words; the score of the future is 1000, and that of the past -1000");
    call("weights", LIST(INTS(2), DOUBLES(-1000, 1000, -1000, -1000), OUT(y, 4)));
    expect("weights", y, (double[]){1, 0, 0.5, 0.5}, 2, 2, 1e-12);

    check("library");
    double scores[36];
    draw(scores, 36);
    describe("6 words, random scores");
    call("weights", LIST(INTS(6), IN(scores, 36), OUT(y, 36)));
    unsigned char later[36];
    for (int i = 0; i < 36; i++) {
        later[i] = i % 6 > i / 6;
    }
    tg_tensor *mask = tg_tensor_new_from(TG_U8, TG_SHAPE(6, 6), later, NULL);
    expect_tensor("weights", y,
                  tg_softmax(tape(), tg_masked_fill(tape(), constant(scores, TG_SHAPE(6, 6)), mask, -INFINITY), -1));
}
#endif
