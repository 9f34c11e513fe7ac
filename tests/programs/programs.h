/* programs: random programs of several ops on two tapes, each of which is run in several ways that must agree.
 *
 *   draw.c         draws the instructions of a program from a seed
 *   draft.c        what a program may do next: which values exist, and which instructions are valid
 *   operations.c, shapes.c, layers.c   the ops that an instruction can call
 *   run.c          runs a program in one way, and writes everything that it computes to a log
 *   steps.c        the instructions that compute no value: spans, backward, steps of the optimizer
 *   log.c          logs, and where two of them differ
 *   variants.c     the ways, and the comparison
 *   differences.c  gradients against finite differences of the program
 *   shrink.c       leaves out instructions while a program still fails
 *   main.c         options, and a process that may crash
 */
#ifndef TG_TESTS_PROGRAMS_H
#define TG_TESTS_PROGRAMS_H

#include <tapegrad.h>
#include <tapegrad/extend.h>
#include <tapegrad/losses.h>
#include <tapegrad/rows.h>
#include <tapegrad/sequence.h>

#include "rows/rows.h"

enum {
    MOST_INPUTS = 3,
    OPTIONS = 4,
    MOST_INSTRUCTIONS = 96,
    TAPES = 2,
    MOST_COUNT = 1 << 16, /* values of a tensor */
    DETAIL = 120
};

/* ---- programs ---------------------------------------------------------------------------------------------------- */

/* The leaves, which are the first values of every program: B, T, C and V are sizes of the program. */
enum { LEAF_X, LEAF_Y, LEAF_WEIGHT, LEAF_TABLE, LEAF_BIAS, LEAF_ROWS, LEAF_SCALAR, LEAF_KERNEL, LEAVES };
enum { MOST_VALUES = LEAVES + MOST_INSTRUCTIONS };

typedef enum kind {
    CALL,         /* a value: an operation of inputs */
    CALL_DROPPED, /* an operation of a value that a span has dropped, which must report STATE */
    GRADIENT,     /* a value: the gradient of a leaf */
    BEGIN_SCOPE,
    END_SCOPE, /* keeps input 0, or nothing */
    BEGIN_SPAN,
    END_SPAN,  /* with the result input 0 */
    RECORDING, /* turns recording on or off */
    KEEP,      /* tg_retain, until the next reset */
    RETAIN_GRADIENT,
    BACKWARD,
    STEP,  /* of the optimizer; a reset follows */
    RESET, /* of both tapes; begins a segment */
    KINDS
} kind;

typedef struct instruction {
    kind kind;
    int operation; /* see operation_at */
    int tape;
    int input[MOST_INPUTS];   /* values; -1: none */
    uint32_t option[OPTIONS]; /* what the instruction does with them is written in its text */
    int fails_at;             /* the allocation that fails, in the variant in which allocations fail; 0: none */
    tg_code expected;         /* the error that the instruction reports in every variant */
    bool is_constant;         /* whether no gradient flows through the value */
    bool may_be_refused;      /* whether backward may find that a gradient has changed since it was an input */
    char text[DETAIL];
} instruction;

typedef struct program {
    uint64_t seed;
    bool is_f64, is_large, has_modules, has_products;
    int64_t batch, time, width, rows;
    int optimizer;
    int count;
    instruction list[MOST_INSTRUCTIONS];
} program;

/* ---- numbers drawn from a seed ----------------------------------------------------------------------------------- */

typedef struct dice {
    uint64_t state;
} dice;

uint64_t roll(dice *d);        /* 64 bits */
int below(dice *d, int count); /* in [0,count) */
bool chance(dice *d, int percent);

/* Returns number `index` of a sequence: uniform in [-1,1), and exact in a float. */
double number_of(uint64_t seed, uint64_t index);

/* ---- features ---------------------------------------------------------------------------------------------------- */

/* Leaves out a kind of instruction, or an operation, by its name. False for an unknown name. */
bool leave_out(const char *name);
bool is_left_out(const char *name);

