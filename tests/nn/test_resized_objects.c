/* Objects that hold a tensor, or a size of one, against the calls that change a tensor's shape, storage, names or
 * freezing: afterwards an object works with the right values, or each use reports an error. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support.h"
#include "with_cache.h"

enum { B = 2, T = 3, C = 8, H = 2, V = 5, CONTEXT = 4 };

static tg_run *run;
static tg_params *params;
static tg_tape *tape;
static tg_tensor *ids;
static tg_error error;

static void begin(void)
{
    run = tg_run_new(5);
    params = tg_params_new(run, TG_F64);
    tape = tg_tape_new(run, NULL);
    ids = tensor_i32(TG_SHAPE(B, T), (const int32_t[]){0, 2, 1, 1, 0, 2});
}

static void end(void)
{
    tg_release(ids);
    tg_tape_free(tape);
    tg_params_free(params);
    tg_run_free(run);
}

/* Returns the largest difference where both have a value. */
static double difference(tg_tensor *a, tg_tensor *b)
{
    double most = tg_tensor_rank(a) == tg_tensor_rank(b) ? 0 : INFINITY;
    for (int axis = 0; axis < tg_tensor_rank(a); axis++) {
        int64_t m = tg_tensor_size(a, axis), n = tg_tensor_size(b, axis);
        a = tg_slice(tape, a, axis, 0, m < n ? m : n, 1);
        b = tg_slice(tape, b, axis, 0, m < n ? m : n, 1);
    }
    for (int64_t i = 0; i < tg_tensor_count(a); i++) {
        most = fmax(most, fabs(tg_tensor_value_at(a, i) - tg_tensor_value_at(b, i)));
    }
    return most;
}

static tg_gpt *model;
static tg_optim *optim;
static tg_loader *loader;
static tg_kv_cache *cache;
static tg_tensor *loss, *logits; /* logits: before the call */
static char inside;              /* a call that is made within a backward */
static bool is_refused;          /* whether the call was */

static tg_tensor *param(const char *name)
{
    return tg_params_find(params, name);
}

static bool call(char c)
{
    const tg_lora_config low = {tg_lora_config_default().mark, 2, 3};
    switch (c) {
    case 't': return tg_tensor_resize_rows(param("tok_emb.weight"), 7, &error);
    case 'h': return tg_tensor_resize_rows(param("out_head.weight"), 7, &error);
    case '1': return tg_tensor_resize_rows(param("out_head.weight"), 1, &error);
    case 'k': return tg_tensor_resize_rows(param("trf_blocks.0.att.W_key.weight"), 16, &error);
    case 'p': return tg_tensor_resize_rows(param("pos_emb.weight"), 3, &error);
    case 'v': return tg_gpt_resize_vocabulary(model, 7);
    case 'w': return tg_gpt_resize_vocabulary(model, 4);
    case 'c': return tg_gpt_extend_context(model, 6);
    case 'r': return tg_gpt_replace_head(model, 4);
    case 'l': return tg_gpt_add_lora(model, "*", &low);
    case 'm': return tg_gpt_merge_lora(model);
    case 'f': return tg_params_set_frozen(params, "*", true);
    case 'z': return tg_tensor_set_rows_frozen(param("tok_emb.weight"), 4, 1, true, &error);
    case 'a': return tg_params_add_alias(params, "twin.weight", "out_head.weight");
    case 's': return tg_tensor_set_shard(param("out_head.weight"), 0, 9, &error);
    case 'L':
        return tg_params_save(params, "objects.safetensors", NULL, &error) &&
               tg_params_load(params, "objects.safetensors", NULL, &error);
    default: return true;
    }
}

static void on_gradient(void *context, tg_tensor *x)
{
    (void)context, (void)x;
    is_refused = is_refused || !call(inside);
    inside = '-';
}

static tg_tensor *forward(void)
{
    return tg_gpt_forward(tape, model, ids, NULL);
}

