/* replay: the matrix products of a step, recorded, and run alone. They are a bound of the step.
 *
 * Factors lie in memory of their own, one place for each place that they had in the step, so that a product finds in
 * the caches what it finds there. Results have places of their own: no product reads what another one wrote, and values
 * do not grow. The products of a loop of threads run in such a loop again.
 */
#ifndef TG_BENCH_REPLAY_H
#define TG_BENCH_REPLAY_H

#include "products/gemm.h"

typedef enum replay_kind { REPLAY_F32, REPLAY_F64, REPLAY_BF16 } replay_kind;

typedef struct replay_call {
    tg_gemm g;
    replay_kind kind;
    const void *a, *b;
    void *c;
    /* the number of the loop that has the product, and the most parts of this loop; 0: none */
    int64_t loop, parts;
} replay_call;

typedef struct replay {
    replay_call *calls;
    int64_t count, capacity;
    void **blocks;
    int64_t block_count;
} replay;

/* Records all products from here on, of one thread, until replay_prepare gives them memory. */
void replay_record(replay *r);
void replay_prepare(replay *r);

bool replay_is_recording(void);
void replay_begin_loop(int64_t parts);
void replay_end_loop(void);

/* Adds a product, if they are recorded. */
void replay_add(const replay_call *call);

int64_t replay_count(const replay *r);

/* Runs all products, or those alone that no loop of threads has. */
void replay_run(const replay *r);
void replay_run_outer(const replay *r);

/* Prints the latter as a list of JSON: [m, n, k, transpose_a, transpose_b, is_double, a, b], where equal factors have
 * equal numbers. */
void replay_print_outer(const replay *r);

void replay_free(replay *r);

#endif
