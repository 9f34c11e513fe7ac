/* vectors FILE: trains vectors of the twelve months, and draws them before and after. The data are pairs of months that
 * are at most two apart; no number says that a year is a circle. */
#include "../../common/program.h"
#include "../../common/svg.h"

const char program_name[] = "site_vectors";

enum { MONTHS = 12, WIDTH = 8, BATCH = 32, STEPS = 400, PLOT = 260, GAP = 40 };

static const char *const names[MONTHS] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                          "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

/* Two directions of the largest variance, by the power method: returns the coordinates (12,2) of the rows. */
static tg_tensor *coordinates(tg_tape *t, tg_tensor *table)
{
    tg_tensor *x = tg_sub(t, table, tg_mean(t, table, TG_AXES(0), TG_KEEP_AXES)), *axes[2];
    tg_tensor *covariance = tg_matmul(t, tg_transpose(t, x, 0, 1), x);
    for (int k = 0; k < 2; k++) {
        tg_tensor *v = tg_slice(t, covariance, 1, k, k + 1, 1);
        for (int i = 0; i < 50; i++) {
            v = tg_matmul(t, covariance, v);
            if (k > 0) {
                tg_tensor *along = tg_sum(t, tg_mul(t, v, axes[0]), TG_AXES(0), TG_KEEP_AXES);
                v = tg_sub(t, v, tg_mul(t, axes[0], along));
            }
            v = tg_div(t, v, tg_norm(t, v, 2, TG_ALL_AXES, TG_DROP_AXES));
        }
        axes[k] = v;
    }
    return tg_matmul(t, x, tg_cat(t, axes, 2, 1));
}

static void plot(FILE *file, const tg_tensor *at, int left, const char *title)
{
    double most = 0, x[MONTHS], y[MONTHS];
    for (int i = 0; i < 2 * MONTHS; i++) {
        double value = tg_tensor_value_at(at, i);
        most = value > most ? value : -value > most ? -value : most;
    }
    fprintf(file, "<text x=\"%d\" y=\"20\">%s</text>\n", left, title);
    for (int i = 0; i < MONTHS; i++) {
        x[i] = left + PLOT / 2 * (1 + 0.9 * tg_tensor_value_at(at, 2 * i) / most);
        y[i] = GAP + PLOT / 2 * (1 + 0.9 * tg_tensor_value_at(at, 2 * i + 1) / most);
    }
    for (int i = 0; i < MONTHS; i++) {
        fprintf(file, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#ccc\"/>\n", x[i], y[i],
                x[(i + 1) % MONTHS], y[(i + 1) % MONTHS]);
    }
    for (int i = 0; i < MONTHS; i++) {
        fprintf(file,
                "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\" fill=\"#1f5f8b\"/><text x=\"%.1f\" y=\"%.1f\">%s</text>\n",
                x[i], y[i], x[i] + 6, y[i] - 4, names[i]);
    }
}

int main(int argc, char **argv)
{
    program_begin();
    if (argc != 2) {
        complain("takes the path of the picture");
        return program_end(2);
    }
    tg_run *run = tg_run_new(123);
    tg_params *params = tg_params_new(run, TG_F32);
    tg_nn_embedding months = tg_nn_embedding_make(params, "month", MONTHS, WIDTH, NULL);
    tg_nn_linear head = tg_nn_linear_make(params, "head", WIDTH, MONTHS, TG_BIAS);
    tg_adam_config config = tg_adam_config_default();
    config.lr = 0.02;
    tg_optim *adam = tg_adam_new(params, &config);
    tg_tape *t = tg_tape_new(run, NULL);
    tg_tensor *before = tg_retain(coordinates(t, tg_detach(t, months.weight)));
    for (int step = 0; step < STEPS; step++) {
        int32_t a[BATCH], b[BATCH];
        for (int i = 0; i < BATCH; i++) {
            a[i] = (int32_t)tg_rng_randint(tg_run_rng(run), 0, MONTHS, NULL);
            b[i] = (a[i] + MONTHS + (int32_t)tg_rng_randint(tg_run_rng(run), 0, 5, NULL) - 2) % MONTHS;
        }
        tg_tape_reset(t);
        tg_tensor *x = tg_nn_embedding_forward(t, &months, tg_constant_i32(t, TG_SHAPE(BATCH), a));
        tg_tensor *logits = tg_nn_linear_forward(t, &head, x);
        tg_tensor *loss = tg_cross_entropy(t, logits, tg_constant_i32(t, TG_SHAPE(BATCH), b), NULL);
        tg_optim_zero_grad(adam);
        tg_backward(t, loss, NULL);
        tg_optim_step(adam);
    }
    tg_tensor *after = coordinates(t, tg_detach(t, months.weight));
    bool good = tg_tape_error(t)->code == TG_OK || complain("%s", tg_tape_error(t)->text);
    FILE *file = good ? svg_begin(argv[1], 2 * (PLOT + GAP) + GAP, PLOT + 2 * GAP) : NULL;
    if (file) {
        plot(file, before, GAP, "before: random");
        plot(file, after, 2 * GAP + PLOT, "after 400 steps");
        good = svg_end(file, argv[1]);
    }
    tg_release(before);
    tg_tape_free(t), tg_optim_free(adam), tg_params_free(params), tg_run_free(run);
    return program_end(good && file ? 0 : 1);
}
