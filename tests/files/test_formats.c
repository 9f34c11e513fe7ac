/* NPY, NPZ and safetensors, and the index of a sharded model: what the reference readers read of many variants. */
#include <string.h>

#include "formats.h"

#define TABLE TG_TEST_GOLDENS "/formats.txt"

static bool add_tensor(tg_text_buffer *content, tg_tensor *x, const char *dtype)
{
    char shape[TG_SHAPE_TEXT];
    tg_text_add_format(content, "%s%s", dtype ? dtype : tg_dtype_name(tg_tensor_dtype(x)),
                       x ? tg_shape_format(tg_tensor_shape(x), shape) : "");
    add_values(content, x, 0, tg_tensor_count(x));
    tg_release(x);
    return x != NULL;
}

static bool read_array(const char *path, tg_text_buffer *content, tg_error *error)
{
    bool is_npz = strstr(path, ".npz");
    return add_tensor(content, is_npz ? tg_tensor_new_from_npz(path, "a", error) : tg_tensor_new_from_npy(path, error),
                      NULL);
}

static bool read_safetensors(const char *path, tg_text_buffer *content, tg_error *error)
{
    tg_safetensors_list *list = tg_safetensors_list_new(path, error);
    for (int64_t i = 0; list && i < list->count; i++) {
        const tg_safetensors_item *item = &list->items[i];
        tg_error unreadable = TG_NO_ERROR;
        char shape[TG_SHAPE_TEXT];
        tg_text_add(content, i > 0 ? "|" : "");
        add_escaped(content, item->name);
        tg_text_add(content, "=");
        tg_tensor *x = tg_tensor_new_from_safetensors(path, item->name, &unreadable);
        if (!x) {
            assert_int_equal(unreadable.code, TG_ERROR_DTYPE);
            tg_text_add_format(content, "%s%s?", item->dtype, tg_shape_format(item->shape, shape));
        } else {
            add_tensor(content, x, item->dtype);
        }
    }
    tg_safetensors_list_free(list);
    return list != NULL;
}

static void test_files(void **state)
{
    (void)state;
    check_format(TABLE, "npy", "test_formats.npy", read_array);
    check_format(TABLE, "npz", "test_formats.npz", read_array);
    check_format(TABLE, "safetensors", "test_formats.safetensors", read_safetensors);
    tg_tensor *x = tensor_f32(TG_SHAPE(1), (float[]){1});
    assert_true(tg_safetensors_save("formats.safetensors", &(tg_named_tensor){"a", x, NULL}, 1, NULL));
    check_format(TABLE, "index", "test_formats.index.json", read_safetensors);
    remove("formats.safetensors");
    tg_release(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_files)};
    return cmocka_run_group_tests_name("formats", tests, NULL, NULL);
}
