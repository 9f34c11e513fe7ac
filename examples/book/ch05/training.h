/* training: shared by the programs of chapter 5 and appendix D: the model, the story in batches, the loss, and
 * generated text. */
#ifndef TRAINING_H
#define TRAINING_H

#include "../book.h"

#include <tapegrad_text.h>

/* Returns the chapter's model: GPT-2 small with a context of 256. Without the book, one for a short text that is
 * trained in seconds: width 64, 2 layers, a context of 64. */
tg_gpt *model_new(tg_params *params, const char *book, const tg_tokenizer *bpe);

/* The story in batches (2,256), without the book (2,64): the first 90 % of its bytes for training, the rest for
 * validation. */
typedef struct story {
    /* train_again has the same windows as train, and is for evaluations during a pass of train */
    tg_loader *train, *train_again, *validation;
    char *text;
    size_t length;
    /* the number of tokens of the whole story */
    int64_t tokens;
} story;

story story_new(const char *book, tg_tokenizer *bpe, tg_run *run);
void story_free(story *s);

/* Returns the mean cross-entropy of a batch: the chapter's calc_loss_batch. */
tg_tensor *batch_loss(tg_tape *t, const tg_gpt *model, tg_batch batch);

/* Returns the mean loss of the first `batches` batches of a pass, the chapter's calc_loss_loader. Reads the pass to its
 * end. */
double mean_loss(tg_tape *t, const tg_gpt *model, tg_loader *loader, int64_t batches);

/* Prints `start` and `count` greedily generated tokens after it, on one line. */
void print_generated(tg_tape *t, const tg_gpt *model, tg_tokenizer *bpe, const char *start, int64_t count);

/* Prints the text of the ids on one line: newlines become spaces. */
void print_decoded(const tg_tokenizer *bpe, const int32_t *ids, int64_t count);

#endif
