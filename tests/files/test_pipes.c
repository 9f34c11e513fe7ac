/* Every call that reads a model, a checkpoint or an array refuses a pipe by name, and does not wait for its writer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support.h"

static char folder[] = "test_pipes.XXXXXX", path[64];

static const char *in_folder(const char *name)
{
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static bool list(const char *from, tg_error *error)
{
    return tg_safetensors_list_new(from, error) != NULL;
}

static bool read_one(const char *from, tg_error *error)
{
    return tg_tensor_new_from_safetensors(from, "x", error) != NULL;
}

static bool read_npy(const char *from, tg_error *error)
{
    return tg_tensor_new_from_npy(from, error) != NULL;
}

static bool read_npz(const char *from, tg_error *error)
{
    return tg_tensor_new_from_npz(from, "x", error) != NULL;
}

static bool load(const char *from, tg_error *error)
{
    tg_params *params = tg_params_new(NULL, TG_F32);
    bool is_loaded = tg_params_load(params, from, NULL, error);
    tg_params_free(params);
    return is_loaded;
}

static bool load_checkpoint(const char *from, tg_error *error)
{
    int64_t step = 0;
    const tg_checkpoint_part part = tg_checkpoint_integer("step", &step);
    return tg_checkpoint_load(from, &part, 1, error);
}

static bool read_text(const char *from, tg_error *error)
{
    return tg_checkpoint_read_text(from, "step", error) != NULL;
}

static bool read_bytes(const char *from, tg_error *error)
{
    return tg_checkpoint_read_bytes(from, "step", NULL, error) != NULL;
}

static bool find_best(const char *from, tg_error *error)
{
    (void)from;
    return tg_checkpoint_find(folder, TG_CHECKPOINT_BEST, error) != NULL;
}

static bool save(const char *from, tg_error *error)
{
    return tg_safetensors_save(from, NULL, 0, error);
}

static bool add_embedding(const char *from, tg_error *error)
{
    (void)from;
    tg_tensorboard *log = tg_tensorboard_open(folder, error);
    tg_tensor *x = tg_tensor_new(TG_F32, TG_SHAPE(2, 2), error);
    bool is_added = tg_tensorboard_add_embedding(log, "x", x, NULL, 0, 1, error);
    tg_release(x);
    tg_tensorboard_free(log);
    return is_added;
}

static const struct {
    const char *call, *name;
    bool (*run)(const char *from, tg_error *error);
} rows[] = {
    {"safetensors_list_new", "x", list},
    {"safetensors_list_new", "x.index.json", list},
    {"tensor_new_from_safetensors", "x", read_one},
    {"tensor_new_from_npy", "x", read_npy},
    {"tensor_new_from_npz", "x", read_npz},
    {"params_load", "x", load},
    {"params_load", "x.index.json", load},
    {"checkpoint_load", "x", load_checkpoint},
    {"checkpoint_read_text", "x", read_text},
    {"checkpoint_read_bytes", "x", read_bytes},
    {"checkpoint_find", "best", find_best},
    {"safetensors_save", "x", save},
    {"tensorboard_add_embedding", "projector_config.pbtxt", add_embedding},
};

static void test_pipes(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(folder));
    alarm(10);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tg_error error = TG_NO_ERROR;
        char message[200];
        assert_int_equal(mkfifo(in_folder(rows[i].name), 0666), 0);
        assert_false(rows[i].run(path, &error));
        const char *end = strstr(error.text, "': it is a pipe, not a regular file");
        snprintf(message, sizeof message, "%s: ", rows[i].call);
        if (error.code != TG_ERROR_FILE || strncmp(error.text, message, strlen(message)) != 0 || !end ||
            !strstr(error.text, path)) {
            fail_msg("%s: \"%s\"", rows[i].call, error.text);
        }
        assert_int_equal(unlink(path), 0);
    }
    alarm(0);
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pipes)};
    return cmocka_run_group_tests_name("pipes", tests, NULL, NULL);
}
