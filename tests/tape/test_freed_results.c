/* tg_tape_config.detect_freed_results: using a result after a reset or after the end of its scope is an error that
 * names the op, and does not read freed memory. */
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/poison.h"
#include "tape_stats.h"

static tg_tape *tape;
static tg_tensor *x, *constant;

static tg_tape *new_tape(bool recycle)
{
    tg_tape_config config = tg_tape_config_default();
    config.detect_freed_results = true;
    config.recycle = recycle;
    tg_tape *t = tg_tape_new(NULL, &config);
    assert_non_null(t);
    return t;
}

static int set_up(void **state)
{
    (void)state;
    tape = new_tape(true);
    x = leaf(tensor_f64(TG_SHAPE(2), (double[]){3, 4}));
    constant = tensor_f64(TG_SHAPE(2), (double[]){5, 6});
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    tg_tape_free(tape);
    tg_release(x);
    tg_release(constant);
    return 0;
}

static tg_tensor *sum(tg_tape *t, tg_tensor *y)
{
    return tg_sum(t, y, TG_ALL_AXES, TG_DROP_AXES);
}

/* A result of exp, which a reset has freed. */
static tg_tensor *freed_by_reset(void)
{
    tg_tensor *y = tg_exp(tape, x);
    assert_non_null(y);
    tg_tape_reset(tape);
    assert_int_equal(tg_tape_error(tape)->code, TG_OK);
    return y;
}

/* A result of sqrt that was not recorded, freed by the end of its scope. */
static tg_tensor *freed_by_scope(void)
{
    assert_true(tg_scope_begin(tape));
    tg_tensor *y = tg_sqrt(tape, constant);
    assert_non_null(y);
    assert_true(tg_scope_end(tape, NULL));
    return y;
}

/* ---- uses ---- */

static void use_as_input(tg_tensor *freed, tg_error *error)
{
    (void)error;
    assert_null(tg_mul(tape, constant, freed));
}

static void use_as_result(tg_tensor *freed, tg_error *error)
{
    (void)error;
    assert_false(tg_backward(tape, freed, NULL));
}

static void use_as_first_gradient(tg_tensor *freed, tg_error *error)
{
    (void)error;
    tg_backward_config config = tg_backward_config_default();
    config.gradient = freed;
    assert_false(tg_backward(tape, x, &config));
    assert_int_equal(tg_tensor_grad_kind(x), TG_GRAD_NONE);
}

static void use_in_retain_grad(tg_tensor *freed, tg_error *error)
{
    (void)error;
    assert_false(tg_retain_grad(tape, freed));
}

static void use_in_retain(tg_tensor *freed, tg_error *error)
{
    (void)error;
    assert_null(tg_retain(freed));
}

static void use_in_release(tg_tensor *freed, tg_error *error)
{
    (void)error;
    tg_release(freed);
}

static void use_in_data_mut(tg_tensor *freed, tg_error *error)
{
    (void)error;
    assert_null(tg_tensor_data_mut(freed));
}

static void use_in_fill(tg_tensor *freed, tg_error *error)
{
    assert_false(tg_tensor_fill(freed, 1, error));
    assert_error(error, TG_ERROR_STATE, "tensor_fill: the tensor is a result of '");
}

static void use_in_fill_from(tg_tensor *freed, tg_error *error)
{
    assert_false(tg_tensor_fill_from(freed, (double[]){1, 2}, error));
    assert_error(error, TG_ERROR_STATE, "tensor_fill_from: the tensor is a result of '");
}

static void use_as_target_of_copy(tg_tensor *freed, tg_error *error)
{
    assert_false(tg_tensor_copy_from(freed, constant, error));
    assert_error(error, TG_ERROR_STATE, "tensor_copy_from: the target is a result of '");
}

static void use_as_source_of_copy(tg_tensor *freed, tg_error *error)
{
    tg_tensor *target = tensor_f64(TG_SHAPE(2), (double[]){7, 8});
    assert_false(tg_tensor_copy_from(target, freed, error));
    assert_error(error, TG_ERROR_STATE, "tensor_copy_from: the source is a result of '");
    assert_values(target, (double[]){7, 8}, 2, 0, 0);
    tg_release(target);
}

static void use_in_new_copy(tg_tensor *freed, tg_error *error)
{
    assert_null(tg_tensor_new_copy(freed, error));
    assert_error(error, TG_ERROR_STATE, "tensor_new_copy: the tensor is a result of '");
}

static void use_in_new_cast(tg_tensor *freed, tg_error *error)
{
    assert_null(tg_tensor_new_cast(freed, TG_F32, error));
    assert_error(error, TG_ERROR_STATE, "tensor_new_cast: the tensor is a result of '");
}

static void use_in_new_dense_grad(tg_tensor *freed, tg_error *error)
{
    assert_null(tg_tensor_new_dense_grad(freed, error));
    assert_error(error, TG_ERROR_STATE, "tensor_new_dense_grad: the tensor is a result of '");
}

