#ifdef COURSE_WORKER
#include "../worker.h"

int sample(int count, const double *logits, double temperature, int k, double u);

/* count, k; temperature, u; logits -> id */
static void run(void **a)
{
    const int *n = a[0];
    const double *numbers = a[1];
    int *id = a[3];
    *id = sample(n[0], a[2], numbers[0], n[1], numbers[1]);
}

const course_call course_calls[] = {{"sample", run}, {NULL, NULL}};
#else
#include "../check.h"

static void expect_sample(int count, const double *logits, double temperature, int k, double u, int expected)
{
    int id;
    describe("temperature %g, k %d, u %g", temperature, k, u);
    call("sample", LIST(INTS(count, k), DOUBLES(temperature, u), IN(logits, count), OUT(&id, 1)));
    expect_int("the id", id, expected);
}

void course_checks(void)
{
    /* probabilities 0.1 0.2 0.3 0.4 */
    const double logits[] = {log(1), log(2), log(3), log(4)};
    check("values");
    expect_sample(4, logits, 1, 4, 0.05, 0);
    expect_sample(4, logits, 1, 4, 0.29, 1);
    expect_sample(4, logits, 1, 4, 0.31, 2);
    expect_sample(4, logits, 1, 4, 0.99, 3);

    check("temperature");
    /* squares: 1 4 9 16 of 30 */
    expect_sample(4, logits, 0.5, 4, 0.16, 1);
    expect_sample(4, logits, 0.5, 4, 0.46, 2);
    expect_sample(4, logits, 0.5, 4, 0.47, 3);
    expect_sample(4, logits, 0, 4, 0.01, 3);

    check("top_k");
    expect_sample(4, logits, 1, 2, 0.01, 2);
    expect_sample(4, logits, 1, 2, 0.42, 2);
    expect_sample(4, logits, 1, 2, 0.44, 3);
    expect_sample(4, logits, 1, 1, 0.001, 3);

    check("ties");
    expect_sample(4, (double[]){5, 7, 7, 5}, 1, 1, 0.6, 2);
    expect_sample(4, (double[]){5, 7, 7, 5}, 0, 4, 0.6, 1);

    check("large");
    expect_sample(3, (double[]){1000, 1000, 0}, 1, 3, 0.7, 1);

    check("library");
    double random[12];
    for (int round = 0; round < 10; round++) {
        double u = tg_rng_uniform(tg_rng_new(course_seed + (uint64_t)round), 0, 1, NULL), so_far = 0;
        draw(random, 12);
        tg_tensor *p = tg_softmax(tape(), tg_mul_scalar(tape(), constant(random, TG_SHAPE(12)), 1 / 0.7), -1);
        int expected = 0;
        while (expected < 11 && so_far + tg_tensor_value_at(p, expected) <= u) {
            so_far += tg_tensor_value_at(p, expected++);
        }
        expect_sample(12, random, 0.7, 12, u, expected);
    }
}
#endif
