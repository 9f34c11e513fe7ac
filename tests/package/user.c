/* A user's program: trains two rows of a table, with only the installed headers. */
#include <stdio.h>
#include <string.h>
#include <tapegrad.h>

int main(void)
{
    tg_run *run = tg_run_new(123);
    tg_params *params = tg_params_new(run, TG_F32);
    tg_nn_embedding table = tg_nn_embedding_make(params, "table", 6, 3, NULL);
    tg_optim *sgd = tg_sgd_new(params, NULL);
    tg_tape *t = tg_tape_new(run, NULL);
    int32_t values[] = {3, 1, 3};
    tg_tensor *ids = tg_tensor_new_from_i32(tg_shape_make(1, (int64_t[]){3}), values, NULL);
    tg_tensor *rows = tg_nn_embedding_forward(t, &table, ids);
    bool trained = tg_backward(t, tg_mean_all(t, tg_mul(t, rows, rows)), NULL) && tg_optim_step(sgd);
    printf("%s, %lld rows\n", tg_version(), (long long)tg_tensor_grad_rows(table.weight).count);
    trained = trained && tg_tensor_grad_rows(table.weight).count == 2 && strcmp(tg_version(), TG_VERSION_STRING) == 0;
    /* the values before the step come back; one number and two categories are drawn */
    int64_t size = 0;
    char *snapshot = tg_params_save_bytes(params, &size, NULL, NULL);
    double before = tg_tensor_value_at(table.weight, 0);
    tg_tensor_fill(table.weight,
                   tg_rng_normal(tg_run_rng(run), 0, 1, NULL) + tg_rng_uniform(tg_run_rng(run), 2, 3, NULL), NULL);
    trained = trained && tg_params_load_bytes(params, snapshot, size, NULL, NULL) &&
              tg_tensor_value_at(table.weight, 0) == before && tg_rng_randint(tg_run_rng(run), 0, 9, NULL) < 9 &&
              tg_multinomial(t, tg_constant_f32(t, TG_SHAPE(3), (float[]){1, 2, 3}), 2, false);
    tg_text_free(snapshot);
    tg_release(ids);
    tg_tape_free(t);
    tg_optim_free(sgd);
    tg_params_free(params);
    tg_run_free(run);
    return trained ? 0 : 1;
}
