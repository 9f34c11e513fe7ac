/* tapegrad_mpi: data-parallel training over MPI, with the numbers of one process. A library of its own:
 * mpicc program.c $(pkg-config --cflags --libs tapegrad_mpi).
 *
 * Each rank (process) has the whole model. It computes the gradients of its part of a batch, tg_mpi_reduce replaces
 * them by the sum over all ranks, and every rank takes the same step:
 *
 *     tg_mpi *mpi = tg_mpi_new(MPI_COMM_WORLD, NULL, &error);
 *     loader_config.parts = tg_mpi_size(mpi);
 *     loader_config.part = tg_mpi_rank(mpi);
 *     tg_mpi_broadcast(mpi, params, &error);
 *     for each batch:
 *         tg_tensor *loss = tg_cross_entropy(t, logits, batch.targets, NULL);
 *         tg_optim_zero_grad(optim);
 *         tg_backward(t, loss, NULL);
 *         if (!tg_mpi_reduce(mpi, params, &reduce, &error)) {
 *             leave: every rank has the same error
 *         }
 *         tg_clip_grad_norm(params, 1);
 *         tg_optim_step(optim);
 *
 * Collective calls. Each call below that takes a `tg_mpi *` or a table, except the getters, tg_mpi_on_gradient,
 * tg_mpi_add_sample and tg_mpi_table_free, is collective: all ranks make the same calls in the same order.
 *
 * Errors. A collective call that fails on one rank fails on all of them, with the same error, and none waits for
 * another: so all ranks can end together, and rank 0 can print the message. An error of this rank's run, such as that
 * of an op, is a failure of the next collective call on params of that run, which takes part all the same. Afterwards
 * the run of the params, or of the tape, has the common error on every rank, so no rank takes a step. Every call begins
 * with a message of a few bytes, in which the ranks agree. The error is that of the lowest rank that has one, and
 * begins with its number. If the ranks are in different calls, it is STATE, and a reduction that tg_mpi_begin has
 * started ends. If a size or an option differs that must be equal, such as the number of rows of a table, it is VALUE,
 * with both values and ranks. A failed call changes nothing, unless its comment names an exception, so the right call
 * can follow.
 *
 * The ranks cannot agree on three things. If the `tg_mpi *` or the table of a call is NULL on one rank only, the others
 * wait forever. tg_mpi_new needs the same communicator on all ranks, after MPI was initialized. An error of MPI itself
 * begins with "MPI: ..."; the program should then call MPI_Abort. MPI reports a process that dies.
 *
 * Determinism. The library adds the ranks' numbers in the order of the ranks, and uses MPI only to move them. So with
 * the same number of ranks a training repeats bit for bit if the computation of each rank does. With another number of
 * ranks sums are rounded differently, unless tg_mpi_add_sample orders them.
 *
 * Random numbers. Each rank should drop different units, so make the tape of each rank with a stream of its own:
 * tg_run_new_stream(run, tg_mpi_seed(seed, rank)). The generator of the loader and of the initial values has the same
 * seed on all ranks.
 *
 * Clipping and accumulation. The gradients are equal on all ranks after tg_mpi_reduce, so call tg_clip_grad_norm as in
 * one process. To accumulate, run several backwards and call tg_mpi_reduce after the last one.
 *
 * Threads. All calls come from the thread that initialized MPI, with at least MPI_THREAD_FUNNELED, because kernels run
 * on several threads.
 */
#ifndef TAPEGRAD_MPI_H
#define TAPEGRAD_MPI_H

#include <mpi.h>

#include <tapegrad/checkpoint.h>
#include <tapegrad/ops.h>
#include <tapegrad/params.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- ranks ------------------------------------------------------------------------------------------------------- */

typedef struct tg_mpi tg_mpi;

typedef struct tg_mpi_config {
    /* private: tg_mpi_config_default() sets it */
    tg_config_mark mark;
    /* The size in bytes of the pieces in which dense gradients travel, at least 64. Four pieces are in memory at a
     * time, each twice; a smaller model is one piece. It must be equal on all ranks. Default 4 MiB. */
    int64_t bucket_bytes;
} tg_mpi_config;

TG_API tg_mpi_config tg_mpi_config_default(void);

/* Returns the state of a training over the ranks of a communicator, which it copies. Yours to free, before
 * MPI_Finalize. One tg_mpi serves one tg_params. STATE if MPI was not initialized, or was finalized, for MPI_COMM_NULL
 * and an inter-communicator, and for a thread level below MPI_THREAD_FUNNELED; VALUE for an invalid config; MEMORY. */
TG_API tg_mpi *tg_mpi_new(MPI_Comm communicator, const tg_mpi_config *config, tg_error *error);

