/* Programs over all public functions that work on a tape, tensors, params, optimizers and models. Each input is a
 * program; tests/fuzz/make_calls writes the calls from the headers. Three rules are checked:
 *
 *   - A call that fails changes nothing: the state of everything that the program can reach is hashed before each call,
 *     and compared if the call failed. Only the error may change. Allocations fail, too, as the program chooses.
 *   - A call returns failure exactly if it has set an error.
 *   - At the end, all memory is returned.
 *
 * A broken rule prints the program. With TG_FUZZ_TRACE in the environment each call is printed before it runs. With
 * TG_FUZZ_BITS, a number of threads, the products are reproducible, and each program prints hashes of its last values
 * and gradients: tests/fuzz/levels compares them. */
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "sequence.h"

bool prints_bits;

/* ---- the trace ---- */

static char trace[65536];
static size_t trace_length;

void note(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    size_t left = sizeof trace - trace_length;
    int length = vsnprintf(trace + trace_length, left, format, arguments);
    va_end(arguments);
    if (length > 0) {
        trace_length += (size_t)length < left ? (size_t)length : left - 1;
    }
}

static void require(bool condition, const program *p, const char *broken, const char *detail)
{
    if (!condition) {
        fprintf(stderr, "%s\n", trace);
        fuzz_require(false, "%s: %s: %s", p->call, broken, detail);
    }
}

/* ---- one call ---- */

/* The program may have chosen other products and streams. */
static void make_reproducible(program *p)
{
    if (prints_bits) {
        tg_rng_set_profile(tg_run_rng(p->run), TG_RNG_PORTABLE);
        tg_tape_set_reproducible(p->tape, true);
        tg_run_clear_error(p->run);
    }
}

static void begin_call(program *p, const char *name)
{
    if (getenv("TG_FUZZ_TRACE")) {
        fputs(trace, stderr);
        trace_length = 0;
    }
    /* Sometimes an error stays, and the call must refuse to work. */
    if (fuzz_byte(&p->input) % 8 > 0) {
        tg_run_clear_error(p->run);
    }
    make_reproducible(p);
    tg_error_clear(&p->error);
    p->call = name;
    p->indices = p->last = NULL;
    memset(p->parts, 0, sizeof p->parts);
    note("\n%s(", name);
}

static void before_call(program *p)
{
    note(")");
    p->before = state_of(p);
    unsigned drawn = fuzz_byte(&p->input);
    if (drawn >= 192) {
        note(", allocation %u fails%s", 1 + drawn % 16, drawn & 32 ? ", and later ones" : "");
        fuzz_memory_fail(1 + drawn % 16, drawn & 32);
    }
    if (getenv("TG_FUZZ_TRACE")) {
        fputs(trace, stderr);
        trace_length = 0;
    }
}

static void end_call(program *p)
{
    (void)p;
    fuzz_memory_fail(0, false);
}

static void after_call(program *p, bool is_success, const tg_error *error)
{
    static const char *const names[PARTS] = {"values",     "versions or shapes", "gradients",
                                             "row states", "the generator",      "the tape",
                                             "the params", "the optimizer",      "a model or a cache"};
    end_call(p);
    if (error->code != TG_OK) {
        note(": %s", error->text);
    }
    require(is_success == (error->code == TG_OK), p, "the result does not match the error", error->text);
    state after = is_success ? p->before : state_of(p);
    for (int i = 0; i < PARTS; i++) {
        require(p->before.hash[i] == after.hash[i], p, "a failed call has changed", names[i]);
    }
}

/* ---- results and objects ---- */

static void keep_result(program *p, tg_tensor *x)
{
    if (x && p->result_count < MAX_RESULTS && tg_tensor_count(x) <= MAX_VALUES) {
        p->results[p->result_count++] = x;
    }
}

