/* small: the model that 09_train trains and 10_generate reads. */
#ifndef SMALL_H
#define SMALL_H

#include "model.h"

/* Its sizes, for a vocabulary. */
static inline model small_model(int64_t vocabulary)
{
    return (model){
        .vocabulary = vocabulary, .context = 64, .width = 96, .layers = 3, .heads = 4, .hidden = 256, .theta = 10000};
}

/* The names of the model's file and its vocabulary's in the folder. */
#define SMALL_MODEL "model.safetensors"
#define SMALL_VOCABULARY "vocabulary.json"

#endif
