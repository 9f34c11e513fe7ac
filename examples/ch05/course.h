/* course: what the programs of chapter 5 share. */
#ifndef COURSE_H
#define COURSE_H

#include "../chapter.h"

/* The chapter's model: GPT-2 small with a context of 256. */
tg_gpt *course_model_new(tg_params *params);

/* The first 90 % of the story for training, the rest for validation, in batches of 2 x 256. */
typedef struct course_data {
    tg_loader *train, *train_again, *validation; /* the second is for evaluations inside of a pass through the first */
    char *text;
    size_t length;
    int64_t tokens; /* of the whole story */
} course_data;

course_data course_data_new(const char *book, tg_tokenizer *bpe, tg_rng *rng);
void course_data_free(course_data *data);

/* The mean loss of the first `batches` of a pass, which is read to its end. */
double mean_loss(tg_tape *t, const tg_gpt *model, tg_loader *loader, int64_t batches);

/* `start` and the `count` likeliest tokens after it, without line ends. */
void print_generated(tg_tape *t, const tg_gpt *model, tg_tokenizer *bpe, const char *start, int64_t count);
void print_decoded(const tg_tokenizer *bpe, const int32_t *ids, int64_t count);

#endif