static void own(program *p, tg_tensor *x)
{
    if (x && (p->owned_count == MAX_OWNED || tg_tensor_count(x) > MAX_VALUES)) {
        tg_release(x);
    } else if (x) {
        p->owned[p->owned_count++] = x;
    }
}

/* Removes a tensor from a list. */
static void forget(tg_tensor **list, int *count, const tg_tensor *x)
{
    int kept = 0;
    for (int i = 0; i < *count; i++) {
        if (list[i] != x) {
            list[kept++] = list[i];
        }
    }
    *count = kept;
}

/* The same for a result. The scopes then begin earlier in the list. */
static void forget_result(program *p, const tg_tensor *x)
{
    for (int k = 0; k < p->scope_count; k++) {
        int removed = 0;
        for (int i = 0; i < p->scopes[k]; i++) {
            removed += p->results[i] == x;
        }
        p->scopes[k] -= removed;
    }
    forget(p->results, &p->result_count, x);
}

/* Forgets the results from index `from` on, which the tape has freed. */
static void forget_results(program *p, int from)
{
    for (int i = from; i < p->result_count; i++) {
        bool is_freed = p->detects_freed && p->freed_count < MAX_RESULTS;
        for (int k = 0; k < p->owned_count; k++) {
            is_freed = is_freed && p->owned[k] != p->results[i];
        }
        if (is_freed) {
            p->freed[p->freed_count++] = p->results[i];
        }
    }
    p->result_count = from;
}

static void set_optim(program *p, tg_optim *optim)
{
    if (optim) {
        tg_optim_free(p->optim);
        p->optim = optim;
    }
}

static void set_gpt(program *p, tg_gpt *gpt)
{
    if (gpt) {
        tg_gpt_free(p->gpt);
        p->gpt = gpt;
    }
}

static void set_cache(program *p, tg_kv_cache *cache)
{
    if (cache) {
        tg_kv_cache_free(p->cache);
        p->cache = cache;
    }
}

#include "calls.inc"

/* ---- calls that keep books ---- */

static void new_tensor(program *p)
{
    enum { MOST = 600 };
    static union {
        float f32[MOST];
        double f64[MOST];
        int32_t i32[MOST];
        uint8_t u8[MOST];
    } values;
    begin_call(p, "tg_tensor_new_from");
    static const tg_dtype dtypes[] = {TG_F32, TG_F32, TG_F32, TG_I32, TG_I32, TG_U8, TG_F64, TG_F64};
    tg_dtype dtype = dtypes[fuzz_byte(&p->input) % 8];
    tg_shape shape = draw_shape(p);
    int64_t count = 1;
    for (int axis = 0; axis < shape.rank && axis < TG_MAX_RANK; axis++) {
        bool is_small = shape.size[axis] >= 0 && shape.size[axis] <= MOST && count * shape.size[axis] <= MOST;
        count = is_small ? count * shape.size[axis] : MOST + 1;
    }
    shape = count > MOST ? tg_shape_make(0, NULL) : shape;
    unsigned kind = fuzz_byte(&p->input);
    for (int i = 0; i < MOST; i++) {
        int number = (int)(kind * 7 + (unsigned)i * 11) % 13 - 4;
        switch (dtype) {
        case TG_F32: values.f32[i] = kind == 255 && i == 2 ? NAN : (float)number / 4; break;
        case TG_F64: values.f64[i] = kind == 255 && i == 2 ? INFINITY : number / 4.; break;
        case TG_I32: values.i32[i] = kind < 240 ? (number + 4) % 4 : number * 100000; break;
        default: values.u8[i] = (uint8_t)(number > 0); break;
        }
    }
    before_call(p);
    tg_tensor *x = tg_tensor_new_from(dtype, shape, &values, &p->error);
    after_call(p, x, &p->error);
    own(p, x);
}

static void new_leaf(program *p)
{
    int before = p->owned_count;
    new_tensor(p);
    if (p->owned_count > before) {
        tg_tensor_set_requires_grad(p->owned[before], true, NULL);
    }
}

