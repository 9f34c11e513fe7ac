#ifdef COURSE_WORKER
#include "../worker.h"

int encode(int count, int *ids, int merge_count, const int *merges, int first);

/* count, merge_count, first; ids, merges -> kept */
static void run(void **a)
{
    const int *n = a[0];
    int *kept = a[3];
    *kept = encode(n[0], a[1], n[1], a[2], n[2]);
}

const course_call course_calls[] = {{"encode", run}, {NULL, NULL}};
#else
#include "../check.h"

static void expect_encoded(const char *text, int merge_count, const int *merges, const int *expected, int count)
{
    int ids[64], kept, length = (int)strlen(text);
    for (int i = 0; i < length; i++) {
        ids[i] = text[i];
    }
    call("encode",
         LIST(INTS(length, merge_count, 256), INOUT(ids, length), IN(merges, 2 * merge_count), OUT(&kept, 1)));
    expect_int("the number of ids", kept, count);
    expect_ints("ids", ids, expected, count);
}

void course_checks(void)
{
    check("values");
    describe("\"abab\", merges: a b");
    expect_encoded("abab", 1, (int[]){'a', 'b'}, (int[]){256, 256}, 2);
    describe("\"xyz\", merges: a b");
    expect_encoded("xyz", 1, (int[]){'a', 'b'}, (int[]){'x', 'y', 'z'}, 3);

    check("rank");
    describe("\"abc\", merges: b c, a b");
    expect_encoded("abc", 2, (int[]){'b', 'c', 'a', 'b'}, (int[]){'a', 256}, 2);

    check("of_merges");
    describe("\"abcabd\", merges: a b, (a b) c, (a b) d");
    expect_encoded("abcabd", 3, (int[]){'a', 'b', 256, 'c', 256, 'd'}, (int[]){257, 258}, 2);
    describe("\"aaaa\", merges: a a, (a a) (a a)");
    expect_encoded("aaaa", 2, (int[]){'a', 'a', 256, 256}, (int[]){257}, 1);

    check("lower_later");
    describe("\"cbab\", merges: (b a) b, c b, b a");
    expect_encoded("cbab", 3, (int[]){258, 'b', 'c', 'b', 'b', 'a'}, (int[]){257, 'a', 'b'}, 3);
    describe("\"xbab\", merges: (b a) b, c b, b a");
    expect_encoded("xbab", 3, (int[]){258, 'b', 'c', 'b', 'b', 'a'}, (int[]){'x', 256}, 2);
}
#endif
