/* What examples/upgrade/from_0_2 makes of before.c. */
#include <tapegrad.h>

typedef struct model {
    tg_run *run;
    tg_rng *unrelated;
    tg_params *params;
    tg_optim *optim;
} model;

static tg_loader *windows(const int32_t *ids, int64_t count, tg_run *run)
{
    return tg_loader_new(run, ids, count, NULL);
}

static model make(tg_run *run)
{
    model m = {.run = run, .unrelated = tg_rng_new(0)};
    m.params = tg_params_new(m.run, TG_F32);
    m.optim = tg_adam_new(m.params, NULL);
    tg_nn_linear_make(m.params, "hidden", 2, 3, TG_BIAS);
    tg_nn_linear_make(m.params, "head", 3, 4, TG_NO_BIAS);
    return m;
}

int main(void)
{
    tg_error error = TG_NO_ERROR;
    tg_run *run = tg_run_new(1), *dropout = tg_run_new_stream(run, 2);
    tg_rng *saved = tg_rng_new(3);
    model m = make(run);
    tg_tape *t = tg_tape_new(dropout, NULL), *quiet = tg_tape_new(run, NULL);
    tg_loader *loader = windows((int32_t[]){1, 2, 3}, 3, run);
    tg_rng_copy(saved, tg_run_rng(dropout));
    int64_t rows[4];
    tg_random_split(tg_run_rng(run), (int64_t[]){2, 2}, 2, rows, 4, &error);
    tg_gpt *gpt = tg_gpt_new(m.params, NULL);
    if (!run || !tg_gpt_merge_lora(gpt) || tg_params_error(m.params)->code != TG_OK) {
        tg_run_clear_error(run);
    }
    tg_optim_free(m.optim);
    tg_gpt_free(gpt);
    tg_loader_free(loader);
    tg_tape_free(quiet);
    tg_tape_free(t);
    tg_params_free(m.params);
    tg_rng_free(m.unrelated);
    tg_rng_free(saved);
    tg_run_free(dropout);
    tg_run_free(run);
    return 0;
}