static void reset(program *p)
{
    begin_call(p, "tg_tape_reset");
    before_call(p);
    tg_tape_reset(p->tape);
    end_call(p);
    forget_results(p, 0);
    p->scope_count = 0;
}

static void begin_either(program *p, bool is_span)
{
    begin_call(p, is_span ? "tg_activation_checkpoint_begin" : "tg_scope_begin");
    if (p->scope_count == MAX_SCOPES) {
        return;
    }
    before_call(p);
    bool is_begun = is_span ? tg_activation_checkpoint_begin(p->tape) : tg_scope_begin(p->tape);
    after_call(p, is_begun, tg_tape_error(p->tape));
    if (is_begun) {
        p->is_span[p->scope_count] = is_span;
        p->scopes[p->scope_count++] = p->result_count;
    }
}

static void begin_scope(program *p)
{
    begin_either(p, false);
}

static void begin_span(program *p)
{
    begin_either(p, true);
}

/* Returns whether the innermost scope is one of this kind. */
static bool is_innermost(const program *p, bool is_span)
{
    return p->scope_count > 0 && p->is_span[p->scope_count - 1] == is_span;
}

static void end_span(program *p)
{
    begin_call(p, "tg_activation_checkpoint_end");
    tg_tensor *result = draw_tensor(p, TG_F32);
    before_call(p);
    tg_tensor *ended = tg_activation_checkpoint_end(p->tape, result);
    end_call(p);
    require(ended == (tg_tape_error(p->tape)->code == TG_OK ? result : NULL), p, "the result does not match the error",
            "");
    p->scope_count -= is_innermost(p, true);
}

static void end_scope(program *p)
{
    begin_call(p, "tg_scope_end");
    tg_tensor *keep = fuzz_byte(&p->input) % 2 ? draw_tensor(p, TG_F32) : NULL;
    bool is_kept = false;
    for (int i = p->scope_count > 0 ? p->scopes[p->scope_count - 1] : 0; i < p->result_count; i++) {
        is_kept = is_kept || p->results[i] == keep;
    }
    before_call(p);
    bool is_ended = tg_scope_end(p->tape, keep);
    end_call(p);
    require(is_ended == (tg_tape_error(p->tape)->code == TG_OK), p, "the result does not match the error", "");
    if (is_innermost(p, false)) {
        if (is_kept) {
            forget_result(p, keep);
        }
        forget_results(p, p->scopes[--p->scope_count]);
        if (is_kept) {
            keep_result(p, keep);
        }
    }
}

static void retain(program *p)
{
    begin_call(p, "tg_retain");
    tg_tensor *x = draw_tensor(p, TG_F32);
    for (int i = 0; i < p->freed_count; i++) {
        x = x == p->freed[i] ? NULL : x;
    }
    before_call(p);
    own(p, tg_retain(x));
    end_call(p);
}

static void release(program *p)
{
    begin_call(p, "tg_release");
    int index = (int)(fuzz_byte(&p->input) % MAX_OWNED);
    note(" owned%d", index);
    before_call(p);
    if (index < p->owned_count) {
        tg_tensor *x = p->owned[index];
        p->owned[index] = p->owned[--p->owned_count];
        bool is_owned_twice = false;
        for (int i = 0; i < p->owned_count; i++) {
            is_owned_twice = is_owned_twice || p->owned[i] == x;
        }
        if (!is_owned_twice) {
            forget_result(p, x);
            forget(p->freed, &p->freed_count, x);
        }
        tg_release(x);
    }
    end_call(p);
}

