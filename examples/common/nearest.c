#include "nearest.h"

#include <stdio.h>
#include <string.h>

#define LONGEST 40

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Returns the optimal string alignment distance of two words of at most LONGEST letters. */
static size_t distance(const char *a, size_t rows, const char *b, size_t columns)
{
    size_t d[LONGEST + 1][LONGEST + 1];
    for (size_t i = 0; i <= rows; i++) {
        for (size_t k = 0; k <= columns; k++) {
            if (i == 0 || k == 0) {
                d[i][k] = i + k;
                continue;
            }
            d[i][k] = least(least(d[i - 1][k], d[i][k - 1]) + 1, d[i - 1][k - 1] + (a[i - 1] != b[k - 1]));
            if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1]) {
                d[i][k] = least(d[i][k], d[i - 2][k - 2] + 1);
            }
        }
    }
    return d[rows][columns];
}

void nearest_try(nearest *n, const char *name)
{
    const char *word = n->word + strspn(n->word, "-");
    size_t length = strcspn(word, "="), size = strlen(name);
    if (length == 0 || length > LONGEST || size > LONGEST) {
        return;
    }
    size_t longer = length > size ? length : size;
    size_t found = distance(word, length, name, size);
    if (length > 1 && length < size && strncmp(word, name, length) == 0) {
        found = 1;
    }
    if (found <= (longer + 2) / 3 && (!n->name || found < n->distance)) {
        n->name = name;
        n->distance = found;
    }
}

void nearest_try_all(nearest *n, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        nearest_try(n, names[i]);
    }
}

const char *nearest_text(const nearest *n, const char *dashes, char text[NEAREST_TEXT])
{
    text[0] = '\0';
    if (n->name) {
        snprintf(text, NEAREST_TEXT, "; the nearest is %s%s", dashes, n->name);
    }
    return text;
}
