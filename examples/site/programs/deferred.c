/* deferred: Adam over a table of 10,000 rows, with dense steps and with deferred ones. The values agree. */
#include <math.h>
#include <stdio.h>

#include <tapegrad.h>

enum { ROWS = 10000, WIDTH = 8, STEPS = 50 };

/* Trains a table, and returns a copy of it. */
static tg_tensor *train(bool deferred, tg_error *error)
{
    tg_run *run = tg_run_new(123);
    tg_params *params = tg_params_new(run, TG_F32);
    tg_nn_embedding table = tg_nn_embedding_make(params, "tok_emb", ROWS, WIDTH, NULL);
    tg_adam_config config = tg_adam_config_default();
    config.deferred = deferred;
    tg_optim *adam = tg_adam_new(params, &config);
    tg_tape *t = tg_tape_new(run, NULL);
    for (int step = 0; step < STEPS; step++) {
        tg_tape_reset(t);
        /* four ids of a hundred: each is named again and again, with pauses between */
        const int32_t ids[] = {step % 100, 7 * step % 100, 13 * step % 100, 99};
        tg_tensor *x = tg_nn_embedding_forward(t, &table, tg_constant_i32(t, TG_SHAPE(4), ids));
        tg_optim_zero_grad(adam);
        tg_backward(t, tg_sum_all(t, tg_mul(t, x, x)), NULL);
        tg_optim_step(adam);
    }
    /* all rows make up their missed steps; without this call, reading the table is an error that says so */
    tg_optim_flush(adam);
    if (tg_tape_error(t)->code != TG_OK) {
        fprintf(stderr, "%s\n", tg_tape_error(t)->text);
    }
    tg_tensor *copy = tg_tensor_new_copy(table.weight, error);
    tg_tape_free(t), tg_optim_free(adam), tg_params_free(params), tg_run_free(run);
    return copy;
}

int main(void)
{
    tg_error error = TG_NO_ERROR;
    tg_tensor *dense = train(false, &error), *deferred = train(true, &error);
    double most = 0;
    for (int64_t i = 0; i < tg_tensor_count(dense); i++) {
        most = fmax(most, fabs(tg_tensor_value_at(dense, i) - tg_tensor_value_at(deferred, i)));
    }
    bool agree = error.code == TG_OK && most < 1e-5;
    printf("%d rows, %d steps of 4 ids: the values %s\n", ROWS, STEPS, agree ? "agree, each to 0.00001" : "differ");
    tg_release(dense);
    tg_release(deferred);
    return agree ? 0 : 1;
}
