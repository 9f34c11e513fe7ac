/* node: sums of gradients as strings of bytes, which can be kept, added and sent.
 *
 * For every parameter a node has a head of 8 bytes, NO_GRADIENT, DENSE or the number of rows, and then the values, or
 * the ids of the rows in ascending order and their values. Each part begins at a multiple of 8 bytes.
 */
#include <stdlib.h>
#include <string.h>

#include "mpi/samples.h"

#define NO_GRADIENT ((int64_t)-1)
#define DENSE ((int64_t)-2)

static size_t padded(size_t bytes)
{
    return (bytes + 7) / 8 * 8;
}

/* One parameter of a sum. */
typedef struct part {
    int64_t head;
    const int32_t *ids;
    const char *values;
} part;

/* Reads a part, and returns the address after it. */
static const char *read_part(const char *bytes, const tg_tensor *x, part *p)
{
    size_t size = tg_dtype_size(tg_tensor_dtype(x));
    memcpy(&p->head, bytes, sizeof p->head);
    bytes += sizeof p->head;
    if (p->head == NO_GRADIENT) {
        return bytes;
    }
    if (p->head == DENSE) {
        p->values = bytes;
        return bytes + padded((size_t)tg_tensor_count(x) * size);
    }
    p->ids = (const int32_t *)(const void *)bytes;
    p->values = bytes + padded((size_t)p->head * sizeof(int32_t));
    return p->values + padded((size_t)(p->head * tg_tensor_size(x, 1)) * size);
}

static char *write_head(char *bytes, int64_t head)
{
    memcpy(bytes, &head, sizeof head);
    return bytes + sizeof head;
}

/* ---- one sample ---- */

size_t tg_mpi_node_bytes(const tg_mpi *mpi)
{
    size_t bytes = 0;
    for (int64_t i = 0; i < mpi->leaf_count; i++) {
        const tg_tensor *x = mpi->leaves[i].tensor;
        size_t size = tg_dtype_size(tg_tensor_dtype(x));
        tg_grad_rows rows = tg_tensor_grad_rows(x);
        bytes += sizeof(int64_t);
        if (tg_tensor_grad_kind(x) == TG_GRAD_DENSE) {
            bytes += padded((size_t)tg_tensor_count(x) * size);
        } else {
            bytes += padded((size_t)rows.count * sizeof(int32_t)) + padded((size_t)(rows.count * rows.width) * size);
        }
    }
    return bytes;
}

/* Writes a gradient by rows in ascending order. `keys` has space for one number per row. */
static char *write_rows(char *bytes, const tg_tensor *x, int64_t *keys)
{
    tg_grad_rows rows = tg_tensor_grad_rows(x);
    size_t row = (size_t)rows.width * tg_dtype_size(tg_tensor_dtype(x));
    for (int64_t i = 0; i < rows.count; i++) {
        keys[i] = ((int64_t)rows.ids[i] << 32) + i;
    }
    qsort(keys, (size_t)rows.count, sizeof *keys, tg_mpi_compare_keys);
    bytes = write_head(bytes, rows.count);
    int32_t *ids = (int32_t *)(void *)bytes;
    char *values = bytes + padded((size_t)rows.count * sizeof *ids);
    for (int64_t i = 0; i < rows.count; i++) {
        ids[i] = (int32_t)(keys[i] >> 32);
        memcpy(values + (size_t)i * row, (const char *)rows.values + (size_t)(keys[i] & UINT32_MAX) * row, row);
    }
    return values + padded((size_t)rows.count * row);
}

void tg_mpi_node_write(const tg_mpi *mpi, char *bytes, int64_t *keys)
{
    for (int64_t i = 0; i < mpi->leaf_count; i++) {
        const tg_tensor *x = mpi->leaves[i].tensor, *dense = tg_tensor_grad(x);
        if (dense) {
            size_t size = (size_t)tg_tensor_count(x) * tg_dtype_size(tg_tensor_dtype(x));
            bytes = write_head(bytes, DENSE);
            memcpy(bytes, tg_tensor_data(dense), size);
            bytes += padded(size);
        } else if (tg_tensor_grad_kind(x) == TG_GRAD_ROWS) {
            bytes = write_rows(bytes, x, keys);
        } else {
            bytes = write_head(bytes, NO_GRADIENT);
        }
    }
}

/* ---- the sum of two ---- */

/* Adds the rows of `p` to the dense values of a parameter. */
static void add_rows(char *values, const tg_tensor *x, const part *p)
{
    tg_dtype dtype = tg_tensor_dtype(x);
    int64_t width = tg_tensor_size(x, 1);
    size_t row = (size_t)width * tg_dtype_size(dtype);
    for (int64_t i = 0; i < p->head; i++) {
        tg_mpi_add(dtype, values + (size_t)p->ids[i] * row, p->values + (size_t)i * row, width);
    }
}

