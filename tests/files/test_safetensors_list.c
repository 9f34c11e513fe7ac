/* tg_safetensors_list_new: the names, dtypes and shapes of files that the reference wrote. */
#include <stdio.h>
#include <string.h>

#include "support.h"

static const char *golden(const char *name)
{
    static char text[4096];
    snprintf(text, sizeof text, "%s/io/%s", TG_TEST_GOLDENS, name);
    return text;
}

static const tg_safetensors_item *find(const tg_safetensors_list *list, const char *name)
{
    for (int64_t i = 0; i < list->count; i++) {
        if (strcmp(list->items[i].name, name) == 0) {
            return &list->items[i];
        }
    }
    fail_msg("no tensor '%s'", name);
    return NULL;
}

static void assert_item(const tg_safetensors_list *list, const char *name, const char *dtype, tg_shape shape)
{
    const tg_safetensors_item *item = find(list, name);
    assert_string_equal(item->dtype, dtype);
    assert_true(tg_shape_equal(item->shape, shape));
}

static void test_every_tensor(void **state)
{
    (void)state;
    tg_error error = TG_NO_ERROR;
    tg_safetensors_list *list = tg_safetensors_list_new(golden("dtypes.safetensors"), &error);
    assert_non_null(list);
    /* 16 dtypes, 9 ranks and 4 others: tests/goldens/make_io.py */
    assert_int_equal(list->count, 16 + 9 + 4);
    for (int64_t i = 1; i < list->count; i++) {
        assert_true(strcmp(list->items[i - 1].name, list->items[i].name) < 0);
    }
    assert_item(list, "BF16", "BF16", TG_SHAPE(2, 3));
    assert_item(list, "F8_E5M2", "F8_E5M2", TG_SHAPE(2, 3));
    assert_item(list, "rank0", "F32", TG_SCALAR);
    assert_item(list, "rank8", "F32", TG_SHAPE(2, 2, 2, 2, 2, 2, 2, 2));
    assert_item(list, "empty3", "I32", TG_SHAPE(2, 0, 3));
    assert_item(list, "größe.重み.🙂", "F32", TG_SHAPE(2));
    tg_safetensors_list_free(list);
}

static void test_sharded_model(void **state)
{
    (void)state;
    tg_error error = TG_NO_ERROR;
    tg_safetensors_list *list = tg_safetensors_list_new(golden("sharded.safetensors.index.json"), &error);
    assert_non_null(list);
    assert_int_equal(list->count, 3);
    assert_item(list, "a", "F32", TG_SHAPE(2, 3));
    assert_item(list, "b", "F32", TG_SHAPE(3));
    assert_item(list, "c", "BF16", TG_SHAPE(4));
    tg_safetensors_list_free(list);
}

static void test_errors(void **state)
{
    (void)state;
    tg_error error = TG_NO_ERROR;
    assert_null(tg_safetensors_list_new("nowhere", &error));
    assert_error(&error, TG_ERROR_FILE, "safetensors_list_new: open 'nowhere': No such file or directory");
    assert_null(tg_safetensors_list_new(golden("v1.npy"), &error));
    assert_error(&error, TG_ERROR_FORMAT, "byte 0: this is not a safetensors file: a header of ");
    assert_null(tg_safetensors_list_new(NULL, &error));
    assert_error(&error, TG_ERROR_STATE, "safetensors_list_new: the path is NULL");
    assert_null(tg_safetensors_list_new("nowhere", NULL));
}

/* Allocation k fails, for every k: MEMORY, and nothing is left. */
static void test_out_of_memory(void **state)
{
    (void)state;
    counting_allocator counting;
    allocator_install(&counting);
    tg_safetensors_list *list = NULL;
    for (size_t k = 1; !list; k++) {
        tg_error error = TG_NO_ERROR;
        allocator_arm(&counting, k, false);
        list = tg_safetensors_list_new(golden("sharded.safetensors.index.json"), &error);
        if (!list) {
            assert_int_equal(error.code, TG_ERROR_MEMORY);
            assert_int_equal(counting.live, 0);
        }
    }
    tg_safetensors_list_free(list);
    assert_int_equal(counting.live, 0);
    allocator_restore();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_tensor),
        cmocka_unit_test(test_sharded_model),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
