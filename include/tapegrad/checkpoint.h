/* checkpoint: saves a whole training in one file, and continues it with the same bits.
 *
 * A checkpoint is a list of named parts. The same list saves and loads:
 *
 * ```c
 * int64_t step = 100;
 * double best_loss = 3.5;
 * const tg_checkpoint_part parts[] = {
 *     tg_checkpoint_params("model", params),
 *     tg_checkpoint_optim("optim", optim),
 *     tg_checkpoint_rng("rng", tg_run_rng(run)),
 *     tg_checkpoint_integer("step", &step),
 *     tg_checkpoint_number("best_loss", &best_loss),
 *     tg_checkpoint_expect_integer("width", 4),
 * };
 * tg_checkpoint_save("last.safetensors", parts, 6, &error);
 * tg_checkpoint_load("last.safetensors", parts, 6, &error);
 * ```
 *
 * The file is a safetensors file (tapegrad/io.h), and other programs can read it. Errors are those of tapegrad/io.h.
 */
#ifndef TAPEGRAD_CHECKPOINT_H
#define TAPEGRAD_CHECKPOINT_H

#include <tapegrad/data.h>
#include <tapegrad/io.h>
#include <tapegrad/optim.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- parts ------------------------------------------------------------------------------------------------------- */
/* Each function returns a part with the name P, for a save and a load. The name, the object and the values are borrowed
 * until the save or the load has returned, which also reports the errors: STATE for a NULL, VALUE for a name that is
 * not 1 to 255 bytes long. */

typedef struct tg_checkpoint_part {
    /* private */
    const char *name;
    const struct tg_part_kind *kind;
    union {
        const void *object;
        tg_params *params;
        tg_optim *optim;
        tg_rng *rng;
        tg_loader *loader;
        int64_t *integer;
        double *number;
        const char *text;
        const void *bytes;
    };
    int64_t size, expected;
} tg_checkpoint_part;

/* Saves the tensors of params as "P.tok_emb.weight", ...; for tables also "P_frozen_rows.NAME" (V), 1 for a frozen row,
 * and "P_row_updates.NAME" (V,2), the counts and the last steps; frozen rows always for a sharded table. A load sets
 * them all, and leaves the gradients. It reports VALUE for a tensor that is missing, unexpected, or of another shape or
 * dtype. */
TG_API tg_checkpoint_part tg_checkpoint_params(const char *name, tg_params *params);

/* Saves the state tensors of an optimizer under torch's keys, "P.exp_avg.NAME", ..., the number of steps "P.step.NAME",
 * and "P.group.GROUP" (2), a learning rate and a weight decay. A load sets them all. It reports VALUE for another kind
 * of optimizer, and for a group that the file does not have. */
TG_API tg_checkpoint_part tg_checkpoint_optim(const char *name, tg_optim *optim);

/* Saves the state of a generator: "P" (5056), the bytes that torch.set_rng_state takes, and in the metadata the
 * position and the profile. A load sets it. */
TG_API tg_checkpoint_part tg_checkpoint_rng(const char *name, tg_rng *rng);

/* Saves the position of a loader in its pass, the seed of the pass's order, and the loader's config, in the metadata. A
 * load sets the position and the seed. It reports VALUE for a loader with another config or another number of items. */
TG_API tg_checkpoint_part tg_checkpoint_loader(const char *name, tg_loader *loader);

/* Save an integer in the metadata, under the key "P", and a number as the tensor "P" (). A load sets it. */
TG_API tg_checkpoint_part tg_checkpoint_integer(const char *name, int64_t *integer);
TG_API tg_checkpoint_part tg_checkpoint_number(const char *name, double *number);

/* Save a text in the metadata, under the key "P", and `size` bytes as the tensor "P" (size). `bytes` may be NULL if
 * `size` is 0. A load skips them, and does not need them in the file; tg_checkpoint_read_text and
 * tg_checkpoint_read_bytes return them. */