/* ---- logs (log.c) ------------------------------------------------------------------------------------------------ */

typedef enum subject { VALUE, VALUE_AGAIN, LEAF, LEAF_GRADIENT, VALUE_GRADIENT, MOMENT, OUTCOME } subject;

typedef struct entry {
    int instruction;
    subject subject;
    int index;            /* of the value, the leaf or the moment */
    int64_t count, first; /* of the numbers; count -1: the variant has none */
} entry;

typedef struct run_log {
    entry *entries;
    int count, capacity;
    double *numbers;
    int64_t number_count, number_capacity;
    bool is_cut;      /* whether the run ended early, as it may */
    char broken[400]; /* what the run itself found; "" if nothing */
} run_log;

/* Add a tensor, or a NULL, which is an entry without numbers; or a number. */
void log_tensor(run_log *l, int at, subject what, int index, const tg_tensor *x);
void log_number(run_log *l, int at, subject what, int index, double number);
void log_clear(run_log *l);

/* Returns the first entry with this subject and index, from an instruction on; NULL if none exists. */
const entry *log_find(const run_log *l, int at, subject what, int index);

/* How near numbers must be. */
typedef struct closeness {
    double tolerance;    /* relative to the largest number of the entry and to 1; 0: the same bits */
    bool until_step;     /* compares only up to the first step of the optimizer */
    bool absent_is_zero; /* whether an absent gradient equals one of zeros */
} closeness;

/* Writes the first difference to `text` and returns true, or returns false. */
bool log_differ(const run_log *a, const run_log *b, const program *p, const closeness *c, char *text, size_t size);

/* ---- runs (run.c, steps.c) --------------------------------------------------------------------------------------- */

/* One way to run a program. */
typedef struct settings {
    const char *name;
    tg_dtype dtype;
    bool has_spans;
    bool recycles;   /* tg_tape_config.recycle */
    bool runs_twice; /* on the same tapes, with a reset between */
    bool detects_freed;
    bool fails; /* allocations fail as the program has it */
    bool is_elementary;
    bool is_deferred;
    bool has_dense_rows;   /* gradients by rows become dense before a step */
    bool copies_gradients; /* a gradient that is an input is copied first */
    bool copies_inputs;    /* several inputs, or a table, are copies, which share no storage and have dense gradients */
    bool has_snapshots;    /* logs the leaves and their gradients at each reset */
    bool is_differentiated; /* gradients are those of the values, which finite differences compute, too */
    int threads;            /* 0: 1 */
    bool is_baseline;       /* whether the CPU level is the lowest with the same bits */
} settings;

/* Whether the products of all tapes are reproducible: then all levels and numbers of threads have the same bits. */
extern bool is_reproducible;

typedef struct run {
    const program *p;
    settings s;
    run_log *log;
    tg_run *shared_run;
    tg_params *params;
    tg_optim *optim;
    tg_tape *tape[TAPES];
    tg_tensor *value[MOST_VALUES]; /* NULL: none, or freed */
    bool retains[MOST_VALUES];
    int value_tape[MOST_VALUES];
    int scope_first[TAPES][MOST_INSTRUCTIONS], scope_count[TAPES]; /* the first value of each open scope */
    tg_tensor *kept[MOST_VALUES];
    int kept_value[MOST_VALUES], kept_count;
    tg_tensor *first_gradient; /* of the backward that runs */
    char detail[DETAIL];       /* of the last operation */
    tg_nn_gru gru;
    tg_nn_lstm lstm;
    tg_nn_transformer_block block;

    /* finite differences: constants come from this log, and projected is the sum of result times gradient */
    const run_log *constants;
    double projected;
    tg_rng *generators[MOST_INSTRUCTIONS]; /* at each reset, if has_snapshots */
} run;

void run_begin(run *r, const program *p, const settings *s, run_log *l);
/* Runs one instruction. Returns its error; log->broken has what the instruction itself found. */
tg_code run_instruction(run *r, int i);
void run_end(run *r);

