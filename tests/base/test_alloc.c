/* Memory: alignment, growing arrays, sizes that overflow, and the state after a failed allocation. */
#if defined __linux__
#define _DEFAULT_SOURCE /* madvise */
#endif

#include "support.h"

#include <string.h>

#if defined __linux__
#include <sys/mman.h>
#include <unistd.h>
#endif
#if defined __GLIBC__
#include <malloc.h>
#endif

#include "base/alloc.h"

static counting_allocator counting;

static int set_up(void **state)
{
    (void)state;
    allocator_install(&counting);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    allocator_restore();
    return counting.live == 0 ? 0 : -1;
}

static void test_blocks(void **state)
{
    (void)state;
    for (size_t bytes = 1; bytes < 300; bytes += 7) {
        unsigned char *block = tg_alloc(bytes, 1), *zeros = tg_alloc_zeroed(1, bytes);
        assert_non_null(block);
        assert_non_null(zeros);
        assert_int_equal((uintptr_t)block % 64, 0);
        assert_int_equal((uintptr_t)zeros % 64, 0);
        /* the counting allocator fills its blocks with 0xcd */
        for (size_t i = 0; i < bytes; i++) {
            assert_int_equal(zeros[i], 0);
        }
        memset(block, 1, bytes);
        tg_free(block);
        tg_free(zeros);
    }
    tg_free(NULL);
    assert_int_equal(counting.live, 0);
}

/* Nothing is asked from the allocator for a size that is 0 or does not fit. */
static void test_impossible_sizes(void **state)
{
    (void)state;
    const size_t half = (size_t)1 << 4 * sizeof(size_t); /* half * half is SIZE_MAX + 1 */
    assert_null(tg_alloc(0, 8));
    assert_null(tg_alloc(8, 0));
    assert_null(tg_alloc_zeroed(0, 0));
    assert_null(tg_alloc(half, half));
    assert_null(tg_alloc_zeroed(half, half));
    assert_null(tg_alloc(half + 1, half));
    assert_null(tg_alloc(SIZE_MAX, SIZE_MAX));
    assert_null(tg_alloc((size_t)PTRDIFF_MAX + 1, 1));
    assert_int_equal(counting.calls, 0);
}

/* Blocks of many sizes; those of the later rounds were used before. */
static void test_default_allocator(void **state)
{
    (void)state;
    tg_set_allocator(NULL);
    char *blocks[200];
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < 200; i++) {
            size_t bytes = 1 + i * i * 37 % 5000 + (i % 100 == 7 ? (size_t)20 << 20 : 0);
            blocks[i] = i % 2 ? tg_alloc_zeroed(bytes, 1) : tg_alloc(bytes, 1);
            assert_non_null(blocks[i]);
            assert_int_equal((uintptr_t)blocks[i] % TG_ALIGNMENT, 0);
            for (size_t k = 0; i % 2 && k < bytes; k++) {
                assert_true(blocks[i][k] == 0);
            }
            memset(blocks[i], 0x5a, bytes);
        }
        for (int i = 0; i < 200; i++) {
            tg_free(blocks[i]);
        }
    }
    assert_int_equal(counting.calls, 0);
}

#if defined __linux__
/* Returns whether the system was asked for huge pages at an address. */
static bool asks_for_huge_pages(const void *address)
{
    FILE *maps = fopen("/proc/self/smaps", "r");
    assert_non_null(maps);
    char line[4096];
    bool is_inside = false, asks = false;
    while (fgets(line, sizeof line, maps)) {
        uintmax_t begin, end;
        if (sscanf(line, "%jx-%jx ", &begin, &end) == 2) {
            is_inside = begin <= (uintptr_t)address && (uintptr_t)address < end;
        } else if (is_inside && strncmp(line, "VmFlags:", 8) == 0) {
            asks = strstr(line, " hg") != NULL;
        }
    }
    fclose(maps);
    return asks;
}

