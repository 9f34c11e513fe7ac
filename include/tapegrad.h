/* tapegrad: the whole library in one header. Each room's header is a chapter of the manual. */
#ifndef TAPEGRAD_H
#define TAPEGRAD_H

#include <tapegrad/base.h>
#include <tapegrad/random.h>
#include <tapegrad/tensor.h>
#include <tapegrad/rows.h>
#include <tapegrad/data.h>
#include <tapegrad/tape.h>
#include <tapegrad/gradcheck.h>
#include <tapegrad/op.h>
#include <tapegrad/ledger.h>
#include <tapegrad/ops.h>
#include <tapegrad/params.h>
#include <tapegrad/optim.h>
#include <tapegrad/nn.h>
#include <tapegrad/gpt.h>

#endif