static void use_in_item(tg_tensor *freed, tg_error *error)
{
    assert_true(isnan(tg_tensor_item(freed, error)));
    assert_error(error, TG_ERROR_STATE, "tensor_item: the tensor is a result of '");
}

static void use_in_requires_grad(tg_tensor *freed, tg_error *error)
{
    assert_false(tg_tensor_set_requires_grad(freed, true, error));
    assert_error(error, TG_ERROR_STATE, "tensor_set_requires_grad: the tensor is a result of '");
}

static void use_in_print(tg_tensor *freed, tg_error *error)
{
    FILE *file = tmpfile();
    assert_non_null(file);
    assert_false(tg_tensor_print(freed, file, NULL, error));
    assert_error(error, TG_ERROR_STATE, "tensor_print: the tensor is a result of '");
    assert_int_equal(ftell(file), 0);
    fclose(file);
}

static void use_in_zero_grad(tg_tensor *freed, tg_error *error)
{
    (void)error;
    tg_tensor_zero_grad(freed);
}

static void use_in_rows(tg_tensor *freed, tg_error *error)
{
    assert_false(tg_tensor_set_rows_frozen(freed, 0, 1, true, error));
    assert_error(error, TG_ERROR_STATE, "tensor_set_rows_frozen: the tensor is a result of '");
    assert_false(tg_tensor_resize_rows(freed, 3, error));
    assert_error(error, TG_ERROR_STATE, "tensor_resize_rows: the tensor is a result of '");
    assert_true(isnan(tg_tensor_row_norm(freed, 0, 2, error)));
    assert_error(error, TG_ERROR_STATE, "tensor_row_norm: the tensor is a result of '");
}

static void use_as_parameter(tg_tensor *freed, tg_error *error)
{
    (void)error;
    tg_params *params = tg_params_new(NULL, TG_F64);
    assert_null(tg_params_add_existing(params, "weight", freed));
    assert_params_error(params, TG_ERROR_STATE, "");
    assert_int_equal(tg_params_count(params), 0);
    tg_params_free(params);
}

static void use_in_gradcheck(tg_tensor *freed, tg_error *error);

/* A getter answers as for NULL, and the use is an error all the same. */
static void use_in_getters(tg_tensor *freed, tg_error *error)
{
    (void)error;
    assert_int_equal(tg_tensor_dtype(freed), tg_tensor_dtype(NULL));
    assert_true(tg_shape_equal(tg_tensor_shape(freed), TG_SCALAR));
    assert_int_equal(tg_tensor_rank(freed), 0);
    assert_int_equal(tg_tensor_size(freed, 0), 0);
    assert_int_equal(tg_tensor_stride(freed, 0), 0);
    assert_int_equal(tg_tensor_count(freed), 0);
    assert_false(tg_tensor_is_contiguous(freed));
    assert_null(tg_tensor_data(freed));
    assert_true(isnan(tg_tensor_value_at(freed, 0)));
    assert_false(tg_tensor_requires_grad(freed));
    assert_int_equal(tg_tensor_grad_kind(freed), TG_GRAD_NONE);
    assert_null(tg_tensor_grad(freed));
    assert_int_equal(tg_tensor_grad_rows(freed).count, 0);
    assert_false(tg_tensor_row_is_frozen(freed, 0));
    assert_int_equal(tg_tensor_row_updates(freed, 0).count, 0);
}

typedef void use(tg_tensor *freed, tg_error *error);

static use *const uses[] = {
    use_as_input,    use_as_result,         use_as_first_gradient, use_in_retain_grad,   use_in_retain,
    use_in_release,  use_in_data_mut,       use_in_fill,           use_in_fill_from,     use_as_target_of_copy,
    use_in_new_copy, use_as_source_of_copy, use_in_new_cast,       use_in_requires_grad, use_in_new_dense_grad,
    use_in_item,     use_in_print,          use_in_zero_grad,      use_in_rows,          use_as_parameter,
    use_in_getters,  use_in_gradcheck,
};

static tg_tensor *square(tg_tape *t, tg_tensor *const *inputs, int count, void *context)
{
    (void)count;
    (void)context;
    return tg_mul(t, inputs[0], inputs[0]);
}

static void use_in_gradcheck(tg_tensor *freed, tg_error *error)
{
    assert_false(tg_gradcheck(square, NULL, &freed, 1, NULL, NULL, error));
    assert_error(error, TG_ERROR_STATE, "input 0 is NULL, or was freed by its tape");
}

