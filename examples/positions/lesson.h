/* lesson: trains a model with one kind of positions, and measures what it learned. */
#ifndef LESSON_H
#define LESSON_H

#include "task.h"

typedef struct lesson {
    const char *name;
    tg_position kind;
    bool is_causal;
    /* one per step; lesson_free frees them */
    float *losses;
    /* means over the last tenth of the steps: the loss, and the share of correct answers, 0 .. 1 */
    double loss, right;

    /* the sum of absolute gradients of the answers at position i with respect to the embedded tokens at position j */
    double influence[LENGTH][LENGTH];

    /* the cosine between the mean states at positions i and j, minus the mean of all states, -1 .. 1 */
    double similarity[LENGTH][LENGTH];
    /* the share of the states' variance that the position explains, 0 .. 1 */
    double position_share;
} lesson;

/* Creates a model, trains it for `steps` steps, and sets all measurements. Returns false after printing an error. */
bool lesson_learn(lesson *l, puzzle *p, int64_t steps);
void lesson_free(lesson *l);

/* Write an SVG file with a map of LENGTH x LENGTH cells per lesson: influence, each row divided by its largest value;
 * or similarity. Return false after printing an error. */
bool lessons_influence_svg(const char *path, const lesson *lessons, int count);
bool lessons_similarity_svg(const char *path, const lesson *lessons, int count);

#endif
