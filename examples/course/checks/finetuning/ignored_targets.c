#ifdef COURSE_WORKER
#include "../worker.h"

int collate(int batch, const int *lengths, const int *ids, int padding, int *inputs, int *targets);

/* batch, padding; lengths, ids -> inputs, targets, width */
static void run(void **a)
{
    const int *n = a[0];
    int *width = a[5];
    *width = collate(n[0], a[1], a[2], n[1], a[3], a[4]);
}

const course_call course_calls[] = {{"collate", run}, {NULL, NULL}};
#else
#include "../check.h"

void course_checks(void)
{
    int inputs[64], targets[64], width;
    check("values");
    describe("one text, 5 6 7, padding 0");
    call("collate", LIST(INTS(1, 0), INTS(3), INTS(5, 6, 7), OUT(inputs, 3), OUT(targets, 3), OUT(&width, 1)));
    expect_ints("inputs", inputs, (int[]){5, 6, 7}, 3);
    expect_ints("targets", targets, (int[]){6, 7, 0}, 3);

    check("lengths");
    /* the three texts of the book's example, and its targets */
    describe("texts 0 1 2 3 4, 5 6, 7 8 9, padding 50256");
    call("collate", LIST(INTS(3, 50256), INTS(5, 2, 3), INTS(0, 1, 2, 3, 4, 5, 6, 7, 8, 9), OUT(inputs, 15),
                         OUT(targets, 15), OUT(&width, 1)));
    expect_int("the width", width, 5);
    expect_ints("inputs", inputs, (int[]){0, 1, 2, 3, 4, 5, 6, 50256, 50256, 50256, 7, 8, 9, 50256, 50256}, 15);
    expect_ints("targets", targets, (int[]){1, 2, 3, 4, 50256, 6, 50256, -100, -100, -100, 8, 9, 50256, -100, -100},
                15);

    check("padding_in_text");
    describe("texts 1 2 3, 4 0 (the padding id is a token of the text, too), padding 0");
    call("collate", LIST(INTS(2, 0), INTS(3, 2), INTS(1, 2, 3, 4, 0), OUT(inputs, 6), OUT(targets, 6), OUT(&width, 1)));
    expect_ints("inputs", inputs, (int[]){1, 2, 3, 4, 0, 0}, 6);
    expect_ints("targets", targets, (int[]){2, 3, 0, 0, 0, -100}, 6);

    check("random");
    for (int round = 0; round < 10; round++) {
        int lengths[4], ids[32], longest = 0, used = 0;
        for (int b = 0; b < 4; b++) {
            lengths[b] = draw_int(1, 8);
            longest = lengths[b] > longest ? lengths[b] : longest;
            used += lengths[b];
        }
        draw_ids(ids, used, 100);
        describe("texts of %d, %d, %d and %d ids", lengths[0], lengths[1], lengths[2], lengths[3]);
        call("collate", LIST(INTS(4, 99), IN(lengths, 4), IN(ids, used), OUT(inputs, 4 * longest),
                             OUT(targets, 4 * longest), OUT(&width, 1)));
        expect_int("the width", width, longest);
        for (int b = 0, begin = 0; b < 4; begin += lengths[b], b++) {
            int input[8], target[8];
            for (int i = 0; i < longest; i++) {
                input[i] = i >= lengths[b] ? 99 : ids[begin + i];
                target[i] = i >= lengths[b] ? -100 : i == lengths[b] - 1 ? 99 : ids[begin + i + 1];
            }
            expect_ints("inputs of a text", inputs + b * longest, input, longest);
            expect_ints("targets of a text", targets + b * longest, target, longest);
        }
    }
}
#endif