/* The header of a tensor whose last owner has released it may be anything. No message has a name that it lacks. */
static void test_freed_by_no_tape(void **state)
{
    (void)state;
    tg_error error = TG_NO_ERROR;
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_tensor *table = leaf(tg_tensor_new(TG_F32, TG_SHAPE(3, 2), NULL));
    tg_tensor *ids = tensor_i32(TG_SHAPE(2), (int32_t[]){0, 1});
    table->is_freed = true;
    assert_null(tg_embedding(t, ids, table, NULL));
    assert_tape_error(t, TG_ERROR_STATE, "embedding: argument 'table' was freed");
    assert_false(tg_tensor_set_requires_grad(table, true, &error));
    assert_error(&error, TG_ERROR_STATE, "was freed");
    assert_int_equal(tg_tensor_count(table), 0);
    table->is_freed = false;
    tg_release(table);
    tg_release(ids);
    tg_tape_free(t);
}

/* Each use sets the tape's error to STATE, with the name of the op. After the error is cleared, the tape works. */
static void check_uses(tg_tensor *freed, const char *op)
{
    char quoted[40];
    snprintf(quoted, sizeof quoted, "'%s'", op);
    for (size_t i = 0; i < sizeof uses / sizeof *uses; i++) {
        tg_error error = TG_NO_ERROR;
        uses[i](freed, &error);
        assert_int_equal(error.code, TG_OK);
        assert_tape_error(tape, TG_ERROR_STATE, quoted);
        tg_tensor *y = tg_add(tape, constant, constant);
        assert_values(y, (double[]){10, 12}, 2, 0, 0);
    }
}

static void test_after_a_reset(void **state)
{
    (void)state;
    check_uses(freed_by_reset(), "exp");
}

static void test_after_a_scope(void **state)
{
    (void)state;
    check_uses(freed_by_scope(), "sqrt");
}

/* Each of the getters reports by itself: not only the first of them. */
static void test_each_getter_reports(void **state)
{
    (void)state;
    tg_tensor *freed = freed_by_reset();
    static const char *const names[] = {"dtype",     "shape",         "rank",       "size",     "stride",
                                        "count",     "is_contiguous", "data",       "value_at", "requires_grad",
                                        "grad_kind", "row_is_frozen", "row_updates"};
    for (int i = 0; i < 13; i++) {
        char text[200];
        switch (i) {
        case 0: tg_tensor_dtype(freed); break;
        case 1: tg_tensor_shape(freed); break;
        case 2: tg_tensor_rank(freed); break;
        case 3: tg_tensor_size(freed, 0); break;
        case 4: tg_tensor_stride(freed, 0); break;
        case 5: tg_tensor_count(freed); break;
        case 6: tg_tensor_is_contiguous(freed); break;
        case 7: tg_tensor_data(freed); break;
        case 8: tg_tensor_value_at(freed, 0); break;
        case 9: tg_tensor_requires_grad(freed); break;
        case 10: tg_tensor_grad_kind(freed); break;
        case 11: tg_tensor_row_is_frozen(freed, 0); break;
        default: tg_tensor_row_updates(freed, 0);
        }
        snprintf(text, sizeof text,
                 "tensor_%s: the tensor is a result of 'exp' from generation 1 of its tape, which is in generation 2 "
                 "now: tg_tape_reset has freed it; tg_retain keeps a result",
                 names[i]);
        assert_tape_error(tape, TG_ERROR_STATE, text);
    }
}

/* Every call on a freed result reports it: the result that a scope is to keep is no exception. */
static void test_keep_of_a_scope(void **state)
{
    (void)state;
    tg_tensor *freed = freed_by_reset();
    assert_true(tg_scope_begin(tape));
    assert_false(tg_scope_end(tape, freed));
    assert_tape_error(tape, TG_ERROR_STATE, "'exp'");
    assert_false(tg_scope_end(tape, NULL));
    assert_tape_error(tape, TG_ERROR_STATE, "no scope is open");
}

/* The message names the call, and says in which generation the result was computed, and what has freed it. */
static void test_generations(void **state)
{
    (void)state;
    tg_tape_reset(tape);
    tg_tape_reset(tape);
    tg_tensor *freed = freed_by_scope();
    assert_null(tg_neg(tape, freed));
    assert_tape_error(tape, TG_ERROR_STATE,
                      "neg: argument 'x' is a result of 'sqrt' from generation 3 of its tape, which the end of its "
                      "scope has freed; tg_scope_end or tg_retain keeps a result");
    tg_tape_reset(tape);
    tg_release(freed);
    assert_tape_error(tape, TG_ERROR_STATE,
                      "release: the tensor is a result of 'sqrt' from generation 3 of its tape, which is in "
                      "generation 4 now: tg_tape_reset has freed it");
    assert_false(tg_backward(tape, freed, NULL));
    assert_tape_error(tape, TG_ERROR_STATE, "backward: the result is a result of 'sqrt' from generation 3");
}

/* ---- every op ---- */

typedef tg_tensor *unary(tg_tape *tape, tg_tensor *x);

static unary *const unaries[] = {tg_neg,  tg_exp,  tg_log,       tg_sqrt, tg_tanh,       tg_sigmoid, tg_relu,
                                 tg_gelu, tg_silu, tg_gelu_tanh, tg_abs,  tg_contiguous, tg_detach};

