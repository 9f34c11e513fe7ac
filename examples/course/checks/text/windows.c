#ifdef COURSE_WORKER
#include "../worker.h"

int windows(int count, const int *text, int context, int stride, int *inputs, int *targets);

/* count, context, stride; text -> inputs, targets, made */
static void run(void **a)
{
    const int *n = a[0];
    int *made = a[4];
    *made = windows(n[0], a[1], n[1], n[2], a[2], a[3]);
}

const course_call course_calls[] = {{"windows", run}, {NULL, NULL}};
#else
#include "../check.h"

static void expect_windows(int count, const int *text, int context, int stride)
{
    int inputs[256], targets[256], expected[256], made;
    int number = count > context ? (count - context - 1) / stride + 1 : 0;
    call("windows", LIST(INTS(count, context, stride), IN(text, count), OUT(inputs, number * context),
                         OUT(targets, number * context), OUT(&made, 1)));
    expect_int("the number of windows", made, number);
    for (int shift = 0; shift < 2; shift++) {
        for (int i = 0; i < number * context; i++) {
            expected[i] = text[i / context * stride + i % context + shift];
        }
        expect_ints(shift == 0 ? "inputs" : "targets", shift == 0 ? inputs : targets, expected, number * context);
    }
}

void course_checks(void)
{
    /* the first tokens of the book's story, and its windows of four */
    const int text[] = {40, 367, 2885, 1464, 1807, 3619, 402, 271, 10899, 2138};
    int inputs[8], targets[8], made;
    check("values");
    describe("40 367 2885 1464 1807 3619 402 271 10899 2138, context 4, stride 4");
    call("windows", LIST(INTS(10, 4, 4), IN(text, 10), OUT(inputs, 8), OUT(targets, 8), OUT(&made, 1)));
    expect_int("the number of windows", made, 2);
    expect_ints("inputs", inputs, (int[]){40, 367, 2885, 1464, 1807, 3619, 402, 271}, 8);
    expect_ints("targets", targets, (int[]){367, 2885, 1464, 1807, 3619, 402, 271, 10899}, 8);

    check("stride");
    describe("40 367 2885 1464 1807 3619 402 271 10899 2138, context 4, stride 1");
    expect_windows(10, text, 4, 1);
    describe("40 367 2885 1464 1807 3619 402 271 10899 2138, context 2, stride 3");
    expect_windows(10, text, 2, 3);

    check("last");
    describe("5 tokens, context 4: one window");
    expect_windows(5, text, 4, 4);
    describe("4 tokens, context 4: no target for the last token");
    expect_windows(4, text, 4, 1);
    describe("9 tokens, context 4, stride 4: two windows");
    expect_windows(9, text, 4, 4);

    check("random");
    for (int i = 0; i < 10; i++) {
        int ids[30], count = draw_int(1, 31), context = draw_int(1, 7), stride = draw_int(1, 7);
        draw_ids(ids, count, 100);
        describe("%d tokens, context %d, stride %d", count, context, stride);
        expect_windows(count, ids, context, stride);
    }
}
#endif
