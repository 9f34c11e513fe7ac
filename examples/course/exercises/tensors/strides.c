/* strides: how a list of numbers becomes a matrix, or a box.
 *
 * Memory is one long list. A tensor has a shape, and for each axis a stride: how far the next
 * index of this axis is. The value x[i,j,k] is at i * strides[0] + j * strides[1] + k *
 * strides[2]. A transposed matrix has the same memory and exchanged strides: nothing is copied.
 *
 * Shapes: rank numbers each in shape, strides and index.
 *
 * The rules: functions of your own are static, variables local or const, headers <math.h>, <stdbool.h>,
 * <stdint.h>, <stdio.h>, <stdlib.h> or <string.h>; no pragma, #line, asm or attribute.
 *
 * Predict: a tensor of shape (2,3,4) without gaps. At which place is its last value, [1,2,3]? */

/* The strides of a tensor without gaps, whose last axis is the fastest. */
void contiguous_strides(int rank, const int *shape, int *strides)
{
    /* your part: the last stride is 1, and each other one the product of the sizes behind it */
    /* end of your part */
}

int place_of(int rank, const int *strides, const int *index)
{
    int place = 0;
    /* your part: add what each index moves */
    /* end of your part */
    return place;
}
