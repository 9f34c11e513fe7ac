/* makemore_names: the names of an invented language, which the programs makemore_* learn. A name has two or three
 * syllables. Its vowels are all bright or all dark, and its beginning decides how it may end. So a model that sees only
 * the character before the next one cannot know all rules. */
#include "makemore_names.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const onsets[] = {"b", "d", "k", "l", "m", "t", "f", "n", "r", "s", "br", "th"};
static const char *const endings[] = {"", "n", "l", "s", "r", "k"};
static const char *const vowels[] = {"eiy", "aou"};

/* SYLLABLES is the largest number of them, and NAME_BYTES that of a name's characters with the "." after it. */
enum { ONSETS = 12, SYLLABLES = 3, DRAWS = 3 + 2 * SYLLABLES, NAME_BYTES = 3 * SYLLABLES + 2 };

/* Writes names into the text, each with a "." after it. */
static void draw(recipe *r, int count, char *text)
{
    /* 12, the largest number of choices, and the others are divisors of 12 */
    tg_tensor *draws = recipe_randint(r, TG_SHAPE(count, DRAWS), 0, ONSETS);
    const int32_t *d = tg_tensor_data(draws);
    for (int i = 0; i < count; i++, d += DRAWS) {
        for (int s = 0; s < 2 + d[1] % 2; s++) {
            text += sprintf(text, "%s%c", onsets[d[3 + 2 * s]], vowels[d[0] % 2][d[4 + 2 * s] % 3]);
        }
        text += sprintf(text, "%s.", endings[d[3] / 6 * 3 + d[2] % 3]);
    }
}

windows names_draw(recipe *r, int count, int context)
{
    char *text = calloc((size_t)count, NAME_BYTES + 1);
    if (!text) {
        complain("no memory for %d names", count);
        exit(program_end(1));
    }
    draw(r, count, text);
    int64_t length = (int64_t)strlen(text);
    windows all = {tg_full(r->data, TG_I32, TG_SHAPE(length, context), 0),
                   tg_full(r->data, TG_I32, TG_SHAPE(length), 0), 0};
    recipe_check(r);
    int32_t *window = tg_tensor_data_mut(all.inputs), *target = tg_tensor_data_mut(all.targets);
    for (int64_t i = 0; i < length; i++, window += context) {
        target[i] = text[i] == '.' ? 0 : text[i] - 'a' + 1;
        if (i + 1 < length && text[i] != '.') {
            memcpy(window + context, window + 1, (size_t)(context - 1) * sizeof *window);
            window[2 * context - 1] = target[i];
        }
        /* the choices of a name: its vowels, number of syllables and ending; those of a syllable: onset and vowel */
        double choices = text[i] == '.' ? 2 * 2 * 3 : strchr("aeiouy", text[i]) ? ONSETS * 3 : 1;
        all.bound += log(choices) / (double)length;
    }
    free(text);
    return all;
}

windows names_batch(recipe *r, int size, const windows *all)
{
    tg_tensor *rows = tg_full(r->tape, TG_I32, TG_SHAPE(size), 0);
    tg_tensor_fill_randint(rows, tg_run_rng(r->run), 0, tg_tensor_count(all->targets), &r->error);
    return (windows){tg_index_select(r->tape, all->inputs, 0, rows), tg_index_select(r->tape, all->targets, 0, rows),
                     all->bound};
}

double names_loss(recipe *r, names_forward forward, const void *model, const windows *all)
{
    tg_tape_reset(r->tape);
    tg_evaluation before = tg_evaluation_begin(r->tape);
    tg_tensor *logits = forward(r->tape, model, all->inputs);
    double loss = tg_tensor_item(tg_cross_entropy(r->tape, logits, all->targets, NULL), &r->error);
    tg_evaluation_end(r->tape, before);
    recipe_check(r);
    return loss;
}

void names_write(recipe *r, names_forward forward, const void *model, int context, int count)
{
    tg_evaluation before = tg_evaluation_begin(r->tape);
    for (int i = 0; i < count; i++) {
        tg_tape_reset(r->tape);
        tg_tensor *window = tg_full(r->tape, TG_I32, TG_SHAPE(1, context), 0);
        int id;
        do {
            tg_tensor *next =
                tg_multinomial(r->tape, tg_softmax(r->tape, forward(r->tape, model, window), -1), 1, true);
            window = tg_cat(r->tape, (tg_tensor *[]){tg_slice(r->tape, window, 1, 1, context, 1), next}, 2, 1);
            id = (int)tg_tensor_item(next, &r->error);
            recipe_check(r);
            printf("%c", id ? 'a' + id - 1 : i + 1 < count ? ' ' : '\n');
        } while (id);
    }
    tg_evaluation_end(r->tape, before);
}
