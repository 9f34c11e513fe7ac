/* tape (private): the parts of a tape.
 *
 *     records[]   one per recorded call, in order
 *     tensors[]   the inputs, then the outputs, of record 0, of record 1, ...
 *     states[]    parallel to tensors[]: the storage's version at the call, and whether a gradient was needed
 *     attributes  the copied attributes of all records, one after the other
 *     results[]   every tensor that the tape owns, recorded or not, in the order of its creation
 *     held[]      inputs that this tape did not compute, such as parameters: the tape has a reference to each
 *
 * All six grow until the reset. Then they are empty but keep their memory, so a step of known shapes allocates nothing.
 * Recorded results live until the reset anyway. An input that this tape did not compute is held once, however many
 * records read it: reference counts are atomic, and slow. A tensor has the owner of the tape that began to hold it
 * last, so one comparison tells whether this tape holds it. If the tapes of two threads take turns, each holds the
 * input several times, and gives back all of its references.
 */
#ifndef TG_TAPE_TAPE_H
#define TG_TAPE_TAPE_H

#include <tapegrad/extend.h>
#include <tapegrad/op.h>

#include "base/alloc.h"
#include "base/level.h"
#include "base/random.h"
#include "base/run.h"
#include "products/gemm.h"
#include "tape/activation_checkpoint.h"
#include "tape/no_values.h"
#include "tensor/tensor.h"

typedef struct tg_record {
    const tg_op *op;
    const tg_op_kernels *kernels; /* those that forward ran */
    void *saved;                  /* a block, which backward or the reset returns to the pool */
    size_t saved_bytes;
    size_t first_tensor;     /* the index of the first input in tensors[] */
    size_t attributes;       /* the offset in the attribute bytes; SIZE_MAX: no attributes */
    size_t scratch;          /* in bytes, enough for both kernels */
    size_t backward_scratch; /* in bytes, those of the backward kernel */
    int64_t rows;            /* the maximum number of rows that backward passes to tg_op_grad_rows */
    int32_t input_count;
    uint8_t output_count;
    bool training;
    bool planned;      /* whether the backward in progress runs the record */
    bool on_path;      /* whether the gradients of its targets go through the record (paths.c) */
    bool overwrites;   /* whether its backward kernel may overwrite uninitialized gradients */
    bool reproducible; /* whether its products are */
    bool freed;        /* whether an earlier backward has freed `saved` */
} tg_record;

/* The state of a tensor when a call was recorded. */
typedef struct tg_tensor_state {
    uint64_t version : 63;
    uint64_t requires_grad : 1;
} tg_tensor_state;

typedef struct tg_result {
    tg_tensor *tensor;
    const char *op; /* the name of the op that computed it */
} tg_result;

/* An open scope, or an open span (activation_checkpoint.c). */
typedef struct tg_scope {
    size_t results, records; /* their numbers at the beginning */
    bool is_span;
} tg_scope;

/* Runs a kernel in place of the tape (gradcheck/guard.c). `saved` and `scratch` are the bytes that the op has declared
 * for this kernel. */
typedef void tg_kernel_runner(void *context, const tg_op_call *call, tg_op_kernel kernel, bool backward, size_t saved,
                              size_t scratch);

/* Call the watches around a kernel (watch.c). */
void tg_watch_before(const tg_tape *t, const tg_op_call *call, bool is_backward);
void tg_watch_after(const tg_tape *t, const tg_op_call *call, bool is_backward);

/* Returns whether results keep their values until the reset, even if nobody in the library reads them: then freed
 * results that are used are found by their values (detect_freed_results), and a watch may look at any result. */
bool tg_tape_keeps_results(const tg_tape *t);

struct tg_tape {
    tg_error *error; /* that of the run: each op asks it */
    bool is_made;    /* whether the constructor succeeded */
    tg_owner owner;  /* of the results, with the run */
    tg_rng *rng;     /* that of the run, or NULL */
    tg_pool *pool;
    bool recording, training, detect_freed;
    bool reproducible;                /* whether products are */
    int64_t backwards, max_backwards; /* those since the reset that did not retain the graph; 0: no limit */
    tg_kernel_watch *watches;         /* a list of functions around kernels */
    tg_kernel_runner *runner;         /* or NULL: the tape runs its kernels */
    void *runner_context;

