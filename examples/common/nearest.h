/* nearest: finds the name that a mistyped word was meant to be.
 *
 *     nearest n = {.word = "trian"};
 *     for each name:
 *         nearest_try(&n, name);
 *     printf("'%s' is not a command%s", n.word, nearest_text(&n, "", text));
 */
#ifndef NEAREST_H
#define NEAREST_H

#include <stddef.h>

typedef struct nearest {
    const char *word;
    /* the nearest name so far, or NULL; borrowed */
    const char *name;
    size_t distance;
} nearest;

/* Takes a name if no other was nearer. Dashes before the word and "=" behind it are ignored. The distance is the number
 * of letters to insert, remove, replace, or swap with a neighbor, at most a third of them; a word that is the beginning
 * of a name is near, too. */
void nearest_try(nearest *n, const char *name);

/* The same for each of `count` names. */
void nearest_try_all(nearest *n, const char *const *names, size_t count);

/* Returns "; the nearest is NAME", with `dashes` before the name, or "" if none is near. */
#define NEAREST_TEXT 100
const char *nearest_text(const nearest *n, const char *dashes, char text[NEAREST_TEXT]);

#endif