static bool use(char u)
{
    tg_backward_config config = tg_backward_config_default();
    config.on_gradient = on_gradient;
    const tg_checkpoint_part parts[] = {tg_checkpoint_params("model", params), tg_checkpoint_optim("optim", optim)};
    tg_generate_config generate = tg_generate_config_default();
    generate.max_new_tokens = 2;
    tg_batch batch;
    if (u != 'h' && u != 'o') {
        tg_tape_reset(tape);
        tg_optim_flush(optim);
    }
    tg_tensor *before = u == 'm' ? forward() : NULL;
    if (u == 'm') {
        clear_tape_error(tape);
    }
    switch (u) {
    case 'h': return (!loss || tg_backward(tape, loss, &config)) && (!loader || tg_loader_next(loader, &batch));
    case 'f':
        return forward() && (tg_tape_set_recording(tape, !cache), tg_gpt_forward(tape, model, ids, with_cache(cache)));
    case 'g': return tg_gpt_generate(tape, model, (int32_t[]){1, 2}, 2, (int32_t[2]){0}, &generate) == 2;
    case 's': return tg_gpt_save(model, ".", NULL, &error);
    case 'b':
        tg_tape_set_recording(tape, true);
        loss = tg_gpt_loss(tape, model, ids, ids, NULL);
        return loss && (!tg_tensor_requires_grad(loss) || tg_backward(tape, loss, NULL));
    case 'o': return tg_optim_step(optim) || !optim;
    case 'k':
        return tg_checkpoint_save("objects.safetensors", parts, optim ? 2 : 1, &error) &&
               tg_checkpoint_load("objects.safetensors", parts, optim ? 2 : 1, &error);
    default: /* merging changes no logits */
        return tg_gpt_merge_lora(model) && (!before || difference(before, forward()) < 1e-12);
    }
}

static void make(char object)
{
    tg_gpt_config config = tg_gpt_config_default();
    config.vocabulary = V, config.context = CONTEXT, config.width = C, config.heads = H, config.layers = 1;
    config.tied_head = object == 't';
    config.activation_checkpointing = object == 's';
    model = tg_gpt_new(params, &config);
    optim = NULL, loader = NULL, cache = NULL, loss = NULL, inside = '-';
    tg_adam_config adam = tg_adam_config_default();
    adam.deferred = object == 'd';
    tg_loader_config load = tg_loader_config_default();
    load.batch_size = 2;
    if (strchr("lar", object)) {
        call('l');
        tg_tensor_fill_normal(param("out_head.lora_B.weight"), tg_run_rng(run), 0, 1, NULL);
    }
    optim = strchr("ad", object) ? tg_adam_new(params, &adam) : NULL;
    assert_true(!optim || (use('b') && use('o')));
    tg_optim_zero_grad(optim);
    tg_tape_reset(tape);
    logits = tg_tensor_new_copy(forward(), NULL);
    tg_tape_reset(tape);
    loss = strchr("rsi", object) ? tg_gpt_loss(tape, model, ids, ids, NULL) : NULL;
    cache = object == 'c' ? tg_kv_cache_new(TG_F64, 1, B, H, 6, C, NULL, NULL) : NULL;
    tg_tensor *table = param("out_head.weight");
    loader = object == 'L' ? tg_loader_new_from_tensors(run, &table, 1, &load) : NULL;
}

/* Returns whether there is an error, and clears all. */
static bool take_error(void)
{
    tg_code code = error.code | tg_tape_error(tape)->code | tg_params_error(params)->code;
    tg_error_clear(&error);
    clear_tape_error(tape);
    clear_params_error(params);
    return code != TG_OK;
}

/* The objects: m a model, t with a tied head, l with LoRA; a an optimizer of a model with LoRA, d one with deferred
 * steps; r a recorded loss of a model with LoRA, s with activation checkpointing; c a cache, L a loader; i: the call is
 * made within a backward. Behind each the calls that are refused (C), or after which these uses are. */
static const char *const expected[] = {
    "m t=s h=gs 1=gsb k=fgsb p=s r=gs s=sk",
    "t t=gs h=gs 1=fgsb k=fgsb p=s r=gs s=sk",
    "l t=s h=fgsbm 1=fgsbm k=fgsbm p=s r=gs l=C s=sk",
    "a t=s h=fgsbm 1=fgsbm k=fgsbm p=s r=gsok l=C m=ok s=sk",
    "d t=C h=gs 1=gsb k=fgsb p=s v=C w=C r=gsok l=ok z=C s=sk L=C",
    "r t=hs h=hfgsbm 1=hfgsbm k=hfgsbm p=C v=h w=h c=C r=gs l=C m=h s=sk L=h",
    "s t=hs h=hgs 1=hgsb k=hfgsb p=C v=h w=h c=C r=gs s=sk L=h",
    "c t=s h=gs 1=gsb k=fgsb p=s r=gs s=sk",
    "L t=s h=hgs 1=hgsb k=fgsb p=s v=h w=h r=gs s=sk",
    "i t=C h=C 1=C k=C p=C v=C w=C c=C r=gs f=C s=sk",
};