/* Returns whether smaps shows a request for huge pages. QEMU's user mode ignores them. */
static bool system_reports_requests(size_t bytes)
{
    void *block = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(block, MAP_FAILED);
    bool reported = madvise(block, bytes, MADV_HUGEPAGE) == 0 && asks_for_huge_pages(block);
    munmap(block, bytes);
    return reported;
}

/* Blocks from 16 MiB on, and all of their bytes can be used. */
static void test_huge_pages(void **state)
{
    (void)state;
    tg_set_allocator(NULL);
    const size_t large = ((size_t)16 << 20) + 100;
    if (!system_reports_requests(large)) {
        skip();
    }
    char *block = tg_alloc(large, 1), *smaller = tg_alloc(large / 2, 1);
    assert_non_null(block);
    assert_non_null(smaller);
    memset(block, 1, large);
    memset(smaller, 1, large / 2);
    assert_true(asks_for_huge_pages(block + large / 2));
    assert_false(asks_for_huge_pages(smaller + large / 4));
    tg_free(block);
    tg_free(smaller);
}

static long long resident_bytes(void)
{
    long long size = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%lld %lld", &size, &resident), 2);
    fclose(file);
    return resident * sysconf(_SC_PAGESIZE);
}

/* A large tensor of zeros takes little memory before its values are used. */
static void test_untouched_zeros(void **state)
{
    (void)state;
    enum { BYTES = 1 << 29 }; /* with 32 bits a block has at most 2^30 */
    tg_set_allocator(NULL);
#ifdef __GLIBC__
    mallopt(M_PERTURB, 0); /* otherwise calloc writes its zeros: MALLOC_PERTURB_ */
#endif
    long long before = resident_bytes();
    tg_tensor *x = tg_tensor_new(TG_F32, TG_SHAPE(BYTES / 64, 16), NULL);
    assert_non_null(x);
    const float *values = tg_tensor_data(x);
    assert_true(values[0] == 0 && values[BYTES / 8] == 0 && values[BYTES / 4 - 1] == 0);
    assert_true(resident_bytes() - before < BYTES / 2); /* AddressSanitizer writes a byte for each eight */
    tg_release(x);
}
#endif

/* From nothing to 10000 elements, one more each time: values stay, and the copies are few. */
static void test_growth(void **state)
{
    (void)state;
    int *array = NULL;
    size_t capacity = 0;
    for (size_t used = 0; used < 10000; used++) {
        size_t before = capacity;
        int *old = array;
        assert_true(tg_grow((void **)&array, &capacity, used, used + 1, sizeof *array));
        assert_true(capacity > used);
        /* no copy while the capacity suffices */
        assert_int_equal(array != old, capacity != before);
        assert_true(capacity == before || capacity >= 2 * before);
        array[used] = (int)used * 3;
        assert_int_equal(counting.live, 1);
    }
    for (int i = 0; i < 10000; i++) {
        assert_int_equal(array[i], i * 3);
    }
    /* 8, 16, 32, .., 16384 */
    assert_int_equal(counting.calls, 12);
    tg_free(array);
}

static void test_growth_at_once(void **state)
{
    (void)state;
    short *array = NULL;
    size_t capacity = 0;
    assert_true(tg_grow((void **)&array, &capacity, 0, 0, sizeof *array));
    assert_null(array);
    assert_int_equal(counting.calls, 0);
    assert_true(tg_grow((void **)&array, &capacity, 0, 1000, sizeof *array));
    assert_true(capacity >= 1000);
    for (size_t i = 0; i < capacity; i++) {
        array[i] = (short)(i + 5);
    }
    /* only the elements in use are copied: 0xcd in the others is the counting allocator's */
    size_t before = capacity;
    assert_true(tg_grow((void **)&array, &capacity, 10, before + 1, sizeof *array));
    assert_true(capacity > before);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(array[i], i + 5);
    }
    assert_int_equal((unsigned short)array[10], 0xcdcd);
    assert_int_equal((unsigned short)array[capacity - 1], 0xcdcd);
    assert_int_equal(counting.calls, 2);
    assert_int_equal(counting.live, 1);
    tg_free(array);
}

