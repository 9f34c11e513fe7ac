/* positions: what a transformer learns about order, with each kind of positions and with none.
 *
 *     positions [--steps N] [--out DIR]
 *
 * The task: at each place, say which token stood three places before. Without positions, attention over the whole sequence
 * sees a bag of words and cannot do better than guess from it; a causal mask alone leaks some order, because a token that
 * sees three others knows that it is the fourth. Every kind of positions solves the task.
 *
 * The maps show what was learned: how strongly the answer at place i (down) depends on the token at place j (across), as the
 * size of the gradient. A solved task is a dark diagonal, three to the left.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../common/program.h"
#include "task.h"

const char program_name[] = "positions";

/* One line of the table, and one map. */
typedef struct lesson {
    const char *name;
    tg_position kind;
    bool both_directions;
    double loss, right; /* of the last tenth of the steps: mean loss, and answers that were right */
    double influence[LENGTH][LENGTH];
} lesson;

static double share_right(tg_tape *t, tg_tensor *logits, const puzzle *p)
{
    const int32_t *said = tg_data(tg_argmax(t, logits, -1, TG_DROP_AXES)), *answers = tg_data(p->answers);
    int right = 0;
    for (int i = 0; i < BATCH * LENGTH; i++) {
        right += said[i] == answers[i];
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
        puzzle_draw(p, m->rng);
        tg_tape_reset(t);
        tg_tensor *logits = model_forward(t, m, p->tokens, NULL), *loss = tg_cross_entropy(t, logits, p->answers);
        tg_optim_zero_grad(adam);
        if (!tg_backward(t, loss) || !tg_optim_step(adam)) {
            tg_optim_free(adam);
            return complain("%s", tg_tape_error(t));
        }
        if (step > steps - steps / 10 || step == steps) {
            l->loss += tg_item(t, loss);
            l->right += share_right(t, logits, p);
            counted++;
        }
        progress(step, steps, "%-14s loss %.4f", l->name, tg_item(t, loss));
    }
    progress_break();
    l->loss /= (double)counted;
    l->right /= (double)counted;
    tg_optim_free(adam);
    return true;
}

/* For each place i: the gradient of the answers there with respect to every embedded token, its size a token. */
static bool measure(lesson *l, const model *m, tg_tape *t, puzzle *p)
{
    for (int i = 0; i < LENGTH; i++) {
        tg_tensor *embedded;
        tg_tape_reset(t);
        tg_tensor *logits = model_forward(t, m, p->tokens, &embedded);
        tg_tensor *answers = tg_max(t, tg_select(t, logits, 1, i), TG_AXES(-1), TG_DROP_AXES);
        if (!tg_keep_grad(t, embedded) || !tg_backward(t, tg_sum(t, answers, TG_ALL_AXES, TG_DROP_AXES))) {
            return complain("%s", tg_tape_error(t));
        }
        tg_tensor *gradient = tg_grad(embedded); /* (B,T,C) */
        for (int64_t k = 0; k < tg_count(gradient); k++) {
            l->influence[i][k / WIDTH % LENGTH] += fabs(tg_value_at(gradient, k));
        }
    }
    return true;
}

static bool learn(lesson *l, puzzle *p, int64_t steps)
{
    model m;
    bool good = model_make(&m, l->kind, l->both_directions);
    tg_tape *t = tg_tape_new(m.rng);
    good = good && train(l, &m, t, p, steps) && measure(l, &m, t, p);
    tg_tape_free(t);
    model_free(&m);
    return good;
}

/* A square of LENGTH x LENGTH cells a lesson, each row scaled to its largest value. */
static bool draw(const char *path, const lesson *lessons, int count)
{
    enum { CELL = 9, MAP = CELL * LENGTH, GAP = 34, ACROSS = 5 };
    FILE *file = file_begin(path);
    if (!file) {
        return false;
    }
    int width = ACROSS * (MAP + GAP) + GAP, height = (count + ACROSS - 1) / ACROSS * (MAP + GAP) + GAP;
    fprintf(file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" "
            "font-size=\"12\">\n<rect width=\"%d\" height=\"%d\" fill=\"white\"/>\n",
            width, height, width, height);
    for (int k = 0; k < count; k++) {
        int left = GAP + k % ACROSS * (MAP + GAP), top = GAP + k / ACROSS * (MAP + GAP);
        fprintf(file, "<text x=\"%d\" y=\"%d\">%s: %.0f %% right</text>\n", left, top - 6, lessons[k].name,
                100 * lessons[k].right);
        for (int i = 0; i < LENGTH; i++) {
            double most = 0;
            for (int j = 0; j < LENGTH; j++) {
                most = fmax(most, lessons[k].influence[i][j]);
            }
            for (int j = 0; j < LENGTH; j++) {
                int light = 255 - (int)(most > 0 ? 230 * lessons[k].influence[i][j] / most : 0);
                fprintf(file, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"rgb(%d,%d,255)\"/>\n",
                        left + j * CELL, top + i * CELL, CELL, CELL, light, light);
            }
        }
    }
    fprintf(file, "</svg>\n");
    return file_end(file, path);
}

int main(int argc, char **argv)
{
    lesson lessons[] = {
        {.name = "none, both ways", .kind = TG_POSITION_NONE, .both_directions = true},
        {.name = "none, causal", .kind = TG_POSITION_NONE},
        {.name = "learned", .kind = TG_POSITION_LEARNED},
        {.name = "sinusoidal", .kind = TG_POSITION_SINUSOIDAL},
        {.name = "rotary", .kind = TG_POSITION_ROTARY},
        {.name = "alibi", .kind = TG_POSITION_ALIBI},
        {.name = "t5", .kind = TG_POSITION_T5},
        {.name = "shaw", .kind = TG_POSITION_SHAW},
        {.name = "transformer-xl", .kind = TG_POSITION_TRANSFORMER_XL},
    };
    enum { COUNT = sizeof lessons / sizeof *lessons };
    const char *out = "out/positions";
    int64_t steps = 400;
    for (int i = 1; i < argc; i += 2) {
        const char *end = "";
        if (i + 1 < argc && strcmp(argv[i], "--out") == 0) {
            out = argv[i + 1];
        } else if (i + 1 < argc && strcmp(argv[i], "--steps") == 0) {
            steps = strtoll(argv[i + 1], (char **)&end, 10);
        } else {
            complain("'%s': --steps N or --out DIR is wanted", argv[i]);
            return 2;
        }
        if (*end || steps < 1) {
            complain("--steps %s: a whole number from 1 is wanted", argv[i + 1]);
            return 2;
        }
    }
    if (!folder_make(out)) {
        return 2;
    }
    puzzle p = puzzle_new();
    bool good = true;
    for (int k = 0; good && k < COUNT; k++) {
        good = learn(&lessons[k], &p, steps);
    }
    if (good) {
        printf("\nWhich token stood %d places before? Guessing among %d is right in %.0f %%, with loss %.3f.\n\n", BACK,
               TOKENS, 100.0 / TOKENS, log(TOKENS));
        printf("  positions          loss    right\n");
        for (int k = 0; k < COUNT; k++) {
            printf("  %-16s %6.3f   %4.0f %%\n", lessons[k].name, lessons[k].loss, 100 * lessons[k].right);
        }
        good = draw(folder_file(out, "positions.svg"), lessons, COUNT);
    }
    if (good) {
        printf("\nWritten to %s: positions.svg, what each answer depends on\n", out);
    }
    puzzle_free(&p);
    return good ? 0 : 1;
}
