/* files: saves a model, loads it into another one, and shows what a refused load says. */
#include <stdio.h>

#include <tapegrad.h>

/* A model: a table with `rows` rows. */
static tg_params *model(tg_run *run, int64_t rows)
{
    tg_params *params = tg_params_new(run, TG_F32);
    tg_nn_embedding_make(params, "tok_emb", rows, 3, NULL);
    return params;
}

int main(void)
{
    const char *path = "model.safetensors";
    tg_error error = TG_NO_ERROR, refusal = TG_NO_ERROR;
    tg_run *run = tg_run_new(123);
    tg_params *first = model(run, 6), *second = model(run, 6), *larger = model(run, 8);

    tg_params_save(first, path, NULL, &error);
    tg_params_load(second, path, NULL, &error);
    tg_tensor_print(tg_params_find(second, "tok_emb.weight"), stdout, NULL, &error);

    /* a table of another size: nothing is loaded, and the message names the tensor and both shapes */
    if (!tg_params_load(larger, path, NULL, &refusal)) {
        printf("\n%s\n", refusal.text);
    }

    /* a single tensor, for numpy.load */
    tg_tensor_save_npy(tg_params_find(first, "tok_emb.weight"), "table.npy", &error);
    tg_tensor *again = tg_tensor_new_from_npy("table.npy", &error);
    char text[TG_SHAPE_TEXT];
    printf("\ntable.npy: %s\n", tg_shape_format(tg_tensor_shape(again), text));

    if (error.code != TG_OK) {
        fprintf(stderr, "%s\n", error.text);
    }
    tg_release(again);
    tg_params_free(first), tg_params_free(second), tg_params_free(larger), tg_run_free(run);
    remove(path), remove("table.npy");
    return error.code == TG_OK && refusal.code != TG_OK ? 0 : 1;
}