static void test_failed_growth_changes_nothing(void **state)
{
    (void)state;
    int64_t *array = NULL;
    size_t capacity = 0;
    assert_true(tg_grow((void **)&array, &capacity, 0, 8, sizeof *array));
    for (int i = 0; i < 8; i++) {
        array[i] = i;
    }
    int64_t *before = array;
    allocator_arm(&counting, 1, true);
    assert_false(tg_grow((void **)&array, &capacity, 8, 9, sizeof *array));
    assert_int_equal(counting.calls, 1);
    assert_ptr_equal(array, before);
    assert_int_equal(capacity, 8);
    allocator_arm(&counting, 0, false);
    /* no number of elements doubles to this one, and no memory has these bytes */
    assert_false(tg_grow((void **)&array, &capacity, 8, SIZE_MAX, 1));
    assert_false(tg_grow((void **)&array, &capacity, 8, SIZE_MAX / 4, sizeof *array));
    assert_ptr_equal(array, before);
    assert_int_equal(capacity, 8);
    assert_int_equal(counting.calls, 0);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(array[i], i);
    }
    tg_free(array);
}

static void test_checked_sizes(void **state)
{
    (void)state;
    const size_t half = (size_t)1 << 4 * sizeof(size_t); /* half * half is SIZE_MAX + 1 */
    static const struct {
        size_t a, b, product, sum;
        bool multiplies, adds;
    } cases[] = {
        {0, 0, 0, 0, true, true},
        {0, SIZE_MAX, 0, SIZE_MAX, true, true},
        {1, SIZE_MAX, SIZE_MAX, 0, true, false},
        {3, 5, 15, 8, true, true},
        {2, SIZE_MAX / 2, SIZE_MAX - 1, SIZE_MAX / 2 + 2, true, true},
        {2, SIZE_MAX / 2 + 1, 0, SIZE_MAX / 2 + 3, false, true},
        {SIZE_MAX, SIZE_MAX, 0, 0, false, false},
        {SIZE_MAX - 7, 7, 0, SIZE_MAX, false, true},
        {SIZE_MAX - 7, 8, 0, 0, false, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int swapped = 0; swapped < 2; swapped++) {
            size_t a = swapped ? cases[i].b : cases[i].a, b = swapped ? cases[i].a : cases[i].b;
            size_t product = 77, sum = 77;
            assert_int_equal(tg_checked_mul(a, b, &product), cases[i].multiplies);
            assert_true(product == (cases[i].multiplies ? cases[i].product : 77));
            assert_int_equal(tg_checked_add(a, b, &sum), cases[i].adds);
            assert_true(sum == (cases[i].adds ? cases[i].sum : 77));
        }
    }
    /* the product wraps to a number that looks harmless */
    size_t result = 77;
    assert_false(tg_checked_mul(half + 1, half, &result));
    assert_int_equal(result, 77);
    /* the result may be an operand */
    size_t total = SIZE_MAX - 1;
    assert_true(tg_checked_add(total, 1, &total));
    assert_true(total == SIZE_MAX);
    assert_false(tg_checked_add(total, 1, &total));
    assert_true(total == SIZE_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_blocks, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_impossible_sizes, set_up, tear_down),
#if defined __linux__
        cmocka_unit_test(test_huge_pages),
        cmocka_unit_test_setup_teardown(test_untouched_zeros, set_up, tear_down),
#endif
        /* after that of huge pages: malloc keeps some of the large blocks that this one has freed */
        cmocka_unit_test_setup_teardown(test_default_allocator, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_growth, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_growth_at_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_failed_growth_changes_nothing, set_up, tear_down),
        cmocka_unit_test(test_checked_sizes),
    };
    return cmocka_run_group_tests_name("alloc", tests, NULL, NULL);
}
