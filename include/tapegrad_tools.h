/* tapegrad_tools: a library of its own: tools that look into a training, measure it, and read tables. To link it and
 * the core: cc program.c $(pkg-config --cflags --libs tapegrad_tools). */
#ifndef TAPEGRAD_TOOLS_H
#define TAPEGRAD_TOOLS_H

#include <tapegrad/csv.h>
#include <tapegrad/find_nan.h>
#include <tapegrad/graph.h>
#include <tapegrad/json.h>
#include <tapegrad/ledger.h>
#include <tapegrad/metrics.h>
#include <tapegrad/profile.h>
#include <tapegrad/tensorboard.h>

#endif