typedef tg_tensor *binary(tg_tape *tape, tg_tensor *a, tg_tensor *b);

static binary *const binaries[] = {tg_add, tg_sub, tg_mul, tg_div, tg_pow, tg_maximum, tg_minimum,
                                   tg_eq,  tg_ne,  tg_lt,  tg_le,  tg_gt,  tg_ge,      tg_matmul};

#define UNARIES ((int)(sizeof unaries / sizeof *unaries))
#define BINARIES ((int)(sizeof binaries / sizeof *binaries))
#define OTHERS 72

/* The tensors that an op takes besides the freed one. */
static tg_tensor *ids, *mask, *table;

/* A call that takes several tensors, or options, with a freed one among them. */
static tg_tensor *call_other(int number, tg_tensor *f)
{
    tg_scaled_dot_product_attention_config attention = tg_scaled_dot_product_attention_config_default();
    tg_embedding_bag_config bag = tg_embedding_bag_config_default();
    tg_tensor *parts[4];
    switch (number) {
    case 0: return tg_add_scalar(tape, f, 2);
    case 1: return tg_mul_scalar(tape, f, 2);
    case 2: return tg_div_scalar(tape, f, 2);
    case 3: return tg_pow_scalar(tape, f, 2);
    case 4: return tg_clamp(tape, f, 0, 1);
    case 5: return tg_where(tape, f, constant, constant);
    case 6: return tg_where(tape, mask, f, constant);
    case 7: return tg_where(tape, mask, constant, f);
    case 8: return tg_masked_fill(tape, f, mask, 1);
    case 9: return tg_masked_fill(tape, constant, f, 1);
    case 10: return tg_tril(tape, f, 0);
    case 11: return tg_triu(tape, f, 0);
    case 12: return tg_one_hot(tape, f, 3, TG_F64);
    case 13: return tg_sum(tape, f, TG_ALL_AXES, TG_DROP_AXES);
    case 14: return tg_mean(tape, f, TG_AXES(0), TG_KEEP_AXES);
    case 15: return tg_amax(tape, f, TG_AXES(-1), TG_KEEP_AXES);
    case 16: return tg_var(tape, f, TG_AXES(-1), 1, TG_KEEP_AXES);
    case 17: return tg_argmax(tape, f, 0, TG_DROP_AXES);
    case 18: return tg_topk(tape, f, 1, 0, TG_LARGEST_FIRST, NULL);
    case 19: return tg_reshape(tape, f, TG_SHAPE(2, -1));
    case 20: return tg_transpose(tape, f, 0, 0);
    case 21: return tg_permute(tape, f, TG_AXES(0));
    case 22: return tg_slice(tape, f, 0, 0, 1, 1);
    case 23: return tg_select(tape, f, 0, 1);
    case 24: return tg_expand(tape, f, TG_SHAPE(3, 2));
    case 25: return tg_unsqueeze(tape, f, 0);
    case 26: return tg_squeeze(tape, f, 0);
    case 27: return tg_cast(tape, f, TG_F32);
    case 28: return tg_cast(tape, f, TG_F64);
    case 29: return tg_cat(tape, (tg_tensor *[]){constant, f}, 2, 0);
    case 30: return tg_cat(tape, (tg_tensor *[]){f, constant}, 2, 0);
    case 31: return tg_stack(tape, (tg_tensor *[]){constant, f}, 2, 0);
    case 32: return tg_stack(tape, (tg_tensor *[]){f, constant}, 2, 0);
    case 33: return tg_split(tape, f, 1, 0, parts, 4) == 0 ? NULL : constant;
    case 34: return tg_gather(tape, f, 0, ids);
    case 35: return tg_gather(tape, constant, 0, f);
    case 36: return tg_index_select(tape, f, 0, ids);
    case 37: return tg_index_select(tape, constant, 0, f);
    case 38: return tg_linear(tape, f, table, NULL);
    case 39: return tg_linear(tape, constant, f, NULL);
    case 40: return tg_linear(tape, constant, table, f);
    case 41: return tg_embedding(tape, f, table, NULL);
    case 42: return tg_embedding(tape, ids, f, NULL);
    case 43: return tg_embedding_bag(tape, f, table, NULL);
    case 44: return tg_embedding_bag(tape, ids, f, NULL);
    case 45: bag.offsets = f; return tg_embedding_bag(tape, ids, table, &bag);
    case 46:
        bag.offsets = ids;
        bag.mode = TG_BAG_SUM;
        bag.weights = f;
        return tg_embedding_bag(tape, ids, table, &bag);
    case 47: return tg_rotary(tape, f, 0, NULL);
    case 48: return tg_softmax(tape, f, 0);
    case 49: return tg_log_softmax(tape, f, -1);
    case 50: return tg_layer_norm(tape, f, constant, constant, 1e-5);
    case 51: return tg_layer_norm(tape, constant, f, constant, 1e-5);
    case 52: return tg_layer_norm(tape, constant, constant, f, 1e-5);
    case 53: return tg_rms_norm(tape, f, constant, 1e-5);
    case 54: return tg_rms_norm(tape, constant, f, 1e-5);
    case 55: return tg_dropout(tape, f, 0);
    case 56: return tg_dropout(tape, f, 0.5);
    case 57: return tg_cross_entropy(tape, f, ids, NULL);
    case 58: return tg_cross_entropy(tape, table, f, NULL);
    case 59: return tg_nll_loss(tape, f, ids, NULL);
    case 60: return tg_nll_loss(tape, table, f, NULL);
    case 61: return tg_mse_loss(tape, f, constant, TG_REDUCTION_MEAN);
    case 62: return tg_mse_loss(tape, constant, f, TG_REDUCTION_MEAN);
    case 63: return tg_topk(tape, f, 1, 0, TG_LARGEST_FIRST, parts);
    default:
        /* the queries, keys, values or bias of attention, on either path */
        attention.path = number < 68 ? TG_ATTENTION_FUSED : TG_ATTENTION_ELEMENTARY;
        attention.bias = number % 4 == 3 ? f : NULL;
        return tg_scaled_dot_product_attention(tape, number % 4 == 0 ? f : table, number % 4 == 1 ? f : table,
                                               number % 4 == 2 ? f : table, &attention);
    }
}

