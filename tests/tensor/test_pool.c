/* The memory pool: returned blocks are reused, and the other ways in which blocks are released. */
#include "support.h"

#include <string.h>

#include "tape_stats.h"

static counting_allocator counting;
static tg_pool *pool;

static int set_up(void **state)
{
    (void)state;
    allocator_install(&counting);
    pool = tg_pool_new(true);
    return pool ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    tg_pool_free(pool);
    allocator_restore();
    return counting.live == 0 ? 0 : -1;
}

static tg_block *head_of(void *memory)
{
    return (tg_block *)((char *)memory - TG_BLOCK_HEAD);
}

/* Takes and returns a block: its size with the head. All bytes that were asked for can be written. */
static size_t check_block(size_t bytes)
{
    char *memory = tg_pool_take(pool, bytes);
    assert_non_null(memory);
    assert_int_equal((uintptr_t)memory % 32, 0);
    size_t size = head_of(memory)->size;
    assert_true(size >= bytes + TG_BLOCK_HEAD);
    assert_in_range(head_of(memory)->size_class, 0, TG_POOL_CLASSES - 1);
    memset(memory, 0x5a, bytes);
    assert_true(head_of(memory)->size == size);
    tg_pool_give(pool, memory);
    return size;
}

/* Multiples of 64 bytes up to 1 KiB, and above that at most an eighth that is not used. */
static void test_sizes(void **state)
{
    (void)state;
    size_t last = 0;
    for (size_t bytes = 0; bytes < 10000; bytes++) {
        size_t needed = bytes + TG_BLOCK_HEAD, size = check_block(bytes);
        assert_true(size >= last);
        last = size;
        assert_true(size - needed < (needed <= 1024 ? 64 : needed / 8 + 1));
        assert_int_equal(size % 64, 0);
    }
    for (int exponent = 14; exponent < 24; exponent++) {
        for (int eighth = 8; eighth < 16; eighth++) {
            size_t exact = ((size_t)eighth << exponent >> 3) - TG_BLOCK_HEAD;
            assert_int_equal(check_block(exact), exact + TG_BLOCK_HEAD);
            assert_int_equal(check_block(exact + 1), ((size_t)(eighth + 1) << exponent >> 3));
            tg_pool_trim(pool);
        }
    }
}

/* Blocks of one class have one size, so that any of them fits a call of that class. */
static void test_classes(void **state)
{
    (void)state;
    static size_t size_of_class[TG_POOL_CLASSES];
    int classes = 0;
    for (size_t bytes = 0; bytes < 70000; bytes += bytes < 3000 ? 1 : 13) {
        void *memory = tg_pool_take(pool, bytes);
        int size_class = head_of(memory)->size_class;
        classes += size_of_class[size_class] == 0;
        if (size_of_class[size_class] == 0) {
            size_of_class[size_class] = head_of(memory)->size;
        }
        assert_true(size_of_class[size_class] == head_of(memory)->size);
        tg_pool_give(pool, memory);
    }
    /* 16 small ones, 8 per doubling from 1 to 64 KiB, and the first beyond */
    assert_int_equal(classes, 16 + 6 * 8 + 1);
    assert_int_equal(counting.calls, 1 + classes);
}

static void test_blocks_are_reused(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 31, 32, 33, 95, 96, 97, 500, 991, 992, 993, 1024, 5000, 100000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        void *first = tg_pool_take(pool, sizes[i]), *second = tg_pool_take(pool, sizes[i]);
        assert_ptr_not_equal(first, second);
        allocator_arm(&counting, 0, false);
        tg_pool_give(pool, first);
        tg_pool_give(pool, second);
        /* the last one that was returned comes first, and none comes twice */
        assert_ptr_equal(tg_pool_take(pool, sizes[i]), second);
        assert_ptr_equal(tg_pool_take(pool, sizes[i]), first);
        assert_int_equal(counting.calls, 0);
        void *third = tg_pool_take(pool, sizes[i]);
        assert_int_equal(counting.calls, 1);
        assert_true(third != first && third != second);
        tg_pool_give(NULL, first);
        tg_pool_give(NULL, second);
        tg_pool_give(NULL, third);
    }
    tg_pool_give(pool, NULL);
    assert_int_equal(pool_idle(pool), 0);
}

/* A block of another class is not given out, however large it is. */
static void test_other_classes_wait(void **state)
{
    (void)state;
    void *small = tg_pool_take(pool, 32), *large = tg_pool_take(pool, 4000);
    tg_pool_give(pool, small);
    tg_pool_give(pool, large);
    void *between = tg_pool_take(pool, 33);
    assert_true(between != small && between != large);
    void *larger = tg_pool_take(pool, 5000);
    assert_true(larger != small && larger != large);
    assert_ptr_equal(tg_pool_take(pool, 31), small);
    assert_ptr_equal(tg_pool_take(pool, 3999), large);
    tg_pool_give(pool, between);
    void *another = tg_pool_take(pool, 32);
    assert_true(another != between);
    assert_ptr_equal(tg_pool_take(pool, 96), between);
    tg_pool_give(pool, another);
    tg_pool_give(pool, small);
    tg_pool_give(pool, between);
    tg_pool_give(pool, large);
    tg_pool_give(pool, larger);
}

