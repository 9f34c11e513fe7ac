/* info: prints the size of a model, computed from its configuration. The model is not created, so a small machine can
 * print the size of gpt2-xl. Only --names and --model create it. Of a file that gpt has not written, info lists the
 * tensors. */
#include "../common/program.h"
#include "../common/terminal.h"
#include "commands.h"
#include "memory.h"

/* Numbers of parameters. */
typedef struct sizes {
    int64_t tokens, positions, attention, feed_forward, norms, final_norm, head, all;
} sizes;

/* Returns the number of position parameters of the whole model: the table of absolute positions, or the parameters of a
 * relative kind. */
static int64_t count_positions(const tg_gpt_config *c)
{
    tg_nn_positional_config p = tg_nn_positional_config_default();
    switch (c->position) {
    case TG_POSITION_LEARNED: return c->context * c->width;
    case TG_POSITION_T5: return p.buckets * c->heads;
    case TG_POSITION_SHAW: return c->layers * 2 * (2 * p.clip + 1) * (c->width / c->heads);
    case TG_POSITION_TRANSFORMER_XL: return c->layers * (c->width + 2) * c->width;
    case TG_POSITION_RELATIVE_KEY:
    case TG_POSITION_RELATIVE_KEY_QUERY: return c->layers * (2 * c->context - 1) * (c->width / c->heads);
    case TG_POSITION_DEBERTA: /* a vector per distance, and per layer two projections with biases */
        return 2 * c->context * c->width + c->layers * 2 * (c->width + 1) * c->width;
    default: return 0;
    }
}

static sizes count_parameters(const tg_gpt_config *c)
{
    int64_t C = c->width, biases = c->qkv_bias ? 3 * C : 0;
    sizes s = {.tokens = c->vocabulary * C,
               .positions = count_positions(c),
               /* queries, keys and values, and the output projection with its bias */
               .attention = 4 * C * C + C + biases,
               /* C -> 4C -> C, with biases */
               .feed_forward = 8 * C * C + 5 * C,
               .norms = 4 * C,
               .final_norm = 2 * C,
               .head = c->tied_head ? 0 : c->vocabulary * C};
    s.all = s.tokens + s.positions + c->layers * (s.attention + s.feed_forward + s.norms) + s.final_norm + s.head;
    return s;
}

static void print_count(const char *what, int64_t count)
{
    printf("  %-34s %15lld\n", what, (long long)count);
}

static void print_bytes(const char *what, double values)
{
    char text[BYTES_TEXT];
    printf("  %-34s %15s\n", what, bytes_text(values * (double)sizeof(float), text));
}

/* Prints the memory of the results of a step, and the sum with that of the parameters. */
static void print_activations(const tg_gpt_config *c, int64_t batch, double parameters)
{
    double kept = (double)batch * (double)c->context * activation_floats(c);
    char label[64];
    snprintf(label, sizeof label, "activations of %lld x %lld, about", (long long)batch, (long long)c->context);
    print_bytes(label, kept);
    print_bytes("together", parameters + kept);
}

static void print_sizes(const tg_gpt_config *c, int64_t batch)
{
    sizes s = count_parameters(c);
    double weights = (double)s.all;
    char blocks[64];
    printf("%lld layers, %lld heads, width %lld, context %lld, vocabulary %lld, dropout %g, head %s\n\nparameters\n",
           (long long)c->layers, (long long)c->heads, (long long)c->width, (long long)c->context,
           (long long)c->vocabulary, c->dropout, c->tied_head ? "tied to the token table" : "with its own weight");
    print_count("token table", s.tokens);
    print_count("position table", s.positions);
    print_count("a block: attention", s.attention);
    print_count("         feed-forward", s.feed_forward);
    print_count("         norms", s.norms);
    snprintf(blocks, sizeof blocks, "%lld blocks", (long long)c->layers);
    print_count(blocks, c->layers * (s.attention + s.feed_forward + s.norms));
    print_count("last norm", s.final_norm);
    print_count("head", s.head);
    print_count("total", s.all);
    printf("\nmemory for training\n");
    print_bytes("weights", weights);
    print_bytes("gradients", weights);
    print_bytes("AdamW's two moments", 2 * weights);
    tg_gpt_config kind = *c;
    kind.activation_checkpointing = false;
    print_activations(&kind, batch, 4 * weights);
    printf("with --activation-checkpointing\n");
    kind.activation_checkpointing = true;
    print_activations(&kind, batch, 4 * weights);
}

static void print_names(const tg_params *params)
{
    printf("\n");
    for (int64_t i = 0; i < tg_params_count(params); i++) {
        char shape[TG_SHAPE_TEXT];
        tg_entry entry = tg_params_at(params, i);
        printf("  %-40s %-16s %12lld%s\n", entry.name, tg_shape_format(tg_tensor_shape(entry.tensor), shape),
               (long long)tg_tensor_count(entry.tensor), entry.kind == TG_ENTRY_ALIAS ? "  alias" : "");
    }
    print_count("all without aliases", tg_params_value_count(params));
}

/* Returns whether the path is a safetensors file without the configuration of a model. */
static bool is_foreign(const char *path)
{
    tg_error error = TG_NO_ERROR;
    char *config = tg_checkpoint_read_text(path, CONFIG_PART, &error);
    tg_text_free(config);
    return error.code == TG_ERROR_VALUE;
}

static bool list_tensors(const char *path)
{
    tg_error error = TG_NO_ERROR;
    tg_safetensors_list *list = tg_safetensors_list_new(path, &error);
    double values = 0;
    for (int64_t i = 0; list && i < list->count; i++) {
        const tg_safetensors_item *item = &list->items[i];
        char shape[TG_SHAPE_TEXT];
        double count = 1;
        for (int axis = 0; axis < item->shape.rank; axis++) {
            count *= (double)item->shape.size[axis];
        }
        print_line(stdout, "  %-40s %-8s %-16s %12.0f", item->name, item->dtype, tg_shape_format(item->shape, shape),
                   count);
        values += count;
    }
    if (list) {
        print_line(stdout, "%s: %lld tensors, %.0f values; gpt has not written it, gpt import reads a GPT-2", path,
                   (long long)list->count, values);
    }
    tg_safetensors_list_free(list);
    return list || complain("%s", error.text);
}

/* Returns the floats of the training of all weights. */
static double more_floats(const tg_gpt_config *config, int64_t values, int64_t window, const options *o)
{
    return training_floats(config, values, 0, o->batch * window);
}

int info(const options *o)
{
    model m = {0};
    tg_gpt_config config;
    if (o->model && is_foreign(o->model)) {
        return list_tensors(o->model) ? 0 : 2;
    }
    model_use use = {.choice = TG_CHECKPOINT_BEST, .more = more_floats, .o = o};
    if (o->model ? !model_load(&m, o->model, &use, NULL) : !model_configure(o, &config)) {
        return 2;
    }
    config = o->model ? *tg_gpt_get_config(m.gpt) : config;
    if (!m.is_published) {
        print_sizes(&config, o->batch);
    }
    bool made = !o->names || m.gpt || model_make(&m, &config, 0);
    if (made && o->names) {
        print_names(m.params);
    }
    model_free(&m);
    return made ? 0 : 2;
}
