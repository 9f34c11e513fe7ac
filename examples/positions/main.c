/* positions: trains a small transformer with each kind of positions, and without, on a task that needs order.
 *
 *     positions [--steps N] [--out DIR]
 *
 * The task: at each position, predict the token three positions before. Without positions, attention over the whole
 * sequence depends only on which tokens occur, not on their order, so the model can only guess. A causal mask alone
 * gives some information about order: the fourth token is the one that attends to three others. Every kind of positions
 * solves the task except ALiBi. ALiBi prefers near tokens and cannot select the third one before, so its loss falls
 * slowly.
 *
 * The program writes three pictures:
 *
 *   losses.svg       the loss of each model at each step
 *   influence.svg    the dependence of the answer at position i (down) on the token at position j (across), measured by
 *                    the gradient; if the task is solved, a dark diagonal is visible three cells left of the main one
 *   similarity.svg   the cosine between the mean states of two positions: red if positive, blue if negative
 */
#include <math.h>

#include "../common/command_line.h"
#include "../common/curves.h"
#include "../common/program.h"
#include "../common/terminal.h"
#include "lesson.h"

const char program_name[] = "positions";

static const char introduction[] =
    "positions: trains a small transformer with each kind of positions, and without, on a "
    "task that needs the order of\nthe tokens, and draws what it learned.\n";

typedef struct options {
    int64_t steps;
    const char *out;
} options;

static const command_line_option table[] = {
    {"steps", "N", VALUE_INTEGER, offsetof(options, steps), "[1,10000000]", "training steps of each model", 1},
    {"out", "DIR", VALUE_TEXT, offsetof(options, out), NULL, "folder for the pictures", 1},
};

static bool report(const lesson *lessons, int count, int64_t steps, const char *out)
{
    curve curves[CURVES] = {{0}};
    printf("\nWhich token is %d positions back? A guess among %d tokens is correct in %.0f %%, with loss %.3f.\n\n",
           BACK, TOKENS, 100.0 / TOKENS, log(TOKENS));
    printf("  positions          loss  correct   variance of states explained by position\n");
    for (int k = 0; k < count; k++) {
        const lesson *l = &lessons[k];
        printf("  %-16s %6.3f   %4.0f %%   %5.1f %%\n", l->name, l->loss, 100 * l->right, 100 * l->position_share);
        curves[k] = (curve){.name = l->name, .losses = l->losses, .count = steps};
    }
    bool written = curves_svg(folder_file(out, "losses.svg"), "loss", curves, count) &&
                   lessons_influence_svg(folder_file(out, "influence.svg"), lessons, count) &&
                   lessons_similarity_svg(folder_file(out, "similarity.svg"), lessons, count);
    if (written) {
        printf("\n");
        print_line(stdout,
                   "Written to %s: losses.svg; influence.svg, the tokens that each answer depends on; similarity.svg, "
                   "the similarity of positions",
                   out);
    }
    return written;
}

static int run(int argc, char **argv)
{
    lesson lessons[] = {
        {.name = "none, both ways", .kind = TG_POSITION_NONE},
        {.name = "none, causal", .kind = TG_POSITION_NONE, .is_causal = true},
        {.name = "learned", .kind = TG_POSITION_LEARNED, .is_causal = true},
        {.name = "sinusoidal", .kind = TG_POSITION_SINUSOIDAL, .is_causal = true},
        {.name = "rotary", .kind = TG_POSITION_ROTARY, .is_causal = true},
        {.name = "alibi", .kind = TG_POSITION_ALIBI, .is_causal = true},
        {.name = "t5", .kind = TG_POSITION_T5, .is_causal = true},
        {.name = "shaw", .kind = TG_POSITION_SHAW, .is_causal = true},
        {.name = "transformer-xl", .kind = TG_POSITION_TRANSFORMER_XL, .is_causal = true},
        {.name = "deberta", .kind = TG_POSITION_DEBERTA, .is_causal = true},
    };
    enum { COUNT = sizeof lessons / sizeof *lessons };
    options o = {.out = "out/positions", .steps = 400};
    int status = command_line_read(table, sizeof table / sizeof *table, 1, introduction, &o, argc, argv);
    if (status >= 0) {
        return status;
    }
    if (!folder_make(o.out)) {
        return 2;
    }
    puzzle p = puzzle_new();
    bool good = true;
    for (int k = 0; good && k < COUNT; k++) {
        good = lesson_learn(&lessons[k], &p, o.steps);
    }
    good = good && report(lessons, COUNT, o.steps, o.out);
    for (int k = 0; k < COUNT; k++) {
        lesson_free(&lessons[k]);
    }
    puzzle_free(&p);
    return good ? 0 : 1;
}

int main(int argc, char **argv)
{
    program_begin();
    return program_end(run(argc, argv));
}
