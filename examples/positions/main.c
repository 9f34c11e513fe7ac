/* positions: what a transformer learns about order, with each kind of positions and with none.
 *
 *     positions [--steps N] [--out DIR]
 *
 * The task: at each place, say which token stood three places before. Without positions, attention over the whole
 * sequence sees a bag of words and cannot do better than guess from it; a causal mask alone leaks some order, because
 * a token that sees three others knows that it is the fourth. Every kind of positions solves the task, but for ALiBi,
 * which prefers what is near and cannot point at the third: it gets better slowly.
 *
 * Three pictures show what was learned. The losses. How strongly the answer at place i (down) depends on the token at
 * place j (across), as the size of the gradient: a solved task is a dark diagonal, three to the left. And how similar
 * places are to the model: red where two have much in common, blue where they are opposites.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../common/curves.h"
#include "../common/program.h"
#include "lesson.h"

const char program_name[] = "positions";

static bool report(const lesson *lessons, int count, int64_t steps, const char *out)
{
    curve curves[CURVES] = {{0}};
    printf("\nWhich token stood %d places before? Guessing among %d is right in %.0f %%, with loss %.3f.\n\n", BACK,
           TOKENS, 100.0 / TOKENS, log(TOKENS));
    printf("  positions          loss    right   states that differ by their place\n");
    for (int k = 0; k < count; k++) {
        const lesson *l = &lessons[k];
        printf("  %-16s %6.3f   %4.0f %%   %5.1f %%\n", l->name, l->loss, 100 * l->right, 100 * l->place_share);
        curves[k] = (curve){.name = l->name, .losses = l->losses, .count = steps};
    }
    bool written = curves_svg(folder_file(out, "losses.svg"), curves, count) &&
                   lessons_influence_svg(folder_file(out, "influence.svg"), lessons, count) &&
                   lessons_similarity_svg(folder_file(out, "similarity.svg"), lessons, count);
    if (written) {
        printf("\nWritten to %s: losses.svg; influence.svg, what each answer depends on; similarity.svg, how alike "
               "places are\n",
               out);
    }
    return written;
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
        good = lesson_learn(&lessons[k], &p, steps);
    }
    good = good && report(lessons, COUNT, steps, out);
    for (int k = 0; k < COUNT; k++) {
        lesson_free(&lessons[k]);
    }
    puzzle_free(&p);
    return good ? 0 : 1;
}