/* No op touches a freed result, wherever it is among the arguments. */
static void test_every_op(void **state)
{
    (void)state;
    ids = tensor_i32(TG_SHAPE(2), (int32_t[]){0, 1});
    mask = tg_tensor_new_full(TG_U8, TG_SHAPE(2), 1, NULL);
    table = tensor_f64(TG_SHAPE(2, 2), (double[]){1, 2, 3, 4});
    tg_tensor *freed = freed_by_reset();
    for (int number = 0; number < UNARIES + 2 * BINARIES + OTHERS; number++) {
        int binary_number = number - UNARIES, other_number = binary_number - 2 * BINARIES;
        tg_tensor *y = other_number >= 0   ? call_other(other_number, freed)
                       : binary_number < 0 ? unaries[number](tape, freed)
                       : binary_number % 2 ? binaries[binary_number / 2](tape, freed, constant)
                                           : binaries[binary_number / 2](tape, constant, freed);
        if (y) {
            fail_msg("call %d returned a result", number);
        }
        if (tg_tape_error(tape)->code == TG_OK) {
            fail_msg("call %d reported nothing", number);
        }
        assert_tape_error(tape, TG_ERROR_STATE, "'exp'");
    }
    tg_release(ids);
    tg_release(mask);
    tg_release(table);
}

/* Nor does a module. */
static void test_modules(void **state)
{
    (void)state;
    tg_run *run = tg_run_new(1);
    tg_params *params = tg_params_new(run, TG_F64);
    tg_nn_linear linear = tg_nn_linear_make(params, "linear", 2, 2, TG_BIAS);
    tg_nn_layer_norm layer_norm = tg_nn_layer_norm_make(params, "layer_norm", 2, NULL);
    tg_nn_rms_norm rms_norm = tg_nn_rms_norm_make(params, "rms_norm", 2, NULL);
    tg_nn_embedding embedding = tg_nn_embedding_make(params, "embedding", 2, 2, NULL);
    tg_nn_embedding_bag bag = tg_nn_embedding_bag_make(params, "bag", 2, 2, NULL);
    tg_nn_positional positional = tg_nn_positional_make(params, "positional", TG_POSITION_LEARNED, 2, 2, NULL);
    tg_nn_multihead_attention attention = tg_nn_multihead_attention_make(params, "attention", 2, 2, 1, NULL);
    tg_nn_feed_forward feed_forward = tg_nn_feed_forward_make(params, "ff", 2, 2, TG_FEED_FORWARD_SWIGLU, NULL);
    tg_nn_transformer_block block = tg_nn_transformer_block_make(params, "block", 2, 1, NULL);
    tg_gpt_config config = tg_gpt_config_default();
    config.vocabulary = config.context = config.width = config.heads = config.layers = 2;
    tg_gpt *gpt = tg_gpt_new(params, &config);
    assert_string_equal(tg_params_error(params)->text, "");
    tg_tensor *at = tensor_i32(TG_SHAPE(2), (int32_t[]){0, 1}),
              *matrix = tensor_f64(TG_SHAPE(1, 1, 2), (double[]){1, 2});
    tg_tensor *freed = freed_by_reset();
    tg_nn_multihead_attention_forward_config forward = tg_nn_multihead_attention_forward_config_default();
    forward.memory = freed;
    for (int number = 0; number < 14; number++) {
        tg_tensor *y = number == 0    ? tg_nn_linear_forward(tape, &linear, freed)
                       : number == 1  ? tg_nn_layer_norm_forward(tape, &layer_norm, freed)
                       : number == 2  ? tg_nn_rms_norm_forward(tape, &rms_norm, freed)
                       : number == 3  ? tg_nn_embedding_forward(tape, &embedding, freed)
                       : number == 4  ? tg_nn_embedding_bag_forward(tape, &bag, freed, NULL, NULL)
                       : number == 5  ? tg_nn_embedding_bag_forward(tape, &bag, at, freed, NULL)
                       : number == 6  ? tg_nn_embedding_bag_forward(tape, &bag, at, at, freed)
                       : number == 7  ? tg_nn_positional_forward(tape, &positional, freed, 0)
                       : number == 8  ? tg_nn_multihead_attention_forward(tape, &attention, freed, NULL)
                       : number == 9  ? tg_nn_multihead_attention_forward(tape, &attention, matrix, &forward)
                       : number == 10 ? tg_nn_feed_forward_forward(tape, &feed_forward, freed)
                       : number == 11 ? tg_nn_transformer_block_forward(tape, &block, freed, NULL)
                       : number == 12 ? tg_nn_transformer_block_forward(tape, &block, matrix, &forward)
                                      : tg_gpt_forward(tape, gpt, freed, NULL);
        if (y || tg_tape_error(tape)->code == TG_OK) {
            fail_msg("module %d %s", number, y ? "returned a result" : "reported nothing");
        }
        assert_tape_error(tape, TG_ERROR_STATE, "'exp'");
    }
    tg_tape_reset(tape);
    tg_release(at);
    tg_release(matrix);
    tg_gpt_free(gpt);
    tg_params_free(params);
    tg_run_free(run);
}