static void generate(program *p)
{
    static int32_t prompt[MAX_NUMBERS], ids[MAX_NUMBERS];
    begin_call(p, "tg_gpt_generate");
    tg_generate_config config = tg_generate_config_default();
    config.max_new_tokens = draw_capacity(p);
    config.use_cache = draw_bool(p);
    const tg_sample_config *sample = draw_tg_sample_config(p);
    if (sample) {
        config.sample = *sample;
    }
    int64_t count = draw_capacity(p);
    for (int i = 0; i < MAX_NUMBERS; i++) {
        prompt[i] = (int32_t)(fuzz_byte(&p->input) % 6);
        ids[i] = -7;
    }
    before_call(p);
    int64_t written = tg_gpt_generate(p->tape, p->gpt, prompt, count, ids, &config);
    after_call(p, written >= 0, tg_tape_error(p->tape));
    for (int i = written < 0 ? 0 : (int)written; i < MAX_NUMBERS; i++) {
        require(ids[i] == -7, p, "an id was written", "after the last one");
    }
}

static void generate_batch(program *p)
{
    static int32_t prompts[2 * MAX_NUMBERS], ids[2 * MAX_NUMBERS];
    begin_call(p, "tg_gpt_generate_batch");
    tg_generate_config config = tg_generate_config_default();
    config.max_new_tokens = draw_capacity(p);
    config.use_cache = draw_bool(p);
    const int64_t row = config.max_new_tokens, first = draw_capacity(p), counts[] = {first, draw_capacity(p)};
    int64_t new_counts[] = {-7, -7};
    for (int i = 0; i < 2 * MAX_NUMBERS; i++) {
        prompts[i] = (int32_t)(fuzz_byte(&p->input) % 6);
        ids[i] = -7;
    }
    before_call(p);
    bool is_made = tg_gpt_generate_batch(p->tape, p->gpt, prompts, counts, 2, ids, new_counts, &config);
    after_call(p, is_made, tg_tape_error(p->tape));
    for (int64_t i = 0; i < 2 * MAX_NUMBERS; i++) {
        bool is_new = is_made && i < 2 * row && i % row < new_counts[i / row];
        require(is_new || ids[i] == -7, p, "an id was written", "after the last one");
    }
}

static void (*const own_calls[])(program *p) = {new_tensor, new_leaf, reset,   begin_scope, end_scope,     begin_span,
                                                end_span,   retain,   release, generate,    generate_batch};

/* ---- the program ---- */

