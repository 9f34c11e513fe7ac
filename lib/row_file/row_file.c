/* row_file: a table in a file, its lookups and its steps.
 *
 * A lookup reads the U different rows that its ids name into a leaf (U,C). The op is that of an ordinary table, with
 * this leaf as its table and the index of each row in it as its id. A step computes new rows from those of the leaf,
 * which stay as they are, and writes them. Before a lookup reads, it tells the system all of its rows. So the disk
 * reads many at a time, and one thread is enough.
 *
 * If a process is killed, a write within a page was made or was not: systems copy it into their cache page by page,
 * and end a process between two pages. So a row and its s never cross the end of a page, although that wastes a part
 * of most pages. A journal would write each row twice, and the s in a file of their own could be a step behind.
 *
 * The lock belongs to the open file, which a forked child shares. So the owner unlocks before it closes, as in
 * files/checkpoint_folder.c.
 */
#include <errno.h>
#include <math.h>

#include <tapegrad/row_file.h>

#include "base/alloc.h"
#include "base/file.h"
#include "ops/embedding/embedding.h"
#include "optim/optim.h"
#include "tensor/gradient.h"

#define FORMAT "tapegrad rows f32"
#define PAGE 4096
#define FLOATS (PAGE / (int)sizeof(float)) /* the most floats of a row with its s */

static const char new_call[] = "row_file_new";
static const char open_call[] = "row_file_open";
static const char lookup_call[] = "row_file_lookup";
static const char step_call[] = "row_file_step";

TG_DECLARE_UPDATE(tg_adagrad_update_rows);

/* The first bytes of the file, in the order of the processor. */
typedef struct header {
    char format[24];
    uint64_t version;
    int64_t rows, width;
    double eps, initial_accumulator;
} header;

/* The rows that a lookup has read. */
typedef struct lookup {
    tg_tensor *rows; /* (U,C), a leaf */
    int32_t *ids;    /* their numbers in the file, ascending */
    float *sums;     /* the s of each */
    tg_run *run;     /* that of the tape */
} lookup;

struct tg_row_file {
    tg_file file;  /* with a path of its own */
    int64_t owner; /* the process that holds the lock */
    int64_t rows, width, per_page;
    double eps;
    lookup *lookups; /* since the last step */
    size_t count, capacity;
};

/* ---- a new file ---- */

TG_CONFIG(tg_row_file_config, tg_row_file_config_default, mark, .mark = mark, .std = 1, .eps = 1e-8);

static bool check_sizes(const char *call, int64_t rows, int64_t width, tg_error *error)
{
    return (rows >= 1 && rows <= INT32_MAX && width >= 1 && width < FLOATS) ||
           tg_error_set(error, TG_ERROR_SHAPE, "%s: %lld rows of width %lld; at least 1 and at most %d and %d", call,
                        (long long)rows, (long long)width, INT32_MAX, FLOATS - 1);
}

/* Writes all rows. The values of a large tensor are drawn in blocks of 16 (base/random.h), so a part of it can be drawn
 * alone if it begins at a multiple of 16 and is not a shorter last one. */
static bool write_rows(tg_file_writer *w, const header *h, tg_rng *rng, double std, tg_error *error)
{
    int64_t per_page = FLOATS / (h->width + 1), part = 16 * per_page;
    float *values = tg_alloc_zeroed((uint64_t)(2 * part * h->width), sizeof *values);
    bool is_good = values || tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory", new_call);
    for (int64_t left = h->rows, count; is_good && left > 0; left -= count) {
        count = left < 2 * part ? left : part;
        if (rng) {
            tg_rng_normal_f32(rng, values, count * h->width, 0, std);
        }
        for (int64_t row = 0; is_good && row < count;) {
            float page[FLOATS] = {0}, *to = page;
            for (int64_t end = row + per_page; row < end && row < count; row++, to += h->width + 1) {
                memcpy(to, values + row * h->width, (size_t)h->width * sizeof *to);
                to[h->width] = (float)h->initial_accumulator;
            }
            is_good = tg_file_writer_write(w, page, sizeof page, error);
        }
    }
    tg_free(values);
    return is_good;
}