/* ---- what stays usable ---- */

static void test_retained_results_stay(void **state)
{
    (void)state;
    tg_tensor *kept = tg_retain(tg_mul(tape, x, constant));
    assert_non_null(kept);
    tg_tape_reset(tape);
    assert_values(kept, (double[]){15, 24}, 2, 0, 0);
    assert_false(tg_tensor_requires_grad(kept));
    assert_true(tg_scope_begin(tape));
    tg_tensor *also_kept = tg_retain(tg_add(tape, kept, constant));
    assert_true(tg_scope_end(tape, NULL));
    assert_values(also_kept, (double[]){20, 30}, 2, 0, 0);
    assert_true(tg_backward(tape, sum(tape, tg_mul(tape, x, also_kept)), NULL));
    assert_values(tg_tensor_grad(x), (double[]){20, 30}, 2, 0, 0);
    assert_int_equal(tg_tape_error(tape)->code, TG_OK);
    tg_tape_reset(tape);
    tg_release(kept);
    tg_release(also_kept);
    assert_int_equal(tg_tape_error(tape)->code, TG_OK);
}

/* The user's own tensors stay usable through resets, scopes and an error; so does a gradient. */
static void test_tensors_of_the_user_stay(void **state)
{
    (void)state;
    tg_tensor *y = tg_reshape(tape, x, TG_SHAPE(2, 1));
    assert_true(tg_backward(tape, sum(tape, tg_mul(tape, y, y)), NULL));
    assert_true(tg_scope_begin(tape));
    tg_transpose(tape, constant, 0, 0);
    assert_true(tg_scope_end(tape, NULL));
    tg_tape_reset(tape);
    assert_null(tg_neg(tape, y));
    assert_values(x, (double[]){3, 4}, 2, 0, 0);
    assert_values(constant, (double[]){5, 6}, 2, 0, 0);
    assert_values(tg_tensor_grad(x), (double[]){6, 8}, 2, 0, 0);
    assert_true(tg_tensor_fill(constant, 2, NULL));
    assert_tape_error(tape, TG_ERROR_STATE, "'reshape'");
    assert_values(tg_mul(tape, x, constant), (double[]){6, 8}, 2, 0, 0);
}

/* A retained view keeps the values of the result that it views, though the result itself is gone. */
static void test_retained_view_of_a_freed_result(void **state)
{
    (void)state;
    tg_tensor *y = tg_mul(tape, x, constant);
    tg_tensor *view = tg_retain(tg_slice(tape, y, 0, 1, 2, 1));
    tg_tape_reset(tape);
    assert_values(view, (double[]){24}, 1, 0, 0);
    assert_null(tg_neg(tape, y));
    assert_tape_error(tape, TG_ERROR_STATE, "'mul'");
    assert_values(tg_neg(tape, view), (double[]){-24}, 1, 0, 0);
    tg_release(view);
}

