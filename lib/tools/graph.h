/* graph (private): what a graph knows, for its two writers (graph_write.c). */
#ifndef TG_TOOLS_GRAPH_H
#define TG_TOOLS_GRAPH_H

#include <tapegrad/graph.h>

#include <tapegrad/extend.h>
#include <tapegrad/op.h>

/* A part of the texts: the offsets of its first byte. Each text ends with a NUL. */
typedef size_t tg_graph_text;

/* What the backward of one record has added to the gradient of one input. */
typedef struct tg_graph_part {
    int64_t step;
    int input;
    tg_graph_text added, now; /* what was added, and the gradient after that */
} tg_graph_part;

/* The backward of one record. */
typedef struct tg_graph_step {
    int64_t record;
    tg_graph_text gradient; /* that of its output */
} tg_graph_step;

/* The gradient of an input before a backward kernel. */
typedef struct tg_graph_before {
    size_t first; /* of its values, in tg_graph.numbers */
    size_t ids;   /* by rows: the place of the ids */
    int64_t rows; /* their number; -1: the gradient is dense */
} tg_graph_before;

struct tg_graph {
    tg_tape *tape;
    tg_graph_config config;
    tg_kernel_watch watch;
    int64_t retained; /* the number of records whose results keep their gradients */
    bool failed;      /* whether memory was exhausted */
    tg_text_buffer texts;
    tg_graph_step *steps;
    size_t step_count, step_capacity;
    tg_graph_part *parts;
    size_t part_count, part_capacity;
    /* before a kernel */
    tg_graph_before *before;
    size_t before_capacity;
    double *numbers;
    size_t number_count, number_capacity;
};

/* Makes a graph that has seen nothing, and watches nothing. */
void tg_graph_begin(tg_graph *graph, const tg_tape *tape);

void tg_graph_clear(tg_graph *graph);

/* Adds "[1, 2, ...]": the first values of a tensor, and those of its gradient, by rows or dense. */
void tg_graph_add_values(tg_text_buffer *out, const tg_tensor *x, int64_t most);
void tg_graph_add_gradient(tg_text_buffer *out, const tg_tensor *x, int64_t most);

#endif