tg_row_file *tg_row_file_new(const char *path, int64_t rows, int64_t width, const tg_row_file_config *given,
                             tg_error *error)
{
    tg_row_file_config config = given ? *given : tg_row_file_config_default();
    if (!tg_config_check(new_call, given, mark, error) || !check_sizes(new_call, rows, width, error) ||
        !tg_check_option(new_call, "std", config.std, error) || !tg_check_option(new_call, "eps", config.eps, error) ||
        !tg_check_option(new_call, "initial accumulator", config.initial_accumulator, error)) {
        return NULL;
    }
    if (path && tg_system_status(path).kind != TG_PATH_NONE) {
        tg_error_set(error, TG_ERROR_FILE, "%s: '%s' exists; open it, or remove it", new_call, path);
        return NULL;
    }
    char page[PAGE] = {0};
    const header h = {FORMAT, 1, rows, width, config.eps, config.initial_accumulator};
    memcpy(page, &h, sizeof h);
    tg_rng rng = {.used = 0};
    tg_rng_copy(&rng, config.rng);
    tg_file_writer w;
    if (!tg_file_writer_begin(&w, new_call, path, error)) {
        return NULL;
    }
    if (!tg_file_writer_write(&w, page, sizeof page, error) ||
        !write_rows(&w, &h, config.rng ? &rng : NULL, config.std, error)) {
        tg_file_writer_abandon(&w);
        return NULL;
    }
    tg_row_file *file = tg_file_writer_commit(&w, error) ? tg_row_file_open(path, rows, width, error) : NULL;
    if (!file) {
        tg_system_remove(path);
    }
    tg_rng_copy(file ? config.rng : NULL, &rng);
    return file;
}

/* ---- an open file ---- */

/* Locks the file, and checks its header. */
static bool check_file(tg_row_file *f, tg_error *error)
{
    header h = {.rows = 0};
    const tg_file *file = &f->file;
    if (!tg_system_lock(file->descriptor)) {
        bool is_open = errno == EWOULDBLOCK;
        return tg_error_set(error, is_open ? TG_ERROR_STATE : TG_ERROR_FILE, "%s: lock '%s': %s", open_call, file->path,
                            is_open ? "it is open already" : strerror(errno));
    }
    f->owner = tg_system_pid();
    if (file->size >= PAGE && !tg_file_read(file, 0, &h, sizeof h, error)) {
        return false;
    }
    if (strncmp(h.format, FORMAT, sizeof h.format) != 0 || h.version != 1 || !(h.eps >= 0 && isfinite(h.eps))) {
        return tg_error_set(error, TG_ERROR_FORMAT, "%s: '%s' is no row file of version 1 of this kind of processor",
                            open_call, file->path);
    }
    if (h.rows != f->rows || h.width != f->width) {
        return tg_error_set(error, TG_ERROR_SHAPE, "%s: '%s' has %lld rows of width %lld, not %lld of width %lld",
                            open_call, file->path, (long long)h.rows, (long long)h.width, (long long)f->rows,
                            (long long)f->width);
    }
    f->eps = h.eps;
    f->per_page = FLOATS / (f->width + 1);
    uint64_t size = PAGE * (1 + (uint64_t)((f->rows + f->per_page - 1) / f->per_page));
    return file->size == size ||
           tg_error_set(error, TG_ERROR_FORMAT, "%s: '%s' has %llu bytes, not the %llu of its %lld rows of width %lld",
                        open_call, file->path, (unsigned long long)file->size, (unsigned long long)size,
                        (long long)h.rows, (long long)h.width);
}

