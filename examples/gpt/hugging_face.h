/* hugging_face: the weights of a GPT under the names and shapes of GPT2LMHeadModel in Hugging Face's transformers.
 *
 * They are those of OpenAI's GPT-2: a linear layer stores its weight as (in,out), and the queries, keys and values of a
 * block are one layer. The prefix is "transformer." for a GPT2LMHeadModel and "" for a GPT2Model; the head has none. */
#ifndef HUGGING_FACE_H
#define HUGGING_FACE_H

#include "model.h"

/* Returns zeros for all weights of a model, under the names of transformers: with biases of the queries, keys and
 * values, and with the head unless it is tied. NULL after printing an error. */
tg_params *hugging_face_params_new(const model *m, const char *prefix);

typedef enum target { TO_MODEL, TO_PARAMS } target;

/* Copies all weights to the model, or from it to the params of hugging_face_params_new. Biases that the model does not
 * have are left as they are. Returns false after printing an error. */
bool hugging_face_copy(tg_params *other, const char *prefix, const model *m, target to);

#endif
