/* tapegrad: includes the headers of the library. The libraries on top of it, tapegrad_text, tapegrad_tools and
 * tapegrad_mpi, have headers of these names, which say how to link them. Each header is a chapter of the reference
 * manual. base.h (errors, configs) and tensor.h (ownership, shapes) have the conventions of all others, so read these
 * two first. "The book" is Raschka, "Build a Large Language Model From Scratch" (2024). */
#ifndef TAPEGRAD_H
#define TAPEGRAD_H

#include <tapegrad/base.h>
#include <tapegrad/random.h>
#include <tapegrad/tensor.h>
#include <tapegrad/rows.h>
#include <tapegrad/run.h>
#include <tapegrad/data.h>
#include <tapegrad/tape.h>
#include <tapegrad/op.h>
#include <tapegrad/ops.h>
#include <tapegrad/losses.h>
#include <tapegrad/conv.h>
#include <tapegrad/grad.h>
#include <tapegrad/gradcheck.h>
#include <tapegrad/params.h>
#include <tapegrad/optim.h>
#include <tapegrad/io.h>
#include <tapegrad/checkpoint.h>
#include <tapegrad/row_file.h>
#include <tapegrad/nn.h>
#include <tapegrad/lora.h>
#include <tapegrad/sequence.h>
#include <tapegrad/transformer.h>
#include <tapegrad/generate.h>
#include <tapegrad/gpt.h>

#endif