static void test_gpt(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        char found[200] = {expected[i][0]};
        for (const char *c = "-th1kpvwcrlmfzasL"; *c; c++) {
            begin();
            make(expected[i][0]);
            inside = expected[i][0] == 'i' ? *c : '-';
            is_refused = false;
            bool is_done = expected[i][0] == 'i' ? use('h') : call(*c);
            is_refused = is_refused || !is_done;
            loss = expected[i][0] == 'i' ? NULL : loss;
            char refused[12] = {0};
            for (const char *u = "Chfgsbokm"; *u; u++) {
                if (*u == 'C' ? is_refused : !use(*u)) {
                    assert_true(take_error());
                    refused[strlen(refused)] = *u;
                } else if (*u == 'f' && strchr("-vwlmfzasL", *c)) {
                    assert_true(difference(logits, forward()) < 1e-12);
                }
            }
            if (*refused) {
                snprintf(found + strlen(found), 20, " %c=%s", *c, refused);
            }
            tg_release(logits);
            tg_optim_free(optim);
            tg_loader_free(loader);
            tg_kv_cache_free(cache);
            tg_gpt_free(model);
            end();
        }
        assert_string_equal(found, expected[i]);
    }
}

static void test_others(void **state)
{
    (void)state;
    begin();
    tg_tensor *x = tg_tensor_new(TG_F64, TG_SHAPE(B, T, C), NULL);
    tg_tensor_fill_normal(x, tg_run_rng(run), 0, 1, NULL);
    /* positions that share a projection see its LoRA, as they see the merged weight */
    tg_nn_positional_config config = tg_nn_positional_config_default();
    config.heads = H;
    config.shared_projections = true;
    tg_nn_positional positions = tg_nn_positional_make(params, "p", TG_POSITION_DEBERTA, T, C, &config);
    tg_nn_multihead_attention_config c = tg_nn_multihead_attention_config_default();
    c.layout = TG_ATTENTION_SEPARATE;
    c.positional = &positions;
    tg_nn_multihead_attention a = tg_nn_multihead_attention_make(params, "m", C, C, H, &c);
    const tg_lora_config low = {tg_lora_config_default().mark, 2, 3};
    assert_true(tg_nn_linear_add_lora(params, &a.key, &low));
    tg_tensor_fill_normal(param("m.W_key.lora_B.weight"), tg_run_rng(run), 0, 1, NULL);
    tg_tensor *before = tg_nn_multihead_attention_forward(tape, &a, x, NULL);
    assert_true(tg_nn_linear_merge_lora(params, &a.key));
    assert_true(difference(before, tg_nn_multihead_attention_forward(tape, &a, x, NULL)) < 1e-14);
    /* of three packed projections, queries and keys read parts */
    tg_nn_multihead_attention cross = tg_nn_multihead_attention_make(params, "cross", C, C, H, NULL);
    tg_nn_multihead_attention_forward_config keys = tg_nn_multihead_attention_forward_config_default();
    keys.key = x;
    assert_true(tg_tensor_resize_rows(cross.in_proj_weight, 4 * C, &error));
    assert_null(tg_nn_multihead_attention_forward(tape, &cross, x, &keys));
    assert_tape_error(tape, TG_ERROR_SHAPE, "in_proj_weight has 32 rows, and in_proj_bias 24; it must be 24");
    tg_release(x);
    /* the messages, with both shapes */
    make('l');
    assert_true(call('h'));
    assert_null(forward());
    static const char *const text = "the weight is (7,8), lora_A.weight (2,8) and lora_B.weight (5,2); they must be "
                                    "(out,in), (rank,in) and (out,rank)";
    assert_tape_error(tape, TG_ERROR_SHAPE, text);
    assert_false(call('m'));
    assert_params_error(params, TG_ERROR_SHAPE, text);
    assert_false(use('s'));
    assert_error(&error, TG_ERROR_SHAPE,
                 "gpt_save: 'out_head.weight' is (7,8); in a model of this config it must be (5,8)");
    tg_release(logits);
    tg_gpt_free(model);
    end();
    begin();
    /* the alias of a head that is replaced keeps it, as a parameter of its own */
    make('m');
    assert_true(call('a') && call('r') && call('L'));
    assert_int_equal(tg_params_at(params, tg_params_count(params) - 2).kind, TG_ENTRY_PARAMETER);
    tg_release(logits);
    tg_gpt_free(model);
    end();
}

static char folder[] = "resized_objects.XXXXXX";

static int enter_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? chdir(folder) : -1;
}

static int leave_folder(void **state)
{
    (void)state;
    remove("model.safetensors");
    remove("config.json");
    remove("objects.safetensors");
    return chdir("..") == 0 ? rmdir(folder) : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gpt),
        cmocka_unit_test(test_others),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
