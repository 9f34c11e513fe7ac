#include "lesson.h"

#include <math.h>
#include <stdlib.h>

#include "../common/program.h"

/* ---- training ---- */

static double share_right(tg_tape *t, tg_tensor *logits, const puzzle *p)
{
    /* (B,T,TOKENS) -> (B,T) */
    const int32_t *predicted = tg_tensor_data(tg_argmax(t, logits, -1, TG_DROP_AXES));
    const int32_t *answers = tg_tensor_data(p->answers);
    int right = 0;
    for (int i = 0; i < BATCH * LENGTH; i++) {
        right += predicted[i] == answers[i];
    }
    return (double)right / (BATCH * (LENGTH - BACK));
}

static bool train(lesson *l, const model *m, tg_tape *t, puzzle *p, int64_t steps)
{
    tg_adam_config config = tg_adam_config_default();
    config.lr = 3e-3;
    tg_optim *adam = tg_adam_new(m->params, &config);
    int64_t counted = 0;
    for (int64_t step = 1; step <= steps; step++) {
        puzzle_draw(p, tg_run_rng(m->run));
        tg_tape_reset(t);
        tg_tensor *logits = model_forward(t, m, p->tokens, NULL), *loss = tg_cross_entropy(t, logits, p->answers, NULL);
        tg_optim_zero_grad(adam);
        if (!tg_backward(t, loss, NULL)) {
            tg_optim_free(adam);
            return complain("%s", tg_tape_error(t)->text);
        }
        if (!tg_optim_step(adam)) {
            complain("%s", tg_params_error(m->params)->text);
            tg_optim_free(adam);
            return false;
        }
        double value = tg_tensor_item(loss, NULL);
        l->losses[step - 1] = (float)value;
        if (step > steps - steps / 10 || step == steps) {
            l->loss += value;
            l->right += share_right(t, logits, p);
            counted++;
        }
        progress(step, steps, "%-16s loss %.4f", l->name, value);
    }
    progress_break();
    l->loss /= (double)counted;
    l->right /= (double)counted;
    tg_optim_free(adam);
    return true;
}

/* ---- examining the model ---- */

/* Sets `influence`: for each position i, the gradient of its largest logit with respect to each embedded token. */
static bool measure_influence(lesson *l, const model *m, tg_tape *t, puzzle *p)
{
    for (int i = 0; i < LENGTH; i++) {
        insight seen;
        tg_tape_reset(t);
        tg_tensor *logits = model_forward(t, m, p->tokens, &seen);
        tg_tensor *answers = tg_amax(t, tg_select(t, logits, 1, i), TG_AXES(-1), TG_DROP_AXES);
        tg_tensor *sum = tg_sum_all(t, answers);
        if (!tg_retain_grad(t, seen.embedded) || !tg_backward(t, sum, NULL)) {
            return complain("%s", tg_tape_error(t)->text);
        }
        tg_tensor *gradient = tg_tensor_grad(seen.embedded);
        for (int64_t k = 0; k < tg_tensor_count(gradient); k++) {
            l->influence[i][k / WIDTH % LENGTH] += fabs(tg_tensor_value_at(gradient, k));
        }
    }
    return true;
}

/* Sets `similarity` and `position_share`. In the mean state of a position over many random sequences, the tokens
 * average out, and what the state has from its position is left. */
static bool measure_similarity(lesson *l, const model *m, tg_tape *t, puzzle *p)
{
    enum { SEQUENCES = 64 * BATCH };
    double mean[LENGTH][WIDTH] = {{0}}, all[WIDTH] = {0}, squares = 0, between = 0;
    for (int round = 0; round < SEQUENCES / BATCH; round++) {
        insight seen;
        puzzle_draw(p, tg_run_rng(m->run));
        tg_tape_reset(t);
        if (!model_forward(t, m, p->tokens, &seen)) {
            return complain("%s", tg_tape_error(t)->text);
        }
        const float *states = tg_tensor_data(seen.states);
        for (int k = 0; k < BATCH * LENGTH * WIDTH; k++) {
            mean[k / WIDTH % LENGTH][k % WIDTH] += (double)states[k] / SEQUENCES;
            all[k % WIDTH] += (double)states[k] / (SEQUENCES * LENGTH);
            squares += (double)states[k] * (double)states[k] / (SEQUENCES * LENGTH);
        }
    }
    for (int c = 0; c < WIDTH; c++) {
        squares -= all[c] * all[c];
        for (int i = 0; i < LENGTH; i++) {
            mean[i][c] -= all[c];
            between += mean[i][c] * mean[i][c] / LENGTH;
        }
    }
    l->position_share = squares > 0 ? between / squares : 0;
    for (int i = 0; i < LENGTH; i++) {
        for (int j = 0; j < LENGTH; j++) {
            double product = 0, a = 0, b = 0;
            for (int c = 0; c < WIDTH; c++) {
                product += mean[i][c] * mean[j][c];
                a += mean[i][c] * mean[i][c];
                b += mean[j][c] * mean[j][c];
            }
            l->similarity[i][j] = a > 0 && b > 0 ? product / sqrt(a * b) : 0;
        }
    }
    return true;
}

bool lesson_learn(lesson *l, puzzle *p, int64_t steps)
{
    model m;
    l->losses = calloc((size_t)steps, sizeof *l->losses);
    bool good = model_make(&m, l->kind, l->is_causal) && (l->losses || complain("out of memory"));
    tg_tape *t = tg_tape_new(m.run, NULL);
    good = good && train(l, &m, t, p, steps) && measure_influence(l, &m, t, p) && measure_similarity(l, &m, t, p);
    tg_tape_free(t);
    model_free(&m);
    return good;
}

void lesson_free(lesson *l)
{
    free(l->losses);
}
