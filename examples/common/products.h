/* products: a line for the user of a program about what computes its matrix products. Shared by the example programs and
 * the benchmark. */
#ifndef PRODUCTS_H
#define PRODUCTS_H

/* Writes "OpenBLAS 0.3.21 (Cooperlake), 2 threads, avx512" to `text`, and returns it: the backend of matrix products,
 * and the vector instructions of the other kernels. */
#define PRODUCTS_TEXT 160
const char *products_text(char text[PRODUCTS_TEXT]);

#endif