/* What a scope keeps, and what was recorded in it, is usable until the reset. */
static void test_results_that_a_scope_keeps(void **state)
{
    (void)state;
    assert_true(tg_scope_begin(tape));
    tg_tensor *recorded = tg_mul(tape, x, constant), *kept = tg_neg(tape, constant), *freed = tg_sqrt(tape, constant);
    assert_true(tg_scope_end(tape, kept));
    assert_values(kept, (double[]){-5, -6}, 2, 0, 0);
    assert_true(tg_backward(tape, sum(tape, recorded), NULL));
    assert_int_equal(tg_tape_error(tape)->code, TG_OK);
    assert_int_equal(tg_tensor_count(freed), 0);
    assert_tape_error(tape, TG_ERROR_STATE, "'sqrt'");
    tg_tape_reset(tape);
    assert_int_equal(tg_tensor_count(kept), 0);
    assert_tape_error(tape, TG_ERROR_STATE, "'neg'");
    assert_int_equal(tg_tensor_count(recorded), 0);
    assert_tape_error(tape, TG_ERROR_STATE, "'mul'");
}

/* A record holds an unrecorded input beyond the end of its scope; with the reset it is freed like any other result. */
static void test_result_that_a_record_holds(void **state)
{
    (void)state;
    assert_true(tg_scope_begin(tape));
    tg_tensor *factor = tg_mul(tape, constant, constant);
    tg_tensor *y = tg_mul(tape, x, factor);
    assert_true(tg_scope_end(tape, NULL));
    assert_true(tg_backward(tape, sum(tape, y), NULL));
    assert_values(tg_tensor_grad(x), (double[]){25, 36}, 2, 0, 0);
    tg_tape_reset(tape);
    assert_int_equal(tg_tensor_count(factor), 0);
    assert_tape_error(tape, TG_ERROR_STATE, "'mul'");
}

/* ---- errors ---- */

/* The tape that computed the result has the error, and the tape of the op has one, too. */
static void test_other_tape(void **state)
{
    (void)state;
    tg_tape *other = tg_tape_new(NULL, NULL);
    tg_tensor *freed = freed_by_reset();
    assert_null(tg_mul(other, constant, freed));
    assert_tape_error(other, TG_ERROR_STATE, "mul: argument 'b' is a result of 'exp' from generation 1 of its tape");
    assert_tape_error(tape, TG_ERROR_STATE, "'exp'");
    assert_false(tg_backward(other, freed, NULL));
    assert_tape_error(other, TG_ERROR_STATE, "backward: the result is a result of 'exp' from generation 1 of its tape");
    assert_tape_error(tape, TG_ERROR_STATE, "'exp'");
    tg_tape_free(other);
}

/* The first error stays, and names the op of the first result that was used. */
static void test_first_error_stays(void **state)
{
    (void)state;
    tg_tensor *first = tg_exp(tape, x), *second = tg_tanh(tape, x);
    tg_tape_reset(tape);
    assert_null(tg_tensor_data_mut(second));
    tg_release(first);
    assert_null(tg_mul(tape, constant, constant));
    assert_tape_error(tape, TG_ERROR_STATE, "'tanh'");
    assert_non_null(tg_mul(tape, constant, constant));
}

/* Later results are other objects: a stale handle never becomes one of them, however many steps follow. */
static void test_stale_handles_stay_stale(void **state)
{
    (void)state;
    tg_tensor *stale[20];
    for (int step = 0; step < 20; step++) {
        stale[step] = step % 2 ? tg_exp(tape, x) : tg_tanh(tape, x);
        for (int k = 0; k < step; k++) {
            assert_ptr_not_equal(stale[step], stale[k]);
        }
        tg_tape_reset(tape);
    }
    for (int step = 0; step < 20; step++) {
        assert_null(tg_neg(tape, stale[step]));
        assert_tape_error(tape, TG_ERROR_STATE, step % 2 ? "'exp'" : "'tanh'");
    }
    assert_int_equal(tape_stats_of(tape).results, 0);
}

/* Many results in one step, more than the list of freed ones has space for at first; some of them end with a scope. */
static void test_many_results(void **state)
{
    (void)state;
    enum { RESULTS = 500 };
    tg_tensor *results[RESULTS];
    for (int step = 0; step < 2; step++) {
        assert_true(tg_scope_begin(tape));
        for (int i = 0; i < RESULTS; i++) {
            results[i] = i % 2 ? tg_exp(tape, x) : tg_neg(tape, constant);
        }
        assert_true(tg_scope_end(tape, NULL));
        assert_int_equal(tape_stats_of(tape).results, RESULTS / 2);
        assert_values(results[1], (double[]){exp(3), exp(4)}, 2, 1e-15, 0);
        tg_tape_reset(tape);
        for (int i = 0; i < RESULTS; i++) {
            assert_null(tg_tensor_data(results[i]));
            assert_tape_error(tape, TG_ERROR_STATE, i % 2 ? "'exp'" : "'neg'");
        }
    }
}

/* A pointer to the values of a freed result, which must not be kept, reads NaN, or 255 for bytes, not the result. */
static void test_values_of_freed_results(void **state)
{
    (void)state;
    const double *values = tg_tensor_data(tg_exp(tape, x));
    const uint8_t *bytes = tg_tensor_data(tg_lt(tape, x, constant));
    assert_int_equal(bytes[1], 1);
    tg_tape_reset(tape);
    /* AddressSanitizer would report these reads */
    tg_unpoison((void *)(uintptr_t)values, 2 * sizeof *values);
    tg_unpoison((void *)(uintptr_t)bytes, 2 * sizeof *bytes);
    assert_true(isnan(values[0]) && isnan(values[1]));
    assert_int_equal(bytes[1], 255);
}

