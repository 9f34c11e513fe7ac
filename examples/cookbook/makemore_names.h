/* makemore_names: the names of an invented language, which the programs makemore_* learn. A name has two or three
 * syllables. Its vowels are all bright or all dark, and its beginning decides how it may end. So a model that sees only
 * the character before the next one cannot know all rules. */
#ifndef MAKEMORE_NAMES_H
#define MAKEMORE_NAMES_H

#include "recipe.h"

/* "." is before and after each name, and has the id 0; "a" to "z" have 1 to 26. */
enum { CHARACTERS = 27 };

/* For each character of the names its id, and those of the characters before it, with "." where the name has not begun.
 */
typedef struct windows {
    /* (N,context) and (N) */
    tg_tensor *inputs, *targets;
    /* the loss of the grammar itself; on many names, no model has a lower one */
    double bound;
} windows;

/* Returns the logits (N,CHARACTERS) of what follows the ids (N,context). */
typedef tg_tensor *(*names_forward)(tg_tape *tape, const void *model, tg_tensor *ids);

/* Draws names, and returns their windows; the tape `data` owns them. */
windows names_draw(recipe *r, int count, int context);

/* Draws a batch of the windows, with replacement; the tape of the steps owns it. */
windows names_batch(recipe *r, int size, const windows *all);

/* Returns the loss of a model on all windows, in evaluation. */
double names_loss(recipe *r, names_forward forward, const void *model, const windows *all);

/* Prints names that the model draws, in a line. */
void names_write(recipe *r, names_forward forward, const void *model, int context, int count);

#endif