tg_row_file *tg_row_file_open(const char *path, int64_t rows, int64_t width, tg_error *error)
{
    tg_row_file *file = tg_alloc_zeroed(1, sizeof *file);
    char *name = path ? tg_path_join(path, strlen(path), "") : NULL;
    if (!file || (path && !name)) {
        tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory", open_call);
        tg_free(file), tg_free(name);
        return NULL;
    }
    file->rows = rows;
    file->width = width;
    if (tg_file_open_as(&file->file, open_call, name, TG_OPEN_UPDATE, error) &&
        check_sizes(open_call, rows, width, error) && check_file(file, error)) {
        file->file.call = lookup_call; /* of the reads from now on */
        return file;
    }
    tg_row_file_free(file);
    return NULL;
}

static void drop_lookup(const lookup *l)
{
    tg_release(l->rows);
    tg_free(l->ids);
    tg_free(l->sums);
    tg_run_free(l->run);
}

void tg_row_file_zero_grad(tg_row_file *file)
{
    while (file && file->count > 0) {
        drop_lookup(&file->lookups[--file->count]);
    }
}

void tg_row_file_free(tg_row_file *file)
{
    if (file) {
        tg_row_file_zero_grad(file);
        tg_free(file->lookups);
        if (file->owner == tg_system_pid()) {
            tg_system_unlock(file->file.descriptor);
        }
        tg_file_close(&file->file);
        tg_free((char *)file->file.path);
        tg_free(file);
    }
}

/* ---- lookups ---- */

static uint64_t offset_of(const tg_row_file *file, int64_t row)
{
    return PAGE * (1 + (uint64_t)(row / file->per_page)) +
           (uint64_t)(row % file->per_page * (file->width + 1)) * sizeof(float);
}

/* Returns the index of an id among ascending ones, or that of another one if they do not have it. */
static int64_t find(const int32_t *ids, int64_t count, int32_t id)
{
    int64_t low = 0;
    for (int64_t half; count > 1; count -= half) {
        half = count / 2;
        low += ids[low + half] <= id ? half : 0;
    }
    return low;
}

static bool check_ids(const tg_row_file *file, const tg_tensor *ids, tg_error *error)
{
    if (ids->dtype != TG_I32) {
        return tg_error_set(error, TG_ERROR_DTYPE, "%s: argument 'ids' is %s; it must be i32", lookup_call,
                            tg_dtype_name(tg_dtype_of(ids)));
    }
    return tg_check_ids(lookup_call, ids, file->rows, error);
}

/* Reads the rows of ids, and replaces these by the index of each among the different ones. Reserves the place of the
 * lookup. */
static bool read_lookup(tg_row_file *file, tg_tensor *ids, lookup *l, tg_error *error)
{
    const size_t width = (size_t)file->width, size = (width + 1) * sizeof(float);
    int64_t count = 0;
    int32_t *id = tg_tensor_data_mut(ids);
    l->ids = tg_alloc((uint64_t)ids->count + 1, sizeof *id);
    l->sums = tg_alloc((uint64_t)ids->count + 1, sizeof *l->sums);
    if (l->ids && l->sums && tg_grow(&file->lookups, &file->capacity, file->count, file->count + 1, sizeof *l)) {
        memcpy(l->ids, id, (size_t)ids->count * sizeof *id);
        tg_sort_ids(l->ids, ids->count);
        for (int64_t i = 0; i < ids->count; i++) {
            if (count == 0 || l->ids[i] != l->ids[count - 1]) {
                tg_system_will_read(file->file.descriptor, size, offset_of(file, l->ids[i]));
                l->ids[count++] = l->ids[i];
            }
        }
        l->rows = tg_tensor_new(TG_F32, TG_SHAPE(count, file->width), NULL);
    }
    if (!tg_tensor_set_requires_grad(l->rows, true, NULL)) {
        return tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory for %lld ids", lookup_call,
                            (long long)ids->count);
    }
    float row[FLOATS], *to = tg_tensor_data_mut(l->rows);
    for (int64_t i = 0; i < count; i++, to += width) {
        if (!tg_file_read(&file->file, offset_of(file, l->ids[i]), row, size, error)) {
            return false;
        }
        memcpy(to, row, size - sizeof *row);
        l->sums[i] = row[width];
    }
    for (int64_t i = 0; i < ids->count; i++) {
        id[i] = (int32_t)find(l->ids, count, id[i]);
    }
    return true;
}

