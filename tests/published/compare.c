/* compare FOLDER NAME.figures OUT f32|f64: opens a published folder, and compares what the model computes with the
 * figures of transformers (tests/published/make.py): logits, losses, the gradient of every tensor, and 50 greedy tokens
 * with a cache, without one, and of several texts together, with and without padding. Saves the model in the folder
 * OUT/saved, for transformers.
 *
 * Then it opens peft's adapter NAME.adapter, and compares the losses of a training; and NAME.trained, whose logits are
 * compared, and which is saved in the folder OUT/adapter, for peft.
 *
 * The gradients of a model have its shapes, so they are written as the weights of a model, in OUT/gradients, which
 * gives them the names that transformers has.
 *
 * Prints the largest difference of each figure, and its tensor. The exit status is 0 if no difference is above its
 * limit, 1 if one is, and 2 if the folder cannot be opened. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tapegrad.h>

#define TEXT 4000
#define TOKENS 50
#define PROMPTS 3

typedef struct comparison {
    const char *folder, *figures, *out;
    /* "" or "64.", of the names of the figures */
    const char *prefix;
    tg_dtype dtype;
    tg_run *run;
    tg_error error;
    bool is_equal;
} comparison;

typedef struct limits {
    double logits, loss, gradient;
} limits;

static const limits limits_of[] = {[TG_F32] = {2e-5, 1e-6, 1e-4}, [TG_F64] = {1e-9, 1e-9, 1e-9}};

/* The figures of LoRA are in f32 alone. */
#define LORA_LOSSES 2e-5
#define LORA_LOGITS 1e-4

/* ---- figures ---- */

/* Ends the program with an error. */
static void stop(const comparison *c, const char *what, const tg_error *error)
{
    printf("%s: %s: %s\n", c->folder, what, error->code != TG_OK ? error->text : "failed");
    exit(2);
}

/* Returns a figure that every file has. */
static tg_tensor *figure(comparison *c, const char *prefix, const char *name)
{
    char full[TEXT];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    tg_tensor *x = tg_tensor_new_from_safetensors(c->figures, full, &c->error);
    if (!x) {
        stop(c, full, &c->error);
    }
    return x;
}

static void path_of(const comparison *c, const char *name, char text[TEXT])
{
    snprintf(text, TEXT, "%s/%s", c->out, name);
}

/* Prints a difference. */
static void report(comparison *c, const char *name, double difference, double limit, const char *where)
{
    bool is_equal = difference <= limit; /* not so for NaN */
    c->is_equal = c->is_equal && is_equal;
    printf("%s %s %s: %.2g of %g%s%s%s\n", c->folder, c->dtype == TG_F32 ? "f32" : "f64", name, difference, limit,
           *where ? ", " : "", where, is_equal ? "" : ": DIFFERENT");
}

/* Returns the largest difference, or NaN. */
static double difference_of(const tg_tensor *x, const tg_tensor *expected)
{
    double most = tg_shape_equal(tg_tensor_shape(x), tg_tensor_shape(expected)) ? 0 : NAN;
    for (int64_t i = 0; i < tg_tensor_count(expected) && !isnan(most); i++) {
        double difference = fabs(tg_tensor_value_at(x, i) - tg_tensor_value_at(expected, i));
        most = difference > most || isnan(difference) ? difference : most;
    }
    return most;
}

static double largest_of(const tg_tensor *x)
{
    double most = 0;
    for (int64_t i = 0; i < tg_tensor_count(x); i++) {
        most = fmax(most, fabs(tg_tensor_value_at(x, i)));
    }
    return most;
}

/* ---- the parts ---- */

static tg_gpt *open_model(comparison *c, const char *folder, tg_params **params)
{
    *params = tg_params_new(c->run, c->dtype);
    tg_gpt *model = tg_gpt_open(*params, folder, NULL);
    if (!model) {
        stop(c, "open", tg_params_error(*params));
    }
    return model;
}