TG_API tg_checkpoint_part tg_checkpoint_text(const char *name, const char *text);
TG_API tg_checkpoint_part tg_checkpoint_bytes(const char *name, const void *bytes, int64_t size);

/* Save an integer, a text or bytes in the same way. A load compares them with those of the file, and reports VALUE
 * unless they are equal. For what must stay the same when a training continues: the number of tokens, a configuration,
 * a vocabulary. */
TG_API tg_checkpoint_part tg_checkpoint_expect_integer(const char *name, int64_t expected);
TG_API tg_checkpoint_part tg_checkpoint_expect_text(const char *name, const char *text);
TG_API tg_checkpoint_part tg_checkpoint_expect_bytes(const char *name, const void *bytes, int64_t size);

/* ---- one file ---------------------------------------------------------------------------------------------------- */

/* Writes the parts to a file, as a whole or not at all (tapegrad/io.h). VALUE for a part without a name or with a name
 * that another part has; STATE for an object that is NULL or has an error, for an optimizer whose params have got other
 * entries since it was created, and if a table was resized after the last step of its optimizer, or has deferred steps
 * (tg_optim_flush). */
TG_API bool tg_checkpoint_save(const char *path, const tg_checkpoint_part *parts, int64_t count, tg_error *error);

/* Reads the parts from a file, all or none: after an error nothing has changed. The objects must have been created as
 * those that were saved. The file may have other parts, which are left out. FORMAT for an invalid file; VALUE for a
 * part that the file does not have, and for one that does not fit, as above. */
TG_API bool tg_checkpoint_load(const char *path, const tg_checkpoint_part *parts, int64_t count, tg_error *error);

/* ---- several writers of one file --------------------------------------------------------------------------------- */
/* A group of writers saves one file with the whole tables, of which each has some rows (tapegrad/rows.h). All other
 * objects are those of writer 0. A group of any size can load the file. What the writers are is known only to the
 * library that creates the group: in tapegrad_mpi.h they are the ranks. */

typedef struct tg_checkpoint_group tg_checkpoint_group;

/* How the writers of a group work together: a constant of the library that creates the group. All writers call the
 * functions in the same order; they are not called in a group of one. */
typedef struct tg_checkpoint_group_calls {
    /* Waits for all writers. Returns true if none of them has an error in `local`; otherwise sets one of the errors in
     * all of them, and returns false. */
    bool (*agree)(const tg_checkpoint_group *group, const tg_error *local, tg_error *error);
    /* Copies `size` bytes of writer 0 to all writers. Returns false with the error set. */
    bool (*share)(const tg_checkpoint_group *group, void *bytes, int64_t size, tg_error *error);
} tg_checkpoint_group_calls;

/* A group, in one of its writers: the first member of a struct that has what the functions need. */
struct tg_checkpoint_group {
    const tg_checkpoint_group_calls *calls;
    /* the number of this writer, from 0, and the number of writers, at least 1 */
    int64_t index, count;
};

/* tg_checkpoint_save and tg_checkpoint_load by all writers of a group. Each passes the same parts, with its shards. One
 * writer after the other adds its rows to the new file, which then replaces the old one; so all need the same file
 * system. No writer needs memory for more than its shards; a load needs it twice. After an error nothing has changed in
 * any of them. VALUE unless the tensors of all writers have the same names, dtypes and whole shapes. A group of NULL is
 * a single writer. */
TG_API bool tg_checkpoint_save_together(const char *path, const tg_checkpoint_part *parts, int64_t count,
                                        const tg_checkpoint_group *group, tg_error *error);
TG_API bool tg_checkpoint_load_together(const char *path, const tg_checkpoint_part *parts, int64_t count,
                                        const tg_checkpoint_group *group, tg_error *error);

/* ---- single parts ------------------------------------------------------------------------------------------------ */

