#ifdef COURSE_WORKER
#include "../worker.h"

void contiguous_strides(int rank, const int *shape, int *strides);
int place_of(int rank, const int *strides, const int *index);

static void run_strides(void **a)
{
    const int *n = a[0];
    contiguous_strides(n[0], a[1], a[2]);
}

static void run_place(void **a)
{
    const int *n = a[0];
    int *place = a[3];
    *place = place_of(n[0], a[1], a[2]);
}

const course_call course_calls[] = {{"strides", run_strides}, {"place", run_place}, {NULL, NULL}};
#else
#include "../check.h"

static int place_of(int rank, const int *strides, const int *index)
{
    int place;
    call("place", LIST(INTS(rank), IN(strides, rank), IN(index, rank), OUT(&place, 1)));
    return place;
}

void course_checks(void)
{
    int strides[4];
    check("values");
    describe("shape (2,3,4)");
    call("strides", LIST(INTS(3), INTS(2, 3, 4), OUT(strides, 3)));
    expect_ints("strides", strides, (int[]){12, 4, 1}, 3);
    expect_int("the place of [1,2,3]", place_of(3, (int[]){12, 4, 1}, (int[]){1, 2, 3}), 23);
    expect_int("the place of [1,0,2]", place_of(3, (int[]){12, 4, 1}, (int[]){1, 0, 2}), 14);

    check("transposed");
    describe("a matrix (2,3), transposed: strides 1 3");
    expect_int("the place of [2,1]", place_of(2, (int[]){1, 3}, (int[]){2, 1}), 5);
    describe("a row that is repeated: strides 0 1");
    expect_int("the place of [4,2]", place_of(2, (int[]){0, 1}, (int[]){4, 2}), 2);

    check("library");
    for (int i = 0; i < 5; i++) {
        int shape[] = {draw_int(1, 6), draw_int(1, 6), draw_int(1, 6), draw_int(1, 6)}, expected[4];
        tg_tensor *x = tg_tensor_new(TG_F64, TG_SHAPE(shape[0], shape[1], shape[2], shape[3]), NULL);
        for (int axis = 0; axis < 4; axis++) {
            expected[axis] = (int)tg_tensor_stride(x, axis);
        }
        tg_release(x);
        describe("shape (%d,%d,%d,%d)", shape[0], shape[1], shape[2], shape[3]);
        call("strides", LIST(INTS(4), IN(shape, 4), OUT(strides, 4)));
        expect_ints("strides", strides, expected, 4);
    }
}
#endif