static void compare_logits(comparison *c, tg_tape *t, const tg_gpt *model, tg_tensor *ids, tg_tensor *targets)
{
    tg_tensor *expected = figure(c, c->prefix, "logits"), *loss = figure(c, c->prefix, "loss");
    tg_tensor *logits = tg_gpt_forward(t, model, ids, NULL);
    tg_tensor *entropy = tg_cross_entropy(t, logits, targets, NULL);
    if (!entropy) {
        stop(c, "forward", tg_tape_error(t));
    }
    double relative = fmax(1, largest_of(loss));
    report(c, "logits", difference_of(logits, expected), limits_of[c->dtype].logits, "");
    report(c, "loss", difference_of(entropy, loss) / relative, limits_of[c->dtype].loss, "");
    tg_release(expected);
    tg_release(loss);
}

/* Writes the gradients in the place of the parameters, and compares them in the file of a model. */
static void compare_gradients(comparison *c, tg_tape *t, tg_gpt *model, tg_params *params, tg_tensor *ids,
                              tg_tensor *targets)
{
    char path[TEXT];
    tg_tensor *loss = figure(c, c->prefix, "loss"), *result = tg_gpt_loss(t, model, ids, targets, NULL);
    if (!tg_backward(t, result, NULL)) {
        stop(c, "backward", tg_tape_error(t));
    }
    report(c, "loss and gradients", difference_of(result, loss) / fmax(1, largest_of(loss)), limits_of[c->dtype].loss,
           "");
    for (int64_t i = 0; i < tg_params_count(params); i++) {
        tg_tensor *x = tg_params_at(params, i).tensor, *gradient = tg_tensor_new_dense_grad(x, &c->error);
        if (gradient ? !tg_tensor_copy_from(x, gradient, &c->error) : tg_tensor_requires_grad(x)) {
            stop(c, tg_params_at(params, i).name, &c->error);
        }
        tg_release(gradient);
    }
    path_of(c, "gradients", path);
    if (!tg_gpt_save(model, path, NULL, &c->error)) {
        stop(c, "save the gradients", &c->error);
    }
    path_of(c, "gradients/model.safetensors", path);
    tg_safetensors_list *list = tg_safetensors_list_new(c->figures, &c->error);
    char start[TEXT], where[TEXT] = "";
    snprintf(start, sizeof start, "%sgradient.", c->prefix);
    double most = 0;
    for (int64_t i = 0; list && i < list->count && !isnan(most); i++) {
        if (strncmp(list->items[i].name, start, strlen(start)) == 0) {
            const char *name = list->items[i].name + strlen(start);
            tg_tensor *expected = figure(c, start, name);
            tg_tensor *x = tg_tensor_new_from_safetensors(path, name, &c->error);
            double difference = x ? difference_of(x, expected) / largest_of(expected) : NAN;
            if (difference >= most || isnan(difference)) {
                most = difference;
                snprintf(where, sizeof where, "%s", name);
            }
            tg_release(expected);
            tg_release(x);
        }
    }
    report(c, "gradients", *where ? most : NAN, limits_of[c->dtype].gradient, where);
    tg_safetensors_list_free(list);
    tg_release(loss);
}

/* Counts the tokens before the first one that differs. */
static int64_t equal_tokens(const tg_tensor *expected, const int32_t *ids, int64_t count)
{
    int64_t equal = 0;
    while (equal < count && ids[equal] == (int32_t)tg_tensor_value_at(expected, equal)) {
        equal++;
    }
    return equal;
}

/* Returns how many tokens all texts together miss. */
static double missing_tokens(tg_tensor *const *expected, const int32_t *ids, const int64_t *counts)
{
    int64_t missing = 0;
    for (int64_t i = 0; i < PROMPTS; i++) {
        missing += TOKENS - equal_tokens(expected[i], ids + i * TOKENS, counts[i]);
    }
    return (double)missing;
}

/* A model whose shorter texts begin with padding, and its cache. */
typedef struct padded_model {
    const tg_gpt *model;
    tg_kv_cache *cache;
} padded_model;