tg_tensor *tg_row_file_lookup(tg_tape *t, tg_row_file *file, tg_tensor *ids)
{
    if (!tg_tape_expect_values(t, lookup_call, "ids", ids) ||
        (!file && !tg_tape_fail(t, TG_ERROR_STATE, lookup_call, "the file is NULL"))) {
        return NULL;
    }
    lookup l = {.rows = NULL};
    tg_tensor *indices = tg_tensor_new_copy(ids, t->error);
    bool is_read = indices && check_ids(file, indices, t->error) && read_lookup(file, indices, &l, t->error);
    tg_tensor *y = is_read ? tg_embedding(t, indices, l.rows, NULL) : NULL;
    if (y && t->recording) {
        l.run = tg_run_keep(t->owner.run);
        file->lookups[file->count++] = l;
    } else {
        drop_lookup(&l);
    }
    tg_release(indices);
    return y;
}

/* ---- steps ---- */

/* Returns the gradient of a row in a lookup; NULL if it has none. */
static const float *gradient_of(const lookup *l, int32_t id)
{
    const tg_grad_rows gradient = tg_tensor_grad_rows(l->rows);
    int64_t at = find(l->ids, tg_tensor_size(l->rows, 0), id);
    int32_t slot = gradient.count > 0 && l->ids[at] == id ? l->rows->gradient->slot[at] : -1;
    return slot >= 0 ? (const float *)gradient.values + slot * gradient.width : NULL;
}

/* Updates and writes a row of lookup number `i` with the sum of its gradients. As in the backward of a table in memory,
 * the last lookup comes first. A later one that has the row has updated it. */
static bool update_row(const tg_row_file *file, size_t i, int64_t at, const tg_optim_factors *factors, tg_error *error)
{
    static tg_optim_kernel *const kernels[TG_LEVELS] = {TG_EACH_LEVEL(avx512, tg_adagrad_update_rows_f32)};
    const lookup *l = &file->lookups[i];
    const size_t width = (size_t)file->width, size = (width + 1) * sizeof(float);
    float row[FLOATS], total[FLOATS] = {0};
    for (size_t k = file->count; k-- > 0;) {
        const float *gradient = gradient_of(&file->lookups[k], l->ids[at]);
        if (gradient && k > i) {
            return true;
        }
        for (size_t c = 0; gradient && c < width; c++) {
            total[c] += gradient[c];
        }
    }
    memcpy(row, (const float *)tg_tensor_data(l->rows) + (size_t)at * width, size - sizeof *row);
    row[width] = l->sums[at];
    kernels[tg_level()](factors, row, total, (void *[]){row + width}, file->width);
    errno = ENOSPC; /* of a write that is too short */
    return tg_system_write_at(file->file.descriptor, row, size, offset_of(file, l->ids[at])) == (int64_t)size ||
           tg_error_set(error, TG_ERROR_FILE, "%s: write '%s', row %d: %s", step_call, file->file.path, (int)l->ids[at],
                        strerror(errno));
}

bool tg_row_file_step(tg_row_file *file, double lr, tg_error *error)
{
    if (!file) {
        return tg_error_set(error, TG_ERROR_STATE, "%s: the file is NULL", step_call);
    }
    bool is_good = tg_check_option(step_call, "learning rate", lr, error);
    for (size_t i = 0; is_good && i < file->count; i++) {
        is_good = tg_error_copy(error, tg_run_error(file->lookups[i].run));
    }
    const tg_optim_config config = {.adagrad = {.eps = file->eps}};
    const tg_optim_factors factors = {.config = &config, .step_size = lr, .width = file->width};
    for (size_t i = 0; is_good && i < file->count; i++) {
        const tg_grad_rows gradient = tg_tensor_grad_rows(file->lookups[i].rows);
        for (int64_t k = 0; is_good && k < gradient.count; k++) {
            is_good = update_row(file, i, gradient.ids[k], &factors, error);
        }
    }
    tg_row_file_zero_grad(file);
    return is_good;
}