    tg_record *records;
    size_t record_count, record_capacity;
    tg_tensor **tensors;
    tg_tensor_state *states;
    size_t tensor_count, tensor_capacity; /* the capacity of tensors, states and held */
    unsigned char *attributes;
    size_t attribute_bytes, attribute_capacity;
    tg_result *results;
    size_t result_count, result_capacity;
    tg_tensor **held;
    size_t held_count;
    tg_scope *scopes; /* the open ones, the innermost last */
    size_t scope_count, scope_capacity;
    tg_tensor **freed; /* headers of freed results, if detect_freed */
    size_t freed_count, freed_capacity;

    tg_storage *no_values; /* that of all results without values */
    tg_spans spans;        /* of activation checkpointing */

    /* parallel to tensors[], for the backward in progress: what the plan has decided for an input (tg_input_plan);
     * where its gradient goes (the plan writes the blocks of adjoints, and NULL for leaves); and what the kernel does
     * with it (tg_op_call) */
    uint8_t *plans;
    void **gradients;
    tg_gradient_mode *gradient_modes;
    size_t plan_capacity, gradient_capacity, mode_capacity;
};

static inline tg_tensor **tg_record_inputs(const tg_tape *t, const tg_record *record)
{
    return t->tensors + record->first_tensor;
}

static inline tg_tensor **tg_record_outputs(const tg_tape *t, const tg_record *record)
{
    return t->tensors + record->first_tensor + record->input_count;
}

/* Returns whether an array of bits has bit i. Inputs from the 32nd on share the last bit. */
static inline bool tg_has_bit(uint32_t bits, int i)
{
    return bits >> (i < 31 ? i : 31) & 1;
}

/* Returns whether the backward kernel reads nothing but the shape of a tensor of the record: an input, or, from
 * input_count on, an output. */
static inline bool tg_backward_ignores(const tg_record *record, int i)
{
    return i < record->input_count ? tg_has_bit(record->op->backward_ignores_inputs, i)
                                   : tg_has_bit(record->op->backward_ignores_outputs, i - record->input_count);
}

/* Returns the kernels of an op for a dtype, at the CPU level in use. */
static inline const tg_op_kernels *tg_op_kernels_of(const tg_op *op, bool f64)
{
    return op->levels ? &op->levels[tg_level()][f64] : f64 ? &op->f64 : &op->f32;
}

/* Returns whether x was recorded on this tape, and so lives until the reset. */
static inline bool tg_tape_recorded(const tg_tape *t, const tg_tensor *x)
{
    return x->owner == &t->owner && x->node >= 0;
}

/* Reserves space for more results; false when memory is exhausted. */
static inline bool tg_tape_reserve_results(tg_tape *t, size_t more)
{
    size_t needed = t->result_count + more;
    return tg_grow(&t->results, &t->result_capacity, t->result_count, needed, sizeof *t->results) &&
           (!t->detect_freed ||
            tg_grow(&t->freed, &t->freed_capacity, t->freed_count, t->freed_count + needed, sizeof *t->freed));
}

/* Passes the ownership of x to the tape. tg_tape_reserve_results has reserved the space. */
static inline void tg_tape_adopt(tg_tape *t, tg_tensor *x, const char *op)
{
    x->owner = &t->owner;
    t->results[t->result_count++] = (tg_result){x, op};
}

/* Returns an uninitialized tensor that the tape owns, without running an op: a constant for the function `call`. NULL
 * with the tape's error set. */
tg_tensor *tg_tape_new_tensor(tg_tape *t, const char *call, tg_dtype dtype, tg_shape shape);

/* Begin and end a scope or a span. The end returns it until the next one begins; NULL, with the error of `call` set, if
 * memory is exhausted, or if the innermost one is of the other kind. */
bool tg_tape_begin_scope(tg_tape *t, const char *call, bool is_span);
const tg_scope *tg_tape_end_scope(tg_tape *t, const char *call, bool is_span);

/* A state of a tape. A call that consists of several ops saves one, and returns to it if one of the ops fails. */
typedef struct tg_tape_point {
    size_t records, tensors, attribute_bytes, results, held;
    bool draws; /* whether the call may draw, so that `rng` is a copy of the generator */
    tg_rng rng;
} tg_tape_point;

/* Saves the state before a call of several ops; with `draws`, also that of the generator. */
void tg_tape_save_point(const tg_tape *t, bool draws, tg_tape_point *point);

/* Ends a call of several ops: returns its result. If that is NULL, removes the records and results since the point, and
 * restores the generator. */
