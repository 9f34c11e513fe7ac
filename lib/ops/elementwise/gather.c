/* gather: copies the values of a chunk, whatever their layout and dtype. */
#include "ops/elementwise/elementwise.h"
#include "tensor/move.h"

/* Copies rows of `width` values, one after the other. `left` rows follow each other in the input: those that are copied
 * soon are read ahead, because the processor does not foresee short rows. */
static void gather_rows(const real *values, int64_t row_stride, int64_t stride, int64_t rows, int64_t width,
                        int64_t left, real *out)
{
    enum { AHEAD = 8 };
    for (int64_t r = 0; r < rows; r++) {
        const real *row = values + r * row_stride;
        if (stride == 1 && r + AHEAD < left) {
            tg_prefetch_row(row + AHEAD * row_stride, (size_t)width * sizeof *row);
        }
        copy_to_row(out + r * width, (const word *)row, stride, width);
    }
}

/* Copies integers as reals, and a mask as 0 or 1. */
static inline void convert_run(const tg_tensor *x, int64_t offset, int64_t stride, int64_t n, real *restrict out)
{
    if (x->dtype == TG_U8) {
        const uint8_t *values = (const uint8_t *)tg_values(x) + offset;
        for (int64_t i = 0; i < n; i++) {
            out[i] = values[i * stride] != 0;
        }
    } else {
        const int32_t *values = (const int32_t *)tg_values(x) + offset;
        for (int64_t i = 0; i < n; i++) {
            out[i] = (real)values[i * stride];
        }
    }
}

/* The same; the strides that compilers vectorize are constants. */
static void gather_integers(const tg_tensor *x, int64_t offset, int64_t stride, int64_t n, real *out)
{
    switch (stride) {
    case 1: convert_run(x, offset, 1, n, out); break;
    case 2: convert_run(x, offset, 2, n, out); break;
    default: convert_run(x, offset, stride, n, out);
    }
}

void KERNEL(tg_chunk_gather_at)(const tg_walk *walk, const tg_tensor *x, tg_cursor *at, int64_t n, void *chunk)
{
    real *out = chunk;
    int last = walk->rank - 1;
    int64_t stride = tg_walk_stride(walk);
    for (int64_t done = 0, run; done < n; done += run) {
        run = tg_walk_run(walk, at, n - done);
        if (x->dtype != REAL_DTYPE) {
            gather_integers(x, at->offset, stride, run, out + done);
        } else {
            /* Whole rows are copied together, so that short ones do not take a step of the cursor each. */
            int64_t rows = 1, row_stride = 0, left = 1;
            if (last > 0 && run == walk->size[last]) {
                int64_t fitting = (n - done) / run;
                left = walk->size[last - 1] - at->index[last - 1];
                rows = left < fitting ? left : fitting;
                row_stride = walk->stride[last - 1];
            }
            gather_rows((const real *)tg_values(x) + at->offset, row_stride, stride, rows, run, left, out + done);
            if (rows > 1) {
                at->index[last - 1] += rows - 1;
                at->offset += (rows - 1) * row_stride;
                done += (rows - 1) * run;
            }
        }
        tg_walk_advance(walk, at, run);
    }
}

void KERNEL(tg_chunk_gather)(const tg_walk *walk, const tg_tensor *x, int64_t begin, int64_t n, void *chunk)
{
    tg_cursor at = tg_walk_begin(walk, begin);
    KERNEL(tg_chunk_gather_at)(walk, x, &at, n, chunk);
}

static inline void copy_bytes(const uint8_t *values, int64_t stride, int64_t n, uint8_t *restrict out)
{
    for (int64_t i = 0; i < n; i++) {
        out[i] = values[i * stride];
    }
}

void KERNEL(tg_chunk_gather_mask)(const tg_walk *walk, const tg_tensor *x, tg_cursor *at, int64_t n, uint8_t *chunk)
{
    const int64_t stride = tg_walk_stride(walk);
    for (int64_t done = 0, run; done < n; done += run) {
        const uint8_t *values = (const uint8_t *)tg_values(x) + at->offset;
        run = tg_walk_run(walk, at, n - done);
        switch (stride) {
        case 0: copy_bytes(values, 0, run, chunk + done); break;
        case 1: copy_bytes(values, 1, run, chunk + done); break;
        case 2: copy_bytes(values, 2, run, chunk + done); break;
        default: copy_bytes(values, stride, run, chunk + done);
        }
        tg_walk_advance(walk, at, run);
    }
}
