/* graph: what a tape has recorded, as a text or as a drawing: names, shapes, a few values, gradients, and backward step
 * by step.
 * Library: tapegrad_tools (pkg-config tapegrad_tools).
 *
 * ```c
 * tg_graph_config config = tg_graph_config_default();
 * config.params = params;
 * config.steps = true;
 * tg_graph *graph = tg_graph_new(t, &config);
 * tg_tensor *loss = tg_mse_loss(t, tg_nn_linear_forward(t, &linear, x), y, TG_REDUCTION_MEAN);
 * tg_backward(t, loss, NULL);
 * tg_graph_write_text(graph, stdout, &error);
 * tg_graph_free(graph);
 * ```
 *
 * prints lines such as these; examples/cookbook/graph.c is a program:
 *
 *     leaves
 *       ids  i32 (4,)  [2, 3, 5, 2]
 *       table.weight  f32 (6,3)  [0.3374, -0.1778, -0.169, 0.9178, ...]
 *           gradient  row 2 [0.1861, 2.473, 0.5645], row 3 [-0.2243, 1.49, 0.6662], ...
 *     results
 *       %1 = embedding(ids, table.weight)  f32 (4,3)  [1.275, -0.201, -0.1606, -0.4015, ...]
 *     backward
 *       step 1: %3 = mse_loss, whose gradient is [1]
 *         adds [-0.804, -2.891, -1.627, -3.36, ...] to the gradient of %2
 */
#ifndef TAPEGRAD_GRAPH_H
#define TAPEGRAD_GRAPH_H

#include <stdio.h>

#include <tapegrad/params.h>
#include <tapegrad/tape.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tg_graph tg_graph;

typedef struct tg_graph_config {
    /* private: tg_graph_config_default() sets it */
    tg_config_mark mark;
    /* the parameters whose names leaves have. Other leaves have the name of the argument that they are, such as "ids".
     * Default NULL, none */
    const tg_params *params;
    /* the number of values that are written of a tensor, 0 to 64; default 4 */
    int64_t values;
    /* whether backward is written step by step: which op's backward ran, and what it added to the gradient of which
     * input. In a drawing each step is a graph of its own, after one of the forward pass. Default false */
    bool steps;
} tg_graph_config;

TG_API tg_graph_config tg_graph_config_default(void);

/* Starts to watch a tape. Yours to free, before the tape. Until then the tape keeps the values of all results to the
 * reset, and their gradients, as after tg_retain_grad. NULL, with the error in the tape: VALUE for an invalid config,
 * MEMORY. */
TG_API tg_graph *tg_graph_new(tg_tape *tape, const tg_graph_config *config);
TG_API void tg_graph_free(tg_graph *graph);

/* Write what the tape has recorded since its last reset: as lines for people, or as a graph for Graphviz (dot -Tsvg)
 * with a box for each result and an ellipse for each leaf. With config.steps a file has several graphs, of which
 * dot -Tsvg -O makes several pictures. FILE if the file cannot be written; STATE for a NULL; MEMORY. */
TG_API bool tg_graph_write_text(tg_graph *graph, FILE *file, tg_error *error);
TG_API bool tg_graph_write_dot(tg_graph *graph, FILE *file, tg_error *error);

/* The same drawing of a tape that no graph has watched, with the default config: without the gradients of results,
 * except those of tg_retain_grad, and without values that the tape has given back. */
TG_API bool tg_tape_write_dot(const tg_tape *tape, FILE *file, tg_error *error);

#ifdef __cplusplus
}
#endif

#endif
