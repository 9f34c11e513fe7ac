/* fine_tuning: shared by the programs of chapters 6 and 7 and appendix E: their options, the messages of the SMS
 * Spam Collection, and the model that is fine-tuned. */
#ifndef FINE_TUNING_H
#define FINE_TUNING_H

#include "book.h"

#include <tapegrad_tools.h>

typedef struct options {
    /* the folder of --book, or NULL: the program reads a few texts of its own, and its figures are not the book's */
    const char *book;
    /* the file or folder of --weights, or NULL */
    const char *weights;
    /* --steps, or `usual_steps` */
    int64_t steps;
} options;

/* Reads the command line and prints the question that the program answers. --help and --version end the program, and an
 * argument that is no option ends it with status 2. */
options begin(int argc, char **argv, const char *question, int64_t usual_steps);

/* Returns numpy.random.RandomState(seed).permutation(count), by which pandas' sample(random_state=seed) draws rows;
 * free it with free(). */
int64_t *pandas_permutation(uint64_t seed, int64_t count);

/* Returns GPT-2's tokenizer, or without the book one that was trained on the texts. */
tg_tokenizer *tokenizer_of(const options *o, const char *texts);

/* ---- the messages of chapter 6 ---- */

typedef struct message {
    /* the number of its row in the file */
    int64_t row;
    bool is_spam;
    const char *text;
} message;

typedef struct messages {
    message *list;
    int64_t count;
    /* owns the texts; NULL for the messages of the program */
    tg_csv *csv;
} messages;

messages messages_open(const options *o);
void messages_free(messages *m);

/* Keeps as many of the others as there are spams, drawn as by sample(random_state=123), and the spams after them. */
void messages_balance(messages *m);

/* Brings the messages into the order of sample(frac=1, random_state=123). */
void messages_shuffle(messages *m);

/* The three parts of the balanced messages in batches of 8: 70 %, 10 % and 20 %. A batch has the ids (8,length), filled
 * up with the end of text, and the labels (8). */
typedef struct spam_data {
    tg_loader *train, *validation, *test;
    int64_t length;
} spam_data;

/* The length is that of the longest message of the training part. */
spam_data spam_data_new(const messages *shuffled, tg_tokenizer *bpe, tg_run *run);
void spam_data_free(spam_data *d);

/* Prints the sizes of a training batch and the numbers of batches, after the numbers of the cells. */
void spam_data_print(const spam_data *d, int batch_cell, int count_cell);

/* ---- the model ---- */

/* Returns GPT-2 small with the published weights of --weights, or with weights as drawn; without the book and without
 * weights a model of width 32. */
tg_gpt *gpt_to_tune(tg_params *params, const options *o, const tg_tokenizer *bpe, int64_t context);

/* Prints the embeddings and the Linears with their names and sizes, one on a line. */
void print_layers(const tg_params *params);

/* Prints a number as 124,441,346. */
void print_grouped(int64_t number);

/* Returns the number of values that are trained. */
int64_t trained_values(const tg_params *params);

/* Trains the logits of the last token as classes, for at most `steps` steps, and prints the share of right answers in
 * the training and validation parts before and after. */
void train_classifier(tg_tape *t, tg_gpt *model, tg_params *params, const spam_data *d, int64_t steps);

#endif