/* ---- memory ---- */

/* One step whose result is used too late. */
static bool late_step(tg_tape *t, tg_tensor *leaf_of_step)
{
    tg_tape_reset(t);
    tg_tensor_zero_grad(leaf_of_step);
    tg_tensor *y = tg_mul(t, leaf_of_step, leaf_of_step);
    if (!tg_scope_begin(t)) {
        return false;
    }
    tg_full(t, TG_F64, TG_SHAPE(3), 1);
    if (!tg_scope_end(t, NULL) || !tg_backward(t, sum(t, y), NULL)) {
        return false;
    }
    tg_tape_reset(t);
    assert_null(tg_neg(t, y));
    assert_tape_error(t, TG_ERROR_STATE, "'mul'");
    return true;
}

/* Without recycling, where a sanitizer sees every stale read, and with it. */
static void test_nothing_leaks(void **state)
{
    (void)state;
    for (int recycle = 0; recycle < 2; recycle++) {
        counting_allocator counting;
        allocator_install(&counting);
        tg_tape *t = new_tape(recycle);
        tg_tensor *own = leaf(tensor_f64(TG_SHAPE(2), (double[]){3, 4}));
        for (int step = 0; step < 50; step++) {
            assert_true(late_step(t, own));
        }
        /* freed with results, headers and an open scope */
        tg_exp(t, own);
        assert_true(tg_scope_begin(t));
        tg_neg(t, own);
        tg_tape_free(t);
        tg_release(own);
        assert_int_equal(counting.live, 0);
        allocator_restore();
    }
}

/* Allocation number k fails, for every k. */
static void test_out_of_memory(void **state)
{
    (void)state;
    bool finished = false;
    size_t failures = 0;
    for (size_t k = 1; !finished; k++) {
        counting_allocator counting;
        allocator_install(&counting);
        tg_tensor *own = leaf(tensor_f64(TG_SHAPE(2), (double[]){3, 4}));
        tg_tape_config config = tg_tape_config_default();
        config.detect_freed_results = true;
        allocator_arm(&counting, k, true);
        tg_tape *t = tg_tape_new(NULL, &config);
        finished = t && late_step(t, own);
        if (t && !finished) {
            assert_tape_error(t, TG_ERROR_MEMORY, "out of memory");
            allocator_arm(&counting, 0, false);
            assert_true(late_step(t, own));
        }
        failures += !finished;
        allocator_arm(&counting, 0, false);
        tg_tape_free(t);
        tg_release(own);
        assert_int_equal(counting.live, 0);
        allocator_restore();
    }
    assert_true(failures > 10);
}

/* Masks and lengths of attention, which are read before an op is called. */
static void test_masks_of_attention(void **state)
{
    (void)state;
    tg_tensor *queries = tg_tensor_new_full(TG_F64, TG_SHAPE(2, 3, 4), 1, NULL);
    for (int is_mask = 0; is_mask < 2; is_mask++) {
        tg_tensor *freed = is_mask ? tg_full(tape, TG_U8, TG_SHAPE(2, 3), 1) : tg_full(tape, TG_I32, TG_SHAPE(2), 3);
        assert_non_null(freed);
        tg_tape_reset(tape);
        for (int path = TG_ATTENTION_FUSED; path <= TG_ATTENTION_ELEMENTARY; path++) {
            tg_scaled_dot_product_attention_config config = tg_scaled_dot_product_attention_config_default();
            config.path = (tg_attention_path)path;
            config.key_mask = is_mask ? freed : NULL;
            config.lengths = is_mask ? NULL : freed;
            assert_null(tg_scaled_dot_product_attention(tape, queries, queries, queries, &config));
            assert_tape_error(tape, TG_ERROR_STATE,
                              is_mask ? "argument 'key_mask' is a result of 'full'"
                                      : "argument 'lengths' is a result of 'full'");
        }
    }
    tg_release(queries);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_freed_by_no_tape),
        cmocka_unit_test_setup_teardown(test_masks_of_attention, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_after_a_reset, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_after_a_scope, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_each_getter_reports, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_generations, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_every_op, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_modules, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_keep_of_a_scope, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_retained_results_stay, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_tensors_of_the_user_stay, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_retained_view_of_a_freed_result, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_results_that_a_scope_keeps, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_result_that_a_record_holds, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_other_tape, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_first_error_stays, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_stale_handles_stay_stale, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_many_results, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_values_of_freed_results, set_up, tear_down),
        cmocka_unit_test(test_nothing_leaks),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests_name("freed_results", tests, NULL, NULL);
}