tg_tensor *tg_tape_end(tg_tape *t, const tg_tape_point *point, tg_tensor *result);

/* The same for a call of which nothing but `result` is left to its caller: the other results since the point give the
 * memory of their values back, if neither backward nor another tensor reads it. */
tg_tensor *tg_tape_end_module(tg_tape *t, const tg_tape_point *point, tg_tensor *result);

/* ---- calls of kernels ---- */

/* Returns whether all outputs of a call are without values. Its kernels then have nothing to compute and are not
 * called: their loops may go over axes of any length. */
static inline bool tg_op_is_empty(const tg_op_call *call)
{
    for (int i = 0; i < call->output_count; i++) {
        if (call->outputs[i]->count > 0) {
            return false;
        }
    }
    return true;
}

/* Runs a kernel, for which the op has declared so many bytes. Views have no forward kernel. */
static inline void tg_run_kernel(const tg_tape *t, const tg_op_call *call, tg_op_kernel kernel, bool is_backward,
                                 bool reproducible, size_t saved, size_t scratch)
{
    tg_products_set_reproducible(reproducible);
    if (t->runner && kernel && !tg_op_is_empty(call)) {
        t->runner(t->runner_context, call, kernel, is_backward, saved, scratch);
    } else if (kernel && !tg_op_is_empty(call)) {
        kernel(call);
    }
    tg_products_set_reproducible(false);
}

/* ---- checks before an op is called: on failure they return false, with the tape's error set ---- */

/* Sets the error of a tape that was not made. Returns false. */
bool tg_tape_refuse(const tg_tape *t);

/* Returns whether the tape exists and was made, and its run has no error. */
static inline bool tg_tape_is_usable(const tg_tape *t)
{
    return t && t->error->code == TG_OK && (t->is_made || tg_tape_refuse(t));
}

/* Writes what an input of an op is in errors: "argument 'ids'" or "input 0". Returns `text`. */
#define TG_INPUT_TEXT 80
const char *tg_op_input_text(const tg_op *op, int input, char text[TG_INPUT_TEXT]);

/* Checks that an argument is a tensor, as tg_apply does: "<call>: argument '<name>' is NULL". */
bool tg_tape_expect_input(tg_tape *t, const char *call, const char *name, const tg_tensor *x);

/* The same for what is no argument of the call: "<call>: the <name> is NULL". */
bool tg_tape_expect_tensor(tg_tape *t, const char *call, const char *name, const tg_tensor *x);

/* Checks that x is a tensor with values (tg_has_values), before a function reads them outside of an op. */
bool tg_tape_expect_values(tg_tape *t, const char *call, const char *name, const tg_tensor *x);

/* Checks that the arguments are tensors, all f32 or all f64. */
bool tg_tape_expect_floats(tg_tape *t, const char *call, const char *const *names, const tg_tensor *const *inputs,
                           int count);

/* Checks that x is a tensor that has this axis, and converts a negative axis, which counts from the end. A scalar has
 * an axis 0, as in PyTorch. */
bool tg_tape_expect_axis(tg_tape *t, const char *call, const tg_tensor *x, int *axis);

/* Checks that the config is NULL or has this mark. */
bool tg_tape_expect_config(tg_tape *t, const char *call, const void *config, const char *mark);

/* Returns a contiguous copy, as a recorded op (contiguous.c). */
tg_tensor *tg_make_contiguous(tg_tape *t, tg_tensor *x);

/* tg_op_output for a single output with the shape of an input. */
bool tg_op_output_like(tg_op_call *call, tg_dtype dtype, int input);

/* tg_op_grad_rows (tapegrad/op.h) without zeros. The slots of new rows are *first_new and those behind it, in the order
 * in which the ids first appear. A dense gradient has no new rows. If first_new is NULL, new rows are zeros. */
void *tg_find_grad_rows(const tg_op_call *call, int input, const int32_t *ids, int64_t count, int32_t *slots,
                        int32_t *first_new);

/* The inputs of embedding and embedding_bag. */
enum { TG_LOOKUP_IDS, TG_LOOKUP_TABLE };

/* A value for tg_op.accepts_layout: returns true for any layout. */
bool tg_any_layout(const tg_tensor *input, int i);

/* Initializes a tg_op whose backward reads gradients alone. */
#define TG_IGNORES_VALUES .backward_ignores_inputs = TG_OP_ALL, .backward_ignores_outputs = TG_OP_ALL

#endif