static void begin(program *p)
{
    tg_tape_config config = tg_tape_config_default();
    unsigned drawn = fuzz_byte(&p->input);
    config.recycle = !(drawn & 1);
    config.detect_freed_results = p->detects_freed = drawn & 2;
    p->run = tg_run_new(drawn);
    p->tape = tg_tape_new(p->run, &config);
    make_reproducible(p);
    p->params = tg_params_new(p->run, drawn & 4 ? TG_F64 : TG_F32);
    p->file = fopen("/dev/null", "w");
    tg_nn_positional_config positions = tg_nn_positional_config_default();
    positions.heads = 2;
    tg_position kind = (tg_position)((drawn >> 3) % (TG_POSITION_NONE + 1));
    p->embedding = tg_nn_embedding_make(p->params, "embedding", 5, 4, NULL);
    p->embedding_bag = tg_nn_embedding_bag_make(p->params, "bag", 5, 4, NULL);
    p->positional = tg_nn_positional_make(p->params, "positional", TG_POSITION_LEARNED, 6, 4, &positions);
    p->positional_of_attention = tg_nn_positional_make(p->params, "relative", kind, 6, 4, &positions);
    p->linear = tg_nn_linear_make(p->params, "linear", 4, 4, TG_BIAS);
    p->layer_norm = tg_nn_layer_norm_make(p->params, "layer_norm", 4, NULL);
    p->batch_norm = tg_nn_batch_norm_make(p->params, "batch_norm", 4, NULL);
    p->rms_norm = tg_nn_rms_norm_make(p->params, "rms_norm", 4, NULL);
    p->norm = tg_nn_norm_make(p->params, "norm", 4, TG_NORM_RMS_PLUS_ONE, 1e-6);
    p->multihead_attention = tg_nn_multihead_attention_make(p->params, "attention", 4, 4, 2, NULL);
    p->feed_forward = tg_nn_feed_forward_make(p->params, "ff", 4, 8, TG_FEED_FORWARD_GELU, NULL);
    p->transformer_block = tg_nn_transformer_block_make(p->params, "block", 4, 2, NULL);
    tg_gpt_config model = tg_gpt_config_default();
    model.vocabulary = 5;
    model.context = 6;
    model.width = 4;
    model.heads = 2;
    model.layers = 1 + (drawn >> 7);
    model.dropout = drawn & 64 ? 0.1 : 0;
    tg_sgd_config momentum = tg_sgd_config_default();
    momentum.momentum = 0.9;
    model.position = kind;
    unsigned objects = fuzz_byte(&p->input);
    tg_adamw_config adamw = tg_adamw_config_default();
    momentum.deferred = adamw.deferred = objects & 16;
    p->gpt = objects % 4 ? tg_gpt_new(p->params, &model) : NULL;
    p->optim = objects / 4 % 4 == 0   ? NULL
               : objects / 4 % 4 == 1 ? tg_sgd_new(p->params, &momentum)
               : objects / 4 % 4 == 2 ? tg_adamw_new(p->params, &adamw)
                                      : tg_sparse_adam_new(p->params, NULL);
    p->cache = tg_kv_cache_new(drawn & 4 ? TG_F64 : TG_F32, model.layers, 1, 2, 6, 4, NULL, NULL);
    fuzz_require(p->cache && p->file && tg_params_error(p->params)->code == TG_OK, "the program cannot begin: %s",
                 tg_params_error(p->params)->text);
    int64_t sizes[] = {2, 3, 4};
    own(p, tg_tensor_new(drawn & 4 ? TG_F64 : TG_F32, tg_shape_make(3, sizes), NULL));
    tg_tensor_fill_normal(p->owned[0], tg_run_rng(p->run), 0, 1, NULL);
    tg_tensor_set_requires_grad(p->owned[0], drawn & 1, NULL);
    own(p, tg_tensor_new(TG_I32, tg_shape_make(2, sizes), NULL));
    tg_tensor_fill_randint(p->owned[1], tg_run_rng(p->run), 0, 5, NULL);
}

static void end(program *p)
{
    if (prints_bits) {
        state last = state_of(p);
        printf("%016llx %016llx\n", (unsigned long long)last.hash[VALUES], (unsigned long long)last.hash[GRADIENTS]);
    }
    tg_optim_free(p->optim);
    tg_gpt_free(p->gpt);
    tg_kv_cache_free(p->cache);
    /* Results that were retained outlive the tape. */
    tg_tape_free(p->tape);
    for (int i = 0; i < p->owned_count; i++) {
        tg_release(p->owned[i]);
    }
    tg_params_free(p->params);
    tg_run_free(p->run);
    fclose(p->file);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static program p;
    memset(&p, 0, sizeof p);
    p.input = (fuzz_input){bytes, size};
    trace_length = 0;
    trace[0] = '\0';
    const char *threads = getenv("TG_FUZZ_BITS");
    prints_bits = threads != NULL;
    if (threads) {
        tg_set_threads(atoi(threads), NULL);
    }
    fuzz_memory_begin();
    begin(&p);
    while (p.input.size > 0 && trace_length < sizeof trace - 2048) {
        unsigned drawn = fuzz_byte(&p.input);
        if (drawn < 64) {
            own_calls[drawn % (sizeof own_calls / sizeof *own_calls)](&p);
        } else {
            int64_t call = (drawn - 64) * 256 + fuzz_byte(&p.input);
            calls[call % (int64_t)(sizeof calls / sizeof *calls)](&p);
        }
    }
    end(&p);
    fuzz_memory_end();
    return 0;
}
