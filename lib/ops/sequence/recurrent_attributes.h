/* recurrent_attributes (private): the inputs and the attributes of a recurrent op. */
#ifndef TG_OPS_SEQUENCE_RECURRENT_ATTRIBUTES_H
#define TG_OPS_SEQUENCE_RECURRENT_ATTRIBUTES_H

#include <stdbool.h>
#include <stdint.h>

enum { RECURRENT_INPUTS, RECURRENT_STATE, RECURRENT_WEIGHT, RECURRENT_CELL }; /* a bias and a mask follow */

typedef struct recurrent_attributes {
    int bias, mask; /* numbers of inputs; 0: none */
    bool reverse;
} recurrent_attributes;

#endif