static tg_tensor *step_with_padding(tg_tape *t, const tg_generate_pass *pass, void *context)
{
    padded_model *p = context;
    if (pass->start == 0) {
        tg_kv_cache_free(p->cache);
        p->cache = pass->cache_context > 0 ? tg_gpt_new_cache(p->model, PROMPTS, pass->cache_context) : NULL;
    }
    tg_gpt_forward_config config = tg_gpt_forward_config_default();
    config.cache = p->cache;
    config.positions = pass->positions;
    config.first_keys = pass->first_keys;
    return tg_gpt_last_logits(t, p->model, pass->ids, &config);
}

/* Generates from all prompts with padding. */
static bool generate_padded(tg_tape *t, const tg_gpt *model, const int32_t *prompts, const int64_t *counts,
                            int32_t *ids, int64_t *new_counts, const tg_generate_config *config)
{
    const tg_gpt_config *c = tg_gpt_get_config(model);
    padded_model padded = {.model = model};
    const tg_language_model any = {step_with_padding, &padded, c->vocabulary, c->context, true};
    bool is_good = tg_generate(t, &any, prompts, counts, PROMPTS, ids, new_counts, config);
    tg_kv_cache_free(padded.cache);
    return is_good;
}

static void compare_tokens(comparison *c, tg_tape *t, const tg_gpt *model)
{
    tg_generate_config config = tg_generate_config_default();
    tg_tensor *prompts[PROMPTS], *expected[PROMPTS];
    int32_t all[TEXT], ids[PROMPTS * TOKENS];
    int64_t counts[PROMPTS], new_counts[PROMPTS] = {0}, total = 0;
    config.max_new_tokens = TOKENS;
    for (int i = 0; i < PROMPTS; i++) {
        char name[32];
        snprintf(name, sizeof name, "prompt.%d", i);
        prompts[i] = figure(c, "", name);
        snprintf(name, sizeof name, "next.%d", i);
        expected[i] = figure(c, "", name);
        counts[i] = tg_tensor_count(prompts[i]);
        memcpy(all + total, tg_tensor_data(prompts[i]), (size_t)counts[i] * sizeof *all);
        total += counts[i];
    }
    for (int use_cache = 0; use_cache < 2; use_cache++) {
        config.use_cache = use_cache;
        for (int i = 0; i < PROMPTS; i++) {
            new_counts[i] =
                tg_gpt_generate(t, model, tg_tensor_data(prompts[i]), counts[i], ids + (int64_t)i * TOKENS, &config);
            if (new_counts[i] < 0) {
                stop(c, "generate", tg_tape_error(t));
            }
        }
        report(c, use_cache ? "tokens with a cache" : "tokens without a cache",
               missing_tokens(expected, ids, new_counts), 0, "");
        if (!generate_padded(t, model, all, counts, ids, new_counts, &config)) {
            stop(c, "generate with padding", tg_tape_error(t));
        }
        report(c, use_cache ? "tokens with padding and a cache" : "tokens with padding",
               missing_tokens(expected, ids, new_counts), 0, "");
    }
    if (!tg_gpt_generate_batch(t, model, all, counts, PROMPTS, ids, new_counts, &config)) {
        stop(c, "generate_batch", tg_tape_error(t));
    }
    report(c, "tokens of texts together", missing_tokens(expected, ids, new_counts), 0, "");
    for (int i = 0; i < PROMPTS; i++) {
        tg_release(prompts[i]);
        tg_release(expected[i]);
    }
}

/* ---- LoRA ---- */

/* Opens the model, and adds an adapter of make.py. */
static tg_gpt *open_adapter(comparison *c, const char *end, tg_params **params)
{
    char folder[TEXT];
    tg_gpt *model = open_model(c, c->folder, params);
    snprintf(folder, sizeof folder, "%.*s%s", (int)(strlen(c->figures) - strlen(".figures")), c->figures, end);
    if (!tg_params_set_frozen(*params, "*", true) || !tg_gpt_open_adapter(model, folder)) {
        stop(c, "open the adapter", tg_params_error(*params));
    }
    return model;
}

