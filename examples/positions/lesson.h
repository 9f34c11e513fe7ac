/* lesson: one model, trained and looked into. */
#ifndef LESSON_H
#define LESSON_H

#include "task.h"

typedef struct lesson {
    const char *name;
    tg_position kind;
    bool both_directions;
    float *losses;      /* one a step; lesson_free */
    double loss, right; /* of the last tenth of the steps: mean loss, and answers that were right */

    /* How strongly the answer at place i depends on the token at place j: the size of the gradient. */
    double influence[LENGTH][LENGTH];

    /* The cosine between what the model's states have in common at place i and at place j, over many sequences of
     * random tokens: -1 .. 1. And how much of what makes states differ is the place, 0 .. 1. */
    double similarity[LENGTH][LENGTH];
    double place_share;
} lesson;

/* Trains for `steps` and measures. False after complaining. */
bool lesson_learn(lesson *l, puzzle *p, int64_t steps);
void lesson_free(lesson *l);

/* A square of LENGTH x LENGTH cells a lesson: influence, each row scaled to its largest value, or similarity. */
bool lessons_influence_svg(const char *path, const lesson *lessons, int count);
bool lessons_similarity_svg(const char *path, const lesson *lessons, int count);

#endif
