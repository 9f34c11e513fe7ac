/* Every callback of the headers gets the context that its header names. tests/lint/api compares the list with the
 * headers. */
#include "support.h"

#include <stdlib.h>
#include <tapegrad/extend.h>

static tg_checkpoint_group own; /* the context of all of them */
static unsigned called;         /* one bit per callback */

/* A callback, whose argument `context` is its context. */
#define CALLBACK(returned, function, name, arguments, body) \
    static returned function arguments                      \
    {                                                       \
        called |= 1U << __COUNTER__;                        \
        assert_ptr_equal(context, &own);                    \
        body;                                               \
    }
CALLBACK(void *, allocate, "tg_allocator.allocate", (void *context, size_t bytes, size_t alignment),
         return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment))
CALLBACK(void, give_back, "tg_allocator.release", (void *context, void *block), aligned_free(block))
CALLBACK(bool, agree, "tg_checkpoint_group_calls.agree",
         (const tg_checkpoint_group *context, const tg_error *local, tg_error *error), return local != error)
CALLBACK(bool, share, "tg_checkpoint_group_calls.share",
         (const tg_checkpoint_group *context, void *bytes, int64_t size, tg_error *error),
         return bytes && size && error)
CALLBACK(void, before, "tg_kernel_watch.before", (void *context, const tg_op_call *call, bool again),
         (void)(call + again))
CALLBACK(void, after, "tg_kernel_watch.after", (void *context, const tg_op_call *call, bool again),
         (void)(call + again))
CALLBACK(bool, on_token, "tg_generate_config.on_token", (void *context, int64_t text, int32_t id), return text + id < 0)
CALLBACK(tg_tensor *, next_logits, "tg_language_model.step",
         (tg_tape * tape, const tg_generate_pass *pass, void *context),
         return tg_full(tape, TG_F32, TG_SHAPE(tg_tensor_shape(pass->ids).size[0], 2), 0))
CALLBACK(bool, has_token, "tg_gpt_chat_format_find.has_token", (void *context, const char *token), return *token == '<')
CALLBACK(tg_tensor *, square, "tg_gradcheck_function", (tg_tape * tape, tg_tensor *const *x, int count, void *context),
         return tg_mul(tape, x[0], x[count - 1]))
static tg_tensor *moved;
CALLBACK(tg_tensor *, loss, "tg_loss_function", (tg_tape * tape, void *context), return tg_mul(tape, moved, moved))
CALLBACK(void, reference, "tg_gradcheck_reference", (void *context, const double *const *x, double *y), *y = **x * **x)
CALLBACK(void, forward, "tg_gradcheck_kernels.forward", (void *context, const void *const *x, void *y),
         *(float *)y = *(const float *)*x * *(const float *)*x)
CALLBACK(void, backward, "tg_gradcheck_kernels.backward",
         (void *context, const void *const *x, const void *dy, void *const *dx),
         *(float *)*dx += 2 * *(const float *)*x * *(const float *)dy)
CALLBACK(void, body, "tg_parallel_for.body", (void *context, int64_t begin, int64_t end), (void)(begin + end))
CALLBACK(void, on_gradient, "tg_backward_config.on_gradient", (void *context, tg_tensor *x), (void)x)
CALLBACK(bool, on_training, "tg_tokenizer_train_files_config.on_progress",
         (void *context, const tg_text_progress *progress), return progress)
CALLBACK(bool, on_encoding, "tg_tokenizer_encode_files_config.on_progress",
         (void *context, const tg_text_progress *progress), return progress)

static void test_contexts(void **state)
{
    (void)state;
    tg_error error = TG_NO_ERROR;
    tg_set_allocator(&(tg_allocator){allocate, give_back, &own});
    tg_release(tg_tensor_new(TG_F32, TG_SCALAR, &error));
    tg_set_allocator(NULL);
    own = (tg_checkpoint_group){&(tg_checkpoint_group_calls){agree, share}, 0, 2};
    tg_gpt_chat_format format;
    assert_true(tg_gpt_chat_format_find(has_token, &own, &format, &error));
    tg_checkpoint_part part = tg_checkpoint_integer("step", &(int64_t){1});
    assert_true(tg_checkpoint_save_together("test_callbacks", &part, 1, &own, &error));
    tg_run *run = tg_run_new(1);
    tg_tape *tape = tg_tape_new(run, NULL);
    tg_kernel_watch watch = {.before = before, .after = after, .context = &own};
    tg_backward_config pass = tg_backward_config_default();
    pass.on_gradient = on_gradient;
    pass.context = &own;
    tg_tensor *x = leaf(tensor_f32(TG_SCALAR, (float[]){3}));
    tg_tape_add_watch(tape, &watch);
    assert_true(tg_backward(tape, tg_mul(tape, x, x), &pass));
    tg_parallel_for(1, 1, body, &own);
    tg_params *params = tg_params_new(run, TG_F32);
    tg_gradcheck_kernels kernels = {forward, backward, &own, TG_SCALAR};
    tg_gradcheck_config floats = tg_gradcheck_config_default();
    floats.dtype = TG_F32;
    floats.reference = reference;
    assert_true(tg_gradcheck(square, &own, &x, 1, &floats, NULL, &error));
    assert_true(tg_gradcheck_params(params, square, &own, &x, 1, &floats, NULL, &error));
    assert_true(tg_gradcheck_arrays(&kernels, &x, 1, &floats, NULL, &error));
    moved = leaf(x);
    tg_tensor *product;
    assert_true(tg_hvp(tape, loss, &own, &x, 1, &x, &product, NULL));
    tg_gpt_config sizes = tg_gpt_config_default();
    sizes.vocabulary = sizes.context = sizes.width = sizes.heads = sizes.layers = 2;
    tg_gpt *gpt = tg_gpt_new(params, &sizes);
    tg_generate_config generation = tg_generate_config_default();
    generation.on_token = on_token;
    generation.context = &own;
    assert_int_equal(tg_gpt_generate(tape, gpt, (int32_t[]){0}, 1, (int32_t[50]){0}, &generation), 1);
    tg_language_model any = {next_logits, &own, 2, 2, false};
    int64_t made;
    assert_true(tg_generate(tape, &any, (int32_t[]){0}, (int64_t[]){1}, 1, (int32_t[50]){0}, &made, &generation));
    static const char *const path = "test_callbacks";
    tg_tokenizer_train_files_config training = tg_tokenizer_train_files_config_default();
    tg_tokenizer_encode_files_config encoding = tg_tokenizer_encode_files_config_default();
    training.on_progress = on_training;
    encoding.on_progress = on_encoding;
    training.context = encoding.context = &own;
    FILE *file = fopen(path, "wb");
    assert_true(file && fputs("a text and a text", file) >= 0 && fclose(file) == 0);
    tg_tokenizer *tokenizer = tg_tokenizer_train_files(&path, 1, 257, &training, &error);
    assert_true(tg_tokenizer_encode_files(tokenizer, &path, 1, "test_callbacks.ids", 2, &encoding, &error) > 0);
    assert_int_equal(called, (1U << __COUNTER__) - 1);
    tg_tokenizer_free(tokenizer);
    tg_gpt_free(gpt);
    tg_params_free(params);
    tg_tape_free(tape);
    tg_run_free(run);
    tg_release(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_contexts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
