/* post_training: shared by the programs of this folder: a small decoder that answers sums in a chat, the chats as
 * tokens, their log-probabilities, a training on right answers before the actual one, and the count of right answers.
 * All computes in f64: a draw then depends on no rounding, so that a twin draws the same tokens over hundreds of
 * steps. */
#ifndef POST_TRAINING_H
#define POST_TRAINING_H

#include "../cookbook/recipe.h"

/* The tokens: the digits, which are their own ids, then these. */
enum { PLUS = 10, NEWLINE, USER, ASSISTANT, BEGIN, END, VOCABULARY };

/* The tokens of a question, of an answer with its END, and of both without the last one; the sums of two digits. */
enum { QUESTION = 11, ANSWER = 3, LENGTH = QUESTION + ANSWER - 1, SUMS = 100 };

/* The longest text, the target that does not count, and the most texts of a batch. */
enum { CONTEXT = 64, NO_TARGET = -100, MOST = 128 };

/* A model and its parameters. */
typedef struct decoder {
    tg_params *params;
    tg_gpt *model;
} decoder;

decoder decoder_make(const recipe *r, int64_t vocabulary, int64_t width, int64_t layers);
void decoder_free(decoder *d);

/* Returns a second decoder with the same values. */
decoder decoder_copy(recipe *r, const decoder *d);

/* Returns whether both have the same tokens, without which their probabilities cannot be compared; prints an error if
 * not. */
bool decoder_has_tokens_of(const decoder *reference, const decoder *d);

/* Returns the value of a scalar. */
double item(recipe *r, const tg_tensor *x);

/* Two numbers of one digit. */
typedef struct sum {
    int32_t a, b;
} sum;

/* The tokens of an answer up to END; behind it there is nothing to read. */
typedef struct answer {
    int32_t ids[ANSWER];
} answer;

/* Draws sums, each of SUMS with the same probability. */
void draw_sums(recipe *r, sum *sums, int64_t count);

/* Returns the answer with the last digits of a number: of 7 and 12, 07 and 12, or 7 and 2. */
answer answer_of(int32_t number, int digits);

/* Returns the number of its tokens, END included. */
int answer_length(const answer *a);

/* Returns whether an answer is the sum, with its last digits. */
bool is_right(sum s, const answer *a, int digits);

/* Writes the ids of a text that consists of the tokens, at most `most`, and returns their number. */
int64_t encode(const char *text, int32_t *ids, int64_t most);

/* Texts for a model: ids (N,LENGTH), and the targets of its answers, (N,LENGTH); NO_TARGET elsewhere. */
typedef struct chats {
    tg_tensor *ids, *targets;
} chats;

/* Returns chats with one question and its answer each, at most MOST, as constants of the tape. */
chats chats_make(recipe *r, const sum *sums, const answer *answers, int64_t count);

/* Returns log p(target | the tokens before it), (N,LENGTH); 0 where there is no target. */
tg_tensor *log_probs_of(recipe *r, const decoder *d, const chats *c);

/* Returns the same for the reference of a decoder, without a gradient. Ends the program if the two have different
 * tokens. */
tg_tensor *reference_log_probs(recipe *r, const decoder *reference, const decoder *d, const chats *c);

/* Writes the answer of the model to each sum, and the log-probabilities (count,ANSWER) of its tokens, if any. */
void answer_sums(recipe *r, const decoder *d, const sum *sums, int64_t count, bool greedy, answer *answers,
                 double *log_probs);

/* Returns the number of answers to all SUMS that are right, with their last digits. Each token is the most probable
 * one. */
int count_right(recipe *r, const decoder *d, int digits);

/* Returns the advantages of groups of answers, (groups,answers), from their rewards: reward less the mean of its group,
 * divided by the group's standard deviation; 0 for a group without spread. */
tg_tensor *group_advantages(tg_tape *t, tg_tensor *rewards);

/* Makes r->optim train this decoder by AdamW. */
void train_by_adam(recipe *r, const decoder *d, double lr);

/* A step of r->optim that lowers the loss; the norm of the gradient is at most 1. */
void step_down(recipe *r, const decoder *d, tg_tensor *loss);

/* Trains on chats of sums, whose answers are right. This share of them has two digits, and the others one. */
void train_on_answers(recipe *r, const decoder *d, int steps, double two_digits);

#endif
