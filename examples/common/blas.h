/* blas: a line about BLAS for the user of a program, and OpenBLAS's environment variables. OpenBLAS reads them when it
 * is loaded, for the whole process, so only a program may set them; the library never does. Shared by the example
 * programs and the benchmark. */
#ifndef BLAS_H
#define BLAS_H

#include <tapegrad.h>

/* Writes "OpenBLAS 0.3.21 (Cooperlake), 2 threads, avx512" to `text`, and returns it: the BLAS, and the vector
 * instructions of the other kernels. */
#define BLAS_TEXT 160
const char *blas_text(char text[BLAS_TEXT]);

/* Returns the value of OPENBLAS_CORETYPE with which OpenBLAS uses the vector instructions of this level, or NULL if its
 * kernels use them already, or cannot be chosen. Releases before 0.3.25 take the kernels of the Prescott, of 2004, for
 * an Intel processor that they do not know; 0.3.21 of Debian 12 does not know Emerald Rapids. Releases before 0.3.21
 * take AVX2's kernels, "Zen", for AMD's processors with AVX-512. (OpenBLAS's driver/others/dynamic.c.) */
const char *blas_better_kernels(const tg_blas *blas, tg_cpu_level level);

/* Starts the program again, once, with the variables that it lacks: OPENBLAS_CORETYPE for better kernels, and
 * OPENBLAS_THREAD_TIMEOUT=4 (tg_set_threads) if there are several threads. What the user has set stays. It takes
 * about 6 ms. The kernels that OpenBLAS reports decide, not its version. Call it first in main, with main's argv,
 * and before MPI_Init. It returns if nothing is missing, if the program cannot be started again, or if the library
 * is not OpenBLAS. */
void blas_begin(char **argv);

#endif