static void test_idle_and_trim(void **state)
{
    (void)state;
    void *blocks[] = {tg_pool_take(pool, 10), tg_pool_take(pool, 10), tg_pool_take(pool, 3000)};
    size_t size = head_of(blocks[0])->size, large = head_of(blocks[2])->size;
    assert_int_equal(size, 64);
    assert_int_equal(pool_idle(pool), 0);
    size_t live = counting.live;
    tg_pool_give(pool, blocks[0]);
    assert_int_equal(pool_idle(pool), size);
    tg_pool_give(pool, blocks[2]);
    assert_int_equal(pool_idle(pool), size + large);
    assert_int_equal(counting.live, live);
    tg_pool_trim(pool);
    assert_int_equal(pool_idle(pool), 0);
    assert_int_equal(counting.live, live - 2);
    /* a block in use is not trimmed, and can be returned */
    memset(blocks[1], 1, 10);
    tg_pool_give(pool, blocks[1]);
    assert_int_equal(pool_idle(pool), size);
    assert_ptr_equal(tg_pool_take(pool, 10), blocks[1]);
    tg_pool_give(pool, blocks[1]);
    tg_pool_trim(pool);
    tg_pool_trim(pool);
    assert_int_equal(counting.live, live - 3);
}

/* Without recycling, blocks go back at once, unless the pool is held. */
static void test_without_recycling(void **state)
{
    (void)state;
    tg_pool *plain = tg_pool_new(false);
    size_t live = counting.live;
    void *block = tg_pool_take(plain, 100);
    assert_int_equal(counting.live, live + 1);
    tg_pool_give(plain, block);
    assert_int_equal(counting.live, live);
    assert_int_equal(pool_idle(plain), 0);

    tg_pool_hold(plain, true);
    block = tg_pool_take(plain, 100);
    tg_pool_give(plain, block);
    assert_int_equal(counting.live, live + 1);
    assert_ptr_equal(tg_pool_take(plain, 100), block);
    tg_pool_give(plain, block);
    tg_pool_hold(plain, false);
    assert_int_equal(counting.live, live);
    assert_int_equal(pool_idle(plain), 0);
    block = tg_pool_take(plain, 100);
    tg_pool_give(plain, block);
    assert_int_equal(counting.live, live);
    tg_pool_free(plain);
}

/* The end of a hold takes nothing from a pool that recycles. */
static void test_hold_with_recycling(void **state)
{
    (void)state;
    void *block = tg_pool_take(pool, 100);
    tg_pool_give(pool, block);
    size_t idle = pool_idle(pool);
    tg_pool_hold(pool, true);
    tg_pool_hold(pool, false);
    assert_int_equal(pool_idle(pool), idle);
    assert_ptr_equal(tg_pool_take(pool, 100), block);
    tg_pool_give(pool, block);
}

/* A block of the allocator returns to it, even from a pool, and a block may outlive its pool. */
static void test_without_a_pool(void **state)
{
    (void)state;
    size_t before = counting.live;
    void *own = tg_pool_take(NULL, 100);
    assert_non_null(own);
    assert_int_equal((uintptr_t)own % 32, 0);
    tg_pool_give(NULL, own);
    assert_int_equal(counting.live, before);

    own = tg_pool_take(NULL, 100);
    tg_pool_give(pool, own);
    assert_int_equal(counting.live, before);
    assert_int_equal(pool_idle(pool), 0);

    own = tg_pool_take(pool, 100);
    tg_pool_free(pool);
    pool = NULL;
    assert_int_equal(counting.live, 1);
    memset(own, 1, 100);
    tg_pool_give(NULL, own);
    assert_int_equal(counting.live, 0);
    tg_pool_free(NULL);
}

static void test_out_of_memory(void **state)
{
    (void)state;
    allocator_arm(&counting, 1, true);
    assert_null(tg_pool_take(pool, 10));
    assert_null(tg_pool_take(pool, 5000));
    assert_null(tg_pool_take(NULL, 10));
    assert_null(tg_pool_new(true));
    assert_int_equal(counting.calls, 4);
    /* sizes that do not fit do not reach the allocator, nor wrap to small ones */
    allocator_arm(&counting, 0, false);
    assert_null(tg_pool_take(pool, SIZE_MAX));
    assert_null(tg_pool_take(pool, SIZE_MAX - 31));
    assert_null(tg_pool_take(pool, PTRDIFF_MAX));
    assert_null(tg_pool_take(NULL, SIZE_MAX));
    assert_int_equal(counting.calls, 0);
    /* a block that waits needs no memory */
    void *block = tg_pool_take(pool, 10);
    tg_pool_give(pool, block);
    allocator_arm(&counting, 1, true);
    assert_ptr_equal(tg_pool_take(pool, 10), block);
    tg_pool_give(pool, block);
    allocator_arm(&counting, 0, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_sizes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_classes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_blocks_are_reused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_other_classes_wait, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_idle_and_trim, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_without_recycling, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_hold_with_recycling, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_without_a_pool, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_out_of_memory, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("pool", tests, NULL, NULL);
}
