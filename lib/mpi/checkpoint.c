/* checkpoint: the ranks as the writers of tg_checkpoint_save_together. */
#include <stdio.h>

#include <tapegrad/checkpoint.h>

#include "mpi/state.h"

static bool agree(const tg_checkpoint_group *group, const tg_error *local, tg_error *error)
{
    const tg_mpi_files *f = (const tg_mpi_files *)group;
    return tg_mpi_agree_on(f->mpi, f->call, 0, local, error);
}

static bool share(const tg_checkpoint_group *group, void *bytes, int64_t size, tg_error *error)
{
    const tg_mpi_files *f = (const tg_mpi_files *)group;
    return tg_mpi_broadcast_bytes(f->mpi, f->call, bytes, size, error);
}

static const tg_checkpoint_group_calls calls = {agree, share};

/* Returns the group of all ranks. */
static tg_mpi_files files_of(tg_mpi *mpi, const char *call)
{
    return (tg_mpi_files){{&calls, mpi->rank, mpi->size}, mpi, call};
}

const tg_checkpoint_group *tg_mpi_checkpoint_group(tg_mpi *mpi)
{
    if (!mpi) {
        return NULL;
    }
    mpi->files = files_of(mpi, "mpi_checkpoint_group");
    return &mpi->files.group;
}

/* Checks what the core does not compare between the ranks: the path, and the names of the parts. */
static bool agree_on_file(tg_mpi *mpi, const char *call, const char *path, const tg_checkpoint_part *parts,
                          int64_t count, tg_error *error)
{
    tg_error local = TG_NO_ERROR;
    (void)(tg_mpi_expect_argument("path", path, &local) &&
           (count < 1 || tg_mpi_expect_argument("array of parts", parts, &local)));
    char names[400] = "";
    size_t used = 0;
    for (int64_t i = 0; parts && i < count && used < sizeof names; i++) {
        const char *name = parts[i].name ? parts[i].name : "";
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", name);
    }
    const tg_mpi_fact facts[] = {{.what = "the path", .text = path ? path : ""},
                                 {.what = "the number of parts", .number = count},
                                 {.what = "the list of parts", .text = names}};
    return tg_mpi_agree_facts(mpi, call, 0, &local, facts, 3, error);
}

bool tg_mpi_checkpoint_save(tg_mpi *mpi, const char *path, const tg_checkpoint_part *parts, int64_t count,
                            tg_error *error)
{
    static const char call[] = "mpi_checkpoint_save";
    if (!tg_mpi_expect(call, "tg_mpi", mpi, error) || !agree_on_file(mpi, call, path, parts, count, error)) {
        return false;
    }
    const tg_mpi_files f = files_of(mpi, call);
    return tg_checkpoint_save_together(path, parts, count, &f.group, error);
}

bool tg_mpi_checkpoint_load(tg_mpi *mpi, const char *path, const tg_checkpoint_part *parts, int64_t count,
                            tg_error *error)
{
    static const char call[] = "mpi_checkpoint_load";
    if (!tg_mpi_expect(call, "tg_mpi", mpi, error) || !agree_on_file(mpi, call, path, parts, count, error)) {
        return false;
    }
    const tg_mpi_files f = files_of(mpi, call);
    return tg_checkpoint_load_together(path, parts, count, &f.group, error);
}
