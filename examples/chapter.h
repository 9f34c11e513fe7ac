/* chapter: what the chapter's programs share. A program ends with a message when something fails: it is one page long,
 * and a reader should see what it is about. */
#ifndef CHAPTER_H
#define CHAPTER_H

#include <stdio.h>

#include <tapegrad.h>

/* The folder after --book on the command line. Without one, says which two files it must hold and where they are from,
 * and exits with 2. */
const char *book_folder(int argc, char **argv);

/* A file of the book's, as text; a program's end when it cannot be read. */
char *book_text(const char *folder, size_t *length);
tg_tokenizer *book_tokenizer(const char *folder);

/* Ends the program with the message unless it is empty. */
void check(const char *error);

/* Announces the figures of a cell of the chapter's notebook. */
void cell(int number);

void print_ids(const int32_t *ids, int64_t count); /* [1, 2, 3] */
void print_shape(const tg_tensor *x);              /* torch.Size([8, 4]) */

void print_named(const char *name, const tg_tensor *x); /* the name, a blank, the tensor */

/* The inputs and targets of the first batch, without shuffling. */
tg_batch first_batch(tg_loader *loader);

/* The two sentences that chapter 4 begins with, as ids (2,4). */
tg_tensor *book_batch_of_two(const char *folder);

/* A loader over the whole text, in order, as the chapter makes it. */
tg_loader *book_loader(const char *folder, int64_t batch_size, int64_t max_length, int64_t stride, tg_rng *rng);

#endif