/* Frees the state; all ranks must call it. It first completes the messages of a reduction that tg_mpi_begin has
 * started. The params may be freed before. With NULL, which must then be NULL on all ranks, it does nothing. */
TG_API void tg_mpi_free(tg_mpi *mpi);

/* Return the number of this rank, from 0, and the number of ranks; 0 for NULL. */
TG_API int tg_mpi_rank(const tg_mpi *mpi);
TG_API int tg_mpi_size(const tg_mpi *mpi);

/* Returns a seed for a stream of random numbers: stream 0 has the seed itself, and every other stream one that is mixed
 * from both numbers (the finalizer of SplitMix64: Steele, Lea and Flood 2014). */
TG_API uint64_t tg_mpi_seed(uint64_t seed, uint64_t stream);

/* ---- agreement --------------------------------------------------------------------------------------------------- */

/* Returns true if no rank has an error in `local`, which is optional. Otherwise sets the error of the lowest rank that
 * has one, on all ranks. For a program's own checks after which the ranks would otherwise go different ways: when a
 * file was read, or an evaluation has failed. */
TG_API bool tg_mpi_agree(tg_mpi *mpi, const tg_error *local, tg_error *error);

/* Returns the sum of the ranks' values, added in the order of the ranks. NaN after an error. */
TG_API double tg_mpi_sum(tg_mpi *mpi, double value, tg_error *error);

/* Returns the mean of the ranks' values, weighted: the sum of value * weight, divided by the sum of the weights. If the
 * weight is a rank's number of targets, the result is the mean loss over all targets of all ranks. A value with the
 * weight 0 is left out, even NaN. NaN after an error: VALUE if a weight is negative or not finite, or if all are 0. */
TG_API double tg_mpi_mean(tg_mpi *mpi, double value, double weight, tg_error *error);

/* ---- parameters -------------------------------------------------------------------------------------------------- */

/* Copies the values of rank 0's parameters and buffers to all ranks, and prepares the other calls for these params.
 * Call it again after entries were added. VALUE, with the first entry that differs and the ranks, unless all ranks have
 * the same entries in the same order: names, shapes, dtypes, kinds, and whether they require a gradient; MEMORY; an
 * error of the params; STATE if a table has deferred steps (tg_optim_flush), and after tg_mpi_begin or
 * tg_mpi_add_sample. After MEMORY, and if entries differ, no params are prepared. */
TG_API bool tg_mpi_broadcast(tg_mpi *mpi, tg_params *params, tg_error *error);

/* Checks that all ranks have the same values, bit for bit, by a checksum of 64 bits per entry. It reads the whole
 * model, so call it every hundred steps or so. VALUE, with the first entry that differs and the ranks; STATE if a table
 * has deferred steps (tg_optim_flush). */
TG_API bool tg_mpi_check(tg_mpi *mpi, const tg_params *params, tg_error *error);

/* ---- gradients --------------------------------------------------------------------------------------------------- */

/* The share of ranks whose batches have equally many targets: 1 / ranks, or 1 / samples after tg_mpi_add_sample. */
#define TG_MPI_EQUAL_SHARE (-1.0)

typedef struct tg_mpi_reduce_config {
    /* private: tg_mpi_reduce_config_default() sets it */
    tg_config_mark mark;
    /* The factor of this rank's gradients, >= 0. If the loss is the mean over a rank's targets, set it to this rank's
     * fraction of all targets, targets / tg_mpi_sum(targets). If the loss is a sum, set it to 1 or 1 /
     * tg_mpi_sum(targets). Default TG_MPI_EQUAL_SHARE, as in PyTorch's DistributedDataParallel. */
    double share;
    /* Another error of this rank's step than that of the params' run, such as a loss that is not a number. It comes
     * before that of the run: if either is set on any rank, the call fails on all ranks. Borrowed. Default NULL. */
    const tg_error *cause;
} tg_mpi_reduce_config;

TG_API tg_mpi_reduce_config tg_mpi_reduce_config_default(void);

/* Replaces every gradient by the sum of share * gradient over the ranks. Call it between backward and step. The ranks
 * may have different kinds of a gradient: the result is dense if the gradient of any rank is, otherwise by rows if any
 * rank has one, and otherwise none. Rows travel as rows, and take time for the rows of all ranks together. Their order
 * is that of the ranks, and of the rows in each.
 *
 * The error names the step, counted from 1, and the rank: the `cause` of a rank or the error of its run; STATE for
 * params that were not broadcast, or that have other entries since then; VALUE for an invalid share, and, with the
 * entry, unless all ranks have frozen and resized the same parameters; MEMORY. After an error the reduction is over; if
 * tg_mpi_begin has started it, the gradients have no meaning, and otherwise they are those of this rank. */