/* Runs all instructions, up to one whose error is not the expected one, and logs what is left at the end. */
void run_all(run *r);

/* Runs the whole program, and requires that it returns all memory. */
void run_program(const program *p, const settings *s, run_log *l);

/* The instructions without a value (steps.c). */
tg_code run_step(run *r, int i);
void log_leaves(run *r, int i, bool gradients);
void log_end(run *r);

/* Writes what an instruction has found to the log. */
void run_report(run *r, int i, const char *format, ...) TG_PRINTF_LIKE(3, 4);

/* Returns the gradient that a backward starts from: signed, of the shape of the result. */
tg_tensor *make_first_gradient(const run *r, const instruction *in);

/* ---- operations (operations.c, shapes.c, layers.c) --------------------------------------------------------------- */

typedef struct call {
    run *run;
    const test_row *row; /* of an operation that is a row of tests/rows */
    tg_tape *tape;
    tg_tensor *x[MOST_INPUTS];
    const uint32_t *option;
    char *detail; /* a text about the options; NULL: not wanted */
} call;

enum { IS_PRODUCT = 1, IS_LOOKUP = 2, NEEDS_MODULES = 4, DRAWS_FIRST = 8 };

typedef struct operation {
    const char *name;
    int inputs;
    int weight; /* how often it is drawn */
    tg_tensor *(*call)(call *c);
    int traits;
    int usual[MOST_INPUTS]; /* the leaf that an input often is, or 0: any value */
} operation;

/* The list begins with the rows of tests/rows that have a weight. These parts follow, which end with a NULL for a
 * name. */
extern const operation elementwise[], shapes[], layers[];
const operation *operation_at(int index);
int operation_count(void);

/* The row of an operation that is one of tests/rows, or NULL. */
const test_row *operation_row(int index);

/* For operations: adds to the text; constants that the tape owns; and axes. */
void describe(call *c, const char *format, ...) TG_PRINTF_LIKE(2, 3);

/* x^2 + 1/2, where an operation needs a positive input. */
tg_tensor *positive(call *c, tg_tensor *x);
tg_tensor *constant(call *c, tg_shape shape, uint32_t seed, double low, double high);
tg_tensor *constant_ids(call *c, tg_shape shape, uint32_t seed, int64_t bound);
tg_tensor *constant_mask(call *c, tg_shape shape, uint32_t seed);
int draw_axis(call *c, uint32_t option, const tg_tensor *x);
tg_axes draw_axes(call *c, const tg_tensor *x);

/* ---- drafts (draft.c) -------------------------------------------------------------------------------------------- */

/* A program that grows. Its instructions run in f64 as they are added, which shows whether they are valid. */
typedef struct draft {
    program *p;
    run scout;
    run_log log;
    bool is_usable[MOST_VALUES], is_dropped[MOST_VALUES], is_kept[MOST_VALUES], is_recorded[MOST_VALUES];
    bool depends_on_gradient[MOST_VALUES];
    struct {
        bool is_span;
        int first_value;
    } open[TAPES][MOST_INSTRUCTIONS];
    int open_count[TAPES];
    bool is_off[TAPES]; /* recording */
    bool has_stepped;   /* only a reset may follow */
    bool has_gradient;  /* whether a gradient was an input since the last reset */
} draft;

void draft_begin(draft *d, program *p);
/* Adds an instruction if it is valid, and completes it. */
bool draft_add(draft *d, instruction in);
void draft_end(draft *d);

/* ---- the rest ---------------------------------------------------------------------------------------------------- */

void draw_program(program *p, uint64_t seed);
void program_print(const program *p, char *text, size_t size);

typedef struct finding {
    bool is_found;
    char variants[80];
    char text[600];
} finding;

/* Runs a program in all variants. `now` is the name of the one that runs. */
void check_program(const program *p, finding *f, char *now, size_t now_size);
void check_differences(const program *p, const run *base, finding *f);

/* Removes instructions while `fails` returns true. */
void shrink_program(program *p, bool (*fails)(const program *p));

#endif
