#include <tapegrad.h>

#include "../tape.h"

#define PARAMETERS 64

static tg_gpt *make_model(tg_params *params, int blocks)
{
    tg_gpt_config config = tg_gpt_config_default();
    config.vocabulary = 9, config.context = 4, config.width = 8, config.heads = 2, config.layers = blocks;
    return tg_gpt_new(params, &config);
}

#ifdef COURSE_WORKER
#include "../worker.h"

void freeze(tg_params *params, int blocks);

/* seed, blocks -> the number of parameters; for each, whether it requires a gradient, and whether a step moves it */
static void run(void **a)
{
    const int *n = a[0];
    int *count = a[1], *trains = a[2], *moves = a[3];
    tg_run *shared_run = tg_run_new((uint64_t)n[0]);
    tg_params *params = tg_params_new(shared_run, TG_F64);
    tg_gpt *model = make_model(params, n[1]);
    freeze(params, n[1]);
    tg_sgd_config config = tg_sgd_config_default();
    config.lr = 1;
    tg_optim *sgd = tg_sgd_new(params, &config);
    tg_tape *t = careful_tape(shared_run);
    *count = (int)tg_params_count(params);
    tg_tensor *before[PARAMETERS];
    for (int i = 0; i < *count && i < PARAMETERS; i++) {
        trains[i] = tg_tensor_requires_grad(tg_params_at(params, i).tensor);
        before[i] = tg_tensor_new_copy(tg_params_at(params, i).tensor, NULL);
    }
    tg_tensor *ids = tg_constant_i32(t, TG_SHAPE(2, 4), (int32_t[]){0, 1, 2, 3, 4, 5, 6, 7});
    tg_tensor *targets = tg_constant_i32(t, TG_SHAPE(2, 4), (int32_t[]){1, 2, 3, 4, 5, 6, 7, 8});
    tg_backward(t, tg_gpt_loss(t, model, ids, targets, NULL), NULL);
    tg_optim_step(sgd);
    for (int i = 0; i < *count && i < PARAMETERS; i++) {
        tg_tensor *now = tg_params_at(params, i).tensor;
        moves[i] = 0;
        for (int64_t j = 0; j < tg_tensor_count(now); j++) {
            moves[i] |= tg_tensor_value_at(now, j) != tg_tensor_value_at(before[i], j);
        }
        tg_release(before[i]);
    }
    tg_optim_free(sgd);
    tg_tape_free(t);
    tg_gpt_free(model);
    tg_params_free(params);
    tg_run_free(shared_run);
}

const course_call course_calls[] = {{"freeze", run}, {NULL, NULL}};
#else
#include "../check.h"

static void expect_trained(int blocks, bool moves)
{
    int count, trains[PARAMETERS], moved[PARAMETERS];
    tg_params *params = tg_params_new(tg_run_new(1), TG_F64);
    make_model(params, blocks);
    call("freeze",
         LIST(INTS(draw_int(1, 1000000), blocks), OUT(&count, 1), OUT(trains, PARAMETERS), OUT(moved, PARAMETERS)));
    expect_int("the number of parameters", count, tg_params_count(params));
    char last[32];
    snprintf(last, sizeof last, "trf_blocks.%d.", blocks - 1);
    for (int i = 0; i < count; i++) {
        const char *name = tg_params_at(params, i).name;
        bool expected = strncmp(name, last, strlen(last)) == 0 || strncmp(name, "final_norm.", 11) == 0 ||
                        strncmp(name, "out_head.", 9) == 0;
        describe("%d blocks, %s", blocks, name);
        expect_int(moves ? "it moves in a step (1) or not (0)" : "it is trained (1) or frozen (0)",
                   moves ? moved[i] : trains[i], expected);
    }
}

void course_checks(void)
{
    check("values");
    expect_trained(2, false);

    check("blocks");
    expect_trained(1, false);
    expect_trained(3, false);

    check("model");
    expect_trained(2, true);
}
#endif