TG_API bool tg_mpi_reduce(tg_mpi *mpi, tg_params *params, const tg_mpi_reduce_config *config, tg_error *error);

/* Starts a reduction before backward, so that gradients travel while the rest is computed:
 *
 *     tg_mpi_begin(mpi, params, &reduce, &error);
 *     backward.on_gradient = tg_mpi_on_gradient;
 *     backward.context = mpi;
 *     tg_backward(t, loss, &backward);
 *     tg_mpi_reduce(mpi, params, &reduce, &error);
 *
 * The results have the bits of tg_mpi_reduce alone. Gradients that were dense in the last reduction travel early, in
 * the reverse order of the parameters; all others, and those of the first step, in tg_mpi_reduce. A gradient that was
 * dense stays dense, even in a step in which every rank has it by rows. Parameters can be frozen and resized between
 * two steps, but not between this call and tg_mpi_reduce. To accumulate gradients, set on_gradient only in the last
 * backward. The errors are those of tg_mpi_reduce, and STATE for a second call before tg_mpi_reduce or after
 * tg_mpi_add_sample; after an error nothing has begun. */
TG_API bool tg_mpi_begin(tg_mpi *mpi, tg_params *params, const tg_mpi_reduce_config *config, tg_error *error);

/* A value for tg_backward_config.on_gradient; the context is the tg_mpi. */
TG_API void tg_mpi_on_gradient(void *mpi, tg_tensor *leaf);

/* ---- gradients in a fixed order ---------------------------------------------------------------------------------- */

/* Adds the gradients of the params to the samples of this step, and sets them to none. With it a training has the same
 * bits on 1, 2, 4 ... ranks. Each rank, even a single one, runs forward and backward for one window at a time, in the
 * order of its batch, and calls this function after each backward:
 *
 *     for each of this rank's samples / ranks windows:
 *         tg_backward(t, loss of the window, NULL);
 *         tg_mpi_add_sample(mpi, params, samples, &error);
 *     tg_mpi_reduce(mpi, params, NULL, &error);
 *
 * The windows of all ranks, in the order of the ranks, are numbered, and their gradients are added in a binary tree
 * over these numbers. tg_mpi_reduce then replaces every gradient by the sum over all ranks, times the share, by default
 * 1 / samples. `samples` is the number of windows on all ranks. The generator of dropout must depend only on the number
 * of the window: seed it with tg_mpi_seed before each forward. OpenBLAS needs the same number of threads
 * (tg_set_threads).
 *
 * The costs are a forward per window, a copy of the gradients per level of the tree on each rank, and log2(ranks)
 * messages of all gradients, one after the other.
 *
 * Not collective. STATE for params that were not broadcast, after tg_mpi_begin, for more than samples / ranks calls per
 * step, and if a parameter was resized since the first call. VALUE unless the number of ranks is a power of two and
 * divides `samples`, and unless `samples` is the same in all calls of a step. MEMORY. tg_mpi_reduce reports STATE if
 * samples are missing on a rank, or if there are other gradients, and VALUE if `samples` differs between ranks. It
 * always removes the samples; after an error there are no gradients. */
TG_API bool tg_mpi_add_sample(tg_mpi *mpi, tg_params *params, int64_t samples, tg_error *error);

/* ---- tables that are sharded by rows ------------------------------------------------------------------------------
 */
/* For a table that is too large for one rank: rank r owns the rows r p .. r p + p - 1, where p is rows / ranks, rounded
 * up. A lookup fetches the rows that this rank's ids name from their owners, each row once, and the reduction returns
 * their gradients to the owners. So the ranks share the memory and the time of an optimizer's step, and no message has
 * the size of the table (Ivchenko et al. 2022, TorchRec's row-wise sharding).
 *
 * The shard of a rank is a parameter in its own tg_params, with its own optimizer, beside the replicated params of
 * tg_mpi_reduce:
 *
 *     tg_params *shards = tg_params_new(run, TG_F32);
 *     tg_mpi_table *table = tg_mpi_table_new(mpi, shards, "tok_emb", 100000000, 64, &error);
 *     tg_optim *sharded = tg_sparse_adam_new(shards, NULL);
 *     for each batch:
 *         tg_tensor *x = tg_mpi_embedding(t, table, batch.inputs, NULL);
 *         tg_backward(t, loss of x, NULL);
 *         tg_mpi_reduce(mpi, params, &reduce, &error);
 *         tg_mpi_table_reduce(table, &reduce, &error);
 *         tg_mpi_clip_grad_norm(mpi, params, shards, 1, &error);
 *         tg_optim_step(optim), tg_optim_step(sharded);
 */

