/* gather: copies the values of a chunk, whatever their layout and dtype. */
#include "ops/elementwise/elementwise.h"

/* Copies rows of `width` values, one after the other. `left` rows follow each other in the input: those that are copied
 * soon are read ahead, because the processor does not foresee short rows. */
static void gather_rows(const real *values, int64_t row_stride, int64_t stride, int64_t rows, int64_t width,
                        int64_t left, real *restrict out)
{
    enum { AHEAD = 8 };
    for (int64_t r = 0; r < rows; r++) {
        const real *row = values + r * row_stride;
        if (stride == 1 && r + AHEAD < left) {
            tg_prefetch_row(row + AHEAD * row_stride, (size_t)width * sizeof *row);
        }
        if (stride == 0) {
            for (int64_t i = 0; i < width; i++) {
                out[r * width + i] = *row;
            }
        } else if (stride == 1) {
            for (int64_t i = 0; i < width; i++) {
                out[r * width + i] = row[i];
            }
        } else {
            for (int64_t i = 0; i < width; i++) {
                out[r * width + i] = row[i * stride];
            }
        }
    }
}

static void gather_mask(const uint8_t *values, int64_t stride, int64_t n, real *restrict out)
{
    if (stride == 1) {
        for (int64_t i = 0; i < n; i++) {
            out[i] = values[i] != 0;
        }
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        out[i] = values[i * stride] != 0;
    }
}

static void gather_ids(const int32_t *values, int64_t stride, int64_t n, real *restrict out)
{
    if (stride == 1) {
        for (int64_t i = 0; i < n; i++) {
            out[i] = (real)values[i];
        }
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        out[i] = (real)values[i * stride];
    }
}

void KERNEL(tg_chunk_gather_at)(const tg_walk *walk, const tg_tensor *x, tg_cursor *at, int64_t n, void *chunk)
{
    real *out = chunk;
    int last = walk->rank - 1;
    int64_t stride = tg_walk_stride(walk);
    for (int64_t done = 0, run; done < n; done += run) {
        run = tg_walk_run(walk, at, n - done);
        if (x->dtype == TG_U8) {
            gather_mask((const uint8_t *)tg_values(x) + at->offset, stride, run, out + done);
        } else if (x->dtype == TG_I32) {
            gather_ids((const int32_t *)tg_values(x) + at->offset, stride, run, out + done);
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