/* Return a text or the bytes of a file, for example to create the model that the file holds. The texts are those of the
 * metadata of any safetensors file, such as one of tg_params_save. Yours to free with tg_text_free; a NUL
 * comes after the last byte. NULL after an error: VALUE for a part that the file does not have. */
TG_API char *tg_checkpoint_read_text(const char *path, const char *name, tg_error *error);
TG_API char *tg_checkpoint_read_bytes(const char *path, const char *name, int64_t *size, tg_error *error);

/* ---- the folder of a training ------------------------------------------------------------------------------------ */
/* A training writes "step-00000100.safetensors", "step-00000200.safetensors", ..., and two small files: "last" with the
 * names of the last ones in the order in which they were written, and "best" with the name of the best one. The last
 * checkpoints and the best one stay, older ones are removed.
 *
 * The last ones are those that were written last, whatever their steps are. So a training can go back to an earlier
 * checkpoint, or start again at step 0 in its folder: what it saves is kept and is the last one, and the checkpoints
 * that it leaves behind are removed one after the other. tg_checkpoint_folder_clear removes them at once. */

typedef struct tg_checkpoint_folder tg_checkpoint_folder;

typedef struct tg_checkpoint_folder_config {
    /* private: tg_checkpoint_folder_config_default() sets it */
    tg_config_mark mark;
    /* the number of checkpoints, in the order of writing the last ones, that stay; at least 1; default 3 */
    int64_t keep;
    /* Several writers with one folder (over MPI tg_mpi_checkpoint_group): all of them open, save and clear it together,
     * writer 0 has the lock, and an error of one is that of all. Borrowed until the folder is freed. Default NULL, a
     * single writer. */
    const tg_checkpoint_group *group;
} tg_checkpoint_folder_config;

TG_API tg_checkpoint_folder_config tg_checkpoint_folder_config_default(void);

/* Opens the folder of a training for writing, and creates it if it does not exist. Yours to free. It is locked until
 * then, or until the process and those that it has forked have ended: another program, or another call, gets STATE. A
 * forked process cannot write to it (STATE); its tg_checkpoint_folder_free frees memory only. Removes what a training
 * that was killed left behind. NULL after an error: VALUE for an invalid option, FILE, MEMORY. */
TG_API tg_checkpoint_folder *tg_checkpoint_folder_open(const char *path, const tg_checkpoint_folder_config *config,
                                                       tg_error *error);
TG_API void tg_checkpoint_folder_free(tg_checkpoint_folder *folder);

/* Saves a checkpoint of a step, 0 to 99999999, and removes old ones. With `is_best` the file "best" names it. An
 * existing checkpoint of the step is replaced; if that was the best one, and the new one is not, the folder has no best
 * one. RANGE for a step out of bounds, FORMAT if "last" or "best" do not name checkpoints; the errors of
 * tg_checkpoint_save. */
TG_API bool tg_checkpoint_folder_save(tg_checkpoint_folder *folder, int64_t step, bool is_best,
                                      const tg_checkpoint_part *parts, int64_t count, tg_error *error);

/* Removes all checkpoints of the folder, and the files "last" and "best". STATE for a NULL, FILE if one cannot be
 * removed. */
TG_API bool tg_checkpoint_folder_clear(tg_checkpoint_folder *folder, tg_error *error);

typedef enum tg_checkpoint_choice {
    /* the one that was written last, as the file "last" has it; without that file the one with the largest step */
    TG_CHECKPOINT_LAST,
    /* the one that the file "best" names; without that file the last one */
    TG_CHECKPOINT_BEST
} tg_checkpoint_choice;

/* Returns the path of a checkpoint in a folder; yours to free with tg_text_free. A folder can be read while another
 * program writes to it. NULL after an error: FILE for a folder without a checkpoint, and if somebody has removed the
 * best one; FORMAT if "last" or "best" do not name checkpoints. */
TG_API char *tg_checkpoint_find(const char *folder, tg_checkpoint_choice choice, tg_error *error);

#ifdef __cplusplus
}
#endif

#endif