typedef struct tg_mpi_table tg_mpi_table;

/* Returns a table (rows,width), and adds this rank's rows to `shards` as "<name>.weight". Yours to free, before its
 * tg_mpi and its shards. The values are those that one process draws from N(0,1) for the whole table: the generators of
 * the shards' runs are in the same state on all ranks, and advance as in one process. SHAPE unless every rank owns a
 * row and the width is at least 1, and for more rows than INT32_MAX; VALUE for a name that is in use, and unless name,
 * rows, width, dtype and generator are the same on all ranks; MEMORY. After MEMORY, and if dtypes differ, the shards
 * may have the entry, and the generator may have advanced. */
TG_API tg_mpi_table *tg_mpi_table_new(tg_mpi *mpi, tg_params *shards, const char *name, int64_t rows, int64_t width,
                                      tg_error *error);
TG_API void tg_mpi_table_free(tg_mpi_table *table);

/* Returns the rows of this rank, owned by the shards; and the number of the first of them in the whole table. */
TG_API tg_tensor *tg_mpi_table_shard(const tg_mpi_table *table);
TG_API int64_t tg_mpi_table_first_row(const tg_mpi_table *table);

/* tg_embedding and tg_embedding_bag with the rows of the whole table. Each rank has its own ids, of any number and
 * shape. After an error every rank has the same one in the run of its tape. RANGE, with the index, for
 * an id outside of the table; VALUE for the options max_norm and scale_by_frequency, which need the whole table or the
 * whole batch, and unless either all ranks or none record the lookup. STATE if an optimizer of the shards has deferred
 * steps, because an owner does not apply them before a lookup. The other errors and options are those of the ops. */
TG_API tg_tensor *tg_mpi_embedding(tg_tape *tape, tg_mpi_table *table, tg_tensor *ids,
                                   const tg_embedding_config *config);
TG_API tg_tensor *tg_mpi_embedding_bag(tg_tape *tape, tg_mpi_table *table, tg_tensor *ids,
                                       const tg_embedding_bag_config *config);

/* Adds the sum of share * gradient over all ranks to the gradients of the shards, by rows, in the order of the ranks,
 * for all lookups that were recorded since the last reduction. Config and errors are those of tg_mpi_reduce. The
 * gradients of the lookups are dropped, also after an error. */
TG_API bool tg_mpi_table_reduce(tg_mpi_table *table, const tg_mpi_reduce_config *config, tg_error *error);

/* tg_clip_grad_norm of the replicated params, whose gradients are equal on all ranks, together with the shards of all
 * ranks. As there, INFINITY as max_norm only measures. A norm that is not finite, even if only because of one shard,
 * changes all gradients of all ranks. Returns the norm; NaN after an error: VALUE if max_norm is negative or NaN, and
 * unless it is the same on all ranks. */
TG_API double tg_mpi_clip_grad_norm(tg_mpi *mpi, tg_params *params, tg_params *shards, double max_norm,
                                    tg_error *error);

/* ---- checkpoints of a training with tables ----------------------------------------------------------------------- */

/* tg_checkpoint_save_together and tg_checkpoint_load_together (tapegrad/checkpoint.h) by all ranks: one file with the
 * whole tables, and the state of their optimizers. Any number of ranks can load it, and so can one process with an
 * ordinary table. The other parts are those of rank 0, including its generators. Seed a rank's own generator again
 * after a load, usually with tg_mpi_seed(seed + step, rank). All ranks need the same file system. VALUE unless all
 * ranks give the same path, and parts of the same names. */
TG_API bool tg_mpi_checkpoint_save(tg_mpi *mpi, const char *path, const tg_checkpoint_part *parts, int64_t count,
                                   tg_error *error);
TG_API bool tg_mpi_checkpoint_load(tg_mpi *mpi, const char *path, const tg_checkpoint_part *parts, int64_t count,
                                   tg_error *error);

/* Returns the ranks as a group of writers, for a folder of checkpoints:
 *
 *     tg_checkpoint_folder_config config = tg_checkpoint_folder_config_default();
 *     config.group = tg_mpi_checkpoint_group(mpi);
 *     tg_checkpoint_folder *folder = tg_checkpoint_folder_open("training", &config, &error);
 *
 * Owned by the tg_mpi, which must outlive the folder. The three calls on the folder are collective, except
 * tg_checkpoint_folder_free; rank 0 holds the lock, and its steps count. The ranks agree through this group: a config
 * without its mark, or a folder that is NULL, must not be given on one rank only. NULL for NULL, which is a
 * single writer. */
TG_API const tg_checkpoint_group *tg_mpi_checkpoint_group(tg_mpi *mpi);

#ifdef __cplusplus
}
#endif

#endif
