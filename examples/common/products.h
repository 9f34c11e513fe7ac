/* products: a line about what computes the matrix products, for the user of a program. Shared by the example programs
 * and the benchmark. */
#ifndef PRODUCTS_H
#define PRODUCTS_H

/* Writes "OpenBLAS 0.3.21 (Cooperlake), 2 threads, avx512" to `text`, and returns it: the backend of matrix products,
 * and the vector instructions of the other kernels. */
#define PRODUCTS_TEXT 160
const char *products_text(char text[PRODUCTS_TEXT]);

#endif
