/* parallel: the processes that train one model together. The program gpt is one process (parallel_none.c). The program
 * gpt_mpi, the same with parallel_mpi.c, is one of the ranks that mpirun starts; each has its part of every batch.
 *
 * All ranks run the same program, and call these functions in the same order. Rank 0 alone prints and writes files.
 */
#ifndef PARALLEL_H
#define PARALLEL_H

#include <tapegrad.h>

/* Begins, and on ranks above 0 closes stdout. Returns false after printing an error. */
bool parallel_begin(void);

/* Ends the program with an exit status, which it returns. A status above 0 ends all ranks, unless they end by
 * themselves: after parallel_wait, or after a function below has returned false on all of them. */
int parallel_end(int status);

/* Waits until all ranks have done their work. They then end with the same status. */
void parallel_wait(void);

/* Return the number of this rank, from 0, and the number of ranks. */
int parallel_rank(void);
int parallel_ranks(void);

/* Returns a seed for random numbers that differ between ranks. */
uint64_t parallel_seed(uint64_t seed);

/* Gives all ranks the parameters of rank 0, before training. Returns false after printing an error. */
bool parallel_share(tg_params *params);

/* tg_backward, the last of a step or one before. In the last one gradients are sent while others are computed. Returns
 * false, on all ranks, after rank 0 has printed the error: the `cause` of any rank, or that of its tape. */
bool parallel_backward(tg_tape *t, tg_tensor *loss, tg_params *params, bool last, const tg_error *cause);

/* Replaces the gradients by their mean over the ranks. Returns false, on all ranks, after rank 0 has printed the
 * error. */
bool parallel_reduce(tg_params *params);

/* Returns true if all ranks have the same parameters. Returns false, on all ranks, after rank 0 has printed which
 * differ. */
bool parallel_check(const tg_params *params);

/* Returns true if no rank has an error. Returns false, on all ranks, after rank 0 has printed the error of one. */
bool parallel_agree(const tg_error *local);

/* Returns true if a text, such as the value of an option, is the same on all ranks; NULL is a text of its own. Returns
 * false, on all ranks, after rank 0 has printed `name` and the values. */
bool parallel_same(const char *name, const char *text);

/* Returns the sum of the ranks' numbers. */
double parallel_sum(double value);

#endif
