#include "products.h"

#include <stdio.h>

#include <tapegrad.h>

const char *products_text(char text[PRODUCTS_TEXT])
{
    tg_blas blas = {.library = "built-in products"};
    int threads = tg_threads();
    if (tg_get_matmul_backend() == TG_BACKEND_BLAS) {
        blas = tg_get_blas();
        threads = blas.most_threads > 0 && blas.most_threads < threads ? blas.most_threads : threads;
    }
    snprintf(text, PRODUCTS_TEXT, "%s%s%s%s%s%s, %d thread%s, %s", blas.library, *blas.version ? " " : "", blas.version,
             *blas.kernels ? " (" : "", blas.kernels, *blas.kernels ? ")" : "", threads, threads == 1 ? "" : "s",
             tg_cpu_level_name(tg_get_cpu_level()));
    return text;
}
