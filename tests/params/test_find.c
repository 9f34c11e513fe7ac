/* Entries are found by their names and tensors, whatever was added and removed before: beside a plain list. */
#include <stdio.h>
#include <string.h>

#include "params/params.h"
#include "support.h"

#define MOST 3000

typedef struct plain {
    char name[24];
    tg_tensor *tensor;
    int64_t first; /* the number of the first entry of the tensor */
} plain;

/* Compares all that is in the list, and names that were removed or never added. */
static void check(const tg_params *params, const plain *list, int64_t count)
{
    assert_int_equal(tg_params_count(params), count);
    for (int64_t i = 0; i < count; i++) {
        assert_int_equal(tg_params_number(params, list[i].name), i);
        assert_ptr_equal(tg_params_find(params, list[i].name), list[i].tensor);
        assert_int_equal(tg_params_number_of(params, list[i].tensor), list[i].first);
    }
    /* each alias is in the chain of its tensor, newest first */
    int64_t before[MOST], aliases = 0, seen = 0;
    for (int64_t i = 0; i < count; i++) {
        before[i] = -1;
        if (list[i].first < i) {
            aliases++;
        }
    }
    for (int64_t i = 0; i < count; i++) {
        for (int64_t at = i; list[i].first == i && (at = tg_params_next_alias(params, at)) >= 0;) {
            assert_int_equal(list[at].first, i);
            assert_true(before[i] < 0 || at < before[i]);
            before[i] = at;
            seen++;
        }
    }
    assert_int_equal(seen, aliases);
    for (int64_t i = count; i < count + 20; i++) {
        char name[24];
        snprintf(name, sizeof name, "p%lld", (long long)i);
        assert_int_equal(tg_params_number(params, name), -1);
        assert_null(tg_params_find(params, name));
    }
}

static void test_beside_a_list(void **state)
{
    (void)state;
    static plain list[MOST];
    tg_rng *rng = tg_rng_new(5);
    tg_params *params = tg_params_new(NULL, TG_F32);
    tg_tensor *stranger = tg_tensor_new(TG_F32, TG_SHAPE(1), NULL);
    int64_t count = 0, highest = 0;
    check(params, list, 0);
    for (int round = 0; round < 40; round++) {
        tg_params_point point = tg_params_save_point(params);
        int64_t count_before = count, added = tg_rng_randint(rng, 1, 150, NULL);
        for (int64_t i = 0; i < added && count < MOST; i++) {
            plain *entry = &list[count];
            snprintf(entry->name, sizeof entry->name, "p%lld", (long long)count);
            int kind = count > 0 ? (int)tg_rng_randint(rng, 0, 4, NULL) : 0;
            const plain *other = &list[tg_rng_randint(rng, 0, count + 1, NULL)];
            if (kind == 3) {
                entry->tensor = tg_params_add_alias(params, entry->name, other == entry ? list[0].name : other->name);
                entry->first = other == entry ? list[0].first : other->first;
            } else {
                entry->tensor = kind == 2 ? tg_params_add_buffer(params, entry->name, TG_SHAPE(1))
                                          : tg_params_add(params, entry->name, TG_SHAPE(1));
                entry->first = count;
            }
            assert_non_null(entry->tensor);
            count++;
        }
        highest = count > highest ? count : highest;
        if (round % 3 == 2) { /* as after a module that could not be created */
            tg_params_return_to(params, &point);
            count = count_before;
        }
        check(params, list, count);
        assert_int_equal(tg_params_number_of(params, stranger), -1);
        assert_null(tg_params_add(params, list[count / 2].name, TG_SHAPE(1))); /* in use */
        clear_params_error(params);
        assert_null(tg_params_add_existing(params, "again", list[count / 2].tensor));
        clear_params_error(params);
    }
    assert_true(highest > 1000); /* both tables have grown several times */
    tg_release(stranger);
    tg_params_free(params);
    tg_rng_free(rng);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_beside_a_list)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
