/* book: shared by the programs of the book's chapters: the option --book, the book's files, and output in Python's
 * format. A function that fails ends the program with a message, so that the programs stay short. */
#ifndef BOOK_H
#define BOOK_H

#include <stdio.h>

#include <tapegrad.h>
#include <tapegrad_text.h>

#include "../common/terminal.h"

/* Reads the command line of a program that needs no files. Here and in book_folder, --help and --version end the
 * program, and an argument that is no option ends it with status 2. */
void book_begin(int argc, char **argv);

/* Returns the folder after --book on the command line. Without the option returns NULL: the program then reads a short
 * text of its own, and question() says so. `steps` is optional: the value of --steps, unchanged without it. */
const char *book_folder(int argc, char **argv, int64_t *steps);

/* Ends the program with an error: the argument is no option, or has no value. `option` and `other` are NULL, or names
 * of options beside those of book_begin. */
void book_refuse(const char *argument, const char *option, const char *other);

/* Prints the question that the program answers. Call it first after the command line was read. */
void question(const char *text);

/* Returns a new tape that detects a result which is used after a reset, with reproducible products if the command line
 * has --reproducible. */
tg_tape *book_tape(tg_run *run);

/* Prints the error's text and exits with status 1, unless the code is TG_OK. */
void check(const tg_error *error);

/* Returns main's exit status: 0, or 1 after printing an error if not all that was printed could be written. */
int book_end(void);

/* ---- the book's files; of the programs' own text for a folder of NULL ---- */

/* Returns the text of the story; free it with tg_text_free. */
char *book_text(const char *folder, size_t *length);

/* Returns GPT-2's tokenizer, or one that was trained on the text; free it with tg_tokenizer_free. */
tg_tokenizer *book_tokenizer(const char *folder);

/* Returns a loader over the whole story, without shuffling: the data loader of chapter 2. */
tg_loader *book_loader(const char *folder, int64_t batch_size, int64_t context, int64_t stride, tg_run *run);

/* Returns the next batch of a loader. */
tg_batch next_batch(tg_loader *loader);

/* Returns the first four token ids of each of two sentences of chapter 4, i32 (2,4). */
tg_tensor *book_batch_of_two(const char *folder);

/* ---- output in Python's format ---- */

/* Prints the heading of a cell of the chapter's notebook: [cell 18] */
void cell(int number);

/* Prints [1, 2, 3], without a newline. */
void print_ids(const int32_t *ids, int64_t count);

/* Prints torch.Size([8, 4]). */
void print_shape(const tg_tensor *x);

/* Prints tensor([1, 2, 3]). */
void print_tensor(const tg_tensor *x);

/* Prints the name, a space, and the tensor. */
void print_named(const char *name, const tg_tensor *x);

#endif
