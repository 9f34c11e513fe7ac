/* declare: functions that a shape rule calls, to declare outputs and memory (op.h). */
#include "tape/declare.h"

#include <stdio.h>

#include "base/alloc.h"
#include "base/text.h"

static const tg_tensor *input_of(const tg_op_call *call, int input)
{
    return call && input >= 0 && input < call->input_count ? call->inputs[input] : NULL;
}

static bool no_such_input(tg_op_call *call, int input)
{
    return tg_op_fail(call, TG_ERROR_VALUE, "the shape rule uses input %d, but the call has %d inputs", input,
                      call ? call->input_count : 0);
}

const char *tg_op_input_text(const tg_op *op, int input, char text[TG_INPUT_TEXT])
{
    const char *name = input < TG_OP_NAMED_INPUTS ? op->input_names[input] : NULL;
    if (name) {
        snprintf(text, TG_INPUT_TEXT, "argument '%.*s'", TG_CUT(name, 60));
    } else {
        snprintf(text, TG_INPUT_TEXT, "input %d", input);
    }
    return text;
}

bool tg_op_expect_rank(tg_op_call *call, int input, int rank)
{
    const tg_tensor *x = input_of(call, input);
    char name[TG_INPUT_TEXT];
    if (!x) {
        return no_such_input(call, input);
    }
    return x->rank == rank || tg_op_fail(call, TG_ERROR_SHAPE, "%s has shape %s; it must have rank %d",
                                         tg_op_input_text(call->op, input, name), tg_shape_text_of(x).text, rank);
}

static bool refuse_dtype(tg_op_call *call, int input, const char *allowed)
{
    char name[TG_INPUT_TEXT];
    return tg_op_fail(call, TG_ERROR_DTYPE, "%s is %s; it must be %s (tg_cast converts)",
                      tg_op_input_text(call->op, input, name), tg_dtype_name(tg_dtype_of(call->inputs[input])),
                      allowed);
}

bool tg_op_expect_dtype(tg_op_call *call, int input, tg_dtype dtype)
{
    const tg_tensor *x = input_of(call, input);
    return x ? x->dtype == dtype || refuse_dtype(call, input, tg_dtype_name(dtype)) : no_such_input(call, input);
}

/* An input of bf16 is one that may be (tg_op.bf16_inputs). */
bool tg_op_expect_float(tg_op_call *call, int input)
{
    const tg_tensor *x = input_of(call, input);
    return x ? tg_dtype_is_float(x->dtype) || x->dtype == TG_BF16 || refuse_dtype(call, input, "f32 or f64")
             : no_such_input(call, input);
}

bool tg_op_expect_ids_below(tg_op_call *call, int input, int64_t bound)
{
    return tg_op_expect_dtype(call, input, TG_I32) &&
           tg_check_ids(call->op->name, call->inputs[input], bound, call->tape->error);
}

/* Returns the declaration; outside of a shape rule NULL, with the error set. */
static struct tg_op_declaration *declaration_of(tg_op_call *call)
{
    if (call && !call->declaration) {
        tg_op_fail(call, TG_ERROR_STATE, "a kernel declares outputs or memory; only a shape rule may declare them");
    }
    return call ? call->declaration : NULL;
}

/* Declares dtype and shape of an output. The shape is checked, because an op of a user may declare any shape. */
static bool declare(tg_op_call *call, int output, tg_dtype dtype, const tg_shape *shape)
{
    struct tg_op_declaration *d = declaration_of(call);
    size_t bytes;
    if (!d) {
        return false;
    }
    if (output != call->output_count || output >= TG_OP_MAX_OUTPUTS) {
        return tg_op_fail(call, TG_ERROR_VALUE, "output %d is declared out of order, or is not below %d", output,
                          TG_OP_MAX_OUTPUTS);
    }
    if ((unsigned)dtype > TG_BF16) {
        return tg_op_fail(call, TG_ERROR_DTYPE, "%d is not a dtype", (int)dtype);
    }
    if (dtype == TG_BF16) {
        return tg_op_fail(call, TG_ERROR_DTYPE, "a result of bf16; it must be f32, f64, i32 or u8");
    }
    if (tg_shape_count(*shape) < 0) {
        return tg_shape_bytes(call->op->name, dtype, shape, &bytes, call->tape->error); /* sets the error */
    }
    call->output_count++;
    d->outputs[output].dtype = dtype;
    d->outputs[output].shape = *shape;
    d->outputs[output].viewed = NULL;
    return true;
}

bool tg_op_output(tg_op_call *call, int output, tg_dtype dtype, tg_shape shape)
{
    if (!declare(call, output, dtype, &shape)) {
        return false;
    }
    call->declaration->only_views = false;
    return true;
}

bool tg_op_output_like(tg_op_call *call, tg_dtype dtype, int input)
{
    return tg_op_output(call, 0, dtype, tg_shape_of(call->inputs[input]));
}

bool tg_op_output_view(tg_op_call *call, int output, int input, tg_shape shape, const int64_t *strides, int64_t offset)
{
    const tg_tensor *x = input_of(call, input);
    if (!x || !strides) {
        return x ? tg_op_fail(call, TG_ERROR_STATE, "the strides are NULL") : no_such_input(call, input);
    }
    if (!declare(call, output, tg_dtype_of(x), &shape)) {
        return false;
    }
    call->declaration->outputs[output].viewed = call->inputs[input];
    call->declaration->outputs[output].offset = offset;
    for (int axis = 0; axis < shape.rank; axis++) {
        call->declaration->outputs[output].strides[axis] = strides[axis];
    }
    return true;
}

static bool add_bytes(tg_op_call *call, size_t *bytes, int64_t count, size_t size)
{
    size_t more;
    if (count < 0 || !tg_checked_mul((uint64_t)count, size, &more) || !tg_checked_add(*bytes, more, bytes)) {
        return tg_op_fail(call, TG_ERROR_MEMORY, "%lld times %zu bytes do not fit into memory", (long long)count, size);
    }
    return true;
}

bool tg_op_save(tg_op_call *call, int64_t count, size_t size)
{
    struct tg_op_declaration *d = declaration_of(call);
    return d && add_bytes(call, &d->saved, count, size);
}

bool tg_op_scratch(tg_op_call *call, int64_t count, size_t size)
{
    struct tg_op_declaration *d = declaration_of(call);
    return d && add_bytes(call, &d->scratch, count, size);
}

bool tg_op_backward_scratch(tg_op_call *call, int64_t count, size_t size)
{
    struct tg_op_declaration *d = declaration_of(call);
    return d && add_bytes(call, &d->backward_scratch, count, size);
}

bool tg_op_reserve_rows(tg_op_call *call, int64_t count)
{
    struct tg_op_declaration *d = declaration_of(call);
    if (d) {
        d->rows = count;
    }
    return d != NULL;
}