/* Trains with the two texts in turn, as make.py does. */
static void compare_training(comparison *c, tg_tape *t, tg_tensor *ids, tg_tensor *targets)
{
    tg_params *params;
    tg_gpt *model = open_adapter(c, ".adapter", &params);
    tg_adamw_config config = tg_adamw_config_default();
    config.lr = 1e-2;
    tg_optim *optim = tg_adamw_new(params, &config);
    tg_tensor *losses = figure(c, "adapter.", "losses");
    double most = 0;
    for (int64_t step = 0; step < tg_tensor_count(losses); step++) {
        int64_t i = step % 2;
        tg_tensor *loss =
            tg_gpt_loss(t, model, tg_slice(t, ids, 0, i, i + 1, 1), tg_slice(t, targets, 0, i, i + 1, 1), NULL);
        tg_optim_zero_grad(optim);
        if (!tg_backward(t, loss, NULL) || !tg_optim_step(optim)) {
            stop(c, "train", tg_tape_error(t));
        }
        most = fmax(most, fabs(tg_tensor_item(loss, NULL) - tg_tensor_value_at(losses, step)));
        tg_tape_reset(t);
    }
    report(c, "losses of LoRA", most, LORA_LOSSES, "");
    tg_release(losses);
    tg_optim_free(optim);
    tg_gpt_free(model);
    tg_params_free(params);
}

/* Compares what peft has trained, and writes it for peft. */
static void compare_trained(comparison *c, tg_tape *t, tg_tensor *ids)
{
    char path[TEXT];
    tg_params *params;
    tg_gpt *model = open_adapter(c, ".trained", &params);
    tg_tensor *expected = figure(c, "adapter.", "logits"), *logits = tg_gpt_forward(t, model, ids, NULL);
    report(c, "logits of LoRA", difference_of(logits, expected), LORA_LOGITS, "");
    path_of(c, "adapter", path);
    if (!tg_gpt_save_adapter(model, path, &c->error)) {
        stop(c, "save the adapter", &c->error);
    }
    tg_release(expected);
    tg_tape_reset(t);
    tg_gpt_free(model);
    tg_params_free(params);
}

static void compare_model(comparison *c)
{
    char path[TEXT];
    tg_params *params;
    tg_gpt *model = open_model(c, c->folder, &params);
    tg_tensor *ids = figure(c, "", "ids"), *targets = figure(c, "", "targets");
    tg_tape *t = tg_tape_new(c->run, NULL);
    tg_tape_set_training(t, false);
    compare_logits(c, t, model, ids, targets);
    tg_tape_reset(t);
    compare_tokens(c, t, model);
    path_of(c, "saved", path);
    if (!tg_gpt_save(model, path, NULL, &c->error)) {
        stop(c, "save", &c->error);
    }
    tg_tape_reset(t);
    compare_gradients(c, t, model, params, ids, targets);
    tg_tape_reset(t);
    tg_gpt_free(model);
    tg_params_free(params);
    compare_training(c, t, ids, targets);
    compare_trained(c, t, ids);
    tg_release(ids);
    tg_release(targets);
    tg_tape_free(t);
}

int main(int argc, char **argv)
{
    if (argc != 5 || (strcmp(argv[4], "f32") != 0 && strcmp(argv[4], "f64") != 0)) {
        fputs("usage: compare FOLDER NAME.figures OUT f32|f64\n", stderr);
        return 2;
    }
    bool is_double = strcmp(argv[4], "f64") == 0;
    comparison c = {.folder = argv[1],
                    .figures = argv[2],
                    .out = argv[3],
                    .prefix = is_double ? "64." : "",
                    .dtype = is_double ? TG_F64 : TG_F32,
                    .run = tg_run_new(1),
                    .error = TG_NO_ERROR,
                    .is_equal = true};
    compare_model(&c);
    tg_run_free(c.run);
    return c.is_equal ? 0 : 1;
}