/* out = a + b, where at least one is dense. Writes to `out` what follows the head. */
static char *merge_dense(char *out, const tg_tensor *x, const part *a, const part *b)
{
    tg_dtype dtype = tg_tensor_dtype(x);
    size_t bytes = (size_t)tg_tensor_count(x) * tg_dtype_size(dtype);
    const part *dense = a->head == DENSE ? a : b, *other = a->head == DENSE ? b : a;
    memcpy(out, dense->values, bytes);
    if (other->head == DENSE) {
        tg_mpi_add(dtype, out, other->values, tg_tensor_count(x));
    } else if (other->head != NO_GRADIENT) {
        add_rows(out, x, other);
    }
    return out + padded(bytes);
}

/* out = a + b, both by rows: the union of their rows in ascending order. */
static char *merge_rows(char *out, const tg_tensor *x, const part *a, const part *b)
{
    tg_dtype dtype = tg_tensor_dtype(x);
    int64_t width = tg_tensor_size(x, 1), count = 0;
    size_t row = (size_t)width * tg_dtype_size(dtype);
    for (int64_t i = 0, k = 0; i < a->head || k < b->head; count++) {
        int32_t id = k == b->head || (i < a->head && a->ids[i] < b->ids[k]) ? a->ids[i] : b->ids[k];
        i += i < a->head && a->ids[i] == id;
        k += k < b->head && b->ids[k] == id;
    }
    out = write_head(out, count);
    int32_t *ids = (int32_t *)(void *)out;
    char *values = out + padded((size_t)count * sizeof *ids), *next = values;
    for (int64_t i = 0, k = 0; i < a->head || k < b->head; next += row) {
        int32_t id = k == b->head || (i < a->head && a->ids[i] < b->ids[k]) ? a->ids[i] : b->ids[k];
        bool in_a = i < a->head && a->ids[i] == id, in_b = k < b->head && b->ids[k] == id;
        *ids++ = id;
        memcpy(next, in_a ? a->values + (size_t)i * row : b->values + (size_t)k * row, row);
        if (in_a && in_b) {
            tg_mpi_add(dtype, next, b->values + (size_t)k * row, width);
        }
        i += in_a;
        k += in_b;
    }
    return values + padded((size_t)count * row);
}

size_t tg_mpi_node_merge(const tg_mpi *mpi, char *out, const char *a, const char *b)
{
    const char *begin = out;
    for (int64_t i = 0; i < mpi->leaf_count; i++) {
        const tg_tensor *x = mpi->leaves[i].tensor;
        part p = {NO_GRADIENT, NULL, NULL}, q = p;
        a = read_part(a, x, &p);
        b = read_part(b, x, &q);
        if (p.head == DENSE || q.head == DENSE) {
            out = merge_dense(write_head(out, DENSE), x, &p, &q);
        } else if (p.head == NO_GRADIENT && q.head == NO_GRADIENT) {
            out = write_head(out, NO_GRADIENT);
        } else {
            p.head = p.head == NO_GRADIENT ? 0 : p.head;
            q.head = q.head == NO_GRADIENT ? 0 : q.head;
            out = merge_rows(out, x, &p, &q);
        }
    }
    return (size_t)(out - begin);
}

/* ---- back to the gradients ---- */

void tg_mpi_node_reserve(const tg_mpi *mpi, const char *bytes, tg_error *error)
{
    for (int64_t i = 0; i < mpi->leaf_count; i++) {
        tg_tensor *x = mpi->leaves[i].tensor;
        part p;
        bytes = read_part(bytes, x, &p);
        if (p.head != NO_GRADIENT) {
            tg_tensor_reserve_grad(x, p.head == DENSE ? TG_GRAD_DENSE : TG_GRAD_ROWS, p.head == DENSE ? 0 : p.head,
                                   error);
        }
    }
}

void tg_mpi_node_write_back(const tg_mpi *mpi, char *bytes, double share)
{
    for (int64_t i = 0; i < mpi->leaf_count; i++) {
        tg_tensor *x = mpi->leaves[i].tensor;
        tg_dtype dtype = tg_tensor_dtype(x);
        part p;
        bytes = (char *)(uintptr_t)read_part(bytes, x, &p);
        if (p.head == DENSE) {
            tg_tensor_make_grad_dense(x, NULL);
            tg_mpi_scale(dtype, tg_tensor_data_mut(tg_tensor_grad(x)), p.values, tg_tensor_count(x), share);
        } else if (p.head != NO_GRADIENT) {
            tg_mpi_scale(dtype, (void *)(uintptr_t)p.values, p.values, p.head * tg_tensor_size(x, 1), share);
            tg_tensor_add_grad_rows(x, p.ids, p.values, p.head, NULL);
        }
    }
}
