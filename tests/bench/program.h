/* program: whole programs, by which a special case for speed is judged (tests/bench/special_cases.md), and by which
 * tests/bench/scaling sees what more threads gain. They use the public headers alone, so that one executable runs with
 * the library before a change and after it (tests/bench/compare_programs).
 */
#ifndef TG_BENCH_PROGRAM_H
#define TG_BENCH_PROGRAM_H

#include <tapegrad.h>
#include <tapegrad/tokenizer.h>

typedef struct program_row program_row;
typedef struct program program;

/* What a program needs. */
struct program {
    const program_row *row;
    tg_run *run;
    tg_params *params;
    tg_tape *tape;
    tg_optim *optim;
    tg_tensor *ids, *targets, *x, *next, *weight[4];
    tg_gpt *gpt;
    tg_kv_cache *cache;
    tg_nn_embedding tokens;
    tg_nn_embedding_bag bag;
    tg_nn_lstm lstm;
    tg_nn_gru gru;
    tg_nn_linear head;
    tg_nn_transformer_block block;
    tg_row_file *file;
    tg_tokenizer *tokenizer;
    char *text;
    /* sets back what steps add to; NULL if they add nothing */
    void (*again)(program *p);
    /* the bytes that a step cannot do without reading, and those that it has to read or write; 0: they are no bound */
    double read_bytes, copied_bytes;
};

struct program_row {
    const char *name;
    void (*make)(program *p), (*step)(program *p);
    /* they take about half a second */
    int steps;
};

/* Lists that end with a NULL for a name. */
extern const program_row small_programs[], large_programs[];

/* Returns row number `index` of both lists, or NULL behind the last one; the row with a name, or NULL. */
const program_row *program_at(int index);
const program_row *program_named(const char *name);

/* Makes a program; an error ends the process. */
program program_new(const program_row *row);
void program_free(program *p);

/* ---- for the programs ---- */

/* Prints an error and ends the process unless `good`. */
void program_must(bool good, const tg_error *error);

tg_tensor *program_ids(program *p, tg_shape shape, int64_t below);
tg_tensor *program_normal(program *p, tg_dtype dtype, tg_shape shape);

/* The rest of a step, from the loss on. */
void program_train(program *p, tg_tensor *loss);

#endif
