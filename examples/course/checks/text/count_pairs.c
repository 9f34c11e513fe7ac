#ifdef COURSE_WORKER
#include "../worker.h"

int most_frequent_pair(int count, const int *ids, int *left, int *right);

/* count, ids -> left, right, uses */
static void run(void **a)
{
    const int *n = a[0];
    int *result = a[2];
    result[2] = most_frequent_pair(n[0], a[1], &result[0], &result[1]);
}

const course_call course_calls[] = {{"pair", run}, {NULL, NULL}};
#else
#include "../check.h"

static void expect_pair(int count, const int *ids, int left, int right, int uses)
{
    int got[3];
    call("pair", LIST(INTS(count), IN(ids, count), OUT(got, 3)));
    expect_int("how often the pair occurs", got[2], uses);
    expect_int("the left id", got[0], left);
    expect_int("the right id", got[1], right);
}

void course_checks(void)
{
    check("values");
    describe("ids 5 6 7 5 6 8 5 6");
    expect_pair(8, (int[]){5, 6, 7, 5, 6, 8, 5, 6}, 5, 6, 3);
    describe("ids 1 2 3 4 3 4: the last pair");
    expect_pair(6, (int[]){1, 2, 3, 4, 3, 4}, 3, 4, 2);

    check("ties");
    describe("ids 9 2 9 1 9 2 9 1: (9,2), (2,9) and (9,1) occur twice each");
    expect_pair(8, (int[]){9, 2, 9, 1, 9, 2, 9, 1}, 2, 9, 2);
    describe("ids 3 9 3 8: each pair occurs once");
    expect_pair(4, (int[]){3, 9, 3, 8}, 3, 8, 1);

    check("overlap");
    describe("ids 1 1 1");
    expect_pair(3, (int[]){1, 1, 1}, 1, 1, 2);
    describe("one id");
    expect_pair(1, (int[]){4}, -1, -1, 0);

    check("random");
    for (int round = 0; round < 20; round++) {
        int ids[30], table[5][5] = {{0}}, count = draw_int(2, 31), left = 0, right = 0;
        draw_ids(ids, count, 5);
        for (int i = 0; i + 1 < count; i++) {
            table[ids[i]][ids[i + 1]]++;
        }
        for (int i = 0; i < 25; i++) {
            if (table[i / 5][i % 5] > table[left][right]) {
                left = i / 5;
                right = i % 5;
            }
        }
        describe("%d random ids below 5", count);
        expect_pair(count, ids, left, right, table[left][right]);
    }
}
#endif
