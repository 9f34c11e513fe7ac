#ifdef COURSE_WORKER
#include "../worker.h"

int merge(int count, int *ids, int left, int right, int new_id);

/* count, left, right, new; ids -> kept */
static void run(void **a)
{
    const int *n = a[0];
    int *kept = a[2];
    *kept = merge(n[0], a[1], n[1], n[2], n[3]);
}

const course_call course_calls[] = {{"merge", run}, {NULL, NULL}};
#else
#include "../check.h"

static void expect_merged(const int *ids, int count, int left, int right, const int *expected, int expected_count)
{
    int changed[64], kept;
    memcpy(changed, ids, (size_t)count * sizeof *ids);
    call("merge", LIST(INTS(count, left, right, 99), INOUT(changed, count), OUT(&kept, 1)));
    expect_int("the number of ids", kept, expected_count);
    expect_ints("ids", changed, expected, expected_count);
}

void course_checks(void)
{
    check("values");
    describe("ids 5 6 7 5 6, merge (5,6)");
    expect_merged((int[]){5, 6, 7, 5, 6}, 5, 5, 6, (int[]){99, 7, 99}, 3);
    describe("ids 6 5 7, merge (5,6): it does not occur");
    expect_merged((int[]){6, 5, 7}, 3, 5, 6, (int[]){6, 5, 7}, 3);

    check("overlap");
    describe("ids 1 1 1, merge (1,1)");
    expect_merged((int[]){1, 1, 1}, 3, 1, 1, (int[]){99, 1}, 2);
    describe("ids 1 1 1 1, merge (1,1)");
    expect_merged((int[]){1, 1, 1, 1}, 4, 1, 1, (int[]){99, 99}, 2);

    check("edges");
    describe("ids 7 5, merge (5,6): the last id has no neighbor");
    expect_merged((int[]){7, 5}, 2, 5, 6, (int[]){7, 5}, 2);
    describe("ids 5 5 6, merge (5,6)");
    expect_merged((int[]){5, 5, 6}, 3, 5, 6, (int[]){5, 99}, 2);

    check("random");
    for (int round = 0; round < 20; round++) {
        int ids[30], expected[30], kept = 0, count = draw_int(1, 31);
        draw_ids(ids, count, 3);
        for (int i = 0; i < count;) {
            bool is_pair = i + 1 < count && ids[i] == 1 && ids[i + 1] == 1;
            expected[kept++] = is_pair ? 99 : ids[i];
            i += is_pair ? 2 : 1;
        }
        describe("%d random ids below 3, merge (1,1)", count);
        expect_merged(ids, count, 1, 1, expected, kept);
    }
}
#endif
