/* turned (private): a function of a transposed matrix, in the order of the matrix's memory. A tile of results is turned
 * before it is written, so that whole lines of memory are read and written. */
#ifndef TG_OPS_ELEMENTWISE_TURNED_H
#define TG_OPS_ELEMENTWISE_TURNED_H

#include "ops/elementwise/chunk_inputs.h"

/* Computes `rows` whole rows of y from position `begin` on, at most TURNED_ROWS; `y` is the first one. */
static inline void run_turned(const chunk_inputs *inputs, tg_chunk_kernel *kernel, const void *attributes,
                              int64_t begin, int64_t rows, real *y)
{
    const chunk_input *in = &inputs->inputs[inputs->turned];
    const int64_t width = inputs->tile_width, stride = tg_walk_stride(&in->walk);
    const real *x = (const real *)tg_values(in->x) + tg_walk_begin(&in->walk, begin).offset;
    real results[TURNED_COLUMNS][TURNED_ROWS];
    word tile[TURNED_ROWS][TURNED_COLUMNS];
    tg_chunk k = {.n = rows, .attributes = attributes};
    if (inputs->count == 2) {
        k.repeated = k.in[inputs->single] = tg_values(inputs->inputs[inputs->single].x);
    }
    for (int64_t column = 0, n; column < width; column += n) {
        n = width - column < TURNED_COLUMNS ? width - column : TURNED_COLUMNS;
        for (int64_t c = 0; c < n; c++) {
            const real *line = x + (column + c) * stride;
            if (column + c + TURNED_COLUMNS < width) {
                tg_prefetch_row(line + TURNED_COLUMNS * stride, (size_t)rows * sizeof *line);
            }
            k.in[inputs->turned] = line;
            k.out = results[c];
            kernel(&k);
        }
        transpose_tile(tile[0], TURNED_COLUMNS, (const word *)results[0], TURNED_ROWS, rows, n);
        for (int64_t r = 0; r < rows; r++) {
            if (column + n < width) {
                __builtin_prefetch(y + r * width + column + n, 1);
            }
            memcpy(y + r * width + column, tile[r], (size_t)n * sizeof *y);
        }
    }
}

#endif
